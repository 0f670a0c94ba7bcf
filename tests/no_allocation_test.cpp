// A step of a loaded model allocates nothing from the heap. Every operator new of this program is counted.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <vector>

#include "base/testing/test_data.h"
#include "cache/page_pool.h"
#include "engine/speculation/drafter.h"
#include "gguf/reader.h"
#include "kernels/cpu/cpu_backend.h"
#include "lora_files.h"
#include "model/model.h"
#include "model/weights/lora.h"
#include "mtp/files.h"

namespace {
std::atomic<int64_t> allocations{0};
constexpr size_t kAlignment = alignof(std::max_align_t);

void* counted(size_t bytes, size_t alignment) {
  ++allocations;
  void* memory = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (memory == nullptr) std::abort();
  return memory;
}
}  // namespace

// All forms are replaced: sanitizers bring their own for those that are left out, and report mixed pairs as errors.
void* operator new(size_t bytes) { return counted(bytes, kAlignment); }
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return counted(bytes, kAlignment); }
void* operator new(size_t bytes, std::align_val_t alignment) { return counted(bytes, static_cast<size_t>(alignment)); }
void* operator new(size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return counted(bytes, static_cast<size_t>(alignment));
}
void* operator new[](size_t bytes) { return counted(bytes, kAlignment); }
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept { return counted(bytes, kAlignment); }
void* operator new[](size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<size_t>(alignment));
}
void* operator new[](size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return counted(bytes, static_cast<size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t, const std::nothrow_t&) noexcept { std::free(memory); }

namespace cairn {
namespace {

struct Sequence {
  cache::PageTable pages;
  int32_t position = 0;
};

/// Runs two steps over three sequences: a prompt's chunk and two decoded tokens, then three decoded tokens.
void run_steps(model::Runner& runner, const cache::PagePool& pool, std::vector<Sequence>& sequences,
               const std::vector<TokenId>& tokens) {
  for (const int32_t first_rows : {20, 1}) {
    std::array<model::BatchSlice, 3> slices;
    int32_t rows = 0;
    for (size_t i = 0; i < slices.size(); ++i) {
      const int32_t count = i == 0 ? first_rows : 1;
      slices[i] = {SequenceId{}, rows, count, sequences[i].position, &sequences[i].pages, model::LogitsWanted::kLast};
      sequences[i].position += count;
      rows += count;
    }
    const auto logits = runner.step({std::span(tokens).first(rows), slices, &pool});
    ASSERT_TRUE(logits.has_value());
  }
}

class NoAllocationTest : public testing::TestWithParam<const char*> {};

gguf::Reader model_of_tests(const char* name) {
  return gguf::Reader::open(std::filesystem::path(test_data()) / "models" / name).value();
}

void expect_steps_without_allocation(const gguf::Reader& file, std::span<const model::LoraAdapter> adapters) {
  for (const int threads : {1, 2}) {
    const auto backend = kernels::make_cpu_backend({.threads = threads, .isa = ""});
    ASSERT_TRUE(backend.has_value());
    const auto runner = model::load_model(
        file, **backend, {.context_tokens = 512, .batch_tokens_max = 32, .logits_max = 4, .adapters = adapters});
    ASSERT_TRUE(runner.has_value());
    const std::vector<int32_t> pages((*runner)->kv_layout().groups.size(), 48);
    auto pool = cache::PagePool::create(**backend, (*runner)->kv_layout(), pages);
    ASSERT_TRUE(pool.has_value());
    std::vector<Sequence> sequences(3);
    for (Sequence& sequence : sequences) ASSERT_TRUE(pool->extend(sequence.pages, 512));
    const std::vector<TokenId> tokens(32, TokenId{5});
    run_steps(**runner, *pool, sequences, tokens);  // buffers grow in this first run
    const int64_t before = allocations;
    for (int i = 0; i < 20; ++i) run_steps(**runner, *pool, sequences, tokens);
    EXPECT_EQ(allocations, before) << threads << " threads";
  }
}

TEST_P(NoAllocationTest, StepsAllocateNothing) { expect_steps_without_allocation(model_of_tests(GetParam()), {}); }

TEST(NoAllocationWithAdaptersTest, StepsAllocateNothing) {
  for (const char* name : {"llama-moe.gguf", "deepseek2.gguf", "deepseek4.gguf"}) {
    const gguf::Reader file = model_of_tests(name);
    const std::string architecture(file.metadata().string("general.architecture").value());
    std::vector<AddedTensor> merged, parts = parts_of(file, 1, 1, merged);
    add_table_parts(file, 1, 1, parts, merged);
    const AdapterFile adapter("no_allocation", architecture, parts);
    const std::vector<model::LoraFile> files = {{adapter.path(), 0.01F}};
    expect_steps_without_allocation(file, model::open_lora_adapters(files, architecture).value());
  }
}

/// Runs a step, and makes four drafts after each of its sequences.
void draft(model::Runner& runner, engine::Drafter& drafter, const cache::PagePool& pool,
           std::vector<Sequence>& sequences, const std::vector<TokenId>& tokens,
           std::vector<std::vector<TokenId>>& proposed) {
  constexpr int32_t kDepth = 4;
  run_steps(runner, pool, sequences, tokens);
  std::array<engine::DraftRequest, 3> requests;
  for (size_t i = 0; i < requests.size(); ++i) {
    proposed[i].clear();
    const auto known = static_cast<size_t>(sequences[i].position) + 1;
    requests[i] = {SequenceId{}, std::span(tokens).first(known), kDepth, &proposed[i], &sequences[i].pages, &pool};
  }
  drafter.propose(requests);
  for (const std::vector<TokenId>& each : proposed) ASSERT_EQ(each.size(), size_t{kDepth});
}

void expect_drafts_without_allocation(const std::filesystem::path& path) {
  const auto file = gguf::Reader::open(path);
  ASSERT_TRUE(file.has_value());
  for (const int threads : {1, 2}) {
    const auto backend = kernels::make_cpu_backend({.threads = threads, .isa = ""}).value();
    const model::ModelOptions options{.context_tokens = 512, .batch_tokens_max = 32, .logits_max = 4, .load_mtp = true};
    const auto runner = model::load_model(*file, *backend, options).value();
    ASSERT_TRUE(runner->has_mtp());
    const std::vector<int32_t> pages(runner->kv_layout().groups.size(), 48);
    cache::PagePool pool = cache::PagePool::create(*backend, runner->kv_layout(), pages).value();
    const auto drafter = engine::make_mtp_drafter(*runner);
    std::vector<Sequence> sequences(3);
    for (Sequence& sequence : sequences) ASSERT_TRUE(pool.extend(sequence.pages, 512));
    const std::vector<TokenId> tokens(512, TokenId{5});
    std::vector<std::vector<TokenId>> proposed(3);
    for (std::vector<TokenId>& each : proposed) each.reserve(4);
    draft(*runner, *drafter, pool, sequences, tokens, proposed);
    const int64_t before = allocations;
    for (int i = 0; i < 20; ++i) draft(*runner, *drafter, pool, sequences, tokens, proposed);
    EXPECT_EQ(allocations, before) << threads << " threads";
  }
}

TEST(NoAllocationOfDraftsTest, DraftsOfDeepSeekAllocateNothing) {
  const mtp::Folder folder;
  expect_drafts_without_allocation(mtp::make_model(folder / "model.gguf"));
}

TEST(NoAllocationOfDraftsTest, DraftsOfADraftingHeadAllocateNothing) {
  const mtp::Folder folder;
  const auto model = gguf::Reader::open(mtp::make_model(folder / "model.gguf")).value();
  expect_drafts_without_allocation(mtp::make_with_dspark(model, folder / "dspark.gguf"));
}

TEST(NoAllocationOfDraftsTest, DraftsOfDecodersAllocateNothing) {
  expect_drafts_without_allocation(std::filesystem::path(test_data()) / "models" / "qwen35-mtp.gguf");
}

INSTANTIATE_TEST_SUITE_P(Fixtures, NoAllocationTest,
                         testing::Values("llama.gguf", "qwen2moe.gguf", "gemma3.gguf", "mistral3.gguf", "gpt2.gguf",
                                         "falcon-40b.gguf", "deepseek2.gguf", "deepseek32-topk8.gguf",
                                         "deepseek4-topk8.gguf", "quant-llama-q4_k_m.gguf", "gpt-oss.gguf",
                                         "gemma4.gguf", "gemma4-moe.gguf", "../converted/kimi_linear.gguf"));

}  // namespace
}  // namespace cairn
