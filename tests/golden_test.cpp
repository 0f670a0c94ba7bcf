// Compares every architecture's fixture with logits of another implementation (tests/data/README.md), and checks that a
// request's bytes depend neither on how its rows are cut into steps, nor on its neighbours, nor on threads.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "compared_model.h"
#include "convert/quantize.h"
#include "edited_model.h"
#include "gguf/reader.h"
#include "golden_model.h"
#include "kernels/cpu/cpu_backend.h"

namespace cairn {
namespace {

struct Fixture {
  const char* name;
  const char* reference = nullptr;  ///< if not that of the model
};

void PrintTo(const Fixture& f, std::ostream* out) { *out << (f.reference == nullptr ? f.name : f.reference); }

const Fixture kFixtures[] = {
    {"llama"},
    {"llama-tied-llama3rope"},
    {"llama-bias"},
    {"llama-rope-linear"},
    {"llama-rope-yarn"},
    {"llama-moe"},
    {"mistral3"},
    {"qwen2"},
    {"qwen2moe"},
    {"qwen3"},
    {"qwen3moe"},
    {"gemma"},
    {"gemma2"},
    {"gemma2-tightcap"},
    {"gemma3"},
    {"phi3"},
    {"phi3-longrope"},
    {"phi3-longrope", "phi3-longrope.short"},
    {"smollm3"},
    {"olmo2"},
    {"olmo2-swa"},
    {"granite"},
    {"granitemoe"},
    {"deepseek2"},
    {"deepseek2-lite"},
    {"deepseek2-nomla"},
    {"deepseek32"},
    {"deepseek32-topk8"},
    {"mistral4"},
    {"deepseek4"},
    {"deepseek4-hash"},
    {"deepseek4-topk8"},
    {"deepseek4-clamp"},
    {"command-r"},
    {"cohere2"},
    {"ernie4_5"},
    {"ernie4_5-moe"},
    {"exaone4"},
    {"falcon"},
    {"falcon-40b"},
    {"gpt2"},
    {"hunyuan-dense"},
    {"nemotron"},
    {"stablelm"},
    {"stablelm-parallel"},
    {"starcoder2"},
    {"glm4"},
    {"glm4moe"},
    {"glm4moe-mtp"},
    {"minimax-m2"},
    {"qwen35"},
    {"qwen35-mtp"},
    {"qwen35moe"},
    {"qwen35moe-fused"},
    {"qwen3next"},
    {"lfm2"},
    {"mamba2"},
    {"gpt-oss"},
    {"gemma4"},
    {"gemma4-dense"},
    {"gemma4-moe"},
};

const char* const kGeluFamilies[] = {"gemma", "gpt2", "falcon", "starcoder2"};

class GoldenTest : public testing::TestWithParam<Fixture> {
 protected:
  std::string file() const { return compared_.path(); }
  Reference reference() const {
    const char* name = GetParam().reference == nullptr ? GetParam().name : GetParam().reference;
    return read_reference(fixture(fmt::format("models/{}.ref.json", name)));
  }
  /// llama.cpp's GELU is a table of binary16 numbers; the errors of 27 layers add up.
  double nmse_max() const {
    const std::string_view name = GetParam().name;
    const auto gelu = [&](const char* family) { return name.starts_with(family); };
    if (std::ranges::any_of(kGeluFamilies, gelu)) return 1e-5;
    return name == "deepseek2-lite" ? 1e-7 : 1e-8;
  }

 private:
  const ComparedModel compared_{fixture(fmt::format("models/{}.gguf", GetParam().name))};
};

TEST_P(GoldenTest, LogitsAndGreedyContinuationAreThoseOfTheReference) {
  const Reference reference = this->reference();
  for (const std::string& isa : isas()) {
    Model model(file(), reference.context, isa, 2);
    ASSERT_EQ(model.runner().context_tokens(), reference.context);
    double worst = 0;
    for (const Prompt& run : reference.runs) {
      worst = std::max(worst, worst_nmse(model, run));
      EXPECT_EQ(greedy_continuation(model, run), run.greedy) << isa;
    }
    std::printf("%-24s %-8s worst NMSE %.1e\n", GetParam().name, isa.c_str(), worst);
    EXPECT_LE(worst, nmse_max()) << isa;
    EXPECT_EQ(model.pool().pages_free(0), kPoolPages);
  }
}

TEST_P(GoldenTest, SameBytesForAnyChunksNeighboursAndThreads) {
  const Reference reference = this->reference();
  const std::span<const TokenId> tokens = reference.runs.front().tokens;
  for (const std::string& isa : isas()) {
    SCOPED_TRACE(isa);
    Model model(file(), reference.context, isa, 1);
    const std::vector<float> whole = logits_of(model, tokens, kRowsMax);
    expect_same_bytes(whole, logits_of(model, tokens, 5), "chunks of 5");
    expect_same_bytes(whole, logits_of(model, tokens, 1), "token by token");
    expect_same_bytes(whole, logits_among_others(model, tokens), "among 8 others");
    Model threads(file(), reference.context, isa, 2);
    expect_same_bytes(whole, logits_of(threads, tokens, kRowsMax), "2 threads");
    expect_same_bytes(whole, logits_among_others(threads, tokens), "2 threads, among 8 others");
  }
}

/// Divides each matrix by a power of two, which becomes its scale, as in files in NVFP4.
std::vector<AddedTensor> with_scales(const std::filesystem::path& path) {
  std::vector<AddedTensor> tensors;
  const auto file = gguf::Reader::open(path);
  if (!file.has_value()) throw std::runtime_error(file.error().text());
  for (const gguf::Tensor& tensor : file->tensors()) {
    if (tensor.shape.size() < 2 || !tensor.name.ends_with(".weight")) continue;
    EXPECT_EQ(tensor.type, TensorType::kF32);
    AddedTensor divided{
        std::string(tensor.name), {tensor.shape.begin(), tensor.shape.end()}, std::vector<float>(tensor.elements())};
    std::memcpy(divided.values.data(), tensor.bytes.data(), tensor.bytes.size());
    const int64_t experts = tensor.shape.size() == 3 ? tensor.shape[2] : 1;
    const std::string base(tensor.name.substr(0, tensor.name.size() - std::strlen(".weight")));
    AddedTensor scales{base + ".scale", {experts}, {}};
    for (int64_t e = 0; e < experts; ++e) scales.values.push_back(std::ldexp(1.0f, static_cast<int>(e % 5) - 7));
    for (size_t i = 0; i < divided.values.size(); ++i) {
      divided.values[i] /= scales.values[i * experts / divided.values.size()];
    }
    tensors.insert(tensors.end(), {divided, scales, AddedTensor{base + ".input_scale", {experts}, scales.values}});
  }
  return tensors;
}

const std::vector<TokenId> kSomeTokens = {TokenId{1}, TokenId{7}, TokenId{20}, TokenId{3}, TokenId{11}};

TEST(ScaledWeights, WeightsWithScalesGiveTheSameLogits) {
  for (const std::string name : {"llama-bias", "llama-moe", "deepseek2", "deepseek2-nomla"}) {
    SCOPED_TRACE(name);
    const std::string path = "models/" + name + ".gguf";
    const EditedModel edited(fixture(path), "scaled", with_scales(fixture(path)), [](gguf::Writer&) {});
    testing::internal::CaptureStderr();
    Model whole(path, 64, "", 1), scaled(edited.path(), 64, "", 2);
    EXPECT_EQ(testing::internal::GetCapturedStderr().find("scale"), std::string::npos) << "all tensors have a use";
    expect_same_bytes(logits_of(whole, kSomeTokens, 5), logits_of(scaled, kSomeTokens, 5), "scaled");
  }
}

TEST(ScaledWeights, QuantizingKeepsTheScalesOfWeights) {
  const std::string path = "models/llama-bias.gguf";
  const EditedModel edited(fixture(path), "scaled", with_scales(fixture(path)), [](gguf::Writer&) {});
  const std::filesystem::path folder = std::filesystem::temp_directory_path();
  const std::string own = std::to_string(::getpid()) + ".gguf";
  const std::filesystem::path plain = folder / ("plain-q8." + own), quantized = folder / ("scaled-q8." + own);
  const convert::QuantizeOptions options{.mix = convert::QuantizeMix::kQ8_0, .threads = 1};
  ASSERT_TRUE(convert::quantize_file(fixture(path), plain, options).has_value());
  ASSERT_TRUE(convert::quantize_file(edited.path(), quantized, options).has_value());
  {
    Model whole(plain, 64, "", 1), scaled(quantized, 64, "", 1);
    expect_same_bytes(logits_of(whole, kSomeTokens, 5), logits_of(scaled, kSomeTokens, 5), "quantized");
  }
  std::filesystem::remove(plain);
  std::filesystem::remove(quantized);
}

TEST(ScaledWeights, ScalesOfTheWrongShapeAreRefused) {
  const std::string path = "models/llama-bias.gguf";
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{2}, std::vector<int64_t>{1, 2}}) {
    AddedTensor scale{"blk.0.attn_q.scale", shape, {0.5f, 0.5f}};
    const EditedModel edited(fixture(path), "misshapen", {scale}, [](gguf::Writer&) {});
    const auto file = gguf::Reader::open(edited.path());
    ASSERT_TRUE(file.has_value());
    const auto backend = kernels::make_cpu_backend({.threads = 1, .isa = ""}).value();
    const auto runner = model::load_model(*file, *backend, {});
    ASSERT_FALSE(runner.has_value());
    EXPECT_EQ(runner.error().code, Code::kCorruptFile);
    EXPECT_NE(runner.error().text().find("blk.0.attn_q.scale"), std::string::npos) << runner.error().text();
  }
}

INSTANTIATE_TEST_SUITE_P(Fixtures, GoldenTest, testing::ValuesIn(kFixtures), [](const auto& p) {
  return test_name(p.param.reference == nullptr ? p.param.name : p.param.reference);
});

TEST(GoldenF16Test, KeysAndValuesOf16BitsStayNearFloat32) {
  struct Rounding {
    kernels::KvType type;
    double most;
    double least;  ///< a lower bound, to verify that they are rounded at all
  };
  // bfloat16 has 3 bits less than binary16, which means 64 times the squared error.
  for (const auto& [type, most, least] :
       {Rounding{kernels::KvType::kF16, 1e-5, 1e-9}, {kernels::KvType::kBF16, 3e-4, 1e-5}}) {
    for (const char* name : {"llama", "gemma3"}) {
      const Reference reference = read_reference(fixture(fmt::format("models/{}.ref.json", name)));
      for (const std::string& isa : isas()) {
        Model model(fmt::format("models/{}.gguf", name), reference.context, isa, 2, type);
        for (const Prompt& run : reference.runs) {
          const double nmse = worst_nmse(model, run);
          std::printf("%s %s KV type %d: worst NMSE %.1e\n", name, isa.c_str(), static_cast<int>(type), nmse);
          EXPECT_LE(nmse, most) << name << " " << isa;
          EXPECT_GE(nmse, least) << name << " " << isa << ": are these rounded?";
        }
      }
    }
  }
}

// The simulated rounding, to 8 bits and in the index to 4, is active and moves logits a little.
TEST(GoldenRoundingTest, SimulatedRoundingChangesDeepSeekV4Little) {
  const Reference reference = read_reference(fixture("models/deepseek4-clamp.ref.json"));
  for (const std::string& isa : isas()) {
    Model model("models/deepseek4-clamp.gguf", reference.context, isa, 2, kernels::KvType::kF32, true);
    for (const Prompt& run : reference.runs) {
      const double nmse = worst_nmse(model, run);
      std::printf("deepseek4-clamp, rounded %-8s worst NMSE %.1e\n", isa.c_str(), nmse);
      EXPECT_LE(nmse, 5e-2) << isa;
      EXPECT_GE(nmse, 1e-8) << isa << ": is this rounded?";
    }
  }
}

struct QuantFixture {
  const char* name;
  /// For some types our activations are int8 with one scale for 32 columns; llama.cpp's are, too, in blocks of another
  /// size; for BF16 both are bfloat16. Which of two roundings is nearer to the exact result is chance within this
  /// factor. Where llama.cpp's blocks have the same size its scales are finer (int8_row.h): then 1.2 times its error is
  /// expected.
  double noise = 1;
};

void PrintTo(const QuantFixture& f, std::ostream* out) { *out << f.name; }

const QuantFixture kQuantFixtures[] = {
    {"quant-llama-f16"},           {"quant-llama-bf16", 1.25},   {"quant-llama-q4_0", 1.5},
    {"quant-llama-q8_0", 1.5},     {"quant-llama-q4_k_m", 1.25}, {"quant-llama-q6_k", 1.25},
    {"quant-llama-q2_k"},          {"quant-llama-iq4_xs"},       {"quant-qwen3moe-q4_k_m", 1.25},
    {"quant-gpt-oss-mxfp4", 1.25},
};

class QuantGoldenTest : public testing::TestWithParam<QuantFixture> {
 protected:
  std::string file(std::string_view suffix) const { return fmt::format("models/{}{}", GetParam().name, suffix); }
  std::string model_file() const { return compared_.path(); }

 private:
  const ComparedModel compared_{fixture(fmt::format("models/{}.gguf", GetParam().name))};
};

/// NMSE of logits at all stored positions, compared with the exact ones.
double total_nmse(const Reference& exact, const std::vector<std::vector<float>>& rows) {
  double error = 0;
  double power = 0;
  size_t next = 0;
  for (const Prompt& run : exact.runs) {
    for (const auto& row : run.logits) {
      error += squared_error(rows.at(next++), row);
      power += squared(row);
    }
  }
  return error / power;
}

TEST_P(QuantGoldenTest, QuantizedLogitsAreAsNearToExactOnesAsLlamaCpps) {
  const Reference exact = read_reference(fixture(file(".exact.json")));
  const Reference peer = read_reference(fixture(file(".ref.json")));
  std::vector<std::vector<float>> peer_rows;
  for (size_t r = 0; r < exact.runs.size(); ++r) {
    ASSERT_EQ(peer.runs[r].tokens, exact.runs[r].tokens);
    ASSERT_EQ(peer.runs[r].positions, exact.runs[r].positions);
    peer_rows.insert(peer_rows.end(), peer.runs[r].logits.begin(), peer.runs[r].logits.end());
  }
  const double peer_nmse = total_nmse(exact, peer_rows);
  for (const std::string& isa : isas()) {
    Model model(model_file(), exact.context, isa, 2);
    const int64_t vocabulary = model.runner().vocabulary();
    std::vector<std::vector<float>> rows;
    for (const Prompt& run : exact.runs) {
      const std::vector<float> logits = logits_of(model, run.tokens, kRowsMax);
      for (const int32_t position : run.positions) {
        const auto row = std::span(logits).subspan(position * vocabulary, vocabulary);
        rows.emplace_back(row.begin(), row.end());
      }
    }
    const double nmse = total_nmse(exact, rows);
    std::printf("%-24s %-8s NMSE to exact: ours %.2e, the peer's %.2e\n", GetParam().name, isa.c_str(), nmse,
                peer_nmse);
    EXPECT_LE(nmse, peer_nmse * GetParam().noise) << isa;

    // The exact continuation is fed token by token: ours must agree wherever the exact margin is far above the error.
    for (const Prompt& run : exact.runs) {
      TestSequence sequence(model);
      std::vector<float> last = sequence.step(run.tokens, model::LogitsWanted::kLast);
      size_t compared = 0;
      for (size_t i = 0; i < run.greedy.size(); ++i) {
        const double rms = std::sqrt(squared(last) / static_cast<double>(vocabulary));
        if (run.margins[i] > 8 * rms * std::sqrt(nmse)) {
          EXPECT_EQ(largest(last), run.greedy[i]) << isa << " step " << i;
          ++compared;
        }
        last = sequence.step(std::span(&run.greedy[i], 1), model::LogitsWanted::kLast);
      }
      EXPECT_GT(compared, 0u);
    }
  }
}

TEST_P(QuantGoldenTest, SameBytesForAnyChunksNeighboursAndThreads) {
  const Reference reference = read_reference(fixture(file(".ref.json")));
  const std::span<const TokenId> tokens = reference.runs.front().tokens;
  for (const std::string& isa : isas()) {
    SCOPED_TRACE(isa);
    Model model(model_file(), reference.context, isa, 2);
    const std::vector<float> whole = logits_of(model, tokens, kRowsMax);
    expect_same_bytes(whole, logits_of(model, tokens, 5), "chunks of 5");
    expect_same_bytes(whole, logits_of(model, tokens, 1), "token by token");
    expect_same_bytes(whole, logits_among_others(model, tokens), "among 8 others");
    Model one(model_file(), reference.context, isa, 1);
    expect_same_bytes(whole, logits_of(one, tokens, kRowsMax), "1 thread");
  }
}

INSTANTIATE_TEST_SUITE_P(Fixtures, QuantGoldenTest, testing::ValuesIn(kQuantFixtures),
                         [](const auto& p) { return test_name(p.param.name); });

// A trained model continues with a story from the beginning token.
TEST(TrainedModel, ContinuesWithAStory) {
  Model model("trained/stories260K-f32.gguf", 0, "", 2);
  const auto pieces = model.file().metadata().strings("tokenizer.ggml.tokens");
  ASSERT_TRUE(pieces.has_value());
  const auto bos = model.file().metadata().integer_or("tokenizer.ggml.bos_token_id", 1);
  ASSERT_TRUE(bos.has_value());
  TestSequence sequence(model);
  TokenId token{static_cast<int32_t>(*bos)};
  std::string text;
  for (int i = 0; i < 60; ++i) {
    token = largest(sequence.step(std::span(&token, 1), model::LogitsWanted::kLast));
    text += (*pieces)[index(token)];
  }
  std::printf("%s\n", text.c_str());
  EXPECT_NE(text.find("Once"), std::string::npos);
  EXPECT_NE(text.find("▁time"), std::string::npos);
}

}  // namespace
}  // namespace cairn
