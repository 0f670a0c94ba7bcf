// Compares whole models on the GPU with the same on the CPU: logits, greedy continuations, vectors of encoders; and
// checks that a sequence's logits do not depend on how it was cut into steps or on other sequences.
#include "model/model.h"

#include <filesystem>

#include "base/testing/test_data.h"
#include "compared_model.h"
#include "gguf/reader.h"
#include "gpu/model_lab.h"
#include "model/embedder.h"

namespace cairn::gpu {
namespace {

// Bounds relative to the largest logit.
constexpr double kBoundDeep = 3e-4;  // for 27 layers
constexpr double kBoundHalves = 4e-3;
constexpr double kBoundQ8 = 3e-2;
constexpr double kBoundBfloat = 2e-2;
constexpr int64_t kRowsPerOtherChoice = 14;
// NMSE over all logits: with quantised weights the CPU rounds activations to 8 bits. Two of its instruction sets differ
// by up to 3e-4.
constexpr double kSquaredBoundQuantized = 2e-3;
// The CPU is 3e-3 from exact logits in gpt-oss (golden_test), as llama.cpp is.
constexpr double kSquaredBoundClamped = 4e-3;
// The bound for weights of 16-bit floats: activations are rounded to 11 or 8 bits.
constexpr double kSquaredBoundHalves = 1e-3;

class GpuModel : public GpuTest {
 protected:
  /// The difference of each row's logits.
  static std::vector<double> differences(Model& on_gpu, Model& on_cpu, const Reference& reference) {
    std::vector<double> found;
    for (const Prompt& prompt : reference.runs) {
      const std::vector<float> a = logits_of(on_gpu, prompt.tokens, kStepRows);
      const std::vector<float> b = logits_of(on_cpu, prompt.tokens, kStepRows);
      for (int64_t row = 0; row < std::ssize(prompt.tokens); ++row) {
        found.push_back(difference(rows_of(a, on_gpu.vocabulary(), row, 1), rows_of(b, on_gpu.vocabulary(), row, 1)));
      }
    }
    return found;
  }
  static double worst(Model& on_gpu, Model& on_cpu, const Reference& reference) {
    return std::ranges::max(differences(on_gpu, on_cpu, reference));
  }
  static double squared(Model& on_gpu, Model& on_cpu, const Reference& reference) {
    double error = 0, power = 0;
    for (const Prompt& prompt : reference.runs) {
      const std::vector<float> a = logits_of(on_gpu, prompt.tokens, kStepRows);
      const std::vector<float> b = logits_of(on_cpu, prompt.tokens, kStepRows);
      for (size_t i = 0; i < a.size(); ++i) {
        error += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
        power += double{b[i]} * b[i];
      }
    }
    return error / power;
  }
};

/// Architectures whose operations others here have too: they are not worth the emulator's time.
constexpr std::string_view kOnlyOnAGpu[] = {"llama-tied-llama3rope",
                                            "llama-rope-linear",
                                            "mistral3",
                                            "qwen2",
                                            "qwen3",
                                            "gemma2",
                                            "smollm3",
                                            "olmo2",
                                            "granite",
                                            "command-r",
                                            "ernie4_5",
                                            "ernie4_5-moe",
                                            "exaone4",
                                            "falcon",
                                            "nemotron",
                                            "hunyuan-dense",
                                            "stablelm",
                                            "starcoder2",
                                            "glm4",
                                            "glm4moe",
                                            "gemma4",
                                            "minimax-m2",
                                            "converted/olmoe",
                                            "qwen35moe",
                                            "qwen3next",
                                            "converted/lfm2_moe",
                                            "converted/nemotron_h-moe",
                                            "converted/granitemoehybrid",
                                            "converted/falcon_h1",
                                            "converted/phimoe",
                                            "converted/glm_moe_dsa-shared",
                                            "deepseek4-hash"};

// Without deepseek32-topk8 and deepseek4-topk8: with their four heads many sums that select rows are exactly zero, and
// the CPU selects others of those (kernels/cpu/mla/indexer_topk.h).
TEST_F(GpuModel, LogitsAgreeWithTheCpuAndGreedyTokensWithTheReference) {
  for (const char* name : {"llama",
                           "llama-tied-llama3rope",
                           "llama-bias",
                           "llama-rope-linear",
                           "llama-rope-yarn",
                           "llama-moe",
                           "mistral3",
                           "qwen2",
                           "qwen2moe",
                           "qwen3",
                           "qwen3moe",
                           "gemma",
                           "gemma2",
                           "gemma2-tightcap",
                           "gemma3",
                           "phi3",
                           "phi3-longrope",
                           "smollm3",
                           "olmo2",
                           "olmo2-swa",
                           "granite",
                           "granitemoe",
                           "deepseek2",
                           "deepseek2-lite",
                           "deepseek2-nomla",
                           "deepseek32",
                           "mistral4",
                           "deepseek4",
                           "deepseek4-hash",
                           "deepseek4-clamp",
                           "command-r",
                           "cohere2",
                           "ernie4_5",
                           "ernie4_5-moe",
                           "exaone4",
                           "falcon",
                           "falcon-40b",
                           "gpt2",
                           "hunyuan-dense",
                           "nemotron",
                           "stablelm",
                           "stablelm-parallel",
                           "starcoder2",
                           "glm4",
                           "glm4moe",
                           "glm4moe-mtp",
                           "minimax-m2",
                           "converted/llama4",
                           "converted/olmoe",
                           "gpt-oss",
                           "gemma4",
                           "gemma4-dense",
                           "gemma4-moe",
                           "qwen35",
                           "qwen35moe",
                           "qwen3next",
                           "lfm2",
                           "mamba2",
                           "converted/lfm2_moe",
                           "converted/nemotron_h-moe",
                           "converted/granitemoehybrid",
                           "converted/kimi_linear",
                           "converted/phimoe",
                           "converted/glm_moe_dsa-shared",
                           "converted/falcon_h1"}) {
    if (kEmulated && std::ranges::count(kOnlyOnAGpu, std::string_view(name)) > 0) continue;
    SCOPED_TRACE(name);
    const Reference reference = reference_of(name);
    const ComparedModel compared(model_path(name));
    const auto file = gguf::Reader::open(compared.path()).value();
    Model on_gpu(file, gpu(), reference.context), on_cpu(file, cpu(), reference.context);
    const double found = worst(on_gpu, on_cpu, reference);
    std::printf("%-24s worst difference %.1e\n", name, found);
    EXPECT_LE(found, name == std::string_view("deepseek2-lite") ? kBoundDeep : kBoundF32);
    for (const Prompt& prompt : reference.runs) EXPECT_EQ(greedy(on_gpu, prompt), prompt.greedy);
  }
}

TEST_F(GpuModel, QuantizedLogitsAreNearThoseOfTheCpu) {
  for (const char* name :
       {"quant-llama-f16", "quant-llama-bf16", "quant-llama-q8_0", "quant-llama-q4_0", "quant-llama-q4_k_m",
        "quant-llama-q6_k", "quant-llama-q2_k", "quant-llama-iq4_xs", "quant-qwen3moe-q4_k_m", "quant-gpt-oss-mxfp4"}) {
    SCOPED_TRACE(name);
    const auto file = gguf::Reader::open(model_path(name)).value();
    const auto known = [&](const gguf::Tensor& tensor) { return gpu().supports(tensor.type); };
    if (!std::ranges::all_of(file.tensors(), known)) {
      std::printf("%-24s has types that the GPU does not multiply\n", name);
      continue;
    }
    const Reference reference = reference_of(name);
    Model on_gpu(file, gpu(), reference.context), on_cpu(file, cpu(), reference.context);
    const double found = squared(on_gpu, on_cpu, reference);
    std::printf("%-24s squared difference %.1e\n", name, found);
    const bool is_gpt_oss = std::string_view(name).starts_with("quant-gpt-oss");
    EXPECT_LE(found, std::string_view(name).ends_with("f16") ? kSquaredBoundHalves
                     : is_gpt_oss                            ? kSquaredBoundClamped
                                                             : kSquaredBoundQuantized);
  }
}

TEST_F(GpuModel, LogitsWithRoundedKeysAndValuesAgreeWithTheCpu) {
  for (const auto& [type, bound] : {std::pair{kernels::KvType::kF16, kBoundHalves},
                                    {kernels::KvType::kQ8_0, kBoundQ8},
                                    {kernels::KvType::kBF16, kBoundBfloat}}) {
    for (const char* name : {"llama", "gemma3", "deepseek2", "deepseek32", "deepseek4"}) {
      SCOPED_TRACE(name);
      const Reference reference = reference_of(name);
      const auto file = gguf::Reader::open(model_path(name)).value();
      Model on_gpu(file, gpu(), reference.context, type), on_cpu(file, cpu(), reference.context, type);
      // Different rounding can give a token another expert, or select another row, of two with nearly equal scores:
      // these models have random weights, so there are many such pairs. Their other rows are near.
      const bool chooses = std::string_view(name).starts_with("deepseek");
      const std::vector<double> found = differences(on_gpu, on_cpu, reference);
      const auto off = std::ranges::count_if(found, [bound](double d) { return !(d <= bound); });
      std::printf("%-24s KV type %d: worst %.1e\n", name, static_cast<int>(type), std::ranges::max(found));
      EXPECT_LE(off, chooses ? std::ssize(found) / kRowsPerOtherChoice : 0) << "worst " << std::ranges::max(found);
    }
  }
}

TEST_F(GpuModel, SameBytesForAnyChunksAndNeighbours) {
  for (const char* name :
       {"llama", "qwen3moe", "gemma3", "falcon-40b", "stablelm-parallel", "gpt2", "quant-llama-q8_0",
        "quant-llama-q4_k_m", "quant-llama-f16", "quant-llama-bf16", "quant-qwen3moe-q4_k_m", "quant-gpt-oss-mxfp4",
        "gemma4", "gemma4-moe", "deepseek2", "deepseek32-topk8", "deepseek4-topk8", "qwen35", "mamba2"}) {
    SCOPED_TRACE(name);
    const Reference reference = reference_of(name);
    const auto file = gguf::Reader::open(model_path(name)).value();
    Model model(file, gpu(), reference.context);
    std::span<const TokenId> tokens = reference.runs.front().tokens;
    if (kEmulated) tokens = tokens.first(20);
    const std::vector<float> whole = logits_of(model, tokens, kStepRows);
    for (const size_t chunk : {size_t{1}, size_t{7}, size_t{9}, size_t{33}}) {
      if (kEmulated && chunk > tokens.size()) continue;  // the whole again
      EXPECT_TRUE(kernels::cpu::same_bits(whole, logits_of(model, tokens, chunk))) << "chunks of " << chunk;
    }
    EXPECT_TRUE(kernels::cpu::same_bits(whole, logits_among_others(model, tokens))) << "among others";
  }
}

TEST_F(GpuModel, VectorsOfEncodersAgreeWithTheCpu) {
  for (const char* name : {"models/bert", "models/nomic-bert", "models/jina-bert-v2", "converted/nomic_bert-moe",
                           "converted/modernbert", "converted/eurobert", "converted/embeddinggemma-dense"}) {
    SCOPED_TRACE(name);
    const std::filesystem::path folder = test_data();
    const auto file = gguf::Reader::open(folder / (std::string(name) + ".gguf")).value();
    const auto on_gpu = model::load_embedder(file, gpu(), {.batch_tokens_max = 64}).value();
    const auto on_cpu = model::load_embedder(file, cpu(), {}).value();
    Random random(9);
    std::vector<std::vector<TokenId>> texts;
    for (const int32_t count : {1, 5, 200, 33}) {
      auto& text = texts.emplace_back();
      const auto last = static_cast<int32_t>(on_gpu->vocabulary()) - 1;
      for (int32_t i = 0; i < count; ++i) text.push_back(TokenId{random.integer(0, last)});
    }
    const auto width = static_cast<size_t>(on_gpu->ability().dimensions);
    const auto embedded = [&](model::Embedder& embedder, size_t first, size_t count) {
      std::vector<model::EmbedText> wanted;
      for (size_t i = first; i < first + count; ++i) wanted.push_back({texts[i]});
      std::vector<float> out(count * width);
      EXPECT_TRUE(embedder.embed(wanted, model::Pooling::kMean, out).has_value());
      return out;
    };
    const std::vector<float> together = embedded(*on_gpu, 0, texts.size());
    EXPECT_LE(difference(together, embedded(*on_cpu, 0, texts.size())), kBoundF32);
    for (size_t i = 0; i < texts.size(); ++i) {
      EXPECT_TRUE(kernels::cpu::same_bits(embedded(*on_gpu, i, 1), std::span(together).subspan(i * width, width)));
    }
  }
}

}  // namespace
}  // namespace cairn::gpu
