// Recurrent layers on the GPU compared with the CPU's, and a sequence's bytes however its rows are cut into calls.
#include "gpu/same_rows.h"
#include "kernels/recurrent_operations.h"

namespace cairn::gpu {
namespace {

constexpr int32_t kRowsEach = 100;

/// Three sequences of `width` inputs a row, with a state each in the backend's memory, which begins as garbage.
class States {
 public:
  States(kernels::Backend& backend, int64_t state_bytes) : memory_(backend) {
    for (std::byte*& state : states_) {
      const std::vector<uint8_t> ones(static_cast<size_t>(state_bytes), 0xff);
      state = reinterpret_cast<std::byte*>(memory_.put(ones));
    }
  }
  Arrays& memory() { return memory_; }
  std::vector<kernels::StateSlice> slices(std::span<const Part> parts, int32_t drafts) const {
    std::vector<kernels::StateSlice> list;
    int32_t row = 0;
    for (const Part& part : parts) {
      list.push_back({row, part.rows, part.begin, states_[part.sequence]});
      row += part.rows;
    }
    list.back().drafts = drafts;
    return list;
  }

 private:
  Arrays memory_;
  std::array<std::byte*, 3> states_{};
};

/// The rows of `all` [three sequences of kRowsEach, width] that the parts name.
std::vector<float> picked(const std::vector<float>& all, int64_t width, std::span<const Part> parts) {
  std::vector<float> out;
  for (const Part& part : parts) {
    const auto begin = all.begin() + (static_cast<int64_t>(part.sequence) * kRowsEach + part.begin) * width;
    out.insert(out.end(), begin, begin + part.rows * width);
  }
  return out;
}

int64_t rows_of_parts(std::span<const Part> parts) {
  int64_t rows = 0;
  for (const Part& part : parts) rows += part.rows;
  return rows;
}

class GpuRecurrent : public GpuTest {
 protected:
  /// `Operation` has a backend's states, and attend(parts, drafts), what it gives for these rows, the last of which are
  /// drafts.
  template <class Operation>
  void check(const auto& shape, int64_t width, double bound) {
    const Part all[] = {{1, 0, 3}, {0, 0, 61}, {2, 0, 1}};
    const Part more[] = {{0, 61, 2}, {2, 1, 4}, {1, 3, 30}};
    Operation on_gpu(gpu(), shape), on_cpu(cpu(), shape);
    EXPECT_LT(difference(on_gpu.attend(all), on_cpu.attend(all)), bound);
    EXPECT_LT(difference(on_gpu.attend(more), on_cpu.attend(more)), bound);
    // Drafts leave no state: the same rows give the same once more.
    const Part drafted[] = {{2, 5, 2}, {1, 33, 9}}, right[] = {{1, 38, 4}};
    const std::vector<float> out = on_gpu.attend(drafted, 4);
    EXPECT_TRUE(kernels::cpu::same_bits(std::span(out).last(static_cast<size_t>(4 * width)), on_gpu.attend(right)));
    expect_same_rows([&] { return Operation(gpu(), shape); }, three_lengths(kRowsEach, 50), width);
  }
};

struct ConvolutionShape {
  int32_t taps;
  int64_t channels;
  bool silu;
  bool bias;
  bool factors;
};

class Convolution {
 public:
  Convolution(kernels::Backend& backend, const ConvolutionShape& shape)
      : backend_(backend), shape_(shape), states_(backend, 4096 + 64 + 4 * shape.taps * shape.channels) {
    Random random(3);
    params_ = {.taps = shape.taps, .channels = shape.channels, .silu = shape.silu, .state_offset = 64};
    params_.weights = states_.memory().put(random.normals(shape.taps * shape.channels));
    const std::vector<float> bias = random.normals(shape.channels);
    if (shape.bias) params_.bias = states_.memory().put(bias);
    for (std::vector<float>* each : {&x_, &in_, &out_}) *each = random.normals(3 * kRowsEach * shape.channels);
  }
  std::vector<float> attend(std::span<const Part> parts, int32_t drafts = 0) {
    Arrays arrays(backend_);
    const auto put = [&](const std::vector<float>& all) { return arrays.put(picked(all, shape_.channels, parts)); };
    const int64_t elements = rows_of_parts(parts) * shape_.channels;
    float* out = arrays.make(elements);
    backend_.recurrent()->convolve(params_, states_.slices(parts, drafts),
                                   {.x = put(x_),
                                    .input_factors = shape_.factors ? put(in_) : nullptr,
                                    .output_factors = shape_.factors ? put(out_) : nullptr,
                                    .out = out});
    return arrays.get(out, elements);
  }

 private:
  kernels::Backend& backend_;
  ConvolutionShape shape_;
  States states_;
  kernels::ConvolutionParams params_;
  std::vector<float> x_, in_, out_;
};

TEST_F(GpuRecurrent, ConvolutionsAgreeWithTheCpuHoweverTheirRowsAreCut) {
  for (const ConvolutionShape& shape :
       {ConvolutionShape{4, 300, true, false, false}, ConvolutionShape{4, 37, true, true, false},
        ConvolutionShape{3, 129, false, false, true}, ConvolutionShape{1, 16, false, true, false},
        ConvolutionShape{16, 20, true, false, false}}) {
    SCOPED_TRACE(shape.taps);
    check<Convolution>(shape, shape.channels, 1e-6);
  }
}

class DeltaRule {
 public:
  DeltaRule(kernels::Backend& backend, const kernels::DeltaRuleParams& shape)
      : backend_(backend),
        params_(shape),
        states_(backend, shape.state_offset + int64_t{4} * shape.heads * shape.value_dim * shape.key_dim) {
    Random random(5);
    std::vector<float> rate = random.normals(shape.heads);
    for (float& each : rate) each = -std::abs(each);
    params_.rate = states_.memory().put(rate);
    params_.time_bias = states_.memory().put(random.normals(shape.decays()));
    mixed_ = random.normals(3 * kRowsEach * shape.mixed_width());
    alpha_ = random.normals(3 * kRowsEach * shape.decays());
    beta_ = random.normals(int64_t{3} * kRowsEach * shape.heads);
  }
  std::vector<float> attend(std::span<const Part> parts, int32_t drafts = 0) {
    Arrays arrays(backend_);
    const int64_t elements = rows_of_parts(parts) * params_.heads * params_.value_dim;
    float* out = arrays.make(elements);
    backend_.recurrent()->delta_rule(params_, states_.slices(parts, drafts),
                                     {.mixed = arrays.put(picked(mixed_, params_.mixed_width(), parts)),
                                      .alpha = arrays.put(picked(alpha_, params_.decays(), parts)),
                                      .beta = arrays.put(picked(beta_, params_.heads, parts)),
                                      .out = out});
    return arrays.get(out, elements);
  }

 private:
  kernels::Backend& backend_;
  kernels::DeltaRuleParams params_;
  States states_;
  std::vector<float> mixed_, alpha_, beta_;
};

TEST_F(GpuRecurrent, TheDeltaRuleAgreesWithTheCpuHoweverItsRowsAreCut) {
  for (const bool strided : {false, true}) {
    for (const int32_t key_dim : {128, 20, 64}) {
      SCOPED_TRACE(key_dim);
      const kernels::DeltaRuleParams shape{.key_heads = 2,
                                           .heads = 4,
                                           .key_dim = key_dim,
                                           .value_dim = key_dim == 20 ? 11 : 24,
                                           .strided_heads = strided,
                                           .epsilon = 1e-6F,
                                           .state_offset = 128};
      check<DeltaRule>(shape, int64_t{shape.heads} * shape.value_dim, 1e-5);
    }
  }
}

TEST_F(GpuRecurrent, TheDeltaRuleWithADecayForEachChannelAgreesWithTheCpu) {
  for (const int32_t key_dim : {128, 20}) {
    SCOPED_TRACE(key_dim);
    const kernels::DeltaRuleParams shape{.key_heads = 2,
                                         .heads = 2,
                                         .key_dim = key_dim,
                                         .value_dim = key_dim,
                                         .channel_decay = true,
                                         .epsilon = 1e-6F,
                                         .state_offset = 128};
    check<DeltaRule>(shape, int64_t{shape.heads} * shape.value_dim, 1e-5);
  }
}

class Scan {
 public:
  Scan(kernels::Backend& backend, const kernels::ScanParams& shape)
      : backend_(backend),
        params_(shape),
        states_(backend, shape.state_offset + int64_t{4} * shape.heads * shape.head_dim * shape.state_dim) {
    Random random(6);
    std::vector<float> rate = random.normals(shape.heads);
    for (float& each : rate) each = -std::abs(each);
    params_.rate = states_.memory().put(rate);
    params_.skip = states_.memory().put(random.normals(shape.heads));
    params_.time_bias = states_.memory().put(random.normals(shape.heads));
    mixed_ = random.normals(3 * kRowsEach * shape.mixed_width());
    steps_ = random.normals(int64_t{3} * kRowsEach * shape.heads);
  }
  std::vector<float> attend(std::span<const Part> parts, int32_t drafts = 0) {
    Arrays arrays(backend_);
    const int64_t rows = rows_of_parts(parts), elements = rows * params_.heads * params_.head_dim;
    float* out = arrays.make(elements);
    backend_.recurrent()->scan(params_, states_.slices(parts, drafts),
                               {.mixed = arrays.put(picked(mixed_, params_.mixed_width(), parts)),
                                .steps = arrays.put(picked(steps_, params_.heads, parts)),
                                .decays = arrays.make(rows * params_.heads),
                                .out = out});
    return arrays.get(out, elements);
  }

 private:
  kernels::Backend& backend_;
  kernels::ScanParams params_;
  States states_;
  std::vector<float> mixed_, steps_;
};

TEST_F(GpuRecurrent, TheScanAgreesWithTheCpuHoweverItsRowsAreCut) {
  for (const int32_t state_dim : {128, 256, 16, 300}) {
    SCOPED_TRACE(state_dim);
    const kernels::ScanParams shape{
        .heads = 4, .groups = 2, .head_dim = 10, .state_dim = state_dim, .state_offset = 64};
    check<Scan>(shape, int64_t{shape.heads} * shape.head_dim, 1e-5);
  }
}

TEST_F(GpuRecurrent, GatedNormsAgreeWithTheCpu) {
  struct Kind {
    kernels::GateOrder order;
    kernels::Activation activation;
  };
  for (const auto& [order, activation] : {Kind{kernels::GateOrder::kNormFirst, kernels::Activation::kSilu},
                                          Kind{kernels::GateOrder::kGateFirst, kernels::Activation::kSilu},
                                          Kind{kernels::GateOrder::kNormFirst, kernels::Activation::kSigmoid}}) {
    for (const auto& [cols, groups] : {std::pair{128, 1}, {37, 3}, {600, 2}}) {
      SCOPED_TRACE(cols);
      Random random(8);
      const int64_t width = int64_t{cols} * groups;
      const std::vector<float> weight = random.normals(width), x = random.normals(kRowsMax * width),
                               gates = random.normals(kRowsMax * width);
      check_rows(gpu(), cpu(), 1e-5, [&](kernels::Backend& backend, int64_t first, int64_t rows) {
        Arrays arrays(backend);
        float* values = arrays.put(rows_of(x, width, first, rows));
        const float* by = arrays.put(rows_of(gates, width, first, rows));
        backend.recurrent()->gated_norm({.order = order,
                                         .activation = activation,
                                         .cols = cols,
                                         .groups = groups,
                                         .weight = arrays.put(weight),
                                         .epsilon = 1e-5F},
                                        by, rows, values);
        return arrays.get(values, rows * width);
      });
    }
  }
}

}  // namespace
}  // namespace cairn::gpu
