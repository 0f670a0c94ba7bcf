/// Chat templates for architectures whose published files come without one.
#pragma once

#include <string_view>

namespace cairn {

/// Jinja for ChatTemplate::create; empty if there is none.
///
/// deepseek4 takes, beside what every template gets: `thinking` or `enable_thinking`, `reasoning_effort` ("max" asks
/// for all there is), `drop_thinking` (false keeps that of earlier turns), `response_format` (a JSON schema), and
/// `tools_first` (the tools' definitions stand before the system messages, not after them).
std::string_view builtin_template(std::string_view architecture);

}  // namespace cairn
