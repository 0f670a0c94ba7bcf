#include "tokenizer/special_split.h"

#include <algorithm>
#include <cstdint>
#include <map>

#include "tokenizer/text/lenient_utf8.h"
#include "tokenizer/text/white_space.h"

namespace cairn::tokenizer {
namespace {

bool is_language(const Vocabulary& vocabulary, TokenId id) {
  return vocabulary.type(id) == TokenType::kUserDefined && !vocabulary.shown_control(id);
}

// Number of bytes of white space at the beginning of `text`.
size_t leading_space(std::string_view text) {
  size_t size = 0;
  while (size < text.size()) {
    const LenientChar c = lenient_decode(text, size);
    if (!is_white_space(c.value)) break;
    size += static_cast<size_t>(c.length);
  }
  return size;
}

// Number of bytes of white space at the end of `text`.
size_t trailing_space(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    size_t begin = end - 1;
    while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
    const LenientChar c = lenient_decode(text.substr(0, end), begin);
    if (!is_white_space(c.value) || begin + static_cast<size_t>(c.length) != end) break;
    end = begin;
  }
  return text.size() - end;
}

struct Taken {
  size_t begin = 0, end = 0;              // the token's text
  size_t space_begin = 0, space_end = 0;  // including the white space that it strips
  TokenId token = kNoToken;
};

}  // namespace

SpecialSplitter::SpecialSplitter(const Vocabulary& vocabulary)
    : user_defined_(make_finder(vocabulary, true)), all_(make_finder(vocabulary, false)) {}

SpecialSplitter::Finder SpecialSplitter::make_finder(const Vocabulary& vocabulary, bool user_defined_only) {
  std::vector<Trie::Item> items;
  for (int32_t i = 0; i < vocabulary.size(); ++i) {
    const TokenId id{i};
    const bool user_defined = is_language(vocabulary, id);
    const bool control = vocabulary.only_parsed(id);
    if (user_defined || (!user_defined_only && control)) items.push_back({vocabulary.entry(id), i});
  }
  Finder finder{Trie(items), {}};
  if (!items.empty()) finder.shorter.assign(static_cast<size_t>(vocabulary.size()), -1);
  for (const Trie::Item& item : items) {
    if (item.key.size() > Trie::kKeyBytesMax) continue;
    Trie::Node node = Trie::kRoot;
    for (size_t i = 0; i + 1 < item.key.size(); ++i) {
      node = finder.trie.child(node, static_cast<unsigned char>(item.key[i]));
      if (finder.trie.value(node) >= 0) finder.shorter[item.value] = finder.trie.value(node);
    }
  }
  return finder;
}

std::vector<Fragment> SpecialSplitter::split(const Vocabulary& vocabulary, std::string_view text, bool parse_special,
                                             std::span<const ByteRange> foreign) const {
  if (text.empty()) return {};
  const Finder& finder = parse_special ? all_ : user_defined_;
  if (finder.trie.empty()) return {{kNoToken, text}};

  // Places in the order of the longest token that is still possible there, longest first.
  struct Place {
    size_t begin;
    int32_t token;
  };
  std::map<size_t, std::vector<Place>, std::greater<>> places;
  const auto length_of = [&](int32_t token) { return vocabulary.entry(TokenId{token}).size(); };
  // The offset of the first foreign byte at or after a place.
  const auto own_end = [&](size_t begin) {
    const auto range = std::ranges::upper_bound(foreign, begin, {}, &ByteRange::end);
    return range == foreign.end() ? text.size() : std::max(begin, range->begin);
  };
  // The longest token that may match there, of a token and those that are its prefixes; -1: none.
  const auto standing = [&](int32_t token, size_t begin) {
    if (token < 0 || foreign.empty()) return token;
    const size_t end = own_end(begin);
    while (token >= 0 && begin + length_of(token) > end && !is_language(vocabulary, TokenId{token}))
      token = finder.shorter[token];
    return token;
  };
  for (size_t begin = 0; begin < text.size(); ++begin) {
    int32_t longest = -1;
    Trie::Node node = Trie::kRoot;
    for (size_t i = begin; i < text.size(); ++i) {
      node = finder.trie.child(node, static_cast<unsigned char>(text[i]));
      if (node == Trie::kNoNode) break;
      if (finder.trie.value(node) >= 0) longest = finder.trie.value(node);
    }
    longest = standing(longest, begin);
    if (longest >= 0) places[length_of(longest)].push_back({begin, longest});
  }
  if (places.empty()) return {{kNoToken, text}};

  std::vector<bool> covered(text.size());
  std::vector<Taken> taken;
  while (!places.empty()) {
    auto [length, candidates] = std::move(*places.begin());
    places.erase(places.begin());
    std::sort(candidates.begin(), candidates.end(), [](Place a, Place b) { return a.begin < b.begin; });
    for (const Place place : candidates) {
      if (covered[place.begin]) continue;
      const size_t end = place.begin + length;
      if (std::find(covered.begin() + place.begin, covered.begin() + end, true) != covered.begin() + end) {
        const int32_t shorter = standing(finder.shorter[place.token], place.begin);
        if (shorter >= 0) places[length_of(shorter)].push_back({place.begin, shorter});
        continue;
      }
      Taken take{place.begin, end, place.begin, end, TokenId{place.token}};
      if (vocabulary.strips_left(take.token)) {
        size_t from = take.begin;
        while (from > 0 && !covered[from - 1]) --from;
        take.space_begin -= trailing_space(text.substr(from, take.begin - from));
      }
      if (vocabulary.strips_right(take.token)) {
        size_t to = take.end;
        while (to < text.size() && !covered[to]) ++to;
        take.space_end += leading_space(text.substr(take.end, to - take.end));
      }
      std::fill(covered.begin() + take.space_begin, covered.begin() + take.space_end, true);
      taken.push_back(take);
    }
  }

  std::sort(taken.begin(), taken.end(), [](const Taken& a, const Taken& b) { return a.begin < b.begin; });
  std::vector<Fragment> out;
  size_t done = 0;
  for (const Taken& take : taken) {
    if (take.space_begin > done) out.push_back({kNoToken, text.substr(done, take.space_begin - done)});
    out.push_back({take.token, {}});
    done = take.space_end;
  }
  if (done < text.size()) out.push_back({kNoToken, text.substr(done)});
  return out;
}

std::string_view stripped_after(const Vocabulary& vocabulary, TokenId before, std::string_view text) {
  if (!vocabulary.strips_right(before)) return text;
  return text.substr(leading_space(text));
}

}  // namespace cairn::tokenizer
