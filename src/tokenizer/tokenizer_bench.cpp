// Benchmark in megabytes of text per second, on vocabularies of the reference data: ordinary text, and a million times
// the same letter.
#include <benchmark/benchmark.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "base/testing/test_data.h"
#include "gguf/reader.h"
#include "tokenizer/test_support.h"
#include "tokenizer/tokenizer.h"

namespace cairn::tokenizer {
namespace {

const Tokenizer& vocabulary(const std::string& name) {
  static std::map<std::string, std::unique_ptr<Tokenizer>> loaded;
  std::unique_ptr<Tokenizer>& found = loaded[name];
  if (!found) {
    const auto path = test::vocabulary_file(test_data(), name);
    found = Tokenizer::load(gguf::Reader::open(path).value().metadata()).value();
  }
  return *found;
}

std::string ordinary_text() {
  constexpr std::string_view kParagraph =
      "The quick brown fox jumps over the lazy dog, while 1,234 engineers (and their managers) argue about tabs.\n\n"
      "    for (int i = 0; i < count; ++i) {\n        total += values[i] * 0.5f;  // half of each\n    }\n\n"
      "Die Würde des Menschen ist unantastbar. Il n'y a qu'une chose à faire : réécrire. 東京は日本の首都です。"
      "Это обычный текст. \U0001F600 It's what we've got.\n";
  std::string out;
  while (out.size() < 1 << 20) out += kParagraph;
  return out;
}

void encode(benchmark::State& state, const std::string& name, const std::string& text) {
  const Tokenizer& tokenizer = vocabulary(name);
  size_t tokens = 0;
  for (auto _ : state) tokens = tokenizer.encode(text, {}).value().size();
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * text.size()));
  state.counters["tokens"] = static_cast<double>(tokens);
}

void load(benchmark::State& state, const std::string& name) {
  const auto path = test::vocabulary_file(test_data(), name);
  for (auto _ : state) {
    benchmark::DoNotOptimize(Tokenizer::load(gguf::Reader::open(path).value().metadata()).value());
  }
}

const int kRegistered = [] {
  for (const std::string name :
       {"llama-bpe", "qwen2", "deepseek-llm", "gemma-4", "llama-spm", "nomic-bert-moe", "bert-bge"}) {
    const auto unit = benchmark::kMillisecond;
    benchmark::RegisterBenchmark(("load/" + name).c_str(), load, name)->Unit(unit);
    benchmark::RegisterBenchmark(("ordinary/" + name).c_str(), encode, name, ordinary_text())->Unit(unit);
    benchmark::RegisterBenchmark(("one_letter/" + name).c_str(), encode, name, std::string(1 << 20, 'a'))->Unit(unit);
  }
  return 0;
}();

}  // namespace
}  // namespace cairn::tokenizer
