#include "grammar/readers/characters.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <utility>

#include "base/text/utf8.h"

namespace cairn::grammar {

namespace {

constexpr CodePointRange kSurrogates{0xD800, 0xDFFF};

// Sorts, joins what overlaps or touches, and takes surrogates out.
std::vector<CodePointRange> normalized(std::span<const CodePointRange> ranges) {
  std::vector<CodePointRange> cut;
  cut.reserve(ranges.size() + 1);
  const auto add = [&cut](char32_t first, char32_t last) {
    if (first <= last) cut.push_back({first, last});
  };
  for (const auto& [first, last] : ranges) {
    add(first, std::min<char32_t>(last, kSurrogates.first - 1));
    add(std::max<char32_t>(first, kSurrogates.last + 1), std::min(last, kLastCodePoint));
  }
  std::ranges::sort(cut, {}, &CodePointRange::first);
  std::vector<CodePointRange> out;
  for (const CodePointRange& range : cut) {
    if (!out.empty() && range.first <= out.back().last + 1) {
      out.back().last = std::max(out.back().last, range.last);
    } else {
      out.push_back(range);
    }
  }
  return out;
}

// ---- Numbers as texts of digits ----

// The digits of a place of a number, most significant place first: how many there are, and the byte or bytes of each.
struct Place {
  uint32_t radix;
  ByteSet (*spelling)(uint32_t digit);
};

ByteSet hex_digit(uint32_t digit) {
  if (digit < 10) return ByteSet::range(static_cast<uint8_t>('0' + digit), static_cast<uint8_t>('0' + digit));
  ByteSet set;
  set.add(static_cast<uint8_t>('a' + digit - 10));
  set.add(static_cast<uint8_t>('A' + digit - 10));
  return set;
}

template <uint8_t kBase>
ByteSet byte_from(uint32_t digit) {
  const auto byte = static_cast<uint8_t>(kBase + digit);
  return ByteSet::range(byte, byte);
}

constexpr std::array<Place, 4> kHex{{{16, hex_digit}, {16, hex_digit}, {16, hex_digit}, {16, hex_digit}}};
constexpr Place kNext{64, byte_from<0x80>};
constexpr std::array<Place, 1> kOneByte{{{128, byte_from<0>}}};
constexpr std::array<Place, 2> kTwoBytes{{{32, byte_from<0xC0>}, kNext}};
constexpr std::array<Place, 3> kThreeBytes{{{16, byte_from<0xE0>}, kNext, kNext}};
constexpr std::array<Place, 4> kFourBytes{{{8, byte_from<0xF0>}, kNext, kNext, kNext}};

// The texts of the numbers in `ranges` (in order, disjoint), all of them below the product of the places' radixes.
// Digits that are followed by the same are one alternative. Recursive by places: four at most.
RegexId numbers(RegexPool& pool, std::span<const CodePointRange> ranges, std::span<const Place> places) {
  if (ranges.empty()) return kNoMatch;
  if (places.empty()) return kEmptyText;
  uint32_t unit = 1;
  for (const Place& place : places.subspan(1)) unit *= place.radix;
  if (ranges.size() == 1 && ranges.front() == CodePointRange{0, unit * places.front().radix - 1}) {
    ByteSet all;
    for (uint32_t digit = 0; digit < places.front().radix; ++digit) all = all | places.front().spelling(digit);
    return pool.sequence(
        std::array{pool.bytes(all), numbers(pool, std::array{CodePointRange{0, unit - 1}}, places.subspan(1))});
  }
  std::vector<std::pair<RegexId, ByteSet>> groups;  // what follows -> digits
  std::optional<RegexId> all_below;                 // what may follow a digit after which there is no limit
  size_t begin = 0;
  for (uint32_t digit = ranges.front().first / unit; digit <= ranges.back().last / unit; ++digit) {
    const char32_t first = digit * unit;
    const char32_t last = first + unit - 1;
    while (begin < ranges.size() && ranges[begin].last < first) ++begin;
    std::vector<CodePointRange> below;
    for (size_t i = begin; i < ranges.size() && ranges[i].first <= last; ++i)
      below.push_back({std::max(ranges[i].first, first) - first, std::min(ranges[i].last, last) - first});
    const bool every = below.size() == 1 && below.front() == CodePointRange{0, unit - 1};
    if (every && !all_below) all_below = numbers(pool, below, places.subspan(1));
    const RegexId rest = every ? *all_below : numbers(pool, below, places.subspan(1));
    if (rest == kNoMatch) continue;
    const auto found = std::ranges::find(groups, rest, &std::pair<RegexId, ByteSet>::first);
    if (found == groups.end()) {
      groups.emplace_back(rest, places.front().spelling(digit));
    } else {
      found->second = found->second | places.front().spelling(digit);
    }
  }
  std::vector<RegexId> choices;
  for (const auto& [rest, digits] : groups) choices.push_back(pool.sequence(std::array{pool.bytes(digits), rest}));
  return pool.any_of(choices);
}

std::vector<CodePointRange> clipped(std::span<const CodePointRange> ranges, char32_t first, char32_t last) {
  std::vector<CodePointRange> out;
  for (const CodePointRange& range : ranges)
    if (range.first <= last && range.last >= first)
      out.push_back({std::max(range.first, first), std::min(range.last, last)});
  return out;
}

// ---- UTF-8 ----

RegexId utf8(RegexPool& pool, std::span<const CodePointRange> ranges) {
  const std::array choices{numbers(pool, clipped(ranges, 0, 0x7F), kOneByte),
                           numbers(pool, clipped(ranges, 0x80, 0x7FF), kTwoBytes),
                           numbers(pool, clipped(ranges, 0x800, 0xFFFF), kThreeBytes),
                           numbers(pool, clipped(ranges, 0x10000, kLastCodePoint), kFourBytes)};
  return pool.any_of(choices);
}

// ---- JSON ----

const CharacterSet& must_be_escaped() {
  static const CharacterSet set{{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};
  return set;
}

// The escapes with a number: \uXXXX, or two of them for a character above U+FFFF.
RegexId json_numbered(RegexPool& pool, std::span<const CodePointRange> ranges) {
  const RegexId escape = pool.literal("\\u");
  std::vector<RegexId> choices{numbers(pool, clipped(ranges, 0, 0xFFFF), kHex)};
  std::map<RegexId, std::vector<CodePointRange>> groups;  // low surrogates -> high ones before them
  const std::vector<CodePointRange> above = clipped(ranges, 0x10000, kLastCodePoint);
  const auto add = [&](std::span<const CodePointRange> low, char32_t first, char32_t last) {
    const RegexId after = numbers(pool, low, kHex);
    if (after != kNoMatch) groups[after].push_back({0xD800 + first, 0xD800 + last});
  };
  // High surrogates at which a range begins or ends have their own lists of low ones; those between are alike.
  std::vector<char32_t> edges;
  for (const CodePointRange& range : above)
    for (const char32_t value : {range.first, range.last}) edges.push_back((value - 0x10000) >> 10);
  std::ranges::sort(edges);
  edges.erase(std::ranges::unique(edges).begin(), edges.end());
  for (size_t i = 0; i < edges.size(); ++i) {
    const auto low_of = [&above](char32_t high) {
      const char32_t first = 0x10000 + (high << 10);
      std::vector<CodePointRange> low = clipped(above, first, first + 0x3FF);
      for (CodePointRange& range : low) range = {0xDC00 + range.first - first, 0xDC00 + range.last - first};
      return low;
    };
    add(low_of(edges[i]), edges[i], edges[i]);
    if (i + 1 < edges.size() && edges[i] + 1 < edges[i + 1]) add(low_of(edges[i] + 1), edges[i] + 1, edges[i + 1] - 1);
  }
  for (const auto& [after, high] : groups) {
    const CodePointRange* const begin = high.data();
    choices.push_back(pool.sequence(std::array{numbers(pool, std::span(begin, high.size()), kHex), escape, after}));
  }
  return pool.sequence(std::array{escape, pool.any_of(choices)});
}

RegexId json(RegexPool& pool, const CharacterSet& set, bool plain) {
  static constexpr std::pair<char32_t, char> kJsonNames[] = {{'"', '"'},  {'\\', '\\'}, {'/', '/'},  {'\b', 'b'},
                                                             {'\f', 'f'}, {'\n', 'n'},  {'\r', 'r'}, {'\t', 't'}};
  ByteSet names;
  for (const auto& [character, name] : kJsonNames)
    if (set.contains(character)) names.add(static_cast<uint8_t>(name));
  static const CharacterSet plain_ascii = CharacterSet{{0x20, 0x7E}} - must_be_escaped();
  const CharacterSet numbered = plain ? set - plain_ascii : set;
  std::vector<RegexId> choices{utf8(pool, (set - must_be_escaped()).ranges())};
  if (!names.empty()) choices.push_back(pool.sequence(std::array{pool.literal("\\"), pool.bytes(names)}));
  if (!numbered.empty()) choices.push_back(json_numbered(pool, numbered.ranges()));
  return pool.any_of(choices);
}

}  // namespace

// ---- CharacterSet ----

CharacterSet::CharacterSet(std::span<const CodePointRange> ranges) : ranges_(normalized(ranges)) {}

CharacterSet CharacterSet::all() { return {{0, kLastCodePoint}}; }

bool CharacterSet::contains(char32_t character) const {
  const auto after = std::ranges::upper_bound(ranges_, character, {}, &CodePointRange::first);
  return after != ranges_.begin() && std::prev(after)->last >= character;
}

CharacterSet CharacterSet::operator|(const CharacterSet& other) const {
  std::vector<CodePointRange> both = ranges_;
  both.insert(both.end(), other.ranges_.begin(), other.ranges_.end());
  return CharacterSet(both);
}

CharacterSet CharacterSet::operator&(const CharacterSet& other) const { return ~(~*this | ~other); }

CharacterSet CharacterSet::operator~() const {
  std::vector<CodePointRange> out;
  char32_t next = 0;
  for (const CodePointRange& range : ranges_) {
    if (range.first > next) out.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kLastCodePoint) out.push_back({next, kLastCodePoint});
  return CharacterSet(out);
}

// ---- Spelling ----

RegexId spell(RegexPool& pool, const CharacterSet& set, Spelling spelling) {
  if (spelling == Spelling::kUtf8) return utf8(pool, set.ranges());
  return json(pool, set, spelling == Spelling::kJsonPlain);
}

RegexId spell(RegexPool& pool, std::string_view text, Spelling spelling) {
  if (spelling == Spelling::kUtf8) return pool.literal(text);
  std::vector<RegexId> parts;
  for (size_t offset = 0; offset < text.size();) {
    const Utf8Char next = utf8_decode(text, offset);
    parts.push_back(spell(pool, CharacterSet{{next.value, next.value}}, spelling));
    offset += static_cast<size_t>(std::max(next.length, 1));
  }
  return pool.sequence(parts);
}

RegexId spell_any_text(RegexPool& pool, Spelling spelling) {
  return pool.repeat(spell(pool, CharacterSet::all(), spelling), 0, std::nullopt);
}

}  // namespace cairn::grammar
