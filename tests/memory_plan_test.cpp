// Loading takes the memory that the plan says: every buffer and every operator new of this program is counted.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "base/testing/test_data.h"
#include "cache/page_pool.h"
#include "cache/prefix_cache.h"
#include "gguf/reader.h"
#include "kernels/cpu/cpu_backend.h"
#include "loader/memory_plan.h"
#include "model/embedder.h"
#include "model/model.h"
#include "mtp/files.h"
#include "synth/synth.h"

namespace {

std::atomic<int64_t> heap_bytes = 0;

// The size is stored before the returned memory.
void* counted(size_t bytes, size_t alignment) {
  const size_t whole = (bytes + alignment - 1) / alignment * alignment + alignment;
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(alignment, whole));
  if (memory == nullptr) std::abort();
  memory += alignment;
  reinterpret_cast<size_t*>(memory)[-1] = bytes;
  return memory;
}
void* counted_in_heap(size_t bytes) {
  heap_bytes += static_cast<int64_t>(bytes);
  return counted(bytes, alignof(std::max_align_t));
}
void discard(void* memory, size_t alignment) {
  if (memory != nullptr) std::free(static_cast<std::byte*>(memory) - alignment);
}
void discard_from_heap(void* memory) {
  if (memory != nullptr) heap_bytes -= static_cast<int64_t>(static_cast<size_t*>(memory)[-1]);
  discard(memory, alignof(std::max_align_t));
}

}  // namespace

// All forms are replaced: sanitizers bring their own for those that are left out, and report mixed pairs as errors.
// Those with an alignment are buffers, which are counted elsewhere.
void* operator new(size_t bytes) { return counted_in_heap(bytes); }
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return counted_in_heap(bytes); }
void* operator new(size_t bytes, std::align_val_t at) { return counted(bytes, static_cast<size_t>(at)); }
void* operator new(size_t bytes, std::align_val_t at, const std::nothrow_t&) noexcept {
  return counted(bytes, static_cast<size_t>(at));
}
void* operator new[](size_t bytes) { return counted_in_heap(bytes); }
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept { return counted_in_heap(bytes); }
void* operator new[](size_t bytes, std::align_val_t at) { return counted(bytes, static_cast<size_t>(at)); }
void* operator new[](size_t bytes, std::align_val_t at, const std::nothrow_t&) noexcept {
  return counted(bytes, static_cast<size_t>(at));
}
void operator delete(void* memory) noexcept { discard_from_heap(memory); }
void operator delete(void* memory, size_t) noexcept { discard_from_heap(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { discard_from_heap(memory); }
void operator delete(void* memory, std::align_val_t at) noexcept { discard(memory, static_cast<size_t>(at)); }
void operator delete(void* memory, size_t, std::align_val_t at) noexcept { discard(memory, static_cast<size_t>(at)); }
void operator delete(void* memory, std::align_val_t at, const std::nothrow_t&) noexcept {
  discard(memory, static_cast<size_t>(at));
}
void operator delete[](void* memory) noexcept { discard_from_heap(memory); }
void operator delete[](void* memory, size_t) noexcept { discard_from_heap(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { discard_from_heap(memory); }
void operator delete[](void* memory, std::align_val_t at) noexcept { discard(memory, static_cast<size_t>(at)); }
void operator delete[](void* memory, size_t, std::align_val_t at) noexcept { discard(memory, static_cast<size_t>(at)); }
void operator delete[](void* memory, std::align_val_t at, const std::nothrow_t&) noexcept {
  discard(memory, static_cast<size_t>(at));
}

namespace cairn {
namespace {

// More than any plan needs: only lists are written to here.
constexpr int64_t kMemory = int64_t{1} << 50;
// Lists of a batch's rows, and configs and names of tensors, are not planned.
constexpr int64_t kUnplannedMax = 384 << 10;
constexpr int64_t kUnplannedOfSmallMax = 40 << 10;
constexpr int64_t kUnplannedOfLayerMax = 4 << 10;       // of each layer beyond the fourth
constexpr int64_t kUnplannedOfEngramsMax = 1280 << 10;  // whose config has a class for each token
constexpr int64_t kUnplannedOfEncodersMax = 40 << 10;   // which list the rows of a whole text

int64_t unplanned_of_small(const gguf::Reader& file) {
  const std::string architecture(file.metadata().string("general.architecture").value());
  const int64_t layers = file.metadata().integer(architecture + ".block_count").value();
  return kUnplannedOfSmallMax + std::max<int64_t>(0, layers - 4) * kUnplannedOfLayerMax;
}

int64_t bytes_now() { return heap_bytes + kernels::Buffer::bytes_in_all(); }

/// Parts of the file that are used in place: planned, and not allocated.
int64_t mapped_bytes(const gguf::Reader& file, kernels::Backend& backend, bool in_place) {
  int64_t mapped = 0;
  for (const gguf::Tensor& tensor : file.tensors()) {
    const std::string_view name = tensor.name;
    if (tensor.shape.size() < 2 || name.ends_with("_ape.weight") || name.ends_with("tid2eid.weight")) continue;
    // Turned into other matrices, or copied in parts, or looked up row by row, for which nothing is planned.
    if (name.ends_with("attn_kv_b.weight") || name.ends_with("ffn_gate_up_exps.weight")) continue;
    if (name == "per_layer_token_embd.weight" || name.ends_with("engram_embd.weight")) continue;
    const bool floats = tensor.type == TensorType::kF16 || tensor.type == TensorType::kF32;
    // All others are copied; two-bit ones take more bytes than in the file.
    if (!floats && !(tensor.type == TensorType::kIQ2_XXS && in_place)) continue;
    kernels::HostMatrix matrix{
        .type = tensor.type, .rows = tensor.shape[1], .cols = tensor.shape[0], .in_place = in_place};
    if (tensor.shape.size() > 2) matrix.experts = tensor.shape[2];
    EXPECT_EQ(backend.load_bytes(matrix), std::ssize(tensor.bytes)) << name;
    mapped += std::ssize(tensor.bytes);
  }
  return mapped;
}

void expect_as_planned(const gguf::Reader& file, const model::ModelOptions& options,
                       const loader::MemoryRequest& wishes, int64_t unplanned_max) {
  const auto backend = kernels::make_cpu_backend({.threads = 2, .isa = ""}).value();
  const auto model = model::model_memory(file, *backend, options);
  ASSERT_TRUE(model.has_value()) << model.error().text();
  const auto plan = loader::plan_memory(*model, wishes, kMemory);
  ASSERT_TRUE(plan.has_value()) << plan.error().text();
  const loader::StagePlan& stage = plan->stages.front();

  const int64_t before = bytes_now();
  const auto runner = model::load_model(file, *backend, options);
  ASSERT_TRUE(runner.has_value()) << runner.error().text();
  const int64_t loaded = bytes_now();
  auto pool = cache::PagePool::create(*backend, (*runner)->kv_layout(), plan->kv_pages);
  ASSERT_TRUE(pool.has_value()) << pool.error().text();
  const int64_t with_pool = bytes_now();
  const auto index = cache::PrefixCache::create(*pool, wishes.kv_host_bytes);
  ASSERT_TRUE(index.has_value()) << index.error().text();
  const int64_t with_index = bytes_now();

  int64_t mapped = mapped_bytes(file, *backend, options.weights_in_place);
  if (options.mtp_file != nullptr) mapped += mapped_bytes(*options.mtp_file, *backend, options.weights_in_place);
  const int64_t unplanned = loaded - before - (stage.weight_bytes + stage.scratch_bytes - mapped);
  EXPECT_GE(unplanned, 0);
  EXPECT_LT(unplanned, unplanned_max);
  const int64_t lists = cache::PagePool::list_bytes(plan->kv_pages);
  EXPECT_NEAR(with_pool - loaded, stage.kv_bytes + lists, 16 << 10);
  EXPECT_NEAR(with_index - with_pool, stage.index_bytes - lists, 16 << 10);
}

class MemoryPlanTest : public testing::Test {
 protected:
  MemoryPlanTest() : folder_(std::filesystem::path(testing::TempDir()) / fmt::format("cairn_plan_{}", ::getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~MemoryPlanTest() override { std::filesystem::remove_all(folder_); }

  /// A model file without its weights.
  gguf::Reader hollow(synth::Shape shape, const synth::Options& options) const {
    const auto planned = synth::plan(std::move(shape), options);
    EXPECT_TRUE(planned.has_value()) << planned.error().text();
    const auto path = folder_ / "hollow.gguf";
    const auto written = synth::write(*planned, options, path);
    EXPECT_TRUE(written.has_value()) << written.error().text();
    return gguf::Reader::open(path).value();
  }
  void expect_contexts_as_planned(std::string_view preset, int64_t unplanned_max = kUnplannedMax) const {
    // Matrices of this type are used in place in the file.
    const gguf::Reader file = hollow(synth::Shape::of_preset(preset).value(), {.type = "F16", .hollow = true});
    for (const int32_t context : {32'768, 262'144, 1'048'576}) {
      SCOPED_TRACE(context);
      const model::ModelOptions options{
          .context_tokens = context, .kv_type = kernels::KvType::kF16, .available_bytes = kMemory};
      expect_as_planned(file, options, {.context_tokens = context, .sequences = 1}, unplanned_max);
    }
  }

 private:
  std::filesystem::path folder_;
};

TEST_F(MemoryPlanTest, ThePlanOfTheFlashPresetIsWhatIsAllocated) { expect_contexts_as_planned("flash"); }
TEST_F(MemoryPlanTest, ThePlanOfTheProPresetIsWhatIsAllocated) { expect_contexts_as_planned("pro"); }
TEST_F(MemoryPlanTest, ThePlanOfTheV41FlashPresetIsWhatIsAllocated) {
  expect_contexts_as_planned("v4.1-flash", kUnplannedOfEngramsMax);
}

// Rows of tables are looked up in the file, and nothing of the tables is loaded.
TEST_F(MemoryPlanTest, TheTablesOfTheV41FlashPresetStayInTheFile) {
  const gguf::Reader file = hollow(synth::Shape::of_preset("v4.1-flash").value(), {.hollow = true});
  int64_t tables = 0;
  for (const gguf::Tensor& tensor : file.tensors()) {
    if (tensor.name.ends_with("engram_embd.weight")) tables += std::ssize(tensor.bytes);
  }
  const auto backend = kernels::make_cpu_backend({.threads = 2, .isa = ""}).value();
  const model::ModelOptions options{
      .context_tokens = 32'768, .kv_type = kernels::KvType::kF16, .available_bytes = kMemory};
  const auto memory = model::model_memory(file, *backend, options);
  ASSERT_TRUE(memory.has_value()) << memory.error().text();
  EXPECT_EQ(memory->stages.front().file_table_bytes, tables);
  EXPECT_GT(tables, int64_t{190} << 30);
}

// So small that a forgotten weight or array would be noticed.
TEST_F(MemoryPlanTest, ThePlanOfSmallModelsIsWhatIsAllocated) {
  for (const char* name :
       {"llama", "gemma2", "phi3", "qwen2moe", "gpt2", "falcon-40b", "stablelm-parallel", "deepseek2",
        "deepseek2-nomla", "deepseek32", "deepseek4", "deepseek4-hash", "gpt-oss", "gemma4", "gemma4-dense",
        "gemma4-moe", "../converted/phimoe", "../converted/glm_moe_dsa-shared"}) {
    SCOPED_TRACE(name);
    const auto file = gguf::Reader::open(fmt::format("{}/models/{}.gguf", test_data(), name));
    ASSERT_TRUE(file.has_value());
    const model::ModelOptions options{
        .context_tokens = 256, .batch_tokens_max = 8, .logits_max = 2, .available_bytes = kMemory};
    expect_as_planned(*file, options, {.context_tokens = 256, .sequences = 1}, unplanned_of_small(*file));
  }
}

// Encoders have no pages: all of it is weights and arrays.
TEST_F(MemoryPlanTest, ThePlanOfEncodersIsWhatIsAllocated) {
  for (const char* name : {"bert", "modernbert-rerank", "nomic_bert-moe", "embeddinggemma-dense"}) {
    SCOPED_TRACE(name);
    const auto file = gguf::Reader::open(fmt::format("{}/converted/{}.gguf", test_data(), name));
    ASSERT_TRUE(file.has_value());
    const model::ModelOptions options{.context_tokens = 256, .batch_tokens_max = 8, .available_bytes = kMemory};
    const auto backend = kernels::make_cpu_backend({.threads = 2, .isa = ""}).value();
    const auto memory = model::model_memory(*file, *backend, options);
    ASSERT_TRUE(memory.has_value()) << memory.error().text();
    const model::StageMemory& stage = memory->stages.front();
    const int64_t before = bytes_now();
    const auto encoder = model::load_embedder(*file, *backend, options);
    ASSERT_TRUE(encoder.has_value()) << encoder.error().text();
    const int64_t planned = stage.weight_bytes + stage.scratch_bytes - mapped_bytes(*file, *backend, false);
    EXPECT_GE(bytes_now() - before, planned);
    EXPECT_LT(bytes_now() - before, planned + kUnplannedOfEncodersMax);
  }
}

// Who shows how far loading is divides one by the other.
TEST_F(MemoryPlanTest, LoadingCountsTheWeightsUpToThePlan) {
  for (const char* name : {"llama", "gemma2", "qwen2moe", "deepseek2", "gpt-oss", "../converted/phimoe"}) {
    SCOPED_TRACE(name);
    const auto file = gguf::Reader::open(fmt::format("{}/models/{}.gguf", test_data(), name));
    ASSERT_TRUE(file.has_value());
    std::atomic<int64_t> loaded = 0;
    model::ModelOptions options{
        .context_tokens = 256, .batch_tokens_max = 8, .logits_max = 2, .available_bytes = kMemory};
    options.loaded_bytes = &loaded;
    const auto backend = kernels::make_cpu_backend({.threads = 2, .isa = ""}).value();
    const auto memory = model::model_memory(*file, *backend, options);
    ASSERT_TRUE(memory.has_value()) << memory.error().text();
    EXPECT_EQ(loaded, 0);
    const auto runner = model::load_model(*file, *backend, options);
    ASSERT_TRUE(runner.has_value()) << runner.error().text();
    EXPECT_EQ(loaded, memory->stages.front().weight_bytes);
  }
}

constexpr model::ModelOptions kWithMtp{
    .context_tokens = 256, .batch_tokens_max = 8, .logits_max = 2, .load_mtp = true, .available_bytes = kMemory};

std::pair<model::ModelMemory, model::ModelMemory> plans_without_and_with_mtp(const gguf::Reader& file) {
  const auto backend = kernels::make_cpu_backend({.threads = 2, .isa = ""}).value();
  model::ModelOptions without = kWithMtp;
  without.load_mtp = false;
  return {model::model_memory(file, *backend, without).value(), model::model_memory(file, *backend, kWithMtp).value()};
}

// The MTP module needs weights, cache pages and arrays.
TEST_F(MemoryPlanTest, ThePlanOfAnMtpModuleIsWhatIsAllocated) {
  synth::Shape shape = synth::Shape::of_architecture("deepseek4").value();
  ASSERT_TRUE(shape.set("nextn_predict_layers", "1").has_value());
  ASSERT_TRUE(shape.set("attention.compress_ratios", "0,4,128,0").has_value());
  const gguf::Reader file = hollow(std::move(shape), {.type = "F16", .hollow = true});
  const auto [without, with] = plans_without_and_with_mtp(file);
  EXPECT_GT(with.stages[0].weight_bytes, without.stages[0].weight_bytes);
  EXPECT_GT(with.stages[0].scratch_bytes, without.stages[0].scratch_bytes);
  EXPECT_GT(with.kv_layout.groups.size(), without.kv_layout.groups.size());
  expect_as_planned(file, kWithMtp, {.context_tokens = 256, .sequences = 1}, kUnplannedOfSmallMax);
}

TEST_F(MemoryPlanTest, ThePlanOfADraftingHeadIsWhatIsAllocated) {
  const mtp::Folder folder;
  const auto model = gguf::Reader::open(mtp::make_model(folder / "model.gguf")).value();
  const auto file = gguf::Reader::open(mtp::make_with_dspark(model, folder / "dspark.gguf")).value();
  const model::ModelOptions options{
      .context_tokens = 256, .batch_tokens_max = 16, .logits_max = 2, .load_mtp = true, .available_bytes = kMemory};
  expect_as_planned(file, options, {.context_tokens = 256, .sequences = 1}, unplanned_of_small(file));
}

TEST_F(MemoryPlanTest, ThePlanOfADraftingHeadOfV41IsWhatIsAllocated) {
  synth::Shape shape = synth::Shape::of_architecture("deepseek41").value();
  ASSERT_TRUE(shape.set("dspark.stage_count", "2").has_value());
  const gguf::Reader file = hollow(std::move(shape), {.type = "F16", .hollow = true});
  const auto [without, with] = plans_without_and_with_mtp(file);
  EXPECT_GT(with.stages[0].weight_bytes, without.stages[0].weight_bytes);
  EXPECT_EQ(with.stages[0].file_table_bytes, without.stages[0].file_table_bytes);
  constexpr int64_t kStages = 2, kEngrams = 2;
  const int64_t unplanned = unplanned_of_small(file) + (kStages + kEngrams) * kUnplannedOfLayerMax;
  expect_as_planned(file, kWithMtp, {.context_tokens = 256, .sequences = 1}, unplanned);
}

TEST_F(MemoryPlanTest, ThePlanOfAnAssistantIsWhatIsAllocated) {
  const auto file = gguf::Reader::open(test_data("/converted/gemma4.gguf")).value();
  const auto assistant = gguf::Reader::open(test_data("/converted/gemma4-assistant.gguf")).value();
  const model::ModelOptions options{.context_tokens = 256,
                                    .batch_tokens_max = 8,
                                    .logits_max = 2,
                                    .load_mtp = true,
                                    .mtp_file = &assistant,
                                    .available_bytes = kMemory};
  expect_as_planned(file, options, {.context_tokens = 256, .sequences = 1},
                    unplanned_of_small(file) + unplanned_of_small(assistant));
}

// The pages of the host tier are not part of the plan, but its bookkeeping is.
TEST_F(MemoryPlanTest, ThePlanOfAHostTierIsWhatIsAllocated) {
  const auto file = gguf::Reader::open(test_data("/models/llama.gguf"));
  ASSERT_TRUE(file.has_value());
  const model::ModelOptions options{
      .context_tokens = 256, .batch_tokens_max = 8, .logits_max = 2, .available_bytes = kMemory};
  const loader::MemoryRequest wishes{.context_tokens = 256, .sequences = 1, .kv_host_bytes = 256 << 20};
  expect_as_planned(*file, options, wishes, kUnplannedOfSmallMax);
}

// Packed copies of weights, and none if they would be larger than in the file.
TEST_F(MemoryPlanTest, ThePlanOfQuantisedWeightsIsWhatIsAllocated) {
  const synth::Options types{
      .type = "Q8_0", .type_rules = {{"ffn_(gate|up)_exps", "IQ2_XXS"}, {"ffn_down_exps", "Q2_K"}}, .hollow = true};
  const gguf::Reader file = hollow(synth::Shape::of_architecture("deepseek4").value(), types);
  for (const bool in_place : {false, true}) {
    SCOPED_TRACE(in_place);
    const model::ModelOptions options{.context_tokens = 256,
                                      .batch_tokens_max = 8,
                                      .logits_max = 2,
                                      .available_bytes = kMemory,
                                      .weights_in_place = in_place};
    expect_as_planned(file, options, {.context_tokens = 256, .sequences = 1}, kUnplannedOfSmallMax);
  }
}

}  // namespace
}  // namespace cairn
