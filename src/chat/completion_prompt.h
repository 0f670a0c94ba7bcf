/// Text to be continued -> token ids, beginning token included once; and what prompts of conversations share with it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "chat/prompt_context.h"

namespace cairn {

/// The conversation as the model's template writes it, now. Errors: the template's.
Result<std::string> render_chat(const PromptContext& context, const ChatInput& input);
/// Text that ends an answer in a conversation: for a model without a template of its own, the fallback's end of turn,
/// which its vocabulary may not have as a token.
std::vector<std::string> chat_stops(const PromptContext& context);
/// Texts of up to so many bytes are cut into tokens before they are found too long: that is quickly done, and counts.
inline constexpr size_t kCountedTextBytes = 256 << 10;

/// Error (kContextLengthExceeded): the length of a long text alone says that its tokens do not fit into the context.
Result<void> check_length(const PromptContext& context, std::string_view text, const std::string& path);
/// Appends the tokens of a text that goes on from `tokens`, which says what `options.after` is.
Result<void> append_text(const Tokenizer& tokenizer, std::string_view text, EncodeOptions options,
                         std::vector<TokenId>& tokens);
/// Tokens of text to be continued: begins as the file says, and never ends with an end token.
Result<std::vector<TokenId>> completion_prompt_tokens(const PromptContext& context, std::string_view text);

}  // namespace cairn
