/// A model that is loaded here, to talk to.
#pragma once

#include <memory>

#include "base/error.h"
#include "talk/chat_flags.h"
#include "talk/talk_model.h"

namespace cairn {

/// Loads the model of the flags, with its progress on a terminal. Errors: those of the form's flags and of loading.
Result<std::unique_ptr<TalkModel>> load_talk_model(const ChatFlags& flags);

}  // namespace cairn
