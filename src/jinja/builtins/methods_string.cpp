// Methods of str.
#include <algorithm>
#include <optional>

#include "base/text/utf8.h"
#include "jinja/builtins/format.h"
#include "jinja/builtins/split.h"
#include "jinja/interpret/functions.h"
#include "jinja/interpret/interpreter.h"
#include "jinja/value/characters.h"
#include "jinja/value/operators.h"

namespace cairn::jinja {
namespace {

// A string value of `part`, which is a view into `self`.
Result<Value> part_of(Interpreter& interpreter, const Value& self, std::string_view part) {
  return make_text(interpreter.budget(), self.piece().part(part), self.is_markup());
}

template <std::string (*kChange)(std::string_view)>
Result<Value> changed(Interpreter& interpreter, const Value& self, const Args& args) {
  CAIRN_TRY_VOID(bind("str method", args, {}));
  return make_mapped(interpreter.budget(), self, kChange(self.text()));
}

template <bool (*kPredicate)(char32_t)>
Result<Value> all_are(Interpreter& interpreter, const Value& self, const Args& args) {
  CAIRN_TRY_VOID(bind("str method", args, {}));
  CAIRN_TRY_VOID(interpreter.budget().work(static_cast<int64_t>(self.text().size())));
  return Value(all_chars(self.text(), kPredicate));
}

bool is_alphanumeric(char32_t c) { return is_alpha(c) || is_numeric(c) || is_digit(c); }
bool is_not_upper(char32_t c) { return !is_upper(c); }
bool is_not_lower(char32_t c) { return !is_lower(c); }
bool is_not_cased(char32_t c) { return !is_cased(c); }

template <bool (*kNone)(char32_t)>
Result<Value> cased_as(Interpreter& interpreter, const Value& self, const Args& args) {
  CAIRN_TRY_VOID(bind("str method", args, {}));
  CAIRN_TRY_VOID(interpreter.budget().work(static_cast<int64_t>(self.text().size())));
  const std::string& text = self.text();
  return Value(all_chars(text, kNone) && !all_chars(text, is_not_cased));
}

Result<Value> is_title(Interpreter& interpreter, const Value& self, const Args& args) {
  CAIRN_TRY_VOID(bind("istitle", args, {}));
  CAIRN_TRY_VOID(interpreter.budget().work(static_cast<int64_t>(self.text().size())));
  return Value(to_title(self.text()) == self.text() && !all_chars(self.text(), is_not_cased));
}

Result<Value> is_ascii_only(Interpreter&, const Value& self, const Args& args) {
  CAIRN_TRY_VOID(bind("isascii", args, {}));
  return Value(is_ascii(self.text()));
}

Result<Value> is_all_printable(Interpreter&, const Value& self, const Args& args) {
  CAIRN_TRY_VOID(bind("isprintable", args, {}));
  return Value(self.text().empty() || all_chars(self.text(), is_printable));
}

Result<Value> is_identifier(Interpreter&, const Value& self, const Args& args) {
  CAIRN_TRY_VOID(bind("isidentifier", args, {}));
  const Utf8Char first = utf8_decode(self.text(), 0);
  return Value(all_chars(self.text(), is_word) && !is_numeric(first.value));
}

template <bool kLeft, bool kRight>
Result<Value> stripped(Interpreter& interpreter, const Value& self, const Args& args) {
  CAIRN_TRY(const Bound bound, bind("strip", args, {"chars"}));
  std::string_view chars;
  if (bound.given(0)) {
    CAIRN_TRY(chars, bound.text(0, ""));
  }
  const auto cost = static_cast<int64_t>(self.text().size()) * static_cast<int64_t>(1 + chars.size() / 8);
  CAIRN_TRY_VOID(interpreter.budget().work(cost));
  return part_of(interpreter, self, strip(self.text(), bound.given(0) ? &chars : nullptr, kLeft, kRight));
}

template <bool kFromRight>
Result<Value> split(Interpreter& interpreter, const Value& self, const Args& args) {
  CAIRN_TRY(const Bound bound, bind("split", args, {"sep", "maxsplit"}));
  std::string_view separator;
  if (bound.given(0)) {
    CAIRN_TRY(separator, bound.text(0, ""));
    if (separator.empty()) return fail(Code::kInvalidArgument, "empty separator");
  }
  CAIRN_TRY(const int64_t splits_max, bound.integer(1, -1));
  // A search from the right compares the whole separator at every position.
  const int64_t factor = kFromRight ? 1 + static_cast<int64_t>(separator.size()) / 8 : 1;
  CAIRN_TRY_VOID(interpreter.budget().work(static_cast<int64_t>(self.text().size()) * factor));
  const auto pieces = split_text(self.text(), bound.given(0) ? &separator : nullptr, splits_max, kFromRight);
  return make_text_list(interpreter.budget(), self, pieces);
}

Result<Value> splitlines(Interpreter& interpreter, const Value& self, const Args& args) {
  CAIRN_TRY(const Bound bound, bind("splitlines", args, {"keepends"}));
  CAIRN_TRY_VOID(interpreter.budget().work(static_cast<int64_t>(self.text().size())));
  return make_text_list(interpreter.budget(), self, split_lines(self.text(), bound.boolean(0, false)));
}

template <bool kFromRight>
Result<Value> partition(Interpreter& interpreter, const Value& self, const Args& args) {
  CAIRN_TRY(const Bound bound, bind("partition", args, {"sep"}, 1));
  CAIRN_TRY(const std::string_view separator, bound.text(0, ""));
  if (separator.empty()) return fail(Code::kInvalidArgument, "empty separator");
  const std::string_view text = self.text();
  const int64_t factor = kFromRight ? 1 + static_cast<int64_t>(separator.size()) / 8 : 1;
  CAIRN_TRY_VOID(interpreter.budget().work(static_cast<int64_t>(text.size()) * factor));
  const size_t at = kFromRight ? text.rfind(separator) : find_text(text, separator);
  std::string_view parts[3] = {text, "", ""};
  if (at == std::string_view::npos) {
    if (kFromRight) std::swap(parts[0], parts[2]);
  } else {
    parts[0] = text.substr(0, at);
    parts[1] = text.substr(at, separator.size());
    parts[2] = text.substr(at + separator.size());
  }
  std::vector<Value> items;
  for (const std::string_view part : parts) {
    CAIRN_TRY(Value item, part_of(interpreter, self, part));
    items.push_back(std::move(item));
  }
  return make_list(interpreter.budget(), std::move(items), ListKind::kTuple);
}

template <bool kAtEnd>
Result<Value> has_affix(Interpreter& interpreter, const Value& self, const Args& args) {
  const std::string_view name = kAtEnd ? "endswith" : "startswith";
  CAIRN_TRY(const Bound bound, bind(name, args, {"prefix", "start", "end"}, 1));
  Budget& budget = interpreter.budget();
  Value cut = self;
  if (bound.given(1) || bound.given(2)) {
    CAIRN_TRY(cut,
              get_slice(budget, self, bound.has(1) ? bound[1] : Value(), bound.has(2) ? bound[2] : Value(), Value()));
  }
  const std::string_view text = cut.text();
  const auto matches = [&](const Value& affix) -> Result<bool> {
    if (affix.is(Kind::kUndefined)) return undefined_error(affix);
    if (!affix.is(Kind::kText))
      return fail(Code::kInvalidArgument, "{} first arg must be str or a tuple of str, not {}", name, type_name(affix));
    CAIRN_TRY_VOID(budget.work(static_cast<int64_t>(affix.text().size())));
    return kAtEnd ? text.ends_with(affix.text()) : text.starts_with(affix.text());
  };
  if (bound[0].is(Kind::kList) && bound[0].is_tuple()) {
    for (const Value& affix : bound[0].items()) {
      CAIRN_TRY_VOID(budget.step());
      CAIRN_TRY(const bool found, matches(affix));
      if (found) return Value(true);
    }
    return Value(false);
  }
  CAIRN_TRY(const bool found, matches(bound[0]));
  return Value(found);
}

template <bool kSuffix>
Result<Value> without_affix(Interpreter& interpreter, const Value& self, const Args& args) {
  CAIRN_TRY(const Bound bound, bind(kSuffix ? "removesuffix" : "removeprefix", args, {"affix"}, 1));
  CAIRN_TRY(const std::string_view affix, bound.text(0, ""));
  std::string_view text = self.text();
  if (kSuffix ? text.ends_with(affix) : text.starts_with(affix))
    text = kSuffix ? text.substr(0, text.size() - affix.size()) : text.substr(affix.size());
  return part_of(interpreter, self, text);
}

// The position of the needle in characters, or -1.
template <bool kFromRight>
Result<int64_t> position_of(Interpreter& interpreter, const Value& self, const Args& args, std::string_view name) {
  CAIRN_TRY(const Bound bound, bind(name, args, {"sub", "start", "end"}, 1));
  CAIRN_TRY(const std::string_view needle, bound.text(0, ""));
  Budget& budget = interpreter.budget();
  const std::string_view whole = self.text();
  CAIRN_TRY_VOID(
      budget.work(static_cast<int64_t>(whole.size()) * (kFromRight ? 1 + static_cast<int64_t>(needle.size()) / 8 : 1)));
  const auto size = static_cast<int64_t>(char_count(whole));
  CAIRN_TRY(int64_t start, bound.given(1) ? bound.integer(1, 0) : Result<int64_t>(0));
  CAIRN_TRY(int64_t end, bound.given(2) ? bound.integer(2, size) : Result<int64_t>(size));
  if (start < 0) start = std::max<int64_t>(0, start + size);
  if (end < 0) end = std::max<int64_t>(0, end + size);
  end = std::min(end, size);
  if (start > end) return -1;
  const size_t begin_byte = char_offset(whole, static_cast<size_t>(start));
  const size_t end_byte = begin_byte + char_offset(whole.substr(begin_byte), static_cast<size_t>(end - start));
  const std::string_view text = whole.substr(begin_byte, end_byte - begin_byte);
  const size_t at = kFromRight ? text.rfind(needle) : find_text(text, needle);
  if (at == std::string_view::npos) return -1;
  return start + static_cast<int64_t>(char_count(text.substr(0, at)));
}

template <bool kFromRight>
Result<Value> find(Interpreter& interpreter, const Value& self, const Args& args) {
  CAIRN_TRY(const int64_t at, position_of<kFromRight>(interpreter, self, args, "find"));
  return Value::integer(at);
}

template <bool kFromRight>
Result<Value> index(Interpreter& interpreter, const Value& self, const Args& args) {
  CAIRN_TRY(const int64_t at, position_of<kFromRight>(interpreter, self, args, "index"));
  if (at < 0) return fail(Code::kInvalidArgument, "substring not found");
  return Value::integer(at);
}

Result<Value> count(Interpreter& interpreter, const Value& self, const Args& args) {
  CAIRN_TRY(const Bound bound, bind("count", args, {"sub", "start", "end"}, 1));
  CAIRN_TRY(const std::string_view needle, bound.text(0, ""));
  Budget& budget = interpreter.budget();
  CAIRN_TRY_VOID(budget.work(static_cast<int64_t>(self.text().size())));
  Value cut = self;
  if (bound.given(1) || bound.given(2)) {
    CAIRN_TRY(cut,
              get_slice(budget, self, bound.has(1) ? bound[1] : Value(), bound.has(2) ? bound[2] : Value(), Value()));
  }
  return Value::integer(count_text(cut.text(), needle));
}

Result<Value> replace(Interpreter& interpreter, const Value& self, const Args& args) {
  CAIRN_TRY(const Bound bound, bind("replace", args, {"old", "new", "count"}, 2));
  CAIRN_TRY(const std::string_view old_text, bound.text(0, ""));
  CAIRN_TRY(const Piece new_text, bound.piece(1, ""));
  CAIRN_TRY(const int64_t most, bound.integer(2, -1));
  return replace_text(interpreter.budget(), self, old_text, new_text, most);
}

Result<Value> join(Interpreter& interpreter, const Value& self, const Args& args) {
  CAIRN_TRY(const Bound bound, bind("join", args, {"iterable"}, 1));
  CAIRN_TRY(const Value items, to_list(interpreter.budget(), bound[0]));
  return join_texts(interpreter.budget(), self, items.items());
}

template <char kAlign>
Result<Value> aligned(Interpreter& interpreter, const Value& self, const Args& args) {
  CAIRN_TRY(const Bound bound, bind("justification", args, {"width", "fillchar"}, 1));
  CAIRN_TRY(const int64_t width, bound.integer(0, 0));
  CAIRN_TRY(const Piece fill, bound.piece(1, " "));
  if (char_count(fill.bytes()) != 1)
    return fail(Code::kInvalidArgument, "The fill character must be exactly one character long");
  const auto size = static_cast<int64_t>(char_count(self.text()));
  const int64_t padding = std::max<int64_t>(0, width - size);
  // str.center puts the odd space on the left only if the width is odd.
  const int64_t left = kAlign == '>' ? padding : kAlign == '^' ? padding / 2 + (padding & width & 1) : 0;
  Buffer out(interpreter.budget());
  CAIRN_TRY_VOID(out.put_repeated(fill, left));
  CAIRN_TRY_VOID(out.put(self.piece()));
  CAIRN_TRY_VOID(out.put_repeated(fill, padding - left));
  return make_text(std::move(out), self.is_markup());
}

Result<Value> zfill(Interpreter& interpreter, const Value& self, const Args& args) {
  CAIRN_TRY(const Bound bound, bind("zfill", args, {"width"}, 1));
  CAIRN_TRY(const int64_t width, bound.integer(0, 0));
  std::string_view text = self.text();
  const int64_t padding = width - static_cast<int64_t>(char_count(text));
  Buffer out(interpreter.budget());
  if (padding > 0 && (text.starts_with('-') || text.starts_with('+'))) {
    CAIRN_TRY_VOID(out.put(self.piece().part(text.substr(0, 1))));
    text.remove_prefix(1);
  }
  CAIRN_TRY_VOID(out.put_repeated("0", padding));
  CAIRN_TRY_VOID(out.put(self.piece().part(text)));
  return make_text(std::move(out), self.is_markup());
}

Result<Value> expandtabs(Interpreter& interpreter, const Value& self, const Args& args) {
  CAIRN_TRY(const Bound bound, bind("expandtabs", args, {"tabsize"}));
  CAIRN_TRY(const int64_t size, bound.integer(0, 8));
  Buffer out(interpreter.budget());
  int64_t column = 0;
  const std::string_view text = self.text();
  for (size_t offset = 0; offset < text.size();) {
    const auto length = static_cast<size_t>(utf8_decode(text, offset).length);
    const char c = text[offset];
    if (c == '\t') {
      const int64_t spaces = size > 0 ? size - column % size : 0;
      CAIRN_TRY_VOID(out.put_repeated(" ", spaces));
      column += spaces;
    } else {
      CAIRN_TRY_VOID(out.put(self.piece().part(text.substr(offset, length))));
      column = c == '\n' || c == '\r' ? 0 : column + 1;
    }
    offset += length;
  }
  return make_text(std::move(out), self.is_markup());
}

Result<Value> format(Interpreter& interpreter, const Value& self, const Args& args) {
  return format_braces(interpreter.budget(), self, args);
}

Result<Value> format_map(Interpreter& interpreter, const Value& self, const Args& args) {
  CAIRN_TRY(const Bound bound, bind("format_map", args, {"mapping"}, 1));
  if (!bound[0].is(Kind::kDict)) return fail(Code::kInvalidArgument, "format_map() wants a mapping");
  Args named;
  for (const auto& [key, value] : bound[0].dict().items())
    if (key.is(Kind::kText)) named.named.emplace_back(key.text(), value);
  return format_braces(interpreter.budget(), self, named);
}

Result<Value> not_supported(Interpreter&, const Value&, const Args&) {
  return fail(Code::kInvalidArgument, "str.encode, maketrans and translate are not supported in chat templates");
}

struct MethodEntry {
  std::string_view name;
  MethodFunction function;
};

constexpr MethodEntry kMethods[] = {
    {"capitalize", changed<capitalize>},
    {"casefold", changed<casefold>},
    {"center", aligned<'^'>},
    {"count", count},
    {"encode", not_supported},
    {"endswith", has_affix<true>},
    {"expandtabs", expandtabs},
    {"find", find<false>},
    {"format", format},
    {"format_map", format_map},
    {"index", index<false>},
    {"isalnum", all_are<is_alphanumeric>},
    {"isalpha", all_are<is_alpha>},
    {"isascii", is_ascii_only},
    {"isdecimal", all_are<is_decimal>},
    {"isdigit", all_are<is_digit>},
    {"isidentifier", is_identifier},
    {"islower", cased_as<is_not_upper>},
    {"isnumeric", all_are<is_numeric>},
    {"isprintable", is_all_printable},
    {"isspace", all_are<is_space>},
    {"istitle", is_title},
    {"isupper", cased_as<is_not_lower>},
    {"join", join},
    {"ljust", aligned<'<'>},
    {"lower", changed<to_lower>},
    {"lstrip", stripped<true, false>},
    {"maketrans", not_supported},
    {"partition", partition<false>},
    {"removeprefix", without_affix<false>},
    {"removesuffix", without_affix<true>},
    {"replace", replace},
    {"rfind", find<true>},
    {"rindex", index<true>},
    {"rjust", aligned<'>'>},
    {"rpartition", partition<true>},
    {"rsplit", split<true>},
    {"rstrip", stripped<false, true>},
    {"split", split<false>},
    {"splitlines", splitlines},
    {"startswith", has_affix<false>},
    {"strip", stripped<true, true>},
    {"swapcase", changed<swapcase>},
    {"title", changed<to_title>},
    {"translate", not_supported},
    {"upper", changed<to_upper>},
    {"zfill", zfill},
};

}  // namespace

MethodFunction find_string_method(std::string_view name) {
  const auto* found = std::find_if(std::begin(kMethods), std::end(kMethods),
                                   [&](const MethodEntry& entry) { return entry.name == name; });
  return found == std::end(kMethods) ? nullptr : found->function;
}

}  // namespace cairn::jinja
