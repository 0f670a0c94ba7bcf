#include "api/openai/completion_serializer.h"

#include <algorithm>
#include <utility>

#include "api/errors.h"
#include "api/serialization/json_text.h"
#include "api/serialization/timestamps.h"
#include "api/serialization/token_json.h"
#include "api/serialization/usage.h"
#include "base/version.h"

namespace cairn::api::openai {

using nlohmann::ordered_json;

namespace {

size_t characters(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(text, [](char byte) { return (byte & 0xC0) != 0x80; }));
}

}  // namespace

TextOffsets::TextOffsets(const tokenizer::Tokenizer& tokenizer, std::string_view prompt)
    : detokenizer_(tokenizer, true, true) {
  const TokenId bos = tokenizer.special().bos;
  if (bos != kNoToken && !prompt.starts_with(tokenizer.piece(bos, true))) without_text_ = bos;
}

size_t TextOffsets::next(TokenId token) {
  const size_t offset = offset_;
  const bool has_text = token != std::exchange(without_text_, kNoToken);
  if (has_text) offset_ += characters(detokenizer_.push(token));
  return offset;
}

CompletionSerializer::CompletionSerializer(CompletionOptions options, const tokenizer::Tokenizer& tokenizer)
    : options_(std::move(options)), tokenizer_(tokenizer), created_(unix_seconds_now()) {
  const auto choices = static_cast<size_t>(options_.choices);
  choices_.reserve(choices);
  for (size_t i = 0; i < choices; ++i) choices_.emplace_back(tokenizer, echoed(i));
}

CompletionSerializer::Choice::Choice(const tokenizer::Tokenizer& tokenizer, std::string_view echoed)
    : prompt_offsets(tokenizer, echoed), offsets(tokenizer, characters(echoed)) {}

const std::string& CompletionSerializer::echoed(size_t choice) const {
  static const std::string kNothing;
  return options_.echoed.empty() ? kNothing
                                 : options_.echoed[choice / static_cast<size_t>(options_.choices_per_prompt)];
}

ordered_json CompletionSerializer::envelope() const {
  return {{"id", options_.id},
          {"object", "text_completion"},
          {"created", created_},
          {"model", options_.model},
          {"system_fingerprint", kSystemFingerprint}};
}

ordered_json CompletionSerializer::so_far() const {
  return options_.extras.timings_per_token ? ordered_json{{"timings", so_far_.json()}} : ordered_json::object();
}

std::string CompletionSerializer::chunk(int index, Chunk&& chunk) {
  Choice& choice = choices_[static_cast<size_t>(index)];
  ordered_json value = envelope();
  ordered_json item = {{"index", index}, {"text", std::move(chunk.text)}};
  item["logprobs"] = std::exchange(choice.logprobs, nullptr);
  item["finish_reason"] = std::move(chunk.finish_reason);
  if (options_.extras.return_token_ids) {
    item["token_ids"] = std::exchange(choice.token_ids, ordered_json::array());
    if (!choice.begun) item["prompt_token_ids"] = prompt_ids(static_cast<size_t>(index));
  }
  choice.begun = true;
  value["choices"] = ordered_json::array({std::move(item)});
  if (options_.extras.include_usage) value["usage"] = nullptr;
  if (options_.extras.continuous_usage) value["usage"] = usage_so_far_json(options_.prompt_tokens, so_far_.predicted());
  value.update(chunk.beside);
  if (!chunk.prompt_progress.is_null()) value["prompt_progress"] = std::move(chunk.prompt_progress);
  return sse_event(value);
}

ordered_json CompletionSerializer::prompt_ids(size_t choice) const {
  return ids_json(options_.prompts[choice / static_cast<size_t>(options_.choices_per_prompt)]);
}

std::string CompletionSerializer::begin() {
  std::string bytes;
  for (size_t i = 0; i < choices_.size() && !options_.echoed.empty(); ++i) {
    if (options_.stream) {
      bytes += chunk(static_cast<int>(i), {.text = echoed(i)});
    } else {
      choices_[i].text = echoed(i);
    }
  }
  return bytes;
}

std::string CompletionSerializer::prefill(int index, const engine::PrefillProgress& progress) {
  std::string bytes;
  so_far_.prompt(progress);
  if (!options_.stream || !options_.extras.return_progress) return bytes;
  for (const engine::PrefillProgress& each : choices_[static_cast<size_t>(index)].prefill.next(progress)) {
    so_far_.prompt(each);
    bytes += chunk(index, {.beside = so_far(), .prompt_progress = prefill_json(each)});
  }
  return bytes;
}

void CompletionSerializer::add_logprob(Choice& choice, size_t offset, TokenId token, const ordered_json& logprob,
                                       std::span<const sampling::TokenLogprob> top) const {
  const std::string text = token_text(tokenizer_, token);
  ordered_json most_likely = nullptr;
  if (!logprob.is_null()) {
    most_likely = ordered_json::object();
    const size_t most = std::min(top.size(), static_cast<size_t>(options_.top_logprobs));
    for (const auto& other : top.first(most)) most_likely.emplace(token_text(tokenizer_, other.token), other.logprob);
    most_likely.emplace(text, ordered_json(logprob));
  }
  if (!options_.stream) {
    choice.tokens.add(text);
    choice.token_logprobs.add(logprob);
    choice.top_logprobs.add(most_likely);
    choice.text_offset.add(offset);
    return;
  }
  if (choice.logprobs.is_null()) {
    choice.logprobs = {{"tokens", ordered_json::array()},
                       {"token_logprobs", ordered_json::array()},
                       {"top_logprobs", ordered_json::array()},
                       {"text_offset", ordered_json::array()}};
  }
  choice.logprobs["tokens"].push_back(text);
  choice.logprobs["token_logprobs"].push_back(logprob);
  choice.logprobs["top_logprobs"].push_back(std::move(most_likely));
  choice.logprobs["text_offset"].push_back(offset);
}

std::string CompletionSerializer::scores(int index, std::span<engine::PromptScore> scores) {
  Choice& choice = choices_[static_cast<size_t>(index)];
  for (const engine::PromptScore& score : scores) {
    if (options_.extras.prompt_logprobs) choice.prompt_logprobs.add(prompt_logprob_json(tokenizer_, score));
    if (options_.echoed.empty()) continue;
    const ordered_json logprob = score.rank == 0 ? ordered_json(nullptr) : ordered_json(score.logprob);
    add_logprob(choice, choice.prompt_offsets.next(score.token), score.token, logprob, score.top);
  }
  return choice.logprobs.is_null() ? std::string() : chunk(index, {});
}

std::string CompletionSerializer::token(int index, engine::TokenEvent&& event) {
  Choice& choice = choices_[static_cast<size_t>(index)];
  if (options_.logprobs) add_logprob(choice, choice.offsets.next(event.token), event.token, event.logprob, event.top);
  if (options_.extras.return_token_ids) choice.token_ids.push_back(cairn::index(event.token));
  so_far_.token();
  if (!options_.stream) {
    choice.text += event.text;
    return {};
  }
  if (event.text.empty() && !options_.logprobs && !options_.extras.return_token_ids) return {};
  return chunk(index, {.text = std::move(event.text), .beside = so_far()});
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
  if (!finish.text.empty()) bytes += chunk(index, {.text = std::move(finish.text)});
  const bool has_timings = index == 0 && !options_.extras.include_usage;  // else they stand beside the usage
  return bytes + chunk(index, {.finish_reason = choice.finish_reason,
                               .beside = has_timings ? beside_ : ordered_json::object()});
}

std::string CompletionSerializer::done() {
  if (options_.stream) {
    std::string bytes;
    if (options_.extras.include_usage) {
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
    logprobs = with_member(std::move(logprobs), "text_offset", choice.text_offset.take());
  }
  std::string item = dump({{"index", index}, {"text", std::move(choice.text)}});
  item = with_member(std::move(item), "logprobs", logprobs);
  item = with_member(std::move(item), "finish_reason", dump(choice.finish_reason));
  if (options_.extras.prompt_logprobs)
    item = with_member(std::move(item), "prompt_logprobs", choice.prompt_logprobs.take());
  if (options_.extras.return_token_ids) {
    item = with_member(std::move(item), "token_ids", dump(choice.token_ids));
    item = with_member(std::move(item), "prompt_token_ids", dump(prompt_ids(index)));
  }
  return item;
}

std::string CompletionSerializer::failure(const Error& error) { return sse_event(openai_error(error)); }

}  // namespace cairn::api::openai
