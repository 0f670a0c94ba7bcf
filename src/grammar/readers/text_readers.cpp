#include "grammar/readers/text_readers.h"

#include <vector>

#include "base/text/utf8.h"
#include "grammar/readers/regex_reader.h"

namespace cairn::grammar {

Result<std::shared_ptr<const Grammar>> read_regex_grammar(std::string_view pattern) {
  GrammarBuilder builder;
  CAIRN_TRY(const RegexId regex, read_regex(builder.regexes(), pattern));
  auto made = builder.finish(builder.terminal(regex));
  if (!made && made.error().at.empty()) made.error().at = "0";
  return made;
}

Result<SymbolId> add_choice(GrammarBuilder& builder, std::span<const std::string> choices) {
  if (choices.empty()) return fail(Code::kInvalidArgument, "there is nothing to choose from");
  if (choices.size() > kChoicesMax) return fail(Code::kTooLarge, "there are more than {} choices", kChoicesMax);
  size_t bytes = 0;
  for (size_t i = 0; i < choices.size(); ++i) {
    if (!utf8_valid(choices[i])) return fail_at(std::to_string(i), Code::kInvalidArgument, "the choice is not UTF-8");
    bytes += choices[i].size();
    if (bytes > kChoiceBytesMax)
      return fail_at(std::to_string(i), Code::kTooLarge, "the choices are longer than {} bytes together",
                     kChoiceBytesMax);
  }
  return builder.terminal(builder.regexes().texts({choices.begin(), choices.end()}));
}

Result<std::shared_ptr<const Grammar>> read_choice(std::span<const std::string> choices) {
  GrammarBuilder builder;
  CAIRN_TRY(const SymbolId choice, add_choice(builder, choices));
  return builder.finish(choice);
}

}  // namespace cairn::grammar
