/// What the rules of a family see of a folder, and where they put what they decide: keys, and the tensors of the new
/// file with the rows that they are made of.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "convert/huggingface/checkpoint.h"
#include "convert/huggingface/model_config.h"
#include "convert/huggingface/new_metadata.h"
#include "convert/huggingface/rows.h"

namespace cairn::convert {

/// A tensor of the new file; shape[0] is the row length.
struct PlannedTensor {
  std::string name;
  std::vector<int64_t> shape;
  RowsPtr rows;
};

/// A tensor of the checkpoint with its name taken apart: "model.layers.3.mlp.experts.5.up_proj.weight" is layer 3,
/// expert 5, part "mlp.experts.@.up_proj", suffix ".weight".
struct SourceTensor {
  std::string name;  ///< whole, for messages
  int64_t layer = -1;
  int64_t expert = -1;
  std::string part;
  std::string suffix;          ///< ".weight", ".bias", or empty
  std::vector<int64_t> shape;  ///< as stored: the last is the row length
  RowsPtr rows;

  int64_t matrix_rows() const { return shape.size() < 2 ? 1 : shape[shape.size() - 2]; }
  int64_t columns() const { return shape.empty() ? 1 : shape.back(); }
};

/// The rope of a model, however its config spells it: of all layers, or of those with full attention.
struct RopeSettings {
  ModelConfig full;
  ModelConfig windowed;  ///< of layers with a window, if they have their own

  std::string type() const { return full.text_or({"rope_type", "type"}, "default"); }
};

class Conversion {
 public:
  Conversion(ModelConfig config, const Checkpoint& checkpoint, std::string architecture,
             std::filesystem::path folder = {});

  const ModelConfig& config() const { return config_; }
  const Checkpoint& checkpoint() const { return checkpoint_; }
  const RopeSettings& rope() const { return rope_; }
  const std::filesystem::path& folder() const { return folder_; }
  const std::string& architecture() const { return architecture_; }

  int64_t layers() const { return layers_; }
  /// Layers that predict further tokens, after the others.
  int64_t next_layers() const { return next_layers_; }
  void set_next_layers(int64_t count) { next_layers_ = count; }
  int64_t heads() const { return heads_; }
  int64_t kv_heads() const { return kv_heads_; }
  int64_t width() const { return width_; }
  /// The config's head_dim, or width / heads.
  int64_t head_length() const { return head_length_; }
  /// The elements of a head that are turned, with that share of a head if the config has none.
  int64_t turned(double share_if_missing) const;

  /// A key below the architecture: "block_count".
  void set(std::string_view key, NewMetadata::Value value) {
    metadata_.set(architecture_ + "." + std::string(key), std::move(value));
  }
  void erase(std::string_view key) { metadata_.erase(architecture_ + "." + std::string(key)); }
  /// Copies a whole number, or another number, of the config, if it is there.
  void copy_integer(std::string_view key, ModelConfig::Names names);
  void copy_number(std::string_view key, ModelConfig::Names names);
  void copy_boolean(std::string_view key, ModelConfig::Names names);
  NewMetadata& metadata() { return metadata_; }
  const NewMetadata& metadata() const { return metadata_; }

  /// Adds a tensor. `shape` is the new file's, row length first.
  void add(std::string name, std::vector<int64_t> shape, RowsPtr rows);
  /// Adds a tensor of a layer, "blk.N." before its name, or one of the whole model (layer -1), with the shape that the
  /// source has: its matrices keep their sizes.
  void add(const SourceTensor& source, std::string_view name);
  /// The same with other rows and the size of their matrices.
  void add(const SourceTensor& source, std::string_view name, RowsPtr rows, int64_t matrix_rows);
  std::vector<PlannedTensor>& tensors() { return tensors_; }
  const std::vector<PlannedTensor>& tensors() const { return tensors_; }

 private:
  ModelConfig config_;
  const Checkpoint& checkpoint_;
  std::string architecture_;
  std::filesystem::path folder_;
  RopeSettings rope_;
  int64_t layers_, next_layers_ = 0, heads_, kv_heads_, width_, head_length_;
  NewMetadata metadata_;
  std::vector<PlannedTensor> tensors_;
};

}  // namespace cairn::convert
