/// Finds out what a chat template can show, by rendering tiny conversations with words in them and looking for the
/// words.
#pragma once

#include "base/function_ref.h"
#include "chat/chat_input.h"
#include "jinja/jinja.h"

namespace cairn::chat {

/// Limits for probes: a probe is tiny, and a template that needs more than this for it is not supported.
inline constexpr jinja::JinjaLimits kProbeLimits{
    .steps_max = 1'000'000, .output_bytes_max = 4 << 20, .memory_bytes_max = 16 << 20};

/// A message's content as a list of one part, which holds the text.
nlohmann::ordered_json text_parts(std::string_view text);

/// Renders messages as they are, with tools or null, and without a generation prompt.
using ProbeRenderer =
    FunctionRef<Result<jinja::Rendering>(nlohmann::ordered_json messages, const nlohmann::ordered_json& tools)>;

/// What the renderings show. If not even a user's message can be rendered, probes tell nothing, and the template counts
/// as one that can do everything.
ChatCapabilities probe_template(ProbeRenderer render);

/// Whether the template shows a message of this role.
bool probe_role(ProbeRenderer render, const ChatCapabilities& can, const std::string& role);

}  // namespace cairn::chat
