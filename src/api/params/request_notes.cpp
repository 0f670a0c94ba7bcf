#include "api/params/request_notes.h"

#include <algorithm>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "api/serialization/json_text.h"
#include "base/check.h"
#include "base/log.h"
#include "base/text/printable.h"

namespace cairn::api {
namespace {

thread_local RequestNotes* current_notes = nullptr;

constexpr std::string_view kMember = R"("warnings":)";

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

RequestNotes::RequestNotes(bool strict, DefaultsOfModel defaults, std::shared_ptr<RequestRecord> record)
    : strict_(strict), defaults_of_(std::move(defaults)), record_(std::move(record)) {
  CAIRN_CHECK(current_notes == nullptr);
  current_notes = this;
}

RequestNotes::~RequestNotes() { current_notes = nullptr; }

RequestNotes* RequestNotes::current() { return current_notes; }

const GenerationDefaults& RequestNotes::defaults() {
  if (!defaults_) defaults_ = defaults_of_ ? defaults_of_(model_) : GenerationDefaults();
  return *defaults_;
}

GenerationDefaults generation_defaults() {
  return current_notes == nullptr ? GenerationDefaults() : current_notes->defaults();
}

void RequestNotes::add(std::string_view warning) {
  std::string text = cut_text(warning, kWarningBytesMax);
  if (std::ranges::find(warnings_, text) != warnings_.end()) return;
  if (warnings_.size() < kWarningsMax) {
    warnings_.push_back(std::move(text));
  } else {
    ++dropped_;
  }
}

void note_ignored(std::string_view name, std::string_view warning) {
  static NotedNames noted;
  if (current_notes != nullptr) current_notes->add(warning);
  if (current_notes != nullptr && current_notes->logged_ >= kNotedOfRequestMax) return;
  const auto told = noted.add(without_numbers(name));
  if (told == NotedNames::Told::kBefore) return;
  if (current_notes != nullptr) ++current_notes->logged_;
  log_info("{} (told once)", cut_text(warning, kWarningBytesMax));
  if (told == NotedNames::Told::kLast)
    log_warning("requests had {} names without effect: the log is told of no more of them", kNotedNamesMax);
}

std::shared_ptr<RequestRecord> current_record() { return current_notes == nullptr ? nullptr : current_notes->record(); }

std::string wanted_warnings() {
  if (current_notes == nullptr || !current_notes->wanted_) return {};
  nlohmann::ordered_json list = current_notes->warnings_;
  if (current_notes->dropped_ > 0) list.push_back(fmt::format("and {} more", current_notes->dropped_));
  return dump(list);
}

std::string with_warnings(std::string body, std::string_view warnings) {
  const size_t end = body.rfind('}');
  if (warnings.empty() || end == std::string::npos) return body;
  const bool has_members = end > 0 && body[end - 1] != '{';
  body.insert(end, fmt::format("{}{}{}", has_members ? "," : "", kMember, warnings));
  return body;
}

bool add_to_first_event(std::string& bytes, std::string_view warnings) {
  const size_t begin = bytes.find('{');
  if (begin == std::string::npos) return false;
  const size_t line_end = std::min(bytes.find('\n', begin), bytes.size());
  bytes.replace(begin, line_end - begin, with_warnings(bytes.substr(begin, line_end - begin), warnings));
  return true;
}

}  // namespace cairn::api
