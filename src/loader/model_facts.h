/// What is told of a model that its weights are not needed for: its tokens and its chat template.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "chat/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace cairn::loader {

struct ModelFacts {
  std::string template_source;  ///< of its chat template; empty: one of the program's own
  chat::ChatCapabilities template_can{};
  std::optional<std::string> bos{}, eos{}, padding{};  ///< texts of those tokens; nullopt: it has none
  int64_t vocabulary = 0;                              ///< tokens
  bool thinks = false;                                 ///< its template speaks of thinking
  bool fills_in = false;                               ///< it has the tokens to fill in the middle
  bool drafts = false;                                 ///< another model drafts for it
};

ModelFacts model_facts(const tokenizer::Tokenizer& tokenizer, const chat::ChatTemplate& chat_template,
                       std::string_view template_source);

}  // namespace cairn::loader
