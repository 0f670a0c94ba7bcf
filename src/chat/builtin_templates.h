/// Chat templates for architectures whose published files come without one.
#pragma once

#include <functional>
#include <string_view>

namespace cairn::chat {

/// The Jinja source of an architecture's template, for ChatTemplate::create; empty if there is none.
///
/// Besides the usual variables, deepseek4's template takes: `thinking` or `enable_thinking`, `reasoning_effort` ("max"
/// is the highest), `drop_thinking` (false keeps the thinking of earlier turns), `response_format` (a JSON schema), and
/// `tools_first` (puts the tools' definitions before the system messages instead of after them).
std::string_view builtin_template(std::string_view architecture);

/// How a model without a template is probably written to.
struct FallbackTemplate {
  std::string_view family;  ///< whose form it is: "Llama 3"
  std::string_view source;  ///< empty: nothing is known, and ChatML is all that is left (ChatTemplate::create)
};
/// It is chosen by the architecture, if the vocabulary has the control tokens of its usual form: `has_token` is asked
/// for their texts.
FallbackTemplate fallback_template(std::string_view architecture,
                                   const std::function<bool(std::string_view)>& has_token);

}  // namespace cairn::chat
