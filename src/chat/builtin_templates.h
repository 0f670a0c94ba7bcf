/// Chat templates for architectures whose published files come without one.
#pragma once

#include <string_view>

namespace cairn::chat {

/// The Jinja source of an architecture's template, for ChatTemplate::create; empty if there is none.
///
/// Besides the usual variables, deepseek4's template takes: `thinking` or `enable_thinking`, `reasoning_effort` ("max"
/// is the highest), `drop_thinking` (false keeps the thinking of earlier turns), `response_format` (a JSON schema), and
/// `tools_first` (puts the tools' definitions before the system messages instead of after them).
std::string_view builtin_template(std::string_view architecture);

}  // namespace cairn::chat
