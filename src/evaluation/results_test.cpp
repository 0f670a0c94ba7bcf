#include "evaluation/results.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace cairn::evaluation {
namespace {

Results results_of(const std::vector<std::pair<std::string, Outcome>>& outcomes) {
  Results results{.model = "m", .set = "s"};
  for (const auto& [id, outcome] : outcomes)
    results.questions.push_back({.id = id, .kind = "choice", .level = 2, .tags = {"science"}, .grade = {outcome, "B"}});
  return results;
}

TEST(Results, AFileIsReadAsItWasWritten) {
  Results results = results_of({{"a", Outcome::kRight}, {"b", Outcome::kCut}, {"c \"quoted\"", Outcome::kUnread}});
  results.settings = {{"seed", 1}};
  const std::string text = results_text(results);
  const auto read = read_results(text, "file");
  ASSERT_TRUE(read) << read.error().text();
  ASSERT_EQ(read->questions.size(), 3U);
  EXPECT_EQ(read->questions[2].id, "c \"quoted\"");
  EXPECT_EQ(read->questions[1].grade.outcome, Outcome::kCut);
  EXPECT_EQ(read->questions[0].level, 2);
  EXPECT_EQ(read->questions[0].tags, std::vector<std::string>{"science"});
  EXPECT_EQ(read->model, "m");
}

TEST(Results, TalliesAreOfKindsLevelsAndTags) {
  const auto tallies = tallies_of(results_of({{"a", Outcome::kRight}, {"b", Outcome::kCut}, {"c", Outcome::kWrong}}));
  ASSERT_EQ(tallies.size(), 4U);
  EXPECT_EQ(tallies[0].first, "all");
  EXPECT_EQ(tallies[1].first, "choice");
  EXPECT_EQ(tallies[2].first, "level 2");
  EXPECT_EQ(tallies[3].first, "science");
  for (const auto& [name, tally] : tallies) {
    EXPECT_EQ(tally.all, 3);
    EXPECT_EQ(tally.right, 1);
    EXPECT_EQ(tally.cut, 1);
  }
}

TEST(Results, ComparisonsCountPairs) {
  const Results one =
      results_of({{"a", Outcome::kRight}, {"b", Outcome::kRight}, {"c", Outcome::kWrong}, {"only", Outcome::kRight}});
  const Results other = results_of({{"c", Outcome::kRight},
                                    {"b", Outcome::kCut},
                                    {"a", Outcome::kRight},
                                    {"x", Outcome::kWrong},
                                    {"y", Outcome::kWrong}});
  const auto compared = compare(one, other, 1);
  ASSERT_TRUE(compared);
  EXPECT_EQ(compared->questions, 3);
  EXPECT_EQ(compared->only_in_one, 1);
  EXPECT_EQ(compared->only_in_other, 2);
  EXPECT_EQ(compared->both_right, 1);
  EXPECT_EQ(compared->one_alone, 1);
  EXPECT_EQ(compared->other_alone, 1);
  EXPECT_EQ(compared->neither, 0);
  EXPECT_EQ(compared->difference, 0);
  EXPECT_EQ(compared->p, 1);
  EXPECT_EQ(compared->lost, std::vector<std::string>{"b"});
  EXPECT_EQ(compared->gained, std::vector<std::string>{"c"});
  EXPECT_FALSE(compare(one, results_of({{"z", Outcome::kRight}}), 1));
}

TEST(Results, FilesThatAreNoneAreRefused) {
  for (
      const char* text :
      {"", "{", "[]", "{}", R"({"questions": 3})", R"({"questions": [3]})",
       R"({"questions": [{"id": "a", "kind": "choice", "outcome": "great"}]})",
       R"({"questions": [{"id": "a", "kind": "k", "outcome": "right"}, {"id": "a", "kind": "k", "outcome": "right"}]})"}) {
    const auto read = read_results(text, "file");
    ASSERT_FALSE(read) << text;
    EXPECT_TRUE(read.error().at.starts_with("file")) << read.error().text();
  }
}

}  // namespace
}  // namespace cairn::evaluation
