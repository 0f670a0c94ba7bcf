/// The formats in which models call tools: how to recognise a model's format from its chat template, what opens a block
/// of calls, which class reads it, and how a call is written, in order to force or to forbid one.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "chat/tool_calls/tool_call_parser.h"

namespace cairn::chat {

enum class ToolFormat {
  kNone,  ///< no calls are recognised
  kHermes,
  kLlama,
  kMistral,
  kMistralList,
  kMistralId,
  kDeepSeekV3,
  kDeepSeekV31,
  kDsmlV32,
  kDsmlV4,
  kQwenCoder,
  kSeed,
  kGlm,
  kHy,
  kKimi,
  kKimiK3,
  kHarmony,
  kCommandR,
  kCommandRPlus,
  kGemma,
  kGemmaFence,
  kGranite,
  kApertus,
  kApriel,
  kFireFunction,
  kFunctionary,
  kFunctionaryRecipient,
  kGigaChat,
  kGigaChatRole,
  kLfm,
  kMiniCpm,
  kMiniMaxM1,
  kMiniMaxM2,
  kNemotron,
  kSolar,
};

namespace tool_call {

/// A text that begins a block of calls.
struct BlockStart {
  std::string_view text;
  std::unique_ptr<ToolCallParser> (*open)();
  bool known_names_only = false;  ///< the text means other things too: a call must name one of the tools
};

enum class ArgumentForm {
  kJson,
  kTags,    ///< tags of the format around each argument
  kPython,  ///< key=value, ... ) after name_close
  kGemma,   ///< key:value, ... } after name_close; see Dialect::kGemma
};

enum class TagNext { kParameters, kKey, kAttributes, kCallEnd, kBlockEnd };

/// A text that ends a name or a value, and what follows it.
struct TagEnd {
  std::string_view marker;
  TagNext next = TagNext::kParameters;
};

/// How an argument of kTags or kPython is written: open KEY key_close VALUE close. A text stands as it is, with exactly
/// this markup; around other values there may be white space.
struct ParameterSyntax {
  std::string_view open{};
  std::string_view key_close{};
  std::string_view other_key_close{};  ///< before a value that is no text, where it differs; empty: key_close
  std::string_view close{};
  std::span<const TagEnd> ends{};  ///< no value contains these
  std::string_view text_open{};    ///< and text_close: what may be around a text besides
  std::string_view text_close{};
};

/// The syntax of a block: block_open (call_open NAME name_close ARGUMENTS call_close) separator ... block_close. In
/// call_open and name_close, {index} is replaced by the call's number, from 0, and {id} by a new call id.
struct CallSyntax {
  std::string_view block_open{};
  std::string_view call_open{};
  std::string_view name_close{};
  std::string_view call_close{};
  std::string_view separator{};
  std::string_view block_close{};
  ArgumentForm form = ArgumentForm::kJson;
  ParameterSyntax parameter{};
};

struct ToolStyle {
  ToolFormat format = ToolFormat::kNone;
  std::string_view name;
  /// Whether a template's source shows this format. The first of the table that says so is taken.
  bool (*matches)(std::string_view source);
  std::span<const BlockStart> block_starts;
  /// One byte that begins a block where nothing but whitespace has come before; else null.
  const BlockStart* bare = nullptr;
  std::string_view prompt_open{};     ///< the first block start's text, if prompts end with it
  std::string_view text_recipient{};  ///< behind prompt_open, what begins a text in place of a call
  CallSyntax syntax{};
  bool gives_ids = false;  ///< the model's ids must come back to the template
  /// Shows, once a part of a block start, that a call begins; such a format's markup is OutputParser::in_syntax().
  /// Empty: it is not looked at.
  std::string_view syntax_mark{};
  int id_bytes = 0;  ///< number of letters and digits that the template requires in a call's id; 0: any id is valid
};

/// All styles but kNone and kHarmony, whose calls are part of its message format (output/harmony_parser.h).
std::span<const ToolStyle* const> tool_styles();
/// The style of a format; null for kNone.
const ToolStyle* find_style(ToolFormat format);

/// The text with which `required` or a named tool forces the answer to begin: up to the arguments, or up to the name if
/// `name` is empty. `index` and `id` are for the formats that number calls or write their ids.
std::string forced_opening(const ToolStyle& style, std::string_view name, int index = 0, std::string_view id = {});

inline bool shows(std::string_view source, std::string_view text) {
  return source.find(text) != std::string_view::npos;
}

}  // namespace tool_call
}  // namespace cairn::chat
