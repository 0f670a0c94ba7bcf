/// A conversation in the terminal: messages, answers, and commands.
#pragma once

#include <string>

#include "base/error.h"
#include "talk/chat_flags.h"
#include "talk/talk_model.h"

namespace cairn {

/// Reads messages from standard input until it ends or somebody leaves: with an editor on a terminal, else a message a
/// line. `exit_code` is kExitFailed if the last message had no answer.
void converse(const ChatFlags& flags, TalkModel& model, int& exit_code);
/// Answers a message that is no conversation. Errors: those of TalkModel::answer.
Result<void> answer_once(const ChatFlags& flags, TalkModel& model, const std::string& message);

/// What standard input, which is no terminal, holds, in lines that end with LF. Errors: those of read_standard_input.
Result<std::string> read_whole_input();

}  // namespace cairn
