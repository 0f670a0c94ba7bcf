// Fuzzes a set of questions, and grades with it: an error that says the line, or questions within the limits, whose
// grading ends whatever the answer is. Behind the first NUL byte is the answer; the same bytes are read as results.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>
#include <string_view>

#include "base/log.h"
#include "evaluation/grading.h"
#include "evaluation/question.h"
#include "evaluation/results.h"

using namespace cairn;              // NOLINT: one small program
using namespace cairn::evaluation;  // NOLINT

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const bool kQuiet = (set_log_level(LogLevel::kError), true);
  require(kQuiet);
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t end = std::min(input.find('\0'), input.size());
  const std::string content(input.substr(std::min(end + 1, input.size())));
  const auto questions = read_questions(input.substr(0, end), "set");
  if (questions) {
    require(!questions->empty() && questions->size() <= kQuestionsMax);
    std::set<std::string> ids;
    for (const Question& question : *questions) {
      require(!question.id.empty() && ids.insert(question.id).second);
      require(messages_of(question).size() == 1);
      const Answer answer{.content = content, .calls = {{"f", content}}};
      const Grade graded = grade(question, answer);
      require(graded.outcome != Outcome::kCut && graded.outcome != Outcome::kFailed);
      require(grade(question, answer).read == graded.read);
    }
  } else {
    require(!questions.error().message.empty() && questions.error().at.starts_with("set"));
  }
  if (const auto results = read_results(input, "results")) {
    const auto again = read_results(results_text(*results), "again");
    require(again && again->questions.size() == results->questions.size());
  }
  return 0;
}
