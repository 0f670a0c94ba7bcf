/// OpenAI's answers, whole or as a stream of chunks: chat.completion(.chunk) and text_completion.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "api/generation.h"
#include "tokenizer/tokenizer.h"

namespace cairn::api::openai {

enum class AnswerKind { kChat, kCompletion };

struct AnswerOptions {
  AnswerKind kind = AnswerKind::kChat;
  std::string id;  ///< of the answer
  std::string model;
  int choices = 1;  ///< of the whole answer: prompts x n
  int choices_per_prompt = 1;
  bool stream = false;
  bool include_usage = false;
  bool logprobs = false;
};

/// One answer. `tokenizer` outlives it (log-probabilities name tokens).
class OpenAiAnswer final : public AnswerWriter {
 public:
  OpenAiAnswer(AnswerOptions options, const Tokenizer& tokenizer);

  bool streams() const override { return options_.stream; }
  std::string begin() override;
  std::string token(int choice, TokenEvent&& event) override;
  std::string finish(int choice, Finish&& finish) override;
  std::string done() override;
  std::string failure(const Error& error) override;

 private:
  struct Choice {
    std::string text;
    nlohmann::ordered_json logprobs;  // the object so far, null without
    std::string finish_reason;
    size_t text_offset = 0;  // characters before, for completion log-probabilities
  };
  nlohmann::ordered_json envelope(std::string_view object) const;
  std::string chunk(int choice, nlohmann::ordered_json delta, nlohmann::ordered_json logprobs,
                    nlohmann::ordered_json finish_reason, const nlohmann::ordered_json& timings = nullptr) const;
  void add_logprobs(Choice& choice, const TokenEvent& event) const;
  nlohmann::ordered_json usage() const;

  AnswerOptions options_;
  const Tokenizer& tokenizer_;
  int64_t created_;
  std::vector<Choice> choices_;
  Usage usage_;
  nlohmann::ordered_json timings_;  // of the first choice, once it has finished
};

}  // namespace cairn::api::openai
