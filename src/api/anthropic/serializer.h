/// Anthropic's answer: one message, whole or as a stream of named events. Every run of text, thinking or call is a
/// content block of its own, in the order in which the model wrote them.
///
/// A call that is cut or broken is one in a stream, with arguments that are no JSON. The input of a whole message must
/// be an object: there such a call is a text, as the model wrote it.
///
/// Source: Anthropic API reference, "Create a Message" and "Streaming messages".
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "api/chat/chat_output.h"

namespace cairn::api::anthropic {

struct ResponseOptions {
  std::string id{};
  std::string model{};
  bool stream = false;
  int32_t prompt_tokens = 0;
  int32_t max_tokens = 1;
  bool shows_thinking = true;  ///< false: thinking blocks have a signature and no text
  bool marks_cache = false;    ///< whether usage tells what was written to the cache from other input
};

class MessagesSerializer final : public ChatSerializer {
 public:
  explicit MessagesSerializer(ResponseOptions options) : options_(std::move(options)) {}

  bool streams() const override { return options_.stream; }
  net::StreamFormat stream_format() const override;
  std::string begin() override;
  std::string parts(int choice, std::span<const chat::Part> parts, const engine::TokenEvent* event) override;
  std::string finish(int choice, chat::ChatFinish&& finish) override;
  std::string done() override;
  std::string failure(const Error& error) override;

 private:
  struct Block {
    chat::PartKind kind;  // kContent, kReasoning or kCallBegin
    std::string text;     // or the call's arguments
    std::string id;
    std::string name;

    void become_text(std::string text_of_call) {
      kind = chat::PartKind::kContent;
      text = std::move(text_of_call);
    }
  };
  nlohmann::ordered_json message(nlohmann::ordered_json content, nlohmann::ordered_json usage) const;
  /// What goes on with `kind`; begins a block if another kind is open.
  std::string add(chat::PartKind kind, const std::string& text);
  std::string begin_block(Block block);
  std::string end_block();

  ResponseOptions options_;
  std::optional<Block> open_;
  int index_ = 0;                                                     // of the open block, or the next
  nlohmann::ordered_json content_ = nlohmann::ordered_json::array();  // without a stream
  nlohmann::ordered_json stop_ = {{"stop_reason", nullptr}, {"stop_sequence", nullptr}};
  nlohmann::ordered_json usage_;
};

}  // namespace cairn::api::anthropic
