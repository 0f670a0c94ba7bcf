/// The input of a custom tool, out of the arguments that the model writes for it: {"input": "..."} -> ...
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace cairn::api::responses {

/// Takes the arguments piece by piece, as they are sampled.
class CustomInput {
 public:
  /// Appends `text` to the arguments; what of the input is certain now and was not before.
  std::string add(std::string_view text);
  /// The arguments are over: the rest of the input. What is no object with that string is the input as it stands.
  std::string finish();

 private:
  enum class State { kBefore, kInside, kBehind };
  /// Reads the beginning of the object up to the string's first character, if it is all there.
  void begin();
  /// Appends to `out` what is certain of the string from `at_` on.
  void decode(std::string& out);
  /// The escape at `at_`: bytes that it takes, 0: not all of it is there.
  size_t escape(std::string& out) const;

  State state_ = State::kBefore;
  std::string text_;  // all arguments so far
  size_t at_ = 0;     // in text_: the next character of the string
};

}  // namespace cairn::api::responses
