/// OpenAI's answer to a chat, whole or as a stream: chat.completion(.chunk). Thinking is in reasoning_content, where
/// DeepSeek's API put it and most clients look for it.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "api/chat/chat_output.h"
#include "api/chat/run.h"
#include "api/openai/lm_studio.h"
#include "api/openai/request.h"
#include "api/serialization/json_text.h"
#include "api/serialization/token_json.h"
#include "api/serialization/usage.h"

namespace cairn::api::openai {

struct OpenAiChatOptions {
  AnswerExtras extras{};
  bool logprobs = false;
  std::set<std::string, std::less<>> custom_tools{};  ///< whose calls are custom calls
  bool has_functions = false;                         ///< the one call is in function_call, without an id
  std::optional<LmStudioModel> lm_studio{};           ///< the answer has what LM Studio's have beside OpenAI's

  /// What a request says of them.
  static OpenAiChatOptions of(const OpenAiChatRequest& request) {
    return {.extras = request.extras,
            .logprobs = request.chat.generate.sampling.logprobs,
            .custom_tools = request.custom_tools,
            .has_functions = request.has_functions};
  }
};

class OpenAiChatSerializer final : public ChatSerializer {
 public:
  OpenAiChatSerializer(const ChatStart& start, OpenAiChatOptions options);

  bool streams() const override { return stream_; }
  std::string begin() override;
  std::string prefill(int choice, const engine::PrefillProgress& progress) override;
  std::string scores(int choice, std::span<engine::PromptScore> scores) override;
  std::string parts(int choice, std::span<const chat::Part> parts, const engine::TokenEvent* event) override;
  void hidden_token() override { so_far_.token(); }
  std::string finish(int choice, chat::ChatFinish&& finish) override;
  std::string done() override;
  std::string failure(const Error& error) override;

 private:
  struct Choice {
    nlohmann::ordered_json logprobs;                                     // of a stream: the object so far, null without
    JsonList all_logprobs;                                               // of an answer that does not stream
    nlohmann::ordered_json token_ids = nlohmann::ordered_json::array();  // that were not told yet
    std::string full_body;                                               // as it stands in that, as JSON text
    std::map<int32_t, std::string> custom_arguments;                     // of a stream's custom calls, by their index
    PrefillTold prefill;
  };
  nlohmann::ordered_json envelope(std::string_view object) const;
  std::string chunk(int choice, nlohmann::ordered_json delta, nlohmann::ordered_json logprobs,
                    const nlohmann::ordered_json& finish = nullptr,
                    const nlohmann::ordered_json& prompt_progress = nullptr);
  /// The delta of a part of a custom call; null: nothing is to be said of it now, or it is of another call.
  nlohmann::ordered_json custom_delta(Choice& choice, const chat::Part& part) const;
  void add_logprobs(Choice& choice, const engine::TokenEvent& event) const;
  nlohmann::ordered_json usage() const;
  nlohmann::ordered_json prompt_ids() const { return ids_json(prompt_); }

  std::string id_;
  std::string model_;
  const tokenizer::Tokenizer& tokenizer_;
  bool stream_;
  OpenAiChatOptions options_;
  int32_t prompt_tokens_;
  std::vector<TokenId> prompt_;  // with extras.return_token_ids
  bool begun_ = false;           // of a stream: whether it has had a chunk
  JsonList prompt_logprobs_;     // in vLLM's form
  TimingsSoFar so_far_;          // of all choices
  int64_t created_;
  std::vector<Choice> choices_;
  engine::Usage usage_;
  int32_t reasoning_tokens_ = 0;
  nlohmann::ordered_json beside_ = nlohmann::ordered_json::object();  // `timings` and the like of the first choice
};

}  // namespace cairn::api::openai
