// LoRA adapters of DeepSeek V4's drafting head, in the model's file: its drafts are those of a head whose matrices hold
// the adapters' products.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "deepseek41/model_file.h"
#include "golden_model.h"
#include "lora_files.h"

namespace cairn::deepseek41 {
namespace {

bool is_of_head(const gguf::Tensor& tensor) {
  return tensor.name.starts_with("mtp.") && tensor.name.ends_with(".weight") && tensor.shape.size() >= 2 &&
         tensor.type == TensorType::kF32 && !tensor.name.contains("markov_w1");
}

class LoraDspark : public testing::Test {
 protected:
  using Scales = std::vector<float>;

  Result<std::unique_ptr<model::Runner>> load(const gguf::Reader& file, kernels::Backend& backend,
                                              const AdapterFile* adapter, float scale) const {
    std::vector<model::LoraAdapter> adapters;
    if (adapter != nullptr) {
      const std::vector<model::LoraFile> files = {{adapter->path(), scale}};
      adapters = model::open_lora_adapters(files, "deepseek41").value();
    }
    return model::load_model(file, backend, {.context_tokens = kContextTokens, .adapters = adapters, .load_mtp = true});
  }

  /// Logits of a block of drafts, with their confidence, of a text beside another one, by their scales of the adapter.
  std::vector<float> drafts(const gguf::Reader& file, const AdapterFile* adapter, float scale = 1, Scales own = {},
                            Scales others = {}) const {
    const auto backend = kernels::make_cpu_backend({.threads = 1, .isa = ""}).value();
    const auto runner = load(file, *backend, adapter, scale).value();
    const std::vector<int32_t> pages(runner->kv_layout().groups.size(), 8);
    cache::PagePool pool = cache::PagePool::create(*backend, runner->kv_layout(), pages).value();
    std::array<cache::PageTable, 2> tables;
    const std::vector<TokenId> text = text_of(12), other = text_of(12, 99);
    std::vector<TokenId> tokens = other;
    tokens.insert(tokens.end(), text.begin(), text.end());
    const auto count = static_cast<int32_t>(text.size());
    std::vector<model::BatchSlice> slices;
    for (int32_t i = 0; i < 2; ++i) {
      EXPECT_TRUE(pool.extend(tables[i], count + kBlock));
      slices.push_back({.sequence = SequenceId{i},
                        .row_begin = i * count,
                        .rows = count,
                        .pages = &tables[i],
                        .adapter_scales = i == 0 ? others : own});
    }
    EXPECT_TRUE(runner->step({tokens, slices, &pool}).has_value());
    std::vector<float> out;
    for (int32_t ahead = 0; ahead < kBlock; ++ahead) {
      const TokenId last[] = {TokenId{3 + ahead}, TokenId{20 + 2 * ahead}};
      for (model::BatchSlice& slice : slices) {
        slice.row_begin = static_cast<int32_t>(&slice - slices.data());
        slice.rows = 1;
        slice.position_begin = count + ahead;
        slice.drafts_before = ahead;
      }
      const auto view = runner->mtp_step({last, slices, &pool}).value();
      out.insert(out.end(), view.row(1).begin(), view.row(1).end());
      out.push_back(view.confidence[1]);
    }
    return out;
  }

  const ModelFile made_{{.head = Head::kBeside}};
  const gguf::Reader file_ = gguf::Reader::open(made_.path()).value();
};

TEST_F(LoraDspark, DraftsAreThoseOfAHeadWithTheProductsInItsMatrices) {
  std::vector<AddedTensor> merged;
  const AdapterFile adapter("lora_dspark", "deepseek41", parts_of(file_, 3, 0.02F, merged, is_of_head));
  const EditedModel edited(made_.path(), "merged_dspark", merged, [](gguf::Writer&) {});
  const gguf::Reader whole = gguf::Reader::open(edited.path()).value();
  const std::vector<float> adapted = drafts(file_, &adapter, 0.02F);
  EXPECT_LE(nmse(adapted, drafts(whole, nullptr)), 1e-9);
  EXPECT_GE(nmse(adapted, drafts(file_, nullptr)), 1e-5) << "the adapter changes something";
}

TEST_F(LoraDspark, DraftsAreThoseOfTheSequencesOwnScales) {
  std::vector<AddedTensor> merged;
  const AdapterFile adapter("lora_dspark", "deepseek41", parts_of(file_, 2, 1, merged, is_of_head));
  const std::vector<float> expected = drafts(file_, &adapter, 0.05F);
  expect_same_bytes(drafts(file_, &adapter, 1, {0.05F}, {0}), expected, "beside one without the adapter");
  expect_same_bytes(drafts(file_, &adapter, 0, {0.05F}, {-0.1F}), expected, "beside one with another scale");
  expect_same_bytes(drafts(file_, &adapter, 1, {0}, {0.05F}), drafts(file_, nullptr), "without the adapter");
}

TEST_F(LoraDspark, AnAdapterOfTheTableOfPairsIsRefused) {
  std::vector<AddedTensor> merged;
  const auto is_table = [](const gguf::Tensor& tensor) { return tensor.name.contains("markov_w1"); };
  const AdapterFile adapter("lora_dspark", "deepseek41", parts_of(file_, 2, 1, merged, is_table));
  const auto backend = kernels::make_cpu_backend({.threads = 1, .isa = "generic"}).value();
  const auto loaded = load(file_, *backend, &adapter, 1);
  ASSERT_FALSE(loaded.has_value());
  EXPECT_THAT(loaded.error().text(), testing::HasSubstr("markov_w1.weight, whose rows are looked up"));
}

}  // namespace
}  // namespace cairn::deepseek41
