#include "jinja/value/repr.h"

#include <charconv>
#include <cmath>

#include "base/text/utf8.h"
#include "jinja/interpret/args.h"
#include "jinja/value/characters.h"
#include "jinja/value/object.h"

namespace cairn::jinja {

std::string float_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  // The shortest digits that give the same value, as d.ddde+xx, then laid out by Python's rules.
  char bytes[40];
  const auto end = std::to_chars(bytes, bytes + sizeof(bytes), value, std::chars_format::scientific).ptr;
  const std::string_view scientific(bytes, static_cast<size_t>(end - bytes));
  const size_t e = scientific.find('e');
  const bool negative = scientific.starts_with('-');
  std::string digits;
  for (const char c : scientific.substr(0, e))
    if (c >= '0' && c <= '9') digits += c;
  int exponent = 0;
  const std::string_view exponent_text = scientific.substr(e + 1 + (scientific[e + 1] == '+'));
  std::from_chars(exponent_text.data(), exponent_text.data() + exponent_text.size(), exponent);
  std::string out = negative ? "-" : "";
  const int count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    out += digits[0];
    if (count > 1) out += '.' + digits.substr(1);
    return out + fmt::format("e{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0) return out + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  if (count <= exponent + 1) return out + digits + std::string(static_cast<size_t>(exponent + 1 - count), '0') + ".0";
  const auto point = static_cast<size_t>(exponent) + 1;
  return out + digits.substr(0, point) + '.' + digits.substr(point);
}

namespace {

// The escape of a character in a string's repr; empty: none.
std::string repr_escape(const Utf8Char& c, char quote) {
  if (c.value == '\\' || c.value == static_cast<char32_t>(quote)) return {'\\', static_cast<char>(c.value)};
  if (c.value == '\n') return "\\n";
  if (c.value == '\r') return "\\r";
  if (c.value == '\t') return "\\t";
  if (!c.well_formed || is_printable(c.value)) return {};
  if (c.value < 0x100) return fmt::format("\\x{:02x}", static_cast<uint32_t>(c.value));
  if (c.value < 0x10000) return fmt::format("\\u{:04x}", static_cast<uint32_t>(c.value));
  return fmt::format("\\U{:08x}", static_cast<uint32_t>(c.value));
}

Result<void> put_text_repr(Buffer& out, const Piece& string) {
  const std::string_view text = string.bytes();
  const bool single = text.find('\'') == std::string_view::npos || text.find('"') != std::string_view::npos;
  const char quote = single ? '\'' : '"';
  CAIRN_TRY_VOID(out.put(Piece::own({&quote, 1})));
  Derivation written(out, string);
  for (size_t offset = 0; offset < text.size();) {
    const Utf8Char c = utf8_decode(text, offset);
    const std::string_view character = text.substr(offset, static_cast<size_t>(c.length));
    const std::string escape = repr_escape(c, quote);
    CAIRN_TRY_VOID(written.put(escape.empty() ? character : escape, character));
    offset += character.size();
  }
  CAIRN_TRY_VOID(written.finish());
  return out.put(Piece::own({&quote, 1}));
}

Result<void> put_own(Buffer& out, std::string_view bytes) { return out.put(Piece::own(bytes)); }

Result<void> put_items(Buffer& out, const std::vector<Value>& items) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) CAIRN_TRY_VOID(out.put(", "));
    CAIRN_TRY_VOID(put_repr(out, items[i]));
  }
  return {};
}

Result<void> put_dict(Buffer& out, const Dict& dict) {
  CAIRN_TRY_VOID(out.put("{"));
  bool first = true;
  for (const auto& [key, value] : dict.items()) {
    if (!std::exchange(first, false)) CAIRN_TRY_VOID(out.put(", "));
    CAIRN_TRY_VOID(put_repr(out, key));
    CAIRN_TRY_VOID(out.put(": "));
    CAIRN_TRY_VOID(put_repr(out, value));
  }
  return out.put("}");
}

Result<void> put_view(Buffer& out, const DictView& view) {
  CAIRN_TRY_VOID(out.put(Piece::own(view.type_name())));
  CAIRN_TRY_VOID(out.put("(["));
  bool first = true;
  for (const auto& [key, value] : view.dict.dict().items()) {
    if (!std::exchange(first, false)) CAIRN_TRY_VOID(out.put(", "));
    if (view.part == DictView::Part::kItems) CAIRN_TRY_VOID(out.put("("));
    if (view.part != DictView::Part::kValues) CAIRN_TRY_VOID(put_repr(out, key));
    if (view.part == DictView::Part::kItems) CAIRN_TRY_VOID(out.put(", "));
    if (view.part != DictView::Part::kKeys) CAIRN_TRY_VOID(put_repr(out, value));
    if (view.part == DictView::Part::kItems) CAIRN_TRY_VOID(out.put(")"));
  }
  return out.put("])");
}

Result<void> put_object(Buffer& out, const Value& value) {
  if (const auto* view = value.object<DictView>()) return put_view(out, *view);
  if (const auto* range = value.object<Range>())
    return put_own(out, range->step == 1 ? fmt::format("range({}, {})", range->start, range->stop)
                                         : fmt::format("range({}, {}, {})", range->start, range->stop, range->step));
  if (const auto* space = value.object<Namespace>()) {
    CAIRN_TRY_VOID(out.put("<Namespace {"));
    bool first = true;
    for (const auto& [key, attribute] : space->attributes) {
      if (!std::exchange(first, false)) CAIRN_TRY_VOID(out.put(", "));
      CAIRN_TRY_VOID(put_text_repr(out, name_piece(key)));
      CAIRN_TRY_VOID(out.put(": "));
      CAIRN_TRY_VOID(put_repr(out, attribute));
    }
    return out.put("}>");
  }
  if (const auto* macro = value.object<Macro>())
    return put_own(out, macro->body.name.empty() ? "<Macro anonymous>" : fmt::format("<Macro '{}'>", macro->body.name));
  if (const auto* loop = value.object<Loop>())
    return put_own(out, fmt::format("<LoopContext {}/{}>", loop->index0 + 1, loop->size()));
  return put_own(out, fmt::format("<{} object>", value.object_ref()->type_name()));
}

}  // namespace

Result<void> put_repr(Buffer& out, const Value& value) {
  const DepthGuard deeper(out.budget());  // a namespace can contain itself
  CAIRN_TRY_VOID(deeper.check());
  CAIRN_TRY_VOID(out.budget().step());
  switch (value.kind()) {
    case Kind::kNone:
      return out.put("None");
    case Kind::kUndefined:
      return out.put("Undefined");
    case Kind::kBool:
      return put_own(out, value.boolean() ? "True" : "False");
    case Kind::kInt:
      return put_own(out, fmt::format("{}", value.integral()));
    case Kind::kFloat:
      return put_own(out, float_repr(value.floating()));
    case Kind::kText:
      if (!value.is_markup()) return put_text_repr(out, value.piece());
      CAIRN_TRY_VOID(out.put("Markup("));
      CAIRN_TRY_VOID(put_text_repr(out, value.piece()));
      return out.put(")");
    case Kind::kList: {
      CAIRN_TRY_VOID(put_own(out, value.is_tuple() ? "(" : "["));
      CAIRN_TRY_VOID(put_items(out, value.items()));
      if (value.is_tuple()) return put_own(out, value.items().size() == 1 ? ",)" : ")");
      return out.put("]");
    }
    case Kind::kDict:
      return put_dict(out, value.dict());
    case Kind::kObject:
      return put_object(out, value);
  }
  return {};
}

Result<void> put_str(Buffer& out, const Value& value) {
  if (value.is(Kind::kText)) return out.put(value.piece());
  if (value.is(Kind::kUndefined)) return {};
  return put_repr(out, value);
}

Result<Value> to_text(Budget& budget, const Value& value) {
  if (value.is(Kind::kText)) return value;
  Buffer out(budget);
  CAIRN_TRY_VOID(put_str(out, value));
  return make_text(std::move(out));
}

}  // namespace cairn::jinja
