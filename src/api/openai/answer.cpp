#include "api/openai/answer.h"

#include <algorithm>
#include <chrono>

#include "api/errors.h"
#include "base/utf8.h"

namespace cairn::api::openai {
namespace {

using nlohmann::ordered_json;

std::string_view finish_name(FinishReason reason) { return reason == FinishReason::kLength ? "length" : "stop"; }

std::string event_text(const ordered_json& value) { return "data: " + dump(value) + "\n\n"; }

// A token's text as clients show it, and its exact bytes, which may be part of a character.
std::string token_text(const Tokenizer& tokenizer, TokenId id) {
  return utf8_replace_invalid(tokenizer.piece(id, true));
}

ordered_json token_bytes(const Tokenizer& tokenizer, TokenId id) {
  ordered_json bytes = ordered_json::array();
  for (const char c : tokenizer.piece(id, true)) bytes.push_back(static_cast<unsigned char>(c));
  return bytes;
}

ordered_json chat_logprob(const Tokenizer& tokenizer, TokenId id, float logprob) {
  return {{"token", token_text(tokenizer, id)}, {"logprob", logprob}, {"bytes", token_bytes(tokenizer, id)}};
}

double milliseconds(std::chrono::nanoseconds time) { return std::chrono::duration<double, std::milli>(time).count(); }

double per_second(int32_t count, std::chrono::nanoseconds time) {
  return time.count() > 0 ? count / std::chrono::duration<double>(time).count() : 0.0;
}

// llama.cpp's names where it has one. The first token belongs to the prompt's time, so that one fewer is counted.
ordered_json timings_json(const Finish& finish) {
  const Timings& timings = finish.timings;
  const Usage& usage = finish.usage;
  const int32_t prompt = usage.prompt_tokens - usage.cached_tokens;
  return {{"queue_ms", milliseconds(timings.queue)},
          {"cache_n", usage.cached_tokens},
          {"prompt_n", prompt},
          {"prompt_ms", milliseconds(timings.prefill)},
          {"prompt_per_second", per_second(prompt, timings.prefill)},
          {"predicted_n", usage.completion_tokens},
          {"predicted_ms", milliseconds(timings.decode)},
          {"predicted_per_second", per_second(std::max(0, usage.completion_tokens - 1), timings.decode)},
          {"gap_ms_max", milliseconds(timings.gap_max)},
          {"preemptions", timings.preemptions},
          {"draft_n", timings.drafted},
          {"draft_n_accepted", timings.accepted}};
}

}  // namespace

OpenAiAnswer::OpenAiAnswer(AnswerOptions options, const Tokenizer& tokenizer)
    : options_(std::move(options)),
      tokenizer_(tokenizer),
      created_(std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
                   .count()),
      choices_(options_.choices) {}

ordered_json OpenAiAnswer::envelope(std::string_view object) const {
  return {{"id", options_.id}, {"object", object}, {"created", created_}, {"model", options_.model}};
}

std::string OpenAiAnswer::chunk(int choice, ordered_json delta, ordered_json logprobs, ordered_json finish_reason,
                                const ordered_json& timings) const {
  const bool chat = options_.kind == AnswerKind::kChat;
  ordered_json value = envelope(chat ? "chat.completion.chunk" : "text_completion");
  ordered_json item = {{"index", choice}};
  item[chat ? "delta" : "text"] = std::move(delta);
  item["logprobs"] = std::move(logprobs);
  item["finish_reason"] = std::move(finish_reason);
  value["choices"] = ordered_json::array({std::move(item)});
  if (options_.include_usage) value["usage"] = nullptr;
  if (!timings.is_null()) value["timings"] = timings;
  return event_text(value);
}

std::string OpenAiAnswer::begin() {
  std::string bytes;
  if (options_.kind == AnswerKind::kChat) {
    for (int i = 0; i < options_.choices; ++i)
      bytes += chunk(i, {{"role", "assistant"}, {"content", ""}}, nullptr, nullptr);
  }
  return bytes;
}

void OpenAiAnswer::add_logprobs(Choice& choice, const TokenEvent& event) const {
  if (options_.kind == AnswerKind::kChat) {
    if (choice.logprobs.is_null()) choice.logprobs = {{"content", ordered_json::array()}, {"refusal", nullptr}};
    ordered_json entry = chat_logprob(tokenizer_, event.token, event.logprob);
    entry["top_logprobs"] = ordered_json::array();
    for (const auto& top : event.top) entry["top_logprobs"].push_back(chat_logprob(tokenizer_, top.token, top.logprob));
    choice.logprobs["content"].push_back(std::move(entry));
    return;
  }
  if (choice.logprobs.is_null()) {
    choice.logprobs = {{"tokens", ordered_json::array()},
                       {"token_logprobs", ordered_json::array()},
                       {"top_logprobs", ordered_json::array()},
                       {"text_offset", ordered_json::array()}};
  }
  const std::string text = token_text(tokenizer_, event.token);
  ordered_json top = ordered_json::object();
  for (const auto& other : event.top) top.emplace(token_text(tokenizer_, other.token), other.logprob);
  choice.logprobs["tokens"].push_back(text);
  choice.logprobs["token_logprobs"].push_back(event.logprob);
  choice.logprobs["top_logprobs"].push_back(std::move(top));
  choice.logprobs["text_offset"].push_back(choice.text_offset);
  choice.text_offset += text.size();
}

std::string OpenAiAnswer::token(int index, TokenEvent&& event) {
  Choice& choice = choices_[index];
  if (options_.logprobs) add_logprobs(choice, event);
  if (!options_.stream) {
    choice.text += event.text;
    return {};
  }
  if (event.text.empty() && !options_.logprobs) return {};
  ordered_json delta = std::move(event.text);
  if (options_.kind == AnswerKind::kChat) delta = {{"content", std::move(delta)}};
  return chunk(index, std::move(delta), std::exchange(choice.logprobs, nullptr), nullptr);
}

std::string OpenAiAnswer::finish(int index, Finish&& finish) {
  Choice& choice = choices_[index];
  // Choices of one prompt share it: it is counted once.
  if (index % options_.choices_per_prompt == 0) {
    usage_.prompt_tokens += finish.usage.prompt_tokens;
    usage_.cached_tokens += finish.usage.cached_tokens;
  }
  usage_.completion_tokens += finish.usage.completion_tokens;
  choice.finish_reason = finish_name(finish.reason);
  if (index == 0) timings_ = timings_json(finish);
  if (!options_.stream) {
    choice.text += finish.text;
    return {};
  }
  std::string bytes;
  const bool chat = options_.kind == AnswerKind::kChat;
  if (!finish.text.empty()) {
    bytes += chunk(index, chat ? ordered_json{{"content", finish.text}} : ordered_json(finish.text), nullptr, nullptr);
  }
  const bool has_timings = index == 0 && !options_.include_usage;  // else they stand beside the usage
  return bytes + chunk(index, chat ? ordered_json::object() : ordered_json(""), nullptr, choice.finish_reason,
                       has_timings ? timings_ : ordered_json(nullptr));
}

ordered_json OpenAiAnswer::usage() const {
  return {{"prompt_tokens", usage_.prompt_tokens},
          {"completion_tokens", usage_.completion_tokens},
          {"total_tokens", usage_.prompt_tokens + usage_.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage_.cached_tokens}}}};
}

std::string OpenAiAnswer::done() {
  const bool chat = options_.kind == AnswerKind::kChat;
  if (options_.stream) {
    std::string bytes;
    if (options_.include_usage) {
      ordered_json value = envelope(chat ? "chat.completion.chunk" : "text_completion");
      value["choices"] = ordered_json::array();
      value["usage"] = usage();
      value["timings"] = timings_;
      bytes = event_text(value);
    }
    return bytes + "data: [DONE]\n\n";
  }
  ordered_json value = envelope(chat ? "chat.completion" : "text_completion");
  value["choices"] = ordered_json::array();
  for (size_t i = 0; i < choices_.size(); ++i) {
    Choice& choice = choices_[i];
    ordered_json item = {{"index", i}};
    if (chat) {
      item["message"] = {{"role", "assistant"}, {"content", std::move(choice.text)}, {"refusal", nullptr}};
    } else {
      item["text"] = std::move(choice.text);
    }
    item["logprobs"] = std::move(choice.logprobs);
    item["finish_reason"] = std::move(choice.finish_reason);
    value["choices"].push_back(std::move(item));
  }
  value["usage"] = usage();
  value["timings"] = timings_;
  return dump(value);
}

std::string OpenAiAnswer::failure(const Error& error) { return event_text(openai_error(error)); }

}  // namespace cairn::api::openai
