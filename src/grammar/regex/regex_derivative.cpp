#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <queue>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/text/utf8.h"
#include "grammar/regex/regex.h"
#include "grammar/regex/regex_nodes.h"

namespace cairn::grammar {
namespace {

constexpr int32_t kDeepFuel = 20'000;            // derivatives of a search for a text that goes deep first
constexpr size_t kDerivedMax = size_t{1} << 14;  // derivatives of parts of expressions that a pool remembers

}  // namespace

// Remembers what it did: parts of an expression stay the same while others go on. The work counts as if it were done
// again.
uint32_t RegexPool::Nodes::derive(uint32_t node, uint8_t byte) {
  if (++work > work_max) return kNothing;
  if (at(node).kind == RegexKind::kBytes) return sets[at(node).first].contains(byte) ? kEmpty : kNothing;
  if (derived.size() < std::min(nodes.size(), kDerivedMax)) {
    derived.assign(std::min(std::bit_ceil(nodes.size() + 256), kDerivedMax), {});
  }
  const size_t slot = (node * size_t{0x9E37'79B1} + byte * size_t{0x85EB'CA77}) >> 7 & (derived.size() - 1);
  if (derived[slot].node == node && derived[slot].byte == byte && node != kNothing) {
    work += derived[slot].work;
    remembered += derived[slot].work;
    return derived[slot].next;
  }
  const uint64_t before = work;
  const uint32_t next = derive_new(node, byte);
  if (!overworked()) derived[slot & (derived.size() - 1)] = {node, byte, next, work - before};
  return next;
}

uint32_t RegexPool::Nodes::derive_new(uint32_t node, uint8_t byte) {
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
      const std::span<const Automaton::Step> steps = automata[self.first].automaton->steps_of(self.second);
      const auto step = std::ranges::find_if(steps, [&](const Automaton::Step& one) { return one.byte == byte; });
      return step == steps.end() ? kNothing : state(self.first, step->state);
    }
    case RegexKind::kTexts:
      return texts(self.first, trees[self.first]->step(self.second, byte));
    case RegexKind::kRepeat: {
      // Right for a nullable inner expression, too: it is counted only where it takes a byte.
      const uint32_t rest =
          repeat(self.first, self.second == 0 ? 0 : self.second - 1, self.most == kNoBound ? kNoBound : self.most - 1);
      return sequence(derive(self.first, byte), rest);
    }
  }
  return kNothing;
}

// Visits each node once for each value of `visit`.
void RegexPool::Nodes::collect_first_sets(uint32_t node, std::vector<uint32_t>& found) {
  for (;; node = at(node).second) {
    if (visits[node] == visit) return;
    visits[node] = visit;
    if (at(node).kind != RegexKind::kSequence) break;
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
    case RegexKind::kTexts:
      trees[self.first]->each_byte(self.second, [&](uint8_t value) { found.push_back(at(byte(value)).first); });
      return;
    default:
      return;
  }
}

ByteSet RegexPool::Nodes::first_sets(uint32_t node) {
  ++visit;
  visits.resize(nodes.size());
  std::vector<uint32_t> found;
  collect_first_sets(node, found);
  ByteSet result;
  for (uint32_t set : found) result = result | sets[set];
  return result;
}

const RegexPool::ByteClasses& RegexPool::Nodes::classes(uint32_t node) {
  ++visit;
  visits.resize(nodes.size());
  std::vector<uint32_t> found;
  collect_first_sets(node, found);
  std::ranges::sort(found);
  found.erase(std::ranges::unique(found).begin(), found.end());
  work += found.size();
  const ByteClasses*& known = partition_of[found];
  if (known != nullptr) return *known;
  std::vector<ByteSet> parts{ByteSet::all()};
  for (uint32_t set : found) {
    for (size_t i = 0, size = parts.size(); i < size; ++i) {
      const ByteSet inside = parts[i] & sets[set];
      if (inside.empty() || inside == parts[i]) continue;
      parts[i] = parts[i] & ~sets[set];
      parts.push_back(inside);
    }
  }
  ByteClasses& result = partitions.emplace_back();
  result.representatives.resize(parts.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    for (uint32_t word = 4; word-- > 0;) {
      for (uint64_t bits = parts[i].words()[word]; bits != 0; bits &= bits - 1) {
        const auto byte = static_cast<uint8_t>(word * 64 + static_cast<uint32_t>(std::countr_zero(bits)));
        result.of[byte] = static_cast<uint8_t>(i);
        result.representatives[i] = byte;
      }
    }
  }
  for (const uint8_t byte : result.representatives) {
    const ByteSet& part = parts[result.of[byte]];
    for (uint8_t character = 0x20; character < 0x7F; ++character) {
      if (character == '\\' || !part.contains(character)) continue;
      result.printable.push_back(character);
      break;
    }
  }
  known = &result;
  return result;
}

// Looks for a text that `node` matches, over derivatives: first among printable ASCII, which has most texts, and in
// which a character is a byte. Going first where the fewest bytes are still to come, and there deep, finds long texts
// soon, if it does not lose its way; breadth first finds the shortest, where many conditions meet, long before all
// their states are seen.
std::optional<bool> RegexPool::Nodes::search_text(uint32_t node, int32_t& fuel) {
  enum Pass : uint8_t { kAsciiDeep, kAsciiBroad, kAllBroad };
  using Open = std::pair<uint64_t, uint32_t>;  // the smallest is the next; a node
  for (const Pass pass : {kAsciiDeep, kAsciiBroad, kAllBroad}) {
    std::unordered_map<uint32_t, uint32_t> parents{{node, node}};
    std::priority_queue<Open, std::vector<Open>, std::greater<>> open;
    open.emplace(0, node);
    int32_t deep = pass == kAsciiDeep ? kDeepFuel : INT32_MAX;
    while (!open.empty() && deep > 0) {
      const uint32_t current = open.top().second;
      open.pop();
      const ByteClasses& parts = classes(current);
      for (uint8_t byte : pass == kAllBroad ? parts.representatives : parts.printable) {
        if (--fuel < 0) return std::nullopt;
        --deep;
        const uint32_t next = derive(current, byte);
        if (overworked()) return std::nullopt;
        if (next == kNothing || at(next).emptiness == 2 || !parents.emplace(next, current).second) continue;
        if (!at(next).nullable && at(next).emptiness != 1 && at(next).has_conditions) {
          const auto order = static_cast<uint32_t>(parents.size());
          open.emplace(pass == kAsciiDeep ? uint64_t{at(next).least_bytes} << 32 | ~order : order, next);
          continue;
        }
        uint64_t length = text_bytes(next);
        for (uint32_t step = next;; step = parents.at(step), ++length) {
          nodes[step].emptiness = 1;
          nodes[step].text_bytes = static_cast<uint32_t>(std::min<uint64_t>(nodes[step].text_bytes, length));
          if (step == parents.at(step)) return false;
        }
      }
    }
    if (pass != kAllBroad) continue;
    for (const auto& [visited, parent] : parents) nodes[visited].emptiness = 2;
  }
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

RegexPool::ClassStep* RegexPool::Nodes::new_steps(size_t count) {
  if (block_used + count > kStepsOfBlock) {
    blocks.push_back(std::make_unique<std::array<ClassStep, kStepsOfBlock>>());
    block_used = 0;
  }
  ClassStep* result = blocks.back()->data() + block_used;
  block_used += count;
  return result;
}

const RegexPool::State& RegexPool::state(RegexId id) {
  const auto node = static_cast<uint32_t>(id);
  Nodes& pool = *nodes_;
  if (const uint32_t known = pool.at(node).state; known != 0) return pool.states[known - 1];
  const ByteClasses& classes = pool.classes(node);
  pool.nodes[node].state = static_cast<uint32_t>(pool.states.size()) + 1;
  return pool.states.emplace_back(State{.classes = &classes,
                                        .steps = pool.new_steps(classes.representatives.size()),
                                        .node = id,
                                        .text_bytes = pool.text_bytes(node)});
}

const RegexPool::ClassStep& RegexPool::derive_class(const State& from, uint8_t byte_class) {
  ClassStep& step = from.steps[byte_class];
  Nodes& pool = *nodes_;
  const uint64_t before = pool.work;
  pool.work_max = before + kDerivativeWorkMax;
  const uint32_t next = pool.derive(static_cast<uint32_t>(from.node), from.classes->representatives[byte_class]);
  const uint64_t derived = pool.work;
  step.next = kUndecided;
  if (!pool.overworked()) {
    pool.work_max = pool.work + std::min(kEmptinessWorkMax, pool.searches_left);
    int32_t fuel = kEmptinessFuel;
    const std::optional<bool> nothing = pool.decide_empty(next, fuel);
    if (nothing.has_value()) step.next = *nothing ? kNoMatch : RegexId{next};
  }
  // What a search takes depends on those before; so only long ones count.
  const uint64_t searched = pool.work - derived;
  step.work = static_cast<uint32_t>(derived - before + (searched > kEmptinessWorkMax / 16 ? searched : 0));
  pool.work_max = Nodes::kNoWorkMax;
  return step;
}

const RegexPool::ClassStep& RegexPool::count_step(const State& from, uint8_t byte, WorkCount& count) {
  ClassStep& step = from.steps[from.classes->of[byte]];
  if (step.work == 0) derive_class(from, from.classes->of[byte]);
  step.counts[static_cast<size_t>(count.who)] = count.number;
  count.done += step.work;
  return step;
}

RegexPool::WorkCount RegexPool::new_count(WorkCount::Who who) { return {.who = who, .number = ++nodes_->last_count}; }

const RegexPool::State& RegexPool::look_ahead(RegexId node) {
  state(node);
  State& self = nodes_->states[nodes_->at(static_cast<uint32_t>(node)).state - 1];
  if (self.looked_ahead) return self;
  self.looked_ahead = true;
  if (!nodes_->at(static_cast<uint32_t>(node)).has_conditions) {
    // All first sets begin a text, and no derivative is needed to know them.
    self.first_bytes = nodes_->first_sets(static_cast<uint32_t>(node));
    self.first_work = self.classes->representatives.size();
    return self;
  }
  for (size_t byte = 0; byte < 256; ++byte) {
    if (self.first_work > kFirstBytesWorkMax) {
      self.first_bytes = ByteSet::all();
      break;
    }
    const uint8_t byte_class = self.classes->of[byte];
    const bool first = self.classes->representatives[byte_class] == byte;
    const ClassStep& step = self.steps[byte_class].work != 0 ? self.steps[byte_class] : derive_class(self, byte_class);
    if (first) self.first_work += step.work;
    if (step.next != kNoMatch) self.first_bytes.add(static_cast<uint8_t>(byte));
  }
  return self;
}

size_t RegexPool::memory_used() const {
  return nodes_->states.size() * sizeof(State) + nodes_->blocks.size() * Nodes::kStepsOfBlock * sizeof(ClassStep) +
         nodes_->nodes.size() * (sizeof(RegexNode) + 3 * sizeof(uint32_t));
}

size_t RegexPool::shared_bytes() const {
  size_t bytes = 0;
  for (const auto& tree : nodes_->trees) bytes += tree->bytes();
  for (const auto& shared : nodes_->automata) {
    bytes += shared.automaton->states.size() * sizeof(Automaton::State) +
             shared.automaton->steps.size() * sizeof(Automaton::Step);
  }
  return bytes;
}

// What is remembered costs little, so that only the rest is taken from what is left for searches.
RegexPool::Nodes::Search RegexPool::Nodes::search_begins(uint64_t most) {
  work_max = work + most;
  return {work, remembered};
}

void RegexPool::Nodes::search_ends(const Search& begun) {
  work_max = kNoWorkMax;
  if (searches_left == kNoWorkMax) return;
  const uint64_t spent = work - begun.work - (remembered - begun.remembered);
  overflow = overflow || spent > searches_left;
  searches_left -= std::min(spent, searches_left);
}

std::optional<bool> RegexPool::matches_nothing(RegexId node, int32_t fuel) {
  const uint64_t most = std::min(uint64_t{8} * static_cast<uint64_t>(fuel), nodes_->searches_left);
  const Nodes::Search begun = nodes_->search_begins(most);
  const std::optional<bool> result = nodes_->decide_empty(static_cast<uint32_t>(node), fuel);
  if (nodes_->work - begun.work > nodes_->searches_left) nodes_->searches_left = 0;  // it did not suffice
  nodes_->search_ends(begun);
  return result;
}

std::optional<bool> RegexPool::matches_many(RegexId id, uint64_t count, int32_t fuel) {
  const Nodes::Search begun{nodes_->work, nodes_->remembered};
  const std::optional<bool> result = count_texts(id, count, fuel);
  nodes_->search_ends(begun);
  return result;
}

// Counts texts by length: how many texts of the length lead to each derivative.
std::optional<bool> RegexPool::count_texts(RegexId id, uint64_t count, int32_t fuel) {
  const uint64_t begun = nodes_->work;
  std::map<RegexId, uint64_t> open{{id, 1}};
  for (uint64_t found = 0; !open.empty();) {
    std::map<RegexId, uint64_t> next;
    for (const auto& [node, texts] : open) {
      if (matches_empty(node)) found += texts;
      if (found >= count) return true;
      for (uint32_t byte = 0; byte < 256; ++byte) {
        const RegexId after = derivative(node, static_cast<uint8_t>(byte));
        if (after == kNoMatch) continue;
        if (--fuel < 0 || after == kUndecided || nodes_->work - begun > nodes_->searches_left) return std::nullopt;
        uint64_t& of_node = next[after];
        of_node = std::min(count, of_node + texts);
      }
    }
    open = std::move(next);
  }
  return false;
}

bool RegexPool::matches(RegexId id, std::string_view text) {
  auto node = static_cast<uint32_t>(id);
  Nodes& pool = *nodes_;
  const Nodes::Search begun = pool.search_begins(pool.overflow ? 0 : kEmptinessWorkMax);
  for (size_t i = 0; i < text.size() && node != kNothing; ++i) {
    node = pool.derive(node, static_cast<uint8_t>(text[i]));
    ++pool.remembered;  // one for each byte is what reading the text takes
  }
  pool.overflow = pool.overflow || pool.overworked();
  pool.search_ends(begun);
  return pool.at(node).nullable;
}

uint64_t RegexPool::work_done() const { return nodes_->work; }

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
