// `cairn eval compare`: two files of grades side by side.
#include <fmt/format.h>

#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/text/text_file.h"
#include "commands.h"
#include "evaluation/results.h"
#include "help/help_format.h"
#include "help/value_checks.h"
#include "output.h"

namespace cairn {
namespace {

using evaluation::Comparison;
using evaluation::Tally;

constexpr double kPercentOfShare = 100;

struct CompareFlags {
  std::string one;
  std::string other;
  uint64_t seed = 0;
  bool json = false;
};

Result<evaluation::Results> read_file(const std::string& name) {
  CAIRN_TRY(const std::string text, read_text_file(name, "the results", evaluation::kResultsBytesMax));
  return evaluation::read_results(text, name);
}

void print_json(const Comparison& compared) {
  const auto tally = [](const Tally& each) {
    const evaluation::Interval interval = evaluation::wilson_interval(each.right, each.all);
    return nlohmann::ordered_json{{"right", each.right},   {"low", interval.low}, {"high", interval.high},
                                  {"unread", each.unread}, {"cut", each.cut},     {"failed", each.failed}};
  };
  print("{}\n", nlohmann::ordered_json{{"questions", compared.questions},
                                       {"only_in_a", compared.only_in_one},
                                       {"only_in_b", compared.only_in_other},
                                       {"a", tally(compared.one)},
                                       {"b", tally(compared.other)},
                                       {"both_right", compared.both_right},
                                       {"only_a_right", compared.lost},
                                       {"only_b_right", compared.gained},
                                       {"neither_right", compared.neither},
                                       {"difference", compared.difference},
                                       {"difference_low", compared.interval.low},
                                       {"difference_high", compared.interval.high},
                                       {"sign_test_p", compared.p}}
                    .dump());
}

void print_table(const CompareFlags& flags, const Comparison& compared) {
  const auto line = [&](const std::string& name, const Tally& tally) {
    const evaluation::Interval interval = evaluation::wilson_interval(tally.right, tally.all);
    print("{}: {} of {} right, {:.1f} % (95 % interval {:.1f} to {:.1f})\n", name, tally.right, tally.all,
          kPercentOfShare * static_cast<double>(tally.right) / static_cast<double>(tally.all),
          kPercentOfShare * interval.low, kPercentOfShare * interval.high);
  };
  line("A " + flags.one, compared.one);
  line("B " + flags.other, compared.other);
  if (compared.only_in_one + compared.only_in_other > 0)
    print("left out: {} questions that only A has, and {} that only B has\n", compared.only_in_one,
          compared.only_in_other);
  print("both right {}, only A {}, only B {}, neither {}\n", compared.both_right, compared.one_alone,
        compared.other_alone, compared.neither);
  print("B - A: {:+.1f} percentage points (95 % interval {:+.1f} to {:+.1f}), sign test p = {:.4g}\n",
        kPercentOfShare * compared.difference, kPercentOfShare * compared.interval.low,
        kPercentOfShare * compared.interval.high, compared.p);
  for (const std::string& id : compared.lost) print("only A  {}\n", id);
  for (const std::string& id : compared.gained) print("only B  {}\n", id);
}

Result<void> run_compare(const CompareFlags& flags) {
  CAIRN_TRY(const evaluation::Results one, read_file(flags.one));
  CAIRN_TRY(const evaluation::Results other, read_file(flags.other));
  CAIRN_TRY(const Comparison compared, evaluation::compare(one, other, flags.seed));
  flags.json ? print_json(compared) : print_table(flags, compared);
  return {};
}

}  // namespace

void add_eval_compare(CLI::App& eval, int& exit_code) {
  auto* command = eval.add_subcommand("compare", "Compare two files that --json has written, question by question");
  set_help(*command, "cairn eval compare before.json after.json");
  auto flags = std::make_shared<CompareFlags>();
  command->add_option("A", flags->one, "File of the first run")->required();
  command->add_option("B", flags->other, "File of the second run")->required();
  command->add_option("--seed", flags->seed, "Seed of the draws that the interval of the difference is made with")
      ->check(whole_number(0, std::numeric_limits<uint64_t>::max()))
      ->capture_default_str();
  command->add_flag("--json", flags->json, "Print JSON, for programs");
  command->callback([flags, &exit_code] {
    if (const auto done = run_compare(*flags); !done) exit_code = report(done.error());
  });
}

}  // namespace cairn
