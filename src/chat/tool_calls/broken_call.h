/// Reads the rest of a call whose arguments cannot be read: all of it belongs to them, as it comes, up to the tag that
/// ends the call.
#pragma once

#include <string_view>

#include "chat/tool_calls/format.h"
#include "chat/tool_calls/marker_matcher.h"

namespace cairn::chat::tool_call {

class BrokenCall final : public ToolCallParser {
 public:
  /// A call has been begun. In a format without a tag that ends calls, the rest of the output belongs to it.
  explicit BrokenCall(const CallSyntax& syntax);
  Step push(char byte, PartWriter& parts) override;
  void cut_call(PartWriter& parts) override;
  bool between_calls() const override { return ended_; }

 private:
  std::string_view call_tag_;
  std::string_view block_tag_;
  MarkerMatcher matcher_;
  bool ended_ = false;      // the call; the tag that ends the block may follow
  size_t after_bytes_ = 0;  // since then
};

}  // namespace cairn::chat::tool_call
