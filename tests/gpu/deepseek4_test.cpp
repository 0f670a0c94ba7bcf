// DeepSeek V4 on the GPU beyond its reference files: rows selected by an index with many heads, the simulated rounding,
// the MTP module. Those of decoders as well.
#include "base/testing/test_data.h"
#include "gguf/reader.h"
#include "gpu/model_lab.h"
#include "mtp/files.h"

namespace cairn::gpu {
namespace {

class GpuDeepseek4 : public GpuTest {
 protected:
  static constexpr int32_t kContext = 256;
  // A compressed row of 128 positions, and more rows of four positions than the index selects.
  static constexpr int32_t kPrompt = 140;

  GpuDeepseek4() {
    Random random(11);
    for (int32_t i = 0; i < kPrompt + 8; ++i) tokens_.push_back(TokenId{random.integer(0, 500)});
  }
  std::span<const TokenId> prompt() const { return std::span(tokens_).first(kPrompt); }
  static model::ModelOptions options(bool rounding, bool load_mtp) {
    return {.context_tokens = kContext, .simulate_rounding = rounding, .load_mtp = load_mtp};
  }

  mtp::Folder folder_;
  // With so many heads hardly any sum is zero: of equal sums GPU and CPU select different ones.
  static constexpr std::pair<const char*, const char*> kShape[] = {{"embedding_length", "128"},
                                                                   {"attention.q_lora_rank", "64"},
                                                                   {"expert_feed_forward_length", "64"},
                                                                   {"attention.indexer.head_count", "16"},
                                                                   {"attention.indexer.key_length", "64"},
                                                                   {"attention.indexer.top_k", "8"}};
  const gguf::Reader file_ = gguf::Reader::open(mtp::make_model(folder_ / "model.gguf", kShape)).value();
  std::vector<TokenId> tokens_;
};

TEST_F(GpuDeepseek4, SelectedRowsAndSimulatedRoundingAgreeWithTheCpu) {
  std::vector<std::vector<float>> of_both;
  for (const bool rounding : {false, true}) {
    Model on_gpu(file_, gpu(), options(rounding, false)), on_cpu(file_, cpu(), options(rounding, false));
    const std::vector<float> logits = logits_of(on_gpu, prompt(), kStepRows);
    EXPECT_LE(difference(logits, logits_of(on_cpu, prompt(), kStepRows)), kBoundF32) << rounding;
    EXPECT_TRUE(kernels::cpu::same_bits(logits, logits_of(on_gpu, prompt(), 33))) << rounding;
    of_both.push_back(logits);
  }
  EXPECT_GT(difference(of_both[0], of_both[1]), kBoundF32);
}

/// Logits of three drafts after a prompt.
std::vector<float> drafts_of(const gguf::Reader& file, kernels::Backend& backend, const model::ModelOptions& options,
                             std::span<const TokenId> tokens, size_t prompt) {
  Model model(file, backend, options);
  EXPECT_TRUE(model.runner().has_mtp());
  TestSequence sequence(model);
  // In two steps, so that the MTP module reads rows of an earlier step.
  sequence.step(tokens.first(7), model::LogitsWanted::kLast);
  sequence.step(tokens.subspan(7, prompt - 7), model::LogitsWanted::kLast);
  std::vector<float> all;
  for (size_t i = 0; i < 3; ++i) {
    const model::BatchSlice one = sequence.slice(0, 1, model::LogitsWanted::kLast);
    const auto view = model.runner().mtp_step({tokens.subspan(prompt + i, 1), {&one, 1}, &model.pool()});
    EXPECT_TRUE(view.has_value()) << view.error().text();
    all.insert(all.end(), view->values.begin(), view->values.end());
  }
  return all;
}

TEST_F(GpuDeepseek4, DraftsOfTheMtpModuleAgreeWithTheCpu) {
  const auto of = [&](kernels::Backend& backend) {
    return drafts_of(file_, backend, options(false, true), tokens_, kPrompt);
  };
  EXPECT_LE(difference(of(gpu()), of(cpu())), kBoundF32);
}

TEST_F(GpuDeepseek4, DraftsOfADecodersMtpModuleAgreeWithTheCpu) {
  const auto file = gguf::Reader::open(test_data("/models/glm4moe-mtp.gguf")).value();
  for (TokenId& token : tokens_) token = TokenId{index(token) % 300};
  const auto of = [&](kernels::Backend& backend) {
    return drafts_of(file, backend, options(false, true), tokens_, kPrompt);
  };
  EXPECT_LE(difference(of(gpu()), of(cpu())), kBoundF32);
}

// Types as in the published two-bit files. GPU and CPU round activations differently, so nothing depends on a selection
// here: experts follow from the token, and the index selects all rows.
TEST_F(GpuDeepseek4, TwoBitExpertsAgreeWithTheCpu) {
  constexpr double kBoundInt8 = 0.03;
  constexpr std::pair<const char*, const char*> kChooseNothing[] = {{"embedding_length", "256"},
                                                                    {"expert_feed_forward_length", "256"},
                                                                    {"hash_layer_count", "4"},
                                                                    {"attention.indexer.top_k", "64"}};
  const synth::Options options{
      .type = "F32", .type_rules = {{"ffn_(gate|up)_exps", "IQ2_XXS"}, {"ffn_down_exps", "Q2_K"}}, .threads = 2};
  const auto path = mtp::make_model(folder_ / "two_bits.gguf", kChooseNothing, options);
  const gguf::Reader file = gguf::Reader::open(path).value();
  EXPECT_EQ(file.find_tensor("blk.3.ffn_up_exps.weight")->type, TensorType::kIQ2_XXS);
  Model on_gpu(file, gpu(), GpuDeepseek4::options(false, false)),
      on_cpu(file, cpu(), GpuDeepseek4::options(false, false));
  const std::span<const TokenId> tokens = prompt().first(40);
  const std::vector<float> logits = logits_of(on_gpu, tokens, kStepRows);
  EXPECT_LE(difference(logits, logits_of(on_cpu, tokens, kStepRows)), kBoundInt8);
  EXPECT_TRUE(kernels::cpu::same_bits(logits, logits_of(on_gpu, tokens, 33)));
}

}  // namespace
}  // namespace cairn::gpu
