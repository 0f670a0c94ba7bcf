#include "chat/constraints/answer_grammar.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>

#include "base/testing/test_data.h"
#include "chat/tool_calls/call_form.h"
#include "grammar/grammar_source.h"
#include "grammar/readers/gbnf_reader.h"
#include "grammar/readers/text_readers.h"

namespace cairn::chat {
namespace {

class AnswerGrammarTest : public testing::Test {
 protected:
  void SetUp() override {
    auto file = gguf::Reader::open(test_data("/models/llama.gguf"));
    ASSERT_TRUE(file.has_value()) << file.error().text();
    auto tokenizer = tokenizer::Tokenizer::load(file->metadata());
    ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().text();
    tokenizer_ = std::move(*tokenizer);
    vocabulary_ = std::make_shared<const AnswerVocabulary>(*tokenizer_);
  }
  AnswerGrammarRules rules(std::string_view regex) const {
    auto grammar = grammar::read_regex_grammar(regex);
    if (!grammar.has_value()) ADD_FAILURE() << grammar.error().text();
    return {.grammar = grammar.value_or(nullptr), .vocabulary = vocabulary_};
  }
  /// The token of a byte.
  TokenId byte(char letter) const {
    const auto tokens = tokenizer_->encode(std::string(1, letter), {}).value();
    EXPECT_EQ(tokens.size(), 1u);
    return tokens.front();
  }
  TokenId end() const {
    for (int32_t i = 0; i < tokenizer_->size(); ++i)
      if (tokenizer_->ends_generation(TokenId{i})) return TokenId{i};
    return kNoToken;
  }
  static bool allowed(const engine::NextTokenRule& next, TokenId token) {
    const auto at = static_cast<size_t>(index(token));
    return next.allowed.empty() || (next.allowed[at / 64] >> (at % 64) & 1) != 0;
  }
  /// The letters of `all` that may come next.
  std::string letters(const engine::NextTokenRule& next, std::string_view all) const {
    std::string result;
    for (const char letter : all)
      if (allowed(next, byte(letter))) result += letter;
    return result;
  }
  void say(AnswerGrammar& answer, std::string_view text, engine::NextTokenRule& next) const {
    for (const char letter : text) answer.token(byte(letter), next);
  }

  std::unique_ptr<tokenizer::Tokenizer> tokenizer_;
  std::shared_ptr<const AnswerVocabulary> vocabulary_;
};

TEST_F(AnswerGrammarTest, MasksWhatTheGrammarDoesNotTake) {
  AnswerGrammar answer(rules("ab?c+"));
  engine::NextTokenRule next;
  EXPECT_FALSE(answer.started());
  answer.start(/*space=*/false, next);
  EXPECT_TRUE(answer.started());
  EXPECT_EQ(letters(next, "abcdA \n"), "a");
  EXPECT_FALSE(allowed(next, end()));
  say(answer, "a", next);
  EXPECT_EQ(letters(next, "abcdA \n"), "bc");
  say(answer, "c", next);
  EXPECT_EQ(letters(next, "abcdA \n"), "c");
  EXPECT_TRUE(allowed(next, end()));
  EXPECT_FALSE(next.end.has_value());
  EXPECT_FALSE(next.error.has_value());
}

TEST_F(AnswerGrammarTest, EndsWhereNothingMayFollow) {
  AnswerGrammar answer(rules("ab"));
  engine::NextTokenRule next;
  answer.start(false, next);
  say(answer, "a", next);
  EXPECT_FALSE(next.end.has_value());
  say(answer, "b", next);
  EXPECT_EQ(next.end, engine::FinishReason::kStop);
  EXPECT_TRUE(next.allowed.empty());
}

TEST_F(AnswerGrammarTest, MayEndAtOnceWhereTheGrammarTakesNothing) {
  AnswerGrammar maybe(rules("a*"));
  engine::NextTokenRule next;
  maybe.start(false, next);
  EXPECT_TRUE(allowed(next, end()));
  EXPECT_EQ(letters(next, "ab"), "a");

  AnswerGrammar empty(rules(""));
  engine::NextTokenRule over;
  empty.start(false, over);
  EXPECT_EQ(over.end, engine::FinishReason::kStop);
}

TEST_F(AnswerGrammarTest, TakesAtMostFourBytesOfSpaceAfterThinking) {
  AnswerGrammar answer(rules("[ab]+"));
  engine::NextTokenRule next;
  answer.start(/*space=*/true, next);
  EXPECT_EQ(letters(next, "ac \n\t"), "a \n\t");
  say(answer, "\n\n \n", next);
  EXPECT_FALSE(next.error.has_value());
  EXPECT_EQ(letters(next, "ac \n\t"), "a");
  say(answer, "ab", next);
  EXPECT_FALSE(next.error.has_value());
  EXPECT_EQ(letters(next, "ac \n\t"), "a");

  AnswerGrammar without(rules("[ab]+"));
  engine::NextTokenRule strict;
  without.start(/*space=*/false, strict);
  EXPECT_EQ(letters(strict, "ac \n\t"), "a");

  // Text that came in one token with the end of the thinking.
  AnswerGrammar together(rules("[ab]+"));
  engine::NextTokenRule rest;
  together.start(true, rest);
  together.text("\n\n", rest);
  EXPECT_FALSE(rest.error.has_value());
  EXPECT_EQ(letters(rest, "ac \n"), "a \n");
  together.text("ba", rest);
  EXPECT_EQ(letters(rest, "ac \n"), "a");
  together.text("c", rest);
  EXPECT_TRUE(rest.error.has_value());
}

TEST_F(AnswerGrammarTest, OpenersOfThinkingAndCallsPause) {
  AnswerGrammarRules with = rules("[ab]+");
  with.thinking_open = byte('<');
  with.call_open = byte('{');
  AnswerGrammar answer(std::move(with));
  engine::NextTokenRule next;
  answer.start(false, next);
  EXPECT_EQ(letters(next, "ac<{>"), "a<{");
  EXPECT_TRUE(answer.opens_thinking(byte('<')));
  EXPECT_TRUE(answer.opens_call(byte('{')));
  answer.pause(next);
  EXPECT_FALSE(answer.started());
  EXPECT_TRUE(next.allowed.empty());
  // After thinking it may not think again, but call.
  answer.start(true, next);
  EXPECT_EQ(letters(next, "ac<{>"), "a{");
  say(answer, "a", next);
  EXPECT_EQ(letters(next, "ac<{>"), "a");
  EXPECT_FALSE(answer.opens_call(byte('{')));
}

TEST_F(AnswerGrammarTest, ACallTakesTheAnswersPlace) {
  AnswerGrammarRules with = rules("[ab]+");
  with.call_open = byte('{');
  AnswerGrammar answer(std::move(with));
  engine::NextTokenRule next;
  answer.start(false, next);
  answer.give_way(next);
  EXPECT_TRUE(next.allowed.empty());
  say(answer, "{anything", next);
  EXPECT_FALSE(next.error.has_value());
  EXPECT_TRUE(next.allowed.empty());
  EXPECT_FALSE(answer.opens_call(byte('{')));
}

TEST_F(AnswerGrammarTest, GoesOnFromABegunAnswer) {
  AnswerGrammarRules with = rules("abc|abd+");
  with.begun = "ab";
  with.call_open = byte('{');
  AnswerGrammar answer(std::move(with));
  engine::NextTokenRule next;
  answer.start(/*space=*/true, next);
  EXPECT_EQ(letters(next, "abcd {"), "cd");  // neither space nor a call in the middle of an answer
  say(answer, "c", next);
  EXPECT_EQ(next.end, engine::FinishReason::kStop);
}

TEST_F(AnswerGrammarTest, FailsWithTheLimitThatWasReached) {
  AnswerGrammar unfit(rules("ab"));
  engine::NextTokenRule next;
  unfit.start(false, next);
  say(unfit, "b", next);
  ASSERT_TRUE(next.error.has_value());
  EXPECT_EQ(next.error->code, Code::kInternal);

  // A text that can be read in ever more ways.
  AnswerGrammarRules ambiguous = rules("a");
  ambiguous.grammar = grammar::read_gbnf(R"(root ::= root root | "a" | "")").value();
  AnswerGrammar heavy(std::move(ambiguous));
  engine::NextTokenRule rule;
  heavy.start(false, rule);
  for (int i = 0; i < 2'000 && !rule.error; ++i) say(heavy, "a", rule);
  ASSERT_TRUE(rule.error.has_value());
  EXPECT_EQ(rule.error->code, Code::kTooLarge);
}

// With numbers of tokens in place of the markers.
const auto spell_harmony = [](std::string_view text, bool) {
  constexpr std::array<std::string_view, 5> kMarkers = {"<|start|>", "<|channel|>", "<|constrain|>", "<|message|>",
                                                        "<|end|>"};
  std::string spelled;
  while (!text.empty()) {
    const auto* marker = std::ranges::find_if(kMarkers, [&](std::string_view one) { return text.starts_with(one); });
    if (marker == kMarkers.end())
      spelled += text.front();
    else
      spelled += grammar::control_token_bytes(TokenId{static_cast<int32_t>(marker - kMarkers.begin())});
    text.remove_prefix(marker == kMarkers.end() ? 1 : marker->size());
  }
  return spelled;
};

TEST(HarmonyGrammar, ACallTakesTheAnswersPlaceWithItsRecipientInTheRoleOrInTheChannel) {
  const nlohmann::ordered_json schema = nlohmann::ordered_json::parse(
      R"({"type":"object","properties":{"to":{"enum":[1,2]}},"required":["to"],"additionalProperties":false})");
  grammar::GrammarSource source{.kind = grammar::GrammarSource::Kind::kChoice,
                                .choices = {"yes"},
                                .forms = tool_call::harmony_calls(spell_harmony),
                                .tools = {{.name = "count", .schema = schema, .strict = true}},
                                .frame = tool_call::harmony_frame(spell_harmony, /*thinks=*/true)};
  const auto made = grammar::compile(source);
  ASSERT_TRUE(made.has_value()) << made.error().text();
  const auto takes = [&](const std::string& behind_role) {
    grammar::Matcher matcher(*made);
    const std::string text = spell_harmony("<|start|>assistant" + behind_role, true);
    return matcher.push(text) == text.size() && matcher.may_end();
  };
  const std::string thoughts = "<|channel|>analysis<|message|>to=functions.other {<|end|><|start|>assistant";
  for (const std::string& before : {std::string(), thoughts, thoughts + thoughts}) {
    EXPECT_TRUE(takes(before + "<|channel|>final<|message|>yes"));
    EXPECT_TRUE(takes(before + R"(<|channel|>commentary to=functions.count <|constrain|>json<|message|>{"to": 1})"));
    EXPECT_TRUE(takes(before + R"(<|channel|>analysis to=functions.count<|message|>{"to":2})"));
    EXPECT_TRUE(takes(before + R"( to=functions.count<|channel|>commentary json<|message|>{"to":2})"));
    EXPECT_FALSE(takes(before + "<|channel|>final<|message|>no"));
    EXPECT_FALSE(takes(before + R"(<|channel|>commentary to=functions.other<|message|>{"to":1})"));
    EXPECT_FALSE(takes(before + R"(<|channel|>commentary to=functions.count<|message|>{"to":3})"));
    EXPECT_FALSE(takes(before + R"( to=functions.count<|channel|>final<|message|>yes)"));
    EXPECT_FALSE(takes(before + "<|channel|>commentary<|message|>yes"));
  }
}

}  // namespace
}  // namespace cairn::chat
