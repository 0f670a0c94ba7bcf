// Filters whose results are texts.
#include <algorithm>
#include <array>

#include "base/text/utf8.h"
#include "jinja/builtins/escape.h"
#include "jinja/builtins/filters.h"
#include "jinja/builtins/format.h"
#include "jinja/builtins/split.h"
#include "jinja/interpret/functions.h"
#include "jinja/interpret/interpreter.h"
#include "jinja/value/characters.h"
#include "jinja/value/operators.h"
#include "jinja/value/repr.h"

namespace cairn::jinja {
namespace {

// Applies a method of str to str(input).
Result<Value> by_method(Interpreter& interpreter, const Value& input, std::string_view method, const Args& args) {
  CAIRN_TRY(const Value text, to_text(interpreter.budget(), input));
  return find_string_method(method)(interpreter, text, args);
}

Result<Value> require_text(const Value& value, std::string_view filter) {
  if (value.is(Kind::kUndefined)) return undefined_error(value);
  if (!value.is(Kind::kText))
    return fail(Code::kInvalidArgument, "the filter '{}' wants a string, not {}", filter, type_name(value));
  return value;
}

}  // namespace

namespace filters {

Result<Value> upper(Interpreter& interpreter, const Value& input, const Args& args) {
  return by_method(interpreter, input, "upper", args);
}
Result<Value> lower(Interpreter& interpreter, const Value& input, const Args& args) {
  return by_method(interpreter, input, "lower", args);
}
Result<Value> capitalize(Interpreter& interpreter, const Value& input, const Args& args) {
  return by_method(interpreter, input, "capitalize", args);
}
Result<Value> trim(Interpreter& interpreter, const Value& input, const Args& args) {
  return by_method(interpreter, input, "strip", args);
}

// Unlike in str.title, a word begins only after white space, a hyphen or an opening bracket.
Result<Value> title(Interpreter& interpreter, const Value& input, const Args& args) {
  CAIRN_TRY_VOID(bind("title", args, {}));
  CAIRN_TRY(const Value value, to_text(interpreter.budget(), input));
  const std::string_view text = value.text();
  const auto begins_word = [](char32_t c) {
    return is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
  };
  std::string out;
  for (size_t offset = 0; offset < text.size();) {
    const size_t begin = offset;
    const bool separators = begins_word(utf8_decode(text, offset).value);
    while (offset < text.size()) {
      const Utf8Char c = utf8_decode(text, offset);
      if (begins_word(c.value) != separators) break;
      offset += static_cast<size_t>(c.length);
    }
    const std::string_view word = text.substr(begin, offset - begin);
    const size_t first = char_offset(word, 1);
    out += separators ? std::string(word) : to_upper(word.substr(0, first)) + to_lower(word.substr(first));
  }
  CAIRN_TRY(const Value titled, make_mapped(interpreter.budget(), value, std::move(out)));
  return make_text(interpreter.budget(), titled.piece());
}

Result<Value> replace(Interpreter& interpreter, const Value& input, const Args& args) {
  CAIRN_TRY(const Bound bound, bind("replace", args, {"old", "new", "count"}, 2));
  Budget& budget = interpreter.budget();
  CAIRN_TRY(const Value text, to_text(budget, input));
  CAIRN_TRY(const Value plain, text.is_markup() ? make_text(budget, text.piece()) : Result<Value>(text));
  CAIRN_TRY(const Value old_text, to_text(budget, bound[0]));
  CAIRN_TRY(const Value new_text, to_text(budget, bound[1]));
  CAIRN_TRY(const int64_t count, bound.given(2) ? bound.integer(2, -1) : Result<int64_t>(-1));
  return replace_text(budget, plain, old_text.text(), new_text.piece(), count);
}

Result<Value> center(Interpreter& interpreter, const Value& input, const Args& args) {
  CAIRN_TRY(const Bound bound, bind("center", args, {"width"}));
  Args width;
  width.positional.push_back(bound.has(0) ? bound[0] : Value::integer(80));
  return by_method(interpreter, input, "center", width);
}

Result<Value> indent(Interpreter& interpreter, const Value& input, const Args& args) {
  CAIRN_TRY(const Bound bound, bind("indent", args, {"width", "first", "blank"}));
  CAIRN_TRY(const Value text, require_text(input, "indent"));
  Budget& budget = interpreter.budget();
  CAIRN_TRY_VOID(budget.work(static_cast<int64_t>(text.text().size())));
  Buffer indentation(budget);
  if (bound.has(0) && bound[0].is(Kind::kText)) {
    CAIRN_TRY_VOID(indentation.put(bound[0].piece()));
  } else {
    CAIRN_TRY(const int64_t width, bound.integer(0, 4));
    CAIRN_TRY_VOID(indentation.put_repeated(" ", width));
  }
  const bool blank_too = bound.boolean(2, false);
  Buffer with_end(budget);
  CAIRN_TRY_VOID(with_end.put(text.piece()));
  CAIRN_TRY_VOID(with_end.put("\n"));  // so that an empty last line counts
  const std::vector<std::string_view> lines = split_lines(with_end.text(), false);
  Buffer out(budget);
  if (bound.boolean(1, false)) CAIRN_TRY_VOID(out.put(indentation.piece()));
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) {
      CAIRN_TRY_VOID(out.put("\n"));
      if (blank_too || !lines[i].empty()) CAIRN_TRY_VOID(out.put(indentation.piece()));
    }
    CAIRN_TRY_VOID(out.put(with_end.piece().part(lines[i])));
  }
  return make_text(std::move(out), text.is_markup());
}

Result<Value> truncate(Interpreter& interpreter, const Value& input, const Args& args) {
  CAIRN_TRY(const Bound bound, bind("truncate", args, {"length", "killwords", "end", "leeway"}));
  CAIRN_TRY(const Value value, require_text(input, "truncate"));
  CAIRN_TRY(const int64_t length, bound.integer(0, 255));
  CAIRN_TRY(const Piece end, bound.piece(2, "..."));
  CAIRN_TRY(const int64_t leeway, bound.given(3) ? bound.integer(3, 5) : Result<int64_t>(5));
  const auto end_length = static_cast<int64_t>(char_count(end.bytes()));
  if (length < end_length) return fail(Code::kInvalidArgument, "expected length >= {}, got {}", end_length, length);
  if (leeway < 0) return fail(Code::kInvalidArgument, "expected leeway >= 0, got {}", leeway);
  const std::string_view text = value.text();
  if (static_cast<int64_t>(char_count(text)) - leeway <= length) return value;
  std::string_view kept = text.substr(0, char_offset(text, static_cast<size_t>(length - end_length)));
  if (!bound.boolean(1, false)) kept = kept.substr(0, kept.rfind(' '));
  Buffer out(interpreter.budget());
  CAIRN_TRY_VOID(out.put(value.piece().part(kept)));
  CAIRN_TRY_VOID(out.put(end));
  return make_text(std::move(out), value.is_markup());
}

Result<Value> wordcount(Interpreter& interpreter, const Value& input, const Args& args) {
  CAIRN_TRY_VOID(bind("wordcount", args, {}));
  CAIRN_TRY(const Value text, to_text(interpreter.budget(), input));
  CAIRN_TRY_VOID(interpreter.budget().work(static_cast<int64_t>(text.text().size())));
  int64_t words = 0;
  bool in_word = false;
  for (size_t offset = 0; offset < text.text().size();) {
    const Utf8Char c = utf8_decode(text.text(), offset);
    words += !in_word && is_word(c.value);
    in_word = is_word(c.value);
    offset += static_cast<size_t>(c.length);
  }
  return Value::integer(words);
}

Result<Value> format(Interpreter& interpreter, const Value& input, const Args& args) {
  Budget& budget = interpreter.budget();
  CAIRN_TRY(const Value text, to_text(budget, input));
  if (!args.named.empty()) {
    if (!args.positional.empty())
      return fail(Code::kInvalidArgument, "can't handle positional and keyword arguments at the same time");
    DictBuilder named(budget);
    for (const auto& [name, value] : args.named) CAIRN_TRY_VOID(named.add(name_piece(name), value));
    return format_percent(budget, text, named.finish());
  }
  CAIRN_TRY(const Value values, make_list(budget, args.positional, ListKind::kTuple));
  return format_percent(budget, text, values);
}

Result<Value> string(Interpreter& interpreter, const Value& input, const Args& args) {
  CAIRN_TRY_VOID(bind("string", args, {}));
  return to_text(interpreter.budget(), input);
}

Result<Value> safe(Interpreter& interpreter, const Value& input, const Args& args) {
  CAIRN_TRY_VOID(bind("safe", args, {}));
  CAIRN_TRY(const Value text, to_text(interpreter.budget(), input));
  if (text.is_markup()) return text;
  return make_text(interpreter.budget(), text.piece(), true);
}

Result<Value> force_escape(Interpreter& interpreter, const Value& input, const Args& args) {
  CAIRN_TRY_VOID(bind("escape", args, {}));
  CAIRN_TRY(const Value text, to_text(interpreter.budget(), input));
  Buffer out(interpreter.budget());
  CAIRN_TRY_VOID(put_escaped(out, text.piece()));
  return make_text(std::move(out), true);
}

Result<Value> escape(Interpreter& interpreter, const Value& input, const Args& args) {
  if (input.is(Kind::kText) && input.is_markup()) return input;
  return force_escape(interpreter, input, args);
}

// Removes comments and tags, reduces white space to single spaces, and decodes the most common entities.
Result<Value> striptags(Interpreter& interpreter, const Value& input, const Args& args) {
  CAIRN_TRY_VOID(bind("striptags", args, {}));
  Budget& budget = interpreter.budget();
  CAIRN_TRY(const Value value, to_text(budget, input));
  std::string_view text = value.text();
  CAIRN_TRY_VOID(budget.work(static_cast<int64_t>(text.size())));
  std::string plain;
  for (const auto& [open, close] : {std::pair<std::string_view, std::string_view>("<!--", "-->"), {"<", ">"}}) {
    std::string kept;
    while (true) {
      const size_t begin = find_text(text, open);
      const size_t end = begin == std::string_view::npos ? begin : find_text(text, close, begin);
      if (end == std::string_view::npos) break;
      kept += text.substr(0, begin);
      text.remove_prefix(end + close.size());
    }
    kept += text;
    plain = std::move(kept);
    text = plain;
  }
  std::string joined;
  for (const std::string_view word : split_text(plain, nullptr, -1, false)) {
    if (!joined.empty()) joined += ' ';
    joined += word;
  }
  const auto origin_of = [foreign = value.piece().any_foreign()](std::string_view bytes) {
    return foreign ? Piece::foreign(bytes) : Piece::own(bytes);
  };
  CAIRN_TRY(Value result, make_text(budget, origin_of(joined)));
  constexpr std::pair<std::string_view, std::string_view> kEntities[] = {
      {"&lt;", "<"}, {"&gt;", ">"}, {"&#34;", "\""}, {"&quot;", "\""}, {"&#39;", "'"}, {"&amp;", "&"}};
  for (const auto& [entity, character] : kEntities) {
    CAIRN_TRY(result, replace_text(budget, result, entity, origin_of(character), -1));
  }
  return result;
}

Result<Value> xmlattr(Interpreter& interpreter, const Value& input, const Args& args) {
  CAIRN_TRY(const Bound bound, bind("xmlattr", args, {"autospace"}));
  if (input.is(Kind::kUndefined)) return undefined_error(input);
  if (!input.is(Kind::kDict))
    return fail(Code::kInvalidArgument, "the filter 'xmlattr' wants a mapping, not {}", type_name(input));
  Budget& budget = interpreter.budget();
  Buffer out(budget);
  bool first = true;
  for (const auto& [key, value] : input.dict().items()) {
    if (value.is(Kind::kNone) || value.is(Kind::kUndefined)) continue;
    CAIRN_TRY(const Value name, require_text(key, "xmlattr"));
    if (name.text().find_first_of(" \t\n\r\f\v/>=") != std::string::npos)
      return fail(Code::kInvalidArgument, "Invalid character in attribute name: '{}'", name.text());
    if (!std::exchange(first, false) || bound.boolean(0, true)) CAIRN_TRY_VOID(out.put(" "));
    CAIRN_TRY_VOID(put_escaped(out, name.piece()));
    CAIRN_TRY_VOID(out.put("=\""));
    CAIRN_TRY(const Value text, to_text(budget, value));
    CAIRN_TRY_VOID(text.is_markup() ? out.put(text.piece()) : put_escaped(out, text.piece()));
    CAIRN_TRY_VOID(out.put("\""));
  }
  return make_text(std::move(out));
}

Result<Value> pprint(Interpreter& interpreter, const Value& input, const Args& args) {
  CAIRN_TRY_VOID(bind("pprint", args, {}));
  Buffer out(interpreter.budget());
  CAIRN_TRY_VOID(put_repr(out, input));
  return make_text(std::move(out));
}

// The filter as model libraries define it: plain JSON, without HTML escapes.
Result<Value> tojson(Interpreter& interpreter, const Value& input, const Args& args) {
  CAIRN_TRY(const Bound bound, bind("tojson", args, {"ensure_ascii", "indent", "separators", "sort_keys"}));
  JsonStyle style;
  std::string spaces;
  style.ensure_ascii = bound.boolean(0, false);
  style.sort_keys = bound.boolean(3, false);
  if (bound.given(1)) {
    style.indented = true;
    style.item_separator = ",";
    if (bound[1].is(Kind::kText)) {
      style.indent = bound[1].piece();
    } else {
      constexpr int64_t kIndentMax = 1000;
      CAIRN_TRY(const int64_t width, bound.integer(1, 0));
      if (width > kIndentMax) return fail(Code::kTooLarge, "tojson: an indent of {} is too large", width);
      spaces.assign(static_cast<size_t>(std::max<int64_t>(0, width)), ' ');
      style.indent = Piece::own(spaces);
    }
  }
  if (bound.given(2)) {
    const Value& pair = bound[2];
    if (!pair.is(Kind::kList) || pair.items().size() != 2 || !pair.items()[0].is(Kind::kText) ||
        !pair.items()[1].is(Kind::kText))
      return fail(Code::kInvalidArgument, "tojson: separators must be a pair of strings");
    style.item_separator = pair.items()[0].piece();
    style.key_separator = pair.items()[1].piece();
  }
  Buffer out(interpreter.budget());
  CAIRN_TRY_VOID(put_json(out, input, style));
  return make_text(std::move(out));
}

}  // namespace filters
}  // namespace cairn::jinja
