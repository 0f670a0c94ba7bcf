#include "chat/constraints/answer_grammar.h"

#include <gtest/gtest.h>

#include <string>

#include "gguf/reader.h"
#include "grammar/readers/text_readers.h"

namespace cairn {
namespace {

class AnswerGrammarTest : public testing::Test {
 protected:
  void SetUp() override {
    auto file = gguf::Reader::open(CAIRN_TEST_DATA "/models/llama.gguf");
    ASSERT_TRUE(file.has_value()) << file.error().text();
    auto tokenizer = Tokenizer::load(file->metadata());
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
  static bool allowed(const NextTokenRule& next, TokenId token) {
    const auto at = static_cast<size_t>(index(token));
    return next.allowed.empty() || (next.allowed[at / 64] >> (at % 64) & 1) != 0;
  }
  /// The letters of `all` that may come next.
  std::string letters(const NextTokenRule& next, std::string_view all) const {
    std::string result;
    for (const char letter : all)
      if (allowed(next, byte(letter))) result += letter;
    return result;
  }
  void say(AnswerGrammar& answer, std::string_view text, NextTokenRule& next) const {
    for (const char letter : text) answer.token(byte(letter), next);
  }

  std::unique_ptr<Tokenizer> tokenizer_;
  std::shared_ptr<const AnswerVocabulary> vocabulary_;
};

TEST_F(AnswerGrammarTest, MasksWhatTheGrammarDoesNotTake) {
  AnswerGrammar answer(rules("ab?c+"));
  NextTokenRule next;
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
  NextTokenRule next;
  answer.start(false, next);
  say(answer, "a", next);
  EXPECT_FALSE(next.end.has_value());
  say(answer, "b", next);
  EXPECT_EQ(next.end, FinishReason::kStop);
  EXPECT_TRUE(next.allowed.empty());
}

TEST_F(AnswerGrammarTest, MayEndAtOnceWhereTheGrammarTakesNothing) {
  AnswerGrammar maybe(rules("a*"));
  NextTokenRule next;
  maybe.start(false, next);
  EXPECT_TRUE(allowed(next, end()));
  EXPECT_EQ(letters(next, "ab"), "a");

  AnswerGrammar empty(rules(""));
  NextTokenRule over;
  empty.start(false, over);
  EXPECT_EQ(over.end, FinishReason::kStop);
}

TEST_F(AnswerGrammarTest, TakesAtMostFourBytesOfSpaceAfterThinking) {
  AnswerGrammar answer(rules("[ab]+"));
  NextTokenRule next;
  answer.start(/*space=*/true, next);
  EXPECT_EQ(letters(next, "ac \n\t"), "a \n\t");
  say(answer, "\n\n \n", next);
  EXPECT_FALSE(next.error.has_value());
  EXPECT_EQ(letters(next, "ac \n\t"), "a");
  say(answer, "ab", next);
  EXPECT_FALSE(next.error.has_value());
  EXPECT_EQ(letters(next, "ac \n\t"), "a");

  AnswerGrammar without(rules("[ab]+"));
  NextTokenRule strict;
  without.start(/*space=*/false, strict);
  EXPECT_EQ(letters(strict, "ac \n\t"), "a");

  // Text that came in one token with the end of the thinking.
  AnswerGrammar together(rules("[ab]+"));
  NextTokenRule rest;
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
  NextTokenRule next;
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
  NextTokenRule next;
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
  NextTokenRule next;
  answer.start(/*space=*/true, next);
  EXPECT_EQ(letters(next, "abcd {"), "cd");  // neither space nor a call in the middle of an answer
  say(answer, "c", next);
  EXPECT_EQ(next.end, FinishReason::kStop);
}

TEST_F(AnswerGrammarTest, FailsWithTheLimitThatWasReached) {
  AnswerGrammar unfit(rules("ab"));
  NextTokenRule next;
  unfit.start(false, next);
  say(unfit, "b", next);
  ASSERT_TRUE(next.error.has_value());
  EXPECT_EQ(next.error->code, Code::kInternal);

  // Three conditions of which each needs what was read long ago.
  AnswerGrammar heavy(rules("(?=.*a.{300}b)(?=.*b.{301}a)(?!.*a.{200}a.{200}b).*"));
  NextTokenRule rule;
  heavy.start(false, rule);
  for (int i = 0; i < 400 && !rule.error; ++i) say(heavy, i % 3 == 0 ? "a" : "b", rule);
  EXPECT_TRUE(!rule.error || rule.error->code == Code::kTooLarge) << rule.error->message;
}

}  // namespace
}  // namespace cairn
