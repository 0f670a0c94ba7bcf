#include "convert/huggingface/conversion.h"

#include <fmt/format.h>

#include <algorithm>

namespace cairn::convert {
namespace {

// Published configs have the rope in "rope_parameters" or "rope_scaling", in one for each kind of layer, or among the
// other settings.
RopeSettings read_rope(const ModelConfig& config) {
  RopeSettings rope{config.object({"rope_parameters", "rope_scaling"}), config.object({"no such object"})};
  if (rope.full.has({"full_attention"}) || rope.full.has({"sliding_attention"})) {
    rope.windowed = rope.full.object({"sliding_attention"});
    rope.full = rope.full.object({"full_attention"});
    return rope;
  }
  const auto inherit = [&](ModelConfig& to, std::string_view name, ModelConfig::Names names) {
    if (const nlohmann::json* value = config.find(names); value != nullptr && !to.has({name})) to.set(name, *value);
  };
  inherit(rope.full, "rope_theta",
          {"global_rope_theta", "rope_global_theta", "rope_theta_global", "rope_theta", "rotary_emb_base"});
  inherit(rope.full, "partial_rotary_factor", {"partial_rotary_factor", "rope_pct", "rope_percent"});
  inherit(rope.full, "original_max_position_embeddings", {"original_max_position_embeddings"});
  inherit(rope.windowed, "rope_theta",
          {"local_rope_theta", "rope_local_theta", "rope_theta_local", "swa_rope_theta", "rope_local_base_freq"});
  return rope;
}

}  // namespace

Conversion::Conversion(ModelConfig config, const Checkpoint& checkpoint, std::string architecture,
                       std::filesystem::path folder)
    : config_(std::move(config)),
      checkpoint_(checkpoint),
      architecture_(std::move(architecture)),
      folder_(std::move(folder)),
      rope_(read_rope(config_)),
      layers_(config_.integer({"num_hidden_layers", "n_layers", "n_layer", "num_layers"})),
      heads_(std::max<int64_t>(1, config_.integer_or({"num_attention_heads", "n_head", "n_heads"}, 1))),
      kv_heads_(std::max<int64_t>(
          1, config_.integer_or({"num_key_value_heads", "n_kv_heads", "num_kv_heads", "n_head_kv"}, heads_))),
      width_(config_.integer({"hidden_size", "n_embd", "dim", "d_model"})),
      head_length_(config_.integer_or({"head_dim"}, width_ / heads_)) {
  metadata_.set("general.architecture", architecture_);
}

int64_t Conversion::turned(double share_if_missing) const {
  const double share = rope_.full.number_or({"partial_rotary_factor"}, share_if_missing);
  return static_cast<int64_t>(share * static_cast<double>(head_length_));
}

void Conversion::copy_integer(std::string_view key, ModelConfig::Names names) {
  if (config_.has(names)) set(key, config_.integer(names));
}
void Conversion::copy_number(std::string_view key, ModelConfig::Names names) {
  if (config_.has(names)) set(key, config_.number(names));
}
void Conversion::copy_boolean(std::string_view key, ModelConfig::Names names) {
  if (config_.has(names)) set(key, config_.boolean_or(names, false));
}

void Conversion::add(std::string name, std::vector<int64_t> shape, RowsPtr rows) {
  tensors_.push_back({std::move(name), std::move(shape), std::move(rows)});
}

void Conversion::add(const SourceTensor& source, std::string_view name) {
  std::vector<int64_t> shape(source.shape.rbegin(), source.shape.rend());
  if (shape.empty()) shape = {1};
  add(source.layer < 0 ? std::string(name) : fmt::format("blk.{}.{}", source.layer, name), std::move(shape),
      source.rows);
}

void Conversion::add(const SourceTensor& source, std::string_view name, RowsPtr rows, int64_t matrix_rows) {
  std::vector<int64_t> shape = {rows->length(), matrix_rows};
  if (rows->count() != matrix_rows) shape.push_back(rows->count() / matrix_rows);
  if (source.shape.size() == 1 && shape.size() == 2 && shape[1] == 1) shape.pop_back();
  add(source.layer < 0 ? std::string(name) : fmt::format("blk.{}.{}", source.layer, name), std::move(shape),
      std::move(rows));
}

}  // namespace cairn::convert
