// Models with their first layers on the CPU and the rest on the GPU, or on several GPUs: results, the choice of how
// many layers fit, and a whole model with its engine.
#include <gmock/gmock.h>

#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine/testing/collected_response.h"
#include "gpu/model_lab.h"
#include "kernels/cuda/cuda_backend.h"
#include "loader/device.h"
#include "loader/model_load.h"

namespace cairn::gpu {
namespace {

int32_t layers_of(const gguf::Reader& file) {
  const std::string architecture(file.metadata().string("general.architecture").value());
  return static_cast<int32_t>(file.metadata().integer(architecture + ".block_count").value());
}

class GpuSplit : public GpuTest {
 protected:
  /// Number of layers of each stage.
  std::vector<int32_t> layers_of_parts(const loader::Device& device) const {
    std::vector<int32_t> layers;
    for (const loader::DevicePart& part : device.parts) layers.push_back(part.layers);
    layers.back() = layers_of(file_) - std::accumulate(layers.begin(), layers.end(), 0);
    return layers;
  }
  int32_t layers_on_gpus(const loader::Device& device) const {
    int32_t layers = 0;
    const std::vector<int32_t> of_parts = layers_of_parts(device);
    for (size_t i = 0; i < of_parts.size(); ++i) layers += device.parts[i].gpu ? of_parts[i] : 0;
    return layers;
  }

  /// The choice for a model of seven layers if memory has room for `fitting` layers on GPUs, for all seven with at
  /// least `gpus` and at most `gpus_most` GPUs, and for whole contexts with `gpus_roomy`.
  Result<loader::Device> choose(int32_t gpu_layers, int32_t fitting, int gpus = 1, int gpus_roomy = 1,
                                int gpus_most = 99) {
    const auto fits = [&](const loader::Device& device) -> Result<bool> {
      asked_last_ = std::ssize(device.parts);
      const int32_t on_gpu = layers_on_gpus(device);
      EXPECT_EQ(device.parts.front().gpu, on_gpu == layers_of(file_));
      for (const int32_t layers : layers_of_parts(device)) EXPECT_GT(layers, 0);
      const bool enough = on_gpu < layers_of(file_) || (asked_last_ >= gpus && asked_last_ <= gpus_most);
      if (on_gpu <= fitting && enough) return asked_last_ >= gpus_roomy;
      return fail(Code::kOutOfMemory, "{} layers do not fit on {} GPUs", on_gpu, device.parts.size());
    };
    return loader::choose_device(file_, {.gpu_layers = gpu_layers, .cpu = {.threads = 1, .isa = ""}}, fits);
  }

  int64_t asked_last_ = 0;  // number of stages in the last call
  const gguf::Reader file_ = gguf::Reader::open(model_path("gemma3")).value();
};

TEST_F(GpuSplit, LogitsAgreeWithTheCpuAndGreedyTokensWithTheReference) {
  for (const char* name : {"llama", "llama-tied-llama3rope", "gemma3", "gemma4", "qwen3moe", "deepseek2"}) {
    SCOPED_TRACE(name);
    const Reference reference = reference_of(name);
    const auto file = gguf::Reader::open(model_path(name)).value();
    // The last four layers of gemma4 share keys and values.
    const int32_t first = name == std::string_view("gemma4") ? 2 : layers_of(file) / 2;
    Model split(file, gpu(), reference.context, kernels::KvType::kF32, {{&cpu(), first}});
    Model whole(file, cpu(), reference.context);
    const std::vector<TokenId>& tokens = reference.runs.front().tokens;
    EXPECT_LE(difference(logits_of(split, tokens, kStepRows), logits_of(whole, tokens, kStepRows)), kBoundF32);
    for (const Prompt& prompt : reference.runs) EXPECT_EQ(greedy(split, prompt), prompt.greedy);
  }
}

TEST_F(GpuSplit, LogitsDoNotDependOnChunks) {
  const Reference reference = reference_of("gemma3");
  const auto file = gguf::Reader::open(model_path("gemma3")).value();
  for (const kernels::KvType type : {kernels::KvType::kF16, kernels::KvType::kBF16}) {
    Model split(file, gpu(), reference.context, type, {{&cpu(), 1}});
    const cache::KvLayout& layout = split.runner().kv_layout();
    for (const cache::KvGroup& group : layout.groups) {
      const kernels::Backend& backend = group.device == 0 ? cpu() : gpu();
      EXPECT_EQ(layout.type_of(group.layers.front()), backend.stored_kv_type(type));
    }
    const std::span<const TokenId> tokens = std::span(reference.runs.front().tokens).first(20);
    const std::vector<float> whole = logits_of(split, tokens, kStepRows);
    for (const size_t chunk : {size_t{1}, size_t{7}}) {
      EXPECT_TRUE(kernels::cpu::same_bits(whole, logits_of(split, tokens, chunk))) << "chunks of " << chunk;
    }
  }
}

TEST_F(GpuSplit, PutsTheRequestedNumberOfLayersOnTheGpu) {
  const int32_t layers = layers_of(file_);
  ASSERT_EQ(layers, 7);
  for (int32_t wanted = 1; wanted <= layers + 1; ++wanted) {
    const auto device = choose(wanted, layers);
    ASSERT_TRUE(device.has_value()) << device.error().text();
    EXPECT_TRUE(device->on_gpu());
    EXPECT_EQ(layers_on_gpus(*device), std::min(layers, wanted));
  }
  EXPECT_EQ(choose(layers, layers - 1).error().code, Code::kOutOfMemory) << "asked for, so not fewer";
}

TEST_F(GpuSplit, PutsAsManyLayersOnTheGpuAsFitByDefault) {
  const int32_t layers = layers_of(file_);
  for (int32_t fitting = 0; fitting <= layers; ++fitting) {
    const auto device = choose(loader::kGpuLayersAuto, fitting);
    ASSERT_TRUE(device.has_value()) << device.error().text();
    EXPECT_EQ(device->on_gpu(), fitting > 0);
    EXPECT_EQ(layers_on_gpus(*device), fitting);
  }
}

class SeveralGpus : public GpuSplit {
 protected:
  void SetUp() override {
    GpuSplit::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    const int there = kernels::cuda_device_count().value();
    if (there < kGpus) GTEST_SKIP() << "skipped: " << there << " CUDA devices, not " << kGpus;
    for (int number = 0; number < kGpus; ++number) {
      gpus_.push_back(reserved(kernels::make_cuda_backend({.device = number})).value());
    }
  }

  static constexpr int kGpus = 3;
  std::vector<std::unique_ptr<kernels::Backend>> gpus_;
};

TEST_F(SeveralGpus, GiveTheSameBytesAsOneGpu) {
  for (const char* name : {"gemma3", "deepseek2", "deepseek4"}) {
    SCOPED_TRACE(name);
    const Reference reference = reference_of(name);
    const auto file = gguf::Reader::open(model_path(name)).value();
    Model whole(file, *gpus_[0], reference.context, kernels::KvType::kQ8_0);
    Model split(file, *gpus_[1], reference.context, kernels::KvType::kQ8_0,
                {{gpus_[2].get(), 1}, {gpus_[0].get(), layers_of(file) - 2}});
    const std::span<const TokenId> tokens = std::span(reference.runs.front().tokens).first(20);
    EXPECT_TRUE(kernels::cpu::same_bits(logits_of(split, tokens, kStepRows), logits_of(whole, tokens, kStepRows)));
  }
}

/// Logits of a prompt, then of two drafts behind it.
std::vector<float> logits_and_drafts(Model& model, std::span<const TokenId> tokens) {
  const auto rows = static_cast<int32_t>(tokens.size());
  cache::PageTable pages;
  EXPECT_TRUE(model.pool().extend(pages, rows + 2));
  const model::BatchSlice slice{SequenceId{}, 0, rows, 0, &pages, model::LogitsWanted::kAll};
  const auto step = model.runner().step({tokens, std::span(&slice, 1), &model.pool()});
  EXPECT_TRUE(step.has_value()) << step.error().text();
  std::vector<float> all(step->values.begin(), step->values.end());
  for (int32_t ahead = 0; ahead < 2; ++ahead) {
    const TokenId token{5 + 3 * ahead};
    const model::BatchSlice draft{.rows = 1, .position_begin = rows + ahead, .pages = &pages, .drafts_before = ahead};
    const auto view = model.runner().mtp_step({std::span(&token, 1), std::span(&draft, 1), &model.pool()});
    EXPECT_TRUE(view.has_value()) << view.error().text();
    all.insert(all.end(), view->values.begin(), view->values.end());
  }
  return all;
}

TEST_F(SeveralGpus, DraftByAnMtpModuleAsOneGpuDoes) {
  for (const char* name : {"glm4moe-mtp", "qwen35-mtp"}) {
    SCOPED_TRACE(name);
    const auto file = gguf::Reader::open(model_path(name)).value();
    const model::ModelOptions options{.context_tokens = 64, .kv_type = kernels::KvType::kF32, .load_mtp = true};
    Model whole(file, *gpus_[0], options);
    Model split(file, *gpus_[1], options, {{gpus_[2].get(), 1}});
    ASSERT_TRUE(split.runner().has_mtp());
    const std::vector<TokenId> tokens{TokenId{3}, TokenId{10}, TokenId{17}, TokenId{24}, TokenId{31}};
    EXPECT_TRUE(kernels::cpu::same_bits(logits_and_drafts(split, tokens), logits_and_drafts(whole, tokens)));
  }
}

TEST_F(SeveralGpus, AreUsedWhenOneIsTooSmall) {
  const int32_t layers = layers_of(file_);
  for (const int32_t wanted : {loader::kGpuLayersAuto, loader::kGpuLayersAll}) {
    for (int gpus = 1; gpus <= kGpus; ++gpus) {
      const auto device = choose(wanted, layers, gpus);
      ASSERT_TRUE(device.has_value()) << gpus << ": " << device.error().text();
      EXPECT_EQ(std::ssize(device->parts), gpus);
      EXPECT_EQ(layers_on_gpus(*device), layers);
    }
  }
  const int none = kernels::cuda_device_count().value() + 1;
  // More GPUs are used if they allow longer contexts, and dropped again if the model does not fit then.
  for (int roomy = 1; roomy <= none; ++roomy) {
    for (int most = 1; most < none; ++most) {
      const auto device = choose(loader::kGpuLayersAuto, layers, 1, roomy, most);
      ASSERT_TRUE(device.has_value()) << device.error().text();
      EXPECT_EQ(std::ssize(device->parts), std::min({roomy, most, none - 1}));
      EXPECT_EQ(std::ssize(device->parts), asked_last_);
    }
  }
  EXPECT_EQ(choose(loader::kGpuLayersAll, layers, none).error().code, Code::kOutOfMemory);
  // The CPU gets the other layers, beside as many GPUs as have a layer.
  for (int32_t fitting = 1; fitting < layers; ++fitting) {
    const auto device = choose(loader::kGpuLayersAuto, fitting, none);
    ASSERT_TRUE(device.has_value()) << fitting << ": " << device.error().text();
    EXPECT_EQ(std::ssize(device->parts), 1 + std::min(fitting, none - 1));
    EXPECT_EQ(layers_on_gpus(*device), fitting);
    EXPECT_THAT(device->text(), testing::HasSubstr(fmt::format("for {} layers", layers - fitting)));
  }
}

TEST_F(GpuSplit, AnEngineServesASplitModel) {
  std::vector<std::string> texts;
  for (const int32_t gpu_layers : {0, 1}) {
    loader::LoadOptions options;
    options.device.gpu_layers = gpu_layers;
    options.model.kv_type = kernels::KvType::kF32;
    options.kv_bytes = 1 << 20;
    options.device.cpu.threads = 1;
    const auto model = loader::load_model_file(model_path("llama"), options);
    ASSERT_TRUE(model.has_value()) << model.error().text();
    EXPECT_EQ((*model)->device.parts.size(), gpu_layers == 1 ? 2u : 1u);
    for (int i = 0; i < 2; ++i) {  // the second time the prompt is cached, on both devices
      engine::GenerateRequest request;
      for (int32_t token = 0; token < 40; ++token) request.prompt.push_back(TokenId{3 + token * 7 % 40});
      request.max_tokens = 4;
      request.ignore_eos = true;
      request.sampling.temperature = 0;
      auto stream = (*model)->engine->submit(std::move(request));
      ASSERT_TRUE(stream.has_value()) << stream.error().text();
      const engine::Answer answer = engine::collect(**stream);
      texts.push_back(answer.text);
      EXPECT_EQ(answer.finish.usage.cached_tokens > 0, i == 1);
    }
  }
  EXPECT_FALSE(texts.front().empty());
  EXPECT_THAT(texts, testing::Each(texts.front()));
}

}  // namespace
}  // namespace cairn::gpu
