#include "api/telemetry/request_log.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "api/serialization/json_text.h"
#include "base/log.h"
#include "base/system/random_id.h"
#include "base/text/printable.h"

namespace cairn::api {
namespace {

using nlohmann::ordered_json;

double milliseconds_of(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

/// The rate of an answer's tokens behind the first, since that came.
double tokens_per_second(const RequestFacts& facts) {
  const double seconds = std::chrono::duration<double>(facts.duration - facts.first_token).count();
  return facts.has_first_token && facts.output_tokens > 1 && seconds > 0
             ? static_cast<double>(facts.output_tokens - 1) / seconds
             : 0;
}

/// The rate of the prompt's tokens that were computed; 0: none were.
double prompt_tokens_per_second(const RequestFacts& facts) {
  const double seconds = std::chrono::duration<double>(facts.times.prefill).count();
  const int64_t computed = facts.prompt_tokens - facts.cached_tokens;
  return seconds > 0 && computed > 0 ? static_cast<double>(computed) / seconds : 0;
}

std::string shown(std::string_view name) { return printable(name, kLoggedNameBytesMax); }

/// What is between the braces of the object.
std::string members_of(const ordered_json& object) {
  std::string text = dump(object);
  return text.substr(1, text.size() - 2);
}

/// To a tenth of a unit.
double rounded(double value) { return static_cast<double>(static_cast<int64_t>(value * 10 + 0.5)) / 10; }

ordered_json common_members(const RequestFacts& facts, std::string_view event) {
  ordered_json members = {{"event", event},
                          {"request", facts.id},
                          {"protocol", facts.protocol},
                          {"method", shown(facts.method)},
                          {"path", shown(facts.path)},
                          {"remote", facts.remote}};
  members["key"] = facts.key.empty() ? ordered_json(nullptr) : ordered_json(shown(facts.key));
  return members;
}

std::string out_members(const RequestFacts& facts) {
  ordered_json members = common_members(facts, "request_out");
  members["status"] = facts.status;
  members["client_gone"] = !facts.delivered;
  members["ms"] = rounded(milliseconds_of(facts.duration));
  members["model"] = facts.model.empty() ? ordered_json(nullptr) : ordered_json(shown(facts.model));
  if (!facts.client_id.empty()) members["client_request"] = facts.client_id;
  if (facts.model.empty()) return members_of(members);
  members["stream"] = facts.stream;
  members["choices"] = facts.choices;
  members["prompt_tokens"] = facts.prompt_tokens;
  members["cached_tokens"] = facts.cached_tokens;
  if (facts.disk_tokens > 0) members["disk_tokens"] = facts.disk_tokens;
  members["output_tokens"] = facts.output_tokens;
  members["ttft_ms"] =
      facts.has_first_token ? ordered_json(rounded(milliseconds_of(facts.first_token))) : ordered_json(nullptr);
  members["prompt_tokens_per_second"] = rounded(prompt_tokens_per_second(facts));
  members["tokens_per_second"] = rounded(tokens_per_second(facts));
  if (const chat::ReplayedTurns& turns = facts.replayed; turns.all() > 0)
    members["turns"] = {{"memory", turns.memory}, {"store", turns.store}, {"rendered", turns.rendered}};
  members["queue_ms"] = rounded(milliseconds_of(facts.times.queue));
  members["finish"] = facts.finish.empty() ? ordered_json(nullptr) : ordered_json(facts.finish);
  return members_of(members);
}

std::string time_text(std::chrono::nanoseconds time) {
  const double ms = milliseconds_of(time);
  return ms < 1'000 ? fmt::format("{:.1f} ms", ms) : fmt::format("{:.2f} s", ms / 1'000);
}

/// The address without the port.
std::string_view host_of(std::string_view remote) {
  return remote.substr(0, std::min(remote.rfind(':'), remote.size()));
}

/// "prompt 12 (11 cached) answer 39": tokens.
std::string tokens_text(const RequestFacts& facts) {
  if (facts.finish == "embedded") return fmt::format("{} texts of {} tokens", facts.choices, facts.prompt_tokens);
  const std::string disk = facts.disk_tokens > 0 ? fmt::format(", {} from the disk", facts.disk_tokens) : "";
  return fmt::format("prompt {} ({} cached{}) answer {}", facts.prompt_tokens, facts.cached_tokens, disk,
                     facts.output_tokens);
}

/// ", turns 3 as sampled, 1 from the store, 2 rendered": of the assistant, without those that there are none of.
std::string turns_text(const chat::ReplayedTurns& turns) {
  std::string text;
  const auto add = [&text](int32_t count, std::string_view how) {
    if (count > 0) text += fmt::format("{}{} {}", text.empty() ? ", turns " : ", ", count, how);
  };
  add(turns.memory, "as sampled");
  add(turns.store, "from the store");
  add(turns.rendered, "rendered");
  return text;
}

std::string out_text(const RequestFacts& facts) {
  std::string text = fmt::format("{} {} {}", shown(facts.method), shown(facts.path),
                                 facts.status == 0 ? "-" : fmt::format("{}", facts.status));
  if (!facts.model.empty()) text += fmt::format(" model={} {}", shown(facts.model), tokens_text(facts));
  if (!facts.finish.empty()) text += fmt::format(", {}", facts.finish);
  if (facts.has_first_token) {
    const double prompt_rate = prompt_tokens_per_second(facts);
    text += fmt::format(", first token {}{}, {:.1f} tokens/s", time_text(facts.first_token),
                        prompt_rate > 0 ? fmt::format(" (prompt at {:.1f} tokens/s)", prompt_rate) : "",
                        tokens_per_second(facts));
  }
  text += turns_text(facts.replayed);
  text += ", " + time_text(facts.duration);
  if (facts.stream) text += ", stream";
  if (!facts.delivered) text += ", client gone";
  if (!facts.key.empty()) text += ", key " + shown(facts.key);
  text += fmt::format(", from {}, {}", host_of(facts.remote), logged_id(facts.id));
  if (!facts.client_id.empty()) text += fmt::format(" (its client's id: \"{}\")", facts.client_id);
  return text;
}

}  // namespace

void log_request_in(const RequestFacts& facts) {
  if (log_format() == LogFormat::kJson && log_enabled(facts.log_level))
    return log_event(facts.log_level, "request in", members_of(common_members(facts, "request_in")));
  log_debug("{} {} begins, from {}, {}", shown(facts.method), shown(facts.path), facts.remote, logged_id(facts.id));
}

void log_request_out(const RequestFacts& facts) {
  if (facts.log_level == LogLevel::kOff || !log_enabled(facts.log_level)) return;
  if (log_format() == LogFormat::kJson) return log_event(facts.log_level, "request out", out_members(facts));
  log_line(facts.log_level, out_text(facts));
}

}  // namespace cairn::api
