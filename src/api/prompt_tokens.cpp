#include "api/prompt_tokens.h"

#include <ctime>

namespace cairn::api {

Result<std::string> render_chat(const LoadedModel& model, const ChatInput& input) {
  CAIRN_TRY(Rendering rendering, model.chat_template.render(input, std::time(nullptr)));
  return std::move(rendering.text);
}

std::vector<std::string> chat_stops(const LoadedModel& model) {
  if (!model.chat_template.is_fallback()) return {};
  return {"<|im_end|>"};
}

Result<void> append_text(const Tokenizer& tokenizer, std::string_view text, EncodeOptions options,
                         std::vector<TokenId>& tokens) {
  options.after = tokens.empty() ? kNoToken : tokens.back();
  CAIRN_TRY(const auto encoded, tokenizer.encode(text, options));
  tokens.insert(tokens.end(), encoded.begin(), encoded.end());
  return {};
}

Result<std::vector<TokenId>> completion_prompt_tokens(const LoadedModel& model, std::string_view text) {
  CAIRN_TRY(auto tokens, model.tokenizer->encode(text, {.add_special = true, .parse_special = true}));
  const SpecialTokens& special = model.tokenizer->special();
  if (special.add_eos && !tokens.empty() && tokens.back() == special.eos) tokens.pop_back();
  if (tokens.empty() && special.bos != kNoToken) tokens.push_back(special.bos);
  if (tokens.empty())
    return fail_at("prompt", Code::kInvalidArgument,
                   "the prompt is empty; this model has no beginning token to start from");
  return tokens;
}

}  // namespace cairn::api
