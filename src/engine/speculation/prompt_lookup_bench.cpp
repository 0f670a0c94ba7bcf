#include <benchmark/benchmark.h>

#include <vector>

#include "engine/speculation/drafter.h"

namespace cairn::engine {
namespace {

/// Benchmarks a history of the given number of tokens over the given vocabulary: the last token occurs about once per
/// vocabulary's length.
void propose(benchmark::State& state) {
  std::vector<TokenId> tokens(static_cast<size_t>(state.range(0)));
  uint64_t random = 1;
  for (TokenId& token : tokens) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    token = TokenId{static_cast<int32_t>((random >> 33) % static_cast<uint64_t>(state.range(1)))};
  }
  std::vector<TokenId> proposed;
  proposed.reserve(8);
  const std::vector<DraftRequest> requests = {{SequenceId{1}, tokens, 8, &proposed}};
  const auto drafter = make_prompt_lookup(4);
  for (auto _ : state) {
    proposed.clear();
    drafter->propose(requests);
    benchmark::DoNotOptimize(proposed.data());
  }
}
BENCHMARK(propose)->Args({10'000, 100'000})->Args({10'000, 100})->Args({32'768, 100'000})->Args({32'768, 100});

}  // namespace
}  // namespace cairn::engine
