/// The beginning of an answer that is not the model's choice: a text that the client gives, or a call that is required.
#pragma once

#include <string>
#include <string_view>

#include "base/text/byte_range.h"
#include "chat/answer/request.h"
#include "chat/output/output_parser.h"

namespace cairn::chat {

/// An answer's beginning that the client gives, and what must come before an answer's text: the end of thinking that
/// the prompt has begun. Both are empty if there is none.
struct Prefill {
  std::string before;
  std::string text;
};
Prefill prefill_of(const OutputFormat& format, std::string_view text, std::string_view prompt);

/// The beginning of a block of calls that is forced on the model; empty: it begins calls as it likes.
struct ForcedOpening {
  std::string before{};  ///< the name, in the format's words
  std::string name{};    ///< the client's text; empty: the model names the tool
  std::string behind{};
};

/// The text with which a required call, or one of a named tool, begins the answer.
struct ForcedPrefix {
  std::string text{};
  ByteRange name{};         ///< of the tool, in `text`: the client has written it
  ForcedOpening opening{};  ///< of a block of calls, from its first byte, which the prompt may have written
};
/// Empty in a format without calls. `prompt`: its end.
ForcedPrefix forced_prefix_of(const OutputFormat& format, const AnswerRequest& request, std::string_view prompt);

}  // namespace cairn::chat
