/// What a Matcher holds.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "grammar/automaton.h"
#include "grammar/matcher.h"

namespace cairn::grammar {

struct Matcher::State {
  std::shared_ptr<const Grammar> grammar;
  std::unique_ptr<Automaton> automaton;
  std::vector<RowId> rows;  ///< before each byte, and after the last
  std::string taken;
  size_t budget = 0;  ///< bytes of the automaton
  /// Takes the automaton's place once it has read the answer, too. It reads a part of it at a time.
  std::unique_ptr<Automaton> successor;
  std::vector<RowId> successor_rows;
  std::optional<Error> failure;
  uint64_t large_work = 0;  ///< of the bytes and masks that took over kLargeMaskWork

  /// Counts the work of a byte or a mask; false: the answer has had too much.
  bool count_work(uint64_t work);

  explicit State(std::shared_ptr<const Grammar> of);
  ~State();
  /// Whether the next step begins or goes on to forget what is too much to keep.
  bool is_full() const { return successor != nullptr || automaton->bytes_used() > budget; }
  void collect();
  void read_again();
  void fail_at_limit();
  bool push(uint8_t byte);
};

}  // namespace cairn::grammar
