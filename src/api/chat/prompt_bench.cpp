// What a long conversation costs before the model sees it: a history of 2,000 messages with calls and results, rendered
// by its template alone, and on the way that a request takes (read from JSON, made to fit, rendered, tokenised). The
// column CPU counts.
#include <benchmark/benchmark.h>

#include <ctime>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "api/chat/messages.h"
#include "api/params/request_fields.h"
#include "base/testing/test_data.h"
#include "chat/chat_prompt.h"
#include "gguf/reader.h"
#include "tokenizer/tokenizer.h"

namespace cairn::api {
namespace {

using nlohmann::ordered_json;

constexpr int kMessages = 2'000;

std::string source_of(const std::string& name) {
  std::ifstream file(test_data("/chat-templates/") + name + ".jinja", std::ios::binary);
  std::ostringstream source;
  source << file.rdbuf();
  return source.str();
}

ordered_json tools() {
  return ordered_json::parse(R"([{"type": "function", "function": {"name": "read_file", "description": "Reads a file.",
    "parameters": {"type": "object", "properties": {"path": {"type": "string", "description": "its path"}}}}}])");
}

/// Rounds of a question, a call, its result and an answer.
ordered_json conversation() {
  ordered_json messages = ordered_json::array();
  for (int i = 0; i < kMessages / 4; ++i) {
    const std::string id = "call_" + std::to_string(i);
    messages.push_back({{"role", "user"}, {"content", "What does part " + std::to_string(i) + " of the parser do?"}});
    messages.push_back({{"role", "assistant"},
                        {"content", nullptr},
                        {"tool_calls",
                         {{{"id", id},
                           {"type", "function"},
                           {"function", {{"name", "read_file"}, {"arguments", R"({"path": "src/parser.cpp"})"}}}}}}});
    messages.push_back(
        {{"role", "tool"}, {"tool_call_id", id}, {"content", "int parse(const char* text) { return text[0]; }\n"}});
    messages.push_back({{"role", "assistant"}, {"content", "It returns the first byte of the text that it is given."}});
  }
  messages.push_back({{"role", "user"}, {"content", "Thanks. Sum it up."}});
  return messages;
}

struct Model {
  std::unique_ptr<tokenizer::Tokenizer> tokenizer;
  chat::ChatTemplate chat_template;
  chat::OutputFormat format;

  explicit Model(const std::string& template_name)
      : tokenizer(tokenizer::Tokenizer::load(
                      gguf::Reader::open(test_data("/tokenizers/ggml-vocab-qwen2.gguf")).value().metadata())
                      .value()),
        chat_template(chat::ChatTemplate::create(source_of(template_name), "", "<|im_end|>").value()) {}

  chat::PromptContext context() const { return {"bench", *tokenizer, chat_template, format, 1 << 24}; }
};

chat::ChatInput read(const ordered_json& body) {
  RequestContext context;
  RequestFields fields(context, body);
  std::string prefill;
  return read_chat_input(fields, prefill);
}

// The template's own work, which no request can do without. The messages already have the form that it takes.
void render_alone(benchmark::State& state, const std::string& name) {
  const jinja::JinjaTemplate parsed = jinja::JinjaTemplate::parse(source_of(name)).value();
  ordered_json messages = conversation();
  for (ordered_json& message : messages) {
    if (message["content"].is_null()) message["content"] = "";
    if (message.contains("tool_calls"))
      message["tool_calls"][0]["function"]["arguments"] = {{"path", "src/parser.cpp"}};
  }
  const ordered_json variables = {{"messages", messages}, {"tools", tools()}, {"add_generation_prompt", true}};
  for (auto _ : state)
    benchmark::DoNotOptimize(parsed.render(variables, jinja::kNothingOwn, std::time(nullptr)).value().text);
}

void whole(benchmark::State& state, const std::string& name) {
  const Model model(name);
  const std::string body = ordered_json{{"messages", conversation()}, {"tools", tools()}}.dump();
  size_t tokens = 0;
  for (auto _ : state) {
    const ordered_json parsed = parse_object(body).value();
    tokens = chat::chat_prompt(model.context(), read(parsed)).value().tokens.size();
  }
  state.counters["tokens"] = static_cast<double>(tokens);
}

void read_request(benchmark::State& state) {
  const std::string body = ordered_json{{"messages", conversation()}, {"tools", tools()}}.dump();
  for (auto _ : state) benchmark::DoNotOptimize(read(parse_object(body).value()).messages);
}

void render_fitted(benchmark::State& state, const std::string& name) {
  const Model model(name);
  const ordered_json body = {{"messages", conversation()}, {"tools", tools()}};
  const chat::ChatInput input = read(body);
  for (auto _ : state) benchmark::DoNotOptimize(model.chat_template.render(input, std::time(nullptr)).value().text);
}

const int kRegistered = [] {
  benchmark::RegisterBenchmark("read_request", read_request)->Unit(benchmark::kMillisecond);
  for (const std::string name : {"Qwen-Qwen2.5-7B-Instruct", "Qwen3-Coder", "meta-llama-Llama-3.1-8B-Instruct"}) {
    const auto unit = benchmark::kMillisecond;
    benchmark::RegisterBenchmark(("render_alone/" + name).c_str(), render_alone, name)->Unit(unit);
    benchmark::RegisterBenchmark(("render_fitted/" + name).c_str(), render_fitted, name)->Unit(unit);
    benchmark::RegisterBenchmark(("whole/" + name).c_str(), whole, name)->Unit(unit);
  }
  return 0;
}();

}  // namespace
}  // namespace cairn::api
