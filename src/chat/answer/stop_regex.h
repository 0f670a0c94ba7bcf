/// Regular expressions that end an answer: SGLang's `stop_regex`.
///
/// The answer ends with the first byte up to which its text has a part that matches, so that the match stays in it. `$`
/// and `\b` take the text so far for all of it. The text is read byte by byte with derivatives of the expressions
/// (grammar/regex/regex.h), which find in time that is linear in the text what matches, within limits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/error.h"
#include "engine/output/text_end.h"

namespace cairn::chat {

inline constexpr size_t kStopRegexesMax = 8;
inline constexpr size_t kStopRegexBytesMax = 1'024;
/// Nodes of an expression that may be looked at for one byte of the text, and for all of an answer.
inline constexpr uint64_t kStopRegexByteWorkMax = 5'000;
inline constexpr uint64_t kStopRegexWorkMax = 4'000'000;
/// What may be kept of an expression; what is not needed for the text from here on is forgotten before.
inline constexpr size_t kStopRegexMemoryMax = size_t{4} << 20;

/// Immutable; shared by the choices of a request.
class StopRegexes {
  struct State;

 public:
  /// Errors: kInvalidArgument, kUnsupported or kTooLarge at stop_regex: one is no expression, is not read here, or
  /// matches the empty text.
  static Result<std::shared_ptr<const StopRegexes>> read(std::span<const std::string> patterns);
  explicit StopRegexes(std::unique_ptr<State> state);  ///< for read()
  ~StopRegexes();

  /// For one answer.
  std::shared_ptr<engine::TextEnd> make_end() const;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace cairn::chat
