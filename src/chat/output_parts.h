/// The parts of a model's output after parsing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace cairn::chat {

/// Bounds of parsing one answer. Output beyond them becomes text, or a broken call if its header was emitted already.
inline constexpr int32_t kCallsMax = 128;            ///< calls of one answer
inline constexpr size_t kHeldBytesMax = 128u << 10;  ///< bytes of output held back until it is known what it is
/// Bytes of a tagged value that may not be a string, held back to its end.
inline constexpr size_t kValueBytesMax = 64u << 10;
inline constexpr size_t kCallNameBytesMax = 256;       ///< bytes of a function's name, and of a call's id
inline constexpr size_t kArgumentKeyBytesMax = 4'096;  ///< bytes of one key within arguments
inline constexpr size_t kArgumentDepthMax = 100;       ///< nesting of arguments
/// Bytes of whitespace held back, as it may only separate text from a call.
inline constexpr size_t kSpaceBytesMax = 4'096;

enum class PartKind {
  kContent,
  kReasoning,
  kCallBegin,  ///< `text` is the function's name
  kArguments,  ///< `text` is the next piece of the call's arguments
  kCallEnd,
};

/// How a call ended. What the model did not write is never added, so that nobody runs a call that the model did not
/// make.
enum class CallState {
  kWhole,   ///< the arguments are valid JSON, if the output was valid UTF-8
  kCut,     ///< the output ended within the call: the arguments are as far as they came, and no valid JSON
  kBroken,  ///< the arguments end with what could not be read, as the model wrote it, up to the call's end
};

/// A part of the output. Adjacent parts of one kind and call are a single part that was cut.
struct Part {
  PartKind kind = PartKind::kContent;
  std::string text;   ///< kCallEnd of a call that is not whole: all of the call, as the model wrote it
  int32_t call = -1;  ///< index of the call in the answer, from 0
  std::string id;     ///< kCallBegin: the id that the model gave, in formats in which ids are sent back to it
  CallState state = CallState::kWhole;  ///< set for kCallEnd

  bool operator==(const Part&) const = default;
};

}  // namespace cairn::chat
