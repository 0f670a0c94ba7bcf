#include "evaluation/grading.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace cairn::evaluation {
namespace {

Question question_of(const std::string& line) {
  auto questions = read_questions(line, "test");
  EXPECT_TRUE(questions) << (questions ? "" : questions.error().text());
  return questions ? questions->front() : Question();
}

TEST(Grading, HowTheLetterOfAChoiceIsFound) {
  const std::vector<std::string> choices = {"A mammal", "Paris", "London", "a fish."};
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"B", "B"},
      {" b ", "B"},
      {"(B)", "B"},
      {"**B**", "B"},
      {"**B) Paris**", "B"},
      {"B) Paris", "B"},
      {"B. Paris is the capital, not C) London.", "B"},
      {"B: Paris", "B"},
      {"Paris", "B"},
      {"paris.", "B"},
      {"A mammal", "A"},
      {"a fish", "D"},
      {"Answer: C", "C"},
      {"answer: (c)", "C"},
      {"**Answer:** C", "C"},
      {"**Answer: C**", "C"},
      {"The answer is C.", "C"},
      {"The correct answer is: **C) London**", "C"},
      {"The answer is\nC", "C"},
      {"Answer: London", "C"},
      {"Answer: A\nNo, that is wrong.\nAnswer: C", "C"},
      {"It is in England, so \\boxed{C}", "C"},
      {"\\boxed{\\text{C}}", "C"},
      {"Let me think. A) is no city.\nB", "B"},
      {"The answer is a mammal", "A"},
      {"I do not know", ""},
      {"", ""},
      {"E", ""},
      {"Berlin", ""},
      {"A city in England", ""},
      {"B and C", ""},
      {"Both A and B are right", ""},
  };
  for (const auto& [content, letter] : cases) {
    const auto choice = choice_in(content, choices);
    EXPECT_EQ(choice ? std::string(1, static_cast<char>('A' + *choice)) : "", letter) << content;
  }
}

TEST(Grading, HowTheNumberOfAnAnswerIsFound) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"42", "42"},
      {"Answer: 42", "42"},
      {"**Answer:** 42 apples", "42"},
      {"3 + 4 = 7, so the answer is 7.", "7"},
      {"Answer: 3 * 4 = 12", "12"},
      {"Answer: x = -2", "-2"},
      {"Answer: $1,200", "1200"},
      {"Answer:\n\n**\\frac{5}{6}**", "5/6"},
      {"Answer: 0.75", "3/4"},
      {"First 3, then 4. Thus 12", "12"},
      {"\\boxed{15} is what I get in 3 steps", "15"},
      {"The answer is \\boxed{\\frac{1}{9}}.", "1/9"},
      {"Answer: 12 (and not 13)", "12"},
      {"Answer: none that I know, as 3 is wrong", "3"},
      {"no idea", ""},
      {"\\boxed{x}", ""},
  };
  for (const auto& [content, expected] : cases) {
    const auto number = number_in(content);
    EXPECT_EQ(number ? number->text() : "", expected) << content;
  }
}

TEST(Grading, APatternIsHeldAgainstTheWholeAnswer) {
  const Question question =
      question_of(R"({"id":"a","kind":"pattern","question":"q","pattern":"[Cc]hien\\.?","answer":"chien"})");
  for (const char* content : {"chien", " Chien.\n", "**chien**", "\"chien\"", "`chien`", "```\nchien\n```",
                              "Answer: chien", "The answer is **chien**"})
    EXPECT_EQ(grade(question, {.content = content}).outcome, Outcome::kRight) << content;
  for (const char* content : {"chat", "chien et chat", "Le mot est chien", "chienne"})
    EXPECT_EQ(grade(question, {.content = content}).outcome, Outcome::kWrong) << content;
  EXPECT_EQ(grade(question, {.content = " \n"}).outcome, Outcome::kUnread);
}

TEST(Grading, CallsAreComparedByNameAndValueInAnyOrder) {
  const std::string tools = R"("tools":[{"type":"function","function":{"name":"f"}}])";
  const Question two =
      question_of(R"({"id":"a","kind":"tool","question":"q",)" + tools +
                  R"(,"answer":[{"name":"f","arguments":{"x":"Rome","n":2}},{"name":"f","arguments":{}}]})");
  const auto outcome = [](const Question& question, std::vector<AnswerCall> calls) {
    return grade(question, {.content = "text", .calls = std::move(calls)}).outcome;
  };
  EXPECT_EQ(outcome(two, {{"f", "{}"}, {"f", R"({"n": 2.0, "x": " rome"})"}}), Outcome::kRight);
  EXPECT_EQ(outcome(two, {{"f", "{}"}}), Outcome::kWrong) << "one is missing";
  EXPECT_EQ(outcome(two, {{"f", "{}"}, {"f", "{}"}}), Outcome::kWrong) << "one call is no two";
  EXPECT_EQ(outcome(two, {{"f", "{}"}, {"f", R"({"n":"2","x":"Rome"})"}}), Outcome::kWrong) << "a text is no number";
  EXPECT_EQ(outcome(two, {{"f", "{}"}, {"f", R"({"n":2,"x":"Rome","y":1})"}}), Outcome::kWrong) << "one argument more";
  EXPECT_EQ(outcome(two, {{"f", "{}"}, {"g", R"({"n":2,"x":"Rome"})"}}), Outcome::kWrong) << "another function";
  EXPECT_EQ(outcome(two, {{"f", "{}"}, {"f", R"({"n":2,)"}}), Outcome::kUnread) << "arguments that are no JSON";
  EXPECT_EQ(outcome(two, {}), Outcome::kWrong) << "text is no call";
  const Question none = question_of(R"({"id":"a","kind":"tool","question":"q",)" + tools + R"(,"answer":[]})");
  EXPECT_EQ(outcome(none, {}), Outcome::kRight);
  EXPECT_EQ(outcome(none, {{"f", "{}"}}), Outcome::kWrong);
}

TEST(Grading, JsonHasToFitTheSchemaAndTheAnswer) {
  const std::string schema =
      R"("schema":{"type":"object","properties":{"a":{"type":"integer","minimum":1},"b":{"type":"string"}},"required":["a","b"],"additionalProperties":false})";
  const Question question =
      question_of(R"({"id":"a","kind":"schema","question":"q",)" + schema + R"(,"answer":{"a":2,"b":"x"}})");
  const auto outcome = [&](const char* content) { return grade(question, {.content = content}).outcome; };
  EXPECT_EQ(outcome(R"({"a": 2, "b": "x"})"), Outcome::kRight);
  EXPECT_EQ(outcome(R"({"b": "X ", "a": 2})"), Outcome::kRight) << "members in any order, texts without case";
  EXPECT_EQ(outcome("```json\n{\"a\": 2, \"b\": \"x\"}\n```"), Outcome::kRight);
  EXPECT_EQ(outcome("Here it is:\n```json\n{\"a\": 2, \"b\": \"x\"}\n```\nDone."), Outcome::kRight);
  EXPECT_EQ(outcome(R"({"a": 3, "b": "x"})"), Outcome::kWrong) << "it fits, and is another value";
  EXPECT_EQ(outcome(R"({"a": 0, "b": "x"})"), Outcome::kWrong) << "below the minimum";
  EXPECT_EQ(outcome(R"({"a": 2})"), Outcome::kWrong);
  EXPECT_EQ(outcome(R"({"a": 2, "b": "x", "c": 1})"), Outcome::kWrong);
  EXPECT_EQ(outcome(R"({"a": 2, "b": "x")"), Outcome::kUnread);
  EXPECT_EQ(outcome("a is 2"), Outcome::kUnread);
  const Question any = question_of(R"({"id":"a","kind":"schema","question":"q",)" + schema + "}");
  EXPECT_EQ(grade(any, {.content = R"({"a": 7, "b": "y"})"}).outcome, Outcome::kRight);
}

TEST(Grading, ThinkingIsNotGradedAndCutAnswersAreNamed) {
  const Question question =
      question_of(R"({"id":"a","kind":"choice","question":"q","choices":["x","y"],"answer":"B"})");
  EXPECT_EQ(grade(question, {.content = "B", .reasoning = "Answer: A"}).outcome, Outcome::kRight);
  EXPECT_EQ(grade(question, {.content = "<think>Answer: A</think>\n\nB"}).outcome, Outcome::kRight);
  EXPECT_EQ(grade(question, {.content = "Answer: A</think>\n\nB"}).outcome, Outcome::kRight);
  EXPECT_EQ(grade(question, {.content = "<think>Answer: B"}).outcome, Outcome::kUnread);
  EXPECT_EQ(grade(question, {.content = "B", .end = AnswerEnd::kCut}).outcome, Outcome::kCut);
  EXPECT_EQ(grade(question, {.content = "B", .end = AnswerEnd::kRepeated}).outcome, Outcome::kCut);
  const Grade failed = grade(question, {.content = "the server is gone", .end = AnswerEnd::kFailed});
  EXPECT_EQ(failed.outcome, Outcome::kFailed);
  EXPECT_EQ(failed.read, "the server is gone");
}

}  // namespace
}  // namespace cairn::evaluation
