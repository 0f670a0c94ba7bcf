// Models with recurrent layers: what their files may say otherwise than the fixtures do, what such a file can get
// wrong, and where their states lie.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "edited_model.h"
#include "golden_model.h"
#include "kernels/cpu/cpu_backend.h"
#include "model/model.h"
#include "model/pipeline.h"

namespace cairn {
namespace {

using SetKeys = std::function<void(gguf::Writer&)>;

const std::vector<TokenId> kTokens = {TokenId{1},  TokenId{7},  TokenId{20}, TokenId{3},  TokenId{11}, TokenId{200},
                                      TokenId{45}, TokenId{45}, TokenId{99}, TokenId{12}, TokenId{301}};

/// Of a name without a folder in models/.
std::string path_of(const std::string& name) {
  return (name.find('/') == std::string::npos ? "models/" : "") + name + ".gguf";
}

gguf::Value array_of(gguf::ValueType type, std::span<const std::byte> numbers, uint64_t size) {
  return {gguf::ValueType::kArray, gguf::Array{type, size, numbers, {}, {}}};
}
SetKeys integers(const char* key, const std::vector<int32_t>& values) {
  return [=](gguf::Writer& writer) {
    writer.set(key, array_of(gguf::ValueType::kI32, std::as_bytes(std::span(values)), values.size()));
  };
}
SetKeys integer(const char* key, int64_t value) {
  return [=](gguf::Writer& writer) { writer.set_integer(key, gguf::ValueType::kU32, value); };
}

AddedTensor tensor_of(const gguf::Reader& file, const std::string& name) {
  const gguf::Tensor* found = file.find_tensor(name);
  if (found == nullptr) throw std::runtime_error(name);
  AddedTensor tensor{name, {found->shape.begin(), found->shape.end()}, std::vector<float>(found->elements())};
  std::memcpy(tensor.values.data(), found->bytes.data(), found->bytes.size());
  return tensor;
}

std::vector<float> logits_with(const std::string& model, const std::vector<AddedTensor>& tensors, const SetKeys& keys) {
  const EditedModel edited(fixture(path_of(model)), "recurrent", tensors, keys);
  Model loaded(edited.path(), 64, "", 1);
  return logits_of(loaded, kTokens, 4);
}
std::vector<float> logits_without_change(const std::string& model) {
  Model loaded(path_of(model), 64, "", 1);
  return logits_of(loaded, kTokens, 4);
}
const SetKeys kNoKeys = [](gguf::Writer&) {};

void expect_error(const std::string& model, const std::vector<AddedTensor>& tensors, const SetKeys& keys,
                  std::initializer_list<std::string_view> parts, Code code = Code::kCorruptFile) {
  const EditedModel edited(fixture(path_of(model)), "recurrent", tensors, keys);
  const auto file = gguf::Reader::open(edited.path());
  ASSERT_TRUE(file.has_value());
  const auto backend = kernels::make_cpu_backend({.threads = 1, .isa = ""}).value();
  const auto runner = model::load_model(*file, *backend, {});
  ASSERT_FALSE(runner.has_value()) << "it loaded: " << *parts.begin();
  EXPECT_EQ(runner.error().code, code) << runner.error().text();
  for (const std::string_view part : parts) {
    EXPECT_NE(runner.error().text().find(part), std::string::npos)
        << "no \"" << part << "\" in " << runner.error().text();
  }
}

/// The first files of Qwen3-Next: rows of attn_qkv and attn_gate in one tensor, in order of the key heads.
AddedTensor joint_input(const gguf::Reader& file, const std::string& prefix) {
  constexpr int64_t kKeyHeads = 2, kHeads = 4, kDim = 32, kWidth = 64, kShare = kHeads / kKeyHeads;
  const AddedTensor mixed = tensor_of(file, prefix + "attn_qkv.weight"),
                    gate = tensor_of(file, prefix + "attn_gate.weight");
  AddedTensor joint{prefix + "ssm_in.weight", {kWidth, kKeyHeads * 2 * kDim + 2 * kHeads * kDim}, {}};
  const auto append = [&](const AddedTensor& from, int64_t row, int64_t rows) {
    joint.values.insert(joint.values.end(), from.values.begin() + row * kWidth,
                        from.values.begin() + (row + rows) * kWidth);
  };
  for (int64_t head = 0; head < kKeyHeads; ++head) {
    append(mixed, head * kDim, kDim);
    append(mixed, (kKeyHeads + head) * kDim, kDim);
    append(mixed, 2 * kKeyHeads * kDim + head * kShare * kDim, kShare * kDim);
    append(gate, head * kShare * kDim, kShare * kDim);
  }
  return joint;
}

TEST(Qwen3Next, FirstFilesWithAJointInputGiveTheSameLogits) {
  const auto file = gguf::Reader::open(fixture(path_of("qwen3next"))).value();
  std::vector<AddedTensor> tensors;
  for (const int layer : {0, 1, 2}) {
    const std::string prefix = "blk." + std::to_string(layer) + ".";
    tensors.push_back(joint_input(file, prefix));
    // What is no longer to be read would be noticed.
    tensors.push_back(random_tensor(prefix + "attn_qkv.weight", {64, 256}, 3));
    tensors.push_back(random_tensor(prefix + "attn_gate.weight", {64, 128}, 4));
  }
  expect_same_bytes(logits_with("qwen3next", tensors, kNoKeys), logits_without_change("qwen3next"), "joint");
}

TEST(Qwen35, AListOfRecurrentLayersComesBeforeTheInterval) {
  const SetKeys keys = [](gguf::Writer& writer) {
    static constexpr std::byte kFlags[] = {std::byte{1}, std::byte{1}, std::byte{1}, std::byte{0}};
    writer.set("qwen35.attention.recurrent_layers", array_of(gguf::ValueType::kBool, kFlags, 4));
    writer.set_integer("qwen35.full_attention_interval", gguf::ValueType::kU32, 2);
  };
  expect_same_bytes(logits_with("qwen35", {}, keys), logits_without_change("qwen35"), "list");
}

// With [3, 3, 2, 0] and 8 pairs each pair takes one of the three components of a position, which are the same in texts.
TEST(Qwen35, PairsThatNoSectionCountsDoNotTurn) {
  const std::vector<float> whole = logits_without_change("qwen35");
  const char* key = "qwen35.rope.dimension_sections";
  expect_same_bytes(logits_with("qwen35", {}, integers(key, {3, 3, 2, 8})), whole, "every pair has a component");
  const std::vector<float> two = logits_with("qwen35", {}, integers(key, {8, 0, 0, 0}));
  EXPECT_NE(std::memcmp(two.data(), whole.data(), whole.size() * sizeof(float)), 0);
}

TEST(Qwen35, TheConvolutionMayHaveABias) {
  const AddedTensor bias = random_tensor("blk.1.ssm_conv1d.bias", {256}, 5);
  const std::vector<float> whole = logits_without_change("qwen35"), biased = logits_with("qwen35", {bias}, kNoKeys);
  EXPECT_NE(std::memcmp(biased.data(), whole.data(), whole.size() * sizeof(float)), 0);
}

constexpr const char* kKimi = "converted/kimi_linear";

TEST(KimiLinear, QueriesKeysAndValuesMayBeInOneTensor) {
  const auto file = gguf::Reader::open(fixture(path_of(kKimi))).value();
  AddedTensor joint{"blk.1.attn_qkv.weight", {64, 3 * 96}, {}};
  for (const char* part : {"blk.1.attn_q.weight", "blk.1.attn_k.weight", "blk.1.attn_v.weight"}) {
    const std::vector<float> rows = tensor_of(file, part).values;
    joint.values.insert(joint.values.end(), rows.begin(), rows.end());
  }
  // What is no longer to be read would be noticed.
  const AddedTensor query = random_tensor("blk.1.attn_q.weight", {64, 96}, 3);
  expect_same_bytes(logits_with(kKimi, {joint, query}, kNoKeys), logits_without_change(kKimi), "joint");
}

// Some files have 72 as the rope's size, which is the embedding's share of a head; their rows say that it is 64.
TEST(KimiLinear, TheUnrotatedPartOfARowIsWhatTheTensorHas) {
  expect_same_bytes(logits_with(kKimi, {}, integer("kimi-linear.rope.dimension_count", 18)),
                    logits_without_change(kKimi), "another size");
}

TEST(KimiLinear, KeysAndTensorsThatDoNotFitAreNamed) {
  const auto expect_key = [](const std::string& key, int64_t value, std::string_view more) {
    expect_error(kKimi, {}, integer(("kimi-linear." + key).c_str(), value), {"kimi-linear." + key, more});
  };
  expect_key("ssm.conv_kernel", 17, "is 17");
  expect_key("kda.head_dim", 0, "is 0");
  expect_key("kda.head_dim", 1 << 20, "1048576");
  expect_key("attention.kv_lora_rank", 0, "is 0");
  expect_key("attention.key_length_mla", 16, "some elements of a head must not turn");
  expect_key("expert_used_count", 9, "is 9");
  expect_error(kKimi, {}, integer("kimi-linear.kda.head_dim", 23), {"blk.0.attn_q.weight", "[64, 96]", "[64, 92]"});
  expect_error(kKimi, {}, integers("kimi-linear.attention.head_count_kv", {0, 0, 1, 0}),
               {"kimi-linear.attention.head_count_kv", "4 entries", "5 layers"});
  expect_error(kKimi, {}, integers("kimi-linear.attention.head_count_kv", {0, 0, 1, 1, 1}),
               {"blk.3.attn_q.weight", "[64, 96]", "[64, 128]"});
  const std::map<std::string, std::vector<int64_t>> shapes = {
      {"attn_v.weight", {64, 95}},
      {"attn_output.weight", {96, 63}},
      {"ssm_conv1d_q.weight", {4, 1, 95}},
      {"ssm_conv1d_k.weight", {3, 1, 96}},
      {"ssm_conv1d_v.weight", {4, 95}},
      {"ssm_f_a.weight", {64, 23}},
      {"ssm_f_b.weight", {24, 95}},
      {"ssm_g_a.weight", {64, 25}},
      {"ssm_g_b.weight", {23, 96}},
      {"ssm_beta.weight", {64, 3}},
      {"ssm_a", {4}},
      {"ssm_dt.bias", {4}},
      {"ssm_norm.weight", {96}},
  };
  for (const auto& [name, shape] : shapes) {
    expect_error(kKimi, {random_tensor("blk.1." + name, shape, 1)}, kNoKeys, {"blk.1." + name, "shape"});
  }
}

TEST(RecurrentFiles, KeysThatDoNotFitAreNamed) {
  expect_error("qwen35", {}, integer("qwen35.ssm.conv_kernel", 0), {"qwen35.ssm.conv_kernel", "is 0", "1 .. 16"});
  expect_error("qwen35", {}, integer("qwen35.ssm.conv_kernel", 17), {"qwen35.ssm.conv_kernel", "is 17"});
  expect_error("qwen35", {}, integer("qwen35.ssm.state_size", 1 << 30), {"qwen35.ssm.state_size", "1073741824"});
  expect_error("qwen35", {}, integer("qwen35.ssm.group_count", 3), {"qwen35.ssm.group_count", "does not divide"});
  expect_error("qwen35", {}, integer("qwen35.ssm.group_count", 0), {"qwen35.ssm.group_count", "is 0"});
  expect_error("qwen35", {}, integer("qwen35.ssm.time_step_rank", 6), {"qwen35.ssm.time_step_rank", "does not divide"});
  expect_error("qwen35", {}, integer("qwen35.ssm.inner_size", 1 << 30), {"qwen35.ssm.inner_size"});
  expect_error("qwen35", {}, integer("qwen35.full_attention_interval", 0), {"qwen35.full_attention_interval", "is 0"});
  expect_error("qwen35", {}, integer("qwen35.attention.value_length", 16), {"qwen35.attention.value_length", "is 16"});
  expect_error("qwen35", {}, integer("qwen35.nextn_predict_layers", 4), {"qwen35.nextn_predict_layers", "0 .. 3"});
  expect_error("qwen35", {}, integers("qwen35.rope.dimension_sections", {1, 2, 3}),
               {"qwen35.rope.dimension_sections", "4 numbers"});
  expect_error("qwen35", {}, integers("qwen35.rope.dimension_sections", {3, 3, -1, 0}),
               {"qwen35.rope.dimension_sections"});
  expect_error("qwen35moe", {}, integer("qwen35moe.expert_count", 0), {"qwen35moe.expert_count", "is 0"});
  expect_error("lfm2", {}, integers("lfm2.attention.head_count_kv", {0, 2, 0}),
               {"lfm2.attention.head_count_kv", "3 entries", "4 layers"});
  expect_error("lfm2", {}, integers("lfm2.attention.head_count_kv", {0, 2, 0, 5}),
               {"lfm2.attention.head_count_kv", "entry 5", "0 .. 4"});
  expect_error("lfm2", {}, integers("lfm2.attention.head_count_kv", {0, 2, 0, 4}),
               {"lfm2.attention.head_count_kv", "2 for one layer and 4"}, Code::kUnsupported);
  expect_error("lfm2", {}, integer("lfm2.shortconv.l_cache", 99), {"lfm2.shortconv.l_cache", "is 99"});
  expect_error("mamba2", {}, integer("mamba2.ssm.group_count", 3), {"mamba2.ssm.group_count", "8 heads"});
}

TEST(RecurrentFiles, TensorsMissingOrOfTheWrongShapeAreNamed) {
  // One more layer is to have attention.
  expect_error("qwen35", {}, integer("qwen35.full_attention_interval", 2),
               {"blk.1.attn_q_norm.weight", "[32]", "missing"});
  expect_error("qwen35", {}, integer("qwen35.full_attention_interval", 8),
               {"blk.3.attn_qkv.weight", "[64, 256]", "missing"});
  expect_error("lfm2", {}, integers("lfm2.attention.head_count_kv", {0, 0, 0, 2}),
               {"blk.1.shortconv.in_proj.weight", "[64, 192]", "missing"});
  const std::map<std::string, std::vector<int64_t>> of_qwen35 = {
      {"attn_qkv.weight", {64, 255}},
      {"attn_gate.weight", {64, 64}},
      {"ssm_beta.weight", {64, 3}},
      {"ssm_alpha.weight", {64, 8}},
      {"ssm_conv1d.weight", {3, 256}},
      {"ssm_dt.bias", {5}},
      {"ssm_a", {1, 4}},
      {"ssm_norm.weight", {128}},
      {"ssm_out.weight", {64, 64}},
      {"ssm_in.weight", {64, 100}},
      {"ssm_ba.weight", {64, 9}},
  };
  for (const auto& [name, shape] : of_qwen35) {
    expect_error("qwen35", {random_tensor("blk.1." + name, shape, 1)}, kNoKeys, {"blk.1." + name, "shape"});
  }
  expect_error("qwen35", {random_tensor("blk.3.attn_q.weight", {64, 128}, 1)}, kNoKeys,
               {"blk.3.attn_q.weight", "[64, 128]", "[64, 256]"});
  expect_error("qwen35", {random_tensor("blk.3.attn_q.bias", {256}, 1)}, kNoKeys, {"blk.3.attn_q.bias"},
               Code::kUnsupported);
  expect_error("qwen35", {random_tensor("blk.3.post_attention_norm.weight", {63}, 1)}, kNoKeys,
               {"blk.3.post_attention_norm.weight"});
  const std::map<std::string, std::vector<int64_t>> of_mamba2 = {
      {"ssm_in.weight", {64, 327}}, {"ssm_a", {8}},        {"ssm_d", {2, 8}},
      {"ssm_conv1d.bias", {191}},   {"ssm_dt.bias", {16}}, {"ssm_norm.weight", {128}},
  };
  for (const auto& [name, shape] : of_mamba2) {
    expect_error("mamba2", {random_tensor("blk.1." + name, shape, 1)}, kNoKeys, {"blk.1." + name, "shape"});
  }
  expect_error("lfm2", {random_tensor("blk.2.shortconv.conv.weight", {4, 64}, 1)}, kNoKeys,
               {"blk.2.shortconv.conv.weight", "[3, 64]"});
  expect_error("lfm2", {random_tensor("token_embd_norm.weight", {65}, 1)}, kNoKeys, {"token_embd_norm.weight"});
}

TEST(RecurrentFiles, AnMtpLayerIsNotReadAndTheLogSaysSo) {
  testing::internal::CaptureStderr();
  Model model(path_of("qwen35-mtp"), 64, "", 1);
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("MTP layers are not read: blk."), std::string::npos) << log;
}

TEST(RecurrentStates, AllLayersOfADeviceShareASlotWithoutPages) {
  struct Case {
    const char* name;
    size_t groups;
    int64_t state_bytes;
  };
  // Windows of 3 rows over 256 channels and 4 heads of 32 x 32; 2 rows over 64 channels; 3 over 192 and 8 of 16 x 16;
  // 3 over 288 and 4 of 24 x 24.
  for (const Case& c :
       {Case{"qwen35", 2, 3 * 4 * (3 * 256 + 4 * 32 * 32)}, Case{"lfm2", 2, 2 * 4 * 2 * 64},
        Case{"mamba2", 1, 2 * 4 * (3 * 192 + 8 * 16 * 16)}, Case{kKimi, 2, 3 * 4 * (3 * 288 + 4 * 24 * 24)}}) {
    Model model(path_of(c.name), 64, "", 1);
    const std::vector<cache::KvGroup>& groups = model.runner().kv_layout().groups;
    ASSERT_EQ(groups.size(), c.groups) << c.name;
    const auto state = std::ranges::find(groups, cache::KvKind::kState, &cache::KvGroup::kind);
    ASSERT_NE(state, groups.end()) << c.name;
    EXPECT_EQ(state->state_bytes, c.state_bytes) << c.name;
    EXPECT_TRUE(state->layers.empty());
  }
}

// Slots hold what their last user left: here numbers that would spread to every logit.
TEST(RecurrentStates, ASequenceBeginsFromNothingWhateverIsInItsSlot) {
  for (const char* name : {"qwen35", "lfm2", "mamba2", kKimi}) {
    Model model(path_of(name), 64, "", 1);
    const std::vector<float> whole = logits_of(model, kTokens, 64);
    const std::vector<cache::KvGroup>& groups = model.runner().kv_layout().groups;
    const auto group =
        static_cast<int32_t>(std::ranges::find(groups, cache::KvKind::kState, &cache::KvGroup::kind) - groups.begin());
    const int64_t bytes = model.pool().layout().page_bytes(groups[group]);
    const std::vector<float> garbage(bytes / sizeof(float), std::nanf(""));
    for (int32_t slot = 0; slot < kPoolPages; ++slot) {
      model.pool().write(group, reinterpret_cast<const std::byte*>(garbage.data()), PageId{slot});
    }
    expect_same_bytes(logits_of(model, kTokens, 3), whole, name);
  }
}

// A saved state continues another sequence at the same position, with the pages of the layers that have attention.
TEST(RecurrentStates, ACopiedSlotContinuesWhereItWasCopied) {
  Model model(path_of("mamba2"), 64, "", 1);
  const std::vector<float> whole = logits_of(model, kTokens, 64);
  const int64_t vocabulary = model.runner().vocabulary();
  constexpr int32_t kCut = 6;
  cache::PageTable first, second;
  ASSERT_TRUE(model.pool().extend(first, kCut) && model.pool().extend(second, static_cast<int32_t>(kTokens.size())));
  const auto run = [&](cache::PageTable& pages, int32_t begin, int32_t rows) {
    const model::BatchSlice slice{SequenceId{}, 0, rows, begin, &pages, model::LogitsWanted::kAll};
    const auto view = model.runner().step({std::span(kTokens).subspan(begin, rows), {&slice, 1}, &model.pool()});
    EXPECT_TRUE(view.has_value());
    return std::vector<float>(view->values.begin(), view->values.end());
  };
  run(first, 0, kCut);
  model.pool().copy(0, first.groups[0][0], second.groups[0][0]);
  run(first, kCut, 3);  // the copy is apart
  const std::vector<float> rest = run(second, kCut, static_cast<int32_t>(kTokens.size()) - kCut);
  expect_same_bytes(rest, std::span(whole).subspan(kCut * vocabulary), "from the copy");
  model.pool().release(first);
  model.pool().release(second);
}

/// A sequence whose steps have drafts, of which only the first may be right.
class DraftedSequence {
 public:
  DraftedSequence(Model& model, uint32_t seed) : model_(model), random_(seed) {
    const auto vocabulary = static_cast<uint32_t>(model.runner().vocabulary());
    for (int i = 0; i < kTokensMax; ++i) tokens_.push_back(TokenId{static_cast<int32_t>(random_() % vocabulary)});
    whole_ = logits_of(model, tokens_, kRowsMax);
    EXPECT_TRUE(model.pool().extend(pages_, kTokensMax + kDraftsMax));
  }
  ~DraftedSequence() { model_.pool().release(pages_); }
  DraftedSequence(const DraftedSequence&) = delete;

  bool done() const { return position_ == kTokensMax; }

  /// Its rows of the next step.
  model::BatchSlice begin(std::vector<TokenId>& rows) {
    kept_ = std::min(up_to(kDraftsMax) + 1, kTokensMax - position_);
    right_ = std::min(up_to(kDraftsMax), kTokensMax - position_ - kept_);
    const int32_t wrong = up_to(kDraftsMax - right_);
    const model::BatchSlice slice{.row_begin = static_cast<int32_t>(rows.size()),
                                  .rows = kept_ + right_ + wrong,
                                  .position_begin = position_,
                                  .pages = &pages_,
                                  .logits = model::LogitsWanted::kAll,
                                  .drafts = right_ + wrong};
    const auto next = tokens_.begin() + position_;
    rows.insert(rows.end(), next, next + kept_ + right_);
    for (int32_t i = 0; i < wrong; ++i) rows.push_back(TokenId{up_to(kTokensMax)});
    return slice;
  }
  /// Compares the logits of its rows that are right, and keeps some of its drafts.
  void end(const model::BatchSlice& slice, const model::LogitsView& logits) {
    const int64_t rows = kept_ + right_, vocabulary = logits.vocabulary;
    expect_same_bytes(logits.values.subspan(slice.row_begin * vocabulary, rows * vocabulary),
                      std::span(whole_).subspan(position_ * vocabulary, rows * vocabulary), "with drafts");
    const int32_t kept = up_to(right_);
    if (kept > 0) {
      EXPECT_TRUE(model_.runner().keep_drafts(model_.pool(), slice, kept).has_value());
    }
    position_ += kept_ + kept;
  }

 private:
  static constexpr int32_t kTokensMax = 30, kDraftsMax = 4;

  int32_t up_to(int32_t most) { return static_cast<int32_t>(random_() % static_cast<uint32_t>(most + 1)); }

  Model& model_;
  std::mt19937 random_;
  std::vector<TokenId> tokens_;
  std::vector<float> whole_;
  cache::PageTable pages_;
  int32_t position_ = 0;
  int32_t kept_ = 0, right_ = 0;  // rows of the step in progress
};

TEST(RecurrentStates, DraftsThatAreKeptInWholeOrInPartOrNotAtAllLeaveTheSameBytes) {
  for (const char* file :
       {"models/qwen35", "models/qwen3next", "models/mamba2", "models/lfm2", "converted/falcon_h1",
        "converted/granitemoehybrid", "converted/kimi_linear", "converted/lfm2_moe", "converted/nemotron_h-moe"}) {
    for (const std::string& isa : isas()) {
      SCOPED_TRACE(fmt::format("{} on {}", file, isa));
      Model model(std::string(file) + ".gguf", 64, isa, 2);
      DraftedSequence first(model, 1), second(model, 2);
      while (!first.done() || !second.done()) {
        std::vector<TokenId> rows;
        std::vector<model::BatchSlice> slices;
        std::vector<DraftedSequence*> running;
        for (DraftedSequence* each : {&first, &second}) {
          if (each->done()) continue;
          slices.push_back(each->begin(rows));
          running.push_back(each);
        }
        const auto view = model.runner().step({rows, slices, &model.pool()});
        ASSERT_TRUE(view.has_value());
        for (size_t i = 0; i < running.size(); ++i) running[i]->end(slices[i], *view);
      }
    }
  }
}

// Layers on two devices have a slot on each.
TEST(RecurrentStates, StagesOfAPipelineHaveSlotsOfTheirOwn) {
  const auto file = gguf::Reader::open(fixture(path_of("qwen35"))).value();
  const auto one = kernels::make_cpu_backend({.threads = 1, .isa = ""}).value();
  const auto two = kernels::make_cpu_backend({.threads = 1, .isa = ""}).value();
  const model::PipelineStage stages[] = {{.backend = one.get(), .layers = 2}, {.backend = two.get()}};
  const auto runner = model::load_model(file, stages, {.context_tokens = 64}).value();
  const cache::KvLayout& layout = runner->kv_layout();
  const int64_t layer = 4 * (3 * 256 + 4 * 32 * 32);
  ASSERT_EQ(layout.groups.size(), 3u);
  EXPECT_EQ(layout.groups[0].state_bytes, 2 * layer);
  EXPECT_EQ(layout.groups[1].state_bytes, layer);
  EXPECT_EQ(layout.groups[1].device, 1);
  kernels::DeviceMemory* const devices[] = {one.get(), two.get()};
  const std::vector<int32_t> pages(layout.groups.size(), 4);
  struct Split {
    model::Runner& of;
    cache::PagePool pages;
    model::Runner& runner() { return of; }
    cache::PagePool& pool() { return pages; }
  } split{*runner, cache::PagePool::create(devices, layout, pages).value()};
  TestSequence sequence(split);
  std::vector<float> all;
  for (const TokenId token : kTokens) {
    const auto rows = sequence.step({&token, 1}, model::LogitsWanted::kAll);
    all.insert(all.end(), rows.begin(), rows.end());
  }
  expect_same_bytes(all, logits_without_change("qwen35"), "two stages");
}

}  // namespace
}  // namespace cairn
