#include "chat/answer/stop_regex.h"

#include <optional>
#include <utility>
#include <vector>

#include "base/text/printable.h"
#include "grammar/readers/regex_reader.h"
#include "grammar/regex/regex.h"

namespace cairn::chat {
namespace {

using grammar::RegexId;
using grammar::RegexPool;

struct Expression {
  std::string pattern;
  RegexPool pool;
  RegexId root;
};

/// Reads one text.
class Search {
 public:
  explicit Search(const Expression& expression)
      : pattern_(expression.pattern),
        pool_(expression.pool.copy()),
        rest_(expression.root),
        work_begin_(pool_.work_done()) {}

  const std::string& pattern() const { return pattern_; }

  /// How many of the bytes come before the end of the first match.
  Result<std::optional<size_t>> push(std::string_view text) {
    for (size_t i = 0; i < text.size(); ++i) {
      const uint64_t before = pool_.work_done();
      rest_ = pool_.derivative(rest_, static_cast<uint8_t>(text[i]));
      const uint64_t now = pool_.work_done();
      if (rest_ == grammar::kUndecided || now - before > kStopRegexByteWorkMax || now - work_begin_ > kStopRegexWorkMax)
        return too_large("takes too much work for this text");
      if (pool_.matches_empty(rest_)) return i + 1;
      if (pool_.memory_used() <= kStopRegexMemoryMax) continue;
      rest_ = pool_.keep_only({&rest_, 1})[static_cast<size_t>(rest_)];
      if (pool_.full() || pool_.memory_used() > kStopRegexMemoryMax) return too_large("needs too much memory");
    }
    return std::nullopt;
  }

 private:
  std::unexpected<Error> too_large(std::string_view why) const {
    return fail_at("stop_regex", Code::kInvalidArgument, "stop_regex {}: {}; use a simpler expression, or stop",
                   printable(pattern_), why);
  }

  std::string pattern_;
  RegexPool pool_;
  RegexId rest_;  // what the rest of the text must match, so that all of it does
  uint64_t work_begin_;
};

class RegexEnd final : public engine::TextEnd {
 public:
  explicit RegexEnd(std::span<const Expression> expressions) : searches_(expressions.begin(), expressions.end()) {}

  Result<std::optional<Found>> push(std::string_view text) override {
    std::optional<Found> first;
    for (Search& search : searches_) {
      CAIRN_TRY(const std::optional<size_t> end, search.push(text));
      if (!end || (first && first->bytes <= *end)) continue;
      first = Found{*end, search.pattern()};
    }
    return first;
  }

 private:
  std::vector<Search> searches_;
};

}  // namespace

struct StopRegexes::State {
  std::vector<Expression> expressions;
};

StopRegexes::StopRegexes(std::unique_ptr<State> state) : state_(std::move(state)) {}
StopRegexes::~StopRegexes() = default;

Result<std::shared_ptr<const StopRegexes>> StopRegexes::read(std::span<const std::string> patterns) {
  auto state = std::make_unique<State>();
  for (const std::string& pattern : patterns) {
    Expression& made = state->expressions.emplace_back();
    made.pattern = pattern;
    auto root = grammar::read_regex(made.pool, pattern,
                                    {.match = grammar::RegexOptions::Match::kSearch, .dot_ends_at_newline_only = true});
    if (!root) {
      return fail_at("stop_regex", root.error().code, "stop_regex {}: {}, at byte {}", printable(pattern),
                     root.error().message, root.error().at);
    }
    made.root = *root;
    if (made.pool.matches_empty(made.root)) {
      return fail_at("stop_regex", Code::kInvalidArgument,
                     "stop_regex {} matches the empty text, so that no answer would begin", printable(pattern));
    }
  }
  return std::make_shared<const StopRegexes>(std::move(state));
}

std::shared_ptr<engine::TextEnd> StopRegexes::make_end() const {
  return std::make_shared<RegexEnd>(state_->expressions);
}

}  // namespace cairn::chat
