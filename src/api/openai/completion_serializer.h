/// OpenAI's answer to a completion, whole or as a stream: text_completion.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/openai/lm_studio.h"
#include "api/openai/request.h"
#include "api/serialization/json_text.h"
#include "api/serialization/usage.h"
#include "api/stream/generation.h"
#include "tokenizer/detokenizer.h"
#include "tokenizer/tokenizer.h"

namespace cairn::api::openai {

struct CompletionOptions {
  std::string id;  ///< of the answer
  std::string model;
  int choices = 1;  ///< of the whole answer: prompts x n
  int choices_per_prompt = 1;
  bool stream = false;
  AnswerExtras extras{};
  bool logprobs = false;
  int32_t top_logprobs = 0;
  int32_t prompt_tokens = 0;                    ///< of all prompts
  std::vector<std::string> echoed{};            ///< of each prompt, what its texts begin with; empty: nothing
  std::vector<std::vector<TokenId>> prompts{};  ///< with extras.return_token_ids
  std::optional<LmStudioModel> lm_studio{};     ///< the answer has what LM Studio's have beside OpenAI's
};

/// Where in a text each of its tokens begins, in characters: a token that goes on with a character begins with it.
class TextOffsets {
 public:
  /// The tokens continue `begin` characters.
  TextOffsets(const tokenizer::Tokenizer& tokenizer, size_t begin) : detokenizer_(tokenizer), offset_(begin) {}
  /// The tokens are those of `prompt`, which may lack the text of the one that begins it.
  TextOffsets(const tokenizer::Tokenizer& tokenizer, std::string_view prompt);

  /// Where the next token begins.
  size_t next(TokenId token);

 private:
  tokenizer::Detokenizer detokenizer_;
  size_t offset_ = 0;
  TokenId without_text_ = kNoToken;
};

/// One answer. `tokenizer` outlives it (log-probabilities name tokens).
class CompletionSerializer final : public ResponseSerializer {
 public:
  CompletionSerializer(CompletionOptions options, const tokenizer::Tokenizer& tokenizer);

  bool streams() const override { return options_.stream; }
  std::string begin() override;
  std::string prefill(int choice, const engine::PrefillProgress& progress) override;
  std::string scores(int choice, std::span<engine::PromptScore> scores) override;
  std::string token(int choice, engine::TokenEvent&& event) override;
  std::string finish(int choice, engine::Finish&& finish) override;
  std::string done() override;
  std::string failure(const Error& error) override;

 private:
  struct Choice {
    Choice(const tokenizer::Tokenizer& tokenizer, std::string_view echoed);

    std::string text;
    nlohmann::ordered_json logprobs;                                     // of a stream: the object so far, null without
    JsonList tokens, token_logprobs, top_logprobs, text_offset;          // of an answer that does not stream
    JsonList prompt_logprobs;                                            // in vLLM's form
    nlohmann::ordered_json token_ids = nlohmann::ordered_json::array();  // that were not told yet
    std::string finish_reason;
    PrefillTold prefill;
    TextOffsets prompt_offsets;
    TextOffsets offsets;
    bool begun = false;  // of a stream: whether it has had a chunk
  };
  struct Chunk {
    std::string text{};
    nlohmann::ordered_json finish_reason = nullptr;
    nlohmann::ordered_json beside = nlohmann::ordered_json::object();  ///< members of the whole chunk
    nlohmann::ordered_json prompt_progress = nullptr;
  };
  const std::string& echoed(size_t choice) const;
  nlohmann::ordered_json envelope() const;
  /// The timings so far, if each token is to have them.
  nlohmann::ordered_json so_far() const;
  /// With the log-probabilities and the ids of tokens that came since the last one.
  std::string chunk(int choice, Chunk&& chunk);
  void add_logprob(Choice& choice, size_t offset, TokenId token, const nlohmann::ordered_json& logprob,
                   std::span<const sampling::TokenLogprob> top) const;
  /// An answer that does not stream, as JSON text.
  std::string whole(size_t index, Choice& choice) const;
  nlohmann::ordered_json prompt_ids(size_t choice) const;

  CompletionOptions options_;
  const tokenizer::Tokenizer& tokenizer_;
  int64_t created_;
  std::vector<Choice> choices_;
  TimingsSoFar so_far_;  // of all choices
  engine::Usage usage_;
  nlohmann::ordered_json beside_ = nlohmann::ordered_json::object();  // `timings` and the like of the first choice
};

}  // namespace cairn::api::openai
