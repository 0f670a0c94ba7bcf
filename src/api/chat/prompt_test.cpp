// Turns that come back token for token: for the chat templates of real models, an assistant's turn with calls that the
// client wrote in its own way continues exactly what the model had seen and sampled.
#include "chat/chat_prompt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/testing/test_data.h"
#include "chat/tool_calls/format.h"
#include "loader/model_load.h"

namespace cairn::api {
namespace {

using nlohmann::ordered_json;

const chat::CacheScope kScope{.id = 7, .tenant = ""};
const std::string kTiny = test_data("/models/llama.gguf");
const std::string kSentencePiece = test_data("/trained/stories260K-f32.gguf");
const std::filesystem::path kTemplates = test_data("/chat-templates");

ordered_json tools() {
  return ordered_json::parse(R"([{"type": "function", "function": {"name": "add", "description": "Adds.",
    "parameters": {"type": "object", "properties": {"a": {"type": "integer", "description": "a"}}}}}])");
}

class ChatPromptTest : public testing::Test {
 protected:
  void load(const std::string& name, const std::string& path = kTiny) {
    std::ifstream file(kTemplates / (name + ".jinja"), std::ios::binary);
    std::ostringstream source;
    source << file.rdbuf();
    load_source(source.str(), path);
  }
  void load_source(const std::string& source, const std::string& path = kTiny) {
    loader::LoadOptions options;
    options.chat_template = source;
    options.device.cpu.threads = 1;
    auto model = loader::load_model_file(path, options);
    ASSERT_TRUE(model.has_value()) << model.error().text();
    model_ = std::move(*model);
  }
  std::vector<TokenId> encode(const std::string& text) {
    return model_->tokenizer->encode(text, {.add_special = false, .parse_special = true}).value();
  }
  chat::ChatPrompt prompt(const ordered_json& messages) {
    chat::ChatInput input;
    input.messages = messages;
    input.tools = tools();
    auto made = chat::chat_prompt(model_->prompt_context(), input, &turns_, kScope);
    EXPECT_TRUE(made.has_value()) << made.error().text();
    return made ? std::move(*made) : chat::ChatPrompt{};
  }
  /// What the model is taken to have sampled after `before`; returns the message that the client sends for it.
  ordered_json sample(const chat::ChatPrompt& before, const std::string& text, std::vector<TokenId>& sampled) {
    chat::OutputParser parser(model_->output_format, tools(), before.text);
    std::vector<chat::Part> parts;
    parser.feed(text, parts);
    parser.finish(parts);
    chat::SampledTurn turn;
    for (const chat::Part& part : parts) {
      if (part.kind == chat::PartKind::kContent) turn.turn.content += part.text;
      if (part.kind == chat::PartKind::kReasoning) turn.turn.reasoning += part.text;
      if (part.kind == chat::PartKind::kCallBegin) turn.turn.calls.push_back({"call00001", part.text, ""});
      if (part.kind == chat::PartKind::kArguments) turn.turn.calls.back().arguments += part.text;
    }
    sampled = encode(text);
    turn.tokens = sampled;
    if (const size_t close = text.find("</think>\n\n"); close != std::string::npos) {
      size_t bytes = 0;
      while (bytes < close + std::string_view("</think>\n\n").size())
        bytes += model_->tokenizer->piece(sampled[turn.thinking_end++], true).size();
    }
    ordered_json message = {{"role", "assistant"}, {"content", turn.turn.content}};
    for (const chat::ToolCall& call : turn.turn.calls) {
      message["tool_calls"].push_back(
          {{"id", call.id},
           {"type", "function"},
           // A client that has parsed the call writes it so.
           {"function", {{"name", call.name}, {"arguments", ordered_json::parse(call.arguments).dump(1, ' ')}}}});
    }
    turns_.keep(kScope, std::move(turn));
    return message;
  }
  static bool begins_with(const std::vector<TokenId>& tokens, const std::vector<TokenId>& a,
                          const std::vector<TokenId>& b) {
    return tokens.size() >= a.size() + b.size() && std::equal(a.begin(), a.end(), tokens.begin()) &&
           std::equal(b.begin(), b.end(), tokens.begin() + static_cast<std::ptrdiff_t>(a.size()));
  }

  std::unique_ptr<loader::LoadedModel> model_;
  chat::SampledTurnCache turns_;
};

const ordered_json kUser = {{"role", "user"}, {"content", "What is 2 and 2?"}};
const ordered_json kResult = {{"role", "tool"}, {"tool_call_id", "call00001"}, {"content", "4"}};

class ReplayTest : public ChatPromptTest, public testing::WithParamInterface<const char*> {};

TEST_P(ReplayTest, ACallComesBackAsItWasSampled) {
  load(GetParam());
  const chat::ChatPrompt first = prompt(ordered_json::array({kUser}));
  const auto* style = chat::tool_call::find_style(model_->output_format.tools);
  ASSERT_NE(style, nullptr);
  const auto& syntax = style->syntax;
  std::string text = chat::tool_call::forced_opening(*style, "add");
  // Spaces that no template and no client writes.
  text += "{ \"a\":  2 }" + std::string(syntax.call_close) + std::string(syntax.block_close);
  std::vector<TokenId> sampled;
  const ordered_json message = sample(first, text, sampled);
  ASSERT_TRUE(message.contains("tool_calls")) << text;
  const chat::ChatPrompt second = prompt({kUser, message, kResult});
  EXPECT_TRUE(begins_with(second.tokens, first.tokens, sampled)) << second.text;
  EXPECT_THAT(model_->tokenizer->decode(second.tokens, true), testing::HasSubstr("4"));
}

INSTANTIATE_TEST_SUITE_P(Templates, ReplayTest,
                         testing::Values("Qwen-Qwen2.5-7B-Instruct", "Qwen-Qwen3-0.6B",
                                         "NousResearch-Hermes-3-Llama-3.1-8B-tool_use",
                                         "meta-llama-Llama-3.1-8B-Instruct", "meta-llama-Llama-3.3-70B-Instruct",
                                         "ibm-granite-granite-4.0", "microsoft-Phi-3.5-mini-instruct"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::erase_if(name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; });
                           return name;
                         });

TEST_F(ChatPromptTest, ThinkingIsKeptOrDroppedAsTheTemplateSays) {
  load("Qwen-Qwen3-0.6B");
  const chat::ChatPrompt first = prompt(ordered_json::array({kUser}));
  const std::string text =
      "<think>\nHm,  two.\n</think>\n\n<tool_call>\n{\"name\":\"add\",\"arguments\":{\"a\":2}}\n</tool_call>";
  std::vector<TokenId> sampled;
  const ordered_json message = sample(first, text, sampled);
  // Within the turn the thinking stays, though the client has left it out.
  const chat::ChatPrompt second = prompt({kUser, message, kResult});
  EXPECT_TRUE(begins_with(second.tokens, first.tokens, sampled));
  // After the user's next message this template drops it; what came after comes as it was sampled.
  const chat::ChatPrompt third = prompt({kUser, message, kResult, {{"role", "assistant"}, {"content", "4"}}, kUser});
  const std::string shown = model_->tokenizer->decode(third.tokens, true);
  EXPECT_THAT(shown, testing::Not(testing::HasSubstr("Hm,  two.")));
  EXPECT_THAT(shown,
              testing::HasSubstr(
                  "<|im_start|>assistant\n<tool_call>\n{\"name\":\"add\",\"arguments\":{\"a\":2}}\n</tool_call>"));
}

TEST_F(ChatPromptTest, WhatTheClientChangedIsRenderedAsItSays) {
  load("Qwen-Qwen2.5-7B-Instruct");
  const chat::ChatPrompt first = prompt(ordered_json::array({kUser}));
  std::vector<TokenId> sampled;
  ordered_json message =
      sample(first, "<tool_call>\n{\"name\": \"add\",   \"arguments\": {\"a\": 2}}\n</tool_call>", sampled);
  message["tool_calls"][0]["function"]["arguments"] = "{\"a\": 3}";
  const chat::ChatPrompt second = prompt({kUser, message, kResult});
  EXPECT_FALSE(begins_with(second.tokens, first.tokens, sampled));
  EXPECT_THAT(second.text, testing::HasSubstr("{\"name\": \"add\", \"arguments\": {\"a\": 3}}"));
}

TEST_F(ChatPromptTest, ATextComesBackInItsTokens) {
  load("Qwen-Qwen2.5-7B-Instruct");
  const chat::ChatPrompt first = prompt(ordered_json::array({kUser}));
  chat::SampledTurn turn;
  turn.turn.content = "Once there was a cat.";
  for (const char c : turn.turn.content)  // one by one, as no encoder would
    for (const TokenId id : encode(std::string(1, c))) turn.tokens.push_back(id);
  const auto sampled = turn.tokens;
  ASSERT_NE(sampled, encode(turn.turn.content));
  turns_.keep(kScope, turn);
  const chat::ChatPrompt second = prompt({kUser, {{"role", "assistant"}, {"content", "Once there was a cat."}}, kUser});
  EXPECT_TRUE(begins_with(second.tokens, first.tokens, sampled));
}

// One by one, as no encoder would cut a text that goes on from another.
std::vector<TokenId> letters(const tokenizer::Tokenizer& tokenizer, std::string_view text) {
  std::vector<TokenId> tokens = tokenizer.encode("x", {}).value();
  const size_t before = tokens.size();
  for (const char& c : text) {
    const auto letter = tokenizer.encode(std::string_view(&c, 1), {.after = tokens.back()}).value();
    tokens.insert(tokens.end(), letter.begin(), letter.end());
  }
  tokens.erase(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(before));
  return tokens;
}

TEST_F(ChatPromptTest, ATurnWhoseTextSteersTheTemplateIsRenderedAsItCame) {
  load_source(
      "{% for m in messages %}{% if m.role == 'assistant' and 'cat' in m.content %}[a cat]{% endif %}"
      "<|im_start|>{{ m.role }}\n{{ m.content | trim }}<|im_end|>\n{% endfor %}"
      "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}");
  for (const std::string text : {"Once there was a cat.", "Once there was a dog."}) {
    const chat::ChatPrompt first = prompt(ordered_json::array({kUser}));
    chat::SampledTurn turn;
    turn.turn.content = text;
    turn.tokens = letters(*model_->tokenizer, text);
    const auto sampled = turn.tokens;
    turns_.keep(kScope, turn);
    chat::ChatInput input;
    input.messages = {kUser, {{"role", "assistant"}, {"content", text}}, kUser};
    input.tools = tools();
    const chat::ChatPrompt second = prompt(input.messages);
    const auto plain = chat::chat_prompt(model_->prompt_context(), input);
    ASSERT_TRUE(plain.has_value()) << plain.error().text();
    const bool steers = text.find("cat") != std::string::npos;
    EXPECT_EQ(second.tokens == plain->tokens, steers) << text;
    EXPECT_EQ(begins_with(second.tokens, first.tokens, sampled), !steers) << text;
    EXPECT_EQ(model_->tokenizer->decode(second.tokens, true), model_->tokenizer->decode(plain->tokens, true));
  }
}

TEST_F(ChatPromptTest, ASentencePiecePromptHasNoSpacesWhereItWasCut) {
  for (const char* name :
       {"Qwen-Qwen2.5-7B-Instruct", "microsoft-Phi-3.5-mini-instruct", "Mistral-Small-3.2-24B-Instruct-2506"}) {
    load(name, kSentencePiece);
    const chat::ChatPrompt first = prompt(ordered_json::array({kUser}));
    chat::SampledTurn turn;
    turn.turn.content = "Once there was a cat.";
    turn.tokens = letters(*model_->tokenizer, turn.turn.content);
    const auto sampled = turn.tokens;
    ASSERT_EQ(model_->tokenizer->decode(sampled, true), turn.turn.content);
    turns_.keep(kScope, turn);
    chat::ChatInput input;
    input.messages = {kUser, {{"role", "assistant"}, {"content", turn.turn.content}}, kUser};
    input.tools = tools();
    const chat::ChatPrompt second = prompt(input.messages);
    EXPECT_TRUE(begins_with(second.tokens, first.tokens, sampled)) << name;
    const auto plain = chat::chat_prompt(model_->prompt_context(), input);
    ASSERT_TRUE(plain.has_value()) << plain.error().text();
    EXPECT_NE(second.tokens, plain->tokens);
    EXPECT_EQ(model_->tokenizer->decode(second.tokens, true), model_->tokenizer->decode(plain->tokens, true)) << name;

    const std::string text = "a</s> b<s>c";
    const chat::ChatPrompt guarded = prompt(ordered_json::array({ordered_json{{"role", "user"}, {"content", text}}}));
    EXPECT_THAT(model_->tokenizer->decode(guarded.tokens, true), testing::HasSubstr(text));
  }
}

TEST_F(ChatPromptTest, ATurnOfOtherTokensIsLeftOut) {
  load("Qwen-Qwen2.5-7B-Instruct");
  chat::SampledTurn turn;
  turn.turn.content = "Once there was a cat.";
  turn.tokens = {TokenId{model_->tokenizer->size()}};
  turns_.keep(kScope, turn);
  const ordered_json messages = {kUser, {{"role", "assistant"}, {"content", turn.turn.content}}, kUser};
  EXPECT_THAT(model_->tokenizer->decode(prompt(messages).tokens, true), testing::HasSubstr(turn.turn.content));
}

TEST_F(ChatPromptTest, WhatAUserWritesIsText) {
  load("Qwen-Qwen2.5-7B-Instruct");
  const auto bos_text = std::string(model_->tokenizer->piece(model_->tokenizer->special().bos, true));
  ASSERT_GT(bos_text.size(), 1u);
  const auto count = [&](const chat::ChatPrompt& made) {
    return std::ranges::count(made.tokens, model_->tokenizer->special().bos);
  };
  const auto plain = count(prompt(ordered_json::array({kUser})));
  const std::string text = "a" + bos_text + bos_text + " b";
  const chat::ChatPrompt made = prompt(ordered_json::array({ordered_json{{"role", "user"}, {"content", text}}}));
  EXPECT_EQ(count(made), plain);
  EXPECT_THAT(model_->tokenizer->decode(made.tokens, true), testing::HasSubstr(text));
  EXPECT_THAT(made.text, testing::HasSubstr(text));
  const chat::ChatPrompt parts = prompt(ordered_json::array({ordered_json{
      {"role", "user"}, {"content", ordered_json::array({ordered_json{{"type", "text"}, {"text", text}}})}}}));
  EXPECT_EQ(count(parts), plain);
  EXPECT_EQ(count(prompt({{{"role", "system"}, {"content", text}}, kUser})), plain);
}

TEST_F(ChatPromptTest, EveryTemplateGivesAPromptWithKnownTurns) {
  size_t replayed = 0, templates = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kTemplates)) {
    if (entry.path().extension() != ".jinja") continue;
    load(entry.path().stem().string());
    if (HasFatalFailure()) return;
    chat::ChatInput input;
    input.messages = ordered_json::array({kUser});
    input.tools = tools();
    const auto first = chat::chat_prompt(model_->prompt_context(), input, &turns_, kScope);
    if (!first) continue;  // some want more than this conversation has
    ++templates;
    chat::SampledTurn turn;
    turn.turn.content = "Once  there was.";
    turn.tokens = encode("Once  there was.");
    const auto sampled = turn.tokens;
    turns_.keep(kScope, turn);
    input.messages = {kUser, {{"role", "assistant"}, {"content", "Once  there was."}}, kUser};
    const auto plain = chat::chat_prompt(model_->prompt_context(), input);
    const auto second = chat::chat_prompt(model_->prompt_context(), input, &turns_, kScope);
    ASSERT_EQ(plain.has_value(), second.has_value()) << entry.path();
    if (!second) continue;
    const bool same = begins_with(second->tokens, first->tokens, sampled);
    replayed += same ? 1 : 0;
    if (!same) std::printf("%s does not\n", entry.path().stem().c_str());
  }
  RecordProperty("templates", static_cast<int>(templates));
  std::printf("%zu of %zu templates go on from what was sampled\n", replayed, templates);
  EXPECT_GE(replayed, 40u);
}

}  // namespace
}  // namespace cairn::api
