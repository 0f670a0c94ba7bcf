/// Regular expressions over bytes, as a pool of shared immutable nodes: the terminals of a Grammar.
///
/// Equal expressions are one node, and constructors simplify, so that a node's derivatives by bytes (Brzozowski 1964;
/// Owens, Reppy and Turon, "Regular-expression derivatives re-examined", 2009) are few, and a lazily built automaton of
/// them is small. Intersection and complement cost nothing beyond that.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::grammar {

/// A set of bytes.
class ByteSet {
 public:
  constexpr ByteSet() = default;
  static ByteSet of(std::string_view bytes);
  static ByteSet range(uint8_t first, uint8_t last);
  static ByteSet all();
  bool contains(uint8_t byte) const { return (words_[byte / 64] >> (byte % 64) & 1) != 0; }
  void add(uint8_t byte) { words_[byte / 64] |= uint64_t{1} << (byte % 64); }
  size_t size() const {
    size_t result = 0;
    for (const uint64_t word : words_) result += static_cast<size_t>(std::popcount(word));
    return result;
  }
  /// The least byte of a set that is not empty.
  uint8_t first() const {
    size_t word = 0;
    while (words_[word] == 0) ++word;
    return static_cast<uint8_t>(word * 64 + static_cast<size_t>(std::countr_zero(words_[word])));
  }
  template <class Visit>
  void each(Visit visit) const {
    for (size_t i = 0; i < words_.size(); ++i) {
      for (uint64_t word = words_[i]; word != 0; word &= word - 1) {
        visit(static_cast<uint8_t>(i * 64 + static_cast<size_t>(std::countr_zero(word))));
      }
    }
  }
  bool empty() const { return (words_[0] | words_[1] | words_[2] | words_[3]) == 0; }
  ByteSet operator|(const ByteSet& other) const {
    return combined(other, [](uint64_t a, uint64_t b) { return a | b; });
  }
  ByteSet operator&(const ByteSet& other) const {
    return combined(other, [](uint64_t a, uint64_t b) { return a & b; });
  }
  ByteSet operator~() const {
    return combined(*this, [](uint64_t a, uint64_t) { return ~a; });
  }
  bool operator==(const ByteSet&) const = default;
  const std::array<uint64_t, 4>& words() const { return words_; }

 private:
  template <class Operation>
  ByteSet combined(const ByteSet& other, Operation operation) const {
    ByteSet result;
    for (size_t i = 0; i < words_.size(); ++i) result.words_[i] = operation(words_[i], other.words_[i]);
    return result;
  }

  std::array<uint64_t, 4> words_{};
};

enum class RegexId : uint32_t {};
/// Equal for equal expressions of any pool of the process; others have others but with negligible probability.
using RegexFingerprint = std::array<uint64_t, 2>;
/// Matches nothing at all.
inline constexpr RegexId kNoMatch{0};
/// Matches the empty text.
inline constexpr RegexId kEmptyText{1};

/// A derivative that takes more than kDerivativeWorkMax, or of which kEmptinessFuel steps do not tell whether it
/// matches anything.
inline constexpr RegexId kUndecided{0xFFFF'FFFF};
inline constexpr int32_t kEmptinessFuel = 200'000;  ///< derivatives that a search for a text of an expression may take
/// Nodes that may be looked at for one derivative.
inline constexpr uint64_t kDerivativeWorkMax = 100'000;
/// Nodes that may be looked at in a search for a text of an expression, or to tell whether it matches one.
inline constexpr uint64_t kEmptinessWorkMax = 4'000'000;
/// Nodes that may be looked at in all searches that are made while a grammar is built.
inline constexpr uint64_t kBuildWorkMax = 1'000'000;
/// Nodes that may be looked at for the derivatives of one node by all bytes, to tell which its texts begin with.
inline constexpr uint64_t kFirstBytesWorkMax = 1'000'000;

/// Nodes of a pool; more is an error of whoever builds (GrammarBuilder::finish says so).
inline constexpr size_t kRegexNodesMax = 1'000'000;

/// Bytes of the texts of one RegexPool::texts().
inline constexpr uint64_t kTextBytesMax = uint64_t{64} << 20;

/// States of all automata of a pool; more is such an error, too.
inline constexpr uint64_t kAutomatonStatesMax = 1'000'000;

/// How deeply repetitions, choices, conditions and complements may be nested in each other.
inline constexpr uint32_t kRegexDepthMax = 2'000;

/// Owns nodes. Not thread-safe; matchers work on copies of their grammar's.
class RegexPool {
 public:
  /// A partition of the bytes.
  struct ByteClasses {
    std::array<uint8_t, 256> of{};           ///< the class of each byte
    std::vector<uint8_t> representatives{};  ///< one byte of each class
    std::vector<uint8_t> printable{};        ///< of each class that has one a printable ASCII one, but no backslash
  };
  /// Counts the work that several derivatives take, each of them once: the same whether they were known before or not.
  struct WorkCount {
    enum class Who : uint8_t { kRows, kWalk };
    Who who{};
    uint32_t number = 0;
    uint64_t done = 0;
  };
  /// The derivative by the bytes of a class.
  struct ClassStep {
    RegexId next{};
    uint32_t work = 0;  ///< nodes that were looked at; 0: the derivative is not known
    std::array<uint32_t, 2> counts{};
  };
  /// The derivatives of a node, as far as they were asked for.
  struct State {
    const ByteClasses* classes = nullptr;
    ClassStep* steps = nullptr;
    RegexId node{};
    uint32_t text_bytes = 0;  ///< as RegexPool::text_bytes, when the state was made
    bool looked_ahead = false;
    ByteSet first_bytes{};
    uint64_t first_work = 0;
  };

  RegexPool();
  RegexPool(RegexPool&&) noexcept;
  RegexPool& operator=(RegexPool&&) noexcept;
  ~RegexPool();

  RegexId bytes(const ByteSet& set);
  RegexId literal(std::string_view text);
  /// Any of the texts, which take about a byte for each of theirs, and no nodes before a text goes through them.
  RegexId texts(std::vector<std::string_view> texts);
  RegexId sequence(std::span<const RegexId> parts);
  RegexId any_of(std::span<const RegexId> choices);
  RegexId all_of(std::span<const RegexId> conditions);
  /// All byte texts that `inner` does not match.
  RegexId complement(RegexId inner);
  /// `max` missing: no upper bound. Counts cost no nodes.
  RegexId repeat(RegexId inner, uint32_t min, std::optional<uint32_t> max);

  /// A deterministic automaton of less than 2^24 states: bytes that a state does not name lead nowhere.
  struct Automaton {
    struct Step {
      uint32_t state : 24 = 0;
      uint32_t byte : 8 = 0;
    };
    struct State {
      uint32_t first = 0;  ///< of its steps
      uint16_t count = 0;
      bool accepts = false;
      uint32_t shortest = 0;  ///< bytes of the shortest text that leads to a state that accepts; the pool finds it out
    };
    std::vector<State> states;  ///< in the order of their steps
    std::vector<Step> steps;

    void add_state(bool accepts) {
      states.push_back({.first = static_cast<uint32_t>(steps.size()), .accepts = accepts});
    }
    /// The step is the last state's.
    void add_step(uint8_t byte, uint32_t state) {
      steps.push_back({.state = state, .byte = byte});
      ++states.back().count;
    }
    std::span<const Step> steps_of(uint32_t state) const {
      return std::span(steps).subspan(states[state].first, states[state].count);
    }
    void find_shortest();
  };
  /// Texts that lead from `state` to one that accepts.
  RegexId automaton(Automaton automaton, uint32_t state);

  /// One Unicode scalar value as UTF-8, of [first, last] (surrogates are left out).
  RegexId characters(char32_t first, char32_t last);

  /// A copy of the nodes with the same ids, without what was found out of them.
  RegexPool copy() const;
  /// Gives back the memory of what was found out of the nodes. States are not valid after that.
  void forget();
  /// Drops the nodes that none of these needs, and what was found out. Returns what each node is called from now on;
  /// kNoMatch for those that are gone.
  std::vector<RegexId> keep_only(std::span<const RegexId> roots);
  RegexFingerprint fingerprint(RegexId node);
  /// An expression that matches the same texts of up to `bytes` bytes, of whose longer texts the same beginnings of up
  /// to `bytes` bytes go on: counts above that are no bounds. An expression with conditions is left as it is.
  RegexId without_large_counts(RegexId node, uint32_t bytes);
  /// An expression that matches the same texts of up to `bytes` bytes, and more longer ones: bounds that none of those
  /// reaches are left out.
  RegexId without_far_bounds(RegexId node, uint32_t bytes);
  /// Bytes of a text that `node` matches: at least those of the shortest, and those if `node` has no conditions. The
  /// largest number, if none is known.
  uint32_t text_bytes(RegexId node) const;
  bool has_conditions(RegexId node) const;
  size_t size() const;

  bool matches_empty(RegexId node) const;
  /// What may follow `byte` in a text that `node` matches; kNoMatch exactly if nothing may, or
  /// kUndecided.
  RegexId derivative(RegexId node, uint8_t byte) {
    const State& from = state(node);
    const ClassStep& step = from.steps[from.classes->of[byte]];
    return step.work != 0 ? step.next : derive_class(from, from.classes->of[byte]).next;
  }
  /// The derivative of a state's node; counts its work.
  RegexId derivative(const State& from, uint8_t byte, WorkCount& count) {
    const ClassStep& step = from.steps[from.classes->of[byte]];
    return step.counts[static_cast<size_t>(count.who)] == count.number ? step.next : count_step(from, byte, count).next;
  }
  /// Valid as long as the pool.
  const State& state(RegexId node);
  /// The bytes that texts of `node` begin with; all bytes, where first_work() is over kFirstBytesWorkMax.
  const ByteSet& first_bytes(RegexId node) { return look_ahead(node).first_bytes; }
  /// Work that first_bytes() takes the first time. Searches for texts of conditions are not counted.
  uint64_t first_work(RegexId node) { return look_ahead(node).first_work; }
  WorkCount new_count(WorkCount::Who who);
  /// Approximate memory of the nodes and of what was found out of them.
  size_t memory_used() const;
  /// Approximate memory of what copies share: trees of texts, and automata.
  size_t shared_bytes() const;
  /// Whether no text matches. Nullopt: `fuel` derivatives, or eight times as many nodes, did not suffice to tell, or
  /// bound_searches() forbade more.
  std::optional<bool> matches_nothing(RegexId node, int32_t fuel);
  /// Whether at least `count` texts match. Nullopt: `fuel` derivatives did not suffice to tell.
  std::optional<bool> matches_many(RegexId node, uint64_t count, int32_t fuel);
  /// Whether `text` is one of its texts. The pool is full if that takes more than kEmptinessWorkMax.
  bool matches(RegexId node, std::string_view text);
  /// Nodes that were looked at since the pool was made.
  uint64_t work_done() const;
  /// From now on all of matches_nothing(), matches_many() and matches() may look at so many nodes together, without
  /// those of derivatives that are remembered, or the pool is full. Copies have no such bound.
  void bound_searches(uint64_t nodes);
  /// More than kRegexNodesMax nodes, deeper than kRegexDepthMax, more than kAutomatonStatesMax, or a limit of searches:
  /// what the pool gives since then may be wrong.
  bool full() const;
  /// What a full pool has too much of, for messages: "regular expressions of more than ...".
  std::string excess() const;

 private:
  struct Nodes;
  const ClassStep& derive_class(const State& from, uint8_t byte_class);
  const ClassStep& count_step(const State& from, uint8_t byte, WorkCount& count);
  const State& look_ahead(RegexId node);
  std::optional<bool> count_texts(RegexId node, uint64_t count, int32_t fuel);

  std::unique_ptr<Nodes> nodes_;
};

}  // namespace cairn::grammar
