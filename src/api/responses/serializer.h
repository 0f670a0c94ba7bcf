/// The answer of POST /v1/responses, whole or as a stream of named events: items one after the other, each announced,
/// sent piece by piece, and then sent whole.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "api/chat/chat_output.h"
#include "api/responses/custom_input.h"
#include "api/responses/text_tokens.h"
#include "api/responses/tools.h"
#include "api/serialization/usage.h"
#include "api/stream/running_responses.h"
#include "tokenizer/tokenizer.h"

namespace cairn::api::responses {

/// A response's `usage`.
nlohmann::ordered_json usage_json(const chat::ChatFinish& finish);

/// What a response needs of its request.
struct ResponseOptions {
  std::string id{};
  std::string model{};
  bool stream = false;
  nlohmann::ordered_json echo = nlohmann::ordered_json::object();  ///< ResponsesRequest::echo
  std::string tenant{};
  bool store = false;
  bool encrypted_reasoning = false;
  bool raw_reasoning = false;  ///< ResponsesRequest::raw_reasoning
  bool return_progress = false;
  bool timings_per_token = false;
  OfferedTools tools{};  ///< ResponsesRequest::offered
  const tokenizer::Tokenizer* tokenizer =
      nullptr;  ///< of the log-probabilities, which are sent with the text; null: none are
  /// Keeps the finished response, if `store`; false: it could not be kept. May wait for a disk: called on any thread.
  std::function<bool(const nlohmann::ordered_json& response)> keep{};
};

class ResponsesSerializer final : public ChatSerializer, public RunningResponse {
 public:
  /// `running` outlives this.
  ResponsesSerializer(ResponseOptions options, RunningResponses& running);
  ~ResponsesSerializer() override;

  bool streams() const override { return options_.stream; }
  int64_t kept_logprob_bytes() const override { return 3 * kLogprobDocumentBytes; }  // in an item, and as it is sent
  void on_start(std::function<void()> cancel) override;
  std::string begin() override;
  std::string prefill(int choice, const engine::PrefillProgress& progress) override;
  std::string parts(int choice, std::span<const chat::Part> parts, const engine::TokenEvent* event) override;
  void hidden_token() override { so_far_.token(); }
  std::string finish(int choice, chat::ChatFinish&& finish) override;
  std::function<void()> settle(const Error* error) override;
  std::string done() override;
  std::string failure(const Error& error) override;

  const std::string& tenant() const override { return options_.tenant; }
  bool stored() const override { return options_.store; }
  nlohmann::ordered_json now() const override { return response_; }
  nlohmann::ordered_json cancel() override;

 private:
  enum class Kind { kNone, kReasoning, kMessage, kCall, kCustomCall, kSearchCall };
  /// The item that is being sent.
  struct Item {
    Kind kind = Kind::kNone;
    nlohmann::ordered_json json;                                        // as it was announced
    std::string text;                                                   // so far: thinking, text, arguments or input
    CustomInput input;                                                  // of a custom call
    nlohmann::ordered_json logprobs = nlohmann::ordered_json::array();  // of a message's text so far
  };

  std::string event(std::string_view type, nlohmann::ordered_json fields);
  /// An event about the open item.
  std::string item_event(std::string_view type, nlohmann::ordered_json fields);
  std::string lifecycle(std::string_view type);
  std::string open(Kind kind, nlohmann::ordered_json item);
  std::string open_text(Kind kind);
  std::string open_call(const chat::Part& part);
  std::string part(const chat::Part& part);
  std::string say(const std::string& text);
  std::string close(std::string_view status);
  /// The events that end a text or thinking, which they write into the item.
  std::string close_text();
  std::string close_call();
  /// The item's content: all that it says so far.
  nlohmann::ordered_json content_part() const;
  bool is_summary() const { return item_.kind == Kind::kReasoning && !options_.raw_reasoning; }
  void end(std::string_view status);
  /// What `settle` gave has been done.
  void settled();

  ResponseOptions options_;
  RunningResponses& running_;
  nlohmann::ordered_json response_;  // as it would be shown now
  Item item_;
  TextTokens tokens_;
  int64_t sequence_ = 0;
  bool listed_ = false;  // in running_
  bool cancelled_ = false;
  std::shared_ptr<bool> kept_ = std::make_shared<bool>(false);
  PrefillTold prefill_;
  TimingsSoFar so_far_;
  std::string final_items_;  // of a response that was cut short, to be sent with its end
  std::function<void()> cancel_;
};

}  // namespace cairn::api::responses
