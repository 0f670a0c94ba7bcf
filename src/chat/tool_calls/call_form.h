/// From a format of calls to what their grammar is made from.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "chat/tool_calls/format.h"
#include "grammar/call_grammar.h"

namespace cairn::tool_call {

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

/// How the parameters of a function are read in formats that do not write their types.
grammar::ParameterKind parameter_kind(ValueKind kind);

}  // namespace cairn::tool_call
