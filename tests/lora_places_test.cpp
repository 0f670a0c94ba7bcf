// LoRA adapters where a model's matrices are used in other ways than as one product each: MLA's key and value parts,
// the rows that an MTP module reads; and the places where they are refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "golden_model.h"
#include "lora_files.h"
#include "mtp/files.h"

namespace cairn {
namespace {

/// Random parts of the tensor `name`, of this many columns and rows, and experts if there are any.
std::vector<AddedTensor> random_parts(const std::string& name, int64_t cols, int64_t rows, int64_t rank, uint32_t seed,
                                      std::vector<int64_t> experts = {}) {
  std::vector<int64_t> shape_a{cols, rank}, shape_b{rank, rows};
  shape_a.insert(shape_a.end(), experts.begin(), experts.end());
  shape_b.insert(shape_b.end(), experts.begin(), experts.end());
  return {random_tensor(name + ".lora_a", shape_a, seed), random_tensor(name + ".lora_b", shape_b, seed + 1)};
}

/// MLA's models of the test data have the parts of keys and values apart. attn_kv_b [rank, heads * (nope + dim)] has
/// for each head the rows of its keys, of which attn_k_b [nope, rank, heads] has the columns, and those of its values,
/// which attn_v_b [rank, dim, heads] has.
class LoraLatent : public testing::Test {
 protected:
  static constexpr int64_t kHeads = 4, kNope = 16, kDim = 24, kRank = 32, kRows = kHeads * (kNope + kDim);
  static std::string name(const char* tensor) { return "blk.1." + std::string(tensor) + ".weight"; }

  /// The value of the joint matrix that the parts of both give to head `h`.
  static float& element(std::vector<AddedTensor>& parts, int64_t h, int64_t row, int64_t col) {
    if (row < kNope) return parts[0].values[(h * kRank + col) * kNope + row];
    return parts[1].values[(h * kDim + row - kNope) * kRank + col];
  }
  std::vector<AddedTensor> parts_apart() const {
    std::vector<AddedTensor> parts;
    for (const char* part : {"attn_k_b", "attn_v_b"}) merged_tensor(*base_.find_tensor(name(part)), parts, name(part));
    return parts;
  }
  /// The file with one matrix in place of the two of the layer.
  EditedModel joined() const {
    std::vector<AddedTensor> parts = parts_apart();
    AddedTensor joint{name("attn_kv_b"), {kRank, kRows}, {}};
    for (int64_t h = 0; h < kHeads; ++h) {
      for (int64_t row = 0; row < kNope + kDim; ++row) {
        for (int64_t col = 0; col < kRank; ++col) joint.values.push_back(element(parts, h, row, col));
      }
    }
    return EditedModel(fixture(kFile), "joined", {joint}, [](gguf::Writer&) {}, {parts[0].name, parts[1].name});
  }
  /// The file with the product of the parts for the joint matrix in the two.
  EditedModel merged(const std::vector<AddedTensor>& low_rank, float scale) const {
    std::vector<AddedTensor> parts = parts_apart();
    const int64_t rank = low_rank[0].shape[1];
    for (int64_t h = 0; h < kHeads; ++h) {
      for (int64_t row = 0; row < kNope + kDim; ++row) {
        const float* b = &low_rank[1].values[(h * (kNope + kDim) + row) * rank];
        for (int64_t col = 0; col < kRank; ++col) {
          element(parts, h, row, col) +=
              scale * kLoraAlpha / rank * low_rank_sum(b, &low_rank[0].values[col], rank, kRank);
        }
      }
    }
    return EditedModel(fixture(kFile), "merged", parts, [](gguf::Writer&) {});
  }
  std::vector<TokenId> tokens() const {
    std::vector<TokenId> tokens;
    for (int32_t i = 0; i < 40; ++i) tokens.push_back(TokenId{3 + i * 7 % 290});
    return tokens;
  }

  static constexpr const char* kFile = "models/deepseek2.gguf";
  const gguf::Reader base_ = gguf::Reader::open(fixture(kFile)).value();
};

TEST_F(LoraLatent, AnAdapterOfTheJointMatrixChangesBothPartsWhicheverTheFileHas) {
  const std::vector<AddedTensor> parts = random_parts(name("attn_kv_b"), kRank, kRows, 3, 5);
  const AdapterFile file("lora_joint", "deepseek2", parts);
  const EditedModel whole = merged(parts, 0.5f), joint = joined();
  const std::vector<model::LoraFile> files = {{file.path(), 0.5f}};
  const std::vector<model::LoraAdapter> adapters = model::open_lora_adapters(files, "deepseek2").value();
  for (const std::string& isa : isas()) {
    Model expected(whole.path().string(), 64, isa, 1), plain(kFile, 64, isa, 1);
    const std::vector<float> logits = logits_of(expected, tokens(), kRowsMax);
    EXPECT_GE(nmse(logits, logits_of(plain, tokens(), kRowsMax)), 1e-4) << isa << ": the adapter changes something";
    for (const std::string& path : {std::string(kFile), joint.path().string()}) {
      Model adapted(path, 64, isa, 2, kernels::KvType::kF32, false, adapters);
      const std::vector<float> own = logits_of(adapted, tokens(), kRowsMax);
      EXPECT_LE(nmse(own, logits), 1e-9) << isa << path;
      expect_same_bytes(own, logits_of(adapted, tokens(), 3), "chunks of 3");
      expect_same_bytes(own, logits_among_others(adapted, tokens()), "among others");
    }
  }
}

// Every row has a product with each head's matrix.
TEST_F(LoraLatent, AnAdapterOfHeadsAloneHasMemoryForAllOfThemInAFullBatch) {
  std::vector<AddedTensor> whole;
  const auto is_value = [](const gguf::Tensor& tensor) { return tensor.name == name("attn_v_b"); };
  const AdapterFile file("lora_full", "deepseek2", parts_of(base_, 2, 0.25f, whole, is_value));
  const std::vector<model::LoraFile> files = {{file.path(), 0.25f}};
  const std::vector<model::LoraAdapter> adapters = model::open_lora_adapters(files, "deepseek2").value();
  std::vector<TokenId> text;
  for (int32_t i = 0; i < kRowsMax; ++i) text.push_back(TokenId{3 + i * 7 % 290});
  Model adapted(kFile, kRowsMax, "", 2, kernels::KvType::kF32, false, adapters);
  expect_same_bytes(logits_of(adapted, text, kRowsMax), logits_of(adapted, text, 50), "chunks of 50");
}

TEST_F(LoraLatent, AdaptersOfThePartsChangeAFileThatHasTheJointMatrix) {
  std::vector<AddedTensor> whole;
  const auto is_part = [](const gguf::Tensor& tensor) {
    return tensor.name == name("attn_k_b") || tensor.name == name("attn_v_b");
  };
  const AdapterFile file("lora_parts", "deepseek2", parts_of(base_, 2, 0.25f, whole, is_part));
  const EditedModel merged(fixture(kFile), "merged", whole, [](gguf::Writer&) {}), joint = joined();
  const std::vector<model::LoraFile> files = {{file.path(), 0.25f}};
  const std::vector<model::LoraAdapter> adapters = model::open_lora_adapters(files, "deepseek2").value();
  Model expected(merged.path().string(), 64, "", 1), plain(kFile, 64, "", 1);
  Model adapted(joint.path().string(), 64, "", 2, kernels::KvType::kF32, false, adapters);
  const std::vector<float> logits = logits_of(expected, tokens(), kRowsMax);
  EXPECT_LE(nmse(logits_of(adapted, tokens(), kRowsMax), logits), 1e-9);
  EXPECT_GE(nmse(logits_of(plain, tokens(), kRowsMax), logits), 1e-4);
}

// Logits of the last token, and of a draft behind it, of a sequence beside another one, by their scales of the adapter.
class LoraMtp : public testing::Test {
 protected:
  std::vector<float> outputs(const gguf::Reader& base, const AdapterFile& adapter, float scale, std::vector<float> own,
                             std::vector<float> others) const {
    const std::vector<model::LoraFile> files = {{adapter.path(), scale}};
    const auto adapters =
        model::open_lora_adapters(files, base.metadata().string("general.architecture").value()).value();
    const auto backend = kernels::make_cpu_backend({.threads = 1, .isa = ""}).value();
    const auto runner =
        model::load_model(base, *backend, {.context_tokens = 64, .adapters = adapters, .load_mtp = true}).value();
    EXPECT_TRUE(runner->has_mtp());
    const std::vector<int32_t> pages(runner->kv_layout().groups.size(), 8);
    cache::PagePool pool = cache::PagePool::create(*backend, runner->kv_layout(), pages).value();
    struct {
      model::Runner& of;
      cache::PagePool& pages;
      model::Runner& runner() { return of; }
      cache::PagePool& pool() { return pages; }
    } model{*runner, pool};
    TestSequence first(model), second(model);
    std::vector<TokenId> rows = tokens_;
    rows.insert(rows.end(), tokens_.rbegin(), tokens_.rend());
    const auto count = static_cast<int32_t>(tokens_.size());
    model::BatchSlice slices[] = {first.slice(0, count, model::LogitsWanted::kAll),
                                  second.slice(count, count, model::LogitsWanted::kLast)};
    slices[0].adapter_scales = others;
    slices[1].adapter_scales = own;
    const auto step = runner->step({rows, slices, &pool}).value();
    std::vector<float> out(step.row(count).begin(), step.row(count).end());
    model::BatchSlice drafts[] = {first.slice(0, 1, model::LogitsWanted::kLast),
                                  second.slice(1, 1, model::LogitsWanted::kLast)};
    drafts[0].adapter_scales = others;
    drafts[1].adapter_scales = own;
    const TokenId next[] = {TokenId{5}, TokenId{6}};
    const auto draft = runner->mtp_step({next, drafts, &pool}).value();
    out.insert(out.end(), draft.row(1).begin(), draft.row(1).end());
    return out;
  }
  // The rows that an MTP module reads after a step are not those of its logits.
  void expect_own_scales(const gguf::Reader& base, const std::vector<std::string>& endings) const {
    std::vector<AddedTensor> merged;
    const auto wanted = [&](const gguf::Tensor& tensor) {
      return std::ranges::any_of(endings, [&](const std::string& ending) { return tensor.name.ends_with(ending); });
    };
    std::vector<AddedTensor> parts = parts_of(base, 2, 1, merged, wanted);
    add_table_parts(base, 2, 1, parts, merged);
    const AdapterFile adapter("lora_mtp", std::string(base.metadata().string("general.architecture").value()), parts);
    const std::vector<float> expected = outputs(base, adapter, 0.5f, {}, {});
    expect_same_bytes(outputs(base, adapter, 1, {0.5f}, {0}), expected, "beside one without the adapter");
    expect_same_bytes(outputs(base, adapter, 0, {0.5f}, {-2}), expected, "beside one with another scale");
    EXPECT_GE(nmse(outputs(base, adapter, 1, {0.5f}, {0.5f}), outputs(base, adapter, 1, {0}, {0.5f})), 1e-6)
        << "the adapter changes something";
  }

  const std::vector<TokenId> tokens_ = {TokenId{1}, TokenId{7}, TokenId{20}, TokenId{3}, TokenId{11}, TokenId{200}};
};

TEST_F(LoraMtp, LogitsAndDraftsAreThoseOfTheSequencesOwnScales) {
  expect_own_scales(gguf::Reader::open(fixture("models/glm4moe-mtp.gguf")).value(), {"attn_q.weight", "attn_v.weight"});
}

TEST_F(LoraMtp, SoTheyAreWithMixedStreams) {
  const mtp::Folder folder;
  expect_own_scales(gguf::Reader::open(mtp::make_model(folder / "model.gguf")).value(),
                    {"attn_q_a.weight", "attn_kv.weight", "ffn_gate_shexp.weight"});
}

/// What loading a file with an adapter of one tensor says.
std::string error_of(const std::filesystem::path& path, const std::vector<AddedTensor>& parts, bool load_mtp = false) {
  const gguf::Reader base = gguf::Reader::open(path).value();
  const std::string architecture(base.metadata().string("general.architecture").value());
  const AdapterFile adapter("lora_refused", architecture, parts);
  const std::vector<model::LoraFile> files = {{adapter.path(), 1}};
  const auto adapters = model::open_lora_adapters(files, architecture).value();
  const auto backend = kernels::make_cpu_backend({.threads = 1, .isa = "generic"}).value();
  const auto loaded =
      model::load_model(base, *backend, {.context_tokens = 64, .adapters = adapters, .load_mtp = load_mtp});
  return loaded.has_value() ? "it loaded" : loaded.error().text();
}

std::vector<AddedTensor> parts_for(const std::filesystem::path& path, const std::string& name) {
  const gguf::Reader base = gguf::Reader::open(path).value();
  const gguf::Tensor& tensor = *base.find_tensor(name);
  return random_parts(name, tensor.shape[0], tensor.shape[1], 2, 1);
}

TEST(LoraRefusals, TablesOfOtherThingsThanTokensAreNamed) {
  const auto gpt2 = fixture("models/gpt2.gguf"), gemma = fixture("models/gemma4.gguf");
  EXPECT_THAT(error_of(gpt2, parts_for(gpt2, "position_embd.weight")),
              testing::HasSubstr("changes position_embd.weight, whose rows are looked up"));
  EXPECT_THAT(error_of(gemma, parts_for(gemma, "per_layer_token_embd.weight")),
              testing::HasSubstr("tensor per_layer_token_embd.weight.lora_a belongs to no matrix"));
}

TEST(LoraRefusals, TheInputOfAnMtpModuleOfMixedStreamsIsNamed) {
  const mtp::Folder folder;
  const auto path = mtp::make_model(folder / "model.gguf");
  EXPECT_THAT(error_of(path, parts_for(path, "blk.4.nextn.eh_proj.weight"), true),
              testing::HasSubstr("changes blk.4.nextn.eh_proj.weight, which makes the input of the MTP module"));
  EXPECT_EQ(error_of(path, parts_for(path, "blk.4.attn_q_a.weight"), true), "it loaded");
}

// Were both shared, the adapter would change all experts alike, which no file means.
TEST(LoraRefusals, OnePartAtMostIsSharedByTheExperts) {
  const auto path = fixture("models/llama-moe.gguf");
  EXPECT_THAT(error_of(path, parts_for(path, "blk.0.ffn_up_exps.weight")),
              testing::HasSubstr("are no product for a matrix of"));
}

}  // namespace
}  // namespace cairn
