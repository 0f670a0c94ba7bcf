/// POST /v1/responses/compact: a conversation -> a shorter one that goes on from the same place.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "api/chat/chat_output.h"
#include "api/responses/request.h"

namespace cairn::api::responses {

/// A summary is cut there; the client may ask for another length by max_output_tokens.
inline constexpr int32_t kSummaryTokensMax = 4'096;

/// Turns a request whose conversation is to be shortened into one that asks the model for its summary: with the same
/// tools in the prompt, so that its beginning is found in the cache, but no call.
void ask_for_summary(ChatRequest& chat);

/// Answers with the items that are not the assistant's work (messages of the user, the developer and the system), and
/// the summary of all as an item of the type `compaction`. Where the model has written no summary, all items stay.
class CompactionSerializer final : public ChatSerializer {
 public:
  CompactionSerializer(std::string id, nlohmann::ordered_json items);

  bool streams() const override { return false; }
  std::string begin() override { return {}; }
  std::string parts(int, std::span<const chat::Part>, const engine::TokenEvent*) override { return {}; }
  std::string finish(int choice, chat::ChatFinish&& finish) override;
  std::string done() override;
  std::string failure(const Error&) override { return {}; }

 private:
  nlohmann::ordered_json answer_;
  nlohmann::ordered_json items_;
};

}  // namespace cairn::api::responses
