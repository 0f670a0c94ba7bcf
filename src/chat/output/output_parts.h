/// What a model's output is made of once its markers are understood.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace cairn {

/// Bounds of parsing one answer. What is over them becomes text, or a broken call if its header is out already.
inline constexpr int32_t kCallsMax = 128;              ///< calls of one answer
inline constexpr size_t kHeldBytesMax = 128u << 10;    ///< output held back until it is known what it is
inline constexpr size_t kValueBytesMax = 64u << 10;    ///< a tagged value that may be no string, held to its end
inline constexpr size_t kCallNameBytesMax = 256;       ///< of a function's name, and of a call's id
inline constexpr size_t kArgumentKeyBytesMax = 4'096;  ///< of one key within arguments
inline constexpr size_t kArgumentDepthMax = 100;       ///< nesting of arguments
inline constexpr size_t kSpaceBytesMax = 4'096;        ///< whitespace held back, as it may only part text from a call

enum class PartKind {
  kContent,
  kReasoning,
  kCallBegin,  ///< `text` is the function's name
  kArguments,  ///< `text` is the next piece of the call's arguments
  kCallEnd,
};

/// How a call came to its end. The arguments are valid JSON in every case, if the output was valid UTF-8.
enum class CallState {
  kWhole,
  kRepaired,  ///< the output ended within the call; what was open has been closed
  kBroken,    ///< the output went on with something that belongs to no call; it follows as content
};

/// Neighbours of one kind and call are one part, cut in two.
struct Part {
  PartKind kind = PartKind::kContent;
  std::string text;
  int32_t call = -1;                    ///< which call of the answer, from 0
  std::string id;                       ///< kCallBegin: the id that the model gave, in formats that take it back
  CallState state = CallState::kWhole;  ///< kCallEnd

  bool operator==(const Part&) const = default;
};

}  // namespace cairn
