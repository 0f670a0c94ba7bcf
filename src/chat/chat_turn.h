/// One answer in a conversation, taken apart.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cairn {

struct ToolCall {
  std::string id;
  std::string name;
  std::string arguments;  ///< JSON, if the model's output was valid UTF-8
};

/// All that one choice said.
struct ChatTurn {
  std::string content;
  std::string reasoning;
  std::vector<ToolCall> calls;
};

/// For a place in an answer's tokens: its thinking ends within a token.
inline constexpr size_t kNoThinkingEnd = SIZE_MAX;

}  // namespace cairn
