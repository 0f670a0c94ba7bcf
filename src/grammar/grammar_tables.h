/// What a Grammar holds: flat arrays that never change.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "grammar/grammar.h"
#include "grammar/member_list.h"
#include "grammar/regex/regex.h"

namespace cairn::grammar {

class Automaton;

enum class SymbolKind : uint8_t { kTerminal, kRule, kRepeat, kMembers, kDistinct };

struct Symbol {
  SymbolKind kind = SymbolKind::kTerminal;
  bool nullable = false;
  RegexId regex = kNoMatch;  ///< kTerminal. kDistinct: one text of the list
  /// kRule: its alternatives in Grammar::starts, `count` of them. kRepeat: its position. kMembers: the positions of its
  /// `count` elements, and then that of the separator. kDistinct: the positions of a text and of the separator.
  uint32_t first = 0;
  uint32_t count = 0;
  uint32_t inner = 0;  ///< kRepeat: what is repeated. kMembers: its list in Grammar::lists
  uint32_t min = 0;    ///< kRepeat, kDistinct
  uint32_t max = 0;    ///< kRepeat, kDistinct, or kNoCount
};

inline constexpr uint32_t kNoCount = 0xFFFF'FFFF;
inline constexpr uint32_t kEnd = 0xFFFF'FFFF;  ///< the symbol of the position after an alternative's last one

/// A dot within an alternative; the next one is the dot behind its symbol. Symbols of kRepeat, kMembers and
/// kDistinct have positions of their own.
struct Position {
  enum class Role : uint8_t { kAlternative, kRepeat, kElement, kSeparator, kText, kTextSeparator };
  uint32_t symbol = kEnd;
  uint32_t rule = 0;  ///< what the alternative belongs to
  bool last = false;  ///< no symbol follows this one
  Role role = Role::kAlternative;
};

/// Memory of the automata that all grammars of the process keep for their next matchers; those over it are dropped.
inline constexpr size_t kIdleBytesMax = size_t{64} << 20;

class IdleAutomaton {
 public:
  /// Nullopt: there are too many already.
  static std::optional<IdleAutomaton> keep(std::unique_ptr<Automaton> automaton);
  IdleAutomaton(IdleAutomaton&& other) noexcept;
  IdleAutomaton& operator=(IdleAutomaton&&) = delete;
  ~IdleAutomaton();
  std::unique_ptr<Automaton> take();

 private:
  IdleAutomaton(std::unique_ptr<Automaton> automaton, size_t bytes);
  std::unique_ptr<Automaton> automaton_;
  size_t bytes_;
};

class Grammar {
 public:
  std::vector<Symbol> symbols;
  std::vector<uint32_t> starts;  ///< positions of the beginnings of alternatives
  std::vector<Position> positions;
  std::vector<MemberList> lists;
  uint32_t accept = 0;  ///< a rule with one alternative, the start symbol, that nothing refers to
  RegexPool regexes;

  // Automata that matchers gave back, with all that they found out. They serve the next matchers.
  mutable std::mutex mutex;
  mutable std::vector<IdleAutomaton> idle;

  Grammar();
  ~Grammar();
  /// Approximate memory, without that of automata.
  size_t bytes() const {
    return symbols.size() * sizeof(Symbol) + starts.size() * sizeof(uint32_t) + positions.size() * sizeof(Position) +
           regexes.memory_used() + regexes.shared_bytes();
  }
};

}  // namespace cairn::grammar
