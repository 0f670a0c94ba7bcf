/// Engrams, a part of a model (DeepSeek V4.1): tables with a row for every hash of the last tokens, far larger than
/// memory. Their config, their weights, their arrays in a step, and their run.
///
/// Tokens have classes (words that differ in case or accents share one). The hashes of the last 2, 3, ... classes give
/// rows of a table, several of each; they are read from the file's mapping as they are needed, and nothing else of a
/// table is. Addresses depend on token ids alone. What a position's hashes look back at is kept as a row of the
/// position before it, so that a sequence can stop, resume or go back at any position.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "gguf/reader.h"
#include "kernels/kv.h"
#include "model/activation_arena.h"
#include "model/weights/linear.h"

namespace cairn::kernels {
class Backend;
}  // namespace cairn::kernels

namespace cairn::model {

inline constexpr int64_t kEngramOrderMax = 8;
inline constexpr int64_t kEngramHeadsMax = 64;

class MetadataReader;
class WeightLoader;

struct EngramConfig {
  std::vector<int32_t> layers;   ///< that have one, ascending
  std::vector<int32_t> classes;  ///< of tokens
  int32_t pad_class = 0;         ///< of what is before the text
  int32_t order = 0;             ///< classes that a hash is made from, at most
  int32_t heads = 0;             ///< hashes of each number of classes
  int32_t row_dim = 0;
  int32_t streams = 0;  ///< of the residual, to which engrams are added
  int64_t embedding = 0;
  float norm_epsilon = 0;
  std::vector<int64_t> primes;        ///< [layers, order - 1, heads]: rows that each hash chooses from
  std::vector<uint64_t> multipliers;  ///< [layers, order]

  int32_t rows_per_token() const { return (order - 1) * heads; }
  int64_t width() const { return int64_t{rows_per_token()} * row_dim; }
  /// Rows of a table; `engram` is the number of its layer in `layers`.
  int64_t table_rows(int32_t engram) const;
};

/// Empty if the file has no "engram." keys. Errors: kCorruptFile, kUnsupported, with the key.
Result<EngramConfig> read_engram(const MetadataReader& keys, int64_t vocabulary, int64_t layers);

struct EngramWeights {
  const gguf::Tensor* table = nullptr;
  Linear key_value;  ///< of the rows of a token: a key for each stream, then the value
  kernels::Buffer query_norm;
  kernels::Buffer key_norm;
};

/// The engram of a layer, whose tensors begin with `prefix`. The table is neither read nor copied.
Result<EngramWeights> load_engram(WeightLoader& loader, const EngramConfig& config, int32_t engram,
                                  const std::string& prefix);

/// Numbers of the rows of a token, [rows_per_token()]. `classes` are those of the token and of those before it, latest
/// first: `order` of them.
void engram_rows(const EngramConfig& config, int32_t engram, std::span<const int32_t> classes, std::span<int64_t> rows);

/// Lets the system read rows that are not in memory.
void fetch_engram_rows(const gguf::Tensor& table, std::span<const int64_t> rows);
/// out [rows, row_dim], in float32.
void read_engram_rows(const gguf::Tensor& table, int32_t row_dim, std::span<const int64_t> rows, std::span<float> out);

/// Arrays of a step for R rows.
struct EngramActivations {
  float* classes = nullptr;  ///< [R, order - 1]
  float* rows = nullptr;     ///< [R, width()]
  float* keys = nullptr;     ///< [R, streams + 1, embedding]

  void add_to(ActivationArena& arena, const EngramConfig& config, int64_t rows_max);
};

/// The engrams of all layers in a step.
class Engrams {
 public:
  /// Bytes of host memory that prepare() asks for.
  static int64_t bytes(const EngramConfig& config, int64_t rows);
  /// `config` and what `tables` point to outlive this; a table for each layer that has one, null for those of layers on
  /// other devices.
  Engrams(kernels::Backend& backend, const EngramConfig& config, std::vector<const gguf::Tensor*> tables);
  /// The arrays, once they are allocated, for steps of at most `rows`.
  void prepare(const EngramActivations& activations, int64_t rows);

  /// Begins a step: stores the classes that later positions look back at, and finds the tables' rows of all layers.
  void find(const kernels::KvView& kv, std::span<const kernels::AttentionSlice> slices,
            std::span<const TokenId> tokens);
  /// Adds the engram of a layer to the streams [rows, streams, embedding] of all rows; `engram` as in load_engram().
  void add(int32_t engram, const EngramWeights& weights, float* streams);

 private:
  kernels::Backend& backend_;
  const EngramConfig& config_;
  const std::vector<const gguf::Tensor*> tables_;
  EngramActivations activations_;
  int64_t rows_max_ = 0;
  int32_t rows_ = 0;
  // Reserved once.
  std::vector<kernels::AttentionSlice> first_rows_;
  std::vector<float> looked_back_;
  std::vector<float> stored_classes_;
  std::vector<int32_t> classes_;
  std::vector<int64_t> table_rows_;  // [engrams, rows, rows_per_token]
  std::vector<float> values_;
};

}  // namespace cairn::model
