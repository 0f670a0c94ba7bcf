// LoRA adapters on the GPU: logits are those of the CPU with the same adapters, whatever else is in the batch.
#include "model/weights/lora.h"
#include "gpu/model_lab.h"
#include "lora_files.h"

namespace cairn::gpu {
namespace {

constexpr int32_t kContext = 64;

class GpuLora : public GpuTest {
 protected:
  static std::vector<TokenId> tokens() {
    std::vector<TokenId> tokens;
    for (int32_t i = 0; i < 20; ++i) tokens.push_back(TokenId{3 + i * 7 % 290});
    return tokens;
  }
  /// Of every matrix of the layers and of the table of tokens, with a scale of 0.02.
  static AdapterFile adapter_of(const gguf::Reader& file, int64_t rank) {
    std::vector<AddedTensor> merged, parts = parts_of(file, rank, 1, merged);
    add_table_parts(file, rank, 1, parts, merged);
    return AdapterFile("gpu_lora_" + std::to_string(rank), architecture(file), parts);
  }
  static std::string architecture(const gguf::Reader& file) {
    return std::string(file.metadata().string("general.architecture").value());
  }
};

// Matrices of experts, heads and groups, whose parts are their own (rank 4) or shared (rank 1).
TEST_F(GpuLora, LogitsAgreeWithTheCpu) {
  for (const char* name : {"llama-moe", "deepseek2", "deepseek2-nomla", "deepseek4"}) {
    const gguf::Reader file = gguf::Reader::open(model_path(name)).value();
    const AdapterFile four = adapter_of(file, 4), one = adapter_of(file, 1);
    const std::vector<model::LoraFile> files = {{four.path(), 0.02f}, {one.path(), -0.05f}};
    const auto adapters = model::open_lora_adapters(files, architecture(file)).value();
    const model::ModelOptions options{.context_tokens = kContext, .simulate_rounding = false, .adapters = adapters};
    Model on_gpu(file, gpu(), options), on_cpu(file, cpu(), options), plain(file, cpu(), kContext);
    const std::vector<float> logits = logits_of(on_gpu, tokens(), kStepRows);
    EXPECT_LE(difference(logits, logits_of(on_cpu, tokens(), kStepRows)), kBoundF32) << name;
    EXPECT_GE(difference(logits, logits_of(plain, tokens(), kStepRows)), 1e-2) << name;
    EXPECT_TRUE(kernels::cpu::same_bits(logits, logits_of(on_gpu, tokens(), 7))) << name;
  }
}

TEST_F(GpuLora, EachSequenceTakesTheAdapterByItsOwnScale) {
  const gguf::Reader file = gguf::Reader::open(model_path("deepseek2")).value();
  const AdapterFile own = adapter_of(file, 2);
  const std::vector<model::LoraFile> files = {{own.path(), 0.02f}};
  const auto adapters = model::open_lora_adapters(files, architecture(file)).value();
  Model model(file, gpu(), {.context_tokens = kContext, .simulate_rounding = false, .adapters = adapters});
  const std::vector<TokenId> text = tokens();
  const auto rows = static_cast<int32_t>(text.size());
  const float scales[] = {0.01f, 0, 0.02f};
  std::vector<TokenId> all;
  std::vector<std::unique_ptr<TestSequence>> sequences;
  std::vector<model::BatchSlice> slices;
  for (const float& scale : scales) {
    sequences.push_back(std::make_unique<TestSequence>(model));
    slices.push_back(sequences.back()->slice(static_cast<int32_t>(all.size()), rows));
    slices.back().adapter_scales = {&scale, 1};
    all.insert(all.end(), text.begin(), text.end());
  }
  const auto view = model.runner().step({all, slices, &model.pool()}).value();
  const std::vector<float> together(view.values.begin(), view.values.end());
  for (size_t i = 0; i < std::size(scales); ++i) {
    TestSequence alone(model);
    model::BatchSlice slice = alone.slice(0, rows);
    slice.adapter_scales = {&scales[i], 1};
    const auto expected = model.runner().step({text, {&slice, 1}, &model.pool()}).value();
    const auto part = rows_of(together, model.vocabulary(), static_cast<int64_t>(i) * rows, rows);
    EXPECT_TRUE(kernels::cpu::same_bits(part, expected.values)) << i;
  }
}

}  // namespace
}  // namespace cairn::gpu
