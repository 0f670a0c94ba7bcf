#include "model/model.h"

#include <fmt/format.h>

#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "kernels/backend.h"
#include "model/decoder.h"
#include "model/deepseek4/predictor_weights.h"
#include "model/deepseek4/runner.h"
#include "model/description.h"
#include "model/embedder.h"
#include "model/encoder.h"
#include "model/latent_attention.h"
#include "model/pipeline.h"
#include "model/weights/binder.h"
#include "model/weights/decoder_weights.h"
#include "model/weights/encoder_weights.h"

namespace cairn {

namespace {

// Of the memory there is, the most that weights take when a copy of them is larger than the file.
constexpr double kLargerCopiesShare = 0.75;

int64_t available_bytes(const Backend& backend, const ModelOptions& options) {
  return options.available_bytes > 0 ? options.available_bytes : backend.available_bytes();
}

int64_t direction_bytes(const ModelOptions& options, size_t layers, int64_t embedding) {
  if (options.directions.file.empty()) return 0;
  return static_cast<int64_t>(layers) * embedding * static_cast<int64_t>(sizeof(float));
}

/// `load` binds all weights of the model.
template <class Load>
Result<void> plan_weights(const gguf::Reader& file, Backend& backend, const ModelOptions& options, Load load,
                          PartMemoryPlan& plan) {
  const auto count = [&](bool in_place) -> Result<int64_t> {
    Binder binder(file, backend, {.in_place = in_place, .counts_only = true});
    CAIRN_TRY_VOID(load(binder));
    return binder.bytes();
  };
  CAIRN_TRY(plan.weight_bytes, count(false));
  CAIRN_TRY(const int64_t least, count(true));
  const double room = kLargerCopiesShare * static_cast<double>(available_bytes(backend, options));
  if (plan.weight_bytes > least && (options.weights_in_place || static_cast<double>(plan.weight_bytes) > room)) {
    plan.weights_in_place = true;
    plan.weight_bytes = least;
  }
  return {};
}

// Before a large file is read for nothing.
Result<void> check_operations(Backend& backend, bool latent, bool streams) {
  const bool there = (!latent || backend.latent() != nullptr) &&
                     (!streams || (backend.streams() != nullptr && backend.compressor() != nullptr));
  if (there) return {};
  return fail(Code::kUnsupported,
              "{} has no {}, which this model needs; models like it run on the CPU (--gpu-layers 0)",
              backend.description(), streams ? "mixed streams and compressed rows" : "attention over latent rows");
}

Result<void> check_parts(const DecoderDescription& description, const ModelOptions& options) {
  if (std::ssize(options.earlier) > kEarlierPartsMax) {
    return fail(Code::kInvalidArgument, "the model is to be on {} devices, which is more than {}",
                options.earlier.size() + 1, kEarlierPartsMax + 1);
  }
  int64_t layers = 0;
  bool empty = false;
  for (const LayerPart& part : options.earlier) {
    layers += part.layers;
    empty = empty || part.layers < 1;
  }
  if (!empty && layers < std::ssize(description.layers)) return {};
  return fail(Code::kInvalidArgument, "{} layers are to be on other devices, but the model has {}{}", layers,
              description.layers.size(), empty ? ", and each device has one at least" : "");
}

// Other models than decoders are on one backend as a whole.
Result<void> check_is_whole(const ModelOptions& options, std::string_view what) {
  if (options.earlier.empty()) return {};
  return fail(Code::kUnsupported, "{} cannot be split between devices; use --gpu-layers all, auto or 0", what);
}

/// The layers of part `part` of options.earlier, or of the model's own after them.
LayerRange range_of(const DecoderDescription& description, const ModelOptions& options, size_t part) {
  LayerRange range;
  for (size_t i = 0; i < part; ++i) range.begin += options.earlier[i].layers;
  const bool own = part == options.earlier.size();
  range.end = own ? static_cast<int32_t>(description.layers.size()) : range.begin + options.earlier[part].layers;
  return range;
}

Result<void> plan_part(const gguf::Reader& file, Backend& backend, const DecoderDescription& description,
                       const ModelOptions& options, LayerRange range, PartMemoryPlan& plan) {
  CAIRN_TRY_VOID(check_operations(backend, description.latent.has_value(), false));
  const auto load = [&](Binder& binder) { return load_decoder_weights(binder, description, range); };
  CAIRN_TRY_VOID(plan_weights(file, backend, options, load, plan));
  plan.weight_bytes += direction_bytes(options, description.layers.size(), description.embedding);
  plan.scratch_bytes = Decoder::bytes(description, backend, options, range);
  return {};
}

/// Options of the parts on other backends, which have memory of their own.
ModelOptions earlier_options(const ModelOptions& options) {
  ModelOptions earlier = options;
  earlier.available_bytes = 0;
  earlier.pack_cache = nullptr;
  return earlier;
}

Result<ModelMemoryPlan> plan_of(const gguf::Reader& file, Backend& backend, const DecoderDescription& description,
                                const ModelOptions& options) {
  CAIRN_TRY_VOID(check_parts(description, options));
  const size_t parts = options.earlier.size();
  ModelMemoryPlan plan;
  CAIRN_TRY_VOID(plan_part(file, backend, description, options, range_of(description, options, parts), plan));
  for (size_t part = 0; part < parts; ++part) {
    CAIRN_TRY_VOID(plan_part(file, *options.earlier[part].backend, description, earlier_options(options),
                             range_of(description, options, part), plan.earlier.emplace_back()));
  }
  // The pipeline's rows, although in the machine's memory wherever the first part is.
  if (parts > 0) {
    plan.earlier.front().scratch_bytes +=
        options.rows_max * description.embedding * static_cast<int64_t>(sizeof(float));
  }
  plan.kv_layout = kv_plan_of(description, backend, options).layout;
  plan.context_tokens = description.context_tokens;
  return plan;
}

Result<ModelMemoryPlan> plan_of(const gguf::Reader& file, Backend& backend, const EncoderDescription& description,
                                const ModelOptions& options) {
  CAIRN_TRY_VOID(check_is_whole(options, "an encoder"));
  ModelMemoryPlan plan;
  const auto load = [&](Binder& binder) { return load_encoder_weights(binder, backend, description); };
  CAIRN_TRY_VOID(plan_weights(file, backend, options, load, plan));
  plan.scratch_bytes = Encoder::bytes(description, backend, options.rows_max);
  plan.context_tokens = description.context_tokens;
  return plan;
}

Result<ModelMemoryPlan> plan_of(const gguf::Reader& file, Backend& backend,
                                const deepseek4::ModelDescription& description, const ModelOptions& options) {
  CAIRN_TRY_VOID(check_is_whole(options, "DeepSeek V4"));
  CAIRN_TRY_VOID(check_operations(backend, true, true));
  ModelMemoryPlan plan;
  const auto load = [&](Binder& binder) {
    return deepseek4::load_weights(binder, file, description, options.predictor);
  };
  CAIRN_TRY_VOID(plan_weights(file, backend, options, load, plan));
  plan.weight_bytes += direction_bytes(options, description.main_layers(), description.embedding);
  plan.scratch_bytes = deepseek4::ModelRunner::bytes(description, backend, options);
  std::vector<deepseek4::LayerPlaces> places;
  plan.kv_layout = deepseek4::kv_layout_of(description, options.kv_type, places);
  plan.context_tokens = description.context_tokens;
  return plan;
}

Result<void> check_memory(const PartMemoryPlan& plan, int64_t page, const Backend& backend,
                          const ModelOptions& options) {
  const int64_t needed = plan.weight_bytes + plan.scratch_bytes + page;
  const int64_t available = available_bytes(backend, options);
  if (needed <= available) return {};
  constexpr int64_t kMiB = 1 << 20;
  return fail(Code::kOutOfMemory,
              "the model needs {} MiB (weights {}, scratch {}, a page of KV {}), but {} MiB are available",
              needed / kMiB, plan.weight_bytes / kMiB, plan.scratch_bytes / kMiB, page / kMiB, available / kMiB);
}

/// Of one part, whose pages of KV are on `device`.
Result<Binder> begin_loading(const gguf::Reader& file, Backend& backend, const PartMemoryPlan& plan,
                             const KvLayout& kv_layout, int32_t device, const ModelOptions& options) {
  CAIRN_TRY_VOID(check_memory(plan, kv_layout.token_bytes(device) * kPageTokens, backend, options));
  if (plan.weights_in_place) {
    log_warning(
        "memory: no room to keep weights of two and three bits unpacked: they are unpacked for each product, which is "
        "slower");
  }
  return Binder(file, backend, {.in_place = plan.weights_in_place, .pack_cache = options.pack_cache});
}

// The frequencies of LongRoPE are chosen once, for all texts: cached keys are rotated already. transformers changes
// from the short factors to the long ones when a text outgrows the original context, and computes all of it again.
void tell_rope_factors(const DecoderDescription& description) {
  for (const RopeDescription& rope : description.ropes) {
    if (rope.short_context == 0) continue;
    const bool is_long = description.context_tokens > rope.short_context;
    log_info("LongRoPE: positions turn by the {} factors in texts of any length, by the context of {} tokens{}",
             is_long ? "long" : "short", description.context_tokens,
             is_long ? fmt::format("; --ctx {} or less takes the short ones", rope.short_context) : "");
  }
}

void end_loading(const Binder& binder, const ModelOptions& options) {
  binder.warn_of_unused();
  if (options.pack_cache == nullptr) return;
  if (const auto saved = options.pack_cache->save(); !saved) log_warning("pack cache: {}", saved.error().text());
}

/// Part `part` of options.earlier. `last_binder` will not warn of what it uses.
Result<std::unique_ptr<Decoder>> load_part(const gguf::Reader& file, const DecoderDescription& description,
                                           const ModelMemoryPlan& plan, const KvPlan& kv,
                                           const ModelOptions& all_options, size_t part, Binder& last_binder) {
  const ModelOptions options = earlier_options(all_options);
  Backend& backend = *options.earlier[part].backend;
  CAIRN_TRY(Binder binder, begin_loading(file, backend, plan.earlier[part], kv.layout, device_of_part(part), options));
  const LayerRange range = range_of(description, options, part);
  CAIRN_TRY(DecoderWeights weights, load_decoder_weights(binder, description, range));
  last_binder.mark_used(binder);
  return Decoder::create(description, std::move(weights), backend, options, range, kv);
}

Result<deepseek4::ModelDescription> describe_deepseek4(const gguf::Reader& file, const ModelOptions& options) {
  CAIRN_TRY(deepseek4::ModelDescription description, deepseek4::describe(file, options.context_tokens));
  deepseek4::describe_predictor(file, options, description);
  return description;
}

// A block that guesses ahead, given on its own, is no use to other architectures.
Result<void> check_predictor(const gguf::Reader& file, const ModelOptions& options) {
  if (options.predictor == nullptr || deepseek4::is_deepseek4(file)) return {};
  CAIRN_TRY(const std::string_view name, file.metadata().string("general.architecture"));
  return fail(Code::kInvalidArgument,
              "the draft file is a block of DeepSeek V4 that guesses ahead, but the model's architecture is \"{}\"",
              name);
}

Result<std::unique_ptr<Runner>> load_deepseek4(const gguf::Reader& file, Backend& backend,
                                               const ModelOptions& options) {
  CAIRN_TRY(deepseek4::ModelDescription description, describe_deepseek4(file, options));
  CAIRN_TRY(const ModelMemoryPlan plan, plan_of(file, backend, description, options));
  CAIRN_TRY(Binder binder, begin_loading(file, backend, plan, plan.kv_layout, 0, options));
  CAIRN_TRY(deepseek4::ModelWeights weights, deepseek4::load_weights(binder, file, description, options.predictor));
  end_loading(binder, options);
  return deepseek4::ModelRunner::create(std::move(description), std::move(weights), backend, options);
}

}  // namespace

bool is_predictor(const gguf::Reader& file) { return deepseek4::is_predictor(file); }

Result<ModelMemoryPlan> model_memory_plan(const gguf::Reader& file, Backend& backend, const ModelOptions& options) {
  CAIRN_TRY_VOID(check_predictor(file, options));
  if (is_encoder(file)) {
    CAIRN_TRY(const EncoderDescription description, describe_encoder(file, options.context_tokens));
    return plan_of(file, backend, description, options);
  }
  if (deepseek4::is_deepseek4(file)) {
    CAIRN_TRY(const deepseek4::ModelDescription description, describe_deepseek4(file, options));
    return plan_of(file, backend, description, options);
  }
  CAIRN_TRY(const DecoderDescription description, describe_decoder(file, options.context_tokens));
  return plan_of(file, backend, description, options);
}

Result<std::unique_ptr<Runner>> load_model(const gguf::Reader& file, Backend& backend, const ModelOptions& options) {
  CAIRN_CHECK(options.rows_max > 0 && options.logit_rows_max > 0);
  CAIRN_TRY_VOID(check_predictor(file, options));
  if (deepseek4::is_deepseek4(file)) return load_deepseek4(file, backend, options);
  CAIRN_TRY(DecoderDescription description, describe_decoder(file, options.context_tokens));
  CAIRN_TRY(const ModelMemoryPlan plan, plan_of(file, backend, description, options));
  CAIRN_TRY(Binder binder, begin_loading(file, backend, plan, plan.kv_layout, 0, options));
  KvPlan kv = kv_plan_of(description, backend, options);
  std::vector<std::unique_ptr<Decoder>> earlier;
  for (size_t part = 0; part < options.earlier.size(); ++part) {
    CAIRN_TRY(earlier.emplace_back(), load_part(file, description, plan, kv, options, part, binder));
  }
  const LayerRange range = range_of(description, options, options.earlier.size());
  CAIRN_TRY(DecoderWeights weights, load_decoder_weights(binder, description, range));
  for (const char* name : {"rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"}) {
    binder.mark_used(name);
  }
  end_loading(binder, options);
  tell_rope_factors(description);
  if (const auto& keys = description.unread_keys; !keys.empty()) {
    log_warning("{} keys of the file are not used: {}", keys.size(), fmt::join(keys, ", "));
  }
  const int64_t embedding = description.embedding;
  CAIRN_TRY(auto decoder,
            Decoder::create(std::move(description), std::move(weights), backend, options, range, std::move(kv)));
  if (earlier.empty()) return decoder;
  return std::make_unique<Pipeline>(std::move(earlier), std::move(decoder), embedding);
}

Result<std::unique_ptr<Embedder>> load_embedder(const gguf::Reader& file, Backend& backend,
                                                const ModelOptions& options) {
  CAIRN_CHECK(options.rows_max > 0);
  if (!options.directions.file.empty()) {
    return fail(Code::kUnsupported, "{} cannot be used: only models that write text are steered",
                options.directions.file);
  }
  CAIRN_TRY(EncoderDescription description, describe_encoder(file, options.context_tokens));
  CAIRN_TRY(const ModelMemoryPlan plan, plan_of(file, backend, description, options));
  CAIRN_TRY(Binder binder, begin_loading(file, backend, plan, plan.kv_layout, 0, options));
  CAIRN_TRY(EncoderWeights weights, load_encoder_weights(binder, backend, description));
  end_loading(binder, options);
  if (description.labels > 0 && !description.label_dense) {
    log_warning(
        "the head that ranks has no layer of its own (cls.weight): converters leave out the pooler of "
        "BertForSequenceClassification, and without it scores are not the model's; files of RoBERTa's kind are whole");
  }
  return Encoder::create(std::move(description), std::move(weights), backend, options.rows_max);
}

}  // namespace cairn
