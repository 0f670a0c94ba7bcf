#include "grammar/regex/text_tree.h"

#include <algorithm>

#include "base/hash.h"

namespace cairn::grammar {
namespace {

// Steps to rests are numbered from here while the places are not all known.
constexpr uint32_t kRests = uint32_t{1} << 31;

}  // namespace

uint32_t TextTree::add_rest(std::string_view rest) {
  if (rest.empty()) return kEnd;
  const auto place = kRests + static_cast<uint32_t>(rests_.size());
  rests_.insert(rests_.end(), rest.begin(), rest.end());
  rest_ends_.push_back(static_cast<uint32_t>(rests_.size()));
  return place;
}

TextTree::TextTree(const std::vector<std::string_view>& texts) {
  struct Range {
    size_t first, last, depth;  // texts with the same beginning of `depth` bytes
  };
  std::vector<Range> ranges{{0, texts.size(), 0}};  // by place
  SecretHash hash;
  for (const std::string_view text : texts) hash_ = hash_ * 0x9E37'79B9'7F4A'7C15 + hash(text);
  for (size_t place = 0; place < ranges.size(); ++place) {
    auto [first, last, depth] = ranges[place];
    Place made{.first = static_cast<uint32_t>(steps_.size()), .ends = texts[first].size() == depth};
    if (made.ends) ++first;
    while (first < last) {
      const char byte = texts[first][depth];
      size_t end = texts[last - 1][depth] == byte ? last : first + 1;
      while (end < last && texts[end][depth] == byte) ++end;
      uint32_t next = 0;
      if (end == first + 1) {
        next = add_rest(texts[first].substr(depth + 1));
      } else {
        next = static_cast<uint32_t>(ranges.size());
        ranges.push_back({first, end, depth + 1});
      }
      steps_.push_back({next, static_cast<uint8_t>(byte)});
      first = end;
    }
    made.count = static_cast<uint16_t>(steps_.size() - made.first);
    places_.push_back(made);
  }
  for (Step& step : steps_) {
    if (step.place >= kRests && step.place != kEnd) step.place += static_cast<uint32_t>(places_.size()) - kRests;
  }
  for (size_t place = places_.size(); place-- > 0;) {  // those that follow have larger numbers
    Place& at = places_[place];
    at.shortest = at.ends ? 0 : kNowhere;
    for (uint32_t i = 0; i < at.count && !at.ends; ++i)
      at.shortest = std::min(at.shortest, shortest(steps_[at.first + i].place) + 1);
  }
}

uint32_t TextTree::step(uint32_t place, uint8_t byte) const {
  if (place < places_.size()) {
    const auto begin = steps_.begin() + places_[place].first;
    const auto end = begin + places_[place].count;
    const auto found = std::ranges::lower_bound(begin, end, byte, {}, &Step::byte);
    return found == end || found->byte != byte ? kNowhere : found->place;
  }
  const auto at = place - static_cast<uint32_t>(places_.size());
  if (rests_[at] != byte) return kNowhere;
  return std::ranges::binary_search(rest_ends_, at + 1) ? kEnd : place + 1;
}

uint32_t TextTree::shortest(uint32_t place) const {
  if (place == kEnd) return 0;
  if (place < places_.size()) return places_[place].shortest;
  const auto at = place - static_cast<uint32_t>(places_.size());
  return *std::ranges::upper_bound(rest_ends_, at) - at;
}

}  // namespace cairn::grammar
