/// Regular expressions over bytes, as a pool of shared immutable nodes: the terminals of a Grammar.
///
/// Equal expressions are one node, and constructors simplify, so that a node's derivatives by bytes (Brzozowski 1964;
/// Owens, Reppy and Turon, "Regular-expression derivatives re-examined", 2009) are few, and a lazily built automaton of
/// them is small. Intersection and complement cost nothing beyond that.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
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
  bool empty() const { return (words_[0] | words_[1] | words_[2] | words_[3]) == 0; }
  ByteSet operator|(const ByteSet& other) const {
    ByteSet result;
    for (size_t i = 0; i < words_.size(); ++i) result.words_[i] = words_[i] | other.words_[i];
    return result;
  }
  ByteSet operator&(const ByteSet& other) const {
    ByteSet result;
    for (size_t i = 0; i < words_.size(); ++i) result.words_[i] = words_[i] & other.words_[i];
    return result;
  }
  ByteSet operator~() const {
    ByteSet result;
    for (size_t i = 0; i < words_.size(); ++i) result.words_[i] = ~words_[i];
    return result;
  }
  bool operator==(const ByteSet&) const = default;
  const std::array<uint64_t, 4>& words() const { return words_; }

 private:
  std::array<uint64_t, 4> words_{};
};

enum class RegexId : uint32_t {};
/// Equal for equal expressions of any pool of the process; others have others but with negligible probability.
using RegexFingerprint = std::array<uint64_t, 2>;
/// Matches nothing at all.
inline constexpr RegexId kNoMatch{0};
/// Matches the empty text.
inline constexpr RegexId kEmptyText{1};

/// A derivative that takes more than kDerivativesWorkMax, or of which kEmptinessFuel steps do not tell whether it
/// matches anything.
inline constexpr RegexId kUndecided{0xFFFF'FFFF};
inline constexpr int32_t kEmptinessFuel = 200'000;  ///< derivatives that a search for a text of an expression may take
/// Nodes that may be looked at for the derivatives of one node by all bytes.
inline constexpr uint64_t kDerivativesWorkMax = 500'000;

/// Nodes of a pool; more is an error of whoever builds (GrammarBuilder::finish says so).
inline constexpr size_t kRegexNodesMax = 1'000'000;

/// How deeply repetitions, choices, conditions and complements may be nested in each other.
inline constexpr uint32_t kRegexDepthMax = 2'000;

/// Owns nodes. Not thread-safe; matchers work on copies of their grammar's.
class RegexPool {
 public:
  /// The derivatives by each byte.
  using Derivatives = std::array<RegexId, 256>;

  RegexPool();
  RegexPool(RegexPool&&) noexcept;
  RegexPool& operator=(RegexPool&&) noexcept;
  ~RegexPool();

  RegexId bytes(const ByteSet& set);
  RegexId literal(std::string_view text);
  RegexId sequence(std::span<const RegexId> parts);
  RegexId any_of(std::span<const RegexId> choices);
  RegexId all_of(std::span<const RegexId> conditions);
  /// All byte texts that `inner` does not match.
  RegexId complement(RegexId inner);
  /// `max` missing: no upper bound. Counts cost no nodes.
  RegexId repeat(RegexId inner, uint32_t min, std::optional<uint32_t> max);

  /// A deterministic automaton: bytes that a state does not name lead nowhere.
  struct Automaton {
    struct State {
      std::vector<std::pair<uint8_t, uint32_t>> next{};  ///< byte and state
      bool accepts = false;
    };
    std::vector<State> states;
  };
  /// Texts that lead from `state` to one that accepts.
  RegexId automaton(Automaton automaton, uint32_t state);

  /// One Unicode scalar value as UTF-8, of [first, last] (surrogates are left out).
  RegexId characters(char32_t first, char32_t last);

  /// The same nodes with the same ids, without what was found out of them.
  RegexPool copy() const;
  RegexFingerprint fingerprint(RegexId node);
  /// An expression that matches the same texts of up to `bytes` bytes, of whose longer texts the same beginnings of up
  /// to `bytes` bytes go on: counts above that are no bounds. An expression with conditions is left as it is.
  RegexId without_large_counts(RegexId node, uint32_t bytes);
  size_t size() const;

  bool matches_empty(RegexId node) const;
  /// What may follow `byte` in a text that `node` matches; kNoMatch exactly if nothing may, or
  /// kUndecided.
  RegexId derivative(RegexId node, uint8_t byte) { return derivatives(node)[byte]; }
  /// Computed at the first call for a node; valid as long as the pool.
  const Derivatives& derivatives(RegexId node);
  /// The bytes that texts of `node` begin with.
  const ByteSet& first_bytes(RegexId node);
  /// Nodes that were looked at for the derivatives of a node, which is the same whatever else was asked before;
  /// searches for texts of conditions are not counted.
  uint64_t work(RegexId node);
  /// The same, but 0 from the second time on that the node is asked for within a count: by `count`, a number that the
  /// pool gave, and by who counts.
  enum class Counts : uint8_t { kOfRows, kOfWalks };
  uint64_t work(RegexId node, Counts who, uint64_t count);
  uint64_t new_count();
  /// Approximate memory of what was found out of the nodes.
  size_t memory_used() const;
  /// Whether no text matches. Nullopt: `fuel` derivatives, or eight times as many nodes, did not suffice to tell.
  std::optional<bool> matches_nothing(RegexId node, int32_t fuel);
  /// Nodes that were looked at since the pool was made.
  uint64_t work_done() const;
  /// More than kRegexNodesMax nodes, or deeper than kRegexDepthMax: what the pool gives since then may be wrong.
  bool full() const;

 private:
  struct Nodes;
  std::unique_ptr<Nodes> nodes_;
};

}  // namespace cairn::grammar
