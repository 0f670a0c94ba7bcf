#include "engine/request_validation.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/text/utf8.h"

namespace cairn::engine {
namespace {

// An hour: no client waits longer for a token, and sums of nanoseconds stay far from overflow.
constexpr std::chrono::milliseconds kTargetMax{3'600'000};

Result<void> check_stops(const std::vector<std::string>& stops) {
  if (stops.size() > kStopStringsMax) {
    return fail_at("stop", Code::kInvalidArgument, "there are {} stop strings; at most {} are allowed", stops.size(),
                   kStopStringsMax);
  }
  for (size_t i = 0; i < stops.size(); ++i) {
    const std::string at = fmt::format("stop[{}]", i);
    if (stops[i].empty()) return fail_at(at, Code::kInvalidArgument, "a stop string must not be empty");
    if (stops[i].size() > kStopBytesMax) {
      return fail_at(at, Code::kInvalidArgument, "a stop string has {} bytes; at most {} are allowed", stops[i].size(),
                     kStopBytesMax);
    }
    if (!utf8_valid(stops[i])) return fail_at(at, Code::kInvalidArgument, "a stop string is not valid UTF-8");
  }
  return {};
}

Result<void> check_stop_tokens(const GenerateRequest& request, int32_t vocabulary) {
  if (request.stop_tokens.size() > kStopTokensMax) {
    return fail_at("stop_token_ids", Code::kInvalidArgument, "there are {} stop tokens; at most {} are allowed",
                   request.stop_tokens.size(), kStopTokensMax);
  }
  for (const TokenId token : request.stop_tokens) {
    if (index(token) >= 0 && index(token) < vocabulary) continue;
    return fail_at("stop_token_ids", Code::kInvalidArgument,
                   "stop_token_ids names token {}; this model has tokens 0 to {}", index(token), vocabulary - 1);
  }
  if (request.min_tokens >= 0) return {};
  return fail_at("min_tokens", Code::kInvalidArgument, "min_tokens is {}; it must be 0 or more", request.min_tokens);
}

Result<void> check_allowed_tokens(const std::vector<TokenId>& tokens, int32_t vocabulary) {
  for (const TokenId token : tokens) {
    if (index(token) >= 0 && index(token) < vocabulary) continue;
    return fail_at("allowed_token_ids", Code::kInvalidArgument,
                   "allowed_token_ids names token {}; this model has tokens 0 to {}", index(token), vocabulary - 1);
  }
  return {};
}

// Biases of texts become biases of their tokens.
Result<void> resolve_text_bias(GenerateRequest& request, const AdmissionLimits& limits) {
  for (const auto& [text, bias] : std::exchange(request.text_bias, {})) {
    if (text.size() > kBiasedTextBytesMax) {
      return fail_at("logit_bias", Code::kInvalidArgument, "logit_bias has a text of {} bytes; at most {} are allowed",
                     text.size(), kBiasedTextBytesMax);
    }
    CAIRN_TRY(const auto tokens, limits.tokenizer->encode(text, {}));
    for (const TokenId token : tokens) request.sampling.logit_bias.emplace_back(token, bias);
  }
  return {};
}

Result<void> check_targets(const GenerateRequest& request) {
  const std::pair<const char*, std::chrono::milliseconds> targets[] = {{"target_ttft_ms", request.target_ttft},
                                                                       {"target_tbt_ms", request.target_tbt}};
  for (const auto& [name, target] : targets) {
    if (target.count() >= 0 && target <= kTargetMax) continue;
    return fail_at(name, Code::kInvalidArgument, "{} is {}; it must be from 1 to {}, or left out", name, target.count(),
                   kTargetMax.count());
  }
  return {};
}

Result<void> check_prompt(const std::vector<TokenId>& prompt, int32_t vocabulary) {
  if (prompt.empty()) {
    return fail_at("prompt", Code::kInvalidArgument, "the prompt has no tokens; at least one is needed");
  }
  for (size_t i = 0; i < prompt.size(); ++i) {
    const int32_t token = index(prompt[i]);
    if (token >= 0 && token < vocabulary) continue;
    return fail_at(fmt::format("prompt[{}]", i), Code::kInvalidArgument,
                   "the prompt names token {}; this model has tokens 0 to {}", token, vocabulary - 1);
  }
  return {};
}

Result<void> check_prompt_logprobs(const GenerateRequest& request) {
  if (!request.prompt_logprobs) return {};
  const int32_t top = *request.prompt_logprobs;
  if (top < 0 || top > sampling::kTopLogprobsMax) {
    return fail_at("prompt_logprobs", Code::kInvalidArgument, "prompt_logprobs must be from 0 to {}, not {}",
                   sampling::kTopLogprobsMax, top);
  }
  const int64_t scores = static_cast<int64_t>(request.prompt.size()) * (1 + top);
  if (scores <= kPromptScoresMax) return {};
  return fail_at("prompt_logprobs", Code::kInvalidArgument,
                 "a prompt of {} tokens with the {} most likely ones of each has {} log-probabilities; at most {} are "
                 "told: ask for fewer of each, or for the prompt in parts",
                 request.prompt.size(), top, scores, kPromptScoresMax);
}

Result<void> check_logits(const GenerateRequest& request, int32_t vocabulary) {
  if (request.logits == LogitsKept::kNone) return {};
  if (request.max_tokens != 0) {
    return fail_at("max_tokens", Code::kInvalidArgument, "max_tokens must be 0 of a request for logits, not {}",
                   request.max_tokens);
  }
  const int64_t rows = request.logits == LogitsKept::kAll ? static_cast<int64_t>(request.prompt.size()) : 1;
  if (rows * vocabulary <= kLogitsMax) return {};
  return fail_at("prompt", Code::kTooLarge,
                 "{} tokens with {} logits each are {}; one request may ask for {}: ask for fewer tokens at a time, or "
                 "for the logits behind the last one alone",
                 rows, vocabulary, rows * vocabulary, kLogitsMax);
}

Result<void> check_embedding(const GenerateRequest& request, const AdmissionLimits& limits) {
  const bool ranks = request.embed->pooling == model::Pooling::kRank;
  if (limits.embedding.dimensions == 0 || request.embed->pooling == model::Pooling::kNone ||
      (ranks && !limits.embedding.ranks)) {
    return fail_at("model", Code::kUnsupported, "this model {}",
                   ranks ? "has no head that ranks texts" : "gives no embeddings");
  }
  const auto tokens = static_cast<int64_t>(request.prompt.size());
  if (tokens > limits.context_tokens) {
    return fail_at("prompt", Code::kContextLengthExceeded, "the text has {} tokens, but the context has {}: shorten it",
                   tokens, limits.context_tokens);
  }
  if (tokens > limits.pool_tokens) {
    return fail_at("prompt", Code::kTooLarge,
                   "the text has {} tokens, but the KV pool has room for {}: raise --kv-bytes", tokens,
                   limits.pool_tokens);
  }
  return {};
}

}  // namespace

int32_t pool_tokens_of(const cache::PagePool& pool) {
  int64_t tokens = std::numeric_limits<int32_t>::max();
  for (int32_t group = 0; group < pool.groups(); ++group) {
    const cache::KvKind kind = pool.layout().groups[static_cast<size_t>(group)].kind;
    if (kind == cache::KvKind::kWindow || kind == cache::KvKind::kState) continue;
    tokens = std::min(tokens, int64_t{pool.pages_total(group)} * kernels::kPageTokens);
  }
  return static_cast<int32_t>(tokens);
}

int32_t pages_needed(const cache::KvGroup& group, int64_t tokens, int32_t rows) {
  if (group.kind == cache::KvKind::kState) return 1;
  const int32_t all = cache::pages_for(tokens);
  if (group.kind != cache::KvKind::kWindow) return all;
  // The pages of the first row's window and of the rows themselves, not aligned to pages at either end.
  return std::min(all, cache::pages_for(int64_t{group.window} + rows) + 1);
}

Result<std::unique_ptr<Submission>> check_request(GenerateRequest&& request, const AdmissionLimits& limits) {
  CAIRN_TRY_VOID(check_prompt(request.prompt, limits.vocabulary));
  if (request.embed) {
    CAIRN_TRY_VOID(check_embedding(request, limits));
    auto embedding = std::make_unique<Submission>();
    embedding->tokens_max = static_cast<int32_t>(request.prompt.size());
    embedding->request = std::move(request);
    return embedding;
  }
  CAIRN_TRY_VOID(resolve_text_bias(request, limits));
  CAIRN_TRY_VOID(request.sampling.validate(limits.vocabulary));
  CAIRN_TRY_VOID(check_stop_tokens(request, limits.vocabulary));
  CAIRN_TRY_VOID(check_allowed_tokens(request.allowed_tokens, limits.vocabulary));
  CAIRN_TRY_VOID(check_stops(request.stop));
  CAIRN_TRY_VOID(check_targets(request));
  CAIRN_TRY_VOID(check_prompt_logprobs(request));
  CAIRN_TRY_VOID(check_logits(request, limits.vocabulary));
  if (request.max_tokens < -1) {
    return fail_at("max_tokens", Code::kInvalidArgument,
                   "max_tokens is {}; it must be 0 or more, or -1 for the rest of the context", request.max_tokens);
  }
  const int32_t context = limits.context_tokens;
  const bool answers = request.max_tokens != 0;
  if (request.prompt.size() + (answers ? 1 : 0) > static_cast<size_t>(context)) {
    auto failure =
        fail_at("prompt", Code::kContextLengthExceeded,
                "the prompt has {} tokens, but the context has {}{}: shorten the prompt or start with a longer "
                "context",
                request.prompt.size(), context, answers ? ", of which one must be left for the answer" : "");
    failure.error().overflow = {static_cast<int64_t>(request.prompt.size()), context};
    return failure;
  }
  const auto prompt = static_cast<int32_t>(request.prompt.size());
  auto submission = std::make_unique<Submission>();
  submission->tokens_max = request.max_tokens == -1 ? context : prompt + std::min(request.max_tokens, context - prompt);
  // The last token of the answer is never computed, so it needs no place; the pool may end before the context does.
  const int64_t pool_tokens = int64_t{limits.pool_tokens} + (answers ? 1 : 0);
  if (request.max_tokens == -1 && prompt < pool_tokens) {
    submission->tokens_max = static_cast<int32_t>(std::min<int64_t>(submission->tokens_max, pool_tokens));
  }
  if (submission->tokens_max > pool_tokens) {
    return fail(
        Code::kTooLarge,
        "the request may need {} KV pages of {} tokens for its prompt of {} tokens and an answer of up to {}; the "
        "pool has {}: lower max_tokens, shorten the prompt or raise --kv-bytes",
        cache::pages_for(submission->tokens_max - (answers ? 1 : 0)), kernels::kPageTokens, prompt,
        submission->tokens_max - prompt, limits.pool_tokens / kernels::kPageTokens);
  }
  submission->request = std::move(request);
  return submission;
}

}  // namespace cairn::engine
