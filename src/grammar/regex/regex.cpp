#include "grammar/regex/regex.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "grammar/regex/regex_nodes.h"

namespace cairn::grammar {
namespace {

constexpr size_t kTreeTextsMin = 16;      // that are kept as a tree; a few are expressions like any other
constexpr uint32_t kWithinDepthMax = 12;  // of expressions within each other that are compared

uint32_t raw(RegexId id) { return static_cast<uint32_t>(id); }

std::vector<uint32_t> raw(std::span<const RegexId> ids) {
  std::vector<uint32_t> result;
  result.reserve(ids.size());
  for (RegexId id : ids) result.push_back(raw(id));
  return result;
}

uint32_t multiply_counts(uint32_t a, uint32_t b) {
  if (a == 0 || b == 0) return 0;
  return static_cast<uint32_t>(std::min<uint64_t>(uint64_t{a} * b, kNoBound));
}

uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E37'79B9'7F4A'7C15;
  return hash ^ (hash >> 29);
}

}  // namespace

ByteSet ByteSet::of(std::string_view bytes) {
  ByteSet result;
  for (char byte : bytes) result.add(static_cast<uint8_t>(byte));
  return result;
}

ByteSet ByteSet::range(uint8_t first, uint8_t last) {
  ByteSet result;
  for (uint32_t byte = first; byte <= last; ++byte) result.add(static_cast<uint8_t>(byte));
  return result;
}

ByteSet ByteSet::all() { return ~ByteSet(); }

RegexPool::Nodes::Nodes() {
  table.resize(64);
  intern({.kind = RegexKind::kVoid, .emptiness = 2}, {});
  intern({.kind = RegexKind::kEpsilon, .nullable = true, .emptiness = 1}, {});
  everything = repeat(bytes(ByteSet::all()), 0, kNoBound);
}

uint64_t RegexPool::Nodes::hash(const RegexNode& node, std::span<const uint32_t> list) const {
  uint64_t result = mix(0, static_cast<uint64_t>(node.kind));
  if (node.kind == RegexKind::kBytes) {
    for (uint64_t word : sets[node.first].words()) result = mix(result, word);
  } else if (node.kind == RegexKind::kAnyOf || node.kind == RegexKind::kAllOf) {
    for (uint32_t child : list) result = mix(result, child);
  } else {
    result = mix(mix(result, node.first), uint64_t{node.second} << 32 | node.most);
  }
  return result;
}

bool RegexPool::Nodes::equal(const RegexNode& a, std::span<const uint32_t> list, uint32_t b) const {
  const RegexNode& other = nodes[b];
  if (a.kind != other.kind) return false;
  if (a.kind == RegexKind::kBytes) return sets[a.first] == sets[other.first];
  if (a.kind == RegexKind::kAnyOf || a.kind == RegexKind::kAllOf) return std::ranges::equal(list, this->list(b));
  return a.first == other.first && a.second == other.second && a.most == other.most;
}

void RegexPool::Nodes::grow_table() {
  std::vector<uint32_t> larger(table.size() * 2);
  fill_table(larger);
  table = std::move(larger);
}

void RegexPool::Nodes::fill_table(std::vector<uint32_t>& larger) const {
  for (uint32_t id = 0; id < nodes.size(); ++id) {
    const RegexNode& node = nodes[id];
    const bool listed = node.kind == RegexKind::kAnyOf || node.kind == RegexKind::kAllOf;
    size_t slot = hash(node, listed ? list(id) : std::span<const uint32_t>()) & (larger.size() - 1);
    while (larger[slot] != 0) slot = (slot + 1) & (larger.size() - 1);
    larger[slot] = id + 1;
  }
}

// What follows from its children.
void RegexPool::Nodes::describe(RegexNode& node, std::span<const uint32_t> list) const {
  switch (node.kind) {
    case RegexKind::kSequence:
      node.has_counts = at(node.first).has_counts || at(node.second).has_counts;
      node.text_bytes = add_counts(at(node.first).text_bytes, at(node.second).text_bytes);
      node.least_bytes = add_counts(at(node.first).least_bytes, at(node.second).least_bytes);
      node.most_bytes = add_counts(at(node.first).most_bytes, at(node.second).most_bytes);
      break;
    case RegexKind::kComplement:
      node.has_counts = at(node.first).has_counts;
      break;
    case RegexKind::kRepeat:
      node.has_counts = at(node.first).has_counts || node.second > 1 || node.most != kNoBound;
      node.text_bytes = multiply_counts(at(node.first).text_bytes, node.second);
      node.least_bytes = multiply_counts(at(node.first).least_bytes, node.second);
      node.most_bytes = multiply_counts(at(node.first).most_bytes, node.most);
      break;
    case RegexKind::kAutomaton:
      node.text_bytes = automata[node.first].automaton->states[node.second].shortest;
      node.least_bytes = node.text_bytes;
      break;
    case RegexKind::kTexts:
      node.text_bytes = trees[node.first]->shortest(node.second);
      node.least_bytes = node.text_bytes;
      break;
    case RegexKind::kBytes:
      node.text_bytes = node.least_bytes = node.most_bytes = 1;
      break;
    case RegexKind::kEpsilon:
      node.most_bytes = 0;
      break;
    default:
      node.has_counts = std::ranges::any_of(list, [&](uint32_t child) { return at(child).has_counts; });
  }
  if (node.kind == RegexKind::kAnyOf) {
    node.least_bytes = kNoBound;
    node.most_bytes = 0;
    for (uint32_t child : list) {
      node.most_bytes = std::max(node.most_bytes, at(child).most_bytes);
      node.text_bytes = std::min(node.text_bytes, at(child).text_bytes);
      node.least_bytes = std::min(node.least_bytes, at(child).least_bytes);
    }
  } else if (node.kind == RegexKind::kAllOf) {
    for (uint32_t child : list) {
      node.least_bytes = std::max(node.least_bytes, at(child).least_bytes);
      node.most_bytes = std::min(node.most_bytes, at(child).most_bytes);
    }
  }
  if (node.nullable) node.text_bytes = node.least_bytes = 0;
}

uint32_t RegexPool::Nodes::text_bytes(uint32_t id) const {
  const RegexNode& node = at(id);
  if (!node.has_conditions || node.text_bytes == 0) return node.text_bytes;
  uint32_t result = node.text_bytes;
  if (node.kind == RegexKind::kSequence) {
    uint32_t sum = 0;
    for (; at(id).kind == RegexKind::kSequence; id = at(id).second) sum = add_counts(sum, text_bytes(at(id).first));
    result = std::min(result, add_counts(sum, text_bytes(id)));
  } else if (node.kind == RegexKind::kAnyOf) {
    for (uint32_t child : list(id)) result = std::min(result, text_bytes(child));
  } else if (node.kind == RegexKind::kRepeat) {
    result = std::min(result, multiply_counts(text_bytes(node.first), node.second));
  }
  return result;
}

uint32_t RegexPool::Nodes::intern(RegexNode node, std::span<const uint32_t> list) {
  size_t slot = hash(node, list) & (table.size() - 1);
  for (; table[slot] != 0; slot = (slot + 1) & (table.size() - 1)) {
    if (equal(node, list, table[slot] - 1)) return table[slot] - 1;
  }
  if (nodes.size() >= kRegexNodesMax || node.depth > kRegexDepthMax) {
    overflow = true;
    return kNothing;
  }
  if (node.kind == RegexKind::kAnyOf || node.kind == RegexKind::kAllOf) {
    node.first = static_cast<uint32_t>(children.size());
    node.second = static_cast<uint32_t>(list.size());
    children.insert(children.end(), list.begin(), list.end());
  }
  describe(node, list);
  const auto id = static_cast<uint32_t>(nodes.size());
  nodes.push_back(node);
  table[slot] = id + 1;
  if (nodes.size() * 2 > table.size()) grow_table();
  return id;
}

uint32_t RegexPool::Nodes::bytes(const ByteSet& set) {
  if (set.empty()) return kNothing;
  sets.push_back(set);
  const size_t before = nodes.size();
  const uint32_t id = intern({.kind = RegexKind::kBytes, .first = static_cast<uint32_t>(sets.size() - 1)}, {});
  if (nodes.size() == before) sets.pop_back();
  return id;
}

uint32_t RegexPool::Nodes::byte(uint8_t value) {
  if (single_bytes[value] == 0) single_bytes[value] = bytes(ByteSet::range(value, value));
  return single_bytes[value];
}

// Whether it is plain to see that `larger` matches all texts of `node`.
bool RegexPool::Nodes::within(uint32_t node, uint32_t larger, uint32_t depth) const {
  if (node == larger || node == kNothing) return true;
  if (depth > kWithinDepthMax) return false;
  const RegexNode& a = at(node);
  const RegexNode& b = at(larger);
  if (a.kind == RegexKind::kAnyOf) {
    return std::ranges::all_of(list(node), [&](uint32_t part) { return within(part, larger, depth + 1); });
  }
  if (a.kind == RegexKind::kAllOf) {
    return std::ranges::any_of(list(node), [&](uint32_t part) { return within(part, larger, depth + 1); });
  }
  if (is_star(larger)) {
    if (node == kEmpty) return true;
    if (a.kind == RegexKind::kRepeat) return within(a.first, larger, depth + 1);
    if (a.kind != RegexKind::kSequence) return within(node, b.first, depth + 1);
    for (; at(node).kind == RegexKind::kSequence; node = at(node).second) {
      if (!within(at(node).first, larger, depth + 1)) return false;
    }
    return within(node, larger, depth + 1);
  }
  if (b.kind == RegexKind::kAnyOf) {
    return std::ranges::any_of(list(larger), [&](uint32_t part) { return within(node, part, depth + 1); });
  }
  if (a.kind != b.kind) return false;
  if (a.kind == RegexKind::kBytes) return (sets[a.first] & ~sets[b.first]).empty();
  if (a.kind == RegexKind::kRepeat) {
    return a.second >= b.second && a.most <= b.most && within(a.first, b.first, depth + 1);
  }
  return a.kind == RegexKind::kSequence && within(a.first, b.first, depth + 1) && within(a.second, b.second, depth + 1);
}

// Whether `tail` begins with any number of something that `node` is within.
bool RegexPool::Nodes::absorbs(uint32_t tail, uint32_t node) const {
  const uint32_t star = at(tail).kind == RegexKind::kSequence ? at(tail).first : tail;
  return is_star(star) && within(node, at(star).first, 0);
}

uint32_t RegexPool::Nodes::cons(uint32_t head, uint32_t tail) {
  if (at(head).kind == RegexKind::kRepeat && at(head).most > at(head).second && absorbs(tail, at(head).first)) {
    head = repeat(at(head).first, at(head).second, at(head).second);
    return head == kEmpty ? tail : sequence(head, tail);
  }
  if (head == everything && (tail == everything || (at(tail).kind == RegexKind::kSequence && at(tail).first == head))) {
    return tail;
  }
  // What is recursive steps from a byte to what follows it only where there are conditions or counts.
  const bool plain = at(head).kind == RegexKind::kBytes && !at(tail).has_conditions && !at(tail).has_counts;
  return intern({.kind = RegexKind::kSequence,
                 .nullable = at(head).nullable && at(tail).nullable,
                 .has_conditions = at(head).has_conditions || at(tail).has_conditions,
                 .depth = plain ? 1 : std::max(at(head).depth + 1, at(tail).depth),
                 .first = head,
                 .second = tail},
                {});
}

uint32_t RegexPool::Nodes::sequence(uint32_t head, uint32_t tail) {
  if (head == kNothing || tail == kNothing) return kNothing;
  if (head == kEmpty) return tail;
  if (tail == kEmpty) return head;
  if (at(head).kind != RegexKind::kSequence) return cons(head, tail);
  std::vector<uint32_t> spine;
  for (; at(head).kind == RegexKind::kSequence; head = at(head).second) spine.push_back(at(head).first);
  spine.push_back(head);
  work += spine.size();
  for (size_t i = spine.size(); i-- > 0;) tail = cons(spine[i], tail);
  return tail;
}

void RegexPool::Nodes::flatten(RegexKind kind, std::vector<uint32_t>& parts) const {
  const size_t count = parts.size();
  for (size_t i = 0; i < count; ++i) {
    if (at(parts[i]).kind != kind) continue;
    const auto inner = list(parts[i]);  // holds none of its own kind
    parts[i] = inner[0];
    parts.insert(parts.end(), inner.begin() + 1, inner.end());
  }
  std::ranges::sort(parts);
  parts.erase(std::ranges::unique(parts).begin(), parts.end());
}

void RegexPool::Nodes::merge_bytes(std::vector<uint32_t>& parts, bool unite) {
  ByteSet merged = unite ? ByteSet() : ByteSet::all();
  size_t count = 0;
  for (uint32_t part : parts) {
    if (at(part).kind != RegexKind::kBytes) continue;
    ++count;
    merged = unite ? merged | sets[at(part).first] : merged & sets[at(part).first];
  }
  if (count < 2) return;
  std::erase_if(parts, [&](uint32_t part) { return at(part).kind == RegexKind::kBytes; });
  parts.push_back(bytes(merged));
}

// Within the other conditions, x & ~(x & y) is x & ~y, and x & ~y is nothing where x is within y.
void RegexPool::Nodes::reduce_complements(std::vector<uint32_t>& parts) {
  bool reduced = false;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (at(parts[i]).kind != RegexKind::kComplement) continue;
    const uint32_t inner = at(parts[i]).first;
    if (is_star(inner) && std::ranges::any_of(parts, [&](uint32_t part) { return within(part, inner, 0); })) {
      parts = {kNothing};
      return;
    }
    if (at(inner).kind != RegexKind::kAllOf) continue;
    std::vector<uint32_t> left;
    for (uint32_t one : list(inner)) {
      if (std::ranges::find(parts, one) == parts.end()) left.push_back(one);
    }
    if (left.size() == at(inner).second) continue;
    parts[i] = complement(all_of(std::move(left)));
    reduced = true;
  }
  if (reduced) flatten(RegexKind::kAllOf, parts);
}

uint32_t RegexPool::Nodes::all_of(std::vector<uint32_t> parts) {
  if (std::ranges::find(parts, kNothing) != parts.end()) return kNothing;
  std::erase(parts, everything);
  if (parts.empty()) return everything;
  if (parts.size() == 1) return parts[0];
  flatten(RegexKind::kAllOf, parts);
  work += parts.size();
  merge_bytes(parts, false);
  flatten(RegexKind::kAllOf, parts);
  reduce_complements(parts);
  std::erase(parts, everything);
  if (parts.empty()) return everything;
  if (parts.size() == 1) return parts[0];
  if (parts[0] == kNothing) return kNothing;
  if (parts[0] == kEmpty) {
    return std::ranges::all_of(parts, [&](uint32_t part) { return at(part).nullable; }) ? kEmpty : kNothing;
  }
  RegexNode node{.kind = RegexKind::kAllOf, .nullable = true, .has_conditions = true};
  uint32_t least = 0, most = kNoBound;
  for (uint32_t part : parts) {
    least = std::max(least, at(part).least_bytes);
    most = std::min(most, at(part).most_bytes);
    if (least > most) return kNothing;
    if (at(part).kind == RegexKind::kComplement && std::ranges::binary_search(parts, at(part).first)) return kNothing;
    node.nullable = node.nullable && at(part).nullable;
    node.depth = std::max(node.depth, at(part).depth + 1);
  }
  return intern(node, parts);
}

uint32_t RegexPool::Nodes::complement(uint32_t inner) {
  if (inner == kNothing) return everything;
  if (inner == everything) return kNothing;
  if (at(inner).kind == RegexKind::kComplement) return at(inner).first;
  return intern({.kind = RegexKind::kComplement,
                 .nullable = !at(inner).nullable,
                 .has_conditions = true,
                 .depth = at(inner).depth + 1,
                 .first = inner},
                {});
}

uint32_t RegexPool::Nodes::repeat(uint32_t inner, uint32_t min, uint32_t max) {
  if (min > max) return kNothing;
  if (max == 0 || inner == kEmpty) return kEmpty;
  if (inner == kNothing) return min == 0 ? kEmpty : kNothing;
  if (at(inner).nullable) min = 0;
  if (max == 1) return min == 1 || at(inner).nullable ? inner : any_of({kEmpty, inner});
  if (inner == everything) return inner;
  // (r{0,}){m,} is r{0,}
  if (at(inner).kind == RegexKind::kRepeat && at(inner).second == 0 && at(inner).most == kNoBound) return inner;
  return intern({.kind = RegexKind::kRepeat,
                 .nullable = min == 0,
                 .has_conditions = at(inner).has_conditions,
                 .depth = at(inner).depth + 1,
                 .first = inner,
                 .second = min,
                 .most = max},
                {});
}

uint32_t RegexPool::Nodes::state(uint32_t automaton, uint32_t state) {
  const Automaton::State& at = automata[automaton].automaton->states[state];
  if (at.shortest == kNoBound) return kNothing;
  return intern(
      {.kind = RegexKind::kAutomaton, .nullable = at.accepts, .depth = 1, .first = automaton, .second = state}, {});
}

uint32_t RegexPool::Nodes::texts(uint32_t tree, uint32_t place) {
  if (place == TextTree::kNowhere) return kNothing;
  if (place == TextTree::kEnd) return kEmpty;
  return intern(
      {.kind = RegexKind::kTexts, .nullable = trees[tree]->ends(place), .depth = 1, .first = tree, .second = place},
      {});
}

RegexPool::RegexPool() : nodes_(std::make_unique<Nodes>()) {}
RegexPool::RegexPool(RegexPool&&) noexcept = default;
RegexPool& RegexPool::operator=(RegexPool&&) noexcept = default;
RegexPool::~RegexPool() = default;

RegexPool RegexPool::copy() const {
  RegexPool result;
  Nodes& copy = *result.nodes_;
  copy.nodes = nodes_->nodes;
  copy.sets = nodes_->sets;
  copy.children = nodes_->children;
  copy.automata = nodes_->automata;
  copy.trees = nodes_->trees;
  copy.tree_of = nodes_->tree_of;
  copy.table = nodes_->table;
  copy.automaton_states = nodes_->automaton_states;
  copy.overflow = nodes_->overflow;
  copy.everything = nodes_->everything;
  copy.single_bytes = nodes_->single_bytes;
  for (RegexNode& node : copy.nodes) node.state = 0;
  return result;
}

void RegexPool::forget() {
  Nodes& pool = *nodes_;
  for (RegexNode& node : pool.nodes) node.state = 0;
  pool.states = std::deque<State>();
  pool.blocks.clear();
  pool.block_used = Nodes::kStepsOfBlock;
  pool.partition_of.clear();
  pool.partitions = std::deque<ByteClasses>();
  pool.derived = std::vector<Nodes::Derived>();
  pool.visits = std::vector<uint32_t>();
}

// Ascending: those of which a node is made come before it.
std::vector<uint32_t> RegexPool::Nodes::needed_by(std::span<const RegexId> roots) const {
  std::vector<bool> needed(nodes.size());
  std::vector<uint32_t> open{kNothing, kEmpty, everything};
  for (const RegexId root : roots) open.push_back(raw(root));
  std::ranges::copy_if(single_bytes, std::back_inserter(open), [](uint32_t node) { return node != 0; });
  while (!open.empty()) {
    const uint32_t current = open.back();
    open.pop_back();
    if (needed[current]) continue;
    needed[current] = true;
    const RegexNode& node = at(current);
    const bool listed = node.kind == RegexKind::kAnyOf || node.kind == RegexKind::kAllOf;
    const bool sequence = node.kind == RegexKind::kSequence;
    if (listed) open.insert(open.end(), list(current).begin(), list(current).end());
    if (sequence || node.kind == RegexKind::kComplement || node.kind == RegexKind::kRepeat) open.push_back(node.first);
    if (sequence) open.push_back(node.second);
  }
  std::vector<uint32_t> result;
  for (uint32_t id = 0; id < nodes.size(); ++id) {
    if (needed[id]) result.push_back(id);
  }
  return result;
}

std::vector<RegexId> RegexPool::keep_only(std::span<const RegexId> roots) {
  Nodes& pool = *nodes_;
  forget();
  const std::vector<uint32_t> kept = pool.needed_by(roots);
  std::vector<RegexId> names(pool.nodes.size(), kNoMatch);
  std::vector<RegexNode> nodes;
  std::vector<uint32_t> children;
  nodes.reserve(kept.size());
  const auto name_of = [&](uint32_t node) { return raw(names[node]); };
  for (const uint32_t old : kept) {
    RegexNode node = pool.at(old);
    if (node.kind == RegexKind::kAnyOf || node.kind == RegexKind::kAllOf) {
      const auto first = static_cast<uint32_t>(children.size());
      for (const uint32_t child : pool.list(old)) children.push_back(name_of(child));
      node.first = first;
    } else if (node.kind == RegexKind::kComplement || node.kind == RegexKind::kRepeat) {
      node.first = name_of(node.first);
    } else if (node.kind == RegexKind::kSequence) {
      node.first = name_of(node.first);
      node.second = name_of(node.second);
    }
    names[old] = RegexId{static_cast<uint32_t>(nodes.size())};
    nodes.push_back(node);
  }
  pool.nodes = std::move(nodes);
  pool.children = std::move(children);
  pool.everything = name_of(pool.everything);
  for (uint32_t& node : pool.single_bytes) node = name_of(node);
  pool.fingerprints = {};
  pool.table.assign(std::bit_ceil(2 * pool.nodes.size() + 64), 0);
  pool.table.shrink_to_fit();
  pool.fill_table(pool.table);
  return names;
}

size_t RegexPool::size() const { return nodes_->nodes.size(); }

RegexId RegexPool::bytes(const ByteSet& set) { return RegexId{nodes_->bytes(set)}; }

RegexId RegexPool::literal(std::string_view text) {
  uint32_t result = kEmpty;
  for (size_t i = text.size(); i-- > 0;) result = nodes_->sequence(nodes_->byte(static_cast<uint8_t>(text[i])), result);
  return RegexId{result};
}

RegexId RegexPool::texts(std::vector<std::string_view> texts) {
  std::ranges::sort(texts);
  texts.erase(std::ranges::unique(texts).begin(), texts.end());
  uint64_t bytes = 0;
  for (const std::string_view text : texts) bytes += text.size();
  if (texts.size() < kTreeTextsMin || bytes > kTextBytesMax) {
    std::vector<RegexId> choices;
    for (const std::string_view text : texts) choices.push_back(literal(text));
    return any_of(choices);
  }
  const bool empty = texts.front().empty();
  if (empty) texts.erase(texts.begin());
  auto tree = std::make_shared<const TextTree>(texts);
  for (uint32_t byte = 0; byte < 256; ++byte) nodes_->byte(static_cast<uint8_t>(byte));
  const auto [known, added] = nodes_->tree_of.try_emplace(tree->hash(), static_cast<uint32_t>(nodes_->trees.size()));
  if (added) nodes_->trees.push_back(std::move(tree));
  const uint32_t node = nodes_->texts(known->second, TextTree::kRoot);
  return RegexId{empty ? nodes_->any_of({kEmpty, node}) : node};
}

RegexId RegexPool::sequence(std::span<const RegexId> parts) {
  uint32_t result = kEmpty;
  for (size_t i = parts.size(); i-- > 0;) result = nodes_->sequence(raw(parts[i]), result);
  return RegexId{result};
}

RegexId RegexPool::any_of(std::span<const RegexId> choices) { return RegexId{nodes_->any_of(raw(choices))}; }
RegexId RegexPool::all_of(std::span<const RegexId> conditions) { return RegexId{nodes_->all_of(raw(conditions))}; }
RegexId RegexPool::complement(RegexId inner) { return RegexId{nodes_->complement(raw(inner))}; }

// Backwards from the states that accept.
void RegexPool::Automaton::find_shortest() {
  std::vector<uint32_t> before(states.size() + 1);  // first index in `from` of the steps that lead to each state
  for (const Step& step : steps) ++before[step.state + 1];
  for (size_t i = 1; i < before.size(); ++i) before[i] += before[i - 1];
  std::vector<uint32_t> from(steps.size()), filled(before.begin(), before.end() - 1), open;
  for (uint32_t state = 0; state < states.size(); ++state) {
    for (const Step& step : steps_of(state)) from[filled[step.state]++] = state;
    states[state].shortest = states[state].accepts ? 0 : kNoBound;
    if (states[state].accepts) open.push_back(state);
  }
  for (size_t i = 0; i < open.size(); ++i) {
    for (uint32_t step = before[open[i]]; step < before[open[i] + 1]; ++step) {
      uint32_t& shortest = states[from[step]].shortest;
      if (shortest != kNoBound) continue;
      shortest = states[open[i]].shortest + 1;
      open.push_back(from[step]);
    }
  }
}

RegexId RegexPool::automaton(Automaton automaton, uint32_t state) {
  nodes_->automaton_states += automaton.states.size();
  nodes_->overflow = nodes_->overflow || nodes_->automaton_states > kAutomatonStatesMax;
  automaton.find_shortest();
  ByteSet named;
  Nodes::SharedAutomaton& shared = nodes_->automata.emplace_back();
  for (const Automaton::State& one : automaton.states) {
    shared.hash = mix(shared.hash, uint64_t{one.count} << 1 | static_cast<uint64_t>(one.accepts));
  }
  for (const Automaton::Step& step : automaton.steps) {
    named.add(static_cast<uint8_t>(step.byte));
    shared.hash = mix(shared.hash, uint64_t{step.state} << 8 | step.byte);
  }
  shared.automaton = std::make_shared<const Automaton>(std::move(automaton));
  named.each([&](uint8_t byte) {
    shared.sets.push_back(static_cast<uint32_t>(nodes_->sets.size()));
    nodes_->sets.push_back(ByteSet::range(byte, byte));
  });
  return RegexId{nodes_->state(static_cast<uint32_t>(nodes_->automata.size() - 1), state)};
}

RegexId RegexPool::repeat(RegexId inner, uint32_t min, std::optional<uint32_t> max) {
  return RegexId{nodes_->repeat(raw(inner), min, max.value_or(kNoBound))};
}

bool RegexPool::matches_empty(RegexId node) const { return nodes_->at(raw(node)).nullable; }

bool RegexPool::has_conditions(RegexId node) const { return nodes_->at(raw(node)).has_conditions; }

bool RegexPool::full() const { return nodes_->overflow; }

void RegexPool::bound_searches(uint64_t nodes) { nodes_->searches_left = nodes; }

std::string RegexPool::excess() const {
  if (nodes_->automaton_states > kAutomatonStatesMax)
    return fmt::format("divisors of more than {} states together", kAutomatonStatesMax);
  if (nodes_->searches_left == 0)
    return fmt::format("conditions on texts that take more than {} steps to decide", kBuildWorkMax);
  return fmt::format("regular expressions of more than {} nodes or nested more than {} deep", kRegexNodesMax,
                     kRegexDepthMax);
}

}  // namespace cairn::grammar
