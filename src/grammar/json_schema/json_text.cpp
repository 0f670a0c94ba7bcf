#include "grammar/json_schema/json_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <utility>

#include "base/text/utf8.h"

namespace cairn::grammar {

namespace {

constexpr char32_t kLastCharacter = 0x10FFFF;
/// Derivatives that may be spent to see that an expression matches nothing.
constexpr int32_t kNoneFuel = 20'000;
constexpr uint32_t kPrettyIndentMax = 20;
constexpr uint32_t kWordBytesMax = 100;

/// The letter of a short escape of JSON, or 0.
char short_escape(char32_t character) {
  switch (character) {
    case '"':
      return '"';
    case '\\':
      return '\\';
    case '/':
      return '/';
    case '\b':
      return 'b';
    case '\f':
      return 'f';
    case '\n':
      return 'n';
    case '\r':
      return 'r';
    case '\t':
      return 't';
    default:
      return 0;
  }
}

/// Keys that need no quotes where they need none.
RegexId word(RegexPool& pool) {
  ByteSet first = ByteSet::range('a', 'z') | ByteSet::range('A', 'Z') | ByteSet::of("_");
  const RegexId parts[] = {
      pool.bytes(first),
      pool.repeat(pool.bytes(first | ByteSet::range('0', '9') | ByteSet::of("-.")), 0, kWordBytesMax)};
  return pool.sequence(parts);
}

}  // namespace

std::vector<CharacterRange> normal_ranges(std::vector<CharacterRange> ranges) {
  std::ranges::sort(ranges);
  std::vector<CharacterRange> out;
  for (const CharacterRange& range : ranges) {
    if (range.first > range.last) continue;
    if (!out.empty() && range.first <= out.back().last + 1) {
      out.back().last = std::max(out.back().last, range.last);
    } else {
      out.push_back(range);
    }
  }
  return out;
}

std::vector<CharacterRange> inverted_ranges(std::span<const CharacterRange> ranges) {
  std::vector<CharacterRange> out;
  char32_t next = 0;
  for (const CharacterRange& range : normal_ranges({ranges.begin(), ranges.end()})) {
    if (range.first > next) out.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kLastCharacter) out.push_back({next, kLastCharacter});
  return out;
}

JsonText::JsonText(RegexPool& pool, Notation notation) : pool_(pool), notation_(std::move(notation)) {
  if (!notation_.escapes) {
    any_character_ = pool.characters(0, kLastCharacter);
    any_string_ = canonical_string_ = pool.repeat(any_character_, 0, std::nullopt);
    return;
  }
  const RegexId raw[] = {pool.characters(0x20, 0x21), pool.characters(0x23, 0x5B),
                         pool.characters(0x5D, kLastCharacter)};
  const RegexId short_one = then(pool.literal("\\"), pool.bytes(ByteSet::of("\"\\/bfnrt")));
  any_character_ = pool.any_of(std::initializer_list<RegexId>{pool.any_of(raw), short_one, escaped(0, kLastCharacter)});
  any_string_ = pool.repeat(any_character_, 0, std::nullopt);
  canonical_string_ = pool.repeat(characters({{0, kLastCharacter}}), 0, std::nullopt);
}

RegexId JsonText::hexadecimal(uint32_t first, uint32_t last, int digits) {
  const auto digit_set = [&](uint32_t low, uint32_t high) {
    ByteSet set;
    for (uint32_t digit = low; digit <= high; ++digit) {
      set.add(static_cast<uint8_t>("0123456789abcdef"[digit]));
      set.add(static_cast<uint8_t>("0123456789ABCDEF"[digit]));
    }
    return pool_.bytes(set);
  };
  if (digits == 1) return digit_set(first, last);
  const uint32_t unit = 1U << (4 * (digits - 1));
  std::vector<RegexId> choices;
  for (uint32_t from = first; from <= last;) {
    const uint32_t digit = from / unit;
    if (from % unit == 0 && from + unit - 1 <= last) {  // whole blocks share their tail
      const uint32_t blocks = (last - from + 1) / unit;
      choices.push_back(then(digit_set(digit, digit + blocks - 1), hexadecimal(0, unit - 1, digits - 1)));
      from += blocks * unit;
    } else {
      const uint32_t to = std::min(last, (digit + 1) * unit - 1);
      choices.push_back(then(digit_set(digit, digit), hexadecimal(from % unit, to % unit, digits - 1)));
      from = to + 1;
    }
  }
  return pool_.any_of(choices);
}

RegexId JsonText::escaped(char32_t first, char32_t last) {
  std::vector<RegexId> choices;
  const RegexId begin = pool_.literal("\\u");
  const auto plane_zero = [&](char32_t low, char32_t high) {
    low = std::max(low, first);
    high = std::min(high, last);
    if (low <= high) choices.push_back(then(begin, hexadecimal(low, high, 4)));
  };
  plane_zero(0, 0xD7FF);
  plane_zero(0xE000, 0xFFFF);
  if (last >= 0x10000) {
    const uint32_t from = std::max<char32_t>(first, 0x10000) - 0x10000, to = last - 0x10000;
    const auto pair = [&](uint32_t high_from, uint32_t high_to, uint32_t low_from, uint32_t low_to) {
      if (high_from > high_to) return;
      const RegexId parts[] = {begin, hexadecimal(0xD800 + high_from, 0xD800 + high_to, 4), begin,
                               hexadecimal(0xDC00 + low_from, 0xDC00 + low_to, 4)};
      choices.push_back(pool_.sequence(parts));
    };
    if (from >> 10 == to >> 10) {
      pair(from >> 10, from >> 10, from & 0x3FF, to & 0x3FF);
    } else {
      pair(from >> 10, from >> 10, from & 0x3FF, 0x3FF);
      if ((to >> 10) > (from >> 10) + 1) pair((from >> 10) + 1, (to >> 10) - 1, 0, 0x3FF);
      pair(to >> 10, to >> 10, 0, to & 0x3FF);
    }
  }
  return pool_.any_of(choices);
}

RegexId JsonText::characters(const std::vector<CharacterRange>& ranges) {
  const auto known = sets_.find(ranges);
  if (known != sets_.end()) return known->second;
  std::vector<RegexId> choices;
  if (!notation_.escapes) {
    for (const CharacterRange& range : ranges) choices.push_back(pool_.characters(range.first, range.last));
    return sets_.emplace(ranges, pool_.any_of(choices)).first->second;
  }
  ByteSet plain, short_ones;
  for (const CharacterRange& range : ranges) {
    for (char32_t c = range.first; c <= std::min<char32_t>(range.last, 0x7F); ++c) {
      if (c >= 0x20 && c != '"' && c != '\\') plain.add(static_cast<uint8_t>(c));
      if (short_escape(c) != 0) short_ones.add(static_cast<uint8_t>(short_escape(c)));
    }
    if (range.first < 0x20) choices.push_back(escaped(range.first, std::min<char32_t>(range.last, 0x1F)));
    if (range.last < 0x7F) continue;
    const char32_t first = std::max<char32_t>(range.first, 0x7F);
    choices.push_back(escaped(first, range.last));
    if (range.last >= 0x80) choices.push_back(pool_.characters(std::max<char32_t>(first, 0x80), range.last));
  }
  if (!plain.empty()) choices.push_back(pool_.bytes(plain));
  if (!short_ones.empty()) choices.push_back(then(pool_.literal("\\"), pool_.bytes(short_ones)));
  const RegexId set = pool_.any_of(choices);
  sets_.emplace(ranges, set);
  return set;
}

RegexId JsonText::literal(std::string_view text) {
  std::vector<RegexId> parts;
  for (size_t at = 0; at < text.size();) {
    const Utf8Char character = utf8_decode(text, at);
    parts.push_back(characters({{character.value, character.value}}));
    at += static_cast<size_t>(character.length);
  }
  return pool_.sequence(parts);
}

RegexId JsonText::without_absent(RegexId body) {
  if (notation_.absent.empty()) return body;
  if (!with_absent_) {
    std::vector<RegexId> texts;
    for (const std::string& text : notation_.absent) texts.push_back(pool_.literal(text));
    const RegexId any = pool_.repeat(pool_.bytes(ByteSet::all()), 0, std::nullopt);
    with_absent_ = then(any, then(pool_.any_of(texts), any));
  }
  return except(body, *with_absent_);
}

RegexId JsonText::single_quoted(RegexId body) {
  const RegexId quote = pool_.literal("'");
  if (body == any_string_) {
    const RegexId plain[] = {pool_.characters(0x20, '\'' - 1), pool_.characters('\'' + 1, '\\' - 1),
                             pool_.characters('\\' + 1, kLastCharacter)};
    const RegexId escape = then(pool_.literal("\\"), pool_.bytes(ByteSet::of("'\"\\/bfnrt")));
    body = pool_.repeat(either(pool_.any_of(plain), escape), 0, std::nullopt);
  } else {
    const RegexId any = pool_.repeat(pool_.bytes(ByteSet::all()), 0, std::nullopt);
    body = except(body, then(any, then(quote, any)));
  }
  return then(quote, then(without_absent(body), quote));
}

RegexId JsonText::words(const std::vector<std::string>& words) {
  std::vector<RegexId> choices;
  for (const std::string& word : words) choices.push_back(pool_.literal(word));
  return pool_.any_of(choices);
}

RegexId JsonText::quoted(RegexId body) {
  const RegexId parts[] = {pool_.literal(notation_.open_quote), without_absent(body),
                           pool_.literal(notation_.close_quote)};
  const RegexId quoted = pool_.sequence(parts);
  return notation_.single_quotes ? either(quoted, single_quoted(body)) : quoted;
}

RegexId JsonText::string_of(std::string_view text) {
  const std::string body = spelled_body(text);
  const bool absent = std::ranges::any_of(notation_.absent, [&](const std::string& one) { return body.contains(one); });
  if (absent) return kNoMatch;
  const RegexId string = pool_.literal(spell(text));
  return notation_.single_quotes && !body.contains('\'') ? either(string, pool_.literal("'" + body + "'")) : string;
}

RegexId JsonText::key(RegexId body) {
  if (!notation_.bare_keys) return quoted(body);
  const RegexId bare = both(without_absent(body), word(pool_));
  return notation_.open_quote.empty() ? bare : either(bare, quoted(body));
}

RegexId JsonText::key_of(std::string_view text) {
  return notation_.bare_keys && matches(word(pool_), text) ? pool_.literal(text) : string_of(text);
}

RegexId JsonText::whitespace(Whitespace which) {
  switch (which) {
    case Whitespace::kNone:
      return kEmptyText;
    case Whitespace::kAny:
      return pool_.repeat(pool_.bytes(ByteSet::of(" \t\r\n")), 0, std::nullopt);
    case Whitespace::kPretty:
      break;
  }
  const RegexId lines =
      then(pool_.repeat(pool_.literal("\n"), 1, 2), pool_.repeat(pool_.bytes(ByteSet::of(" \t")), 0, kPrettyIndentMax));
  return pool_.any_of(std::initializer_list<RegexId>{kEmptyText, pool_.literal(" "), lines});
}

bool JsonText::matches(RegexId regex, std::string_view text) {
  for (const char byte : text) {
    regex = pool_.derivative(regex, static_cast<uint8_t>(byte));
    if (regex == kNoMatch) return false;
  }
  return pool_.matches_empty(regex);
}

bool JsonText::none(RegexId regex) {
  if (regex == kNoMatch) return true;
  const auto known = none_.find(regex);
  if (known != none_.end()) return known->second;
  const bool none = pool_.matches_nothing(regex, kNoneFuel).value_or(false);
  none_.emplace(regex, none);
  return none;
}

std::string JsonText::spell(std::string_view text) const {
  return notation_.open_quote + spelled_body(text) + notation_.close_quote;
}

std::string JsonText::spelled_body(std::string_view text) const {
  if (!notation_.escapes) return std::string(text);
  std::string out;
  for (const char byte : text) {
    const auto value = static_cast<unsigned char>(byte);
    if (byte != '/' && short_escape(value) != 0) {
      out += '\\';
      out += short_escape(value);
    } else if (value < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(value));
    } else {
      out += byte;
    }
  }
  return out;
}

}  // namespace cairn::grammar
