#include "chat/constraints/expected_run.h"

#include <optional>

namespace cairn::chat {
namespace {

constexpr std::string_view kSpaceBytes = " \t\r\n";
/// Shorter runs save no step.
constexpr size_t kExpectedBytesMin = 2;

/// The byte that is likely to follow `last`.
std::optional<uint8_t> likely_byte(const grammar::Matcher& matcher, char last, bool lines) {
  if (const auto forced = matcher.forced()) return forced;
  if (matcher.may_end()) return std::nullopt;
  const grammar::ByteSet next = matcher.next_bytes();
  if ((last == ':' || (last == ',' && !lines)) && next.contains(' ')) return uint8_t{' '};
  const grammar::ByteSet rest = next & ~grammar::ByteSet::of(kSpaceBytes);
  if (rest.size() != 1 || (lines && last != ' ' && rest.first() != ':')) return std::nullopt;
  return rest.first();
}

}  // namespace

std::string ExpectedRun::run(grammar::Matcher& matcher) const {
  const size_t begin = matcher.position();
  std::string run;
  char last = last_;
  while (run.size() < kExpectedBytesMax) {
    const auto byte = likely_byte(matcher, last, lines_);
    if (!byte || !matcher.push(*byte)) break;
    last = static_cast<char>(*byte);
    run += last;
  }
  matcher.rewind(begin);
  return run;
}

std::span<const TokenId> ExpectedRun::after(TokenId token, std::string_view text, grammar::Matcher& matcher) {
  if (!text.empty()) last_ = text.back();
  lines_ = lines_ || text.contains('\n');
  const bool expected = next_ < tokens_.size() && tokens_[next_] == token;
  next_ = expected ? next_ + 1 : 0;
  if (!expected || next_ == tokens_.size()) {
    tokens_.clear();
    next_ = 0;
    if (token == kNoToken) return {};
    const std::string bytes = run(matcher);
    if (bytes.size() < kExpectedBytesMin) return {};
    if (auto tokens = tokenizer_.encode(bytes, {.after = token})) tokens_ = *std::move(tokens);
  }
  return std::span(tokens_).subspan(next_);
}

}  // namespace cairn::chat
