#include "api/params/request_context.h"

#include <algorithm>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "api/serialization/json_text.h"
#include "base/log.h"
#include "base/text/printable.h"

namespace cairn::api {
namespace {

/// The names that the log has a line of.
class NotedNames {
 public:
  enum class Told { kNew, kBefore, kLast };
  Told add(std::string_view name) {
    const std::lock_guard lock(mutex_);
    if (names_.size() >= kNotedNamesMax) return Told::kBefore;
    if (!names_.emplace(cut_text(name, kNotedNameBytesMax)).second) return Told::kBefore;
    return names_.size() == kNotedNamesMax ? Told::kLast : Told::kNew;
  }

 private:
  std::mutex mutex_;
  std::set<std::string, std::less<>> names_;
};

std::string without_numbers(std::string_view path) {
  std::string name;
  bool inside = false;
  for (const char c : path) {
    if (c == ']') inside = false;
    if (!inside) name += c;
    if (c == '[') inside = true;
  }
  return name;
}

}  // namespace

void RequestContext::add(std::string_view warning) {
  std::string text = cut_text(warning, kWarningBytesMax);
  if (std::ranges::find(warnings_, text) != warnings_.end()) return;
  if (warnings_.size() < kWarningsMax) {
    warnings_.push_back(std::move(text));
  } else {
    ++dropped_;
  }
}

void RequestContext::note_ignored(std::string_view name, std::string_view warning) {
  static NotedNames noted;
  add(warning);
  if (logged_ >= kNotedOfRequestMax) return;
  const auto told = noted.add(without_numbers(name));
  if (told == NotedNames::Told::kBefore) return;
  ++logged_;
  log_info("{} (told once)", cut_text(warning, kWarningBytesMax));
  if (told == NotedNames::Told::kLast)
    log_warning("requests had {} names without effect: the log is told of no more of them", kNotedNamesMax);
}

std::string RequestContext::wanted_warnings() const {
  if (!wants_warnings_) return {};
  nlohmann::ordered_json list = warnings_;
  if (dropped_ > 0) list.push_back(fmt::format("and {} more", dropped_));
  return dump(list);
}

}  // namespace cairn::api
