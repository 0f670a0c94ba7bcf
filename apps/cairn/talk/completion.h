/// What Tab completes in a conversation.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "terminal/line_editor.h"
#include "terminal/slash_commands.h"

namespace cairn {

/// Commands; behind /model the names that `models` gives, behind /set those of `settings`, behind /save and /load and
/// in messages the names of files. `commands` outlives what is returned.
terminal::Completer talk_completer(std::span<const terminal::SlashCommand> commands,
                                   std::function<std::vector<std::string>()> models, std::vector<std::string> settings);

}  // namespace cairn
