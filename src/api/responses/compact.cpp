#include "api/responses/compact.h"

#include <utility>

#include "api/responses/serializer.h"
#include "api/responses/transcript.h"
#include "api/serialization/json_text.h"
#include "api/serialization/timestamps.h"
#include "base/system/random_id.h"

namespace cairn::api::responses {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kQuestion =
    "Write a summary of this conversation, from which alone it can be continued. Say what was asked for and why, what "
    "was done and what came of it, which files, names, commands and numbers matter, what was decided, and what is "
    "still to be done next. Write the summary only.";

bool is_assistants(const ordered_json& item) {
  return item_type(item) != "message" || item.value("role", "") == "assistant";
}

}  // namespace

void ask_for_summary(ChatRequest& chat) {
  chat.input.messages.push_back({{"role", "user"}, {"content", kQuestion}});
  chat.stream = false;
  chat.stored = false;
  if (!chat.input.tools.is_null()) chat.tool_use = chat::ToolUse::kNone;
  chat.tool_name.clear();
  if (!chat.reasoning.enabled && chat.reasoning.effort.empty()) chat.reasoning.enabled = false;
  if (chat.generate.max_tokens < 1) chat.generate.max_tokens = kSummaryTokensMax;
}

CompactionSerializer::CompactionSerializer(std::string id, ordered_json items)
    : answer_({{"id", std::move(id)}, {"object", "response.compaction"}, {"created_at", unix_seconds_now()}}),
      items_(std::move(items)) {}

std::string CompactionSerializer::finish(int, chat::ChatFinish&& finish) {
  const std::string& summary = finish.turn.content;
  if (summary.find_first_not_of(" \t\r\n") != std::string::npos) {
    ordered_json kept = ordered_json::array();
    for (auto& item : items_)
      if (!is_assistants(item)) kept.push_back(std::move(item));
    kept.push_back({{"id", random_id("cmp_")},
                    {"type", "compaction"},
                    {"encrypted_content", std::string(kSummaryMark) + summary}});
    items_ = std::move(kept);
  }
  answer_["output"] = std::move(items_);
  answer_["usage"] = usage_json(finish);
  return {};
}

std::string CompactionSerializer::done() { return dump(answer_); }

}  // namespace cairn::api::responses
