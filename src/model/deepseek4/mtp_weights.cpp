#include "model/deepseek4/mtp_weights.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>
#include <utility>

#include "model/metadata_reader.h"

namespace cairn::deepseek4 {
namespace {

constexpr std::string_view kOwnFilePrefix = "mtp.0.";
constexpr std::string_view kOwnFileArchitecture = "deepseek4_mtp_support";

/// Where a file has the block: the prefix of its layer's tensors, and of the others.
struct Prefixes {
  std::string layer;
  std::string block;
};

Prefixes prefixes_of(const gguf::Reader& file, size_t main_layers) {
  if (is_mtp_file(file)) return {std::string(kOwnFilePrefix), std::string(kOwnFilePrefix)};
  const std::string layer = fmt::format("blk.{}.", main_layers);
  return {layer, layer + "nextn."};
}

bool has_block(const gguf::Reader& file, size_t main_layers) {
  return file.find_tensor(prefixes_of(file, main_layers).block + "enorm.weight") != nullptr;
}

// Its products have a row for each stream of a token, which adapters are not prepared for.
Result<Linear> load_input(WeightLoader& loader, const std::string& name, int64_t rows, int64_t cols) {
  CAIRN_TRY(Linear input, loader.linear(name, rows, cols));
  if (input.adapters.empty()) return input;
  return fail_at(fmt::format("tensor {}.weight", name), Code::kUnsupported,
                 "a LoRA adapter changes {}.weight, which makes the input of the MTP module; such a matrix cannot be "
                 "changed",
                 name);
}

// Both as one matrix, or one for the token and one for the streams.
Result<void> load_inputs(WeightLoader& loader, const std::string& prefix, const ModelConfig& model,
                         MtpWeights& weights) {
  const int64_t width = model.embedding;
  CAIRN_TRY(weights.token_norm, Norm::load(loader, prefix + "enorm", width, model.norm));
  CAIRN_TRY(weights.stream_norm, Norm::load(loader, prefix + "hnorm", width, model.norm));
  if (loader.has(prefix + "e_proj.weight")) {
    CAIRN_TRY(weights.token, load_input(loader, prefix + "e_proj", width, width));
    CAIRN_TRY(weights.stream, load_input(loader, prefix + "h_proj", width, width));
    return {};
  }
  CAIRN_TRY(weights.pair, load_input(loader, prefix + "eh_proj", width, 2 * width));
  return {};
}

// What the block has not of its own is the model's.
Result<void> load_output(WeightLoader& loader, const std::string& prefix, const ModelConfig& model,
                         MtpWeights& weights) {
  for (const char* name : {"shared_head_norm", "norm"}) {
    if (!loader.has(prefix + name + ".weight")) continue;
    CAIRN_TRY(weights.output_norm, Norm::load(loader, prefix + name, model.embedding, model.norm));
  }
  if (!loader.has(prefix + "hc_head_fn.weight")) return {};
  CAIRN_TRY(weights.output_streams, StreamWeights::load_output(loader, prefix + "hc_head", model.hyper_connections()));
  return {};
}

// In files of its own the block's router has a bias, which layers of models may lack.
Result<void> check_router_bias(const WeightLoader& loader, const gguf::Reader& file, const std::string& prefix) {
  const std::string name = prefix + "exp_probs_b.bias";
  if (!is_mtp_file(file) || loader.has(name)) return {};
  return fail_at("tensor " + name, Code::kCorruptFile, "tensor {} is missing", name);
}

Result<void> load_block(WeightLoader& loader, const gguf::Reader& file, const ModelConfig& config,
                        ModelWeights& weights) {
  const size_t layer = config.main_layers();
  const Prefixes prefixes = prefixes_of(file, layer);
  CAIRN_TRY_VOID(load_inputs(loader, prefixes.block, config, weights.mtp));
  CAIRN_TRY_VOID(load_output(loader, prefixes.block, config, weights.mtp));
  CAIRN_TRY_VOID(check_router_bias(loader, file, prefixes.layer));
  CAIRN_TRY(LayerWeights loaded, load_layer(loader, file, config, layer, prefixes.layer));
  weights.layers.push_back(std::move(loaded));
  return {};
}

}  // namespace

bool is_mtp_file(const gguf::Reader& file) {
  const auto name = file.metadata().string("general.architecture");
  return name.has_value() && *name == kOwnFileArchitecture;
}

void read_mtp_config(const gguf::Reader& file, const ModelOptions& options, ModelConfig& config) {
  if (!options.load_mtp || (options.mtp_file == nullptr && !has_block(file, config.layers.size()))) return;
  LayerConfig layer;  // it sees its window alone
  layer.clamp = config.layers.back().clamp;
  layer.shared_clamp = config.layers.back().shared_clamp;
  config.layers.push_back(layer);
  config.has_mtp = true;
}

Result<void> load_mtp_weights(WeightLoader& loader, const gguf::Reader& file, const ModelConfig& config,
                              ModelWeights& weights) {
  Result<void> loaded = load_block(loader, file, config, weights);
  if (!loaded.has_value()) {
    loaded.error().message +=
        fmt::format("; the model loads without its MTP module: leave out {}",
                    is_mtp_file(file) ? "--draft" : "--speculate, or draft with --draft SMALL.gguf");
  }
  return loaded;
}

void mark_mtp_used(WeightLoader& loader, const gguf::Reader& file, const ModelConfig& config) {
  constexpr std::string_view kBlock = "blk.";
  const auto blocks = MetadataReader(file, kArchitecture).integer("block_count", 1, kLayersMax);
  if (!blocks.has_value()) return;
  for (const gguf::Tensor& tensor : file.tensors()) {
    const std::string_view name = tensor.name;
    if (!name.starts_with(kBlock)) continue;
    size_t number = 0;
    std::from_chars(name.data() + kBlock.size(), name.data() + name.size(), number);
    if (number >= config.main_layers() && std::cmp_less(number, *blocks)) loader.mark_used(name);
  }
}

}  // namespace cairn::deepseek4
