/// Which tokens keep within a terminal, and where in the vocabulary's tree the terminal may end.
///
/// Both depend on the terminal's expression alone, not on the grammar around it, so that they are kept by expression
/// for all grammars that a model is used with.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "grammar/masks/vocabulary_trie.h"
#include "grammar/regex/regex.h"

namespace cairn::grammar {

/// A set of tokens, a bit each.
using TokenBits = std::vector<uint64_t>;

inline void add_token(std::span<uint64_t> bits, TokenId token) {
  bits[static_cast<size_t>(index(token)) / 64] |= uint64_t{1} << (static_cast<size_t>(index(token)) % 64);
}

/// Plain text: characters but control characters, quotes and backslashes. Immutable.
///
/// Most tokens are plain, and most strings take all plain text, or so many characters of it. So which plain tokens a
/// terminal takes is mostly one of a few sets that are made once, and only the others are walked through.
struct PlainTokens {
  static constexpr uint32_t kCharactersMax = 32;  ///< longer tokens count as not plain
  std::vector<TokenBits> upto;                    ///< [n]: those of at most n characters

  static std::optional<uint32_t> characters(std::string_view bytes);  ///< nullopt: not plain
  static bool begins(const ByteSet& bytes);                           ///< whether plain text can begin with one of them
};

/// What a walk through the vocabulary found. Immutable.
struct TerminalWalk {
  /// Tokens of `plain_characters` plain characters at most, those in `few` and those in `many`, keep within the
  /// terminal. -1: plain tokens are among the others.
  int32_t plain_characters = -1;
  uint32_t tree = 0;  ///< the tree that was walked through: of WalkedVocabulary::tree()
  std::vector<TokenId> few;
  TokenBits many;  ///< or empty
  /// Nodes of the tree after which the terminal may be complete.
  std::vector<uint32_t> exits;
  /// Nodes of WalkedVocabulary::others() after which the terminal may be complete.
  std::vector<uint32_t> other_exits;
  /// With plain_characters: the terminal may be complete within plain text that it cannot go on with.
  bool plain_exits = false;
  uint32_t visited = 0;  ///< nodes
  uint64_t work = 0;     ///< in nodes of the vocabulary's tree and of expressions
  /// Somewhere no text of at most kNearTextBytes is known that goes on within the terminal: bounds may then matter that
  /// no token reaches.
  bool far = false;
  bool too_large = false;  ///< over kMaskWorkMax, or the pool's limits: the rest says nothing

  size_t bytes() const {
    return few.size() * 4 + many.size() * 8 + (exits.size() + other_exits.size()) * 4 + sizeof(*this);
  }
};

/// A node of the tree of all tokens whose text is plain and below which there are many plain tokens: where a terminal
/// takes all plain text from there, only the other tokens below are left to walk through.
struct PlainSubtree {
  uint32_t node = 0;
  uint32_t other = 0;  ///< the same text's node in the tree of tokens that are not plain; 0: there is none
  uint32_t first = 0;  ///< the plain tokens below: of WalkedVocabulary::plain_order(), from here
  uint32_t last = 0;   ///< to before this one
};

/// The vocabulary of a model, and what is kept by expression. Thread-safe.
class WalkedVocabulary {
 public:
  static constexpr std::array<uint32_t, 4> kTreeCharacters{0, 8, 16, PlainTokens::kCharactersMax};

  WalkedVocabulary(std::vector<VocabularyTrie::Entry> entries, size_t words);

  /// A number that no other vocabulary of the process has.
  uint64_t id() const { return id_; }
  size_t words() const { return words_; }
  const VocabularyTrie& all() const { return all_; }
  const PlainTokens& plain() const { return plain_; }
  /// The tree of all tokens, or of those that are not plain or have more than kTreeCharacters[tree] characters.
  const VocabularyTrie& tree(uint32_t tree) const { return tree == 0 ? all_ : others_[tree - 1]; }
  /// The tree of the tokens that are not plain.
  const VocabularyTrie& others() const { return others_.back(); }
  /// The plain tokens in the order of all().
  const std::vector<TokenId>& plain_order() const { return plain_order_; }
  /// The subtrees of many plain tokens, ascending by node.
  const std::vector<PlainSubtree>& plain_subtrees() const { return plain_subtrees_; }
  /// The pool is that of one automaton.
  std::shared_ptr<const TerminalWalk> walk(RegexPool& regexes, RegexId terminal) const;

 private:
  struct FingerprintHash {
    size_t operator()(const RegexFingerprint& fingerprint) const { return fingerprint[0]; }
  };

  void find_plain_subtrees();
  std::shared_ptr<const TerminalWalk> kept_walk(RegexPool& regexes, RegexId terminal) const;
  std::shared_ptr<const TerminalWalk> compute(RegexPool& regexes, RegexId terminal) const;

  uint64_t id_;
  size_t words_;
  VocabularyTrie all_;
  std::vector<VocabularyTrie> others_;
  PlainTokens plain_;
  std::vector<TokenId> plain_order_;
  std::vector<PlainSubtree> plain_subtrees_;
  mutable std::mutex mutex_;
  mutable std::unordered_map<RegexFingerprint, std::shared_ptr<const TerminalWalk>, FingerprintHash> kept_;
  mutable std::deque<RegexFingerprint> kept_order_;  // the oldest is dropped first
  mutable size_t kept_bytes_ = 0;
};

}  // namespace cairn::grammar
