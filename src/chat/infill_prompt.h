/// A prompt to fill in the middle of a text: what comes before it, what comes after it, and other files.
///
/// The order is that of llama.cpp's POST /infill, and of the models that know it (Qwen2.5-Coder, StarCoder 2, ...).
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "chat/prompt_context.h"

namespace cairn::chat {

/// A part of another file.
struct InfillFile {
  std::string name;  ///< may be empty
  std::string text;
};

struct InfillInput {
  std::string prefix;
  std::string suffix;
  std::string prompt{};  ///< goes on with the prefix
  std::vector<InfillFile> files{};
  std::string prefix_field = "input_prefix", suffix_field = "input_suffix";  ///< of the request, for errors
};

/// Whether the vocabulary has the tokens for it.
bool can_fill_in(const tokenizer::Tokenizer& tokenizer);

/// Tokens of [files] prefix-token prefix prompt suffix-token suffix middle-token, with the beginning token once. No
/// text becomes a special token. Of files, what does not fit into the context with `answer_tokens` more is left out,
/// from the first one on. Errors: kUnsupported (the model has no such tokens), kContextLengthExceeded.
Result<std::vector<TokenId>> infill_prompt_tokens(const PromptContext& context, const InfillInput& input,
                                                  int32_t answer_tokens);

}  // namespace cairn::chat
