#include "chat/completion_prompt.h"

#include <ctime>

namespace cairn::chat {

Result<std::string> render_chat(const PromptContext& context, const ChatInput& input) {
  CAIRN_TRY(jinja::Rendering rendering, context.chat_template.render(input, std::time(nullptr)));
  return std::move(rendering.text);
}

std::vector<std::string> chat_stops(const PromptContext& context) {
  if (!context.chat_template.is_fallback()) return {};
  return {"<|im_end|>"};
}

Result<void> check_length(const PromptContext& context, std::string_view text, const std::string& path) {
  const size_t each = context.tokenizer.text_bytes_per_token();
  const auto context_tokens = static_cast<size_t>(context.context_tokens);
  if (context.cuts_prompts || text.size() <= kCountedTextBytes || each == 0 || text.size() / each <= context_tokens)
    return {};
  auto failure = fail_at(path, Code::kContextLengthExceeded,
                         "the prompt has {} bytes and thus more than {} tokens, but the context has {}: shorten the "
                         "prompt or start with a longer context",
                         text.size(), text.size() / each, context_tokens);
  failure.error().overflow = {static_cast<int64_t>(text.size() / each), context.context_tokens};
  return failure;
}

Result<void> append_text(const tokenizer::Tokenizer& tokenizer, std::string_view text, tokenizer::EncodeOptions options,
                         std::vector<TokenId>& tokens) {
  options.after = tokens.empty() ? kNoToken : tokens.back();
  CAIRN_TRY(const auto encoded, tokenizer.encode(text, options));
  tokens.insert(tokens.end(), encoded.begin(), encoded.end());
  return {};
}

Result<std::vector<TokenId>> completion_prompt_tokens(const PromptContext& context, std::string_view text,
                                                      const std::string& path) {
  CAIRN_TRY_VOID(check_length(context, text, path));
  CAIRN_TRY(auto tokens, context.tokenizer.encode(text, {.add_special = true, .parse_special = true}));
  const tokenizer::SpecialTokens& special = context.tokenizer.special();
  if (special.add_eos && !tokens.empty() && tokens.back() == special.eos) tokens.pop_back();
  if (tokens.empty() && special.bos != kNoToken) tokens.push_back(special.bos);
  if (tokens.empty())
    return fail_at(path, Code::kInvalidArgument,
                   "the prompt is empty; this model has no beginning token to start from");
  return tokens;
}

}  // namespace cairn::chat
