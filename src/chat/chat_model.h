/// The parts of a model that its answers in a conversation are made with.
#pragma once

#include <cstdint>
#include <string_view>

#include "chat/chat_template.h"
#include "chat/constraints/constraint_tables.h"
#include "chat/prompt_context.h"

namespace cairn::chat {

/// A view; all that it refers to outlives it.
struct ChatModel : PromptContext {
  std::string_view template_source;           ///< of chat_template; empty: it has one of its own
  const TemplateDefaults& template_defaults;  ///< where a request says nothing
  ConstraintTables& constraints;
  uint64_t fingerprint = 0;  ///< of the model's file
};

}  // namespace cairn::chat
