/// From a format of calls to what their grammar is made from.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "chat/tool_calls/format.h"
#include "grammar/grammar_source.h"

namespace cairn::chat::tool_call {

/// A format's text as the model's vocabulary has it in grammars (AnswerVocabulary::spell).
using Spell = FunctionRef<std::string(std::string_view text, bool opens)>;

/// A text that begins a block, and how certain it is that it does.
struct CallStart {
  std::string_view text;
  bool certain = true;  ///< else it means other things too: a call has begun when a tool's name has come
};

/// The texts after which a call follows call_forms(). Other spellings that are read too are not among them.
std::vector<CallStart> call_starts(const ToolStyle& style);

/// Harmony's headers have several orders; all other formats have one form.
std::vector<grammar::CallForm> call_forms(const ToolStyle& style, Spell spell);

/// How messages of Harmony are put together, each with the role that begins it; without `thinks` none is thinking.
grammar::MessageFrame harmony_frame(Spell spell, bool thinks);
/// The forms of its calls as messages of such a frame.
std::vector<grammar::CallForm> harmony_calls(Spell spell);
/// What a prompt ends with that has begun an answer in such a frame; empty: it has begun none.
std::string_view harmony_begun(std::string_view prompt);

/// How the parameters of a function are read in formats that do not write their types.
grammar::ParameterKind parameter_kind(ValueKind kind);

}  // namespace cairn::chat::tool_call
