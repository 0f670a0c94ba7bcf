/// The text of a sequence's answer: what of it is certain, and where it ends by itself.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "engine/event.h"
#include "engine/output/stop_matcher.h"
#include "engine/output/text_end.h"
#include "engine/request.h"
#include "tokenizer/detokenizer.h"
#include "tokenizer/tokenizer.h"

namespace cairn::engine {

/// Thread: the engine's.
class SequenceText {
 public:
  /// Takes the request's stop strings. `tokenizer` outlives this.
  SequenceText(GenerateRequest& request, const tokenizer::Tokenizer& tokenizer);

  /// Appends to `text` what becomes certain with the token. Gives why the text ends there, if it does: with kStop
  /// `stop` is the stop string or what TextEnd says, with kLength a line is indented too little. Errors: TextEnd's.
  Result<std::optional<FinishReason>> push(TokenId token, std::string& text, std::string& stop);
  /// Ends the text: gives the finish what is held back, unless that completes a stop string, or what TextEnd looks for.
  void flush(Finish& finish);
  /// Appends the text of a stop token, if the request shows them.
  void add_stop_token(TokenId token, std::string& text) const;
  /// Whether a line has ended.
  bool line_ended() const { return indent_matcher_.line_ended(); }

 private:
  /// Cuts the text that comes next where TextEnd ends it. True: it does, and `stop` is what it says.
  Result<bool> end_text(std::string& text, std::string& stop);

  const tokenizer::Tokenizer& tokenizer_;
  std::vector<std::string> stops_;
  size_t shown_stops_;
  bool shows_stop_tokens_;
  tokenizer::Detokenizer detokenizer_;
  StopMatcher stop_matcher_;
  IndentMatcher indent_matcher_;
  std::shared_ptr<TextEnd> text_end_;  // null: nothing ends the text but stop strings
};

}  // namespace cairn::engine
