/// What a RegexPool holds.
#pragma once

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <unordered_map>
#include <vector>

#include "grammar/regex/regex.h"
#include "grammar/regex/text_tree.h"

namespace cairn::grammar {

enum class RegexKind : uint8_t {
  kVoid,
  kEpsilon,
  kBytes,
  kSequence,
  kAnyOf,
  kAllOf,
  kComplement,
  kRepeat,
  kAutomaton,
  kTexts,
};

struct RegexNode {
  RegexKind kind = RegexKind::kVoid;
  bool nullable = false;
  bool has_conditions = false;  ///< an intersection or complement is in it: it may match nothing without being kNoMatch
  bool has_counts = false;      ///< a repetition with bounds other than 0, 1 and none is in it
  uint32_t depth = 0;
  /// kBytes: the set. kSequence: head and the rest, which no head is a sequence. kAnyOf, kAllOf: children from `first`,
  /// `second` of them, ascending. kComplement, kRepeat: the inner one.
  /// kAutomaton: the automaton; `second` is the state. kTexts: the tree, and the place in it.
  uint32_t first = 0;
  uint32_t second = 0;  ///< kRepeat: at least so often
  uint32_t most = 0;    ///< kRepeat: at most so often, or kNoBound
  /// Bytes of one of its texts: of the shortest, or, with conditions, of one that a search has found. kNoBound: none is
  /// known.
  uint32_t text_bytes = 0xFFFF'FFFF;
  uint32_t least_bytes = 0;           ///< no text has fewer
  uint32_t most_bytes = 0xFFFF'FFFF;  ///< and none more; kNoBound: that is not known
  uint32_t state = 0;                 ///< index of its State + 1; 0: not computed
  uint8_t emptiness = 0;              ///< 0: unknown, 1: matches something, 2: matches nothing
};

inline constexpr uint32_t kNoBound = 0xFFFF'FFFF;

inline uint32_t add_counts(uint32_t a, uint32_t b) {
  if (a == kNoBound || b == kNoBound) return kNoBound;
  return static_cast<uint32_t>(std::min<uint64_t>(uint64_t{a} + b, kNoBound));
}

inline constexpr uint32_t kNothing = static_cast<uint32_t>(kNoMatch);
inline constexpr uint32_t kEmpty = static_cast<uint32_t>(kEmptyText);

struct RegexPool::Nodes {
  static constexpr uint64_t kNoWorkMax = ~uint64_t{0};
  static constexpr size_t kStepsOfBlock = 1'024;

  std::vector<RegexNode> nodes;
  std::vector<ByteSet> sets;
  std::vector<uint32_t> children;
  struct SharedAutomaton {
    std::shared_ptr<const Automaton> automaton;
    std::vector<uint32_t> sets;  ///< one for each byte that its states name
    uint64_t hash = 0;
  };
  std::vector<SharedAutomaton> automata;
  uint64_t automaton_states = 0;  ///< of all automata
  std::vector<std::shared_ptr<const TextTree>> trees;
  std::map<uint64_t, uint32_t> tree_of;  ///< by hash
  std::vector<uint32_t> table;           ///< open addressing: node + 1, by hash
  std::deque<State> states;
  std::vector<std::unique_ptr<std::array<ClassStep, kStepsOfBlock>>> blocks;  ///< of the states' steps
  size_t block_used = kStepsOfBlock;                                          ///< of the last one
  std::deque<ByteClasses> partitions;
  std::map<std::vector<uint32_t>, const ByteClasses*> partition_of;  ///< by the sets that make it
  uint32_t last_count = 0;                                           ///< the last number given to a count
  std::vector<RegexFingerprint> fingerprints;                        ///< zero: not computed
  bool overflow = false;
  uint32_t everything = 0;                   ///< matches all texts
  std::array<uint32_t, 256> single_bytes{};  ///< the node of each, or 0
  uint64_t work = 0;                         ///< nodes that were looked at so far
  uint64_t remembered = 0;                   ///< of these, those that were looked at before
  uint64_t work_max = kNoWorkMax;
  uint64_t searches_left = kNoWorkMax;  ///< nodes that searches may still look at
  struct Derived {
    uint32_t node = 0;
    uint8_t byte = 0;
    uint32_t next = 0;
    uint64_t work = 0;
  };
  std::vector<Derived> derived;  ///< some of the last derivatives, by hash
  std::vector<uint32_t> visits;  ///< by node: the last walk that came by it
  uint32_t visit = 0;

  Nodes();
  const RegexNode& at(uint32_t node) const { return nodes[node]; }
  bool is_star(uint32_t node) const {
    return at(node).kind == RegexKind::kRepeat && at(node).second == 0 && at(node).most == kNoBound;
  }
  std::span<const uint32_t> list(uint32_t node) const {
    return std::span(children).subspan(nodes[node].first, nodes[node].second);
  }

  uint32_t bytes(const ByteSet& set);
  uint32_t byte(uint8_t value);
  uint32_t sequence(uint32_t head, uint32_t tail);
  uint32_t any_of(std::vector<uint32_t> parts);
  uint32_t all_of(std::vector<uint32_t> parts);
  uint32_t complement(uint32_t inner);
  uint32_t repeat(uint32_t inner, uint32_t min, uint32_t max);

  uint32_t state(uint32_t automaton, uint32_t state);
  uint32_t texts(uint32_t tree, uint32_t place);

  void fill_table(std::vector<uint32_t>& larger) const;
  std::vector<uint32_t> needed_by(std::span<const RegexId> roots) const;
  RegexFingerprint fingerprint(uint32_t node);
  uint32_t without_large_counts(uint32_t node, uint32_t bytes);
  /// Does what RegexPool::without_far_bounds does; `known` holds what was made of inner nodes.
  uint32_t without_far_bounds(uint32_t node, uint32_t bytes, std::unordered_map<uint32_t, uint32_t>& known);
  /// The node's RegexNode::text_bytes, also where it follows from that of inner nodes.
  uint32_t text_bytes(uint32_t node) const;
  /// The derivative of a node, which has no meaning once `work` is over `work_max`.
  uint32_t derive(uint32_t node, uint8_t byte);
  uint32_t derive_new(uint32_t node, uint8_t byte);
  bool overworked() const { return work > work_max; }
  /// The work when a search began, which search_ends() needs.
  struct Search {
    uint64_t work = 0;
    uint64_t remembered = 0;
  };
  /// Bounds the work until search_ends().
  Search search_begins(uint64_t most);
  void search_ends(const Search& begun);
  /// The classes of bytes that `node` does not tell apart.
  const ByteClasses& classes(uint32_t node);
  ClassStep* new_steps(size_t count);
  void collect_first_sets(uint32_t node, std::vector<uint32_t>& found);
  /// Sets `emptiness`; nullopt: out of fuel.
  std::optional<bool> decide_empty(uint32_t node, int32_t& fuel);
  std::optional<bool> search_text(uint32_t node, int32_t& fuel);
  /// The bytes of all sets that may begin a text.
  ByteSet first_sets(uint32_t node);

 private:
  void describe(RegexNode& node, std::span<const uint32_t> list) const;
  uint32_t intern(RegexNode node, std::span<const uint32_t> list);
  uint32_t cons(uint32_t head, uint32_t tail);
  void flatten(RegexKind kind, std::vector<uint32_t>& parts) const;
  void merge_bytes(std::vector<uint32_t>& parts, bool unite);
  void merge_repeats(std::vector<uint32_t>& parts);
  void reduce_complements(std::vector<uint32_t>& parts);
  void absorb_repeats(std::vector<uint32_t>& parts) const;
  void absorb_into_stars(std::vector<uint32_t>& parts);
  bool absorbs(uint32_t tail, uint32_t node) const;
  bool within(uint32_t node, uint32_t larger, uint32_t depth) const;
  /// A choice that is being made: `heads`, one after the other, and then one of the parts.
  struct Choice {
    std::vector<uint32_t> heads;
    std::vector<uint32_t> parts;
    std::vector<Choice> groups;  ///< choices that are to become parts
    bool begun = false;
  };
  void simplify_choice(std::vector<uint32_t>& parts);
  void group_by_head(Choice& choice) const;
  void take_heads(Choice& choice);
  uint32_t finish_choice(std::vector<uint32_t>& parts);
  void grow_table();
  RegexFingerprint compute_fingerprint(uint32_t node);
  uint64_t hash(const RegexNode& node, std::span<const uint32_t> list) const;
  bool equal(const RegexNode& a, std::span<const uint32_t> list, uint32_t b) const;
};

}  // namespace cairn::grammar
