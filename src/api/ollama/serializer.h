/// Ollama's answer to a chat or a prompt: one JSON object, or a line of JSON per token and one at the end.
///
/// Its clients take calls as objects, so that a call goes out when it is whole. One that is cut or broken, or whose
/// arguments are no object, is no call that a client could make: it goes out as text.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "api/chat/chat_output.h"
#include "api/serialization/json_text.h"
#include "tokenizer/tokenizer.h"

namespace cairn::api::ollama {

struct ResponseOptions {
  std::string model{};  ///< as the client calls it
  bool stream = true;
  bool generates = false;  ///< `response` and `thinking` in place of a message
  bool logprobs = false;
};

/// `tokenizer` outlives it.
class OllamaSerializer final : public ChatSerializer {
 public:
  OllamaSerializer(ResponseOptions options, const tokenizer::Tokenizer& tokenizer);

  bool streams() const override { return options_.stream; }
  net::StreamFormat stream_format() const override { return {"application/x-ndjson", ""}; }
  std::string begin() override { return {}; }
  std::string parts(int choice, std::span<const chat::Part> parts, const engine::TokenEvent* event) override;
  std::string finish(int choice, chat::ChatFinish&& finish) override;
  std::string done() override;
  std::string failure(const Error& error) override;

  /// For a request that has nothing to answer.
  std::string loaded() const;

 private:
  struct Delta {
    std::string content;
    std::string thinking;
    nlohmann::ordered_json calls = nlohmann::ordered_json::array();
    bool empty() const { return content.empty() && thinking.empty() && calls.empty(); }
  };
  void end_call(bool whole);
  std::string line_so_far();
  nlohmann::ordered_json envelope(Delta&& delta, bool done) const;

  ResponseOptions options_;
  const tokenizer::Tokenizer& tokenizer_;
  chat::ToolCall call_;  // that is open
  int calls_sent_ = 0;
  Delta delta_;        // since the last line
  JsonList logprobs_;  // the same
  std::string last_;   // the end of the stream, or the whole answer
};

/// Lets a ChatSerializer write an answer that is text and nothing else.
class RawPromptSerializer final : public ResponseSerializer {
 public:
  explicit RawPromptSerializer(std::unique_ptr<ChatSerializer> serializer) : serializer_(std::move(serializer)) {}

  bool streams() const override { return serializer_->streams(); }
  net::StreamFormat stream_format() const override { return serializer_->stream_format(); }
  int64_t kept_logprob_bytes() const override { return serializer_->kept_logprob_bytes(); }
  std::string begin() override { return serializer_->begin(); }
  std::string token(int choice, engine::TokenEvent&& event) override;
  std::string finish(int choice, engine::Finish&& finish) override;
  std::string done() override { return serializer_->done(); }
  std::string failure(const Error& error) override { return serializer_->failure(error); }

 private:
  std::unique_ptr<ChatSerializer> serializer_;
};

}  // namespace cairn::api::ollama
