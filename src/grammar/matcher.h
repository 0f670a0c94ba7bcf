/// Whether a text, read byte by byte, is in a grammar's language, or can become one that is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "grammar/grammar.h"

namespace cairn::grammar {

/// The state of one answer: an Earley parser (Earley 1970) whose items hold the state of the terminal that they are in.
/// Not thread-safe.
class Matcher {
 public:
  explicit Matcher(std::shared_ptr<const Grammar> grammar);
  Matcher(Matcher&&) noexcept;
  Matcher& operator=(Matcher&&) noexcept;
  ~Matcher();

  /// Takes a byte. False: no text of the language goes on so, and the state is as before.
  bool push(uint8_t byte);
  /// Takes as many bytes as can be taken; returns how many.
  size_t push(std::string_view bytes);
  /// Whether what was taken is a text of the language.
  bool may_end() const;
  /// Bytes that may come next; empty: the text must end.
  ByteSet next_bytes() const;
  /// The only byte that can follow, if there is one and the text may not end here.
  std::optional<uint8_t> forced() const;

  /// Bytes taken so far, and back to an earlier number of them. Costs nothing.
  size_t position() const;
  void rewind(size_t position);

  /// Set when a limit on the work for one byte or mask was reached (kTooLarge, which one); nothing can be pushed then.
  const std::optional<Error>& failure() const;

  struct State;
  /// For TokenMasks.
  State& state() { return *state_; }
  const State& state() const { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

}  // namespace cairn::grammar
