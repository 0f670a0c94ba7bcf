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
  bool empty() const;
  ByteSet operator|(const ByteSet& other) const;
  ByteSet operator&(const ByteSet& other) const;
  ByteSet operator~() const;
  bool operator==(const ByteSet&) const = default;

 private:
  std::array<uint64_t, 4> words_{};
};

enum class RegexId : uint32_t {};
/// Matches nothing at all.
inline constexpr RegexId kNoMatch{0};
/// Matches the empty text.
inline constexpr RegexId kEmptyText{1};

/// Nodes of a pool; more is an error of whoever builds (GrammarBuilder::finish says so).
inline constexpr size_t kRegexNodesMax = 1'000'000;

/// Owns nodes. Not thread-safe; a grammar's pool is used by one matcher at a time through a lock, or copied.
class RegexPool {
 public:
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

  /// One Unicode scalar value as UTF-8, of [first, last] (surrogates are left out).
  RegexId characters(char32_t first, char32_t last);

  bool matches_empty(RegexId node) const;
  /// What may follow `byte` in a text that `node` matches.
  RegexId derivative(RegexId node, uint8_t byte);
  /// Whether no text matches. Nullopt: `fuel` derivatives did not suffice to tell.
  std::optional<bool> matches_nothing(RegexId node, int32_t fuel);
  bool full() const;

 private:
  struct Nodes;
  std::unique_ptr<Nodes> nodes_;
};

}  // namespace cairn::grammar
