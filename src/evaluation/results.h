/// The graded answers of a run, as a file and as sums, and two runs side by side.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "evaluation/grading.h"
#include "evaluation/question.h"
#include "evaluation/statistics.h"

namespace cairn::evaluation {

inline constexpr size_t kResultsBytesMax = 64u << 20;

struct GradedQuestion {
  std::string id;
  std::string kind;  ///< kind_name()
  int32_t level = 1;
  std::vector<std::string> tags{};
  Grade grade{};
  int64_t tokens = 0;
};

/// A run: what was asked of whom, and the grades in the set's order. It has no times, so that equal answers give equal
/// files.
struct Results {
  std::string model;
  std::string set;                                                     ///< the set's name
  nlohmann::ordered_json settings = nlohmann::ordered_json::object();  ///< max_tokens, seed, sampling parameters
  std::vector<GradedQuestion> questions{};
};

struct Tally {
  int64_t all = 0;
  int64_t right = 0;
  int64_t unread = 0;
  int64_t cut = 0;
  int64_t failed = 0;

  void add(Outcome outcome);
};

/// Tallies under "all", the kinds, the levels ("level 1") and the tags, in the order in which they come.
std::vector<std::pair<std::string, Tally>> tallies_of(const Results& results);

/// The file's text, with a line per question.
std::string results_text(const Results& results);
/// Reads such a text. Errors: kInvalidArgument, kTooLarge, with `name` and the place.
Result<Results> read_results(std::string_view text, const std::string& name);

struct Comparison {
  int64_t questions = 0;  ///< that both have
  int64_t only_in_one = 0;
  int64_t only_in_other = 0;
  Tally one{};  ///< of the questions that both have, as `other`
  Tally other{};
  int64_t both_right = 0;
  int64_t one_alone = 0;  ///< right in `one` and not in `other`
  int64_t other_alone = 0;
  int64_t neither = 0;
  double difference = 0;              ///< share of right answers of `other`, minus that of `one`
  Interval interval{};                ///< bootstrap, of the difference
  double p = 1;                       ///< sign_test of one_alone and other_alone
  std::vector<std::string> lost{};    ///< ids of one_alone
  std::vector<std::string> gained{};  ///< ids of other_alone
};

/// Errors: kInvalidArgument, no question is in both.
Result<Comparison> compare(const Results& one, const Results& other, uint64_t seed);

}  // namespace cairn::evaluation
