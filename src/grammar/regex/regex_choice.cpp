// Choices: what is simplified in them, and common beginnings, which are taken out.
#include <algorithm>
#include <utility>

#include "grammar/regex/regex.h"
#include "grammar/regex/regex_nodes.h"

namespace cairn::grammar {
namespace {

constexpr uint32_t kSearchedPartsMax = 256;  // of an expression that is looked for at the end of another

}  // namespace

// r{3}s* | r{2}s* is r{2}s* where r is within s: in searches for a text, of all its beginnings only the longest counts.
void RegexPool::Nodes::absorb_repeats(std::vector<uint32_t>& parts) const {
  struct Part {
    uint32_t tail, inner, count, part;
    auto operator<=>(const Part&) const = default;
  };
  std::vector<Part> found;
  for (uint32_t part : parts) {
    if (at(part).kind != RegexKind::kSequence) continue;
    const RegexNode& head = at(at(part).first);
    const bool counted = head.kind == RegexKind::kRepeat && head.second == head.most;
    const uint32_t inner = counted ? head.first : at(part).first;
    if (!absorbs(at(part).second, inner)) continue;
    found.push_back({at(part).second, inner, counted ? head.second : 1, part});
  }
  std::ranges::sort(found);
  for (size_t i = 0; i < found.size(); ++i) {
    const bool same = i > 0 && found[i].tail == found[i - 1].tail && found[i].inner == found[i - 1].inner;
    if (same || std::ranges::binary_search(parts, found[i].tail)) found[i].count = 0;
  }
  std::erase_if(found, [](const Part& one) { return one.count != 0; });
  std::ranges::sort(found, {}, &Part::part);
  std::erase_if(parts, [&](uint32_t part) { return std::ranges::binary_search(found, part, {}, &Part::part); });
}

// a b s* t | s* t is s* t where a and b are within s: of a search for a text that was found, nothing more is
// remembered.
void RegexPool::Nodes::absorb_into_stars(std::vector<uint32_t>& parts) {
  const auto star_of = [&](uint32_t part) { return at(part).kind == RegexKind::kSequence ? at(part).first : part; };
  std::vector<uint32_t> starred;
  for (uint32_t part : parts) {
    const RegexNode& star = at(star_of(part));
    if (star.kind == RegexKind::kRepeat && star.second == 0 && star.most == kNoBound) starred.push_back(part);
  }
  if (starred.empty()) return;
  work += starred.size() * parts.size();
  const auto absorbed = [&](uint32_t part, uint32_t into) {
    const uint32_t inner = at(star_of(into)).first;
    uint32_t rest = part;
    for (uint32_t i = 0; i < kSearchedPartsMax && rest != into && at(rest).kind == RegexKind::kSequence; ++i) {
      rest = at(rest).second;
    }
    if (rest != into || rest == part) return false;
    for (; part != into; part = at(part).second) {
      const RegexNode& head = at(at(part).first);
      if (!within(at(part).first, inner, 0) && !(head.kind == RegexKind::kRepeat && within(head.first, inner, 0))) {
        return false;
      }
    }
    return true;
  };
  std::erase_if(parts, [&](uint32_t part) {
    return std::ranges::any_of(starred, [&](uint32_t into) { return absorbed(part, into); });
  });
}

// r{a,b} | r{c,d} is one repetition if the counts touch.
void RegexPool::Nodes::merge_repeats(std::vector<uint32_t>& parts) {
  std::vector<uint32_t> repeats;
  for (uint32_t part : parts) {
    if (at(part).kind == RegexKind::kRepeat) repeats.push_back(part);
  }
  if (repeats.size() < 2) return;
  std::ranges::sort(repeats, [&](uint32_t a, uint32_t b) {
    return std::pair(at(a).first, at(a).second) < std::pair(at(b).first, at(b).second);
  });
  std::erase_if(parts, [&](uint32_t part) { return at(part).kind == RegexKind::kRepeat; });
  RegexNode current = at(repeats[0]);
  for (size_t i = 1; i < repeats.size(); ++i) {
    const RegexNode next = at(repeats[i]);
    if (next.first == current.first && next.second <= add_counts(current.most, 1)) {
      current.most = std::max(current.most, next.most);
      continue;
    }
    parts.push_back(repeat(current.first, current.second, current.most));
    current = next;
  }
  parts.push_back(repeat(current.first, current.second, current.most));
}

void RegexPool::Nodes::simplify_choice(std::vector<uint32_t>& parts) {
  flatten(RegexKind::kAnyOf, parts);
  work += parts.size();
  merge_bytes(parts, true);
  merge_repeats(parts);
  absorb_repeats(parts);
  const auto star = std::ranges::find_if(parts, [&](uint32_t part) { return is_star(part); });
  if (star != parts.end()) {
    const uint32_t all = *star;
    std::erase_if(parts, [&](uint32_t part) { return part != all && within(part, all, 0); });
  }
  absorb_into_stars(parts);
}

// The sequences with a common beginning leave `choice.parts` for `choice.groups`.
void RegexPool::Nodes::group_by_head(Choice& choice) const {
  std::vector<std::pair<uint32_t, uint32_t>> sequences;  // head, sequence
  for (uint32_t part : choice.parts) {
    if (at(part).kind == RegexKind::kSequence) sequences.emplace_back(at(part).first, part);
  }
  if (sequences.size() < 2) return;
  std::ranges::sort(sequences);
  const auto same_head = [](const auto& a, const auto& b) { return a.first == b.first; };
  if (std::ranges::adjacent_find(sequences, same_head) == sequences.end()) return;
  std::erase_if(choice.parts, [&](uint32_t part) { return at(part).kind == RegexKind::kSequence; });
  for (size_t i = 0; i < sequences.size();) {
    const size_t begin = i;
    while (i < sequences.size() && sequences[i].first == sequences[begin].first) ++i;
    if (i - begin == 1) {
      choice.parts.push_back(sequences[begin].second);
      continue;
    }
    Choice& group = choice.groups.emplace_back();
    for (size_t j = begin; j < i; ++j) group.parts.push_back(sequences[j].second);
  }
}

// Takes the heads that all parts, which are sequences, have in common.
void RegexPool::Nodes::take_heads(Choice& choice) {
  const auto begins = [&](uint32_t part, uint32_t head) {
    return at(part).kind == RegexKind::kSequence && at(part).first == head;
  };
  do {
    choice.heads.push_back(at(choice.parts.front()).first);
    for (uint32_t& part : choice.parts) part = at(part).second;
    work += choice.parts.size();
  } while (
      at(choice.parts.front()).kind == RegexKind::kSequence &&
      std::ranges::all_of(choice.parts, [&](uint32_t part) { return begins(part, at(choice.parts.front()).first); }));
}

uint32_t RegexPool::Nodes::finish_choice(std::vector<uint32_t>& parts) {
  flatten(RegexKind::kAnyOf, parts);
  if (std::ranges::binary_search(parts, everything)) return everything;
  const auto nullable = std::ranges::count_if(parts, [&](uint32_t part) { return at(part).nullable; });
  if (nullable > 1) std::erase(parts, kEmpty);
  if (parts.empty()) return kNothing;
  if (parts.size() == 1) return parts[0];
  RegexNode node{.kind = RegexKind::kAnyOf};
  for (uint32_t part : parts) {
    if (at(part).kind == RegexKind::kComplement && std::ranges::binary_search(parts, at(part).first)) return everything;
    node.nullable = node.nullable || at(part).nullable;
    node.has_conditions = node.has_conditions || at(part).has_conditions;
    node.depth = std::max(node.depth, at(part).depth + 1);
  }
  return intern(node, parts);
}

// ab | ac is a(b | c), so that a choice of many texts is a tree of their beginnings, which each byte of a text goes a
// step down. Choices within choices are as many as texts have bytes: they are not made by recursion.
uint32_t RegexPool::Nodes::any_of(std::vector<uint32_t> parts) {
  std::erase(parts, kNothing);
  if (parts.empty()) return kNothing;
  if (parts.size() == 1) return parts[0];
  std::vector<Choice> open(1);
  open.back().parts = std::move(parts);
  for (;;) {
    Choice& top = open.back();
    if (!top.begun) {
      top.begun = true;
      simplify_choice(top.parts);
      group_by_head(top);
    }
    if (!top.groups.empty()) {
      Choice inner = std::move(top.groups.back());
      top.groups.pop_back();
      take_heads(inner);
      open.push_back(std::move(inner));
      continue;
    }
    uint32_t made = finish_choice(top.parts);
    for (size_t i = top.heads.size(); i-- > 0;) made = sequence(top.heads[i], made);
    open.pop_back();
    if (open.empty()) return made;
    open.back().parts.push_back(made);
  }
}

}  // namespace cairn::grammar
