/// Which names of tools a format's calls can have: those that the format's parser reads out of a call as they are.
#pragma once

#include <string_view>

#include "chat/tool_calls/format.h"

namespace cairn::chat {

/// Where calls in this format can have the name: empty. Else its beginning, to the end of the character that is taken
/// for markup, or is lost. Names of OpenAI's alphabet, letters, digits, _ and -, are never refused.
std::string_view uncallable_beginning(const tool_call::ToolStyle& style, std::string_view name);

}  // namespace cairn::chat
