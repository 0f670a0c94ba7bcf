// Writes values as json.dumps prints them.
#include <cmath>
#include <numeric>

#include "base/text/utf8.h"
#include "jinja/builtins/sort.h"
#include "jinja/value/repr.h"

namespace cairn::jinja {
namespace {

void append_utf16_escape(std::string& out, char32_t c) {
  if (c >= 0x10000) {
    c -= 0x10000;
    out += fmt::format("\\u{:04x}\\u{:04x}", static_cast<uint32_t>(0xD800 + (c >> 10)),
                       static_cast<uint32_t>(0xDC00 + (c & 0x3FF)));
  } else {
    out += fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
  }
}

// The escape of a character in a JSON string; empty: none.
std::string_view short_escape(char32_t c) {
  switch (c) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    case '\b':
      return "\\b";
    case '\f':
      return "\\f";
    default:
      return {};
  }
}

Result<void> put_string(Buffer& out, const Piece& string, bool ensure_ascii) {
  const std::string_view text = string.bytes();
  CAIRN_TRY_VOID(out.put("\""));
  Derivation written(out, string);
  std::string escape;
  for (size_t offset = 0; offset < text.size();) {
    const Utf8Char c = utf8_decode(text, offset);
    const std::string_view character = text.substr(offset, static_cast<size_t>(c.length));
    std::string_view made = short_escape(c.value);
    if (made.empty() && (c.value < 0x20 || (ensure_ascii && c.value >= 0x7F))) {
      escape.clear();
      append_utf16_escape(escape, c.value);
      made = escape;
    }
    CAIRN_TRY_VOID(written.put(made.empty() ? character : made, character));
    offset += character.size();
  }
  CAIRN_TRY_VOID(written.finish());
  return out.put("\"");
}

std::string float_json(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
  return float_repr(value);
}

class Writer {
 public:
  Writer(Buffer& out, const JsonStyle& style) : out_(out), style_(style) {}

  Result<void> put(const Value& value, int64_t level) {
    CAIRN_TRY_VOID(out_.budget().step());
    switch (value.kind()) {
      case Kind::kNone:
        return out_.put("null");
      case Kind::kBool:
        return out_.put(Piece::own(value.boolean() ? "true" : "false"));
      case Kind::kInt:
        return out_.put(Piece::own(fmt::format("{}", value.integral())));
      case Kind::kFloat:
        return out_.put(Piece::own(float_json(value.floating())));
      case Kind::kText:
        return put_string(out_, value.piece(), style_.ensure_ascii);
      case Kind::kList:
        return put_list(value.items(), level);
      case Kind::kDict:
        return put_dict(value.dict(), level);
      default:
        break;
    }
    return fail(Code::kInvalidArgument, "Object of type {} is not JSON serializable", type_name(value));
  }

 private:
  Result<void> new_line(int64_t level) {
    if (!style_.indented) return {};
    CAIRN_TRY_VOID(out_.put("\n"));
    return out_.put_repeated(style_.indent, level);
  }

  Result<void> put_list(const std::vector<Value>& items, int64_t level) {
    if (items.empty()) return out_.put("[]");
    CAIRN_TRY_VOID(out_.put("["));
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) CAIRN_TRY_VOID(out_.put(style_.item_separator));
      CAIRN_TRY_VOID(new_line(level + 1));
      CAIRN_TRY_VOID(put(items[i], level + 1));
    }
    CAIRN_TRY_VOID(new_line(level));
    return out_.put("]");
  }

  Result<void> put_key(const Value& key) {
    switch (key.kind()) {
      case Kind::kText:
        return put_string(out_, key.piece(), style_.ensure_ascii);
      case Kind::kNone:
        return out_.put("\"null\"");
      case Kind::kBool:
        return out_.put(Piece::own(key.boolean() ? "\"true\"" : "\"false\""));
      case Kind::kInt:
        return out_.put(Piece::own(fmt::format("\"{}\"", key.integral())));
      case Kind::kFloat:
        return out_.put(Piece::own(fmt::format("\"{}\"", float_json(key.floating()))));
      default:
        return fail(Code::kInvalidArgument, "keys must be str, int, float, bool or None, not {}", type_name(key));
    }
  }

  // The order of the items in the output. Sorting fails on keys that cannot be compared.
  Result<std::vector<size_t>> order(const Dict& dict) {
    std::vector<Value> keys;
    for (const auto& [key, value] : dict.items()) keys.push_back(key);
    if (style_.sort_keys) return sorted_places(out_.budget(), keys, false);
    std::vector<size_t> places(keys.size());
    std::iota(places.begin(), places.end(), size_t{0});
    return places;
  }

  Result<void> put_dict(const Dict& dict, int64_t level) {
    if (dict.items().empty()) return out_.put("{}");
    CAIRN_TRY_VOID(out_.put("{"));
    CAIRN_TRY(const std::vector<size_t> places, order(dict));
    for (size_t i = 0; i < places.size(); ++i) {
      const auto& [key, value] = dict.items()[places[i]];
      if (i > 0) CAIRN_TRY_VOID(out_.put(style_.item_separator));
      CAIRN_TRY_VOID(new_line(level + 1));
      CAIRN_TRY_VOID(put_key(key));
      CAIRN_TRY_VOID(out_.put(style_.key_separator));
      CAIRN_TRY_VOID(put(value, level + 1));
    }
    CAIRN_TRY_VOID(new_line(level));
    return out_.put("}");
  }

  Buffer& out_;
  const JsonStyle& style_;
};

}  // namespace

Result<void> put_json(Buffer& out, const Value& value, const JsonStyle& style) {
  return Writer(out, style).put(value, 0);
}

}  // namespace cairn::jinja
