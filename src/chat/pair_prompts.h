/// A query and a document as the tokens that a model which judges pairs was trained on.
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

namespace cairn {

/// Template of a file whose model gets both texts in a prompt of words (Qwen3-Reranker).
inline constexpr std::string_view kRerankTemplateKey = "tokenizer.chat_template.rerank";

/// A template with the query for {query} and the document for {document}, each wherever it stands; what they say
/// themselves is not looked at. They are foreign, the rest is the file's own.
Rendering fill_rerank_template(std::string_view source, std::string_view query, std::string_view document);

struct PairPrompt {
  std::vector<TokenId> tokens;
  int32_t second_begin = kNoSecond;  ///< EmbedText's
};

/// The prompts of one query. The file's metadata and the tokenizer outlive it.
class PairPrompts {
 public:
  /// By the file's template if it has one, else as SpecialTokens (tokenizer.h) says. Errors: Tokenizer::encode's.
  static Result<PairPrompts> make(const gguf::Metadata& metadata, const Tokenizer& tokenizer, std::string_view query);

  bool by_template() const { return !template_.empty(); }
  /// With one document, cut to `tokens_max` unless that is 0 or there is a template; the token that closes it stays.
  /// Errors: Tokenizer::encode's; kContextLengthExceeded (the query leaves no room).
  Result<PairPrompt> with(std::string_view document, size_t tokens_max) const;

 private:
  explicit PairPrompts(const Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}

  const Tokenizer* tokenizer_;
  std::string_view template_;
  std::string query_;
  std::vector<TokenId> first_;  // without a template
};

}  // namespace cairn
