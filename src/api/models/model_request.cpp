#include "api/models/model_request.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text/json.h"
#include "base/text/printable.h"

namespace cairn::api {
namespace {

using nlohmann::ordered_json;
using namespace std::chrono_literals;

/// A year: longer times are as good as none, and sums of them do not overflow.
constexpr double kKeepSecondsMax = 365.0 * 24 * 3'600;

/// Texts of some members of a JSON object, found without reading the others.
class Members {
 public:
  explicit Members(std::string_view text) : text_(text) { read(); }
  /// The member's value as JSON; empty: there is no such member.
  std::string_view find(std::string_view key) const {
    const auto found = values_.find(key);
    return found == values_.end() ? std::string_view() : found->second;
  }

 private:
  static constexpr std::string_view kWanted[] = {"model", "name", "keep_alive", "stream", "prompt", "messages"};
  static constexpr std::string_view kSpace = " \t\r\n";

  /// Where the string that begins at `at` has ended.
  size_t string_end(size_t at) const {
    ++at;
    while ((at = text_.find_first_of("\"\\", at)) != std::string_view::npos) {
      if (text_[at] == '"') return at + 1;
      at += 2;  // the backslash and what it escapes
    }
    return text_.size();
  }
  /// Where the value that begins at `at` has ended.
  size_t value_end(size_t at) const {
    int depth = 0;
    while (at < text_.size()) {
      const char c = text_[at];
      if (depth == 0 && (c == ',' || c == '}')) return at;
      if (c == '"') {
        at = string_end(at);
        continue;
      }
      if (c == '{' || c == '[') ++depth;
      if (c == '}' || c == ']') --depth;
      at = depth > 0 ? text_.find_first_of("\"{}[]", at + 1) : at + 1;
    }
    return text_.size();
  }
  void read() {
    size_t at = text_.find_first_not_of(kSpace);
    if (at >= text_.size() || text_[at] != '{') return;
    while (true) {
      at = text_.find_first_not_of(" \t\r\n,", at + 1);
      if (at >= text_.size() || text_[at] != '"') return;
      const size_t end = string_end(at);
      const std::string_view key = text_.substr(at, end - at);
      at = text_.find_first_not_of(kSpace, end);
      if (at >= text_.size() || text_[at] != ':') return;
      at = text_.find_first_not_of(kSpace, at + 1);
      if (at >= text_.size()) return;
      const size_t value = value_end(at);
      for (const std::string_view wanted : kWanted)
        if (key.size() == wanted.size() + 2 && key.substr(1, wanted.size()) == wanted)
          values_[wanted] = text_.substr(at, value - at);
      at = value;
      if (at >= text_.size() || text_[at] != ',') return;
    }
  }

  std::string_view text_;
  std::map<std::string_view, std::string_view> values_;
};

ordered_json value_of(std::string_view text) {
  if (text.empty()) return nullptr;
  auto value = read_json(text);
  return value ? *std::move(value) : ordered_json(nullptr);
}

/// Whether a member is missing or empty.
bool is_absent(std::string_view text) {
  std::string dense;
  for (const char c : text.substr(0, 8))
    if (std::string_view(" \t\r\n").find(c) == std::string_view::npos) dense += c;
  return dense.empty() || dense == "null" || dense == "\"\"" || dense == "[]";
}

loader::KeepAlive keep_of(double seconds) {
  if (seconds < 0 || seconds > kKeepSecondsMax) return {std::nullopt};
  return {std::chrono::milliseconds(static_cast<int64_t>(std::llround(seconds * 1e3)))};
}

}  // namespace

std::optional<loader::KeepAlive> parse_keep_alive(std::string_view text) {
  struct Unit {
    std::string_view name;
    double seconds;
  };
  constexpr Unit kUnits[] = {{"ns", 1e-9}, {"us", 1e-6}, {"µs", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3'600}};
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  if (text.empty()) return std::nullopt;
  double sum = 0;
  while (!text.empty()) {
    double number = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
    if (error != std::errc() || number < 0 || !std::isfinite(number)) return std::nullopt;
    text.remove_prefix(static_cast<size_t>(rest - text.data()));
    const auto unit = std::ranges::find_if(kUnits, [&](const Unit& one) {
      if (!text.starts_with(one.name)) return false;
      const std::string_view behind = text.substr(one.name.size());
      return behind.empty() || (behind[0] >= '0' && behind[0] <= '9') || behind[0] == '.';
    });
    if (unit == std::end(kUnits)) {
      if (!text.empty() || sum != 0) return std::nullopt;
      return keep_of(negative ? -number : number);  // seconds alone
    }
    sum += number * unit->seconds;
    text.remove_prefix(unit->name.size());
  }
  return keep_of(negative && sum > 0 ? -1 : sum);
}

Result<ModelRequest> read_model_request(std::string_view body, bool ollama) {
  const Members members(body);
  ModelRequest request;
  ordered_json name = value_of(members.find("model"));
  if (!name.is_string() && ollama) name = value_of(members.find("name"));
  if (name.is_string()) request.model = name.get<std::string>();
  const std::string_view stream = members.find("stream");
  request.stream = stream.empty() ? ollama : stream.starts_with("true");
  request.asks_nothing = is_absent(members.find("prompt")) && is_absent(members.find("messages"));
  const ordered_json keep = ollama ? value_of(members.find("keep_alive")) : ordered_json(nullptr);
  CAIRN_TRY(request.keep_alive, read_keep_alive(keep));
  return request;
}

Result<std::optional<loader::KeepAlive>> read_keep_alive(const ordered_json& value) {
  if (value.is_null() || value == "") return std::nullopt;
  std::optional<loader::KeepAlive> keep;
  if (value.is_number()) keep = keep_of(value.get<double>());
  if (value.is_string()) keep = parse_keep_alive(value.get<std::string>());
  if (keep) return keep;
  return fail_at("keep_alive", Code::kInvalidArgument, "keep_alive must be a number of seconds or a time like \"5m\"");
}

}  // namespace cairn::api
