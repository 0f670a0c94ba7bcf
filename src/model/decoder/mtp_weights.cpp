#include "model/decoder/mtp_weights.h"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

namespace cairn::model {
namespace {

constexpr std::string_view kOwnFilePrefix = "mtp.0.";
constexpr std::string_view kOwnFileArchitecture = "deepseek4_mtp_support";

/// Where a file has the module: the prefix of its layer's tensors, and of the others.
struct Prefixes {
  std::string layer;
  std::string module;
};

Prefixes prefixes_of(const gguf::Reader& file, size_t layers) {
  if (is_mtp_module_file(file)) return {std::string(kOwnFilePrefix), std::string(kOwnFilePrefix)};
  const std::string layer = fmt::format("blk.{}.", layers);
  return {layer, layer + "nextn."};
}

// With several streams its products have a row for each stream of a token, which adapters are not prepared for.
Result<Linear> load_input(WeightLoader& loader, const DecoderConfig& config, const std::string& name, int64_t cols) {
  CAIRN_TRY(Linear input, loader.linear(name, config.embedding, cols));
  if (input.adapters.empty() || config.residual.streams() == 1) return input;
  return fail_at(fmt::format("tensor {}.weight", name), Code::kUnsupported,
                 "a LoRA adapter changes {}.weight, which makes the input of the MTP module; such a matrix cannot be "
                 "changed",
                 name);
}

// Both as one matrix, or one for the token and one for the streams.
Result<void> load_inputs(WeightLoader& loader, const std::string& prefix, const DecoderConfig& config,
                         MtpWeights& mtp) {
  const int64_t width = config.embedding;
  const NormConfig rms{.epsilon = config.norm.epsilon};
  CAIRN_TRY(mtp.token_norm, Norm::load(loader, prefix + "enorm", width, rms));
  CAIRN_TRY(mtp.row_norm, Norm::load(loader, prefix + "hnorm", width, rms));
  if (config.residual.hyper_connections && loader.has(prefix + "e_proj.weight")) {
    CAIRN_TRY(mtp.token, load_input(loader, config, prefix + "e_proj", width));
    CAIRN_TRY(mtp.row, load_input(loader, config, prefix + "h_proj", width));
    return {};
  }
  CAIRN_TRY(mtp.pair, load_input(loader, config, prefix + "eh_proj", 2 * width));
  return {};
}

// What the module has not of its own is the model's.
Result<void> load_own_parts(WeightLoader& loader, const std::string& prefix, const DecoderConfig& config,
                            MtpWeights& mtp) {
  for (const char* name : {"shared_head_norm", "norm"}) {
    if (!loader.has(prefix + name + ".weight")) continue;
    CAIRN_TRY(mtp.output_norm, Norm::load(loader, prefix + name, config.embedding, config.norm));
  }
  if (const auto& streams = config.residual.hyper_connections; streams && loader.has(prefix + "hc_head_fn.weight")) {
    CAIRN_TRY(mtp.output_streams, StreamWeights::load_output(loader, prefix + "hc_head", *streams));
  }
  if (const std::string table = prefix + "embed_tokens"; loader.has(table + ".weight")) {
    CAIRN_TRY(mtp.embedding, loader.lookup_table(table, config.vocabulary, config.embedding));
  }
  if (const std::string output = prefix + "shared_head_head"; loader.has(output + ".weight")) {
    CAIRN_TRY(mtp.output, loader.linear(output, config.vocabulary, config.embedding));
  }
  return {};
}

// In files of its own the module's router has a bias, which layers of models may lack.
Result<void> check_router_bias(const WeightLoader& loader, const std::string& prefix) {
  const std::string name = prefix + "exp_probs_b.bias";
  if (!is_mtp_module_file(loader.file()) || loader.has(name)) return {};
  return fail_at("tensor " + name, Code::kCorruptFile, "tensor {} is missing", name);
}

Result<void> load_module(WeightLoader& loader, const DecoderConfig& config, DecoderWeights& weights) {
  const Prefixes prefixes = prefixes_of(loader.file(), config.layers.size());
  CAIRN_TRY_VOID(load_inputs(loader, prefixes.module, config, weights.mtp));
  CAIRN_TRY_VOID(load_own_parts(loader, prefixes.module, config, weights.mtp));
  CAIRN_TRY_VOID(check_router_bias(loader, prefixes.layer));
  const auto layer = static_cast<int32_t>(config.layers.size());
  CAIRN_TRY(weights.layers.emplace_back(), load_layer(loader, config, layer, prefixes.layer));
  return {};
}

}  // namespace

bool is_mtp_module_file(const gguf::Reader& file) {
  const auto name = file.metadata().string("general.architecture");
  return name.has_value() && *name == kOwnFileArchitecture;
}

bool has_mtp_module(const gguf::Reader& file, size_t layers) {
  return file.find_tensor(prefixes_of(file, layers).module + "enorm.weight") != nullptr;
}

Result<void> load_mtp_weights(WeightLoader& loader, const DecoderConfig& config, DecoderWeights& weights) {
  Result<void> loaded = load_module(loader, config, weights);
  if (!loaded.has_value()) {
    const bool alone = is_mtp_module_file(loader.file());
    loaded.error().message += fmt::format("; the model loads without its MTP module: leave out {}",
                                          alone ? "--draft" : "--speculate, or draft with --draft SMALL.gguf");
  }
  return loaded;
}

}  // namespace cairn::model
