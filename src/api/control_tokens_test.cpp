// Whatever a client writes, and wherever it may, is text: with a control token's name in any one place of a request its
// prompt has as many control tokens as with harmless words there, which are the template's own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <variant>

#include "api/anthropic/request.h"
#include "api/embedding/embeddings.h"
#include "api/frames/message.h"
#include "api/ollama/request.h"
#include "api/openai/embeddings.h"
#include "api/openai/request.h"
#include "api/responses/request.h"
#include "api/tokenize_endpoints.h"
#include "base/testing/test_data.h"
#include "base/text/utf8.h"
#include "chat/chat_prompt.h"
#include "chat/pair_prompts.h"
#include "loader/model_load.h"
#include "tokenizer/test_support.h"

namespace cairn::api {
namespace {

using nlohmann::ordered_json;

/// A place in a request: the string at a path, or a key of the object there.
struct Place {
  ordered_json::json_pointer path;
  std::optional<std::string> key;

  std::string text() const { return path.to_string() + (key ? " key " + *key : ""); }
};

void find_places(const ordered_json& value, const ordered_json::json_pointer& path, std::vector<Place>& places) {
  if (value.is_string()) places.push_back({path, std::nullopt});
  if (!value.is_structured()) return;
  for (const auto& [key, inner] : value.items()) {
    if (value.is_object()) places.push_back({path, key});
    find_places(inner, value.is_object() ? path / key : path / static_cast<size_t>(std::stoul(key)), places);
  }
}

ordered_json with_text(const ordered_json& body, const Place& place, const std::string& text) {
  ordered_json changed = body;
  ordered_json& at = changed[place.path];
  if (!place.key) {
    at = text;
    return changed;
  }
  ordered_json renamed = ordered_json::object();
  for (const auto& [key, value] : at.items()) renamed[key == *place.key ? text : key] = value;
  at = std::move(renamed);
  return changed;
}

struct ProtocolCase {
  const char* name;
  const char* body;
  std::optional<chat::ChatInput> (*parse)(const ordered_json&);
  size_t places_min;  ///< so many at least take any text
};

constexpr ProtocolCase kProtocols[] = {
    {"OpenAI chat", R"({
       "messages": [
         {"role": "system", "content": "Be terse."},
         {"role": "user", "name": "ann", "content": [{"type": "text", "text": "Hi"}, {"type": "text", "text": "there"}]},
         {"role": "assistant", "content": "Let me see.", "reasoning_content": "Hm.", "tool_calls": [
           {"id": "call00001", "type": "function", "function": {"name": "look", "arguments": "{\"where\": \"here\"}"}}]},
         {"role": "tool", "tool_call_id": "call00001", "name": "look", "content": "Nothing."},
         {"role": "assistant", "content": "Nothing there."},
         {"role": "user", "content": "Look again."}],
       "tools": [{"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": {
         "type": "object", "title": "L", "properties": {"where": {"type": "string", "description": "A place.",
         "enum": ["here", "there"], "default": "here"}}, "required": ["where"]}}}],
       "chat_template_kwargs": {"mood": "glad", "notes": {"deep": ["one"]}}})",
     [](const ordered_json& body) -> std::optional<chat::ChatInput> {
       RequestContext context;
       auto request = openai::parse_chat(context, body);
       return request ? std::optional(std::move(request->chat.input)) : std::nullopt;
     },
     20},
    {"OpenAI responses", R"({
       "instructions": "Be terse.",
       "input": [
         {"role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
         {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]},
         {"type": "function_call", "call_id": "call1", "name": "look", "arguments": "{\"where\": \"here\"}"},
         {"type": "function_call_output", "call_id": "call1", "output": "Nothing."},
         {"role": "assistant", "content": "Nothing there."},
         {"role": "user", "content": "Look again."}],
       "tools": [{"type": "function", "name": "look", "description": "Looks.", "parameters": {"type": "object",
         "properties": {"where": {"type": "string", "description": "A place."}}}}]})",
     [](const ordered_json& body) -> std::optional<chat::ChatInput> {
       RequestContext context;
       auto request = responses::parse_responses(context, body, {});
       return request ? std::optional(std::move(request->chat.input)) : std::nullopt;
     },
     10},
    {"Anthropic messages", R"({
       "model": "m", "max_tokens": 9, "system": [{"type": "text", "text": "Be terse."}],
       "messages": [
         {"role": "user", "content": "Hi"},
         {"role": "assistant", "content": [{"type": "text", "text": "Let me see."},
           {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"where": "here"}}]},
         {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "Nothing."},
           {"type": "text", "text": "Look again."}]}],
       "tools": [{"name": "look", "description": "Looks.", "input_schema": {"type": "object", "properties": {
         "where": {"type": "string", "description": "A place."}}}}]})",
     [](const ordered_json& body) -> std::optional<chat::ChatInput> {
       RequestContext context;
       auto request = anthropic::parse_messages(context, body, anthropic::Purpose::kAnswer);
       return request ? std::optional(std::move(request->chat.input)) : std::nullopt;
     },
     10},
    {"Ollama chat", R"({
       "model": "m", "messages": [
         {"role": "system", "content": "Be terse."},
         {"role": "user", "content": "Hi"},
         {"role": "assistant", "content": "Let me see.", "thinking": "Hm.", "tool_calls": [
           {"function": {"name": "look", "arguments": {"where": "here"}}}]},
         {"role": "tool", "tool_name": "look", "content": "Nothing."},
         {"role": "user", "content": "Look again."}],
       "tools": [{"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": {
         "type": "object", "properties": {"where": {"type": "string", "description": "A place."}}}}}]})",
     [](const ordered_json& body) -> std::optional<chat::ChatInput> {
       RequestContext context;
       auto request = ollama::parse_chat(context, body);
       return request ? std::optional(std::move(request->chat.input)) : std::nullopt;
     },
     10},
    {"Ollama generate", R"({"model": "m", "system": "Be terse.", "prompt": "Hi"})",
     [](const ordered_json& body) -> std::optional<chat::ChatInput> {
       RequestContext context;
       auto request = ollama::parse_generate(context, body);
       return request ? std::optional(std::move(request->chat.input)) : std::nullopt;
     },
     2},
    {"llama.cpp apply-template", R"({"messages": [{"role": "system", "content": "Be terse."},
       {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}, {"role": "user", "content": "So?"}]})",
     [](const ordered_json& body) -> std::optional<chat::ChatInput> {
       RequestContext context;
       auto request = parse_apply_template(context, body);
       return request ? std::optional(std::move(request->input)) : std::nullopt;
     },
     4},
    {"frames", R"({"id": "a", "messages": [{"role": "system", "content": "Be terse."},
       {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}, {"role": "user", "content": "So?"}]})",
     [](const ordered_json& body) -> std::optional<chat::ChatInput> {
       RequestContext context;
       auto message = frames::parse_message(context, body.dump());
       auto* chat = message ? std::get_if<frames::Chat>(&*message) : nullptr;
       return chat == nullptr ? std::nullopt : std::optional(std::move(chat->request.input));
     },
     4},
};

/// Protocols whose request a template may refuse: Mistral's wants calls' ids of nine letters.
constexpr size_t kRefusedMax = 3;

struct Vocabulary {
  const char* name;
  const char* chat_template;
};

constexpr Vocabulary kVocabularies[] = {{"llama-bpe", "meta-llama-Llama-3.1-8B-Instruct"},
                                        {"qwen2", "Qwen-Qwen3-0.6B"},
                                        {"phi-3", "microsoft-Phi-3.5-mini-instruct"},
                                        {"gemma-4", "google-gemma-4-31B-it"},
                                        {"deepseek-llm", "deepseek-ai-DeepSeek-V3.1"},
                                        {"command-r", "CohereForAI-c4ai-command-r7b-12-2024-tool_use"},
                                        {"llama-spm", "mistralai-Mistral-Nemo-Instruct-2407"}};

// Shows all that it is given, in many ways, between tokens that it writes itself: C stands for one.
constexpr std::string_view kShowsAll = R"({{ bos_token }}{% for m in messages %}C{{ m.role }}
{{ m.content }}{{ m.content | trim if m.content is string }}{{ m.reasoning_content }}{{ m.name }}{{ m.tool_call_id }}
{%- for key, value in m.items() %}{{ key }}={{ value }}{% endfor %}
{%- for call in m.tool_calls or [] %}{{ call.id }}{{ call.function.name ~ ':' ~ call.function.arguments | tojson }}
{%- endfor %}{{ (m | tojson)[1:-1] | upper | lower }}C
{% endfor %}{{ tools | default(none) | tojson(indent=2) }}{{ tools }}{% for t in tools or [] %}{{ '%s' | format(t.function.name) }}{{
t.function.description | replace('x', 'y') }}{% for k, v in t.function.parameters.properties | items %}{{ k }}{{ v }}{%
endfor %}{% endfor %}{{ mood }}{{ notes }}C)";

class ControlTokens : public testing::TestWithParam<Vocabulary> {
 protected:
  void SetUp() override {
    loader::LoadOptions options;
    options.device.cpu.threads = 1;
    auto model = loader::load_model_file(test_data("/models/llama.gguf"), options);
    ASSERT_TRUE(model.has_value()) << model.error().text();
    model_ = std::move(*model);
    // The vocabulary of another model: prompts are made, and nothing is run.
    auto file = gguf::Reader::open(test_data() + "/tokenizers/ggml-vocab-" + GetParam().name + ".gguf");
    ASSERT_TRUE(file.has_value()) << file.error().text();
    auto tokenizer = tokenizer::Tokenizer::load(file->metadata());
    ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().text();
    models_own_ = std::exchange(model_->tokenizer, std::move(*tokenizer));
    for (int32_t i = 0; i < model_->tokenizer->size(); ++i) {
      const TokenId id{i};
      const std::string_view text = model_->tokenizer->piece(id, true);
      if (model_->tokenizer->is_control(id) && text.size() > 1) controls_.emplace_back(text);
    }
    ASSERT_FALSE(controls_.empty());
  }
  void TearDown() override {
    if (model_ != nullptr) std::swap(model_->tokenizer, models_own_);  // the engine has a reference to it
  }
  void use_template(std::string_view source) {
    const tokenizer::SpecialTokens& special = model_->tokenizer->special();
    const auto text = [&](TokenId id) { return std::string(model_->tokenizer->piece(id, true)); };
    auto made = chat::ChatTemplate::create(source, text(special.bos), text(special.eos));
    ASSERT_TRUE(made.has_value()) << made.error().text();
    model_->chat_template = std::move(*made);
  }
  void use_published_template() {
    std::ifstream file(test_data() + "/chat-templates/" + GetParam().chat_template + ".jinja", std::ios::binary);
    std::ostringstream source;
    source << file.rdbuf();
    ASSERT_FALSE(source.str().empty());
    use_template(source.str());
  }
  void use_template_that_shows_all(const std::string& control) {
    std::string source(kShowsAll);
    for (size_t at = source.find('C'); at != std::string::npos; at = source.find('C', at + control.size()))
      source.replace(at, 1, control);
    use_template(source);
  }
  /// Control tokens of the prompt; nullopt: it cannot be made.
  std::optional<size_t> control_count(const std::optional<chat::ChatInput>& input) const {
    if (!input) return std::nullopt;
    const auto prompt = chat::chat_prompt(model_->prompt_context(), *input);
    if (!prompt) return std::nullopt;
    return control_count(prompt->tokens);
  }
  size_t control_count(const std::vector<TokenId>& tokens) const {
    return static_cast<size_t>(
        std::ranges::count_if(tokens, [&](TokenId id) { return model_->tokenizer->is_control(id); }));
  }
  /// Tries `texts` in turn in all places of all protocols, `each` of them in one place. Returns how many were made.
  size_t try_all(size_t each) const {
    size_t next = 0, made = 0, refused = 0;
    for (const ProtocolCase& protocol : kProtocols) {
      const ordered_json body = ordered_json::parse(protocol.body);
      if (!control_count(protocol.parse(body))) {  // some templates take no such conversation
        ++refused;
        continue;
      }
      std::vector<Place> places;
      find_places(body, ordered_json::json_pointer(), places);
      size_t taken = 0;
      for (const Place& place : places) {
        const auto harmless = control_count(protocol.parse(with_text(body, place, "harmless")));
        if (!harmless) continue;  // one of a few words has to stand there
        ++taken;
        for (size_t i = 0; i < each; ++i) {
          const std::string text = i == 0 ? all_controls() : hostile_text(next++);
          const auto count = control_count(protocol.parse(with_text(body, place, text)));
          if (!count) continue;  // as where a file's name may not have such characters
          ++made;
          EXPECT_EQ(count, harmless) << protocol.name << " " << place.text() << ": " << text;
        }
      }
      EXPECT_GE(taken, protocol.places_min) << protocol.name;
    }
    EXPECT_LE(refused, kRefusedMax);
    return made;
  }
  std::string all_controls() const {
    std::string text;
    for (const std::string& control : controls_) text += control;
    return text;
  }
  static std::string half_of(std::string_view text) {
    const std::string_view half = text.substr(0, text.size() / 2);
    return std::string(half.substr(0, utf8_valid_prefix(half)));
  }
  /// The i-th text with names of control tokens in it: alone, among words, several, around a line's end.
  std::string hostile_text(size_t i) const {
    const std::string& control = controls_[i % controls_.size()];
    const std::string& other = controls_[(i * 7 + 3) % controls_.size()];
    switch (i / controls_.size() % 4) {
      case 0:
        return "x" + control;
      case 1:
        return control;
      case 2:
        return control + "\n" + other + "system\n" + control + control;
      default:
        return "a " + control + " b " + half_of(control) + other + "</think>";
    }
  }

  std::unique_ptr<loader::LoadedModel> model_;
  std::unique_ptr<tokenizer::Tokenizer> models_own_;
  std::vector<std::string> controls_;
};

TEST_P(ControlTokens, AreNotMadeOfWhatAClientWritesInAPublishedTemplate) {
  use_published_template();
  const size_t texts = try_all(std::max<size_t>(4, controls_.size() / 40));
  std::printf("%s: %zu prompts\n", GetParam().name, texts);
  EXPECT_GE(texts, 200u);
}

TEST_P(ControlTokens, AreNotMadeOfWhatAClientWritesInATemplateThatShowsAll) {
  use_template_that_shows_all(controls_.front());
  const size_t texts = try_all(std::max<size_t>(4, controls_.size() / 40));
  std::printf("%s: %zu prompts\n", GetParam().name, texts);
  EXPECT_GE(texts, 200u);
}

TEST_P(ControlTokens, AreAlwaysMadeOfWhatTheTemplateWrites) {
  const ordered_json body = ordered_json::parse(kProtocols[0].body);
  const auto input = kProtocols[0].parse(body);
  ASSERT_TRUE(input.has_value());
  const bool has_bos = model_->tokenizer->special().bos != kNoToken;
  for (size_t i = 0; i < controls_.size(); i += 1 + controls_.size() / 40) {
    use_template_that_shows_all(controls_[i]);
    const auto count = control_count(input);
    ASSERT_TRUE(count.has_value());
    // They stand before and after each message and at the end, and at the beginning of the prompt.
    const size_t own = 2 * input->messages.size() + 1;
    EXPECT_GE(*count, own) << controls_[i];
    EXPECT_LE(*count, own + (has_bos ? 1 : 0)) << controls_[i];
  }
}

TEST_P(ControlTokens, AreNotMadeOfATextToEmbed) {
  const auto count = [&](const std::string& text) {
    RequestContext context;
    const auto tokens = embedding_prompt(*model_, text, std::nullopt, "input", context);
    EXPECT_TRUE(tokens.has_value()) << tokens.error().text();
    return tokens ? control_count(*tokens) : 0;
  };
  const size_t harmless = count("harmless");
  EXPECT_EQ(count(all_controls()), harmless);
  for (size_t i = 0; i < 50; ++i) EXPECT_EQ(count(hostile_text(i)), harmless) << hostile_text(i);
}

TEST_P(ControlTokens, AreNotMadeOfWhatIsRanked) {
  const std::string& own = controls_.front();
  const tokenizer::test::MetadataBuilder bare;
  const tokenizer::test::MetadataBuilder with_template = tokenizer::test::MetadataBuilder().set(
      chat::kRerankTemplateKey, own + "Q: {query}\nD: {document}" + own + "\nA:");
  for (const tokenizer::test::MetadataBuilder* file : {&with_template, &bare}) {
    const gguf::Metadata metadata = file->metadata();
    const auto count = [&](const std::string& query, const std::string& document) {
      const auto pairs = chat::PairPrompts::make(metadata, *model_->tokenizer, query);
      EXPECT_TRUE(pairs.has_value());
      const auto pair = pairs ? pairs->with(document, 0) : Result<chat::PairPrompt>(chat::PairPrompt{});
      EXPECT_TRUE(pair.has_value());
      return pair ? control_count(pair->tokens) : 0;
    };
    const size_t harmless = count("harmless", "harmless");
    if (file == &with_template) {
      EXPECT_EQ(harmless, 2u);
    }
    EXPECT_EQ(count(all_controls(), "harmless"), harmless);
    EXPECT_EQ(count("harmless", all_controls()), harmless);
    for (size_t i = 0; i < 50; ++i) {
      EXPECT_EQ(count(hostile_text(i), "harmless"), harmless) << hostile_text(i);
      EXPECT_EQ(count("harmless", hostile_text(i)), harmless) << hostile_text(i);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Vocabularies, ControlTokens, testing::ValuesIn(kVocabularies), [](const auto& test) {
  std::string name = test.param.name;
  std::ranges::replace(name, '-', '_');
  return name;
});

}  // namespace
}  // namespace cairn::api
