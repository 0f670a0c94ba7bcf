#include "chat/pair_prompts.h"

#include <algorithm>

#include "base/text/utf8.h"

namespace cairn::chat {

jinja::Rendering fill_rerank_template(std::string_view source, std::string_view query, std::string_view document) {
  constexpr std::string_view kQuery = "{query}", kDocument = "{document}";
  jinja::Rendering filled;
  std::string& text = filled.text;
  const auto put_foreign = [&](std::string_view part) {
    const size_t begin = text.size();
    text += part;
    if (part.empty()) return;
    auto& foreign = filled.foreign;
    if (!foreign.empty() && foreign.back().end == begin) {
      foreign.back().end = text.size();
    } else {
      foreign.push_back({begin, text.size()});
    }
  };
  while (!source.empty()) {
    const size_t brace = std::min(source.find('{'), source.size());
    text += source.substr(0, brace);
    source.remove_prefix(brace);
    if (source.starts_with(kQuery)) {
      put_foreign(query);
      source.remove_prefix(kQuery.size());
    } else if (source.starts_with(kDocument)) {
      put_foreign(document);
      source.remove_prefix(kDocument.size());
    } else if (!source.empty()) {
      text += source.front();
      source.remove_prefix(1);
    }
  }
  return filled;
}

Result<PairPrompts> PairPrompts::make(const gguf::Metadata& metadata, const tokenizer::Tokenizer& tokenizer,
                                      std::string_view query) {
  PairPrompts pairs(tokenizer);
  CAIRN_TRY(pairs.template_, metadata.string_or(kRerankTemplateKey, ""));
  pairs.query_ = query;
  if (!pairs.by_template()) {
    CAIRN_TRY(pairs.first_, tokenizer.encode_first(query));
  }
  return pairs;
}

Result<std::string> PairPrompts::beginning(std::string_view document, size_t tokens_max) const {
  CAIRN_TRY(std::vector<TokenId> tokens, tokenizer_->encode(document, {}));
  if (tokens.size() <= tokens_max) return std::string(document);
  tokens.resize(tokens_max);
  return utf8_replace_invalid(tokenizer_->decode(tokens, false));
}

Result<PairPrompt> PairPrompts::with(std::string_view document, size_t tokens_max, size_t document_tokens_max) const {
  if (document_tokens_max > 0) {
    CAIRN_TRY(const std::string cut, beginning(document, document_tokens_max));
    return with(cut, tokens_max);
  }
  PairPrompt pair;
  if (by_template()) {
    const jinja::Rendering prompt = fill_rerank_template(template_, query_, document);
    CAIRN_TRY(pair.tokens, tokenizer_->encode(prompt.text, {.parse_special = true, .foreign = prompt.foreign}));
    return pair;
  }
  CAIRN_TRY(const std::vector<TokenId> second, tokenizer_->encode_second(document));
  pair.tokens = first_;
  pair.second_begin = static_cast<int32_t>(first_.size());
  pair.tokens.insert(pair.tokens.end(), second.begin(), second.end());
  if (tokens_max == 0 || pair.tokens.size() <= tokens_max) return pair;
  if (first_.size() + 1 >= tokens_max) {
    return fail(Code::kContextLengthExceeded, "the query has {} tokens, which leaves none of {} to a document",
                first_.size(), tokens_max);
  }
  pair.left_out = pair.tokens.size() - tokens_max;
  pair.tokens.resize(tokens_max);
  if (tokenizer_->special().add_eos) pair.tokens.back() = tokenizer_->special().eos;
  return pair;
}

}  // namespace cairn::chat
