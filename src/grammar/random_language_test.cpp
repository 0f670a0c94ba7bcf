/// Grammars and regular expressions drawn at random, against sets of all texts up to a length.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "grammar/automaton.h"
#include "grammar/grammar.h"
#include "grammar/matcher.h"
#include "grammar/regex/regex.h"
#include "grammar/testing/drawn_grammar.h"

namespace cairn::grammar {
namespace {

using namespace cairn::grammar::drawn;  // NOLINT: all of it is for this test

constexpr size_t kSearched = 2'000;  // rows

// Whether some text that begins so ends: a breadth-first search over rows.
bool can_end(const Grammar& grammar, std::string_view text) {
  Automaton automaton(grammar);
  std::vector<RowId> open{automaton.start()};
  for (char letter : text) open[0] = automaton.step(open[0], static_cast<uint8_t>(letter));
  std::set<RowId> seen;
  for (size_t i = 0; i < open.size() && i < kSearched; ++i) {
    if (automaton.may_end(open[i])) return true;
    for (char letter : {'a', 'b', 'x'}) {  // complements match other bytes, too
      const RowId next = automaton.step(open[i], static_cast<uint8_t>(letter));
      if (next < kTooLargeRow && seen.insert(next).second) open.push_back(next);
    }
  }
  return open.size() >= kSearched;  // there is always something to go on with
}

void expect_language(const std::shared_ptr<const Grammar>& grammar, const Language& language, const std::string& what) {
  Matcher matcher(grammar);
  Language prefixes;
  for (size_t i = 0; i < kTexts; ++i) {
    for (size_t length = 0; language[i] && length <= texts()[i].size(); ++length) {
      prefixes.set(number(texts()[i].substr(0, length)));
    }
  }
  for (size_t i = 0; i < kTexts; ++i) {
    const std::string& text = texts()[i];
    matcher.rewind(0);
    const size_t taken = matcher.push(text);
    ASSERT_FALSE(matcher.failure().has_value());
    EXPECT_EQ(taken == text.size() && matcher.may_end(), language[i]) << what << " text " << text;
    EXPECT_TRUE(!prefixes[i] || taken == text.size()) << what << " begins with " << text;
    // What is taken is the beginning of a text of the language.
    EXPECT_TRUE(taken < text.size() || prefixes[i] || can_end(*grammar, text)) << what << " stuck after " << text;
    EXPECT_TRUE(taken == text.size() || !matcher.next_bytes().contains(static_cast<uint8_t>(text[taken])));
  }
}

TEST(RandomRegex, MatchesExactlyItsTexts) {
  int built = 0;
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    GrammarBuilder builder;
    GrammarPicker draw(seed, builder);
    const DrawnRegex regex = draw.regex(1 + static_cast<int>(seed % 4));
    const SymbolId start = builder.terminal(regex.id);
    const std::optional<bool> nothing = builder.regexes().matches_nothing(regex.id, 100'000);
    ASSERT_TRUE(nothing.has_value());
    EXPECT_FALSE(regex.language.any() && *nothing) << seed << regex.text;
    const auto grammar = builder.finish(start);
    EXPECT_EQ(grammar.has_value(), !*nothing);
    if (!grammar.has_value()) continue;
    ++built;
    expect_language(*grammar, regex.language, "seed " + std::to_string(seed) + " " + regex.text);
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(built, 1500);
}

TEST(RandomGrammar, MatchesExactlyItsTexts) {
  int built = 0;
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    GrammarBuilder builder;
    const DrawnGrammar drawn = draw_grammar(seed, builder);
    const auto grammar = builder.finish(drawn.start);
    if (!grammar.has_value()) {
      EXPECT_TRUE(drawn.language.none()) << seed << grammar.error().text();
      continue;
    }
    built += drawn.language.any();
    expect_language(*grammar, drawn.language, drawn.text);
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(built, 1500);
}

}  // namespace
}  // namespace cairn::grammar
