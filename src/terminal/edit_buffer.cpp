#include "terminal/edit_buffer.h"

#include <algorithm>
#include <utility>

#include "terminal/text_width.h"

namespace cairn::terminal {
namespace {

bool is_blank(char byte) { return byte == ' ' || byte == '\t' || byte == '\n'; }

}  // namespace

void EditBuffer::set(std::string text) {
  text_ = std::move(text);
  cursor_ = text_.size();
}

void EditBuffer::insert(std::string_view text) {
  text_.insert(cursor_, text);
  cursor_ += text.size();
}

void EditBuffer::replace_before(size_t begin, std::string_view text) {
  text_.replace(begin, cursor_ - begin, text);
  cursor_ = begin + text.size();
}

bool EditBuffer::move_to(size_t at) { return std::exchange(cursor_, at) != at; }
bool EditBuffer::left() { return move_to(previous_cluster(text_, cursor_)); }
bool EditBuffer::right() { return move_to(next_cluster(text_, cursor_)); }
bool EditBuffer::word_left() { return move_to(begin_of_word()); }
bool EditBuffer::word_right() { return move_to(end_of_word()); }
bool EditBuffer::line_begin() { return move_to(begin_of_line()); }
bool EditBuffer::line_end() { return move_to(end_of_line()); }

size_t EditBuffer::begin_of_line() const {
  const size_t feed = cursor_ == 0 ? std::string::npos : text_.rfind('\n', cursor_ - 1);
  return feed == std::string::npos ? 0 : feed + 1;
}

size_t EditBuffer::end_of_line() const { return std::min(text_.find('\n', cursor_), text_.size()); }

size_t EditBuffer::begin_of_word() const {
  size_t at = cursor_;
  while (at > 0 && is_blank(text_[at - 1])) --at;
  while (at > 0 && !is_blank(text_[at - 1])) --at;
  return at;
}

size_t EditBuffer::end_of_word() const {
  size_t at = cursor_;
  while (at < text_.size() && is_blank(text_[at])) ++at;
  while (at < text_.size() && !is_blank(text_[at])) ++at;
  return at;
}

size_t EditBuffer::at_column(size_t line, int column) const {
  size_t at = line;
  for (int columns = 0; at < text_.size() && text_[at] != '\n';) {
    const size_t next = next_cluster(text_, at);
    columns += text_width(std::string_view(text_).substr(at, next - at));
    if (columns > column) break;
    at = next;
  }
  return at;
}

bool EditBuffer::line_up() {
  const size_t begin = begin_of_line();
  if (begin == 0) return false;
  const int column = text_width(std::string_view(text_).substr(begin, cursor_ - begin));
  const size_t feed = begin >= 2 ? text_.rfind('\n', begin - 2) : std::string::npos;
  move_to(at_column(feed == std::string::npos ? 0 : feed + 1, column));
  return true;
}

bool EditBuffer::line_down() {
  const size_t end = end_of_line();
  if (end == text_.size()) return false;
  const size_t begin = begin_of_line();
  const int column = text_width(std::string_view(text_).substr(begin, cursor_ - begin));
  move_to(at_column(end + 1, column));
  return true;
}

bool EditBuffer::erase_before() { return !cut(previous_cluster(text_, cursor_), cursor_).empty(); }
bool EditBuffer::erase_after() { return !cut(cursor_, next_cluster(text_, cursor_)).empty(); }

bool EditBuffer::transpose() {
  if (cursor_ == 0) return false;
  if (cursor_ == text_.size()) left();
  const size_t begin = previous_cluster(text_, cursor_);
  const size_t end = next_cluster(text_, cursor_);
  if (begin == cursor_ || end == cursor_) return false;
  const std::string before = text_.substr(begin, cursor_ - begin);
  const std::string after = text_.substr(cursor_, end - cursor_);
  text_.replace(begin, end - begin, after + before);
  cursor_ = end;
  return true;
}

std::string EditBuffer::cut(size_t begin, size_t end) {
  std::string taken = text_.substr(begin, end - begin);
  text_.erase(begin, end - begin);
  cursor_ = begin;
  return taken;
}

std::string EditBuffer::cut_word_before() { return cut(begin_of_word(), cursor_); }
std::string EditBuffer::cut_word_after() { return cut(cursor_, end_of_word()); }
std::string EditBuffer::cut_to_line_begin() { return cut(begin_of_line(), cursor_); }

std::string EditBuffer::cut_to_line_end() {
  const size_t end = end_of_line();
  // At a line's end it is the line's end that goes.
  return cut(cursor_, end == cursor_ && end < text_.size() ? end + 1 : end);
}

}  // namespace cairn::terminal
