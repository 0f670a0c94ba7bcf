// Implements str.format.
#include <algorithm>
#include <optional>

#include "base/text/utf8.h"
#include "jinja/builtins/format.h"
#include "jinja/value/operators.h"
#include "jinja/value/repr.h"

namespace cairn::jinja {
namespace {

bool is_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

Result<int64_t> number_of(std::string_view digits) {
  if (digits.size() > 9) return fail(Code::kInvalidArgument, "too many decimal digits in a format string");
  int64_t value = 0;
  for (const char c : digits) value = value * 10 + (c - '0');
  return value;
}

// [[fill]align][sign][#][0][width][grouping][.precision][type]
Result<FormatSpec> parse_spec(const Piece& piece) {
  std::string_view text = piece.bytes();
  FormatSpec spec;
  const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
  const auto fill_bytes = static_cast<size_t>(utf8_decode(text, 0).length);
  if (text.size() > fill_bytes && fill_bytes > 0 && is_align(text[fill_bytes])) {
    spec.fill = piece.substr(0, fill_bytes);
    spec.align = text[fill_bytes];
    text.remove_prefix(fill_bytes + 1);
  } else if (!text.empty() && is_align(text[0])) {
    spec.align = text[0];
    text.remove_prefix(1);
  }
  const auto take = [&](std::string_view any_of) {
    if (text.empty() || any_of.find(text[0]) == std::string_view::npos) return '\0';
    const char c = text[0];
    text.remove_prefix(1);
    return c;
  };
  const auto take_digits = [&] {
    const size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
    const std::string_view digits = text.substr(0, end);
    text.remove_prefix(end);
    return digits;
  };
  if (const char sign = take("+- "); sign != '\0') spec.sign = sign;
  spec.alternate = take("#") != '\0';
  spec.zero = take("0") != '\0';
  CAIRN_TRY(spec.width, number_of(take_digits()));
  spec.grouping = take(",_");
  if (take(".") != '\0') {
    const std::string_view digits = take_digits();
    if (digits.empty()) return fail(Code::kInvalidArgument, "Format specifier missing precision");
    CAIRN_TRY(spec.precision, number_of(digits));
  }
  spec.type = take("bcdeEfFgGnosxX%");
  if (!text.empty()) return fail(Code::kInvalidArgument, "Invalid format specifier");
  return spec;
}

Result<void> put_formatted(Buffer& out, const Value& value, const Piece& spec_text) {
  if (spec_text.size() == 0) return put_str(out, value);
  CAIRN_TRY(FormatSpec spec, parse_spec(spec_text));
  if (value.is(Kind::kText)) {
    if (spec.type != '\0' && spec.type != 's')
      return fail(Code::kInvalidArgument, "Unknown format code '{}' for object of type 'str'", spec.type);
    if (spec.zero && spec.align == '\0') {
      spec.fill = "0";
      spec.align = '<';
    }
    Buffer text(out.budget());
    CAIRN_TRY_VOID(put_str(text, value));
    return put_aligned(out, text.piece(), spec, '<');
  }
  if (!value.is_number())
    return fail(Code::kInvalidArgument, "unsupported format string passed to {}.__format__", type_name(value));
  const std::string_view allowed = value.is_integral() ? "bdeEfFgGnoxX%" : "eEfFgGn%";
  if (spec.type != '\0' && allowed.find(spec.type) == std::string_view::npos)
    return fail(Code::kInvalidArgument, "Unknown format code '{}' for object of type '{}'", spec.type,
                type_name(value));
  if (value.is_integral() && spec.precision >= 0 &&
      std::string_view("eEfFgG%").find(spec.type) == std::string_view::npos)
    return fail(Code::kInvalidArgument, "Precision not allowed in integer format specifier");
  if (spec.type == 'n') spec.type = value.is_integral() ? 'd' : 'g';
  return put_number(out, value, spec);
}

class Braces {
 public:
  Braces(Budget& budget, const Piece& text, const Args& args)
      : out_(budget), whole_(text), text_(text.bytes()), args_(args) {}

  Result<Value> run(bool markup) {
    while (pos_ < text_.size()) {
      const size_t brace = text_.find_first_of("{}", pos_);
      CAIRN_TRY_VOID(out_.put(whole_.part(text_.substr(pos_, brace - pos_))));
      if (brace == std::string_view::npos) break;
      const char c = text_[brace];
      pos_ = brace + 1;
      if (pos_ < text_.size() && text_[pos_] == c) {
        CAIRN_TRY_VOID(out_.put(whole_.part(text_.substr(pos_++, 1))));
        continue;
      }
      if (c == '}') return fail(Code::kInvalidArgument, "Single '}}' encountered in format string");
      CAIRN_TRY_VOID(field());
    }
    return make_text(std::move(out_), markup);
  }

 private:
  Result<void> field() {
    const size_t close = text_.find_first_of("{}", pos_);
    if (close == std::string_view::npos) return fail(Code::kInvalidArgument, "expected '}}' before end of string");
    if (text_[close] == '{')
      return fail(Code::kInvalidArgument, "fields inside fields of a format string are not supported");
    std::string_view name = text_.substr(pos_, close - pos_);
    pos_ = close + 1;
    std::string_view spec;
    if (const size_t colon = name.find(':'); colon != std::string_view::npos) {
      spec = name.substr(colon + 1);
      name = name.substr(0, colon);
    }
    char conversion = '\0';
    if (const size_t bang = name.find('!'); bang != std::string_view::npos) {
      if (bang + 2 != name.size() || std::string_view("sra").find(name[bang + 1]) == std::string_view::npos)
        return fail(Code::kInvalidArgument, "Unknown conversion specifier in a format string");
      conversion = name[bang + 1];
      name = name.substr(0, bang);
    }
    CAIRN_TRY(Value value, lookup(name));
    if (conversion != '\0') {
      Buffer text(out_.budget());
      CAIRN_TRY_VOID(conversion == 's' ? put_str(text, value) : put_repr(text, value));
      CAIRN_TRY(value, make_text(std::move(text)));
    }
    return put_formatted(out_, value, whole_.part(spec));
  }

  // name.attribute[key]
  Result<Value> lookup(std::string_view name) {
    const size_t end = std::min(name.find_first_of(".["), name.size());
    CAIRN_TRY(Value value, argument(name.substr(0, end)));
    name.remove_prefix(end);
    Budget& budget = out_.budget();
    while (!name.empty()) {
      if (name[0] == '.') {
        const size_t part_end = std::min(name.find_first_of(".[", 1), name.size());
        CAIRN_TRY(value, get_attribute(budget, value, name.substr(1, part_end - 1)));
        name.remove_prefix(part_end);
        continue;
      }
      const size_t close = name.find(']');
      if (close == std::string_view::npos) return fail(Code::kInvalidArgument, "Missing ']' in format string");
      const std::string_view key = name.substr(1, close - 1);
      if (is_digits(key)) {
        CAIRN_TRY(const int64_t index, number_of(key));
        CAIRN_TRY(value, get_item(budget, value, Value::integer(index)));
      } else {
        CAIRN_TRY(const Value key_text, make_text(budget, whole_.part(key)));
        CAIRN_TRY(value, get_item(budget, value, key_text));
      }
      name.remove_prefix(close + 1);
    }
    return value;
  }

  Result<Value> argument(std::string_view name) {
    if (name.empty() || is_digits(name)) {
      (name.empty() ? numbered_for_us_ : numbered_by_author_) = true;
      if (numbered_for_us_ && numbered_by_author_)
        return fail(Code::kInvalidArgument, "a format string has both {{}} and numbered fields");
      auto index = static_cast<int64_t>(next_);
      if (name.empty()) {
        ++next_;
      } else {
        CAIRN_TRY(index, number_of(name));
      }
      if (index >= static_cast<int64_t>(args_.positional.size()))
        return fail(Code::kInvalidArgument, "Replacement index {} out of range for positional args tuple", index);
      return args_.positional[static_cast<size_t>(index)];
    }
    for (const auto& [key, value] : args_.named)
      if (key == name) return value;
    return fail(Code::kInvalidArgument, "format() has no argument '{}'", name);
  }

  Buffer out_;
  Piece whole_;
  std::string_view text_;
  const Args& args_;
  size_t pos_ = 0;
  size_t next_ = 0;
  bool numbered_for_us_ = false;     // {} {}
  bool numbered_by_author_ = false;  // {0} {1}
};

}  // namespace

Result<Value> format_braces(Budget& budget, const Value& text, const Args& args) {
  return Braces(budget, text.piece(), args).run(text.is_markup());
}

}  // namespace cairn::jinja
