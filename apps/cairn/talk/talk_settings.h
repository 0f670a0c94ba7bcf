/// What /set changes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "talk/chat_flags.h"

namespace cairn {

/// Names that /set takes, besides "system".
std::vector<std::string> setting_names();
/// Sets a sampling parameter, by any of its names ("temp", "top_k", "repeat-penalty"), "seed", "max_tokens" or
/// "reasoning_budget"; "default" takes it back. Returns the line that tells of it. Errors: kNotFound with the nearest
/// name, kInvalidArgument with the range.
Result<std::string> change_setting(ChatFlags& flags, std::string_view name, std::string_view value);
/// What is set, a line each; empty: nothing.
std::string settings_text(const ChatFlags& flags);

}  // namespace cairn
