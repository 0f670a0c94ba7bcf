#include "terminal/line_editor.h"

#include <algorithm>
#include <utility>

#include "base/text/utf8.h"
#include "terminal/message_text.h"

namespace cairn::terminal {
namespace {

EditResult changed(bool has) { return has ? EditResult::kChanged : EditResult::kNothing; }

/// What all candidates begin with, in whole characters.
std::string common_beginning(const std::vector<std::string>& candidates) {
  std::string common = candidates.front();
  for (const std::string& candidate : candidates) {
    const auto differs = std::ranges::mismatch(common, candidate);
    common.erase(differs.in1, common.end());
  }
  common.resize(utf8_valid_prefix(common));
  return common;
}

}  // namespace

LineEditor::LineEditor(const InputHistory& history, Completer complete)
    : history_(history), complete_(std::move(complete)), entry_(history.entries().size()) {}

std::string LineEditor::take() {
  std::string text = buffer_.text();
  buffer_.set({});
  begin();
  return text;
}

void LineEditor::begin() {
  entry_ = history_.entries().size();
  draft_.clear();
  literal_ = pasted_end_ = searching_ = false;
}

EditResult LineEditor::apply(const Key& key) {
  if (key.kind != KeyKind::kSearch) searching_ = false;
  const bool behind_paste = std::exchange(pasted_end_, false);
  switch (key.kind) {
    case KeyKind::kText:
    case KeyKind::kPaste:
    case KeyKind::kNewline:
      return insert(key);
    case KeyKind::kEnter:
      pasted_end_ = behind_paste;
      return enter();
    case KeyKind::kTab:
      return complete();
    case KeyKind::kInterrupt:
      return EditResult::kInterrupted;
    case KeyKind::kSuspend:
      return EditResult::kSuspended;
    case KeyKind::kClearScreen:
      return EditResult::kClearScreen;
    case KeyKind::kSearch:
      return search();
    default: {
      const EditResult result = edit(key);
      if (buffer_.empty()) literal_ = false;
      return result;
    }
  }
}

EditResult LineEditor::insert(const Key& key) {
  if (key.kind == KeyKind::kPaste) {
    pasted_end_ = true;
    if (buffer_.cursor() == 0) literal_ = true;
  }
  const std::string_view text = key.kind == KeyKind::kNewline ? std::string_view("\n") : std::string_view(key.text);
  buffer_.insert(text);
  return changed(!text.empty());
}

EditResult LineEditor::enter() {
  const std::string& text = buffer_.text();
  if (!pasted_end_ && buffer_.cursor() == text.size() && ends_with_continuation(text)) {
    buffer_.erase_before();
    buffer_.insert("\n");
    return EditResult::kChanged;
  }
  if (literal_ || !in_block(text)) return EditResult::kMessage;
  buffer_.insert("\n");
  return EditResult::kChanged;
}

EditResult LineEditor::edit(const Key& key) {
  switch (key.kind) {
    case KeyKind::kBackspace:
      return changed(buffer_.erase_before());
    case KeyKind::kDelete:
      return changed(buffer_.erase_after());
    case KeyKind::kEndOfInput:
      return buffer_.empty() ? EditResult::kEnded : changed(buffer_.erase_after());
    case KeyKind::kKillWordBefore:
      return cut(buffer_.cut_word_before());
    case KeyKind::kKillWordAfter:
      return cut(buffer_.cut_word_after());
    case KeyKind::kKillToBegin:
      return cut(buffer_.cut_to_line_begin());
    case KeyKind::kKillToEnd:
      return cut(buffer_.cut_to_line_end());
    case KeyKind::kYank:
      buffer_.insert(cut_);
      return changed(!cut_.empty());
    case KeyKind::kTranspose:
      return changed(buffer_.transpose());
    default:
      return move(key);
  }
}

EditResult LineEditor::move(const Key& key) {
  switch (key.kind) {
    case KeyKind::kLeft:
      return changed(buffer_.left());
    case KeyKind::kRight:
      return changed(buffer_.right());
    case KeyKind::kHome:
      return changed(buffer_.line_begin());
    case KeyKind::kEnd:
      return changed(buffer_.line_end());
    case KeyKind::kWordLeft:
      return changed(buffer_.word_left());
    case KeyKind::kWordRight:
      return changed(buffer_.word_right());
    case KeyKind::kUp:
      return buffer_.line_up() ? EditResult::kChanged : older();
    case KeyKind::kDown:
      return buffer_.line_down() ? EditResult::kChanged : newer();
    default:
      return EditResult::kNothing;
  }
}

EditResult LineEditor::cut(std::string text) {
  if (text.empty()) return EditResult::kNothing;
  cut_ = std::move(text);
  return EditResult::kChanged;
}

EditResult LineEditor::show_entry(size_t entry) {
  const size_t entries = history_.entries().size();
  if (entry_ == entries) {
    draft_ = buffer_.text();
    draft_literal_ = literal_;
  }
  entry_ = entry;
  buffer_.set(entry == entries ? draft_ : history_.entries()[entry]);
  literal_ = entry == entries ? draft_literal_ : true;
  return EditResult::kChanged;
}

EditResult LineEditor::older() { return entry_ == 0 ? EditResult::kNothing : show_entry(entry_ - 1); }

EditResult LineEditor::newer() {
  return entry_ == history_.entries().size() ? EditResult::kNothing : show_entry(entry_ + 1);
}

EditResult LineEditor::search() {
  if (!std::exchange(searching_, true)) searched_ = buffer_.text();
  for (size_t entry = entry_; entry-- > 0;) {
    if (history_.entries()[entry].contains(searched_)) return show_entry(entry);
  }
  return EditResult::kNothing;
}

EditResult LineEditor::complete() {
  if (!complete_) return EditResult::kNothing;
  const std::string before = buffer_.text().substr(0, buffer_.cursor());
  Completion found = complete_(before);
  if (found.candidates.empty()) return EditResult::kNothing;
  const bool single = found.candidates.size() == 1;
  std::string text = common_beginning(found.candidates);
  if (single && !text.ends_with('/')) text += ' ';
  if (text.size() > before.size() - found.begin || single) {
    buffer_.replace_before(found.begin, text);
    return EditResult::kChanged;
  }
  candidates_ = std::move(found.candidates);
  return EditResult::kCandidates;
}

}  // namespace cairn::terminal
