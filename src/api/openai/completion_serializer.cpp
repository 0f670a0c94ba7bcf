#include "api/openai/completion_serializer.h"

#include "api/errors.h"
#include "api/serialization/json_text.h"
#include "api/serialization/timestamps.h"
#include "api/serialization/token_json.h"
#include "api/serialization/usage.h"
#include "base/version.h"

namespace cairn::api::openai {

using nlohmann::ordered_json;

CompletionSerializer::CompletionSerializer(CompletionOptions options, const tokenizer::Tokenizer& tokenizer)
    : options_(std::move(options)),
      tokenizer_(tokenizer),
      created_(unix_seconds_now()),
      choices_(static_cast<size_t>(options_.choices)) {}

ordered_json CompletionSerializer::envelope() const {
  return {{"id", options_.id},
          {"object", "text_completion"},
          {"created", created_},
          {"model", options_.model},
          {"system_fingerprint", kSystemFingerprint}};
}

ordered_json CompletionSerializer::so_far() const {
  return options_.timings_per_token ? ordered_json{{"timings", so_far_.json()}} : ordered_json::object();
}

std::string CompletionSerializer::chunk(int choice, std::string text, ordered_json logprobs, ordered_json finish_reason,
                                        const ordered_json& beside, const ordered_json& prompt_progress) const {
  ordered_json value = envelope();
  ordered_json item = {{"index", choice}, {"text", std::move(text)}};
  item["logprobs"] = std::move(logprobs);
  item["finish_reason"] = std::move(finish_reason);
  value["choices"] = ordered_json::array({std::move(item)});
  if (options_.include_usage) value["usage"] = nullptr;
  value.update(beside);
  if (!prompt_progress.is_null()) value["prompt_progress"] = prompt_progress;
  return sse_event(value);
}

std::string CompletionSerializer::begin() {
  std::string bytes;
  for (size_t i = 0; i < choices_.size() && !options_.echoed.empty(); ++i) {
    std::string text = options_.echoed[i / static_cast<size_t>(options_.choices_per_prompt)];
    if (options_.stream) {
      bytes += chunk(static_cast<int>(i), std::move(text), nullptr, nullptr);
    } else {
      choices_[i].text = std::move(text);
    }
  }
  return bytes;
}

std::string CompletionSerializer::prefill(int index, const engine::PrefillProgress& progress) {
  std::string bytes;
  so_far_.prompt(progress);
  if (!options_.stream || !options_.return_progress) return bytes;
  for (const engine::PrefillProgress& each : choices_[static_cast<size_t>(index)].prefill.next(progress)) {
    so_far_.prompt(each);
    bytes += chunk(index, "", nullptr, nullptr, so_far(), prefill_json(each));
  }
  return bytes;
}

void CompletionSerializer::add_logprobs(Choice& choice, const engine::TokenEvent& event) const {
  const std::string text = token_text(tokenizer_, event.token);
  ordered_json top = ordered_json::object();
  for (const auto& other : event.top) top.emplace(token_text(tokenizer_, other.token), other.logprob);
  const size_t offset = std::exchange(choice.text_offset, choice.text_offset + text.size());
  if (!options_.stream) {
    choice.tokens.add(text);
    choice.token_logprobs.add(event.logprob);
    choice.top_logprobs.add(top);
    choice.text_offset_list.add(offset);
    return;
  }
  if (choice.logprobs.is_null()) {
    choice.logprobs = {{"tokens", ordered_json::array()},
                       {"token_logprobs", ordered_json::array()},
                       {"top_logprobs", ordered_json::array()},
                       {"text_offset", ordered_json::array()}};
  }
  choice.logprobs["tokens"].push_back(text);
  choice.logprobs["token_logprobs"].push_back(event.logprob);
  choice.logprobs["top_logprobs"].push_back(std::move(top));
  choice.logprobs["text_offset"].push_back(offset);
}

std::string CompletionSerializer::token(int index, engine::TokenEvent&& event) {
  Choice& choice = choices_[static_cast<size_t>(index)];
  if (options_.logprobs) add_logprobs(choice, event);
  so_far_.token();
  if (!options_.stream) {
    choice.text += event.text;
    return {};
  }
  if (event.text.empty() && !options_.logprobs) return {};
  return chunk(index, std::move(event.text), std::exchange(choice.logprobs, nullptr), nullptr, so_far());
}

std::string CompletionSerializer::finish(int index, engine::Finish&& finish) {
  Choice& choice = choices_[static_cast<size_t>(index)];
  add_usage(usage_, finish.usage, index % options_.choices_per_prompt == 0);
  choice.finish_reason = finish.reason == engine::FinishReason::kLength ? "length" : "stop";
  if (index == 0) {
    if (options_.lm_studio)
      beside_ = lm_studio_members(*options_.lm_studio, finish.usage, finish.timings, lm_studio_stop_reason(finish));
    beside_["timings"] = timings_json(finish.usage, finish.timings);
  }
  if (!options_.stream) {
    choice.text += finish.text;
    return {};
  }
  std::string bytes;
  if (!finish.text.empty()) bytes += chunk(index, std::move(finish.text), nullptr, nullptr);
  const bool has_timings = index == 0 && !options_.include_usage;  // else they stand beside the usage
  return bytes + chunk(index, "", nullptr, choice.finish_reason, has_timings ? beside_ : ordered_json::object());
}

std::string CompletionSerializer::done() {
  if (options_.stream) {
    std::string bytes;
    if (options_.include_usage) {
      ordered_json value = envelope();
      value["choices"] = ordered_json::array();
      value["usage"] = usage_json(usage_);
      value.update(beside_);
      bytes = sse_event(value);
    }
    return bytes + "data: [DONE]\n\n";
  }
  std::string body = with_member(dump(envelope()), "choices", "[");
  body.pop_back();
  for (size_t i = 0; i < choices_.size(); ++i) {
    if (i > 0) body += ',';
    body += whole(i, choices_[i]);
  }
  body += "]}";
  body = with_member(std::move(body), "usage", dump(usage_json(usage_)));
  return with_members(std::move(body), beside_);
}

std::string CompletionSerializer::whole(size_t index, Choice& choice) const {
  std::string logprobs = "null";
  if (!choice.tokens.empty()) {
    logprobs = with_member("{}", "tokens", choice.tokens.take());
    logprobs = with_member(std::move(logprobs), "token_logprobs", choice.token_logprobs.take());
    logprobs = with_member(std::move(logprobs), "top_logprobs", choice.top_logprobs.take());
    logprobs = with_member(std::move(logprobs), "text_offset", choice.text_offset_list.take());
  }
  std::string item = dump({{"index", index}, {"text", std::move(choice.text)}});
  item = with_member(std::move(item), "logprobs", logprobs);
  return with_member(std::move(item), "finish_reason", dump(choice.finish_reason));
}

std::string CompletionSerializer::failure(const Error& error) { return sse_event(openai_error(error)); }

}  // namespace cairn::api::openai
