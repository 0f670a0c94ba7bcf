// The filters wordwrap and urlencode.
#include <algorithm>
#include <vector>

#include "base/text/utf8.h"
#include "jinja/builtins/filters.h"
#include "jinja/builtins/split.h"
#include "jinja/interpret/interpreter.h"
#include "jinja/value/characters.h"
#include "jinja/value/operators.h"
#include "jinja/value/repr.h"

namespace cairn::jinja {
namespace {

// Words and the white space between them, alternating; if requested, a word is cut after each of its hyphens.
std::vector<std::string_view> chunks_of(std::string_view line, bool break_on_hyphens) {
  std::vector<std::string_view> chunks;
  size_t begin = 0;
  bool in_space = false;
  bool hyphen_before = false;
  char32_t before_hyphen = 0;
  char32_t before = 0;
  for (size_t offset = 0; offset < line.size();) {
    const Utf8Char c = utf8_decode(line, offset);
    const bool space = is_space(c.value);
    const bool behind_hyphen = break_on_hyphens && hyphen_before && is_word(before_hyphen) && is_alpha(c.value);
    if (offset > begin && (space != in_space || behind_hyphen)) {
      chunks.push_back(line.substr(begin, offset - begin));
      begin = offset;
    }
    in_space = space;
    hyphen_before = c.value == '-';
    if (hyphen_before) before_hyphen = before;
    before = c.value;
    offset += static_cast<size_t>(c.length);
  }
  if (begin < line.size()) chunks.push_back(line.substr(begin));
  return chunks;
}

// Greedy lines of at most `width` characters. Pieces of one line are contiguous in `line`, so a line is a view.
std::vector<std::string_view> wrap_line(std::string_view line, size_t width, bool break_long_words,
                                        bool break_on_hyphens) {
  std::vector<std::string_view> out;
  std::vector<std::string_view> chunks = chunks_of(line, break_on_hyphens);
  std::reverse(chunks.begin(), chunks.end());
  while (!chunks.empty()) {
    if (!out.empty() && strip(chunks.back(), nullptr, true, false).empty()) chunks.pop_back();
    if (chunks.empty()) break;
    const char* begin = chunks.back().data();
    size_t bytes = 0;
    size_t used = 0;
    while (!chunks.empty()) {
      const size_t length = char_count(chunks.back());
      if (used + length > width) break;
      used += length;
      bytes += chunks.back().size();
      chunks.pop_back();
    }
    if (!chunks.empty() && char_count(chunks.back()) > width) {  // a word longer than a line
      if (break_long_words) {
        const size_t cut = char_offset(chunks.back(), std::max<size_t>(width - used, used == 0 ? 1 : 0));
        bytes += cut;
        chunks.back().remove_prefix(cut);
      } else if (bytes == 0) {
        bytes = chunks.back().size();
        chunks.pop_back();
      }
    }
    const std::string_view made = strip(std::string_view(begin, bytes), nullptr, false, true);
    if (!made.empty()) out.push_back(made);
  }
  return out;
}

// Writes bytes as %XX, except letters, digits and a few punctuation characters.
Result<void> put_quoted(Buffer& out, const Piece& text, bool for_query) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  Derivation derived(out, text);
  for (size_t i = 0; i < text.size(); ++i) {
    const std::string_view of = text.bytes().substr(i, 1);
    const char c = of[0];
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
                       c == '.' || c == '-' || c == '~' || (c == '/' && !for_query);
    const auto byte = static_cast<unsigned char>(c);
    const char quoted[3] = {'%', kHex[byte >> 4], kHex[byte & 15]};
    const std::string_view escaped = c == ' ' && for_query ? "+" : std::string_view(quoted, 3);
    CAIRN_TRY_VOID(derived.put(plain ? of : escaped, of));
  }
  return derived.finish();
}

}  // namespace

namespace filters {

Result<Value> wordwrap(Interpreter& interpreter, const Value& input, const Args& args) {
  CAIRN_TRY(const Bound bound, bind("wordwrap", args, {"width", "break_long_words", "wrapstring", "break_on_hyphens"}));
  if (input.is(Kind::kUndefined)) return undefined_error(input);
  if (!input.is(Kind::kText))
    return fail(Code::kInvalidArgument, "the filter 'wordwrap' wants a string, not {}", type_name(input));
  CAIRN_TRY(const int64_t width, bound.integer(0, 79));
  if (width <= 0) return fail(Code::kInvalidArgument, "invalid width {} (must be > 0)", width);
  CAIRN_TRY(const Piece between, bound.given(2) ? bound.piece(2, "\n") : Result<Piece>(Piece("\n")));
  Budget& budget = interpreter.budget();
  CAIRN_TRY_VOID(budget.work(static_cast<int64_t>(input.text().size())));
  Buffer out(budget);
  bool first = true;
  for (const std::string_view line : split_lines(input.text(), false)) {
    // A word longer than the width is measured again for each line that it fills.
    const auto size = static_cast<int64_t>(line.size());
    CAIRN_TRY_VOID(budget.work((size / width + 1) * size));
    std::vector<std::string_view> pieces =
        wrap_line(line, static_cast<size_t>(width), bound.boolean(1, true), bound.boolean(3, true));
    if (pieces.empty()) pieces.emplace_back();
    for (const std::string_view piece : pieces) {
      if (!std::exchange(first, false)) CAIRN_TRY_VOID(out.put(between));
      CAIRN_TRY_VOID(out.put(input.piece().part(piece)));
    }
  }
  return make_text(std::move(out), input.is_markup());
}

Result<Value> urlencode(Interpreter& interpreter, const Value& input, const Args& args) {
  CAIRN_TRY_VOID(bind("urlencode", args, {}));
  Budget& budget = interpreter.budget();
  Buffer out(budget);
  if (input.is(Kind::kText) || !is_iterable(input)) {
    CAIRN_TRY(const Value text, to_text(budget, input));
    CAIRN_TRY_VOID(put_quoted(out, text.piece(), false));
    return make_text(std::move(out));
  }
  Value source = input;
  if (input.is(Kind::kDict)) {
    CAIRN_TRY(auto view, make_object<DictView>(budget, input.depth(), input, DictView::Part::kItems));
    source = Value(std::shared_ptr<Object>(std::move(view)));
  }
  CAIRN_TRY(const Value pairs, to_list(budget, source));
  bool first = true;
  for (const Value& pair : pairs.items()) {
    if (!pair.is(Kind::kList) || pair.items().size() != 2)
      return fail(Code::kInvalidArgument, "the filter 'urlencode' wants pairs");
    if (!std::exchange(first, false)) CAIRN_TRY_VOID(out.put("&"));
    for (size_t i = 0; i < 2; ++i) {
      if (i == 1) CAIRN_TRY_VOID(out.put("="));
      CAIRN_TRY(const Value text, to_text(budget, pair.items()[i]));
      CAIRN_TRY_VOID(put_quoted(out, text.piece(), true));
    }
  }
  return make_text(std::move(out));
}

}  // namespace filters
}  // namespace cairn::jinja
