#include "evaluation/question.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "evaluation/grading.h"

namespace cairn::evaluation {
namespace {

TEST(QuestionSet, CairnsOwnHasEnoughOfEachKindFromEasyToHard) {
  const auto questions = read_questions(own_questions_text(), "own");
  ASSERT_TRUE(questions) << questions.error().text();
  EXPECT_GE(questions->size(), 93U);
  std::map<Kind, int> kinds;
  std::map<std::string, int> tags;
  int32_t level = 1;
  for (const Question& question : *questions) {
    EXPECT_GE(question.level, level) << question.id << ": the set goes from easy to hard";
    level = question.level;
    ++kinds[question.kind];
    ASSERT_FALSE(question.tags.empty()) << question.id;
    ++tags[question.tags.front()];
  }
  EXPECT_EQ(level, kLevelMax);
  EXPECT_EQ(kinds.size(), 5U);
  for (const char* tag : {"science", "mathematics", "security", "languages", "tools"}) EXPECT_GE(tags[tag], 15) << tag;
}

// The letters of the right choices do not help anyone who always gives the same one.
TEST(QuestionSet, NoLetterIsRightMuchMoreOftenThanOthers) {
  const auto questions = read_questions(own_questions_text(), "own");
  ASSERT_TRUE(questions);
  std::vector<int> letters(4);
  int choices = 0;
  for (const Question& question : *questions) {
    if (question.kind != Kind::kChoice) continue;
    ASSERT_EQ(question.choices.size(), letters.size()) << question.id;
    ++letters[question.right_choice];
    ++choices;
  }
  for (const int count : letters) EXPECT_LE(count, choices * 3 / 10);
}

// What the set says is right is graded as right, in the form that the question asks for.
TEST(QuestionSet, ItsOwnAnswersAreRight) {
  const auto questions = read_questions(own_questions_text(), "own");
  ASSERT_TRUE(questions);
  for (const Question& question : *questions) {
    Answer answer{.content = question.answer_text};
    if (question.kind == Kind::kChoice) answer.content = std::string(1, static_cast<char>('A' + question.right_choice));
    if (question.kind == Kind::kNumber) answer.content = "It is simple.\nAnswer: " + question.answer_text;
    for (const ExpectedCall& call : question.calls) answer.calls.push_back({call.name, call.arguments.dump()});
    const Grade graded = grade(question, answer);
    EXPECT_EQ(graded.outcome, Outcome::kRight) << question.id << ": " << graded.read;
  }
}

TEST(QuestionSet, BadLinesAreRefusedWithTheirNumberAndTheReason) {
  const std::string good = R"({"id":"a","kind":"number","question":"1+1?","answer":2})";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{", "the line is no JSON"},
      {"[]", "the line is no JSON object"},
      {R"({"kind":"number","question":"q","answer":2})", "\"id\" is missing"},
      {R"({"id":"b","kind":"riddle","question":"q"})", "not \"riddle\""},
      {R"({"id":"a","kind":"number","question":"q","answer":2})", "the id a is another question's already"},
      {R"({"id":"b","kind":"number","question":"","answer":2})", "\"question\" is no text"},
      {R"({"id":"b","kind":"number","question":"q","answer":"two"})", "no exact number: two"},
      {R"({"id":"b","kind":"number","question":"q","answer":"2 metres"})", "no exact number: 2 metres"},
      {R"({"id":"b","kind":"number","question":"q","answer":2,"choices":["x"]})", "\"choices\" is no member"},
      {R"({"id":"b","kind":"number","question":"q","answer":2,"level":9})", "\"level\" is no whole number from 1 to 5"},
      {R"({"id":"b","kind":"choice","question":"q","choices":["x"],"answer":"A"})", "needs 2 to 8 texts"},
      {R"({"id":"b","kind":"choice","question":"q","choices":["x","x"],"answer":"A"})", "has \"x\" twice"},
      {R"({"id":"b","kind":"choice","question":"q","choices":["x","y"],"answer":"C"})", "A to B, not \"C\""},
      {R"({"id":"b","kind":"pattern","question":"q","pattern":"(","answer":"x"})", "pattern"},
      {R"({"id":"b","kind":"pattern","question":"q","pattern":"a+","answer":"b"})", "does not match"},
      {R"({"id":"b","kind":"tool","question":"q","answer":[]})", "\"tools\" is missing"},
      {R"({"id":"b","kind":"tool","question":"q","tools":[{"function":{"name":"f"}}],"answer":[{"name":"g","arguments":{}}]})",
       "calls g, which \"tools\" does not have"},
      {R"({"id":"b","kind":"schema","question":"q","schema":{"type":"nothing"}})", "\"schema\" cannot be used"},
      {R"({"id":"b","kind":"schema","question":"q","schema":{"type":"integer"},"answer":"x"})", "does not fit"},
  };
  for (const auto& [line, reason] : cases) {
    const auto questions = read_questions(good + "\n\n" + line + "\n", "my.jsonl");
    ASSERT_FALSE(questions) << line;
    EXPECT_EQ(questions.error().at, "my.jsonl, line 3") << line;
    EXPECT_NE(questions.error().message.find(reason), std::string::npos) << questions.error().message;
  }
  EXPECT_FALSE(read_questions("\n\n", "empty"));
  EXPECT_TRUE(read_questions(good + "\r\n", "windows"));
}

TEST(QuestionSet, TheMessageHasTheChoicesWithTheirLetters) {
  const auto questions =
      read_questions(R"({"id":"a","kind":"choice","question":"Which?","choices":["one","two"],"answer":"B"})", "set");
  ASSERT_TRUE(questions);
  const std::string text = messages_of(questions->front())[0]["content"];
  EXPECT_TRUE(text.starts_with("Which?\n\nA) one\nB) two\n")) << text;
}

}  // namespace
}  // namespace cairn::evaluation
