#include "jinja/builtins/split.h"

#include <algorithm>

#include "base/text/utf8.h"
#include "jinja/value/characters.h"
#include "jinja/value/operators.h"

namespace cairn::jinja {
namespace {

size_t first_space(std::string_view text, bool wanted) {
  size_t offset = 0;
  while (offset < text.size()) {
    const Utf8Char c = utf8_decode(text, offset);
    if (is_space(c.value) == wanted) break;
    offset += static_cast<size_t>(c.length);
  }
  return offset;
}

std::vector<std::string_view> split_spaces(std::string_view text, int64_t splits_max) {
  std::vector<std::string_view> pieces;
  text.remove_prefix(first_space(text, false));
  while (!text.empty()) {
    if (splits_max >= 0 && static_cast<int64_t>(pieces.size()) == splits_max) {
      pieces.push_back(text);
      break;
    }
    const size_t end = first_space(text, true);
    pieces.push_back(text.substr(0, end));
    text.remove_prefix(end);
    text.remove_prefix(first_space(text, false));
  }
  return pieces;
}

std::vector<std::string_view> split_spaces_right(std::string_view text, int64_t splits_max) {
  // Splits into all words first; the text before the last `splits_max` of them stays one piece.
  std::vector<std::string_view> words = split_spaces(text, -1);
  if (splits_max < 0 || static_cast<int64_t>(words.size()) <= splits_max) return words;
  const size_t rest = words.size() - static_cast<size_t>(splits_max);
  const char* end = words[rest - 1].data() + words[rest - 1].size();
  words[rest - 1] = text.substr(0, static_cast<size_t>(end - text.data()));
  words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(rest - 1));
  return words;
}

}  // namespace

std::vector<std::string_view> split_text(std::string_view text, const std::string_view* separator, int64_t splits_max,
                                         bool from_right) {
  if (separator == nullptr) return from_right ? split_spaces_right(text, splits_max) : split_spaces(text, splits_max);
  std::vector<std::string_view> pieces;
  const auto may_split = [&] { return splits_max < 0 || static_cast<int64_t>(pieces.size()) < splits_max; };
  while (may_split()) {
    const size_t at = from_right ? text.rfind(*separator) : find_text(text, *separator);
    if (at == std::string_view::npos) break;
    const size_t behind = at + separator->size();
    if (from_right) {
      pieces.push_back(text.substr(behind));
      text = text.substr(0, at);
    } else {
      pieces.push_back(text.substr(0, at));
      text.remove_prefix(behind);
    }
  }
  pieces.push_back(text);
  if (from_right) std::reverse(pieces.begin(), pieces.end());
  return pieces;
}

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  size_t begin = 0;
  for (size_t offset = 0; offset < text.size();) {
    const Utf8Char c = utf8_decode(text, offset);
    size_t end = offset + static_cast<size_t>(c.length);
    const bool breaks = (c.value >= 0x0A && c.value <= 0x0D) || (c.value >= 0x1C && c.value <= 0x1E) ||
                        c.value == 0x85 || c.value == 0x2028 || c.value == 0x2029;
    if (breaks) {
      if (c.value == '\r' && text.substr(end).starts_with('\n')) ++end;
      lines.push_back(text.substr(begin, (keep_ends ? end : offset) - begin));
      begin = end;
    }
    offset = end;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

int64_t count_text(std::string_view text, std::string_view needle) {
  if (needle.empty()) return static_cast<int64_t>(char_count(text)) + 1;
  int64_t count = 0;
  for (size_t at = find_text(text, needle); at != std::string_view::npos;
       at = find_text(text, needle, at + needle.size()))
    ++count;
  return count;
}

namespace {

// Python inserts the new text between all characters if the old one is empty.
Result<void> put_between(Buffer& out, const Piece& text, const Piece& between, int64_t count) {
  const std::vector<uint32_t> offsets = char_offsets(text.bytes());
  for (size_t i = 0; i < offsets.size(); ++i) {
    if (count >= 0 && static_cast<int64_t>(i) >= count) return out.put(text.substr(offsets[i]));
    CAIRN_TRY_VOID(out.put(between));
    if (i + 1 < offsets.size()) CAIRN_TRY_VOID(out.put(text.substr(offsets[i], offsets[i + 1] - offsets[i])));
  }
  return {};
}

}  // namespace

Result<Value> replace_text(Budget& budget, const Value& text, std::string_view old_text, const Piece& new_text,
                           int64_t count) {
  std::string_view rest = text.text();
  CAIRN_TRY_VOID(budget.work(static_cast<int64_t>(rest.size())));
  Buffer out(budget);
  if (old_text.empty()) {
    CAIRN_TRY_VOID(put_between(out, text.piece(), new_text, count));
    return make_text(std::move(out), text.is_markup());
  }
  while (count != 0) {
    const size_t at = find_text(rest, old_text);
    if (at == std::string_view::npos) break;
    CAIRN_TRY_VOID(out.put(text.piece().part(rest.substr(0, at))));
    CAIRN_TRY_VOID(out.put(new_text));
    rest.remove_prefix(at + old_text.size());
    if (count > 0) --count;
  }
  CAIRN_TRY_VOID(out.put(text.piece().part(rest)));
  return make_text(std::move(out), text.is_markup());
}

Result<Value> make_text_list(Budget& budget, const Value& text, const std::vector<std::string_view>& pieces) {
  std::vector<Value> items;
  items.reserve(pieces.size());
  for (const std::string_view piece : pieces) {
    CAIRN_TRY(Value item, make_text(budget, text.piece().part(piece), text.is_markup()));
    items.push_back(std::move(item));
  }
  return make_list(budget, std::move(items));
}

Result<Value> join_texts(Budget& budget, const Value& separator, const std::vector<Value>& items) {
  Buffer out(budget);
  for (size_t i = 0; i < items.size(); ++i) {
    if (!items[i].is(Kind::kText))
      return fail(Code::kInvalidArgument, "sequence item {}: expected str instance, {} found", i, type_name(items[i]));
    if (i > 0) CAIRN_TRY_VOID(out.put(separator.piece()));
    CAIRN_TRY_VOID(out.put(items[i].piece()));
  }
  return make_text(std::move(out), separator.is_markup());
}

}  // namespace cairn::jinja
