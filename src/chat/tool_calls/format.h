/// The formats in which models call tools: how to know a model's from its chat template, what opens a block of calls,
/// who reads it, and how a call is written, for those who force or forbid one.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "chat/tool_calls/tool_call_parser.h"

namespace cairn {

enum class ToolFormat {
  kNone,  ///< nothing is a call
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

/// A block as models write it: block_open (call_open NAME name_close ARGUMENTS call_close) separator ... block_close.
/// In call_open and name_close, {index} stands for the call's number, from 0, and {id} for a new call id.
struct CallSyntax {
  std::string_view block_open{};
  std::string_view call_open{};
  std::string_view name_close{};
  std::string_view call_close{};
  std::string_view separator{};
  std::string_view block_close{};
  ArgumentForm form = ArgumentForm::kJson;
};

struct ToolStyle {
  ToolFormat format = ToolFormat::kNone;
  std::string_view name;
  /// Whether a template's source shows this format. The first of the table that says so is taken.
  bool (*matches)(std::string_view source);
  std::span<const BlockStart> block_starts;
  /// One byte that begins a block where nothing but whitespace has come before; else null.
  const BlockStart* bare = nullptr;
  std::string_view prompt_open{};  ///< the first block start's text, if prompts end with it
  CallSyntax syntax{};
  bool gives_ids = false;  ///< the model's ids must come back to the template
  /// Shows, once a part of a block start, that a call begins; such a format's markup is OutputParser::in_syntax().
  /// Empty: it is not looked at.
  std::string_view syntax_mark{};
  int id_bytes = 0;  ///< letters and digits that the template wants in a call's id; 0: any id will do
};

/// All but kNone and kHarmony, whose calls are part of how it writes everything (harmony.h).
std::span<const ToolStyle* const> tool_styles();
/// Null for kNone.
const ToolStyle* find_style(ToolFormat format);

/// What `required` or a named tool forces the answer to begin with: up to the arguments, or up to the name if `name` is
/// empty. `index` and `id` for the formats that number calls or write their ids.
std::string forced_opening(const ToolStyle& style, std::string_view name, int index = 0, std::string_view id = {});

inline bool shows(std::string_view source, std::string_view text) {
  return source.find(text) != std::string_view::npos;
}

}  // namespace tool_call
}  // namespace cairn
