#include "chat/answer/beginning.h"

#include <algorithm>
#include <utility>

#include "base/hash.h"
#include "chat/answer/call_id.h"
#include "chat/output/harmony_parser.h"
#include "chat/tool_calls/format.h"

namespace cairn::chat {
namespace {

/// Ends the thinking that the prompt has begun; empty if it has not.
std::string thinking_close(const OutputFormat& format, std::string_view prompt) {
  const OutputParser parser(format, nullptr, prompt);
  return parser.in_reasoning() ? parser.reasoning_close() : std::string();
}

/// The tool that the call names; empty: the model chooses. The name of the only tool need not be left to the model.
std::string forced_name(const AnswerRequest& request) {
  const auto& tools = request.input.tools;
  return request.tool_name.empty() && tools.size() == 1 ? tools[0]["function"].value("name", "") : request.tool_name;
}

}  // namespace

Prefill prefill_of(const OutputFormat& format, std::string_view text, std::string_view prompt) {
  // Answers do not begin with whitespace, whatever the template ends with.
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return {};
  std::string before = thinking_close(format, prompt);
  if (before.empty() && format.reasoning == ReasoningFormat::kHarmony) before = kHarmonyFinal;
  return {std::move(before), std::string(text.substr(begin))};
}

ForcedPrefix forced_prefix_of(const OutputFormat& format, const AnswerRequest& request, std::string_view prompt) {
  const auto* style = tool_call::find_style(format.tools);
  if (style == nullptr) return {};
  const std::string name = forced_name(request);
  // The id goes into the prompt: of the same prompt it is the same.
  const std::string id = call_id_of(hash64(prompt), style->id_bytes);
  std::string before = tool_call::forced_opening(*style, {}, 0, id);
  const std::string whole = tool_call::forced_opening(*style, name, 0, id);
  const std::string behind = whole.substr(before.size());  // the name and what follows it
  ForcedOpening opening{.before = before, .name = name, .behind = behind.substr(name.size())};
  // The prompt may have begun the block already.
  if (!style->prompt_open.empty() && prompt.ends_with(style->prompt_open) && before.starts_with(style->prompt_open))
    before.erase(0, style->prompt_open.size());
  before.insert(0, thinking_close(format, prompt));
  const size_t begin = before.size();
  std::string text = before + behind;
  // A space belongs to the token after it, which is the model's to choose.
  while (text.ends_with(' ')) text.pop_back();
  std::string& last = name.empty() ? opening.before : opening.behind;
  while (last.ends_with(' ')) last.pop_back();
  const ByteRange named{begin, std::min(begin + name.size(), text.size())};
  return {std::move(text), named, std::move(opening)};
}

}  // namespace cairn::chat
