/// Prompts for rerankers: a query and a document as the tokens on which a model that scores pairs was trained.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "engine/engine.h"
#include "jinja/jinja.h"
#include "tokenizer/tokenizer.h"

namespace cairn::chat {

/// Metadata key of the template for models that get both texts in a written prompt (Qwen3-Reranker).
inline constexpr std::string_view kRerankTemplateKey = "tokenizer.chat_template.rerank";

/// Fills a template: the query replaces {query} and the document {document}, wherever they are; placeholders within the
/// two are left alone. Both are foreign text, the rest is the file's own.
jinja::Rendering fill_rerank_template(std::string_view source, std::string_view query, std::string_view document);

struct PairPrompt {
  std::vector<TokenId> tokens;
  int32_t second_begin = model::kNoSecond;  ///< as in EmbedText
  size_t left_out = 0;                      ///< tokens of the document, to make it fit
};

/// The prompts for one query. The file's metadata and the tokenizer outlive it.
class PairPrompts {
 public:
  /// Uses the file's template if it has one, else the tokens that SpecialTokens (tokenizer.h) names. Errors:
  /// Tokenizer::encode's.
  static Result<PairPrompts> make(const gguf::Metadata& metadata, const tokenizer::Tokenizer& tokenizer,
                                  std::string_view query);

  bool by_template() const { return !template_.empty(); }
  /// Tokens of the query in front of each document; 0 with a template.
  size_t query_tokens() const { return first_.size(); }
  /// The prompt with one document, cut to `tokens_max` unless that is 0 or there is a template, and before that the
  /// document to `document_tokens_max` unless that is 0; the closing token is kept. Errors: Tokenizer::encode's;
  /// kContextLengthExceeded (the query leaves no room).
  Result<PairPrompt> with(std::string_view document, size_t tokens_max, size_t document_tokens_max = 0) const;

 private:
  /// The beginning of the document that has so many tokens.
  Result<std::string> beginning(std::string_view document, size_t tokens_max) const;
  explicit PairPrompts(const tokenizer::Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}

  const tokenizer::Tokenizer* tokenizer_;
  std::string_view template_;
  std::string query_;
  std::vector<TokenId> first_;  // the query's tokens, without a template
};

}  // namespace cairn::chat
