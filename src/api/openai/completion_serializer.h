/// OpenAI's answer to a completion, whole or as a stream: text_completion.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "api/openai/lm_studio.h"
#include "api/serialization/json_text.h"
#include "api/serialization/usage.h"
#include "api/stream/generation.h"
#include "tokenizer/tokenizer.h"

namespace cairn::api::openai {

struct CompletionOptions {
  std::string id;  ///< of the answer
  std::string model;
  int choices = 1;  ///< of the whole answer: prompts x n
  int choices_per_prompt = 1;
  bool stream = false;
  bool include_usage = false;
  bool logprobs = false;
  bool return_progress = false;
  bool timings_per_token = false;
  std::vector<std::string> echoed{};         ///< of each prompt, what its texts begin with; empty: nothing
  std::optional<LmStudioModel> lm_studio{};  ///< the answer has what LM Studio's have beside OpenAI's
};

/// One answer. `tokenizer` outlives it (log-probabilities name tokens).
class CompletionSerializer final : public ResponseSerializer {
 public:
  CompletionSerializer(CompletionOptions options, const tokenizer::Tokenizer& tokenizer);

  bool streams() const override { return options_.stream; }
  std::string begin() override;
  std::string prefill(int choice, const engine::PrefillProgress& progress) override;
  std::string token(int choice, engine::TokenEvent&& event) override;
  std::string finish(int choice, engine::Finish&& finish) override;
  std::string done() override;
  std::string failure(const Error& error) override;

 private:
  struct Choice {
    std::string text;
    nlohmann::ordered_json logprobs;                                  // of a stream: the object so far, null without
    JsonList tokens, token_logprobs, top_logprobs, text_offset_list;  // of an answer that does not stream
    std::string finish_reason;
    PrefillTold prefill;
    size_t text_offset = 0;  // characters before, for log-probabilities
  };
  nlohmann::ordered_json envelope() const;
  /// The timings so far, if each token is to have them.
  nlohmann::ordered_json so_far() const;
  std::string chunk(int choice, std::string text, nlohmann::ordered_json logprobs, nlohmann::ordered_json finish_reason,
                    const nlohmann::ordered_json& beside = nlohmann::ordered_json::object(),
                    const nlohmann::ordered_json& prompt_progress = nullptr) const;
  void add_logprobs(Choice& choice, const engine::TokenEvent& event) const;
  /// An answer that does not stream, as JSON text.
  std::string whole(size_t index, Choice& choice) const;

  CompletionOptions options_;
  const tokenizer::Tokenizer& tokenizer_;
  int64_t created_;
  std::vector<Choice> choices_;
  TimingsSoFar so_far_;  // of all choices
  engine::Usage usage_;
  nlohmann::ordered_json beside_ = nlohmann::ordered_json::object();  // `timings` and the like of the first choice
};

}  // namespace cairn::api::openai
