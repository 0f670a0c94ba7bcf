#include "grammar/json_schema/json_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <utility>

#include "base/text/utf8.h"

namespace cairn::grammar {

namespace {

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

/// Among canonical spellings.
bool has_one_spelling(char character) {
  return character >= 0x20 && character < 0x7F && character != '"' && character != '\\' && character != '/';
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

JsonText::JsonText(RegexPool& pool, Notation notation) : pool_(pool), notation_(std::move(notation)) {
  any_character_ = grammar::spell(pool, CharacterSet::all(), notation_.escapes ? Spelling::kJson : Spelling::kUtf8);
  any_string_ = pool.repeat(any_character_, 0, std::nullopt);
  canonical_string_ = pool.repeat(characters(CharacterSet::all()), 0, std::nullopt);
}

RegexId JsonText::characters(const CharacterSet& set) {
  const auto [place, added] = sets_.try_emplace(set);
  if (added) place->second = grammar::spell(pool_, set, spelling());
  return place->second;
}

RegexId JsonText::literal(std::string_view text) {
  const auto known = literals_.find(text);
  if (known != literals_.end()) return known->second;
  std::vector<RegexId> parts;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    while (at < text.size() && has_one_spelling(text[at])) ++at;
    if (at > begin) parts.push_back(pool_.literal(text.substr(begin, at - begin)));
    if (at == text.size()) break;
    const Utf8Char character = utf8_decode(text, at);
    parts.push_back(characters({{character.value, character.value}}));
    at += static_cast<size_t>(character.length);
  }
  const RegexId made = pool_.sequence(parts);
  literals_.emplace(text, made);
  return made;
}

RegexId JsonText::literals(std::span<const std::string> texts) {
  std::vector<std::string_view> plain;  // these need no expressions of their own
  std::vector<RegexId> choices;
  for (const std::string& text : texts) {
    if (!notation_.escapes || std::ranges::all_of(text, has_one_spelling)) {
      plain.push_back(text);
    } else {
      choices.push_back(literal(text));
    }
  }
  choices.push_back(pool_.texts(std::move(plain)));
  return pool_.any_of(choices);
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
                             pool_.characters('\\' + 1, kLastCodePoint)};
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

RegexId JsonText::spelled_string() {
  if (!notation_.escapes) return any_string_;
  std::vector<RegexId> choices{pool_.characters(0x20, 0x21), pool_.characters(0x23, 0x5B),
                               pool_.characters(0x5D, kLastCodePoint)};
  for (char32_t character = 0; character < 0x80; ++character) {
    if (character != '"' && character != '\\' && character >= 0x20) continue;
    choices.push_back(pool_.literal(spelled_body(std::string(1, static_cast<char>(character)))));
  }
  return pool_.repeat(pool_.any_of(choices), 0, std::nullopt);
}

RegexId JsonText::string_of(std::string_view text) {
  const std::string one(text);
  return strings_of({&one, 1});
}

RegexId JsonText::strings_of(std::span<const std::string> texts) {
  std::vector<std::string> spelled;
  for (const std::string& text : texts) {
    const std::string body = spelled_body(text);
    const auto within = [&](const std::string& one) { return body.contains(one); };
    if (std::ranges::any_of(notation_.absent, within)) continue;
    spelled.push_back(spell(text));
    if (notation_.single_quotes && !body.contains('\'')) spelled.push_back("'" + body + "'");
  }
  return pool_.texts({spelled.begin(), spelled.end()});
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
