#include "base/text/json.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <utility>

namespace cairn {
namespace {

using nlohmann::ordered_json;
using Object = ordered_json::object_t;

// Memory of values besides the text of long strings, whose capacity is counted twice: a number's element, the element
// of its name, a string's heap block, the block of an object or array.
constexpr size_t kValueBytes = sizeof(ordered_json);
constexpr size_t kNameBytes = sizeof(Object::value_type) - kValueBytes;
constexpr size_t kStringBytes = 48;
constexpr size_t kContainerBytes = 64;

/// Measures a text in one pass: brackets, commas and colons outside strings.
class Measurer {
 public:
  Result<JsonMeasure> measure(std::string_view text) {
    for (size_t i = 0; i < text.size(); ++i) {
      switch (text[i]) {
        case '"':
          i = end_of_string(text, i + 1);
          value_begins();
          strings_ += 1;
          break;
        case '[':
        case '{':
          value_begins();
          if (open_.size() == kJsonDepthMax)
            return fail(Code::kInvalidArgument, "is nested deeper than {} levels", kJsonDepthMax);
          open_.push_back({measure_.sizes.size(), text[i] == '{', true});
          measure_.sizes.push_back(0);
          break;
        case ']':
        case '}':
          if (!open_.empty()) open_.pop_back();
          break;
        case ',':
          if (!open_.empty()) open_.back().empty = true;
          break;
        case ':':
          break;
        case ' ':
        case '\t':
        case '\n':
        case '\r':
          break;
        case '\0':
          return fail(Code::kInvalidArgument, "is not valid JSON: it has a NUL byte at byte {}", i);
        default:
          value_begins();
      }
      if (measure_.values > kJsonValuesMax) return fail(Code::kTooLarge, "has more than {} values", kJsonValuesMax);
      if (over_) return fail(Code::kTooLarge, "has an object of more than {} members", kJsonMembersMax);
    }
    measure_.bytes = 2 * text.size() + measure_.values * kValueBytes + names_ * kNameBytes + strings_ * kStringBytes +
                     measure_.sizes.size() * (kContainerBytes + sizeof(uint32_t));
    return std::move(measure_);
  }

 private:
  struct Open {
    size_t number;
    bool object;
    bool empty;  // nothing has come since the bracket, or since the last comma
  };

  static size_t end_of_string(std::string_view text, size_t at) {
    for (; at < text.size() && text[at] != '"'; ++at)
      if (text[at] == '\\') ++at;
    return at;
  }

  // A member's first token is its name; the tokens after it before a comma are its value, of however many bytes.
  void value_begins() {
    if (open_.empty()) {
      measure_.values = std::max<size_t>(measure_.values, 1);
      return;
    }
    Open& in = open_.back();
    if (!std::exchange(in.empty, false)) return;
    ++measure_.values;
    names_ += in.object ? 1 : 0;
    over_ |= ++measure_.sizes[in.number] > kJsonMembersMax && in.object;
  }

  JsonMeasure measure_;
  std::vector<Open> open_;
  size_t names_ = 0;
  size_t strings_ = 0;
  bool over_ = false;
};

/// Builds the document from the parser's events. Capacity is reserved, so that no element is moved.
class Builder : public nlohmann::json_sax<ordered_json> {
 public:
  explicit Builder(std::vector<uint32_t> sizes) : sizes_(std::move(sizes)) {}
  ordered_json& document() { return document_; }
  const std::string& error() const { return error_; }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t& text) override { return add(exact_number(value, text)); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t& /*value*/) override { return false; }
  bool key(string_t& name) override {
    name_ = std::move(name);
    return true;
  }
  bool start_object(size_t /*unknown*/) override {
    open_.push_back(place(ordered_json::object()));
    open_.back()->get_ref<Object&>().reserve(next_size());
    return true;
  }
  bool end_object() override {
    keep_last(open_.back()->get_ref<Object&>());
    open_.pop_back();
    return true;
  }
  bool start_array(size_t /*unknown*/) override {
    open_.push_back(place(ordered_json::array()));
    open_.back()->get_ref<ordered_json::array_t&>().reserve(next_size());
    return true;
  }
  bool end_array() override {
    open_.pop_back();
    return true;
  }
  bool parse_error(size_t /*position*/, const std::string& /*token*/,
                   const nlohmann::detail::exception& what) override {
    error_ = what.what();  // "[json.exception.parse_error.101] parse error at line 1, column 2: ..."
    if (const size_t end = error_.find("] "); end != std::string::npos) error_.erase(0, end + 2);
    return false;
  }

 private:
  size_t next_size() { return begun_ < sizes_.size() ? sizes_[begun_++] : 0; }

  ordered_json* place(ordered_json value) {
    if (open_.empty()) {
      document_ = std::move(value);
      return &document_;
    }
    ordered_json& in = *open_.back();
    if (in.is_array()) return &in.get_ref<ordered_json::array_t&>().emplace_back(std::move(value));
    return &in.get_ref<Object&>().emplace_back(std::move(name_), std::move(value)).second;
  }
  bool add(ordered_json value) {
    place(std::move(value));
    return true;
  }

  static bool differ(std::span<const Object::value_type> members) {
    for (size_t i = 1; i < members.size(); ++i)
      for (size_t k = 0; k < i; ++k)
        if (members[i].first == members[k].first) return false;
    return true;
  }

  static void keep_last(Object& object) {
    constexpr size_t kFewMembers = 16;
    const std::span<Object::value_type> members(object.data(), object.size());
    if (members.size() <= kFewMembers && differ(members)) return;
    // Sorted rather than hashed, because a stranger can choose names with equal hashes.
    std::vector<uint32_t> order(members.size());
    std::iota(order.begin(), order.end(), 0U);
    const auto name = [&](uint32_t i) { return std::string_view(members[i].first); };
    std::ranges::stable_sort(order, {}, name);
    std::vector<bool> dropped(members.size());
    bool any = false;
    for (size_t i = 1; i < order.size(); ++i) {
      const uint32_t first = order[i - 1];
      if (name(first) != name(order[i])) continue;
      members[first].second = std::move(members[order[i]].second);
      dropped[order[i]] = any = true;
      order[i] = first;  // the first one, which represents them all
    }
    if (!any) return;
    Object kept;
    kept.reserve(members.size());
    for (size_t i = 0; i < members.size(); ++i)
      if (!dropped[i]) kept.emplace_back(members[i].first, std::move(members[i].second));
    object = std::move(kept);
  }

  std::vector<uint32_t> sizes_;
  size_t begun_ = 0;
  ordered_json document_;
  std::vector<ordered_json*> open_;
  std::string name_;
  std::string error_;
};

/// The value of the `\u` escape at `at`; -1: there is none.
int escaped_unit(std::string_view text, size_t at) {
  constexpr size_t kBytes = 6;
  if (text.size() < kBytes || at > text.size() - kBytes || text[at] != '\\' || text[at + 1] != 'u') return -1;
  int value = 0;
  const char* end = text.data() + at + kBytes;
  return std::from_chars(text.data() + at + 2, end, value, 16).ptr == end && text[at + 2] != '-' ? value : -1;
}

bool is_high(int unit) { return unit >= 0xD800 && unit < 0xDC00; }
bool is_low(int unit) { return unit >= 0xDC00 && unit < 0xE000; }

/// The text with `\ufffd` for the escapes that stand for no character; empty if it has none.
std::string without_bad_escapes(std::string_view text) {
  std::string mended;
  for (size_t at = text.find('\\'); at < text.size(); at = text.find('\\', at)) {
    const int unit = escaped_unit(text, at);
    if (is_high(unit) && is_low(escaped_unit(text, at + 6))) {
      at += 12;
      continue;
    }
    if (unit == 0 || is_high(unit) || is_low(unit)) {
      if (mended.empty()) mended = text;
      mended.replace(at, 6, "\\ufffd");
    }
    at += 2;  // the backslash and what it escapes
  }
  return mended;
}

constexpr ordered_json::binary_t::subtype_type kNumberSubtype = 'N';

bool is_number_in_text(const ordered_json& value) {
  return value.is_binary() && value.get_binary().has_subtype() && value.get_binary().subtype() == kNumberSubtype;
}

/// The digits of a number without zeros at its ends, and the power of ten of the first one.
struct Digits {
  bool negative = false;
  std::string digits;
  int64_t power = 0;
  bool operator==(const Digits&) const = default;
};

Digits digits_of(std::string_view text) {
  Digits out;
  out.negative = text.starts_with('-');
  if (out.negative) text.remove_prefix(1);
  const size_t e = std::min(text.find_first_of("eE"), text.size());
  int64_t exponent = 0;
  if (e < text.size()) {
    const size_t begin = e + (text[e + 1] == '+' ? 2 : 1);
    std::from_chars(text.data() + begin, text.data() + text.size(), exponent);
  }
  const std::string_view mantissa = text.substr(0, e);
  out.power = static_cast<int64_t>(std::min(mantissa.find('.'), mantissa.size())) + exponent;
  for (const char byte : mantissa) {
    if (byte == '.') continue;
    if (byte == '0' && out.digits.empty())
      --out.power;
    else
      out.digits += byte;
  }
  out.digits.erase(out.digits.find_last_not_of('0') + 1);
  if (out.digits.empty()) out.power = 0;
  return out;
}

bool has_number_in_text(const ordered_json& value) {
  if (value.is_structured()) return std::ranges::any_of(value, has_number_in_text);
  return is_number_in_text(value);
}

std::string plain_text(const ordered_json& value, int indent = -1) {
  return value.dump(indent, ' ', false, ordered_json::error_handler_t::replace);
}

void write_text(const ordered_json& value, int indent, int level, std::string& out) {
  if (!value.is_structured() || value.empty()) {
    out += is_number_in_text(value) ? number_text(value) : plain_text(value);
    return;
  }
  const auto new_line = [&](int levels) {
    if (indent >= 0) out.append("\n").append(static_cast<size_t>(levels * indent), ' ');
  };
  const bool object = value.is_object();
  out += object ? '{' : '[';
  const size_t begin = out.size();
  for (const auto& [name, member] : value.items()) {
    if (out.size() > begin) out += ',';
    new_line(level + 1);
    if (object) out.append(plain_text(name)).append(indent >= 0 ? ": " : ":");
    write_text(member, indent, level + 1, out);
  }
  new_line(level);
  out += object ? '}' : ']';
}

}  // namespace

ordered_json exact_number(double value, std::string_view text) {
  constexpr size_t kSureDigits = std::numeric_limits<double>::digits10;
  const bool whole = text.find_first_of(".eE") == std::string_view::npos;
  if (whole && text.size() <= kSureDigits) return value;
  // Also of few digits: what nlohmann writes is the double, but not always by its shortest text.
  if (!whole && digits_of(text) == digits_of(ordered_json(value).dump())) return value;
  return ordered_json::binary({text.begin(), text.end()}, kNumberSubtype);
}

bool is_any_number(const ordered_json& value) { return value.is_number() || is_number_in_text(value); }

std::string number_text(const ordered_json& number) {
  if (!is_number_in_text(number)) return number.dump();
  const auto& bytes = number.get_binary();
  return {bytes.begin(), bytes.end()};
}

double number_value(const ordered_json& number) {
  return is_number_in_text(number) ? std::strtod(number_text(number).c_str(), nullptr) : number.get<double>();
}

void round_numbers(ordered_json& value) {
  if (is_number_in_text(value)) value = number_value(value);
  if (value.is_structured()) {
    for (ordered_json& child : value) round_numbers(child);
  }
}

std::string json_text(const ordered_json& value, int indent) {
  if (!has_number_in_text(value)) return plain_text(value, indent);
  std::string out;
  write_text(value, indent, 0, out);
  return out;
}

Result<JsonMeasure> measure_json(std::string_view text) { return Measurer().measure(text); }

Result<ordered_json> read_json(std::string_view text) {
  CAIRN_TRY(JsonMeasure measure, measure_json(text));
  Builder builder(std::move(measure.sizes));
  const std::string mended = without_bad_escapes(text);
  if (ordered_json::sax_parse(mended.empty() ? text : mended, &builder)) return std::move(builder.document());
  return fail(Code::kInvalidArgument, "is not valid JSON: {}", builder.error());
}

}  // namespace cairn
