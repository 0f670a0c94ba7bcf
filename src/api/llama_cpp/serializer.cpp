#include "api/llama_cpp/serializer.h"

#include <algorithm>
#include <cmath>

#include "api/errors.h"
#include "api/serialization/json_text.h"
#include "api/serialization/token_json.h"
#include "api/serialization/usage.h"

namespace cairn::api::llama_cpp {
namespace {

using nlohmann::ordered_json;

std::string_view stop_type(const Finish& finish) {
  if (finish.reason != FinishReason::kStop) return "limit";
  return finish.stop.empty() ? "eos" : "word";
}

ordered_json probability(const Tokenizer& tokenizer, TokenId id, float logprob) {
  return {{"id", index(id)},
          {"token", token_text(tokenizer, id)},
          {"bytes", token_bytes_json(tokenizer, id)},
          {"logprob", logprob}};
}

ordered_json per_token(double ms, int32_t count) { return count > 0 ? ms / count : 0.0; }

ordered_json timings_per_token_json(const Usage& usage, const Timings& timings) {
  ordered_json value = timings_json(usage, timings);
  value["prompt_per_token_ms"] = per_token(value["prompt_ms"], value["prompt_n"]);
  value["predicted_per_token_ms"] = per_token(value["predicted_ms"], value["predicted_n"]);
  return value;
}

// 0.8 rather than 0.800000011920929.
double as_written(float value) { return std::round(static_cast<double>(value) * 1e6) / 1e6; }

}  // namespace

CompletionSerializer::CompletionSerializer(ResponseOptions options, const Tokenizer& tokenizer)
    : options_(std::move(options)), tokenizer_(tokenizer), choices_(options_.prompts.size()) {}

ordered_json CompletionSerializer::timings_so_far(const Choice& choice) const {
  using Milliseconds = std::chrono::duration<double, std::milli>;
  const double prompt_ms = Milliseconds(choice.first - begun_).count();
  const double ms = Milliseconds(Clock::now() - choice.first).count();
  const int32_t after_first = std::max(0, choice.predicted - 1);
  return {{"prompt_ms", prompt_ms},
          {"predicted_n", choice.predicted},
          {"predicted_ms", ms},
          {"predicted_per_token_ms", per_token(ms, after_first)},
          {"predicted_per_second", ms > 0 ? after_first / ms * 1000 : 0.0}};
}

// Takes what has gathered.
ordered_json CompletionSerializer::delta_json(int index, Choice& choice) const {
  ordered_json value = {{"index", index}, {"content", std::exchange(choice.text, {})}};
  const bool tokens = options_.stream || options_.return_tokens;
  value["tokens"] = tokens ? std::exchange(choice.tokens, ordered_json::array()) : ordered_json::array();
  if (options_.probabilities && options_.stream)
    value["completion_probabilities"] = std::exchange(choice.probabilities, ordered_json::array());
  return value;
}

std::string CompletionSerializer::token(int index, TokenEvent&& event) {
  Choice& choice = choices_[static_cast<size_t>(index)];
  if (options_.only_prompt) return {};
  if (choice.predicted++ == 0) choice.first = Clock::now();
  choice.text += event.text;
  choice.tokens.push_back(cairn::index(event.token));
  if (options_.probabilities) {
    ordered_json entry = probability(tokenizer_, event.token, event.logprob);
    entry["top_logprobs"] = ordered_json::array();
    for (const auto& top : event.top) entry["top_logprobs"].push_back(probability(tokenizer_, top.token, top.logprob));
    if (options_.stream) {
      choice.probabilities.push_back(std::move(entry));
    } else {
      choice.all_probabilities.add(entry);
    }
  }
  if (!options_.stream || choice.text.empty()) return {};
  ordered_json value = delta_json(index, choice);
  value["stop"] = false;
  value["id_slot"] = -1;
  value["tokens_predicted"] = choice.predicted;
  value["tokens_evaluated"] = options_.prompt_tokens[static_cast<size_t>(index)];
  if (options_.timings_per_token) value["timings"] = timings_so_far(choice);
  return sse_event(value);
}

std::string CompletionSerializer::finish(int index, Finish&& finish) {
  Choice& choice = choices_[static_cast<size_t>(index)];
  if (options_.only_prompt) {
    finish.reason = FinishReason::kLength;
    finish.usage.completion_tokens = 0;
  } else {
    choice.text += finish.text;
  }
  std::string bytes;
  if (options_.stream && !(choice.text.empty() && choice.tokens.empty())) {
    ordered_json rest = delta_json(index, choice);
    rest["stop"] = false;
    bytes = sse_event(rest);
  }
  ordered_json value = delta_json(index, choice);
  value["id_slot"] = -1;
  value["stop"] = true;
  value["model"] = options_.model;
  value["tokens_predicted"] = finish.usage.completion_tokens;
  value["tokens_evaluated"] = finish.usage.prompt_tokens;
  value["generation_settings"] = options_.settings;
  value["prompt"] = options_.prompts[static_cast<size_t>(index)];
  value["truncated"] = false;
  value["stop_type"] = stop_type(finish);
  value["stopping_word"] = finish.stop;
  value["tokens_cached"] = finish.usage.cached_tokens;
  value["timings"] = timings_per_token_json(finish.usage, finish.timings);
  if (options_.stream) return bytes + sse_event(value);
  choice.full_body = dump(value);
  if (options_.probabilities)
    choice.full_body =
        with_member(std::move(choice.full_body), "completion_probabilities", choice.all_probabilities.take());
  return {};
}

std::string CompletionSerializer::done() {
  if (options_.stream) return {};
  if (!options_.several) return std::move(choices_.front().full_body);
  std::string list = "[";
  for (Choice& choice : choices_) {
    if (list.size() > 1) list += ',';
    list += std::exchange(choice.full_body, {});
  }
  return list + "]";
}

std::string CompletionSerializer::failure(const Error& error) { return sse_event(openai_error(error, error_format())); }

ordered_json settings_json(const GenerateRequest& generate, int32_t context_tokens) {
  const SamplingParams& sampling = generate.sampling;
  ordered_json bias = ordered_json::array();
  for (const auto& [token, amount] : sampling.logit_bias)
    bias.push_back(ordered_json::array({index(token), as_written(amount)}));
  return {{"n_ctx", context_tokens},
          {"n_predict", generate.max_tokens},
          {"max_tokens", generate.max_tokens},
          {"seed", sampling.seed},
          {"temperature", as_written(sampling.temperature)},
          {"top_k", sampling.top_k},
          {"top_p", as_written(sampling.top_p)},
          {"min_p", as_written(sampling.min_p)},
          {"typical_p", as_written(sampling.typical_p)},
          {"repeat_last_n", sampling.penalty_last},
          {"repeat_penalty", as_written(sampling.repetition_penalty)},
          {"presence_penalty", as_written(sampling.presence_penalty)},
          {"frequency_penalty", as_written(sampling.frequency_penalty)},
          {"stop", generate.stop},
          {"ignore_eos", generate.ignore_eos},
          {"n_probs", sampling.top_logprobs},
          {"logit_bias", std::move(bias)},
          {"samplers", {"penalties", "top_k", "typ_p", "top_p", "min_p", "temperature"}}};
}

}  // namespace cairn::api::llama_cpp
