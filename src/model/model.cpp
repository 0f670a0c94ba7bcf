#include "model/model.h"

#include <utility>

#include "base/check.h"
#include "base/machine.h"
#include "model/decoder.h"
#include "model/description.h"
#include "model/scratch.h"
#include "model/weights/binder.h"
#include "model/weights/decoder_weights.h"

namespace cairn {

namespace {

ModelMemoryPlan plan_of(const gguf::Reader& file, const DecoderDescription& description, const ModelOptions& options) {
  ModelMemoryPlan plan;
  for (const gguf::Tensor& tensor : file.tensors()) plan.weight_bytes += static_cast<int64_t>(tensor.bytes.size());
  // Logits are kept a second time in host memory.
  plan.scratch_bytes = Scratch::bytes(description, options.rows_max, options.logit_rows_max) +
                       options.logit_rows_max * description.vocabulary * static_cast<int64_t>(sizeof(float));
  std::vector<KvPlace> places;
  plan.kv_layout = kv_layout_of(description, options.kv_type, places);
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

}  // namespace

Result<ModelMemoryPlan> model_memory_plan(const gguf::Reader& file, const ModelOptions& options) {
  CAIRN_TRY(const DecoderDescription description, describe_decoder(file, options.context_tokens));
  return plan_of(file, description, options);
}

Result<std::unique_ptr<Runner>> load_model(const gguf::Reader& file, Backend& backend, const ModelOptions& options) {
  CAIRN_CHECK(options.rows_max > 0 && options.logit_rows_max > 0);
  CAIRN_TRY(DecoderDescription description, describe_decoder(file, options.context_tokens));
  CAIRN_TRY_VOID(check_memory(plan_of(file, description, options)));
  Binder binder(file, backend);
  CAIRN_TRY(DecoderWeights weights, load_decoder_weights(binder, description));
  for (const char* name : {"rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"}) {
    binder.mark_used(name);
  }
  binder.warn_of_unused();
  return Decoder::create(std::move(description), std::move(weights), backend, options);
}

}  // namespace cairn
