#include "loader/model_facts.h"

#include "chat/infill_prompt.h"
#include "chat/output/output_parser.h"

namespace cairn::loader {

ModelFacts model_facts(const tokenizer::Tokenizer& tokenizer, const chat::ChatTemplate& chat_template,
                       std::string_view template_source) {
  const auto piece = [&](TokenId id) {
    return id == kNoToken ? std::nullopt : std::optional(std::string(tokenizer.piece(id, true)));
  };
  const tokenizer::SpecialTokens& special = tokenizer.special();
  const chat::ChatCapabilities& can = chat_template.capabilities();
  return {
      .template_source = std::string(template_source),
      .template_can = can,
      .bos = piece(special.bos),
      .eos = piece(special.eos),
      .padding = piece(special.padding),
      .vocabulary = tokenizer.size(),
      .thinks = can.effort || chat::speaks_of_thinking(chat::detect_output_format(template_source), template_source),
      .fills_in = chat::can_fill_in(tokenizer)};
}

}  // namespace cairn::loader
