/// One answer in a conversation, parsed into its parts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cairn::chat {

struct ToolCall {
  std::string id;
  std::string name;
  std::string arguments;  ///< JSON, if the model's output was valid UTF-8
};

/// The whole answer of one choice.
struct ChatTurn {
  std::string content;
  std::string reasoning;
  std::vector<ToolCall> calls;
};

/// Index in an answer's tokens if its thinking ends within a token.
inline constexpr size_t kNoThinkingEnd = SIZE_MAX;

}  // namespace cairn::chat
