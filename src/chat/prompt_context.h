/// The parts of a model that are needed to make a prompt.
#pragma once

#include <cstdint>
#include <string_view>

#include "chat/chat_template.h"
#include "chat/output/output_parser.h"
#include "tokenizer/tokenizer.h"

namespace cairn::chat {

/// A view; all that it refers to outlives it.
struct PromptContext {
  std::string_view model_name;
  const tokenizer::Tokenizer& tokenizer;
  const ChatTemplate& chat_template;
  const OutputFormat& output_format;  ///< format of the model's answers
  int32_t context_tokens = 0;
  bool cuts_prompts = false;  ///< prompts that are too long are cut later, so that none is refused for its length
};

}  // namespace cairn::chat
