#include "api/llama_cpp/serializer.h"

#include <algorithm>
#include <cmath>

#include "api/errors.h"
#include "api/serialization/json_text.h"
#include "api/serialization/token_json.h"
#include "api/serialization/usage.h"
#include "sampling/parameters.h"

namespace cairn::api::llama_cpp {
namespace {

using nlohmann::ordered_json;

std::string_view stop_type(const engine::Finish& finish) {
  if (finish.reason != engine::FinishReason::kStop) return "limit";
  return finish.stop.empty() ? "eos" : "word";
}

ordered_json probability(const tokenizer::Tokenizer& tokenizer, TokenId id, float logprob, bool filtered) {
  ordered_json value = {
      {"id", index(id)}, {"token", token_text(tokenizer, id)}, {"bytes", token_bytes_json(tokenizer, id)}};
  filtered ? value["prob"] = std::exp(static_cast<double>(logprob)) : value["logprob"] = logprob;
  return value;
}

// The answer's fields that were asked for, in which "a/b" keeps that name.
ordered_json only_fields(const ordered_json& answer, const std::vector<std::string>& names) {
  ordered_json some = ordered_json::object();
  for (const std::string& name : names) {
    const ordered_json* at = &answer;
    for (std::string_view rest = name; at != nullptr && !rest.empty();) {
      const std::string_view first = rest.substr(0, rest.find('/'));
      rest.remove_prefix(std::min(rest.size(), first.size() + 1));
      const auto found = at->is_object() ? at->find(first) : at->end();
      at = found == at->end() ? nullptr : &*found;
    }
    if (at != nullptr) some[name] = *at;
  }
  return some;
}

ordered_json per_token(double ms, int32_t count) { return count > 0 ? ms / count : 0.0; }

ordered_json timings_per_token_json(const engine::Usage& usage, const engine::Timings& timings) {
  ordered_json value = timings_json(usage, timings);
  value["prompt_per_token_ms"] = per_token(value["prompt_ms"], value["prompt_n"]);
  value["predicted_per_token_ms"] = per_token(value["predicted_ms"], value["predicted_n"]);
  return value;
}

// 0.8 rather than 0.800000011920929.
double as_written(double value) { return std::round(value * 1e6) / 1e6; }

}  // namespace

CompletionSerializer::CompletionSerializer(ResponseOptions options, const tokenizer::Tokenizer& tokenizer)
    : options_(std::move(options)), tokenizer_(tokenizer), choices_(options_.prompts.size()) {}

// Takes what has gathered.
ordered_json CompletionSerializer::delta_json(int index, Choice& choice) const {
  ordered_json value = {{"index", index}, {"content", std::exchange(choice.text, {})}};
  const bool tokens = options_.stream || options_.return_tokens;
  value["tokens"] = tokens ? std::exchange(choice.tokens, ordered_json::array()) : ordered_json::array();
  if (options_.probabilities && options_.stream)
    value["completion_probabilities"] = std::exchange(choice.probabilities, ordered_json::array());
  return value;
}

ordered_json CompletionSerializer::probability_json(const engine::TokenEvent& event) const {
  const bool filtered = options_.filtered_probabilities;
  ordered_json entry = probability(tokenizer_, event.token, event.logprob, filtered);
  ordered_json& top = entry[filtered ? "top_probs" : "top_logprobs"] = ordered_json::array();
  for (const auto& each : event.top) top.push_back(probability(tokenizer_, each.token, each.logprob, filtered));
  return entry;
}

std::string CompletionSerializer::prefill_event(int index, Choice& choice,
                                                const engine::PrefillProgress& progress) const {
  ordered_json value = {{"index", index},
                        {"content", ""},
                        {"tokens", ordered_json::array()},
                        {"stop", false},
                        {"id_slot", -1},
                        {"tokens_predicted", 0},
                        {"tokens_evaluated", progress.total},
                        {"prompt_progress", prefill_json(progress)}};
  choice.so_far.prompt(progress);
  if (options_.timings_per_token) value["timings"] = choice.so_far.json();
  return sse_event(value);
}

std::string CompletionSerializer::prefill(int index, const engine::PrefillProgress& progress) {
  std::string bytes;
  Choice& choice = choices_[static_cast<size_t>(index)];
  if (options_.stream && options_.return_progress)
    for (const engine::PrefillProgress& each : choice.prefill.next(progress))
      bytes += prefill_event(index, choice, each);
  choice.so_far.prompt(progress);
  return bytes;
}

std::string CompletionSerializer::token(int index, engine::TokenEvent&& event) {
  Choice& choice = choices_[static_cast<size_t>(index)];
  choice.so_far.token();
  choice.has_new_line |= event.text.find('\n') != std::string::npos;
  choice.text += event.text;
  choice.tokens.push_back(cairn::index(event.token));
  if (options_.probabilities) {
    ordered_json entry = probability_json(event);
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
  value["tokens_predicted"] = choice.so_far.predicted();
  value["tokens_evaluated"] = options_.prompt_tokens[static_cast<size_t>(index)];
  if (options_.timings_per_token) value["timings"] = choice.so_far.json();
  return sse_event(value);
}

std::string CompletionSerializer::finish(int index, engine::Finish&& finish) {
  Choice& choice = choices_[static_cast<size_t>(index)];
  choice.has_new_line |= finish.text.find('\n') != std::string::npos;
  choice.text += finish.text;
  std::string bytes;
  if (options_.stream && !(choice.text.empty() && choice.tokens.empty())) {
    ordered_json rest = delta_json(index, choice);
    rest["stop"] = false;
    bytes = sse_event(rest);
  }
  ordered_json value = delta_json(index, choice);
  value["id_slot"] = finish.slot;
  value["stop"] = true;
  value["model"] = options_.model;
  value["tokens_predicted"] = finish.usage.completion_tokens;
  value["tokens_evaluated"] = finish.usage.prompt_tokens;
  value["generation_settings"] = options_.settings;
  value["prompt"] = options_.prompts[static_cast<size_t>(index)];
  value["has_new_line"] = choice.has_new_line;
  value["truncated"] = finish.context_full;
  value["stop_type"] = stop_type(finish);
  value["stopping_word"] = finish.stop;
  value["tokens_cached"] = finish.usage.cached_tokens;
  value["timings"] = timings_per_token_json(finish.usage, finish.timings);
  if (options_.stream) return bytes + sse_event(value);
  const auto asked = std::ranges::find(options_.response_fields, "completion_probabilities");
  const bool all = options_.response_fields.empty();
  choice.full_body = dump(all ? value : only_fields(value, options_.response_fields));
  if (options_.probabilities && (all || asked != options_.response_fields.end()))
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

std::string CompletionSerializer::failure(const Error& error) { return sse_event(openai_error(error)); }

ordered_json lora_json(std::span<const engine::AdapterScale> adapters) {
  ordered_json list = ordered_json::array();
  for (const auto& [id, scale] : adapters) list.push_back({{"id", id}, {"scale", as_written(scale)}});
  return list;
}

ordered_json settings_json(const engine::GenerateRequest& generate, int32_t context_tokens) {
  const sampling::SamplingParams& sampling = generate.sampling;
  ordered_json settings = {{"n_ctx", context_tokens},
                           {"n_predict", generate.max_tokens},
                           {"max_tokens", generate.max_tokens},
                           {"seed", sampling.seed}};
  // llama.cpp has its other settings between those of the rows.
  auto row = sampling::sampling_parameters().begin();
  const auto end = sampling::sampling_parameters().end();
  const auto add_through = [&](std::string_view last) {
    for (bool added = false; row != end && !added; ++row) {
      const double value = row->get(sampling);
      settings[std::string(row->settings_name())] =
          row->whole() ? ordered_json(static_cast<int64_t>(value)) : ordered_json(as_written(value));
      added = row->name == last;
    }
  };
  add_through("frequency_penalty");
  settings["stop"] = generate.stop;
  settings["ignore_eos"] = generate.ignore_eos;
  settings["n_probs"] = sampling.top_logprobs;
  ordered_json& bias = settings["logit_bias"] = ordered_json::array();
  for (const auto& [token, amount] : sampling.logit_bias)
    bias.push_back(ordered_json::array({index(token), as_written(amount)}));
  settings["min_tokens"] = generate.min_tokens;
  add_through("min_keep");
  settings["t_max_predict_ms"] = generate.line_time_max.count();
  add_through("dry_penalty_last_n");
  settings["dry_sequence_breakers"] = sampling.dry.breakers;
  add_through({});
  settings["n_keep"] = 0;
  settings["n_discard"] = 0;
  settings["post_sampling_probs"] = sampling.filtered_logprobs;
  settings["lora"] = generate.adapters ? lora_json(*generate.adapters) : ordered_json::array();
  settings["grammar"] = "";
  ordered_json& steps = settings["samplers"] = ordered_json::array();
  for (const sampling::SamplerStep step : sampling.steps) steps.push_back(sampling::sampler_step_name(step));
  return settings;
}

}  // namespace cairn::api::llama_cpp
