#include "model/parts/engram.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>

#include "kernels/backend.h"
#include "model/metadata_reader.h"
#include "model/weights/weight_loader.h"
#include "quant/codec.h"

namespace cairn::model {
namespace {

constexpr int32_t kScaleBlock = 32;  // elements of a row with one scale
constexpr std::string_view kFp8Rows = "e4m3_e8m0_32_row264";

/// Bytes of a row of E4M3 numbers with the scales behind them.
constexpr int64_t fp8_row_bytes(int32_t dim) { return int64_t{dim} + dim / kScaleBlock; }

float e4m3_value(uint8_t code) {
  constexpr int kFractionBits = 3, kBias = 7;
  const int exponent = code >> kFractionBits & 15, fraction = code & 7;
  if (exponent == 15 && fraction == 7) return 0;  // not a number
  const int whole = exponent == 0 ? fraction : fraction + 8;
  const float magnitude = std::ldexp(static_cast<float>(whole), std::max(exponent, 1) - kBias - kFractionBits);
  return (code & 128) != 0 ? -magnitude : magnitude;
}

std::array<float, 256> e4m3_values() {
  std::array<float, 256> values{};
  for (size_t code = 0; code < values.size(); ++code) values[code] = e4m3_value(static_cast<uint8_t>(code));
  return values;
}

void read_fp8_row(std::span<const std::byte> bytes, std::span<float> out) {
  constexpr int kScaleBias = 127;
  static const std::array<float, 256> values = e4m3_values();
  for (size_t begin = 0; begin < out.size(); begin += kScaleBlock) {
    const auto exponent = static_cast<int>(bytes[out.size() + begin / kScaleBlock]);
    const float scale = std::ldexp(1.0F, exponent - kScaleBias);
    for (size_t i = begin; i < begin + kScaleBlock; ++i) out[i] = values[static_cast<uint8_t>(bytes[i])] * scale;
  }
}

Result<void> check_size(const MetadataReader& keys, std::string_view key, size_t there, int64_t wanted) {
  if (std::cmp_equal(there, wanted)) return {};
  return fail_at("key " + keys.full(key), Code::kCorruptFile, "{} has {} entries, but {} were expected", keys.full(key),
                 there, wanted);
}

Result<void> check_numbers(const MetadataReader& keys, std::string_view key, const std::vector<int64_t>& values,
                           int64_t least, int64_t most) {
  for (const int64_t value : values) {
    if (value >= least && value <= most) continue;
    return fail_at("key " + keys.full(key), Code::kCorruptFile, "{} has {}, but {} to {} was expected", keys.full(key),
                   value, least, most);
  }
  return {};
}

Result<void> check_storage(const MetadataReader& keys) {
  CAIRN_TRY(const std::string_view encoding, keys.string_or("engram.encoding", kFp8Rows));
  if (encoding != kFp8Rows) {
    return fail_at("key " + keys.full("engram.encoding"), Code::kUnsupported, "{} is {}; {} is supported",
                   keys.full("engram.encoding"), encoding, kFp8Rows);
  }
  if (!keys.contains("engram.external_paths")) return {};
  return fail_at("key " + keys.full("engram.external_paths"), Code::kUnsupported,
                 "{} has the engram tables in files of their own; only tables in the model's file are supported",
                 keys.full("engram.external_paths"));
}

Result<void> read_classes(const MetadataReader& keys, int64_t vocabulary, EngramConfig& engram) {
  CAIRN_TRY(const auto classes, keys.file().metadata().integers(keys.full("engram.token_map")));
  CAIRN_TRY_VOID(check_size(keys, "engram.token_map", classes.size(), vocabulary));
  CAIRN_TRY_VOID(check_numbers(keys, "engram.token_map", classes, 0, vocabulary - 1));
  engram.classes.assign(classes.begin(), classes.end());
  CAIRN_TRY(const int64_t pad, keys.integer("engram.pad_id", 0, vocabulary - 1));
  engram.pad_class = engram.classes[pad];
  return {};
}

}  // namespace

int64_t EngramConfig::table_rows(int32_t engram) const {
  const auto own = std::span(primes).subspan(int64_t{engram} * rows_per_token(), rows_per_token());
  return std::accumulate(own.begin(), own.end(), int64_t{0});
}

Result<EngramConfig> read_engram(const MetadataReader& keys, int64_t vocabulary, int64_t layers) {
  constexpr int32_t kOrder = 4, kHeads = 8, kRowDim = 256;
  constexpr int64_t kPrimeMax = int64_t{1} << 32, kMultiplierMax = int64_t{1} << 47;
  EngramConfig engram;
  if (!keys.contains("engram.layer_ids")) return engram;
  CAIRN_TRY_VOID(check_storage(keys));
  const gguf::Metadata& metadata = keys.file().metadata();
  CAIRN_TRY(const auto ids, metadata.integers(keys.full("engram.layer_ids")));
  CAIRN_TRY_VOID(check_numbers(keys, "engram.layer_ids", ids, 0, layers - 1));
  engram.layers.assign(ids.begin(), ids.end());
  if (!std::ranges::is_sorted(engram.layers, std::less_equal<>())) {
    return fail_at("key " + keys.full("engram.layer_ids"), Code::kCorruptFile, "{} does not ascend",
                   keys.full("engram.layer_ids"));
  }
  CAIRN_TRY(engram.order, keys.integer_or("engram.max_ngram_size", kOrder, 2, kEngramOrderMax));
  CAIRN_TRY(engram.heads, keys.integer_or("engram.head_count", kHeads, 1, kEngramHeadsMax));
  CAIRN_TRY(engram.row_dim, keys.integer_or("engram.key_length", kRowDim, kScaleBlock, kHeadDimMax));
  if (engram.row_dim % kScaleBlock != 0) {
    return fail_at("key " + keys.full("engram.key_length"), Code::kCorruptFile, "{} is {}, no multiple of {}",
                   keys.full("engram.key_length"), engram.row_dim, kScaleBlock);
  }
  CAIRN_TRY_VOID(read_classes(keys, vocabulary, engram));
  const auto count = std::ssize(engram.layers);
  CAIRN_TRY(engram.primes, metadata.integers(keys.full("engram.primes")));
  CAIRN_TRY_VOID(check_size(keys, "engram.primes", engram.primes.size(), count * engram.rows_per_token()));
  CAIRN_TRY_VOID(check_numbers(keys, "engram.primes", engram.primes, 1, kPrimeMax));
  CAIRN_TRY(const auto multipliers, metadata.integers(keys.full("engram.multipliers")));
  CAIRN_TRY_VOID(check_size(keys, "engram.multipliers", multipliers.size(), count * engram.order));
  CAIRN_TRY_VOID(check_numbers(keys, "engram.multipliers", multipliers, 0, kMultiplierMax));
  engram.multipliers.assign(multipliers.begin(), multipliers.end());
  return engram;
}

Result<EngramWeights> load_engram(WeightLoader& loader, const EngramConfig& config, int32_t engram,
                                  const std::string& prefix) {
  const std::string name = prefix + "engram_embd.weight";
  EngramWeights weights;
  const gguf::Tensor* there = loader.file().find_tensor(name);
  const bool is_fp8 = there != nullptr && there->type == TensorType::kI8;
  const int64_t shape[] = {is_fp8 ? fp8_row_bytes(config.row_dim) : config.row_dim, config.table_rows(engram)};
  CAIRN_TRY(weights.table, loader.find(name, shape));
  if (!is_fp8 && !quant::can_decode(weights.table->type)) {
    return fail_at("tensor " + name, Code::kCorruptFile, "tensor {} is of type {}; I8 or numbers are needed", name,
                   tensor_type_name(weights.table->type));
  }
  const auto named = [&](const char* first, const char* second) {
    return prefix + (loader.has(fmt::format("{}{}.weight", prefix, second)) ? second : first);
  };
  CAIRN_TRY(weights.key_value,
            loader.linear(named("engram_kv", "engram_wkv"), (config.streams + 1) * config.embedding, config.width()));
  CAIRN_TRY(weights.query_norm,
            loader.table(named("engram_q_norm", "engram_q") + ".weight", config.streams, config.embedding));
  CAIRN_TRY(weights.key_norm,
            loader.table(named("engram_k_norm", "engram_k") + ".weight", config.streams, config.embedding));
  return weights;
}

void engram_rows(const EngramConfig& config, int32_t engram, std::span<const int32_t> classes,
                 std::span<int64_t> rows) {
  const auto multipliers = std::span(config.multipliers).subspan(int64_t{engram} * config.order, config.order);
  const auto primes =
      std::span(config.primes).subspan(int64_t{engram} * config.rows_per_token(), config.rows_per_token());
  uint64_t hash = static_cast<uint64_t>(classes[0]) * multipliers[0];
  int64_t offset = 0;
  size_t at = 0;
  for (int32_t i = 1; i < config.order; ++i) {
    hash ^= static_cast<uint64_t>(classes[i]) * multipliers[i];
    for (int32_t head = 0; head < config.heads; ++head, ++at) {
      rows[at] = static_cast<int64_t>(hash % static_cast<uint64_t>(primes[at])) + offset;
      offset += primes[at];
    }
  }
}

void fetch_engram_rows(const gguf::Tensor& table, std::span<const int64_t> rows) {
  const int64_t bytes = row_bytes(table.type, table.shape[0]);
  static const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  for (const int64_t row : rows) {
    const auto begin = reinterpret_cast<uintptr_t>(table.bytes.data() + row * bytes);
    const uintptr_t first = begin / page * page;
    // Only advice: where it is not taken, the row is read when it is looked at.
    ::madvise(reinterpret_cast<void*>(first), begin + bytes - first, MADV_WILLNEED);
  }
}

void read_engram_rows(const gguf::Tensor& table, int32_t row_dim, std::span<const int64_t> rows, std::span<float> out) {
  const int64_t bytes = row_bytes(table.type, table.shape[0]);
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto from = table.bytes.subspan(rows[i] * bytes, bytes);
    const auto to = out.subspan(i * row_dim, row_dim);
    if (table.type == TensorType::kI8) {
      read_fp8_row(from, to);
    } else {
      quant::decode_row(table.type, from, to);
    }
  }
}

void EngramActivations::add_to(ActivationArena& arena, const EngramConfig& config, int64_t rows_max) {
  const bool any = !config.layers.empty();
  arena.add(classes, any ? rows_max * (config.order - 1) : 0);
  arena.add(rows, any ? rows_max * config.width() : 0);
  arena.add(keys, any ? rows_max * (config.streams + 1) * config.embedding : 0);
}

int64_t Engrams::bytes(const EngramConfig& config, int64_t rows) {
  const int64_t numbers = std::ssize(config.layers) * config.rows_per_token() * static_cast<int64_t>(sizeof(int64_t));
  return rows * (config.width() * static_cast<int64_t>(sizeof(float)) + numbers);
}

Engrams::Engrams(kernels::Backend& backend, const EngramConfig& config, std::vector<const gguf::Tensor*> tables)
    : backend_(backend), config_(config), tables_(std::move(tables)) {}

void Engrams::prepare(const EngramActivations& activations, int64_t rows) {
  if (config_.layers.empty()) return;
  activations_ = activations;
  rows_max_ = rows;
  const int64_t back = config_.order - 1;
  first_rows_.reserve(rows);
  looked_back_.resize(rows * back);
  stored_classes_.resize(rows * back);
  classes_.resize(rows * config_.order);
  table_rows_.resize(std::ssize(config_.layers) * rows * config_.rows_per_token());
  values_.resize(rows * config_.width());
}

void Engrams::find(const kernels::KvView& kv, std::span<const kernels::AttentionSlice> slices,
                   std::span<const TokenId> tokens) {
  const int32_t order = config_.order, back = order - 1;
  constexpr int64_t kBytes = sizeof(float);
  rows_ = static_cast<int32_t>(tokens.size());
  first_rows_.clear();
  for (const kernels::AttentionSlice& slice : slices) {
    first_rows_.push_back({static_cast<int32_t>(first_rows_.size()), 1, slice.position_begin, slice.pages});
  }
  backend_.mla()->load_previous_rows(kv, first_rows_, activations_.classes);
  backend_.read(activations_.classes, std::ssize(slices) * back * kBytes, looked_back_.data());

  for (size_t i = 0; i < slices.size(); ++i) {
    const kernels::AttentionSlice& slice = slices[i];
    const float* before = looked_back_.data() + static_cast<int64_t>(i) * back;
    for (int32_t row = slice.row_begin; row < slice.row_begin + slice.rows; ++row) {
      int32_t* own = classes_.data() + int64_t{row} * order;
      const int32_t position = slice.position_begin + row - slice.row_begin;
      own[0] = config_.classes[index(tokens[row])];
      for (int32_t k = 1; k < order; ++k) {
        if (k > position) {
          own[k] = config_.pad_class;
        } else {
          own[k] = row == slice.row_begin ? static_cast<int32_t>(before[k - 1]) : own[k - 1 - order];
        }
      }
      std::copy_n(own, back, stored_classes_.data() + int64_t{row} * back);
    }
  }
  backend_.write(stored_classes_.data(), int64_t{rows_} * back * kBytes, activations_.classes);
  backend_.mla()->store_rows(kv, slices, activations_.classes);

  const int64_t count = config_.rows_per_token();
  for (int32_t engram = 0; std::cmp_less(engram, tables_.size()); ++engram) {
    if (tables_[engram] == nullptr) continue;
    for (int64_t row = 0; row < rows_; ++row) {
      const auto found = std::span(table_rows_).subspan((int64_t{engram} * rows_max_ + row) * count, count);
      engram_rows(config_, engram, std::span(classes_).subspan(row * order, order), found);
      fetch_engram_rows(*tables_[engram], found);
    }
  }
}

void Engrams::add(int32_t engram, const EngramWeights& weights, float* streams) {
  const int64_t count = config_.rows_per_token();
  const auto rows = std::span<const int64_t>(table_rows_).subspan(int64_t{engram} * rows_max_ * count, rows_ * count);
  const auto values = std::span(values_).first(rows_ * config_.width());
  read_engram_rows(*weights.table, config_.row_dim, rows, values);
  backend_.write(values.data(), static_cast<int64_t>(values.size_bytes()), activations_.rows);
  const kernels::MatmulTarget keys[] = {weights.key_value.to(activations_.keys)};
  backend_.matmul(keys, activations_.rows, rows_);
  const kernels::EngramParams params{config_.streams, config_.norm_epsilon, weights.query_norm.floats(),
                                     weights.key_norm.floats()};
  backend_.deepseek41()->add_engram(params, activations_.keys, rows_, config_.embedding, streams);
}

}  // namespace cairn::model
