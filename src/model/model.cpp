#include "model/model.h"

#include <iterator>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/machine.h"
#include "kernels/backend.h"
#include "model/decoder.h"
#include "model/deepseek4/runner.h"
#include "model/description.h"
#include "model/embedder.h"
#include "model/encoder.h"
#include "model/latent_attention.h"
#include "model/scratch.h"
#include "model/weights/binder.h"
#include "model/weights/decoder_weights.h"
#include "model/weights/encoder_weights.h"

namespace cairn {

namespace {

// Of the memory there is, the most that weights take when a copy of them is larger than the file.
constexpr double kLargerCopiesShare = 0.75;

int64_t weight_bytes(const gguf::Reader& file, const Backend& backend, bool in_place) {
  int64_t bytes = 0;
  for (const gguf::Tensor& tensor : file.tensors()) {
    HostMatrix matrix;
    matrix.type = tensor.type;
    matrix.in_place = in_place;
    int64_t* const dimensions[] = {&matrix.cols, &matrix.rows, &matrix.experts};
    const size_t count = tensor.shape.size();
    if (count < 2 || count > std::size(dimensions) || !backend.supports(tensor.type)) {
      bytes += static_cast<int64_t>(tensor.bytes.size());
      continue;
    }
    for (size_t i = 0; i < count; ++i) *dimensions[i] = tensor.shape[i];
    bytes += backend.load_bytes(matrix);
  }
  return bytes;
}

void plan_weights(const gguf::Reader& file, const Backend& backend, const ModelOptions& options,
                  ModelMemoryPlan& plan) {
  plan.weight_bytes = weight_bytes(file, backend, false);
  const int64_t least = weight_bytes(file, backend, true);
  const double room = kLargerCopiesShare * static_cast<double>(available_memory_bytes());
  if (plan.weight_bytes > least && (options.weights_in_place || static_cast<double>(plan.weight_bytes) > room)) {
    plan.weights_in_place = true;
    plan.weight_bytes = least;
  }
}

ModelMemoryPlan plan_of(const gguf::Reader& file, const Backend& backend, const DecoderDescription& description,
                        const ModelOptions& options) {
  ModelMemoryPlan plan;
  plan_weights(file, backend, options, plan);
  // Logits and hidden rows are kept a second time in host memory.
  const int64_t host_values =
      options.logit_rows_max * description.vocabulary + options.rows_max * description.embedding;
  plan.scratch_bytes = Scratch::bytes(description, options.rows_max, options.logit_rows_max) +
                       host_values * static_cast<int64_t>(sizeof(float));
  if (description.latent) plan.scratch_bytes += LatentAttention::bytes(description, options.rows_max);
  std::vector<KvPlace> places;
  plan.kv_layout = kv_layout_of(description, options.kv_type, places);
  plan.context_tokens = description.context_tokens;
  return plan;
}

ModelMemoryPlan plan_of(const gguf::Reader& file, const Backend& backend, const EncoderDescription& description,
                        const ModelOptions& options) {
  ModelMemoryPlan plan;
  plan_weights(file, backend, options, plan);
  plan.scratch_bytes = Encoder::bytes(description, options.rows_max);
  plan.context_tokens = description.context_tokens;
  return plan;
}

ModelMemoryPlan plan_of(const gguf::Reader& file, const Backend& backend,
                        const deepseek4::ModelDescription& description, const ModelOptions& options) {
  ModelMemoryPlan plan;
  plan_weights(file, backend, options, plan);
  const int64_t host_values = options.logit_rows_max * description.vocabulary;
  plan.scratch_bytes =
      deepseek4::ModelRunner::bytes(description, options) + host_values * static_cast<int64_t>(sizeof(float));
  std::vector<deepseek4::LayerPlaces> places;
  plan.kv_layout = deepseek4::kv_layout_of(description, options.kv_type, places);
  plan.context_tokens = description.context_tokens;
  return plan;
}

Result<void> check_memory(const ModelMemoryPlan& plan) {
  const int64_t page = plan.kv_layout.token_bytes() * kPageTokens;
  const int64_t needed = plan.weight_bytes + plan.scratch_bytes + page;
  const int64_t available = available_memory_bytes();
  if (needed <= available) return {};
  constexpr int64_t kMiB = 1 << 20;
  return fail(Code::kOutOfMemory,
              "the model needs {} MiB (weights {}, scratch {}, a page of KV {}), but {} MiB are available",
              needed / kMiB, plan.weight_bytes / kMiB, plan.scratch_bytes / kMiB, page / kMiB, available / kMiB);
}

void warn_of_weights_in_place(const ModelMemoryPlan& plan) {
  if (!plan.weights_in_place) return;
  log_warning("memory: no room to unpack weights of two and three bits for speed: they are used as the file has them");
}

void save_copies(const ModelOptions& options) {
  if (options.pack_cache == nullptr) return;
  if (const auto saved = options.pack_cache->save(); !saved) log_warning("pack cache: {}", saved.error().text());
}

Result<std::unique_ptr<Runner>> load_deepseek4(const gguf::Reader& file, Backend& backend,
                                               const ModelOptions& options) {
  CAIRN_TRY(deepseek4::ModelDescription description, deepseek4::describe(file, options.context_tokens));
  const ModelMemoryPlan plan = plan_of(file, backend, description, options);
  CAIRN_TRY_VOID(check_memory(plan));
  warn_of_weights_in_place(plan);
  Binder binder(file, backend, {.in_place = plan.weights_in_place, .pack_cache = options.pack_cache});
  CAIRN_TRY(deepseek4::ModelWeights weights, deepseek4::load_weights(binder, file, description));
  binder.warn_of_unused();
  save_copies(options);
  return deepseek4::ModelRunner::create(std::move(description), std::move(weights), backend, options);
}

}  // namespace

Result<ModelMemoryPlan> model_memory_plan(const gguf::Reader& file, const Backend& backend,
                                          const ModelOptions& options) {
  if (is_encoder(file)) {
    CAIRN_TRY(const EncoderDescription description, describe_encoder(file, options.context_tokens));
    return plan_of(file, backend, description, options);
  }
  if (deepseek4::is_deepseek4(file)) {
    CAIRN_TRY(const deepseek4::ModelDescription description, deepseek4::describe(file, options.context_tokens));
    return plan_of(file, backend, description, options);
  }
  CAIRN_TRY(const DecoderDescription description, describe_decoder(file, options.context_tokens));
  return plan_of(file, backend, description, options);
}

Result<std::unique_ptr<Runner>> load_model(const gguf::Reader& file, Backend& backend, const ModelOptions& options) {
  CAIRN_CHECK(options.rows_max > 0 && options.logit_rows_max > 0);
  if (deepseek4::is_deepseek4(file)) return load_deepseek4(file, backend, options);
  CAIRN_TRY(DecoderDescription description, describe_decoder(file, options.context_tokens));
  const ModelMemoryPlan plan = plan_of(file, backend, description, options);
  CAIRN_TRY_VOID(check_memory(plan));
  warn_of_weights_in_place(plan);
  Binder binder(file, backend, {.in_place = plan.weights_in_place, .pack_cache = options.pack_cache});
  CAIRN_TRY(DecoderWeights weights, load_decoder_weights(binder, description));
  for (const char* name : {"rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"}) {
    binder.mark_used(name);
  }
  binder.warn_of_unused();
  save_copies(options);
  return Decoder::create(std::move(description), std::move(weights), backend, options);
}

Result<std::unique_ptr<Embedder>> load_embedder(const gguf::Reader& file, Backend& backend,
                                                const ModelOptions& options) {
  CAIRN_CHECK(options.rows_max > 0);
  CAIRN_TRY(EncoderDescription description, describe_encoder(file, options.context_tokens));
  const ModelMemoryPlan plan = plan_of(file, backend, description, options);
  CAIRN_TRY_VOID(check_memory(plan));
  warn_of_weights_in_place(plan);
  Binder binder(file, backend, {.in_place = plan.weights_in_place, .pack_cache = options.pack_cache});
  CAIRN_TRY(EncoderWeights weights, load_encoder_weights(binder, backend, description));
  binder.warn_of_unused();
  save_copies(options);
  return Encoder::create(std::move(description), std::move(weights), backend, options.rows_max);
}

}  // namespace cairn
