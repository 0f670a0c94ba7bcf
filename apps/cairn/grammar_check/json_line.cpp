#include "grammar_check/json_line.h"

#include <fmt/format.h>

#include <unordered_map>
#include <utility>
#include <vector>

#include "base/text/json.h"
#include "base/text/text_file.h"

namespace cairn {

namespace {

using nlohmann::ordered_json;

/// Builds a document without looking up names, which takes quadratic time in ordered_json.
class LineBuilder {
 public:
  using Members = std::vector<std::pair<std::string, ordered_json>>;

  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(int64_t value) { return add(value); }
  bool number_unsigned(uint64_t value) { return add(value); }
  bool number_float(double value, const std::string& text) { return add(exact_number(value, text)); }
  bool string(std::string& value) { return add(std::move(value)); }
  bool binary(ordered_json::binary_t& /*value*/) { return false; }
  bool start_object(size_t /*size*/) { return begin(true); }
  bool start_array(size_t /*size*/) { return begin(false); }
  bool key(std::string& name) {
    if (skipped_ == 0) open_.back().name = std::move(name);
    return true;
  }
  bool end_object() {
    if (skipped_ > 0) return end_skipped();
    Open done = std::move(open_.back());
    open_.pop_back();
    return add(object_of(std::move(done.members)));
  }
  bool end_array() {
    if (skipped_ > 0) return end_skipped();
    Open done = std::move(open_.back());
    open_.pop_back();
    return add(std::move(done.items));
  }
  bool parse_error(size_t position, const std::string& /*token*/, const nlohmann::detail::exception& /*error*/) {
    error_at_ = position;
    return false;
  }

  ordered_json take() { return std::move(root_); }
  size_t error_at() const { return error_at_; }
  bool too_deep() const { return too_deep_; }

 private:
  // An array or object that has not ended.
  struct Open {
    bool is_object = false;
    std::string name{};  // of the member that comes next
    Members members{};
    ordered_json::array_t items{};
  };

  bool add(ordered_json value) {
    if (skipped_ > 0) return true;
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (open_.back().is_object) {
      open_.back().members.emplace_back(std::move(open_.back().name), std::move(value));
    } else {
      open_.back().items.push_back(std::move(value));
    }
    return true;
  }

  bool begin(bool is_object) {
    if (skipped_ > 0 || open_.size() == kLineDepthMax) {
      too_deep_ = true;
      ++skipped_;
    } else {
      open_.push_back({.is_object = is_object});
    }
    return true;
  }

  bool end_skipped() {
    if (--skipped_ == 0) add(nullptr);
    return true;
  }

  // Equal names have the last value, in the place of the first.
  static ordered_json object_of(Members members) {
    std::unordered_map<std::string_view, size_t> first_of;
    std::vector<bool> dropped(members.size());
    for (size_t i = 0; i < members.size(); ++i) {
      const auto [first, is_new] = first_of.try_emplace(members[i].first, i);
      if (is_new) continue;
      members[first->second].second = std::move(members[i].second);
      dropped[i] = true;
    }
    ordered_json object = ordered_json::object();
    auto& list = object.get_ref<ordered_json::object_t&>();
    for (size_t i = 0; i < members.size(); ++i)
      if (!dropped[i]) list.emplace_back(std::move(members[i].first), std::move(members[i].second));
    return object;
  }

  std::vector<Open> open_;
  ordered_json root_;
  size_t skipped_ = 0;  // how many are open below the deepest that is kept
  size_t error_at_ = 0;
  bool too_deep_ = false;
};

}  // namespace

JsonLine parse_line(std::string_view line) {
  if (auto fits = check_line_length(line); !fits) return {nullptr, std::move(fits)};
  LineBuilder builder;
  if (!ordered_json::sax_parse(line, &builder))
    return {nullptr, fail(Code::kInvalidArgument, "the line is not JSON: error at byte {}", builder.error_at())};
  JsonLine out{builder.take(), {}};
  if (!out.value.is_object()) {
    out.valid = fail(Code::kInvalidArgument, "the line is not a JSON object");
  } else if (builder.too_deep()) {
    out.valid = fail(Code::kTooLarge, "the line is nested deeper than {} levels", kLineDepthMax);
  }
  return out;
}

}  // namespace cairn
