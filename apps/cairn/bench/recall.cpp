// cairn bench recall: a long story with facts in it, as a set of questions for `cairn eval`.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/text/json.h"
#include "bench/story.h"
#include "commands.h"
#include "gguf/reader.h"
#include "help/help_format.h"
#include "help/value_checks.h"
#include "model_argument.h"
#include "output.h"
#include "tokenizer/tokenizer.h"

namespace cairn {
namespace {

using nlohmann::ordered_json;

/// Tokens of the context that are left for the chat template, the question and a short answer.
constexpr int32_t kTokensReserved = 256;
constexpr int kLevels = 5;

struct RecallFlags {
  std::string model;
  int32_t tokens = 8'192;
  bench::StoryOptions story;
};

std::string conversation_text(const bench::Story& story, const std::string& question) {
  return fmt::format("Read this story. A question about it follows.\n\n{}\n{}", story.text, question);
}

/// An expression for every answer that has the right word, or the right number, within it.
std::string pattern_of(const bench::Fact& fact) {
  if (fact.number) return fmt::format("([\\s\\S]*[^0-9])?{}([^0-9][\\s\\S]*)?", fact.answer);
  const auto first = static_cast<unsigned char>(fact.answer[0]);
  return fmt::format("[\\s\\S]*[{}{}]{}[\\s\\S]*", static_cast<char>(std::toupper(first)),
                     static_cast<char>(std::tolower(first)), fact.answer.substr(1));
}

/// The longest story of so many scenes whose conversation fits.
Result<bench::Story> story_for(const RecallFlags& flags, const tokenizer::Tokenizer& tokenizer) {
  const auto tokens_of = [&](int words) -> Result<int64_t> {
    bench::StoryOptions options = flags.story;
    options.words = words;
    CAIRN_TRY(const auto ids, tokenizer.encode(conversation_text(bench::make_story(options), {}), {}));
    return std::ssize(ids);
  };
  const int64_t most = flags.tokens - kTokensReserved;
  CAIRN_TRY(const int64_t least, tokens_of(1));
  if (least > most) {
    return fail(Code::kInvalidArgument,
                "{} scenes take at least {} tokens of this model, and {} for the question; raise --tokens, or choose "
                "fewer --scenes",
                flags.story.scenes, least, kTokensReserved);
  }
  int fits = 1, too_long = flags.tokens;
  while (too_long - fits > 1) {
    const int words = (fits + too_long) / 2;
    // A word has a token at least, so that longer stories need not be made.
    bool fitting = int64_t{words} * flags.story.scenes <= most;
    if (fitting) {
      CAIRN_TRY(const int64_t tokens, tokens_of(words));
      fitting = tokens <= most;
    }
    (fitting ? fits : too_long) = words;
  }
  bench::StoryOptions options = flags.story;
  options.words = fits;
  return bench::make_story(options);
}

Result<void> bench_recall(const RecallFlags& flags) {
  if (flags.story.facts > flags.story.scenes) {
    return fail(Code::kInvalidArgument, "{} facts need as many scenes, and there are {}", flags.story.facts,
                flags.story.scenes);
  }
  CAIRN_TRY(const std::string path, find_model_file(flags.model));
  CAIRN_TRY(const gguf::Reader file, gguf::Reader::open(path));
  CAIRN_TRY(const auto tokenizer, tokenizer::Tokenizer::load(file.metadata()));
  CAIRN_TRY(const bench::Story story, story_for(flags, *tokenizer));
  for (size_t i = 0; i < story.facts.size(); ++i) {
    const bench::Fact& fact = story.facts[i];
    const ordered_json line{
        {"id", fmt::format("recall-{}-{}-{:02}", flags.tokens, flags.story.seed, i + 1)},
        {"kind", "pattern"},
        {"level", std::clamp(flags.tokens / 8'192, 1, kLevels)},
        {"tags", {"recall", fmt::format("scene {} of {}", fact.scene, flags.story.scenes)}},
        {"question", conversation_text(story, fact.question)},
        {"pattern", pattern_of(fact)},
        {"answer", fact.answer},
    };
    CAIRN_TRY_VOID(show(json_text(line) + "\n"));
  }
  return {};
}

}  // namespace

void add_bench_recall(CLI::App& bench, int& exit_code) {
  auto* command = bench.add_subcommand(
      "recall",
      "Write a set of questions for cairn eval: each has the same long story, and asks for one of the facts in it");
  set_help(*command, "cairn bench recall qwen3-4b.gguf --tokens 32768 > recall.jsonl");
  auto flags = std::make_shared<RecallFlags>();
  command
      ->add_option("MODEL", flags->model, "Model whose tokens are counted: GGUF file, or a name that cairn list shows")
      ->required();
  command
      ->add_option("--tokens", flags->tokens,
                   "Context that the story, a question and a short answer fill, in tokens of the model")
      ->check(whole_number(512, 1 << 24))
      ->capture_default_str();
  command->add_option("--scenes", flags->story.scenes, "Scenes of the story; with more tokens they are longer")
      ->check(whole_number(1, bench::kScenesMax))
      ->capture_default_str();
  command->add_option("--facts", flags->story.facts, "Facts in the story, and questions")
      ->check(whole_number(1, bench::kFactsMax))
      ->capture_default_str();
  command->add_option("--seed", flags->story.seed, "The same seed gives the same story")
      ->check(whole_number(0, std::numeric_limits<uint64_t>::max()))
      ->capture_default_str();
  command->callback([flags, &exit_code] {
    if (const auto done = bench_recall(*flags); !done) exit_code = report(done.error());
  });
}

}  // namespace cairn
