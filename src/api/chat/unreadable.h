/// What stands in a conversation in the place of its pictures, sounds and files: history is data, so a screenshot in a
/// tool's result must not end a session with a model that reads text only.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace cairn::api {

/// Maximum bytes of a part's media type, address or name that its text repeats.
inline constexpr size_t kPartNameBytesMax = 256;

/// "image", "audio", "video" or "file" for the types of parts and blocks that all protocols have for those
/// ("image_url", "input_image", "document", ...); empty for other types.
std::string_view media_kind(std::string_view type);

/// The text in a part's place: "[image: image/png, this model reads text only]", with its media type, address or name
/// if it tells one. Logs the kind once per process.
std::string unreadable_part(const nlohmann::ordered_json& part);

/// Logs, once per process for each type, that blocks of this type have no part in the prompt.
void log_unknown_block(std::string_view type);

}  // namespace cairn::api
