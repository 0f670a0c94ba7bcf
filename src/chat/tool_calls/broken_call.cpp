#include "chat/tool_calls/broken_call.h"

#include <array>
#include <string>

#include "chat/tool_calls/characters.h"

namespace cairn::chat::tool_call {
namespace {

// The tag, or the fence, in a text that closes a call or a block; empty if it has none.
std::string_view tag_in(std::string_view text) {
  size_t at = text.find('<');
  if (at == std::string_view::npos) at = text.find('`');
  return at == std::string_view::npos ? std::string_view() : text.substr(at);
}

MarkerMatcher matcher_of(std::string_view first, std::string_view second) {
  return MarkerMatcher(std::array{first, second});
}

}  // namespace

BrokenCall::BrokenCall(const CallSyntax& syntax)
    : call_tag_(tag_in(syntax.call_close)),
      block_tag_(tag_in(syntax.block_close)),
      matcher_(matcher_of(call_tag_, block_tag_)) {}

ToolCallParser::Step BrokenCall::push(char byte, PartWriter& parts) {
  std::string text;
  if (ended_) {
    ++after_bytes_;
    if (matcher_.held().empty() && is_space(byte)) return Step::kMore;
    const int found = matcher_.push(byte, text);
    unread_ = after_bytes_;
    if (!text.empty()) return Step::kUnread;
    return found < 0 ? Step::kMore : Step::kDone;
  }
  const int found = matcher_.push(byte, text);
  parts.arguments(text);
  if (found < 0) return Step::kMore;
  parts.end(CallState::kBroken);
  if (found == 1 || block_tag_.empty()) return Step::kDone;
  ended_ = true;
  matcher_ = matcher_of(block_tag_, {});
  return Step::kMore;
}

void BrokenCall::cut_call(PartWriter& parts) {
  parts.arguments(matcher_.held());
  parts.end(CallState::kBroken);
}

}  // namespace cairn::chat::tool_call
