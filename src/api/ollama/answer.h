/// Ollama's answer to a chat or a prompt: one JSON object, or a line of JSON per token and one at the end.
///
/// Its clients take calls as objects, so that a call goes out when it is whole. One that is not, because the answer
/// came to its end within it or because its arguments are no object, is no call that a client could make: it goes out
/// as text.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "api/chat/answer.h"
#include "api/serialization/json_text.h"
#include "tokenizer/tokenizer.h"

namespace cairn::api::ollama {

struct AnswerForm {
  std::string model{};  ///< as the client calls it
  bool stream = true;
  bool generates = false;  ///< `response` and `thinking` in place of a message
  bool logprobs = false;
};

/// `tokenizer` outlives it.
class OllamaAnswer final : public ChatWriter {
 public:
  OllamaAnswer(AnswerForm form, const Tokenizer& tokenizer);

  bool streams() const override { return form_.stream; }
  net::StreamForm stream_form() const override { return {"application/x-ndjson", ""}; }
  ErrorShape error_shape() const override { return ErrorShape::kOllama; }
  std::string begin() override { return {}; }
  std::string parts(int choice, std::span<const Part> parts, const TokenEvent* event) override;
  std::string finish(int choice, ChatFinish&& finish) override;
  std::string done() override;
  std::string failure(const Error& error) override;

  /// For a request that has nothing to answer.
  std::string loaded() const;

 private:
  struct Call {
    ToolCall call;
    CallState state = CallState::kRepaired;  // until its end has come
  };
  struct Said {
    std::string content;
    std::string thinking;
    nlohmann::ordered_json calls = nlohmann::ordered_json::array();
    bool empty() const { return content.empty() && thinking.empty() && calls.empty(); }
  };
  void end_call(const Call& call, bool whole);
  std::string line_so_far();
  nlohmann::ordered_json envelope(Said&& said, bool done) const;

  AnswerForm form_;
  const Tokenizer& tokenizer_;
  std::vector<Call> waiting_;  // begun, and not known to be whole
  int calls_said_ = 0;
  Said said_;          // since the last line
  JsonList logprobs_;  // the same
  std::string last_;   // the end of the stream, or the whole answer
};

/// Lets a ChatWriter write an answer that is text and nothing else.
class RawAnswer final : public AnswerWriter {
 public:
  explicit RawAnswer(std::unique_ptr<ChatWriter> writer) : writer_(std::move(writer)) {}

  bool streams() const override { return writer_->streams(); }
  net::StreamForm stream_form() const override { return writer_->stream_form(); }
  ErrorShape error_shape() const override { return writer_->error_shape(); }
  int64_t kept_logprob_bytes() const override { return writer_->kept_logprob_bytes(); }
  std::string begin() override { return writer_->begin(); }
  std::string token(int choice, TokenEvent&& event) override;
  std::string finish(int choice, Finish&& finish) override;
  std::string done() override { return writer_->done(); }
  std::string failure(const Error& error) override { return writer_->failure(error); }

 private:
  std::unique_ptr<ChatWriter> writer_;
};

}  // namespace cairn::api::ollama
