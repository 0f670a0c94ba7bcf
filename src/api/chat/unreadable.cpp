#include "api/chat/unreadable.h"

#include <fmt/format.h>

#include <mutex>
#include <nlohmann/json.hpp>
#include <set>

#include "base/log.h"
#include "base/text/printable.h"

namespace cairn::api {
namespace {

using nlohmann::ordered_json;

constexpr size_t kTypesLoggedMax = 64;

/// Whether this is the first time in the process, as long as there are few of them: a client chooses the types.
bool first_time(const std::string& what) {
  static std::mutex mutex;
  static std::set<std::string> seen;
  const std::lock_guard lock(mutex);
  return seen.size() < kTypesLoggedMax && seen.insert(what).second;
}

std::string_view string_of(const ordered_json& object, std::string_view name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? std::string_view(found->get_ref<const std::string&>())
                                                     : std::string_view();
}

/// The media type of a data URL, another address as it is.
std::string_view name_of_url(std::string_view url) {
  constexpr std::string_view kData = "data:";
  if (!url.starts_with(kData)) return url;
  url.remove_prefix(kData.size());
  return url.substr(0, url.find_first_of(";,"));
}

/// What a part says of itself, in the fields that protocols have for it; empty: nothing.
std::string_view name_of(const ordered_json& part, int depth) {
  constexpr std::string_view kNames[] = {"media_type", "mimeType", "mime_type", "title", "filename", "format"};
  for (const std::string_view name : kNames)
    if (const std::string_view text = string_of(part, name); !text.empty()) return text;
  for (const std::string_view name : {"url", "image_url", "file_url", "file_data", "file_id"})
    if (const std::string_view text = name_of_url(string_of(part, name)); !text.empty()) return text;
  if (depth == 0) return {};
  for (const std::string_view name : {"image_url", "source", "input_audio", "file", "video_url"}) {
    const auto found = part.find(name);
    if (found == part.end() || !found->is_object()) continue;
    if (const std::string_view text = name_of(*found, depth - 1); !text.empty()) return text;
  }
  return {};
}

}  // namespace

std::string_view media_kind(std::string_view type) {
  const auto has = [&](std::string_view word) { return type.find(word) != std::string_view::npos; };
  if (has("image")) return "image";
  if (has("audio")) return "audio";
  if (has("video")) return "video";
  return has("file") || has("document") ? "file" : "";
}

std::string unreadable_part(const ordered_json& part) {
  const std::string_view type = part.is_object() ? string_of(part, "type") : std::string_view();
  const std::string kind(media_kind(type).empty() ? "part" : media_kind(type));
  if (first_time(kind)) log_info("a conversation has an {}, in whose place the model gets a note", kind);
  const std::string name = part.is_object() ? printable(name_of(part, 1), kPartNameBytesMax) : std::string();
  return fmt::format("[{}: {}{}this model reads text only]", kind, name, name.empty() ? "" : ", ");
}

void log_unknown_block(std::string_view type) {
  const std::string name = printable(type);
  if (first_time(name)) log_info("conversations have blocks of type {}, which are no part of the prompt", name);
}

}  // namespace cairn::api
