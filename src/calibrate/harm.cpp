#include "calibrate/harm.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "cache/page_pool.h"
#include "convert/quantize_mix.h"
#include "kernels/backend.h"
#include "model/model.h"
#include "perplexity/row_scores.h"
#include "quant/codec.h"

namespace cairn::calibrate {
namespace {

// Positions of a window that say more about the missing context than about the model.
constexpr int32_t kSkippedTokens = 16;
// Log-probability below which a token changes no mean.
constexpr float kLeast = -20;
// Rows of a tensor that are encoded in each type, evenly spread.
constexpr int64_t kSampledRows = 96;

// Types that tensors are given: those of matrices that kernels multiply without unpacking them first, and floats.
constexpr TensorType kCandidates[] = {
    TensorType::kIQ1_S, TensorType::kIQ1_M,   TensorType::kIQ2_XXS, TensorType::kIQ2_XS, TensorType::kIQ2_S,
    TensorType::kQ2_K,  TensorType::kIQ3_XXS, TensorType::kIQ3_S,   TensorType::kQ3_K,   TensorType::kIQ4_XS,
    TensorType::kQ4_0,  TensorType::kIQ4_NL,  TensorType::kQ4_1,    TensorType::kQ4_K,   TensorType::kQ5_0,
    TensorType::kQ5_1,  TensorType::kQ5_K,    TensorType::kQ6_K,    TensorType::kQ8_0,   TensorType::kF16,
};

bool is_float(TensorType type) {
  return type == TensorType::kF32 || type == TensorType::kF16 || type == TensorType::kBF16;
}

// Squared errors and squared weights, each column by its importance.
struct Energy {
  double error = 0;
  double weight = 0;
  double relative() const { return weight > 0 ? error / weight : 0; }
};

// One tensor's rows, and what they become in other types.
class Rounding {
 public:
  Rounding(const gguf::Tensor& tensor, std::span<const float> importance)
      : tensor_(tensor),
        importance_(importance),
        columns_(static_cast<size_t>(tensor.shape[0])),
        rows_of_matrix_(tensor.shape.size() > 1 ? tensor.shape[1] : 1) {}

  int64_t rows() const { return tensor_.elements() / tensor_.shape[0]; }

  struct Scratch {
    std::vector<float> values, rounded;
    std::vector<std::byte> blocks;
  };

  /// Leaves the row and what it becomes in `scratch`.
  Energy round(int64_t row, TensorType type, Scratch& scratch) const {
    scratch.values.resize(columns_);
    scratch.rounded.resize(columns_);
    scratch.blocks.resize(static_cast<size_t>(row_bytes(type, tensor_.shape[0])));
    const auto bytes = static_cast<size_t>(row_bytes(tensor_.type, tensor_.shape[0]));
    quant::decode_row(tensor_.type, tensor_.bytes.subspan(static_cast<size_t>(row) * bytes, bytes), scratch.values);
    const auto first = static_cast<size_t>(row / rows_of_matrix_) * columns_;
    const auto importance = importance_.empty() ? importance_ : importance_.subspan(first, columns_);
    quant::encode_row(type, scratch.values, importance, scratch.blocks);
    quant::decode_row(type, scratch.blocks, scratch.rounded);
    Energy energy;
    for (size_t i = 0; i < columns_; ++i) {
      const double weight = importance.empty() ? 1.0 : static_cast<double>(importance[i]);
      const double value = scratch.values[i], error = scratch.rounded[i] - value;
      energy.error += weight * error * error;
      energy.weight += weight * value * value;
    }
    return energy;
  }

 private:
  const gguf::Tensor& tensor_;
  std::span<const float> importance_;
  size_t columns_;
  int64_t rows_of_matrix_;
};

class Meter {
 public:
  Meter(const gguf::Reader& file, kernels::Backend& backend, std::span<const TokenId> tokens,
        const HarmOptions& options)
      : file_(file), backend_(backend), options_(options) {
    const int64_t length = options.window_tokens;
    const int64_t space = std::ssize(tokens) - length;
    for (int64_t window = 0; window < options.windows; ++window) {
      const int64_t begin = options.windows == 1 ? 0 : space * window / (options.windows - 1);
      windows_.emplace_back(tokens.begin() + begin, tokens.begin() + begin + length);
      if (options.first != kNoToken) windows_.back().front() = options.first;
    }
  }

  /// Predictions of the model as it is.
  Result<void> begin() {
    const std::vector<gguf::Tensor> tensors(file_.tensors().begin(), file_.tensors().end());
    return run(tensors, [&](std::span<const float> logits) {
      const perplexity::LogSum sum = perplexity::log_sum(logits);
      std::vector<float>& row = base_.emplace_back(logits.begin(), logits.end());
      const auto offset = static_cast<float>(static_cast<double>(sum.largest) + sum.log_sum);
      for (float& value : row) value -= offset;
    });
  }

  /// Mean divergence with `bytes` in place of a tensor's own.
  Result<double> divergence(size_t tensor, TensorType type, std::span<const std::byte> bytes) {
    std::vector<gguf::Tensor> tensors(file_.tensors().begin(), file_.tensors().end());
    tensors[tensor].type = type;
    tensors[tensor].bytes = bytes;
    double total = 0;
    size_t position = 0;
    CAIRN_TRY_VOID(
        run(tensors, [&](std::span<const float> logits) { total += divergence_of(base_[position++], logits); }));
    const double mean = total / static_cast<double>(position);
    if (!std::isfinite(mean)) {
      return fail_at(fmt::format("tensor {}", file_.tensors()[tensor].name), Code::kCorruptFile,
                     "the model's logits are no numbers once the tensor is in {}", tensor_type_name(kProbeType));
    }
    return mean;
  }

 private:
  // In nats, of the base's distribution from the one that the logits give.
  static double divergence_of(std::span<const float> base, std::span<const float> logits) {
    const perplexity::LogSum sum = perplexity::log_sum(logits);
    const double offset = static_cast<double>(sum.largest) + sum.log_sum;
    double total = 0;
    for (size_t i = 0; i < base.size(); ++i) {
      if (base[i] < kLeast) continue;
      total += std::exp(static_cast<double>(base[i])) *
               (static_cast<double>(base[i]) - (static_cast<double>(logits[i]) - offset));
    }
    return total;
  }

  // Calls `see` with the logits of every position that counts, in order.
  template <class See>
  Result<void> run(const std::vector<gguf::Tensor>& tensors, See see) {
    const gguf::Reader changed = gguf::Reader::planned(file_.metadata(), tensors);
    const int32_t length = options_.window_tokens;
    const model::ModelOptions sizes{.context_tokens = length, .batch_tokens_max = length, .logits_max = length};
    CAIRN_TRY(const auto runner, model::load_model(changed, backend_, sizes));
    std::vector<int32_t> pages;
    for (const cache::KvGroup& group : runner->kv_layout().groups) {
      pages.push_back(group.kind == cache::KvKind::kState ? 1 : cache::pages_for(length));
    }
    CAIRN_TRY(cache::PagePool pool, cache::PagePool::create(backend_, runner->kv_layout(), pages));
    for (const std::vector<TokenId>& window : windows_) {
      cache::PageTable table;
      if (!pool.extend(table, length)) return fail(Code::kInternal, "the page pool is too small");
      const model::BatchSlice before{.rows = kSkippedTokens, .pages = &table, .logits = model::LogitsWanted::kNone};
      const model::BatchSlice counted{.rows = length - kSkippedTokens,
                                      .position_begin = kSkippedTokens,
                                      .pages = &table,
                                      .logits = model::LogitsWanted::kAll};
      const std::span<const TokenId> tokens(window);
      CAIRN_TRY_VOID(runner->step({tokens.first(kSkippedTokens), {&before, 1}, &pool}));
      CAIRN_TRY(const model::LogitsView logits, runner->step({tokens.subspan(kSkippedTokens), {&counted, 1}, &pool}));
      for (int64_t row = 0; row < logits.rows(); ++row) see(logits.row(row));
      pool.release(table);
    }
    return {};
  }

  const gguf::Reader& file_;
  kernels::Backend& backend_;
  const HarmOptions& options_;
  std::vector<std::vector<TokenId>> windows_;
  std::vector<std::vector<float>> base_;  // log-probabilities of each position that counts
};

// The tensor in kProbeType, but written in its own type if that is a float, so that its product is computed as before.
struct Probe {
  TensorType type = TensorType::kF32;
  std::vector<std::byte> bytes;
  double error = 0;  // relative, squared
};

Probe make_probe(const gguf::Tensor& tensor, const Rounding& rounding, ThreadPool& threads) {
  // What is in the type already would have no error.
  const TensorType rounded = tensor.type == kProbeType ? TensorType::kMXFP4 : kProbeType;
  Probe probe;
  if (is_float(tensor.type)) probe.type = tensor.type;
  const auto bytes = static_cast<size_t>(row_bytes(probe.type, tensor.shape[0]));
  probe.bytes.resize(static_cast<size_t>(rounding.rows()) * bytes);
  std::vector<Rounding::Scratch> scratch(static_cast<size_t>(threads.threads()));
  std::vector<Energy> energies(static_cast<size_t>(rounding.rows()));
  threads.parallel_for(rounding.rows(), 8, [&](int64_t begin, int64_t end, int member) {
    for (int64_t row = begin; row < end; ++row) {
      Rounding::Scratch& mine = scratch[static_cast<size_t>(member)];
      energies[static_cast<size_t>(row)] = rounding.round(row, rounded, mine);
      quant::encode_row(probe.type, mine.rounded, {},
                        std::span(probe.bytes).subspan(static_cast<size_t>(row) * bytes, bytes));
    }
  });
  Energy all;
  for (const Energy& each : energies) {
    all.error += each.error;
    all.weight += each.weight;
  }
  probe.error = all.relative();
  return probe;
}

// The relative squared error of a type on some of the rows.
double error_of(TensorType type, const Rounding& rounding, ThreadPool& threads) {
  const int64_t rows = std::min(rounding.rows(), kSampledRows);
  std::vector<Rounding::Scratch> scratch(static_cast<size_t>(threads.threads()));
  std::vector<Energy> energies(static_cast<size_t>(rows));
  threads.parallel_for(rows, 4, [&](int64_t begin, int64_t end, int member) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i * rounding.rows() / rows;
      energies[static_cast<size_t>(i)] = rounding.round(row, type, scratch[static_cast<size_t>(member)]);
    }
  });
  Energy all;
  for (const Energy& each : energies) {
    all.error += each.error;
    all.weight += each.weight;
  }
  return all.relative();
}

Result<TensorHarm> measure(size_t number, const gguf::Reader& file, Meter& meter, ThreadPool& threads,
                           const convert::ImportanceMatrix& importance) {
  const gguf::Tensor& tensor = file.tensors()[number];
  TensorHarm harm{.tensor = number, .divergence = 0, .options = {}};
  if (convert::keeps_type(tensor) || !convert::has_whole_blocks(kProbeType, tensor)) {
    // Rows that no block fits are halved, if they can be: what that costs is not measured, as it is next to nothing.
    const bool is_halved = tensor.type == TensorType::kF32 && !convert::keeps_type(tensor);
    const TensorType type = is_halved ? TensorType::kF16 : tensor.type;
    harm.options.push_back({type, row_bytes(type, tensor.elements()), 0});
    return harm;
  }
  CAIRN_TRY(const convert::ColumnImportance columns, importance.of(tensor));
  const Rounding rounding(tensor, columns.means);
  const Probe probe = make_probe(tensor, rounding, threads);
  CAIRN_TRY(harm.divergence, meter.divergence(number, probe.type, probe.bytes));
  const double sensitivity = probe.error > 0 ? harm.divergence / probe.error : 0;
  harm.options.push_back({tensor.type, std::ssize(tensor.bytes), 0});
  for (const TensorType type : kCandidates) {
    if (!quant::can_encode(type) || !convert::has_whole_blocks(type, tensor)) continue;
    if (type == tensor.type) continue;
    harm.options.push_back({type, row_bytes(type, tensor.elements()), sensitivity * error_of(type, rounding, threads)});
  }
  return harm;
}

}  // namespace

Result<std::vector<TensorHarm>> measure_harm(const gguf::Reader& file, kernels::Backend& backend, ThreadPool& threads,
                                             const convert::ImportanceMatrix& importance,
                                             std::span<const TokenId> tokens, const HarmOptions& options) {
  if (std::ssize(tokens) < options.window_tokens || options.window_tokens <= kSkippedTokens) {
    return fail(Code::kInvalidArgument, "the text has {} tokens, but one piece of it takes {}; give more text",
                tokens.size(), options.window_tokens);
  }
  Meter meter(file, backend, tokens, options);
  CAIRN_TRY_VOID(meter.begin());
  std::vector<TensorHarm> harms;
  const auto total = std::ssize(file.tensors());
  for (size_t i = 0; i < file.tensors().size(); ++i) {
    CAIRN_TRY(harms.emplace_back(), measure(i, file, meter, threads, importance));
    if (options.progress) options.progress(static_cast<int64_t>(i) + 1, total);
  }
  return harms;
}

}  // namespace cairn::calibrate
