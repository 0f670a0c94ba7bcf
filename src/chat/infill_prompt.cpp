#include "chat/infill_prompt.h"

#include <algorithm>

#include "chat/completion_prompt.h"

namespace cairn::chat {
namespace {

// llama.cpp's server writes them so: names stand only where the vocabulary has a token for them.
constexpr std::string_view kRepository = "myproject\n";
constexpr std::string_view kThisFile = "filename\n";
constexpr std::string_view kSnippet = "\n\n--- snippet ---\n\n";

Result<std::vector<TokenId>> file_tokens(const tokenizer::Tokenizer& tokenizer, const std::vector<InfillFile>& files) {
  const tokenizer::FillInMiddleTokens& fim = tokenizer.special().fim;
  std::vector<TokenId> tokens;
  if (fim.repository != kNoToken && fim.file != kNoToken) {
    tokens.push_back(fim.repository);
    CAIRN_TRY_VOID(append_text(tokenizer, kRepository, {}, tokens));
  }
  for (const InfillFile& file : files) {
    if (fim.file != kNoToken) {
      tokens.push_back(fim.file);
      CAIRN_TRY_VOID(append_text(tokenizer, (file.name.empty() ? "tmp" : file.name) + "\n", {}, tokens));
    } else {
      CAIRN_TRY_VOID(append_text(tokenizer, kSnippet, {}, tokens));
    }
    CAIRN_TRY_VOID(append_text(tokenizer, file.text, {}, tokens));
  }
  if (fim.file != kNoToken) {
    tokens.push_back(fim.file);
    CAIRN_TRY_VOID(append_text(tokenizer, kThisFile, {}, tokens));
  }
  return tokens;
}

}  // namespace

bool can_fill_in(const tokenizer::Tokenizer& tokenizer) {
  const tokenizer::FillInMiddleTokens& fim = tokenizer.special().fim;
  return fim.prefix != kNoToken && fim.suffix != kNoToken && fim.middle != kNoToken;
}

Result<std::vector<TokenId>> infill_prompt_tokens(const PromptContext& context, const InfillInput& input,
                                                  int32_t answer_tokens) {
  const tokenizer::SpecialTokens& special = context.tokenizer.special();
  const tokenizer::FillInMiddleTokens& fim = special.fim;
  if (!can_fill_in(context.tokenizer)) {
    return fail_at("model", Code::kUnsupported,
                   "this model cannot fill in the middle: its vocabulary lacks the token for the {}",
                   fim.prefix == kNoToken   ? "prefix"
                   : fim.suffix == kNoToken ? "suffix"
                                            : "middle");
  }
  CAIRN_TRY_VOID(check_length(context, input.prefix, input.prefix_field));
  CAIRN_TRY_VOID(check_length(context, input.suffix, input.suffix_field));
  std::vector<TokenId> core = {fim.prefix};
  CAIRN_TRY_VOID(append_text(context.tokenizer, input.prefix, {}, core));
  CAIRN_TRY_VOID(append_text(context.tokenizer, input.prompt, {}, core));
  core.push_back(fim.suffix);
  CAIRN_TRY_VOID(append_text(context.tokenizer, input.suffix, {}, core));
  core.push_back(fim.middle);

  std::vector<TokenId> tokens;
  if (special.add_bos) tokens.push_back(special.bos);
  if (!input.files.empty()) {
    CAIRN_TRY(const std::vector<TokenId> files, file_tokens(context.tokenizer, input.files));
    const int64_t room = int64_t{context.context_tokens} - std::max(1, answer_tokens) -
                         static_cast<int64_t>(core.size() + tokens.size());
    const int64_t kept = std::clamp<int64_t>(room, 0, static_cast<int64_t>(files.size()));
    tokens.insert(tokens.end(), files.end() - kept, files.end());
  }
  tokens.insert(tokens.end(), core.begin(), core.end());
  return tokens;
}

}  // namespace cairn::chat
