// Models that are on the processor with their first layers and on the GPU with the rest: numbers, the choice of how
// many layers fit, and a whole model with its engine.
#include <gmock/gmock.h>

#include <string>

#include "engine/answer.h"
#include "engine/engine.h"
#include "gpu/model_lab.h"
#include "registry/device.h"
#include "registry/registry.h"

namespace cairn::gpu {
namespace {

int32_t layers_of(const gguf::Reader& file) {
  const std::string architecture(file.metadata().string("general.architecture").value());
  return static_cast<int32_t>(file.metadata().integer(architecture + ".block_count").value());
}

class GpuSplit : public GpuTest {
 protected:
  /// The choice for a model of seven layers where memory has room for `fitting` layers on the GPU.
  Result<Device> choose(int32_t gpu_layers, int32_t fitting) {
    const auto fits = [&](const Device& device) -> Result<void> {
      const int32_t on_gpu = device.gpu ? layers_of(file_) - device.first_layers : 0;
      EXPECT_EQ(device.first_backend != nullptr && device.first_layers > 0, on_gpu != 0 && on_gpu < layers_of(file_));
      if (on_gpu <= fitting) return {};
      return fail(Code::kOutOfMemory, "{} layers do not fit", on_gpu);
    };
    return choose_device(file_, {.gpu_layers = gpu_layers, .cpu = {.threads = 1, .isa = ""}}, fits);
  }

  const gguf::Reader file_ = gguf::Reader::open(model_path("gemma3")).value();
};

TEST_F(GpuSplit, LogitsAreThoseOfTheProcessorAndGreedyTokensThePeers) {
  for (const char* name : {"llama", "llama-tied-llama3rope", "gemma3", "qwen3moe", "deepseek2"}) {
    SCOPED_TRACE(name);
    const Reference reference = reference_of(name);
    const auto file = gguf::Reader::open(model_path(name)).value();
    Model split(file, gpu(), reference.context, KvType::kF32, {&cpu(), layers_of(file) / 2});
    Model whole(file, cpu(), reference.context);
    const std::vector<TokenId>& tokens = reference.runs.front().tokens;
    EXPECT_LE(difference(logits_of(split, tokens, kStepRows), logits_of(whole, tokens, kStepRows)), kBoundF32);
    for (const Prompt& prompt : reference.runs) EXPECT_EQ(greedy(split, prompt), prompt.greedy);
  }
}

TEST_F(GpuSplit, ChunksDoNotChangeIt) {
  const Reference reference = reference_of("gemma3");
  const auto file = gguf::Reader::open(model_path("gemma3")).value();
  Model split(file, gpu(), reference.context, KvType::kF16, {&cpu(), 1});
  const KvLayout& layout = split.runner().kv_layout();
  for (const KvGroup& group : layout.groups) {
    const Backend& backend = group.device == kFirstLayersDevice ? cpu() : gpu();
    EXPECT_EQ(layout.type_of(group.layers.front()), backend.stored_kv_type(KvType::kF16));
  }
  const std::span<const TokenId> tokens = std::span(reference.runs.front().tokens).first(20);
  const std::vector<float> whole = logits_of(split, tokens, kStepRows);
  for (const size_t chunk : {size_t{1}, size_t{7}}) {
    EXPECT_TRUE(cpu::same_bits(whole, logits_of(split, tokens, chunk))) << "chunks of " << chunk;
  }
}

TEST_F(GpuSplit, AsManyLayersAsAskedFor) {
  const int32_t layers = layers_of(file_);
  ASSERT_EQ(layers, 7);
  for (int32_t wanted = 1; wanted <= layers + 1; ++wanted) {
    const auto device = choose(wanted, layers);
    ASSERT_TRUE(device.has_value()) << device.error().text();
    EXPECT_TRUE(device->gpu);
    EXPECT_EQ(device->first_layers, std::max(0, layers - wanted));
  }
  EXPECT_EQ(choose(layers, layers - 1).error().code, Code::kOutOfMemory) << "asked for, so not fewer";
}

TEST_F(GpuSplit, AsManyLayersAsFitIfNoneSaysHowMany) {
  const int32_t layers = layers_of(file_);
  for (int32_t fitting = 0; fitting <= layers; ++fitting) {
    const auto device = choose(kGpuLayersAuto, fitting);
    ASSERT_TRUE(device.has_value()) << device.error().text();
    EXPECT_EQ(device->gpu, fitting > 0);
    EXPECT_EQ(device->first_layers, fitting == 0 ? 0 : layers - fitting);
    EXPECT_EQ(device->first_backend != nullptr, fitting > 0 && fitting < layers);
  }
}

TEST_F(GpuSplit, AWholeModelWithItsEngine) {
  std::vector<std::string> texts;
  for (const int32_t gpu_layers : {0, 1}) {
    LoadOptions options;
    options.gpu_layers = gpu_layers;
    options.kv_type = KvType::kF32;
    options.kv_bytes = 1 << 20;
    options.threads = 1;
    const auto model = load_model_file(model_path("llama"), options);
    ASSERT_TRUE(model.has_value()) << model.error().text();
    EXPECT_EQ((*model)->first_backend != nullptr, gpu_layers == 1);
    for (int i = 0; i < 2; ++i) {  // the second time the prompt is in the cache, on both devices
      GenerateRequest request;
      for (int32_t token = 0; token < 40; ++token) request.prompt.push_back(TokenId{3 + token * 7 % 40});
      request.max_tokens = 4;
      request.ignore_eos = true;
      request.sampling.temperature = 0;
      auto stream = (*model)->engine->submit(std::move(request));
      ASSERT_TRUE(stream.has_value()) << stream.error().text();
      const Answer answer = collect(**stream);
      texts.push_back(answer.text);
      EXPECT_EQ(answer.finish.usage.cached_tokens > 0, i == 1);
    }
  }
  EXPECT_FALSE(texts.front().empty());
  EXPECT_THAT(texts, testing::Each(texts.front()));
}

}  // namespace
}  // namespace cairn::gpu
