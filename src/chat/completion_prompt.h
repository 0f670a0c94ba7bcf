/// Encodes text to be continued as token ids, with the beginning token once; and functions that prompts of
/// conversations share with it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "chat/prompt_context.h"

namespace cairn::chat {

/// Renders the conversation with the model's template at the current time. Errors: the template's.
Result<std::string> render_chat(const PromptContext& context, const ChatInput& input);
/// Stop strings of a conversation: for a model without a template of its own, the fallback's end of turn, which its
/// vocabulary may not have as a token.
std::vector<std::string> chat_stops(const PromptContext& context);
/// Texts of up to this many bytes are tokenised before they are found too long: that is fast, and gives the exact
/// count.
inline constexpr size_t kCountedTextBytes = 256 << 10;

/// Error (kContextLengthExceeded): the length of a text alone shows that its tokens do not fit into the context.
Result<void> check_length(const PromptContext& context, std::string_view text, const std::string& path);
/// Appends the tokens of a text that follows `tokens`, from which `options.after` is set.
Result<void> append_text(const tokenizer::Tokenizer& tokenizer, std::string_view text, tokenizer::EncodeOptions options,
                         std::vector<TokenId>& tokens);
/// Tokens of text to be continued: they begin as the file says, and never end with an end token.
Result<std::vector<TokenId>> completion_prompt_tokens(const PromptContext& context, std::string_view text,
                                                      const std::string& path = "prompt");

}  // namespace cairn::chat
