/// A server's model, to talk to.
#pragma once

#include <memory>

#include "base/error.h"
#include "talk/chat_flags.h"
#include "talk/talk_model.h"

namespace cairn {

/// The model of the flags' server. `in_person`: somebody is at the terminal, so that the server is asked first whether
/// it is there. Errors: kInvalidArgument (no address), kNotFound (the server has no model of that name),
/// kUnavailable.
Result<std::unique_ptr<TalkModel>> connect_talk_model(const ChatFlags& flags, bool in_person);
/// The model of the server that runs where one listens by default (default_server_url), if it is Cairn's or llama.cpp's
/// and can be talked to; else null. What stands in the way, of a server that is there, is said on standard error.
std::unique_ptr<TalkModel> find_running_model(const ChatFlags& flags);

}  // namespace cairn
