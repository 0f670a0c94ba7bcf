#include "jinja/parse/token.h"

#include <charconv>
#include <cstdlib>
#include <optional>

#include "base/text/utf8.h"
#include "jinja/builtins/escape.h"
#include "jinja/value/characters.h"

namespace cairn::jinja {

std::string at_line(int32_t line) { return fmt::format("line {}", line); }

namespace {

bool ascii_digit(char c) { return c >= '0' && c <= '9'; }

// Converts line ends to \n, and drops one at the end of the template.
std::string normalize(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
      continue;
    }
    out += '\n';
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

class Tokenizer {
 public:
  explicit Tokenizer(std::string_view source) : source_(normalize(source)) {}

  Result<std::vector<Token>> run() {
    while (pos_ < source_.size()) CAIRN_TRY_VOID(next_part());
    add(TokenKind::kEnd);
    return std::move(tokens_);
  }

 private:
  std::string_view rest() const { return std::string_view(source_).substr(pos_); }
  bool at(std::string_view text) const { return rest().starts_with(text); }
  char peek(size_t ahead = 0) const { return pos_ + ahead < source_.size() ? source_[pos_ + ahead] : '\0'; }

  void advance(size_t to) {
    for (; pos_ < to; ++pos_) line_ += source_[pos_] == '\n';
  }
  size_t after_spaces(size_t from) const {
    while (from < source_.size()) {
      const Utf8Char c = utf8_decode(source_, from);
      if (!is_space(c.value)) break;
      from += static_cast<size_t>(c.length);
    }
    return from;
  }
  Token& add(TokenKind kind, std::string_view text = {}) {
    Token& token = tokens_.emplace_back();
    token.kind = kind;
    token.line = line_;
    token.text = text;
    return token;
  }
  template <class... A>
  std::unexpected<Error> error(fmt::format_string<A...> format, A&&... args) const {
    return fail_at(at_line(line_), Code::kInvalidArgument, format, std::forward<A>(args)...);
  }

  Result<void> next_part();
  void add_data(size_t end, char sign, bool is_variable);
  std::optional<size_t> raw_content(size_t begin) const;
  Result<void> raw_block(size_t content);
  Result<void> comment();
  Result<void> tag(bool is_variable);
  bool tag_end(bool is_variable);
  Result<void> tag_token();
  Result<void> number();
  Result<void> string();
  Result<void> operator_token();

  std::string source_;
  size_t pos_ = 0;
  int32_t line_ = 1;
  std::string open_;  // expected closing brackets
  std::vector<Token> tokens_;
};

// Reads text up to the next tag, and the tag.
Result<void> Tokenizer::next_part() {
  size_t begin = source_.find('{', pos_);
  while (begin != std::string::npos) {
    const char next = begin + 1 < source_.size() ? source_[begin + 1] : '\0';
    if (next == '{' || next == '%' || next == '#') break;
    begin = source_.find('{', begin + 1);
  }
  if (begin == std::string::npos) {
    add(TokenKind::kData, rest());
    advance(source_.size());
    return {};
  }
  const char kind = source_[begin + 1];
  char sign = begin + 2 < source_.size() ? source_[begin + 2] : '\0';
  if (sign != '-' && sign != '+') sign = '\0';
  const std::optional<size_t> raw = kind == '%' ? raw_content(begin) : std::nullopt;
  add_data(begin, sign, kind == '{');
  if (raw.has_value()) return raw_block(*raw);
  advance(begin + 2 + (sign != '\0'));
  if (kind == '#') return comment();
  return tag(kind == '{');
}

// Adds the text from pos_ to a tag at `end`, without the white space that the tag removes.
void Tokenizer::add_data(size_t end, char sign, bool is_variable) {
  std::string_view text = std::string_view(source_).substr(pos_, end - pos_);
  if (sign == '-') {
    text = strip(text, nullptr, false, true);
  } else if (sign != '+' && !is_variable) {
    const size_t newline = text.rfind('\n');
    const size_t line_begin = newline == std::string_view::npos ? 0 : newline + 1;
    const bool whole_line = line_begin > 0 || pos_ == 0 || source_[pos_ - 1] == '\n';
    if (whole_line && strip(text.substr(line_begin), nullptr, true, false).empty()) text = text.substr(0, line_begin);
  }
  if (!text.empty()) add(TokenKind::kData, text);
  advance(end);
}

// Offset of a raw block's content, if the tag at `begin` is {% raw %}.
std::optional<size_t> Tokenizer::raw_content(size_t begin) const {
  size_t at = begin + 2;
  if (at < source_.size() && (source_[at] == '-' || source_[at] == '+')) ++at;
  at = after_spaces(at);
  if (!std::string_view(source_).substr(at).starts_with("raw")) return std::nullopt;
  at = after_spaces(at + 3);
  const std::string_view left = std::string_view(source_).substr(at);
  if (left.starts_with("-%}")) return after_spaces(at + 3);
  if (left.starts_with("%}")) return at + 2;
  return std::nullopt;
}

Result<void> Tokenizer::raw_block(size_t content) {
  const int32_t line = line_;
  advance(content);
  for (size_t end = source_.find("{%", pos_); end != std::string::npos; end = source_.find("{%", end + 1)) {
    size_t at = end + 2;
    const char sign = at < source_.size() && (source_[at] == '-' || source_[at] == '+') ? source_[at] : '\0';
    at = after_spaces(at + (sign != '\0'));
    if (!std::string_view(source_).substr(at).starts_with("endraw")) continue;
    at = after_spaces(at + 6);
    const std::string_view left = std::string_view(source_).substr(at);
    size_t after = 0;
    if (left.starts_with("-%}"))
      after = after_spaces(at + 3);
    else if (left.starts_with("+%}"))
      after = at + 3;
    else if (left.starts_with("%}"))
      after = at + 2 + left.substr(2).starts_with('\n');
    else
      continue;
    add_data(end, sign, false);
    advance(after);
    return {};
  }
  line_ = line;
  return error("this raw block has no {{% endraw %}}");
}

// Skips a comment; pos_ is after its opening and its sign.
Result<void> Tokenizer::comment() {
  const size_t end = source_.find("#}", pos_);
  if (end == std::string::npos) return error("this comment has no #}}");
  const char sign = end > pos_ ? source_[end - 1] : '\0';
  size_t after = end + 2;
  if (sign == '-')
    after = after_spaces(after);
  else if (sign != '+' && after < source_.size() && source_[after] == '\n')
    ++after;
  advance(after);
  return {};
}

Result<void> Tokenizer::tag(bool is_variable) {
  add(is_variable ? TokenKind::kVariableBegin : TokenKind::kBlockBegin);
  open_.clear();
  while (pos_ < source_.size()) {
    if (open_.empty() && tag_end(is_variable)) return {};
    if (const size_t after = after_spaces(pos_); after != pos_) {
      advance(after);
      continue;
    }
    CAIRN_TRY_VOID(tag_token());
  }
  return {};  // the parser reports the missing end of the tag
}

bool Tokenizer::tag_end(bool is_variable) {
  const std::string_view closing = is_variable ? "}}" : "%}";
  const char sign = peek();
  const bool minus = sign == '-' && rest().substr(1).starts_with(closing);
  const bool plus = sign == '+' && !is_variable && rest().substr(1).starts_with(closing);
  if (!minus && !plus && !at(closing)) return false;
  add(is_variable ? TokenKind::kVariableEnd : TokenKind::kBlockEnd);
  size_t after = pos_ + 2 + (minus || plus);
  if (minus)
    after = after_spaces(after);
  else if (!plus && !is_variable && after < source_.size() && source_[after] == '\n')
    ++after;
  advance(after);
  return true;
}

Result<void> Tokenizer::tag_token() {
  const char c = peek();
  if (ascii_digit(c)) return number();
  if (c == '\'' || c == '"') return string();
  size_t end = pos_;
  while (end < source_.size()) {
    const Utf8Char next = utf8_decode(source_, end);
    if (!next.well_formed || !is_word(next.value)) break;
    end += static_cast<size_t>(next.length);
  }
  if (end == pos_) return operator_token();
  add(TokenKind::kName, std::string_view(source_).substr(pos_, end - pos_));
  advance(end);
  return {};
}

// Returns the end of digits with single underscores between them, from `at` on.
size_t digits_end(std::string_view text, size_t at, int base) {
  const auto is_digit_of_base = [&](char c) {
    const char lower = static_cast<char>(c | 0x20);
    return (ascii_digit(c) && c - '0' < base) || (base == 16 && lower >= 'a' && lower <= 'f');
  };
  size_t end = at;
  while (end < text.size()) {
    if (is_digit_of_base(text[end]))
      ++end;
    else if (text[end] == '_' && end > at && end + 1 < text.size() && is_digit_of_base(text[end + 1]))
      ++end;
    else
      break;
  }
  return end;
}

Result<void> Tokenizer::number() {
  const std::string_view text = rest();
  int base = 10;
  size_t begin = 0;
  if (text[0] == '0' && text.size() > 1) {
    const char mark = static_cast<char>(text[1] | 0x20);
    base = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 10;
    if (base != 10 && digits_end(text, 2, base) == 2) base = 10;
    if (base != 10) begin = 2;
  }
  size_t end = digits_end(text, begin, base);
  const bool zero_first = base == 10 && text[0] == '0';
  bool is_float = false;
  if (base == 10 && (pos_ == 0 || source_[pos_ - 1] != '.')) {
    if (end + 1 < text.size() && text[end] == '.' && ascii_digit(text[end + 1])) {
      end = digits_end(text, end + 1, 10);
      is_float = true;
    }
    if (end < text.size() && (text[end] | 0x20) == 'e') {
      const size_t sign = end + 1 < text.size() && (text[end + 1] == '+' || text[end + 1] == '-');
      if (end + 1 + sign < text.size() && ascii_digit(text[end + 1 + sign])) {
        end = digits_end(text, end + 1 + sign, 10);
        is_float = true;
      }
    }
  }
  // 007 is not a number: only zeros may follow a leading zero.
  if (zero_first && !is_float) end = std::min(text.find_first_not_of("0_"), end);
  std::string digits;
  for (const char c : text.substr(begin, end - begin))
    if (c != '_') digits += c;
  if (is_float) {
    add(TokenKind::kFloat, text.substr(0, end)).number = std::strtod(digits.c_str(), nullptr);
  } else {
    const std::optional<Int> value = parse_digits(digits, base);
    if (!value.has_value()) return error("the integer {} is too large", text.substr(0, end));
    add(TokenKind::kInteger, text.substr(0, end)).integer = *value;
  }
  advance(pos_ + end);
  return {};
}

Result<void> Tokenizer::string() {
  const char quote = peek();
  size_t end = pos_ + 1;
  while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
  if (end >= source_.size()) return error("this string has no closing {}", quote);
  auto value = unescape(std::string_view(source_).substr(pos_ + 1, end - pos_ - 1));
  if (!value.has_value()) {
    value.error().at = at_line(line_);
    return std::unexpected(std::move(value).error());
  }
  add(TokenKind::kString, *value);
  advance(end + 1);
  return {};
}

Result<void> Tokenizer::operator_token() {
  static constexpr std::string_view kLong[] = {"//", "**", "==", "!=", ">=", "<="};
  static constexpr std::string_view kShort = "+-/*%~[](){}<>=.:|,;";
  for (const std::string_view op : kLong) {
    if (!at(op)) continue;
    add(TokenKind::kOperator, op);
    advance(pos_ + 2);
    return {};
  }
  const char c = peek();
  if (kShort.find(c) == std::string_view::npos) {
    const Utf8Char bad = utf8_decode(source_, pos_);
    return error("unexpected character '{}'", bad.well_formed ? rest().substr(0, static_cast<size_t>(bad.length))
                                                              : std::string_view("\xEF\xBF\xBD"));
  }
  if (c == '(' || c == '[' || c == '{') {
    open_ += c == '(' ? ')' : c == '[' ? ']' : '}';
  } else if (c == ')' || c == ']' || c == '}') {
    if (open_.empty()) return error("unexpected '{}'", c);
    if (open_.back() != c) return error("unexpected '{}', expected '{}'", c, open_.back());
    open_.pop_back();
  }
  add(TokenKind::kOperator, rest().substr(0, 1));
  advance(pos_ + 1);
  return {};
}

}  // namespace

Result<std::vector<Token>> tokenize(std::string_view source) { return Tokenizer(source).run(); }

}  // namespace cairn::jinja
