#include "terminal/message_text.h"

#include <utility>

namespace cairn::terminal {
namespace {

/// What a block may begin in: the whole text, or what comes behind the words of a command.
std::string_view block_part(std::string_view typed) {
  if (!typed.starts_with('/')) return typed;
  const size_t line_end = typed.find('\n');
  const size_t mark = typed.substr(0, line_end).find(kBlockMark);
  return mark != std::string_view::npos && typed[mark - 1] == ' ' ? typed.substr(mark) : typed;
}

std::string_view without_blanks_behind(std::string_view text) {
  const size_t last = text.find_last_not_of(" \t\n");
  return text.substr(0, last == std::string_view::npos ? 0 : last + 1);
}

/// Whether the text, which begins with a mark, ends with another one.
bool is_closed(std::string_view block) {
  const std::string_view text = without_blanks_behind(block);
  return text.size() >= 2 * kBlockMark.size() && text.ends_with(kBlockMark);
}

}  // namespace

bool in_block(std::string_view typed) {
  const std::string_view block = block_part(typed);
  return block.starts_with(kBlockMark) && !is_closed(block);
}

bool ends_with_continuation(std::string_view typed) {
  if (!typed.ends_with('\\') || typed.ends_with("\\\\")) return false;
  return !block_part(typed).starts_with(kBlockMark);
}

std::string without_block(std::string_view typed) {
  const std::string_view block = block_part(typed);
  if (!block.starts_with(kBlockMark) || !is_closed(block)) return std::string(typed);
  std::string_view text = without_blanks_behind(block);
  text.remove_prefix(kBlockMark.size());
  text.remove_suffix(kBlockMark.size());
  if (text.starts_with('\n')) text.remove_prefix(1);
  if (text.ends_with('\n')) text.remove_suffix(1);
  return std::string(typed.substr(0, typed.size() - block.size())).append(text);
}

bool LineJoiner::add(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (!std::exchange(empty_, false)) text_ += '\n';
  text_ += line;
  if (in_block(text_)) return false;
  if (!ends_with_continuation(text_)) return true;
  text_.pop_back();
  return false;
}

std::string LineJoiner::take() {
  empty_ = true;
  return std::exchange(text_, {});
}

}  // namespace cairn::terminal
