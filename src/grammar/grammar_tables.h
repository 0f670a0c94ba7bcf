/// What a Grammar holds: flat arrays that never change.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "grammar/grammar.h"
#include "grammar/regex.h"

namespace cairn::grammar {

class Automaton;

enum class SymbolKind : uint8_t { kTerminal, kRule, kRepeat };

struct Symbol {
  SymbolKind kind = SymbolKind::kTerminal;
  bool nullable = false;
  RegexId regex = kNoMatch;  ///< kTerminal
  uint32_t first = 0;        ///< kRule: its alternatives in Grammar::starts, `count` of them. kRepeat: its position
  uint32_t count = 0;
  uint32_t inner = 0;  ///< kRepeat: what is repeated
  uint32_t min = 0;    ///< kRepeat
  uint32_t max = 0;    ///< kRepeat, or kNoCount
};

inline constexpr uint32_t kNoCount = 0xFFFF'FFFF;
inline constexpr uint32_t kEnd = 0xFFFF'FFFF;  ///< the symbol of the position after an alternative's last one

/// A dot within an alternative; the next one is the dot behind its symbol. A kRepeat symbol has one position of its
/// own.
struct Position {
  uint32_t symbol = kEnd;
  uint32_t rule = 0;    ///< what the alternative belongs to
  bool last = false;    ///< no symbol follows this one
  bool repeat = false;  ///< of a kRepeat symbol
};

class Grammar {
 public:
  std::vector<Symbol> symbols;
  std::vector<uint32_t> starts;  ///< positions of the beginnings of alternatives
  std::vector<Position> positions;
  uint32_t accept = 0;  ///< a rule with one alternative, the start symbol, that nothing refers to
  RegexPool regexes;

  // Automata that matchers gave back, with all that they found out. They serve the next matchers.
  mutable std::mutex mutex;
  mutable std::vector<std::unique_ptr<Automaton>> idle;

  Grammar();
  ~Grammar();
};

}  // namespace cairn::grammar
