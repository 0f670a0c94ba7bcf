// What utf8proc knows of characters: categories and case.
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>

#include "grammar/readers/characters.h"
#include "grammar/readers/unicode_tables.h"

namespace cairn::grammar {

namespace {

constexpr char32_t kLastCased = 0x1FFFF;  // no character above has case
constexpr size_t kCategoryCount = UTF8PROC_CATEGORY_CO + 1;

// Short and long names of general categories, in utf8proc's order of them.
constexpr std::array<std::pair<std::string_view, std::string_view>, kCategoryCount> kCategoryNames{{
    {"Cn", "Unassigned"},
    {"Lu", "Uppercase_Letter"},
    {"Ll", "Lowercase_Letter"},
    {"Lt", "Titlecase_Letter"},
    {"Lm", "Modifier_Letter"},
    {"Lo", "Other_Letter"},
    {"Mn", "Nonspacing_Mark"},
    {"Mc", "Spacing_Mark"},
    {"Me", "Enclosing_Mark"},
    {"Nd", "Decimal_Number"},
    {"Nl", "Letter_Number"},
    {"No", "Other_Number"},
    {"Pc", "Connector_Punctuation"},
    {"Pd", "Dash_Punctuation"},
    {"Ps", "Open_Punctuation"},
    {"Pe", "Close_Punctuation"},
    {"Pi", "Initial_Punctuation"},
    {"Pf", "Final_Punctuation"},
    {"Po", "Other_Punctuation"},
    {"Sm", "Math_Symbol"},
    {"Sc", "Currency_Symbol"},
    {"Sk", "Modifier_Symbol"},
    {"So", "Other_Symbol"},
    {"Zs", "Space_Separator"},
    {"Zl", "Line_Separator"},
    {"Zp", "Paragraph_Separator"},
    {"Cc", "Control"},
    {"Cf", "Format"},
    {"Cs", "Surrogate"},
    {"Co", "Private_Use"},
}};
constexpr std::pair<std::string_view, std::string_view> kCategoryGroups[] = {
    {"L", "Letter"}, {"M", "Mark"},      {"N", "Number"}, {"P", "Punctuation"},
    {"S", "Symbol"}, {"Z", "Separator"}, {"C", "Other"},  {"LC", "Cased_Letter"},
};
static_assert(UTF8PROC_CATEGORY_CN == 0 && UTF8PROC_CATEGORY_CO == kCategoryCount - 1 && UTF8PROC_CATEGORY_ZS == 23);

const std::array<CharacterSet, kCategoryCount>& categories() {
  static const std::array<CharacterSet, kCategoryCount> sets = [] {
    std::array<std::vector<CodePointRange>, kCategoryCount> ranges;
    for (char32_t c = 0; c <= kLastCodePoint; ++c) {
      auto& list = ranges[static_cast<size_t>(utf8proc_category(static_cast<utf8proc_int32_t>(c)))];
      if (!list.empty() && list.back().last + 1 == c) {
        list.back().last = c;
      } else {
        list.push_back({c, c});
      }
    }
    std::array<CharacterSet, kCategoryCount> out;
    for (size_t i = 0; i < kCategoryCount; ++i) out[i] = CharacterSet(ranges[i]);
    return out;
  }();
  return sets;
}

std::optional<CharacterSet> category(std::string_view name) {
  for (size_t i = 0; i < kCategoryCount; ++i)
    if (name == kCategoryNames[i].first || name == kCategoryNames[i].second) return categories()[i];
  for (const auto& [brief, full] : kCategoryGroups) {
    if (name != brief && name != full) continue;
    CharacterSet out;
    for (size_t i = 0; i < kCategoryCount; ++i) {
      const std::string_view kind = kCategoryNames[i].first;
      const bool cased = kind == "Lu" || kind == "Ll" || kind == "Lt";
      if (brief == "LC" ? cased : kind[0] == brief[0]) out = out | categories()[i];
    }
    return out;
  }
  return std::nullopt;
}

// Characters that differ in case only.
const std::vector<std::vector<char32_t>>& case_groups() {
  static const std::vector<std::vector<char32_t>> groups = [] {
    std::map<char32_t, std::vector<char32_t>> by_lower;
    for (char32_t c = 0; c <= kLastCased; ++c) {
      const auto value = static_cast<utf8proc_int32_t>(c);
      const auto lower = static_cast<char32_t>(utf8proc_tolower(utf8proc_toupper(value)));
      if (lower != c) by_lower[lower].push_back(c);
    }
    std::vector<std::vector<char32_t>> out;
    for (auto& [lower, members] : by_lower) {
      members.push_back(lower);
      out.push_back(std::move(members));
    }
    return out;
  }();
  return groups;
}

// Each character with its group, in order.
const std::map<char32_t, size_t>& cased_characters() {
  static const std::map<char32_t, size_t> characters = [] {
    std::map<char32_t, size_t> out;
    for (size_t i = 0; i < case_groups().size(); ++i)
      for (const char32_t c : case_groups()[i]) out.emplace(c, i);
    return out;
  }();
  return characters;
}

// A name as the tables have it: case, underscores and spaces tell no names apart.
std::string plain_name(std::string_view name) {
  std::string plain;
  for (const char byte : name)
    if (byte != '_' && byte != ' ' && byte != '-')
      plain += byte >= 'A' && byte <= 'Z' ? static_cast<char>(byte - 'A' + 'a') : byte;
  return plain;
}

bool has_name(const UnicodeTable& table, std::string_view plain) {
  std::string_view names = table.names;
  while (!names.empty()) {
    const size_t end = std::min(names.find(' '), names.size());
    if (names.substr(0, end) == plain) return true;
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return false;
}

/// Reads digits of five bits, the lowest first; all but a number's last have 32 added.
CharacterSet characters_of(const UnicodeTable& table) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<CodePointRange> ranges;
  char32_t at = 0, number = 0, begin = 0;
  int shift = 0;
  bool gap = true;
  for (const char byte : table.ranges) {
    const auto digit = static_cast<char32_t>(kDigits.find(byte));
    number += (digit % 32) << shift;
    shift += 5;
    if (digit >= 32) continue;
    at += number;
    if (gap)
      begin = at;
    else
      ranges.push_back({begin, at - 1});
    gap = !gap;
    number = 0;
    shift = 0;
  }
  return CharacterSet(ranges) & CharacterSet::all();
}

std::optional<CharacterSet> find_in(std::span<const UnicodeTable> tables, std::string_view name) {
  const std::string plain = plain_name(name);
  const auto found = std::ranges::find_if(tables, [&](const UnicodeTable& one) { return has_name(one, plain); });
  if (found == tables.end()) return std::nullopt;
  return characters_of(*found);
}

std::optional<CharacterSet> script(std::string_view name) {
  if (const std::string plain = plain_name(name); plain != "unknown" && plain != "zzzz")
    return find_in(scripts(), name);
  CharacterSet known;
  for (const UnicodeTable& table : scripts()) known = known | characters_of(table);
  return ~known;
}

}  // namespace

CharacterSet CharacterSet::with_case_variants() const {
  std::vector<CodePointRange> out = ranges_;
  for (const CodePointRange& range : ranges_) {
    const auto end = cased_characters().upper_bound(range.last);
    for (auto cased = cased_characters().lower_bound(range.first); cased != end; ++cased)
      for (const char32_t other : case_groups()[cased->second]) out.push_back({other, other});
  }
  return CharacterSet(out);
}

std::optional<CharacterSet> characters_with_property(std::string_view name) {
  for (const std::string_view prefix : {"gc=", "General_Category="})
    if (name.starts_with(prefix)) return category(name.substr(prefix.size()));
  for (const std::string_view prefix : {"scx=", "Script_Extensions="}) {
    if (!name.starts_with(prefix)) continue;
    const std::string_view value = name.substr(prefix.size());
    if (auto extended = find_in(script_extensions(), value)) return extended;
    return script(value);
  }
  for (const std::string_view prefix : {"sc=", "Script="})
    if (name.starts_with(prefix)) return script(name.substr(prefix.size()));
  if (name == "Any") return CharacterSet::all();
  if (name == "ASCII") return CharacterSet{{0, 0x7F}};
  if (name == "Assigned") return ~categories()[UTF8PROC_CATEGORY_CN];
  if (name == "ASCII_Hex_Digit" || name == "AHex") return CharacterSet{{'0', '9'}, {'A', 'F'}, {'a', 'f'}};
  if (name == "White_Space" || name == "space")
    return CharacterSet{{0x9, 0xD},       {0x20, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},     {0x1680, 0x1680},
                        {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}};
  if (auto known = category(name)) return known;
  return find_in(binary_properties(), name);
}

}  // namespace cairn::grammar
