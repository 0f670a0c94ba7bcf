#include "sampling/sampler.h"

#include <benchmark/benchmark.h>

#include <cmath>
#include <string>
#include <vector>

#include "sampling/random.h"

namespace cairn::sampling {
namespace {

constexpr int32_t kVocabulary = 151'936;  // Qwen 2 and 3

// Logits shaped like a trained model's: a few tokens far above a wide bell that has about 1e-4 of the probability.
std::vector<float> logits_like_a_model() {
  std::vector<float> logits(kVocabulary);
  for (size_t i = 0; i < logits.size(); ++i) {
    const double radius = std::sqrt(-2 * std::log(1 - uniform(1, 2 * i)));
    logits[i] = static_cast<float>(2.5 * radius * std::cos(6.283185307 * uniform(1, 2 * i + 1)));
  }
  for (size_t i = 0; i < 40; ++i) logits[i * 3'001] = 24 - 0.4f * static_cast<float>(i);
  return logits;
}

void run(benchmark::State& state, const SamplingParams& params) {
  const std::vector<float> logits = logits_like_a_model();
  Sampler sampler(params, kVocabulary, {});
  for (auto _ : state) benchmark::DoNotOptimize(sampler.sample(logits).token);
}

SamplingParams with(void (*set)(SamplingParams&)) {
  SamplingParams params;
  set(params);
  return params;
}

BENCHMARK_CAPTURE(run, greedy, with([](SamplingParams& p) { p.temperature = 0; }));
BENCHMARK_CAPTURE(run, temperature_only, with([](SamplingParams&) {}));
BENCHMARK_CAPTURE(run, top_k_40, with([](SamplingParams& p) { p.top_k = 40; }));
BENCHMARK_CAPTURE(run, top_p_95, with([](SamplingParams& p) { p.top_p = 0.95f; }));
BENCHMARK_CAPTURE(run, top_p_9999, with([](SamplingParams& p) { p.top_p = 0.9999f; }));
BENCHMARK_CAPTURE(run, min_p_05, with([](SamplingParams& p) { p.min_p = 0.05f; }));
BENCHMARK_CAPTURE(run, typical_95, with([](SamplingParams& p) { p.typical_p = 0.95f; }));
BENCHMARK_CAPTURE(run, penalties, with([](SamplingParams& p) { p.top_k = 40, p.repetition_penalty = 1.1f; }));
BENCHMARK_CAPTURE(run, dry, with([](SamplingParams& p) { p.top_k = 40, p.dry.multiplier = 0.8f; }));
BENCHMARK_CAPTURE(run, xtc, with([](SamplingParams& p) { p.top_k = 40, p.xtc_probability = 0.5f; }));
BENCHMARK_CAPTURE(run, xtc_of_all, with([](SamplingParams& p) { p.xtc_probability = 0.5f; }));
BENCHMARK_CAPTURE(run, top_n_sigma, with([](SamplingParams& p) { p.top_n_sigma = 1; }));
BENCHMARK_CAPTURE(run, mirostat_2, with([](SamplingParams& p) { p.mirostat = 2; }));
BENCHMARK_CAPTURE(run, logprobs_20, with([](SamplingParams& p) { p.logprobs = true, p.top_logprobs = 20; }));

}  // namespace
}  // namespace cairn::sampling
