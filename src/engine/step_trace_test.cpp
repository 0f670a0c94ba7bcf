#include "engine/step_trace.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace cairn::engine {
namespace {

class StepTraceTest : public testing::Test {
 protected:
  StepTraceTest() { std::filesystem::create_directories(folder_); }
  ~StepTraceTest() override { std::filesystem::remove_all(folder_); }
  std::string path() const { return folder_ / "steps.jsonl"; }
  static std::vector<nlohmann::json> lines_of(const std::string& path) {
    std::vector<nlohmann::json> lines;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
    return lines;
  }
  static StepRecord record(int64_t step) {
    static const auto model = std::make_shared<const std::string>("a \"model\"");
    StepRecord record{.model = model,
                      .step = step,
                      .begin_ns = 1'500'000'000,
                      .duration_ns = 2'500'000,
                      .prompt_rows = 5,
                      .decode_rows = 1,
                      .sequences = 2};
    record.shares[0] = {.sequence = 7, .rows = 1, .decode = true};
    record.shares[1] = {.sequence = 9, .rows = 5, .decode = false};
    return record;
  }
  const std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / ("step_trace." + std::to_string(::getpid()));
};

TEST_F(StepTraceTest, ALineHasWhatWasInTheBatch) {
  {
    const auto trace = StepTrace::open(path()).value();
    trace->add(record(1));
    trace->add(record(2));
    EXPECT_EQ(trace->lost(), 0);
  }
  const auto lines = lines_of(path());
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["model"], "a \"model\"");
  EXPECT_EQ(lines[0]["step"], 1);
  EXPECT_EQ(lines[0]["time"], 1.5);
  EXPECT_EQ(lines[0]["ms"], 2.5);
  EXPECT_EQ(lines[0]["shares"], nlohmann::json::parse(R"([{"sequence": 7, "rows": 1, "decode": true},
                                                          {"sequence": 9, "rows": 5, "decode": false}])"));
  StepTrace::open(path()).value()->add(record(3));
  EXPECT_EQ(lines_of(path()).size(), 3u) << "a file that is there is gone on with";
}

TEST_F(StepTraceTest, AFileThatIsLargeIsBegunAgain) {
  const auto bytes = static_cast<int64_t>(step_json(record(1)).size()) + 1;
  for (int64_t step = 1; step <= 5; ++step) StepTrace::open(path(), 2 * bytes).value()->add(record(step));
  EXPECT_EQ(lines_of(path()).size(), 1u);
  const auto older = lines_of(path() + ".1");
  ASSERT_EQ(older.size(), 2u);
  EXPECT_EQ(older[0]["step"], 3);
}

TEST_F(StepTraceTest, MoreSequencesThanAreNamedAreCounted) {
  StepRecord many = record(1);
  many.sequences = 100;
  const auto line = nlohmann::json::parse(step_json(many));
  EXPECT_EQ(line["sequences"], 100);
  EXPECT_EQ(line["shares"].size(), kTracedSharesMax);
}

TEST_F(StepTraceTest, APlaceThatCannotBeWrittenIsNamed) {
  const auto none = StepTrace::open(folder_ / "none" / "steps");
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().code, Code::kIo);
  EXPECT_NE(none.error().message.find("none/steps"), std::string::npos);
}

}  // namespace
}  // namespace cairn::engine
