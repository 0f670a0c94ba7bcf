// Compares recurrent layers with their formulas in double precision, row by row, and checks that a sequence's bytes
// depend neither on how its rows are cut into calls, nor on its neighbours, nor on threads.
#include "kernels/recurrent_operations.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/test_support.h"

namespace cairn::kernels::cpu {
namespace {

using Doubles = std::vector<double>;

double exact_softplus(double x) { return std::log1p(std::exp(x)); }
double exact_silu(double x) { return x / (1 + std::exp(-x)); }

double nmse_of(std::span<const float> got, const Doubles& expected) {
  EXPECT_EQ(got.size(), expected.size());
  double error = 0, power = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    error += (got[i] - expected[i]) * (got[i] - expected[i]);
    power += expected[i] * expected[i];
  }
  return error / power;
}

/// A state that holds garbage, as a slot's last user leaves it.
std::vector<float> garbage(int64_t bytes) {
  return std::vector<float>(static_cast<size_t>(bytes) / sizeof(float), std::numeric_limits<float>::quiet_NaN());
}

StateSlice slice_of(std::vector<float>& state, int32_t row_begin, int32_t rows, int32_t position) {
  return {row_begin, rows, position, reinterpret_cast<std::byte*>(state.data())};
}

/// Runs the operation on the rows [begin, begin + rows) of a sequence, at these positions, as the rows of a call: what
/// it gives. Other slices may be in the call.
using RunRows = std::function<std::vector<float>(Backend& backend, std::span<const StateSlice> slices,
                                                 std::span<const int32_t> inputs)>;

/// Bytes of all rows must be those of `whole`: in pieces, some of which are followed by drafts, beside others, on
/// several threads.
void expect_the_same_in_pieces(const Isa& isa, int32_t rows, int64_t width, int64_t state_bytes, const RunRows& run,
                               const std::vector<float>& whole, Random& random) {
  for (const int threads : {1, 3}) {
    const auto backend = make_backend(isa, threads);
    for (const int32_t most : {1, 5, 13}) {
      std::vector<float> state = garbage(state_bytes), first = garbage(state_bytes), last = garbage(state_bytes);
      std::vector<float> all;
      int32_t others = 0;
      for (int32_t begin = 0; begin < rows;) {
        const int32_t count = std::min(rows - begin, most == 1 ? 1 : random.integer(1, most));
        const int32_t before = random.integer(1, 4), after = random.integer(1, 3);
        const int32_t drafts = std::min(rows - begin - count, random.integer(0, 2) * random.integer(1, 4));
        std::vector<int32_t> inputs;
        for (int32_t i = 0; i < before; ++i) inputs.push_back((others + 3 * i) % rows);
        for (int32_t i = 0; i < count + drafts; ++i) inputs.push_back(begin + i);
        for (int32_t i = 0; i < after; ++i) inputs.push_back((others + 5 * i) % rows);
        StateSlice slices[] = {slice_of(first, 0, before, others), slice_of(state, before, count + drafts, begin),
                               slice_of(last, before + count + drafts, after, 0)};
        slices[1].drafts = drafts;
        const std::vector<float> out = run(*backend, slices, inputs);
        const auto rows_out = std::span(out).subspan(before * width, (count + drafts) * width);
        EXPECT_TRUE(same_bits(rows_out.subspan(count * width),
                              std::span(whole).subspan((begin + count) * width, drafts * width)));
        all.insert(all.end(), rows_out.begin(), rows_out.begin() + count * width);
        begin += count;
        others += before;
      }
      EXPECT_TRUE(same_bits(all, whole)) << threads << " threads, up to " << most << " rows at a time";
    }
  }
}

std::vector<float> picked(std::span<const float> rows, int64_t width, std::span<const int32_t> inputs) {
  std::vector<float> out;
  for (const int32_t row : inputs) {
    out.insert(out.end(), rows.begin() + row * width, rows.begin() + (row + 1) * width);
  }
  return out;
}

std::vector<int32_t> all_rows(int32_t rows) {
  std::vector<int32_t> inputs(static_cast<size_t>(rows));
  std::iota(inputs.begin(), inputs.end(), 0);
  return inputs;
}

class RecurrentOps : public ::testing::TestWithParam<Isa> {
 protected:
  static constexpr int32_t kRows = 61;
  Random random_{7};
};
INSTANTIATE_TEST_SUITE_P(Isas, RecurrentOps, ::testing::ValuesIn(isas_under_test()), isa_test_name);

TEST_P(RecurrentOps, AConvolutionIsTheSumOverItsTapsHoweverItsRowsAreCut) {
  struct Case {
    int32_t taps;
    int64_t channels;
    bool silu;
    bool bias;
    bool factors;
  };
  for (const Case& c :
       {Case{4, 300, true, false, false}, Case{4, 37, true, true, false}, Case{3, 519, false, false, true},
        Case{1, 16, false, true, false}, Case{16, 20, true, false, false}}) {
    SCOPED_TRACE(c.taps);
    const std::vector<float> x = random_.normals(kRows * c.channels), weights = random_.normals(c.taps * c.channels),
                             bias = random_.normals(c.channels), in = random_.normals(kRows * c.channels),
                             out_factors = random_.normals(kRows * c.channels);
    const ConvolutionParams params{.taps = c.taps,
                                   .channels = c.channels,
                                   .weights = weights.data(),
                                   .bias = c.bias ? bias.data() : nullptr,
                                   .silu = c.silu,
                                   .state_offset = 64};
    const RunRows run = [&](Backend& backend, std::span<const StateSlice> slices, std::span<const int32_t> inputs) {
      std::vector<float> of_x = picked(x, c.channels, inputs), out(of_x.size());
      const std::vector<float> of_in = picked(in, c.channels, inputs), of_out = picked(out_factors, c.channels, inputs);
      backend.recurrent()->convolve(params, slices,
                                    {.x = of_x.data(),
                                     .input_factors = c.factors ? of_in.data() : nullptr,
                                     .output_factors = c.factors ? of_out.data() : nullptr,
                                     .out = out.data()});
      return out;
    };
    Doubles expected;
    for (int32_t t = 0; t < kRows; ++t) {
      for (int64_t ch = 0; ch < c.channels; ++ch) {
        double sum = c.bias ? bias[ch] : 0;
        for (int32_t j = 0; j < c.taps; ++j) {
          const int32_t from = t - c.taps + 1 + j;
          if (from < 0) continue;
          const int64_t at = from * c.channels + ch;
          sum += double{weights[j * c.channels + ch]} * x[at] * (c.factors ? in[at] : 1);
        }
        if (c.silu) sum = exact_silu(sum);
        expected.push_back(sum * (c.factors ? out_factors[t * c.channels + ch] : 1));
      }
    }
    const int64_t bytes = 64 + state_part_bytes((c.taps - 1) * c.channels);
    std::vector<float> state = garbage(bytes);
    const StateSlice slice = slice_of(state, 0, kRows, 0);
    const auto backend = make_backend(GetParam(), 1);
    const std::vector<float> whole = run(*backend, {&slice, 1}, all_rows(kRows));
    EXPECT_LE(nmse_of(whole, expected), 1e-13);
    EXPECT_TRUE(std::isnan(state[0])) << "what lies before the part is not touched";
    expect_the_same_in_pieces(GetParam(), kRows, c.channels, bytes, run, whole, random_);
  }
}

struct DeltaCase {
  int32_t key_heads;
  int32_t heads;
  int32_t key_dim;
  int32_t value_dim;
  bool strided;
  bool channel_decay = false;
};

class DeltaInputs {
 public:
  DeltaInputs(const DeltaCase& c, int32_t rows, Random& random) : rows_(rows) {
    for (int32_t h = 0; h < c.heads; ++h) rate_.push_back(-std::exp(random.normal()));
    params_ = {.key_heads = c.key_heads,
               .heads = c.heads,
               .key_dim = c.key_dim,
               .value_dim = c.value_dim,
               .strided_heads = c.strided,
               .channel_decay = c.channel_decay,
               .epsilon = 1e-6f,
               .rate = rate_.data(),
               .state_offset = 128};
    time_bias_ = random.normals(params_.decays());
    params_.time_bias = time_bias_.data();
    mixed_ = random.normals(rows * params_.mixed_width());
    alpha_ = random.normals(rows * params_.decays());
    beta_ = random.normals(int64_t{rows} * c.heads);
  }

  int64_t width() const { return int64_t{params_.heads} * params_.value_dim; }
  int64_t state_bytes() const { return 128 + state_part_bytes(width() * params_.key_dim); }

  std::vector<float> run(Backend& backend, std::span<const StateSlice> slices, std::span<const int32_t> inputs) const {
    std::vector<float> mixed = picked(mixed_, params_.mixed_width(), inputs),
                       alpha = picked(alpha_, params_.decays(), inputs), beta = picked(beta_, params_.heads, inputs),
                       out(inputs.size() * static_cast<size_t>(width()));
    backend.recurrent()->delta_rule(
        params_, slices, {.mixed = mixed.data(), .alpha = alpha.data(), .beta = beta.data(), .out = out.data()});
    return out;
  }

  /// The recurrence as it is written, one operation on the state after the other.
  Doubles expected() const {
    Doubles out(static_cast<size_t>(rows_ * width()));
    for (int32_t h = 0; h < params_.heads; ++h) {
      Doubles state(static_cast<size_t>(params_.key_dim) * params_.value_dim);  // [key_dim, value_dim]
      for (int32_t t = 0; t < rows_; ++t) step(h, t, state, out);
    }
    return out;
  }

 private:
  Doubles unit(const float* x, double scale) const {
    double sum = 0;
    for (int32_t i = 0; i < params_.key_dim; ++i) sum += double{x[i]} * x[i];
    Doubles out;
    for (int32_t i = 0; i < params_.key_dim; ++i)
      out.push_back(scale * x[i] / std::sqrt(sum + double{params_.epsilon}));
    return out;
  }
  void step(int32_t h, int32_t t, Doubles& state, Doubles& out) const {
    const int32_t key_head = params_.strided_heads ? h % params_.key_heads : h / (params_.heads / params_.key_heads);
    const float* row = mixed_.data() + t * params_.mixed_width();
    const int32_t dk = params_.key_dim, dv = params_.value_dim;
    const Doubles q = unit(row + key_head * dk, 1 / std::sqrt(static_cast<double>(dk)));
    const Doubles k = unit(row + (params_.key_heads + key_head) * dk, 1);
    const float* v = row + 2 * params_.key_heads * dk + h * dv;
    const int64_t gate = int64_t{t} * params_.heads + h;
    const double beta = 1 / (1 + std::exp(-double{beta_[gate]}));
    for (int32_t i = 0; i < dk; ++i) {
      const int64_t at = params_.channel_decay ? int64_t{h} * dk + i : h;
      const double alpha = double{alpha_[t * params_.decays() + at]} + time_bias_[at];
      for (int32_t j = 0; j < dv; ++j) state[i * dv + j] *= std::exp(rate_[h] * exact_softplus(alpha));
    }
    for (int32_t j = 0; j < dv; ++j) {
      double prediction = 0;
      for (int32_t i = 0; i < dk; ++i) prediction += state[i * dv + j] * k[i];
      const double change = beta * (v[j] - prediction);
      double read = 0;
      for (int32_t i = 0; i < dk; ++i) {
        state[i * dv + j] += k[i] * change;
        read += state[i * dv + j] * q[i];
      }
      out[t * width() + h * dv + j] = read;
    }
  }

  int32_t rows_;
  std::vector<float> rate_, time_bias_, mixed_, alpha_, beta_;
  DeltaRuleParams params_;
};

TEST_P(RecurrentOps, TheDeltaRuleIsTheRecurrenceOfEveryRowHoweverItsRowsAreCut) {
  for (const DeltaCase& c :
       {DeltaCase{2, 4, 128, 128, true}, DeltaCase{2, 4, 128, 40, false}, DeltaCase{1, 3, 37, 5, false},
        DeltaCase{2, 2, 16, 70, true}, DeltaCase{1, 2, 200, 33, false}, DeltaCase{4, 4, 128, 128, false, true},
        DeltaCase{3, 3, 37, 5, false, true}, DeltaCase{1, 2, 200, 33, true, true}}) {
    SCOPED_TRACE(fmt::format("{}{}", c.key_dim, c.channel_decay ? ", a decay for each channel" : ""));
    const DeltaInputs inputs(c, kRows, random_);
    const RunRows run = [&](Backend& backend, std::span<const StateSlice> slices, std::span<const int32_t> rows) {
      return inputs.run(backend, slices, rows);
    };
    std::vector<float> state = garbage(inputs.state_bytes());
    const StateSlice slice = slice_of(state, 0, kRows, 0);
    const auto backend = make_backend(GetParam(), 1);
    const std::vector<float> whole = run(*backend, {&slice, 1}, all_rows(kRows));
    EXPECT_LE(nmse_of(whole, inputs.expected()), 1e-12);
    EXPECT_TRUE(std::isnan(state[31])) << "what lies before the part is not touched";
    expect_the_same_in_pieces(GetParam(), kRows, inputs.width(), inputs.state_bytes(), run, whole, random_);
  }
}

struct ScanCase {
  int32_t heads;
  int32_t groups;
  int32_t head_dim;
  int32_t state_dim;
};

TEST_P(RecurrentOps, TheScanIsTheRecurrenceOfEveryRowHoweverItsRowsAreCut) {
  for (const ScanCase& c : {ScanCase{4, 2, 64, 128}, ScanCase{3, 1, 70, 256}, ScanCase{4, 4, 9, 21}}) {
    SCOPED_TRACE(c.state_dim);
    std::vector<float> rate;
    for (int32_t h = 0; h < c.heads; ++h) rate.push_back(-std::exp(random_.normal()));
    const std::vector<float> skip = random_.normals(c.heads), time_bias = random_.normals(c.heads);
    const ScanParams params{.heads = c.heads,
                            .groups = c.groups,
                            .head_dim = c.head_dim,
                            .state_dim = c.state_dim,
                            .rate = rate.data(),
                            .skip = skip.data(),
                            .time_bias = time_bias.data(),
                            .state_offset = 64};
    const int64_t inner = int64_t{c.heads} * c.head_dim;
    const std::vector<float> mixed = random_.normals(kRows * params.mixed_width()),
                             steps = random_.normals(int64_t{kRows} * c.heads);
    const RunRows run = [&](Backend& backend, std::span<const StateSlice> slices, std::span<const int32_t> inputs) {
      const std::vector<float> of_mixed = picked(mixed, params.mixed_width(), inputs);
      std::vector<float> of_steps = picked(steps, c.heads, inputs), decays(of_steps.size());
      std::vector<float> out(inputs.size() * static_cast<size_t>(inner));
      backend.recurrent()->scan(
          params, slices,
          {.mixed = of_mixed.data(), .steps = of_steps.data(), .decays = decays.data(), .out = out.data()});
      return out;
    };
    Doubles expected(static_cast<size_t>(kRows * inner));
    for (int32_t h = 0; h < c.heads; ++h) {
      Doubles state(static_cast<size_t>(c.head_dim) * c.state_dim);
      for (int32_t t = 0; t < kRows; ++t) {
        const float* row = mixed.data() + t * params.mixed_width();
        const float* b = row + inner + h / (c.heads / c.groups) * c.state_dim;
        const float* of_c = b + c.groups * c.state_dim;
        const double step = exact_softplus(double{steps[t * c.heads + h]} + time_bias[h]);
        for (int32_t p = 0; p < c.head_dim; ++p) {
          const double x = row[h * c.head_dim + p];
          double read = skip[h] * x;
          for (int32_t i = 0; i < c.state_dim; ++i) {
            double& s = state[p * c.state_dim + i];
            s = std::exp(step * rate[h]) * s + step * x * b[i];
            read += s * of_c[i];
          }
          expected[t * inner + h * c.head_dim + p] = read;
        }
      }
    }
    const int64_t bytes = 64 + state_part_bytes(inner * c.state_dim);
    std::vector<float> state = garbage(bytes);
    const StateSlice slice = slice_of(state, 0, kRows, 0);
    const auto backend = make_backend(GetParam(), 1);
    const std::vector<float> whole = run(*backend, {&slice, 1}, all_rows(kRows));
    EXPECT_LE(nmse_of(whole, expected), 1e-12);
    expect_the_same_in_pieces(GetParam(), kRows, inner, bytes, run, whole, random_);
  }
}

TEST_P(RecurrentOps, AGateActsBeforeOrBehindTheNorm) {
  constexpr int64_t kCols = 50, kGroups = 3, kAll = kCols * kGroups;
  const auto backend = make_backend(GetParam(), 2);
  const std::vector<float> x = random_.normals(kRows * kAll), gates = random_.normals(kRows * kAll),
                           weight = random_.normals(kAll);
  struct Case {
    GateOrder order;
    Activation activation;
  };
  for (const auto& [order, activation] :
       {Case{GateOrder::kNormFirst, Activation::kSilu}, Case{GateOrder::kGateFirst, Activation::kSilu},
        Case{GateOrder::kNormFirst, Activation::kSigmoid}}) {
    const bool gate_first = order == GateOrder::kGateFirst;
    const auto act = [&](double g) { return activation == Activation::kSilu ? exact_silu(g) : exact_silu(g) / g; };
    Doubles expected;
    for (int64_t begin = 0; begin < kRows * kAll; begin += kCols) {
      double sum = 0;
      Doubles values;
      for (int64_t i = begin; i < begin + kCols; ++i) {
        values.push_back(gate_first ? x[i] * act(gates[i]) : x[i]);
        sum += values.back() * values.back();
      }
      const double factor = 1 / std::sqrt(sum / kCols + 1e-5);
      for (int64_t i = 0; i < kCols; ++i) {
        expected.push_back(values[i] * factor * weight[(begin + i) % kAll] * (gate_first ? 1 : act(gates[begin + i])));
      }
    }
    std::vector<float> out = x;
    backend->recurrent()->gated_norm({.order = order,
                                      .activation = activation,
                                      .cols = kCols,
                                      .groups = kGroups,
                                      .weight = weight.data(),
                                      .epsilon = 1e-5f},
                                     gates.data(), kRows, out.data());
    EXPECT_LE(nmse_of(out, expected), 1e-13);
  }
}

}  // namespace
}  // namespace cairn::kernels::cpu
