// What utf8proc knows of characters: categories and case.
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>

#include "grammar/readers/characters.h"

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
  if (name == "Any") return CharacterSet::all();
  if (name == "ASCII") return CharacterSet{{0, 0x7F}};
  if (name == "Assigned") return ~categories()[UTF8PROC_CATEGORY_CN];
  if (name == "ASCII_Hex_Digit" || name == "AHex") return CharacterSet{{'0', '9'}, {'A', 'F'}, {'a', 'f'}};
  if (name == "White_Space" || name == "space")
    return CharacterSet{{0x9, 0xD},       {0x20, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},     {0x1680, 0x1680},
                        {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}};
  return category(name);
}

}  // namespace cairn::grammar
