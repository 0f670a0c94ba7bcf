#include "engine/sequence/sequence_text.h"

#include <utility>

#include "base/text/utf8.h"
#include "engine/failures.h"

namespace cairn::engine {

SequenceText::SequenceText(GenerateRequest& request, const tokenizer::Tokenizer& tokenizer)
    : tokenizer_(tokenizer),
      stops_(std::move(request.stop)),
      shown_stops_(request.shown_stops),
      shows_stop_tokens_(request.shows_stop_tokens),
      detokenizer_(tokenizer, request.text_at_start, request.render_special),
      stop_matcher_(stops_),
      indent_matcher_(request.line_indent_min),
      text_end_(std::move(request.text_end)) {}

Result<bool> SequenceText::end_text(std::string& text, std::string& stop) {
  if (text_end_ == nullptr) return false;
  CAIRN_TRY(const auto end, text_end_->push(text));
  if (!end) return false;
  text.resize(end->bytes);
  stop = end->what;
  return true;
}

Result<std::optional<FinishReason>> SequenceText::push(TokenId token, std::string& text, std::string& stop) {
  const int32_t found = stop_matcher_.push(detokenizer_.push(token), text);
  CAIRN_TRY(const bool ends, end_text(text, stop));
  if (ends) return FinishReason::kStop;
  if (found >= 0) {
    stop = stops_[static_cast<size_t>(found)];
    if (static_cast<size_t>(found) < shown_stops_) text += stop;
    return FinishReason::kStop;
  }
  const size_t indented = indent_matcher_.push(text);
  if (indented >= text.size()) return std::nullopt;
  text.resize(indented);
  return FinishReason::kLength;
}

void SequenceText::flush(Finish& finish) {
  const int32_t found = stop_matcher_.push(detokenizer_.flush(), finish.text);
  if (found < 0) finish.text += stop_matcher_.take_held();
  const Result<bool> ends = end_text(finish.text, finish.stop);
  if (!ends) {
    finish.reason = FinishReason::kError;
    finish.error = copy_of(ends.error());
    finish.text.clear();
  } else if (*ends) {
    finish.reason = FinishReason::kStop;
  } else if (found >= 0) {
    finish.reason = FinishReason::kStop;
    finish.stop = stops_[static_cast<size_t>(found)];
    if (static_cast<size_t>(found) < shown_stops_) finish.text += finish.stop;
  }
}

void SequenceText::add_stop_token(TokenId token, std::string& text) const {
  if (shows_stop_tokens_) text += utf8_replace_invalid(tokenizer_.piece(token, true));
}

}  // namespace cairn::engine
