#include <algorithm>
#include <map>
#include <unordered_map>

#include "base/text/utf8.h"
#include "grammar/regex.h"
#include "grammar/regex_nodes.h"

namespace cairn::grammar {

uint32_t RegexPool::Nodes::derive(uint32_t node, uint8_t byte) {
  const RegexNode self = at(node);
  switch (self.kind) {
    case RegexKind::kVoid:
    case RegexKind::kEpsilon:
      return kNothing;
    case RegexKind::kBytes:
      return sets[self.first].contains(byte) ? kEmpty : kNothing;
    case RegexKind::kSequence: {
      if (!at(self.first).nullable) return sequence(derive(self.first, byte), self.second);
      std::vector<uint32_t> parts;
      for (; at(node).kind == RegexKind::kSequence; node = at(node).second) {
        const uint32_t head = at(node).first;
        parts.push_back(sequence(derive(head, byte), at(node).second));
        if (!at(head).nullable) return parts.size() == 1 ? parts[0] : any_of(std::move(parts));
      }
      parts.push_back(derive(node, byte));
      return any_of(std::move(parts));
    }
    case RegexKind::kAnyOf:
    case RegexKind::kAllOf: {
      std::vector<uint32_t> parts;
      for (uint32_t i = 0; i < self.second; ++i) {
        const uint32_t part = derive(children[self.first + i], byte);
        if (part != kNothing) parts.push_back(part);
        if (part == kNothing && self.kind == RegexKind::kAllOf) return kNothing;
      }
      return self.kind == RegexKind::kAnyOf ? any_of(std::move(parts)) : all_of(std::move(parts));
    }
    case RegexKind::kComplement:
      return complement(derive(self.first, byte));
    case RegexKind::kAutomaton: {
      const Automaton::State& state = automata[self.first].automaton->states[self.second];
      const auto step = std::ranges::find(state.next, byte, &std::pair<uint8_t, uint32_t>::first);
      return step == state.next.end() ? kNothing : this->state(self.first, step->second);
    }
    case RegexKind::kRepeat: {
      // Right for a nullable inner expression, too: it is counted only where it takes a byte.
      const uint32_t rest =
          repeat(self.first, self.second == 0 ? 0 : self.second - 1, self.most == kNoBound ? kNoBound : self.most - 1);
      return sequence(derive(self.first, byte), rest);
    }
  }
  return kNothing;
}

void RegexPool::Nodes::collect_first_sets(uint32_t node, std::vector<uint32_t>& found) const {
  for (; at(node).kind == RegexKind::kSequence; node = at(node).second) {
    collect_first_sets(at(node).first, found);
    if (!at(at(node).first).nullable) return;
  }
  const RegexNode& self = at(node);
  switch (self.kind) {
    case RegexKind::kBytes:
      found.push_back(self.first);
      return;
    case RegexKind::kAnyOf:
    case RegexKind::kAllOf:
      for (uint32_t child : list(node)) collect_first_sets(child, found);
      return;
    case RegexKind::kComplement:
    case RegexKind::kRepeat:
      collect_first_sets(self.first, found);
      return;
    case RegexKind::kAutomaton:
      found.insert(found.end(), automata[self.first].sets.begin(), automata[self.first].sets.end());
      return;
    default:
      return;
  }
}

std::vector<ByteSet> RegexPool::Nodes::classes(uint32_t node) const {
  std::vector<uint32_t> found;
  collect_first_sets(node, found);
  std::ranges::sort(found);
  found.erase(std::ranges::unique(found).begin(), found.end());
  std::vector<ByteSet> parts{ByteSet::all()};
  for (uint32_t set : found) {
    const size_t before = parts.size();
    for (size_t i = 0; i < before; ++i) {
      const ByteSet inside = parts[i] & sets[set];
      if (inside.empty() || inside == parts[i]) continue;
      parts[i] = parts[i] & ~sets[set];
      parts.push_back(inside);
    }
  }
  return parts;
}

// Looks for a text that `node` matches, breadth first over derivatives: where many conditions meet, short texts are
// found long before all their states are seen.
std::optional<bool> RegexPool::Nodes::search_text(uint32_t node, int32_t& fuel) {
  std::unordered_map<uint32_t, uint32_t> parents{{node, node}};
  std::vector<uint32_t> open{node};
  for (size_t i = 0; i < open.size(); ++i) {
    const uint32_t current = open[i];
    if (at(current).emptiness == 2) continue;
    if (at(current).nullable || at(current).emptiness == 1 || !at(current).has_conditions) {
      for (uint32_t step = current;; step = parents.at(step)) {
        nodes[step].emptiness = 1;
        if (step == parents.at(step)) return false;
      }
    }
    for (const ByteSet& part : classes(current)) {
      if (--fuel < 0) return std::nullopt;
      const uint32_t next = derive(current, part.first());
      if (next != kNothing && parents.emplace(next, current).second) open.push_back(next);
    }
  }
  for (const auto& [visited, parent] : parents) nodes[visited].emptiness = 2;
  return true;
}

std::optional<bool> RegexPool::Nodes::decide_empty(uint32_t node, int32_t& fuel) {
  if (!at(node).has_conditions) return node == kNothing;
  if (at(node).nullable || at(node).emptiness == 1) return false;
  if (at(node).emptiness == 2) return true;
  std::optional<bool> result = false;
  const uint32_t self = node;
  for (; at(node).kind == RegexKind::kSequence && result == false; node = at(node).second) {
    result = decide_empty(at(node).first, fuel);
  }
  if (result == false && !at(node).nullable) {
    if (at(node).kind == RegexKind::kRepeat) {
      result = decide_empty(at(node).first, fuel);
    } else if (at(node).kind == RegexKind::kAnyOf) {
      result = true;
      const RegexNode parts = at(node);
      for (uint32_t i = 0; i < parts.second && result == true; ++i) {
        result = decide_empty(children[parts.first + i], fuel);
      }
    } else {
      result = at(node).has_conditions ? search_text(node, fuel) : std::optional(node == kNothing);
    }
  }
  if (result.has_value()) nodes[self].emptiness = *result ? 2 : 1;
  return result;
}

RegexId RegexPool::Nodes::possible(uint32_t node) {
  int32_t fuel = kEmptinessFuel;
  const std::optional<bool> nothing = decide_empty(node, fuel);
  return !nothing.has_value() ? kUndecided : *nothing ? kNoMatch : RegexId{node};
}

const RegexPool::Derivatives& RegexPool::derivatives(RegexId id) {
  const auto node = static_cast<uint32_t>(id);
  if (nodes_->at(node).derivatives != 0) return nodes_->derivatives[nodes_->at(node).derivatives - 1];
  const std::vector<ByteSet> parts = nodes_->classes(node);
  std::vector<RegexId> of_part;
  for (const ByteSet& part : parts) of_part.push_back(nodes_->possible(nodes_->derive(node, part.first())));
  Derivatives& table = nodes_->derivatives.emplace_back();
  ByteSet& first_bytes = nodes_->first_bytes.emplace_back();
  for (size_t i = 0; i < parts.size(); ++i) {
    if (of_part[i] == kNoMatch) continue;
    first_bytes = first_bytes | parts[i];
    parts[i].each([&](uint8_t byte) { table[byte] = of_part[i]; });
  }
  nodes_->nodes[node].derivatives = static_cast<uint32_t>(nodes_->derivatives.size());
  return table;
}

// Without conditions in the way, all first sets begin a text, and no table is needed to know them.
ByteSet RegexPool::first_bytes(RegexId id) {
  const auto node = static_cast<uint32_t>(id);
  if (nodes_->at(node).has_conditions) {
    derivatives(id);
    return nodes_->first_bytes[nodes_->at(node).derivatives - 1];
  }
  std::vector<uint32_t> found;
  nodes_->collect_first_sets(node, found);
  ByteSet result;
  for (uint32_t set : found) result = result | nodes_->sets[set];
  return result;
}

RegexId RegexPool::derivative(RegexId id, uint8_t byte) {
  const auto node = static_cast<uint32_t>(id);
  if (nodes_->at(node).derivatives != 0 || nodes_->at(node).has_conditions) return derivatives(id)[byte];
  return RegexId{nodes_->derive(node, byte)};
}

bool RegexPool::matches(RegexId node, std::string_view text) {
  auto rest = static_cast<uint32_t>(node);
  for (const char byte : text) {
    rest = nodes_->derive(rest, static_cast<uint8_t>(byte));
    if (rest == kNothing) return false;
  }
  return nodes_->at(rest).nullable;
}

size_t RegexPool::memory_used() const {
  return nodes_->derivatives.size() * (sizeof(Derivatives) + sizeof(ByteSet)) +
         nodes_->nodes.size() * (sizeof(RegexNode) + 2 * sizeof(uint32_t));
}

std::optional<bool> RegexPool::matches_nothing(RegexId node, int32_t fuel) {
  return nodes_->decide_empty(static_cast<uint32_t>(node), fuel);
}

// Counts texts by length: how many texts of the length lead to each derivative.
std::optional<bool> RegexPool::matches_many(RegexId id, uint64_t count, int32_t fuel) {
  std::map<uint32_t, uint64_t> states{{static_cast<uint32_t>(id), 1}};
  for (uint64_t found = 0; !states.empty();) {
    std::map<uint32_t, uint64_t> next;
    for (const auto& [state, texts] : states) {
      if (nodes_->at(state).nullable) found += texts;
      if (found >= count) return true;
      for (const ByteSet& part : nodes_->classes(state)) {
        if (--fuel < 0) return std::nullopt;
        const RegexId after = nodes_->possible(nodes_->derive(state, part.first()));
        if (after == kUndecided) return std::nullopt;
        if (after == kNoMatch) continue;
        uint64_t& of_state = next[static_cast<uint32_t>(after)];
        of_state = std::min(count, of_state + texts * part.size());
      }
    }
    states = std::move(next);
  }
  return false;
}

// A range of characters whose UTF-8 has the same length is a choice of sequences of byte ranges: it is cut where the
// trailing bytes do not run over all of 80 to BF.
RegexId RegexPool::characters(char32_t first, char32_t last) {
  std::vector<std::pair<char32_t, char32_t>> open{{first, std::min<char32_t>(last, 0x10FFFF)}};
  std::vector<RegexId> choices;
  while (!open.empty()) {
    auto [from, to] = open.back();
    open.pop_back();
    if (from > to) continue;
    const auto cut = [&](char32_t upto) {  // into [from, upto] and what is above
      open.emplace_back(upto + 1, to);
      open.emplace_back(from, upto);
    };
    if (from <= 0xDFFF && to >= 0xD800) {
      if (from < 0xD800) open.emplace_back(from, 0xD7FF);
      if (to > 0xDFFF) open.emplace_back(0xE000, to);
      continue;
    }
    const char32_t of_length[] = {0x7F, 0x7FF, 0xFFFF};
    const auto* limit = std::ranges::find_if(of_length, [&](char32_t most) { return from <= most && to > most; });
    if (limit != std::end(of_length)) {
      cut(*limit);
      continue;
    }
    bool whole = true;
    for (int shift = 6; shift <= 18 && whole; shift += 6) {
      const char32_t low = (char32_t{1} << shift) - 1;
      if (from > 0x7F && (from & ~low) != (to & ~low)) {
        if ((from & low) != 0) {
          cut(from | low);
          whole = false;
        } else if ((to & low) != low) {
          cut((to & ~low) - 1);
          whole = false;
        }
      }
    }
    if (!whole) continue;
    std::string lowest, highest;
    utf8_append(lowest, from);
    utf8_append(highest, to);
    std::vector<RegexId> ranges;
    for (size_t i = 0; i < lowest.size(); ++i) {
      ranges.push_back(bytes(ByteSet::range(static_cast<uint8_t>(lowest[i]), static_cast<uint8_t>(highest[i]))));
    }
    choices.push_back(sequence(ranges));
  }
  return any_of(choices);
}

}  // namespace cairn::grammar
