#include "model/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/system/machine.h"
#include "kernels/backend.h"
#include "model/arch/table.h"
#include "model/config.h"
#include "model/decoder/assistant.h"
#include "model/decoder/decoder.h"
#include "model/decoder/decoder_weights.h"
#include "model/decoder/dspark_weights.h"
#include "model/decoder/mtp_weights.h"
#include "model/embedder.h"
#include "model/encoder/encoder.h"
#include "model/encoder/encoder_weights.h"
#include "model/pipeline.h"
#include "model/weights/weight_loader.h"

namespace cairn::model {

namespace {

// The most that weights take of the memory there is when a copy of them is larger than the file.
constexpr double kLargerCopiesShare = 0.75;

int64_t available_bytes(const kernels::Backend& backend, const ModelOptions& options) {
  return options.available_bytes > 0 ? options.available_bytes : backend.available_bytes();
}

int64_t control_vector_bytes(const ModelOptions& options, size_t layers, int64_t embedding) {
  if (options.control_vectors.file.empty()) return 0;
  return static_cast<int64_t>(layers) * embedding * static_cast<int64_t>(sizeof(float));
}

/// `load` binds all weights of the model.
template <class Load>
Result<void> plan_weights(const gguf::Reader& file, kernels::Backend& backend, const ModelOptions& options, Load load,
                          StageMemory& plan, int64_t experts_used = 1) {
  const auto count = [&](bool in_place) -> Result<int64_t> {
    WeightLoader loader(file, backend,
                        {.in_place = in_place,
                         .counts_only = true,
                         .adapters = options.adapters,
                         .adapter_rows = options.batch_tokens_max,
                         .experts_used = experts_used});
    CAIRN_TRY_VOID(load(loader));
    return loader.bytes();
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

std::unexpected<Error> lacks(const kernels::Backend& backend, std::string_view what) {
  return fail(Code::kUnsupported,
              "{} has no {}, which this model needs; models like it run on the CPU (--gpu-layers 0)",
              backend.description(), what);
}

// It is told before a large file is read for nothing.
Result<void> check_operations(kernels::Backend& backend, const DecoderConfig& config) {
  if (config.recurrent && backend.recurrent() == nullptr) return lacks(backend, "recurrent layers");
  if (config.mla && backend.mla() == nullptr) return lacks(backend, "attention over latent rows");
  if (!config.compressed) return {};
  if (backend.mla() == nullptr || backend.hyper_connections() == nullptr || backend.compressor() == nullptr) {
    return lacks(backend, "mixed streams and compressed rows");
  }
  if (config.compressed->is_v41 && backend.deepseek41() == nullptr) {
    return lacks(backend, "engrams and no choice among candidate rows");
  }
  return {};
}

Result<void> check_stages(const DecoderConfig& config, std::span<const PipelineStage> stages) {
  if (std::ssize(stages) > kStagesMax) {
    return fail(Code::kInvalidArgument, "the model is to be on {} devices, which is more than {}", stages.size(),
                kStagesMax);
  }
  int64_t layers = 0;
  bool empty = false;
  for (const PipelineStage& stage : stages.first(stages.size() - 1)) {
    layers += stage.layers;
    empty = empty || stage.layers < 1;
  }
  if (!empty && layers < std::ssize(config.layers)) return {};
  return fail(Code::kInvalidArgument, "{} layers are to be on other devices, but the model has {}{}", layers,
              config.layers.size(), empty ? ", and each device has one at least" : "");
}

// Positions that an indexer has chosen are read where they are, in the step of one device.
Result<void> check_shared_choices(const DecoderConfig& config, std::span<const PipelineStage> stages) {
  if (!config.mla || !config.mla->indexer) return {};
  int32_t begin = 0;
  for (const PipelineStage& stage : stages.first(stages.size() - 1)) {
    begin += stage.layers;
    if (config.layers[begin].indexer) continue;
    int32_t last = begin;
    while (last > 0 && !config.layers[last].indexer) --last;
    return fail(Code::kInvalidArgument,
                "layer {} is to be the first on a device, but it reads the positions that layer {} chooses, and must "
                "be on the same one (--gpu-layers)",
                begin, last);
  }
  return {};
}

// Compressed rows are read where they are, and candidates in the step of one device.
Result<void> check_shared_rows(const DecoderConfig& config, std::span<const PipelineStage> stages) {
  int32_t begin = 0;
  for (const PipelineStage& stage : stages.first(stages.size() - 1)) {
    begin += stage.layers;
    for (size_t layer = begin; layer < config.layers.size(); ++layer) {
      const int32_t rows_of = config.layers[layer].compressed.rows_of;
      if (rows_of < 0 || rows_of >= begin) continue;
      return fail(
          Code::kInvalidArgument,
          "layer {} is to be the first on a device, but layer {} reads the compressed rows of layer {}, and must "
          "be on the same one (--gpu-layers)",
          begin, layer, rows_of);
    }
  }
  return {};
}

// Pages are read where they are.
Result<void> check_shared_kv(const DecoderConfig& config, std::span<const PipelineStage> stages) {
  int32_t last_begin = 0;
  for (const PipelineStage& stage : stages.first(stages.size() - 1)) last_begin += stage.layers;
  for (const LayerConfig& layer : config.layers) {
    if (layer.kv_layer == kOwnKv || layer.kv_layer >= last_begin) continue;
    return fail(
        Code::kInvalidArgument,
        "the last {} layers are to be on a device of their own, but at least {} must be: some of them read keys "
        "and values of layer {} (--gpu-layers)",
        std::ssize(config.layers) - last_begin, std::ssize(config.layers) - layer.kv_layer, layer.kv_layer);
  }
  return {};
}

int64_t experts_used_of(const DecoderConfig& config) { return config.experts ? config.most_experts().route.used : 1; }
int64_t experts_used_of(const EncoderConfig& config) { return config.experts ? config.experts->route.used : 1; }

/// Options of an encoder's weights: layers over pooled rows may have more of these than a chunk has rows.
ModelOptions encoder_weight_options(ModelOptions options) {
  options.batch_tokens_max = Encoder::product_rows(options.batch_tokens_max);
  return options;
}

LayerRange range_of(const DecoderConfig& config, std::span<const PipelineStage> stages, size_t stage) {
  LayerRange range;
  for (size_t i = 0; i < stage; ++i) range.begin += stages[i].layers;
  const bool last = stage + 1 == stages.size();
  range.end = last ? static_cast<int32_t>(config.layers.size()) : range.begin + stages[stage].layers;
  return range;
}

/// The config of one stage: an MTP module works on the device of the last layer.
DecoderConfig config_of(const DecoderConfig& config, LayerRange range) {
  DecoderConfig own = config;
  if (range.is_last(config)) return own;
  own.mtp_layer.reset();
  own.dspark.reset();
  own.keeps_rows = false;
  return own;
}

/// The options of one stage: the memory that there is and the pack cache are for the last.
ModelOptions options_of(const ModelOptions& options, std::span<const PipelineStage> stages, size_t stage) {
  ModelOptions own = options;
  if (stage + 1 == stages.size()) return own;
  own.available_bytes = 0;
  own.pack_cache = nullptr;
  return own;
}

/// The file that has the layers which draft, if it is not the model's.
const gguf::Reader* drafting_file(const ModelOptions& options) {
  return options.mtp_file == nullptr || is_assistant_file(*options.mtp_file) ? nullptr : options.mtp_file;
}

Result<StageMemory> memory_of_stage(const gguf::Reader& file, kernels::Backend& backend, const DecoderConfig& config,
                                    const ModelOptions& options, LayerRange range) {
  CAIRN_TRY_VOID(check_operations(backend, config));
  StageMemory memory;
  const auto load = [&](WeightLoader& loader) {
    return load_decoder_weights(loader, config, range, drafting_file(options));
  };
  CAIRN_TRY_VOID(plan_weights(file, backend, options, load, memory, experts_used_of(config)));
  memory.weight_bytes += control_vector_bytes(options, config.layers.size(), config.embedding);
  for (const int32_t layer : config.engram.layers) {
    if (layer < range.begin || layer >= range.end) continue;
    memory.file_table_bytes += std::ssize(file.find_tensor(fmt::format("blk.{}.engram_embd.weight", layer))->bytes);
  }
  memory.scratch_bytes = Decoder::bytes(config, backend, options, range);
  return memory;
}

Result<void> add_assistant(const gguf::Reader& file, kernels::Backend& backend, const DecoderConfig& model,
                           const ModelOptions& options, StageMemory& stage) {
  CAIRN_TRY(const DecoderConfig config, read_assistant_config(file, model));
  WeightLoader loader(file, backend, {.in_place = stage.weights_in_place, .counts_only = true});
  CAIRN_TRY_VOID(load_assistant_weights(loader, config, model));
  stage.weight_bytes += loader.bytes();
  stage.scratch_bytes += assistant_bytes(config, model, backend, options);
  return {};
}

Result<ModelMemory> memory_of(const gguf::Reader& file, std::span<const PipelineStage> stages,
                              const DecoderConfig& config, const ModelOptions& options) {
  CAIRN_TRY_VOID(check_stages(config, stages));
  CAIRN_TRY_VOID(check_shared_choices(config, stages));
  CAIRN_TRY_VOID(check_shared_rows(config, stages));
  CAIRN_TRY_VOID(check_shared_kv(config, stages));
  ModelMemory memory;
  for (size_t i = 0; i < stages.size(); ++i) {
    const LayerRange range = range_of(config, stages, i);
    CAIRN_TRY(memory.stages.emplace_back(), memory_of_stage(file, *stages[i].backend, config_of(config, range),
                                                            options_of(options, stages, i), range));
  }
  // The pipeline's rows, although in the machine's memory wherever the first stage is.
  if (stages.size() > 1) {
    memory.stages.front().scratch_bytes += options.batch_tokens_max * config.residual.saved_elements(config.embedding) *
                                           static_cast<int64_t>(sizeof(float));
  }
  if (options.mtp_file != nullptr && drafting_file(options) == nullptr) {
    CAIRN_TRY_VOID(add_assistant(*options.mtp_file, *stages.back().backend, config, options, memory.stages.back()));
  }
  memory.kv_layout = kv_plan_of(config, stages, options).layout;
  memory.context_tokens = config.context_tokens;
  return memory;
}

Result<ModelMemory> memory_of(const gguf::Reader& file, std::span<const PipelineStage> stages,
                              const EncoderConfig& config, const ModelOptions& options) {
  if (stages.size() > 1) {
    return fail(Code::kUnsupported, "an encoder cannot be split between devices; use --gpu-layers all, auto or 0");
  }
  kernels::Backend& backend = *stages[0].backend;
  ModelMemory memory;
  StageMemory& stage = memory.stages.emplace_back();
  const auto load = [&](WeightLoader& loader) { return load_encoder_weights(loader, backend, config); };
  CAIRN_TRY_VOID(plan_weights(file, backend, encoder_weight_options(options), load, stage, experts_used_of(config)));
  stage.scratch_bytes = Encoder::bytes(config, backend, options.batch_tokens_max);
  memory.context_tokens = config.context_tokens;
  return memory;
}

Result<void> check_memory(const StageMemory& plan, int64_t page, const kernels::Backend& backend,
                          const ModelOptions& options) {
  const int64_t needed = plan.weight_bytes + plan.scratch_bytes + page;
  const int64_t available = available_bytes(backend, options);
  if (needed <= available) return {};
  constexpr int64_t kMiB = 1 << 20;
  return fail(Code::kOutOfMemory,
              "the model needs {} MiB (weights {}, scratch {}, a page of KV {}), but {} MiB are available",
              needed / kMiB, plan.weight_bytes / kMiB, plan.scratch_bytes / kMiB, page / kMiB, available / kMiB);
}

/// Begins with one stage.
Result<WeightLoader> begin_loading(const gguf::Reader& file, kernels::Backend& backend, const ModelMemory& memory,
                                   size_t stage, const ModelOptions& options, int64_t experts_used = 1) {
  const StageMemory& plan = memory.stages[stage];
  const int64_t page = memory.kv_layout.token_bytes(static_cast<int32_t>(stage)) * kernels::kPageTokens;
  CAIRN_TRY_VOID(check_memory(plan, page, backend, options));
  if (plan.weights_in_place) {
    log_warning(
        "memory: no room to keep weights of two and three bits unpacked: they are unpacked for each product, which is "
        "slower");
  }
  // Pages of a larger file could push each other out, or what other programs have in memory.
  const bool fits = file.file_bytes() <= available_memory_bytes() / 2;
  return WeightLoader(file, backend,
                      {.in_place = plan.weights_in_place,
                       .warm = options.warm_weights && fits,
                       .pack_cache = options.pack_cache,
                       .loaded_bytes = options.loaded_bytes,
                       .weight_names = options.weight_names,
                       .adapters = options.adapters,
                       .adapter_rows = options.batch_tokens_max,
                       .experts_used = experts_used});
}

// The frequencies of LongRoPE are chosen once, for all texts: cached keys are rotated already. transformers changes
// from the short factors to the long ones when a text outgrows the original context, and computes all of it again.
void tell_rope_factors(const DecoderConfig& config) {
  for (const RopeConfig& rope : config.ropes) {
    if (rope.short_context == 0) continue;
    const bool is_long = config.context_tokens > rope.short_context;
    log_info("LongRoPE: positions turn by the {} factors in texts of any length, by the context of {} tokens{}",
             is_long ? "long" : "short", config.context_tokens,
             is_long ? fmt::format("; --ctx {} or less takes the short ones", rope.short_context) : "");
  }
}

// Their tensors have a use, even if none in this run.
void tell_mtp_layers(const gguf::Reader& file, const DecoderConfig& config, WeightLoader& loader) {
  if (config.mtp_layers == 0) return;
  const size_t end = config.layers.size() + config.mtp_layers;
  for (size_t layer = config.layers.size(); layer < end; ++layer) {
    const std::string prefix = fmt::format("blk.{}.", layer);
    for (const gguf::Tensor& tensor : file.tensors()) {
      if (tensor.name.starts_with(prefix)) loader.mark_used(tensor.name);
    }
  }
  if (!config.mtp_layer) log_info("MTP layers are not read: blk.{} to blk.{}", config.layers.size(), end - 1);
}

void tell_unread_keys(const std::vector<std::string>& keys) {
  if (!keys.empty()) log_warning("{} keys of the file are not used: {}", keys.size(), fmt::join(keys, ", "));
}

void end_loading(const WeightLoader& loader, const ModelOptions& options) {
  loader.warn_of_unused();
  if (options.pack_cache == nullptr) return;
  if (const auto saved = options.pack_cache->save(); !saved) log_warning("pack cache: {}", saved.error().text());
}

/// A stage before the last. `last_loader` will not warn of what it uses.
Result<std::unique_ptr<Decoder>> load_stage(const gguf::Reader& file, const DecoderConfig& config,
                                            std::span<const PipelineStage> stages, const ModelMemory& memory,
                                            const KvPlan& kv, const ModelOptions& all_options, size_t stage,
                                            WeightLoader& last_loader) {
  const ModelOptions options = options_of(all_options, stages, stage);
  kernels::Backend& backend = *stages[stage].backend;
  CAIRN_TRY(WeightLoader loader, begin_loading(file, backend, memory, stage, options, experts_used_of(config)));
  const LayerRange range = range_of(config, stages, stage);
  DecoderConfig own = config_of(config, range);
  CAIRN_TRY(DecoderWeights weights, load_decoder_weights(loader, own, range));
  last_loader.mark_used(loader);
  return Decoder::create(std::move(own), std::move(weights), backend, options, range, kv);
}

// A drafting head reads layers of the model in the step of one device.
Result<void> read_drafting_head(const gguf::Reader& file, std::span<const PipelineStage> stages,
                                DecoderConfig& config) {
  if (stages.size() > 1) {
    return fail_at("draft", Code::kUnsupported,
                   "a drafting head drafts for a model that is on one device only; leave out --speculate and --draft");
  }
  config.mtp_layer.reset();
  return read_dspark_config(file, config);
}

// Layers that draft are left out where nobody asks for them, and where the file lacks them.
Result<DecoderConfig> read_decoder(const gguf::Reader& file, const Architecture& architecture,
                                   std::span<const PipelineStage> stages, const ModelOptions& options) {
  CAIRN_TRY(DecoderConfig config, read_decoder_config(file, architecture.decoder_reader(), options.context_tokens));
  const bool usable = options.load_mtp && stages.back().backend->mla() != nullptr;
  const gguf::Reader& drafts = options.mtp_file == nullptr ? file : *options.mtp_file;
  if (usable && config.compressed && has_dspark(drafts)) {
    CAIRN_TRY_VOID(read_drafting_head(drafts, stages, config));
    return config;
  }
  if (options.mtp_file != nullptr && is_mtp_module_file(drafts) && !config.mtp_layer) {
    return fail(Code::kInvalidArgument, "the draft file is an MTP module of DeepSeek V4, but the model is V4.1");
  }
  const bool assisted = options.mtp_file != nullptr && drafting_file(options) == nullptr;
  if (assisted && (!usable || stages.size() > 1)) {
    return fail_at("draft", Code::kUnsupported, "an assistant drafts for a model that is on one device only");
  }
  const bool there = options.mtp_file != nullptr || has_mtp_module(file, config.layers.size());
  if (!usable || assisted || !there) config.mtp_layer.reset();
  config.keeps_rows = config.mtp_layer.has_value() || assisted;
  return config;
}

// An MTP module, given on its own, is no use to other architectures.
Result<void> check_mtp_file(const Architecture& architecture, const ModelOptions& options) {
  if (options.mtp_file == nullptr) return {};
  const bool assistant = is_assistant_file(*options.mtp_file);
  if (assistant ? architecture.name == "gemma4" : architecture.name.starts_with("deepseek4")) return {};
  return fail(Code::kInvalidArgument, "the draft file is {}, but the model's architecture is \"{}\"",
              assistant ? "an assistant of Gemma 4" : "a drafting head of DeepSeek V4", architecture.name);
}

std::unexpected<Error> drafts_alone(std::string_view architecture) {
  return fail(Code::kUnsupported,
              "architecture \"{}\" is no model by itself: it drafts for another one, beside which --draft names it",
              architecture);
}

// The file's, if it is of a model or of an assistant.
Result<const Architecture*> architecture_of_model(const gguf::Reader& file) {
  if (is_mtp_module_file(file) || is_dspark_file(file)) {
    return drafts_alone(*file.metadata().string("general.architecture"));
  }
  return architecture_of(file);
}

Result<std::unique_ptr<Runner>> load_decoder(const gguf::Reader& file, const Architecture& architecture,
                                             std::span<const PipelineStage> stages, const ModelOptions& options) {
  CAIRN_TRY(DecoderConfig config, read_decoder(file, architecture, stages, options));
  CAIRN_TRY(const ModelMemory memory, memory_of(file, stages, config, options));
  const size_t last = stages.size() - 1;
  kernels::Backend& backend = *stages[last].backend;
  CAIRN_TRY(WeightLoader loader, begin_loading(file, backend, memory, last, options, experts_used_of(config)));
  KvPlan kv = kv_plan_of(config, stages, options);
  std::vector<std::unique_ptr<Decoder>> earlier;
  for (size_t stage = 0; stage < last; ++stage) {
    CAIRN_TRY(earlier.emplace_back(), load_stage(file, config, stages, memory, kv, options, stage, loader));
  }
  const LayerRange range = range_of(config, stages, last);
  CAIRN_TRY(DecoderWeights weights, load_decoder_weights(loader, config, range, drafting_file(options)));
  tell_mtp_layers(file, config, loader);
  for (const char* name : {"rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"}) {
    loader.mark_used(name);
  }
  CAIRN_TRY_VOID(loader.check_adapters());
  end_loading(loader, options);
  tell_rope_factors(config);
  tell_unread_keys(config.unread_keys);
  const int64_t saved = config.residual.saved_elements(config.embedding);
  std::unique_ptr<Decoder> assistant;
  AssistantWeights assistant_weights;
  if (options.mtp_file != nullptr && drafting_file(options) == nullptr) {
    CAIRN_TRY(DecoderConfig own, read_assistant_config(*options.mtp_file, config));
    WeightLoader own_loader = loader.for_file(*options.mtp_file);
    CAIRN_TRY(assistant_weights, load_assistant_weights(own_loader, own, config));
    own_loader.mark_used("rope_freqs.weight");
    own_loader.warn_of_unused();
    CAIRN_TRY(assistant, make_assistant(std::move(own), std::move(assistant_weights.decoder), backend, options, kv));
  }
  CAIRN_TRY(auto decoder,
            Decoder::create(std::move(config), std::move(weights), backend, options, range, std::move(kv)));
  if (assistant != nullptr) {
    decoder->use_assistant(std::move(assistant), std::move(assistant_weights.in), std::move(assistant_weights.out));
  }
  if (earlier.empty()) return decoder;
  return std::make_unique<Pipeline>(std::move(earlier), std::move(decoder), saved);
}

}  // namespace

bool is_mtp_file(const gguf::Reader& file) {
  return is_mtp_module_file(file) || is_dspark_file(file) || is_assistant_file(file);
}

bool is_encoder(const gguf::Reader& file) {
  const auto architecture = architecture_of(file);
  return architecture.has_value() && (*architecture)->kind == ArchitectureKind::kEncoder;
}

Result<ModelMemory> model_memory(const gguf::Reader& file, std::span<const PipelineStage> stages,
                                 const ModelOptions& options) {
  CAIRN_CHECK(!stages.empty());
  CAIRN_TRY(const Architecture* architecture, architecture_of_model(file));
  CAIRN_TRY_VOID(check_mtp_file(*architecture, options));
  switch (architecture->kind) {
    case ArchitectureKind::kDecoder: {
      CAIRN_TRY(const DecoderConfig config, read_decoder(file, *architecture, stages, options));
      return memory_of(file, stages, config, options);
    }
    case ArchitectureKind::kEncoder: {
      CAIRN_TRY(const EncoderConfig config,
                read_encoder_config(file, architecture->name, architecture->read_encoder, options.context_tokens));
      return memory_of(file, stages, config, options);
    }
    case ArchitectureKind::kAssistant:
      return drafts_alone(architecture->name);
  }
  CAIRN_CHECK(false);
}

Result<ModelMemory> model_memory(const gguf::Reader& file, kernels::Backend& backend, const ModelOptions& options) {
  const PipelineStage stage{.backend = &backend};
  return model_memory(file, {&stage, 1}, options);
}

Result<WantedTensors> wanted_tensors(const gguf::Reader& file, kernels::Backend& backend) {
  CAIRN_TRY(const Architecture* architecture, architecture_of_model(file));
  const ModelOptions options{.load_mtp = true};
  WantedTensors wanted;
  WeightLoader loader(file, backend, {.counts_only = true, .wanted = &wanted});
  if (architecture->kind != ArchitectureKind::kDecoder) {
    return fail(Code::kUnsupported, "architecture \"{}\" is no model that writes text", architecture->name);
  }
  const PipelineStage stage{.backend = &backend};
  CAIRN_TRY(const DecoderConfig config, read_decoder(file, *architecture, {&stage, 1}, options));
  CAIRN_TRY_VOID(load_decoder_weights(loader, config, range_of(config, {&stage, 1}, 0)));
  return wanted;
}

Result<std::unique_ptr<Runner>> load_model(const gguf::Reader& file, std::span<const PipelineStage> stages,
                                           const ModelOptions& options) {
  CAIRN_CHECK(!stages.empty() && options.batch_tokens_max > 0 && options.logits_max > 0);
  CAIRN_TRY(const Architecture* architecture, architecture_of_model(file));
  CAIRN_TRY_VOID(check_mtp_file(*architecture, options));
  switch (architecture->kind) {
    case ArchitectureKind::kDecoder:
      return load_decoder(file, *architecture, stages, options);
    case ArchitectureKind::kAssistant:
      return drafts_alone(architecture->name);
    case ArchitectureKind::kEncoder:
      break;
  }
  return fail(Code::kUnsupported, "architecture \"{}\" is an encoder: it gives embeddings and writes no text",
              architecture->name);
}

Result<std::unique_ptr<Runner>> load_model(const gguf::Reader& file, kernels::Backend& backend,
                                           const ModelOptions& options) {
  const PipelineStage stage{.backend = &backend};
  return load_model(file, {&stage, 1}, options);
}

Result<std::unique_ptr<Embedder>> load_embedder(const gguf::Reader& file, kernels::Backend& backend,
                                                const ModelOptions& options) {
  CAIRN_CHECK(options.batch_tokens_max > 0);
  if (!options.control_vectors.file.empty()) {
    return fail(Code::kUnsupported, "{} cannot be used: only models that write text are steered",
                options.control_vectors.file);
  }
  CAIRN_TRY(const Architecture* architecture, architecture_of_model(file));
  if (architecture->kind != ArchitectureKind::kEncoder) {
    return fail(Code::kUnsupported, "architecture \"{}\" is no encoder: it writes text", architecture->name);
  }
  CAIRN_TRY(EncoderConfig config,
            read_encoder_config(file, architecture->name, architecture->read_encoder, options.context_tokens));
  const PipelineStage stage{.backend = &backend};
  CAIRN_TRY(const ModelMemory memory, memory_of(file, {&stage, 1}, config, options));
  CAIRN_TRY(WeightLoader loader,
            begin_loading(file, backend, memory, 0, encoder_weight_options(options), experts_used_of(config)));
  CAIRN_TRY(EncoderWeights weights, load_encoder_weights(loader, backend, config));
  for (const char* name : {"rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"}) {
    loader.mark_used(name);
  }
  CAIRN_TRY_VOID(loader.check_adapters());
  end_loading(loader, options);
  tell_unread_keys(config.unread_keys);
  if (config.labels > 0 && !config.label_dense) {
    log_warning(
        "the head that ranks has no layer of its own (cls.weight): converters leave out the pooler of "
        "BertForSequenceClassification, and without it scores are not the model's; files of RoBERTa's kind are whole");
  }
  return Encoder::create(std::move(config), std::move(weights), backend, options.batch_tokens_max);
}

}  // namespace cairn::model
