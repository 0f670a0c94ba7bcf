/// A model that is loaded here, to talk to.
#pragma once

#include <memory>

#include "base/error.h"
#include "talk/chat_flags.h"
#include "talk/talk_model.h"

namespace cairn {

/// Finds the model of the flags and loads it, with its progress on a terminal. Errors: those of the form's flags, of
/// find_model and of loading.
Result<std::unique_ptr<TalkModel>> load_talk_model(const ChatFlags& flags, const ModelSearch& search);

}  // namespace cairn
