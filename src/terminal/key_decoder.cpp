#include "terminal/key_decoder.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/text/utf8.h"

namespace cairn::terminal {
namespace {

constexpr char kEscapeByte = '\x1b';
constexpr std::string_view kPasteEnd = "\x1b[201~";
/// Bytes of a control sequence; what is longer is none.
constexpr size_t kSequenceBytesMax = 64;
/// Modifiers of a control sequence are bits, with 1 added.
constexpr int kAltBit = 2;
constexpr int kControlBit = 4;

std::optional<KeyKind> key_of_control(char byte) {
  switch (byte) {
    case '\x01':
      return KeyKind::kHome;
    case '\x02':
      return KeyKind::kLeft;
    case '\x03':
      return KeyKind::kInterrupt;
    case '\x04':
      return KeyKind::kEndOfInput;
    case '\x05':
      return KeyKind::kEnd;
    case '\x06':
      return KeyKind::kRight;
    case '\x08':
    case '\x7f':
      return KeyKind::kBackspace;
    case '\t':
      return KeyKind::kTab;
    case '\n':
    case '\r':
      return KeyKind::kEnter;
    case '\x0b':
      return KeyKind::kKillToEnd;
    case '\x0c':
      return KeyKind::kClearScreen;
    case '\x0e':
      return KeyKind::kDown;
    case '\x10':
      return KeyKind::kUp;
    case '\x12':
      return KeyKind::kSearch;
    case '\x14':
      return KeyKind::kTranspose;
    case '\x15':
      return KeyKind::kKillToBegin;
    case '\x17':
      return KeyKind::kKillWordBefore;
    case '\x19':
      return KeyKind::kYank;
    case '\x1a':
      return KeyKind::kSuspend;
    default:
      return std::nullopt;
  }
}

std::optional<KeyKind> key_with_alt(char byte) {
  switch (byte) {
    case '\r':
    case '\n':
      return KeyKind::kNewline;
    case 'b':
      return KeyKind::kWordLeft;
    case 'f':
      return KeyKind::kWordRight;
    case 'd':
      return KeyKind::kKillWordAfter;
    case '\x08':
    case '\x7f':
      return KeyKind::kKillWordBefore;
    default:
      return std::nullopt;
  }
}

/// The parameters of a control sequence; what is missing is 0.
std::array<int, 3> numbers_of(std::string_view parameters) {
  std::array<int, 3> numbers{};
  for (int& number : numbers) {
    const size_t end = std::min(parameters.find(';'), parameters.size());
    std::from_chars(parameters.data(), parameters.data() + end, number);
    parameters.remove_prefix(std::min(end + 1, parameters.size()));
  }
  return numbers;
}

std::optional<KeyKind> key_of_tilde(const std::array<int, 3>& numbers) {
  const bool modified = numbers[1] > 1;
  switch (numbers[0]) {
    case 1:
    case 7:
      return KeyKind::kHome;
    case 4:
    case 8:
      return KeyKind::kEnd;
    case 3:
      return modified ? KeyKind::kKillWordAfter : KeyKind::kDelete;
    case 27:  // xterm's modifyOtherKeys: the key's character is the third number
      return numbers[2] == '\r' ? std::optional(KeyKind::kNewline) : std::nullopt;
    default:
      return std::nullopt;
  }
}

std::optional<KeyKind> key_of_sequence(std::string_view parameters, char last) {
  const auto numbers = numbers_of(parameters);
  const bool by_words = numbers[1] > 1 && ((numbers[1] - 1) & (kAltBit | kControlBit)) != 0;
  switch (last) {
    case 'A':
      return KeyKind::kUp;
    case 'B':
      return KeyKind::kDown;
    case 'C':
      return by_words ? KeyKind::kWordRight : KeyKind::kRight;
    case 'D':
      return by_words ? KeyKind::kWordLeft : KeyKind::kLeft;
    case 'H':
      return KeyKind::kHome;
    case 'F':
      return KeyKind::kEnd;
    case 'M':  // Enter of a keypad
      return KeyKind::kEnter;
    case '~':
      return key_of_tilde(numbers);
    case 'u':  // a key by its character, with modifiers
      if (numbers[0] != '\r') return std::nullopt;
      return numbers[1] > 1 ? KeyKind::kNewline : KeyKind::kEnter;
    default:
      return std::nullopt;
  }
}

/// Lines end with LF, whatever ended them where they were copied.
std::string with_line_feeds(std::string_view text) {
  std::string lines;
  lines.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const bool before_feed = text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n';
    if (!before_feed) lines += text[i] == '\r' ? '\n' : text[i];
  }
  return lines;
}

bool is_text_byte(char byte) { return static_cast<unsigned char>(byte) >= ' ' && byte != '\x7f'; }

}  // namespace

std::vector<Key> KeyDecoder::push(std::string_view bytes) {
  pending_ += bytes;
  std::vector<Key> keys;
  while (!pending_.empty() && take(keys)) continue;
  return keys;
}

std::vector<Key> KeyDecoder::flush() {
  std::vector<Key> keys;
  if (in_paste_) {
    end_paste(keys, pending_.size());
    pending_.clear();
    return keys;
  }
  const std::string rest = std::exchange(pending_, {});
  if (rest == std::string_view(&kEscapeByte, 1)) {
    keys.push_back({KeyKind::kEscape});
  } else if (!rest.empty() && rest.front() != kEscapeByte) {
    keys.push_back({KeyKind::kText, utf8_replace_invalid(rest)});
  }
  return keys;
}

bool KeyDecoder::take(std::vector<Key>& keys) {
  if (in_paste_) return take_paste(keys);
  if (pending_.front() == kEscapeByte) return take_escape(keys);
  if (is_text_byte(pending_.front())) return take_text(keys);
  if (const auto kind = key_of_control(pending_.front())) keys.push_back({*kind});
  pending_.erase(0, 1);
  return true;
}

bool KeyDecoder::take_text(std::vector<Key>& keys) {
  const auto end = std::ranges::find_if_not(pending_, is_text_byte);
  std::string text(pending_.begin(), end);
  size_t left = 0;
  if (end == pending_.end()) left = utf8_incomplete_suffix(text);
  text.resize(text.size() - left);
  if (text.empty()) return false;
  pending_.erase(0, text.size());
  keys.push_back({KeyKind::kText, utf8_replace_invalid(text)});
  return true;
}

bool KeyDecoder::take_paste(std::vector<Key>& keys) {
  const size_t end = pending_.find(kPasteEnd, searched_);
  if (end == std::string::npos) {
    searched_ = pending_.size() - std::min(pending_.size(), kPasteEnd.size() - 1);
    return false;
  }
  end_paste(keys, end);
  pending_.erase(0, end + kPasteEnd.size());
  return true;
}

void KeyDecoder::end_paste(std::vector<Key>& keys, size_t bytes) {
  in_paste_ = false;
  searched_ = 0;
  keys.push_back({KeyKind::kPaste, utf8_replace_invalid(with_line_feeds(std::string_view(pending_).substr(0, bytes)))});
}

bool KeyDecoder::take_escape(std::vector<Key>& keys) {
  if (pending_.size() < 2) return false;
  const char second = pending_[1];
  if (second == '[') return take_control_sequence(keys);
  if (second == 'O') {  // cursor keys in application mode
    if (pending_.size() < 3) return false;
    if (const auto kind = key_of_sequence({}, pending_[2])) keys.push_back({*kind});
    pending_.erase(0, 3);
    return true;
  }
  if (second == kEscapeByte) {  // the escape key, and then another sequence
    keys.push_back({KeyKind::kEscape});
    pending_.erase(0, 1);
    return true;
  }
  if (const auto kind = key_with_alt(second)) {
    keys.push_back({*kind});
    pending_.erase(0, 2);
    return true;
  }
  pending_.erase(0, 1);  // Alt with another key is that key
  return true;
}

bool KeyDecoder::take_control_sequence(std::vector<Key>& keys) {
  constexpr size_t kBegin = 2;
  size_t end = kBegin;
  while (end < pending_.size() && pending_[end] >= ' ' && pending_[end] < '@') ++end;
  if (end > kSequenceBytesMax) {
    pending_.erase(0, end);
    return true;
  }
  if (end == pending_.size()) return false;
  const std::string parameters = pending_.substr(kBegin, end - kBegin);
  const char last = pending_[end];
  // A control character ends a sequence that is none, and is read by itself.
  pending_.erase(0, is_text_byte(last) ? end + 1 : end);
  if (last == '~' && parameters == "200") {
    in_paste_ = true;
  } else if (const auto kind = key_of_sequence(parameters, last)) {
    keys.push_back({*kind});
  }
  return true;
}

}  // namespace cairn::terminal
