#include "api/llama_cpp/request.h"

#include <cmath>
#include <limits>
#include <random>

#include "api/generation.h"
#include "api/params/generation_params.h"
#include "api/params/llama_options.h"
#include "api/params/request_fields.h"

namespace cairn::api::llama_cpp {
namespace {

using nlohmann::ordered_json;

constexpr double kMost = std::numeric_limits<double>::max();
constexpr OffField kUnsupported[] = {
    {"n_indent", 0, 0, "ask for the indentation in the prompt"},
    {"min_keep", 0, 1, "one token is always kept"},
    {"t_max_predict_ms", -kMost, 0, "use n_predict, or close the connection"},
    {"n_cmpl", 1, 1, "send the prompt several times, as an array"},
    {"n", 1, 1, "send the prompt several times, as an array"},
    {"n_cache_reuse", -kMost, 0, "only beginnings of prompts are found again"},
};

std::string_view pair_error(const ordered_json& pair) {
  if (!pair.is_array() || pair.size() != 2) return "must hold pairs of a token id and a number";
  if (pair[0].is_string()) return "must name tokens by their ids, which POST /tokenize tells";
  if (!is_token_id(pair[0])) return "must hold pairs of a token id and a number";
  if (pair[1] != false && (!pair[1].is_number() || std::abs(pair[1].get<double>()) > 100))
    return "must hold numbers from -100 to 100, or false";
  return {};
}

// [[id, bias], [id, false], ...]; OpenAI's object is read_generation_params's.
void read_bias_pairs(RequestFields& fields, const ordered_json& pairs, SamplingParams& sampling) {
  if (pairs.size() > kLogitBiasMax)
    return fields.reject("logit_bias", fmt::format("may have at most {} entries", kLogitBiasMax));
  constexpr float kNever = -100;
  for (const auto& pair : pairs) {
    if (const auto error = pair_error(pair); !error.empty()) return fields.reject("logit_bias", std::string(error));
    sampling.logit_bias.emplace_back(TokenId{pair[0].get<int32_t>()}, pair[1] == false ? kNever : pair[1].get<float>());
  }
}

/// Elements are texts and token ids.
Result<MixedPrompt> read_mixed(const ordered_json& pieces, const std::string& path) {
  if (pieces.empty() || pieces.size() > kPromptPiecesMax)
    return fail_at(path, Code::kInvalidArgument, "{} must have 1 to {} elements", path, kPromptPiecesMax);
  MixedPrompt prompt;
  for (const auto& piece : pieces) {
    if (piece.is_string()) {
      prompt.emplace_back(piece.get<std::string>());
    } else if (is_token_id(piece)) {
      if (prompt.empty() || std::holds_alternative<std::string>(prompt.back()))
        prompt.emplace_back(std::vector<TokenId>());
      std::get<std::vector<TokenId>>(prompt.back()).push_back(TokenId{piece.get<int32_t>()});
    } else {
      return fail_at(path, Code::kInvalidArgument, "{} must hold texts and token ids only", path);
    }
  }
  return prompt;
}

Result<MixedPrompt> read_prompt(const ordered_json& value, const std::string& path) {
  if (value.is_string()) return MixedPrompt{value.get<std::string>()};
  if (value.is_array()) return read_mixed(value, path);
  if (!value.is_object()) {
    return fail_at(path, Code::kInvalidArgument, "{} must be a string or an array of token ids and texts, not {}", path,
                   json_kind(value));
  }
  RequestFields fields(value, path + ".");
  if (fields.get("prompt_string") == nullptr) fields.reject("prompt_string", "is missing");
  std::string text = fields.string("prompt_string", "");
  refuse_unless_empty(fields, "multimodal_data", "this model reads text only");
  CAIRN_TRY_VOID(fields.finish());
  return MixedPrompt{std::move(text)};
}

// One prompt, or an array of prompts: its elements are then all texts, or one of them is itself an array or an object.
Result<void> read_prompts(const ordered_json* value, CompletionRequest& request) {
  if (value == nullptr) return fail_at("prompt", Code::kInvalidArgument, "prompt is missing");
  bool all_texts = true;
  bool has_prompt = false;
  if (value->is_array()) {
    for (const auto& item : *value) {
      all_texts &= item.is_string();
      has_prompt |= item.is_array() || item.is_object();
    }
    request.several = !value->empty() && (all_texts || has_prompt);
  }
  if (!request.several) {
    CAIRN_TRY(MixedPrompt prompt, read_prompt(*value, "prompt"));
    request.prompts.push_back(std::move(prompt));
    return {};
  }
  if (value->size() > kChoicesMax) {
    return fail_at("prompt", Code::kInvalidArgument, "prompt may hold at most {} prompts, not {}", kChoicesMax,
                   value->size());
  }
  for (size_t i = 0; i < value->size(); ++i) {
    CAIRN_TRY(MixedPrompt prompt, read_prompt((*value)[i], fmt::format("prompt[{}]", i)));
    request.prompts.push_back(std::move(prompt));
  }
  return {};
}

void read_length(RequestFields& fields, GenerateRequest& generate) {
  read_predict(fields, "n_predict", 0, generate);
  const int32_t predict = generate.max_tokens;
  const bool both = fields.get("n_predict") != nullptr && fields.get("max_tokens") != nullptr;
  read_predict(fields, "max_tokens", 0, generate);
  if (both && predict != generate.max_tokens) fields.reject("max_tokens", "contradicts n_predict");
}

void refuse_fields(RequestFields& fields) {
  constexpr std::string_view kNoGrammar = "answers cannot be held to a grammar yet; ask for the form in the prompt";
  refuse_unless_empty(fields, "grammar", kNoGrammar);
  fields.refuse("json_schema", kNoGrammar);
  refuse_unless_empty(fields, "grammar_lazy", kNoGrammar);
  refuse_unless_empty(fields, "grammar_triggers", kNoGrammar);
  refuse_unless_empty(fields, "lora", "this server has no adapters");
  refuse_unless_empty(fields, "response_fields", "take what you need from the whole answer");
  refuse_unless_empty(fields, "post_sampling_probs", "n_probs tells the model's own probabilities");
  refuse_unless_empty(fields, "return_progress", "leave it out");
  refuse_unless_off(fields, kUnsupported);
  refuse_samplers(fields);
  // Hints about slots, about a context that shifts (here an answer ends with it), and about pings.
  fields.accept({"id_slot", "n_keep", "n_discard", "sse_ping_interval"});
}

}  // namespace

SamplingParams default_sampling() {
  SamplingParams sampling;
  sampling.temperature = 0.8f;
  sampling.top_k = 40;
  sampling.top_p = 0.95f;
  sampling.min_p = 0.05f;
  return sampling;
}

Result<CompletionRequest> parse_completion(const ordered_json& body) {
  ordered_json object = without_any_seed(body);
  ordered_json bias_pairs = ordered_json::array();
  if (const auto bias = object.find("logit_bias"); bias != object.end() && bias->is_array()) {
    bias_pairs = std::move(*bias);
    object.erase("logit_bias");
  }
  CompletionRequest request;
  GenerateRequest& generate = request.generate;
  generate.sampling = default_sampling();

  RequestFields fields(object);
  request.model = fields.string("model", "");
  request.stream = fields.boolean("stream", false);
  request.return_tokens = fields.boolean("return_tokens", false);
  request.timings_per_token = fields.boolean("timings_per_token", false);
  read_generation_params(fields, generate);
  read_bias_pairs(fields, bias_pairs, generate.sampling);
  read_length(fields, generate);
  request.only_prompt = generate.max_tokens == 0;
  if (request.only_prompt) generate.max_tokens = 1;  // the engine's least, of which nothing is shown
  generate.sampling.top_logprobs = static_cast<int32_t>(fields.integer("n_probs", 0, 0, kTopLogprobsMax));
  generate.sampling.logprobs = generate.sampling.top_logprobs > 0;
  if (!fields.boolean("cache_prompt", true)) {
    // A salt that nobody else has: nothing cached is found, and nobody finds this.
    std::random_device random;
    generate.salt = (static_cast<uint64_t>(random()) << 32 | random()) | 1;
  }
  refuse_fields(fields);
  const ordered_json* prompt = fields.get("prompt");
  CAIRN_TRY_VOID(fields.finish());
  CAIRN_TRY_VOID(read_prompts(prompt, request));
  return request;
}

}  // namespace cairn::api::llama_cpp
