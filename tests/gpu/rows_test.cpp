// Compares operations on rows on the GPU with those of the CPU: sizes that are not multiples of any tile, and rows that
// must not affect each other.
#include <array>

#include "gpu/lab.h"

namespace cairn::gpu {
namespace {

// Widths shorter than a warp, not a multiple of any vector, usual ones, and more than a block of threads reads at once.
constexpr int64_t kWidths[] = {7, 64, 333, 1024, kEmulated ? 1032 : 4096, kEmulated ? 2051 : 5121};

class GpuRows : public GpuTest {
 protected:
  void check(double bound, const RowOperation& operation) { check_rows(gpu(), cpu(), bound, operation); }
  /// For operations of one input and one output of the same width.
  void check_map(double bound,
                 const std::function<void(kernels::Backend&, Arrays&, const float*, int64_t, int64_t, float*)>& map) {
    for (const int64_t cols : kWidths) {
      SCOPED_TRACE(std::to_string(cols) + " columns");
      Random random(static_cast<uint32_t>(cols));
      const std::vector<float> x = random.normals(kRowsMax * cols, 3);
      for (const bool in_place : {false, true}) {
        check(bound, [&](kernels::Backend& backend, int64_t first, int64_t rows) {
          Arrays arrays(backend);
          float* in = arrays.put(rows_of(x, cols, first, rows));
          float* out = in_place ? in : arrays.make(rows * cols);
          map(backend, arrays, in, rows, cols, out);
          return arrays.get(out, rows * cols);
        });
      }
    }
  }
};

TEST_F(GpuRows, NormsAgreeWithTheCpu) {
  Random random(1);
  const std::vector<float> weight = random.normals(kWidths[5]), bias = random.normals(kWidths[5]);
  for (const bool weighted : {false, true}) {
    check_map(1e-6,
              [&](kernels::Backend& backend, Arrays& arrays, const float* x, int64_t rows, int64_t cols, float* out) {
                backend.rms_norm(x, weighted ? arrays.put(weight) : nullptr, 1e-6f, rows, cols, out);
              });
  }
  for (const bool biased : {false, true}) {
    check_map(1e-5,
              [&](kernels::Backend& backend, Arrays& arrays, const float* x, int64_t rows, int64_t cols, float* out) {
                backend.layer_norm(x, arrays.put(weight), biased ? arrays.put(bias) : nullptr, 1e-5f, rows, cols, out);
              });
  }
}

TEST_F(GpuRows, LayerNormsOfHeadsAgreeWithTheCpu) {
  constexpr int64_t kHeads = 3;
  for (const int64_t cols : {int64_t{64}, int64_t{50}, int64_t{1'500}}) {
    SCOPED_TRACE(std::to_string(cols) + " columns");
    Random random(static_cast<uint32_t>(cols));
    const std::vector<float> weight = random.normals(kHeads * cols), x = random.normals(7 * kHeads * cols, 3);
    const auto normed = [&](kernels::Backend& backend) {
      Arrays arrays(backend);
      float* const rows = arrays.put(x);
      backend.layer_norm_heads(rows, arrays.put(weight), 1e-5f, 7, kHeads, cols, rows);
      return arrays.get(rows, std::ssize(x));
    };
    EXPECT_LE(difference(normed(gpu()), normed(cpu())), 1e-5);
  }
}

// Rows of all lengths for which kernels differ: also the same rows at addresses that are not aligned.
TEST_F(GpuRows, LongRowsAgreeWithTheCpuWhateverTheirAddress) {
  constexpr int64_t kRows = 17;
  for (const int64_t cols : {100, 300, 1'500, 3'000, 8'000, 12'004, 28'672, 33'000}) {
    SCOPED_TRACE(std::to_string(cols) + " columns");
    Random random(static_cast<uint32_t>(cols));
    const std::vector<float> x = random.normals(kRows * cols, 3), y = random.normals(kRows * cols),
                             weight = random.normals(cols);
    const auto all_of = [&](kernels::Backend& backend, int64_t first, int64_t rows, int64_t offset) {
      Arrays arrays(backend);
      const auto put = [&](std::span<const float> values) {
        float* const at = arrays.make(std::ssize(values) + offset) + offset;
        backend.write(values.data(), static_cast<int64_t>(values.size_bytes()), at);
        return at;
      };
      float* const sum = put(rows_of(x, cols, first, rows));
      float* const steered = put(rows_of(x, cols, first, rows));
      const float* const in = put(rows_of(x, cols, first, rows));
      const float* const added = put(rows_of(y, cols, first, rows));
      const float* const by = put(weight);
      float* const outs[] = {sum, steered, arrays.make(rows * cols + offset) + offset,
                             arrays.make(rows * cols + offset) + offset, arrays.make(rows * cols + offset) + offset};
      backend.add_rms_norm(sum, added, 0.5f, by, 1e-6f, rows, cols, outs[2]);
      backend.steer(steered, by, 0.001f, rows, cols);
      backend.layer_norm(in, by, by, 1e-5f, rows, cols, outs[3]);
      backend.gate(kernels::Activation::kSilu, in, added, rows, cols, outs[4]);
      std::vector<float> all;
      for (const float* out : outs) {
        const std::vector<float> values = arrays.get(out, rows * cols);
        all.insert(all.end(), values.begin(), values.end());
      }
      return all;
    };
    const std::vector<float> together = all_of(gpu(), 0, kRows, 0);
    EXPECT_LE(difference(together, all_of(cpu(), 0, kRows, 0)), 1e-5);
    EXPECT_TRUE(kernels::cpu::same_bits(together, all_of(gpu(), 0, kRows, 1)));
    const std::vector<float> alone = all_of(gpu(), 1, 1, 0);
    for (int64_t i = 0; i < std::ssize(alone) / cols; ++i) {
      EXPECT_TRUE(kernels::cpu::same_bits(rows_of(alone, cols, i, 1), rows_of(together, cols, i * kRows + 1, 1))) << i;
    }
  }
}

TEST_F(GpuRows, FusedAddAndNormGivesTheBitsOfBothOperations) {
  for (const int64_t cols : kWidths) {
    SCOPED_TRACE(std::to_string(cols) + " columns");
    Random random(static_cast<uint32_t>(cols));
    const std::vector<float> x = random.normals(kRowsMax * cols, 3), y = random.normals(kRowsMax * cols),
                             weight = random.normals(cols);
    // Both outputs, and the bits of the two operations alone.
    check(1e-6, [&](kernels::Backend& backend, int64_t first, int64_t rows) {
      Arrays arrays(backend);
      float* sum = arrays.put(rows_of(x, cols, first, rows));
      float* apart = arrays.put(rows_of(x, cols, first, rows));
      const float* added = arrays.put(rows_of(y, cols, first, rows));
      const float* by = arrays.put(weight);
      float* out = arrays.make(rows * cols);
      float* out_apart = arrays.make(rows * cols);
      backend.add_rms_norm(sum, added, 0.5f, by, 1e-6f, rows, cols, out);
      backend.add(apart, added, rows * cols, 0.5f);
      backend.rms_norm(apart, by, 1e-6f, rows, cols, out_apart);
      std::vector<float> both;
      for (int64_t r = 0; r < rows; ++r) {
        for (float* of : {sum, out}) {
          const std::vector<float> row = arrays.get<float>(of + r * cols, cols);
          both.insert(both.end(), row.begin(), row.end());
        }
      }
      EXPECT_TRUE(kernels::cpu::same_bits(arrays.get(sum, rows * cols), arrays.get(apart, rows * cols)));
      EXPECT_TRUE(kernels::cpu::same_bits(arrays.get(out, rows * cols), arrays.get(out_apart, rows * cols)));
      return both;
    });
  }
}

TEST_F(GpuRows, GatesAgreeWithTheCpu) {
  for (const kernels::Activation activation :
       {kernels::Activation::kSilu, kernels::Activation::kGeluTanh, kernels::Activation::kGeluErf,
        kernels::Activation::kRelu, kernels::Activation::kReluSquared, kernels::Activation::kSigmoid,
        kernels::Activation::kClampedSwiglu}) {
    SCOPED_TRACE(static_cast<int>(activation));
    Random random(2);
    const std::vector<float> up = random.normals(kRowsMax * kWidths[5]);
    check_map(1e-5, [&](kernels::Backend& backend, Arrays&, const float* x, int64_t rows, int64_t cols, float* out) {
      backend.gate(activation, x, nullptr, rows, cols, out);
    });
    check_map(1e-5,
              [&](kernels::Backend& backend, Arrays& arrays, const float* x, int64_t rows, int64_t cols, float* out) {
                // The result of each row is the same wherever it is in the batch.
                std::vector<float> same;
                for (int64_t r = 0; r < rows; ++r) same.insert(same.end(), up.begin(), up.begin() + cols);
                backend.gate(activation, x, arrays.put(same), rows, cols, out);
              });
  }
}

TEST_F(GpuRows, GatesOfExtremeNumbersAreFinite) {
  const std::vector<float> x = {-1e30f, -100, -88.8f, -20, -0.0f, 0, 1e-30f, 20, 88.8f, 100, 1e15f};
  for (const kernels::Activation activation : {kernels::Activation::kSilu, kernels::Activation::kGeluTanh,
                                               kernels::Activation::kGeluErf, kernels::Activation::kClampedSwiglu}) {
    Arrays on_gpu(gpu()), on_cpu(cpu());
    const auto n = std::ssize(x);
    float* out = on_gpu.make(n);
    float* expected = on_cpu.make(n);
    gpu().gate(activation, on_gpu.put(x), nullptr, 1, n, out);
    cpu().gate(activation, on_cpu.put(x), nullptr, 1, n, expected);
    const std::vector<float> a = on_gpu.get(out, n), b = on_cpu.get(expected, n);
    for (int64_t i = 0; i < n; ++i) EXPECT_NEAR(a[i], b[i], 1e-5 * std::abs(b[i]) + 1e-6) << x[i];
  }
}

TEST_F(GpuRows, SumsAndScalesAgreeWithTheCpu) {
  Random random(3);
  const std::vector<float> y = random.normals(kWidths[5]);
  const auto repeated = [](const std::vector<float>& row, int64_t rows, int64_t cols) {
    std::vector<float> all;
    for (int64_t r = 0; r < rows; ++r) all.insert(all.end(), row.begin(), row.begin() + cols);
    return all;
  };
  // The operation works in place only, so the input is copied.
  const auto copied = [](kernels::Backend& backend, const float* x, int64_t n, float* out) {
    if (x != out) backend.copy(x, n * static_cast<int64_t>(sizeof(float)), out);
  };
  check_map(1e-6,
            [&](kernels::Backend& backend, Arrays& arrays, const float* x, int64_t rows, int64_t cols, float* out) {
              copied(backend, x, rows * cols, out);
              backend.add(out, arrays.put(repeated(y, rows, cols)), rows * cols, 0.7f);
            });
  check_map(1e-6, [&](kernels::Backend& backend, Arrays&, const float* x, int64_t rows, int64_t cols, float* out) {
    copied(backend, x, rows * cols, out);
    backend.scale_and_softcap(out, rows * cols, 0.3f, 0);
  });
  check_map(1e-5, [&](kernels::Backend& backend, Arrays&, const float* x, int64_t rows, int64_t cols, float* out) {
    copied(backend, x, rows * cols, out);
    backend.scale_and_softcap(out, rows * cols, 2, 5);
  });
  check_map(0, [&](kernels::Backend& backend, Arrays&, const float* x, int64_t rows, int64_t cols, float* out) {
    copied(backend, x, rows * cols, out);
    backend.clamp(out, rows * cols, -1, 2.5f);
  });
  check_map(1e-5,
            [&](kernels::Backend& backend, Arrays& arrays, const float* x, int64_t rows, int64_t cols, float* out) {
              copied(backend, x, rows * cols, out);
              backend.steer(out, arrays.put(y), 0.01f, rows, cols);
            });
}

TEST_F(GpuRows, RowsWithSeparateFactorsAgreeWithTheCpu) {
  Random random(4);
  const std::vector<float> factors = random.normals(kRowsMax);
  for (const int64_t cols : kWidths) {
    SCOPED_TRACE(cols);
    const std::vector<float> x = random.normals(kRowsMax * cols);
    check(1e-6, [&](kernels::Backend& backend, int64_t first, int64_t rows) {
      Arrays arrays(backend);
      float* at = arrays.put(rows_of(x, cols, first, rows));
      backend.scale_rows(at, rows_of(factors, 1, first, rows), cols);
      return arrays.get(at, rows * cols);
    });
    check(1e-6, [&](kernels::Backend& backend, int64_t first, int64_t rows) {
      Arrays arrays(backend);
      float* at = arrays.put(rows_of(x, cols, first, rows));
      backend.sigmoid_scale_rows(at, arrays.put(rows_of(factors, 1, first, rows)), rows, cols);
      return arrays.get(at, rows * cols);
    });
  }
}

TEST_F(GpuRows, RowsAndColumnsAreCopiedUnchanged) {
  Random random(5);
  for (const int64_t cols : {5, 32, 333}) {
    SCOPED_TRACE(cols);
    const std::vector<float> x = random.normals(kRowsMax * cols);
    std::vector<int32_t> numbers;
    for (int64_t i = 0; i < kRowsMax; ++i) numbers.push_back(random.integer(0, kRowsMax - 1));
    check(0, [&](kernels::Backend& backend, int64_t first, int64_t rows) {
      Arrays arrays(backend);
      float* out = arrays.make(rows * cols);
      backend.gather_rows(arrays.put(x), rows_of(numbers, 1, first, rows), cols, out);
      return arrays.get(out, rows * cols);
    });
  }
  // Widths or offsets that are not multiples of a vector.
  for (const auto& [from, to, cols] : {std::array<int64_t, 3>{57, 91, 41}, {64, 96, 40}}) {
    SCOPED_TRACE(cols);
    const std::vector<float> x = random.normals(kRowsMax * from);
    check(0, [&](kernels::Backend& backend, int64_t first, int64_t rows) {
      Arrays arrays(backend);
      float* out = arrays.make(rows * to);
      backend.copy_columns(arrays.put(rows_of(x, from, first, rows)) + 3, from, out + 7, to, rows, cols);
      return arrays.get(out, rows * to);
    });
  }
}

// Far positions, for which angles need double precision.
TEST_F(GpuRows, RopeAgreesWithTheCpu) {
  Random random(6);
  std::vector<int32_t> positions;
  for (int64_t i = 0; i < kRowsMax; ++i) positions.push_back(random.integer(0, 1'000'000));
  for (const int32_t dims : {2, 20, 64, 128}) {
    SCOPED_TRACE(dims);
    std::vector<double> frequencies;
    for (int32_t i = 0; i < dims / 2; ++i) frequencies.push_back(std::pow(10'000.0, -2.0 * i / dims));
    const auto table_of = [&](kernels::Backend& backend, Arrays& arrays, int64_t first, int64_t rows) {
      float* table = arrays.make(rows * dims);
      backend.rope_table(rows_of(positions, 1, first, rows), frequencies, 1.5f, table);
      return table;
    };
    check(1e-6, [&](kernels::Backend& backend, int64_t first, int64_t rows) {
      Arrays arrays(backend);
      return arrays.get(table_of(backend, arrays, first, rows), rows * dims);
    });
    for (const kernels::RopeStyle style : {kernels::RopeStyle::kInterleaved, kernels::RopeStyle::kNeoX}) {
      constexpr int32_t kHeads = 3;
      const int32_t head_dim = dims + 6;  // the elements after them are not rotated
      const int64_t cols = int64_t{kHeads} * head_dim;
      const std::vector<float> x = random.normals(kRowsMax * cols);
      check(1e-6, [&](kernels::Backend& backend, int64_t first, int64_t rows) {
        Arrays arrays(backend);
        // Three arrays with 3, 2 and 1 heads a row.
        std::vector<kernels::RopeHeads> rotated;
        for (int32_t heads = kHeads; heads > 0; --heads) {
          std::vector<float> part;
          for (int64_t row = first; row < first + rows; ++row) {
            part.insert(part.end(), x.begin() + row * cols, x.begin() + row * cols + int64_t{heads} * head_dim);
          }
          rotated.push_back({arrays.put(part), heads});
        }
        backend.rope(style, table_of(backend, arrays, first, rows), dims, rotated, rows, head_dim);
        std::vector<float> all;
        for (int64_t row = 0; row < rows; ++row) {
          for (const auto& [at, heads] : rotated) {
            const int64_t width = int64_t{heads} * head_dim;
            const std::vector<float> turned = arrays.get<float>(at + row * width, width);
            all.insert(all.end(), turned.begin(), turned.end());
          }
        }
        return all;
      });
    }
  }
}

struct RouteCase {
  kernels::RouteParams params;
  bool biased = false;
};

// Logits far enough apart that rounding changes no choice; ties have a test of their own.
TEST_F(GpuRows, RoutesChooseTheSameExperts) {
  const RouteCase cases[] = {
      {{.experts = 8, .used = 2, .renormalise = true}},
      {{.experts = 60, .used = 4, .scale = 2.5f}},
      {{.experts = 33, .used = 5, .renormalise = true, .score = kernels::RouteScore::kSigmoid}, true},
      {{.experts = 256,
        .used = 8,
        .renormalise = true,
        .score = kernels::RouteScore::kSigmoid,
        .groups = 8,
        .groups_used = 4},
       true},
      {{.experts = 160, .used = 6, .scale = 16, .groups = 8, .groups_used = 3, .groups_by_best = true}},
      {{.experts = 40, .used = 6, .renormalise = true, .score = kernels::RouteScore::kSqrtSoftplus}},
      {{.experts = 16, .used = 2, .score = kernels::RouteScore::kSparseMixer, .jitter = 0.01f}},
      {{.experts = 48, .used = 2, .score = kernels::RouteScore::kSparseMixer, .jitter = 0.2f}},
  };
  for (const RouteCase& each : cases) {
    SCOPED_TRACE(each.params.experts);
    Random random(7);
    const int32_t experts = each.params.experts, used = each.params.used;
    const std::vector<float> logits = random.normals(kRowsMax * experts, 2), bias = random.normals(experts, 0.1f);
    check(1e-5, [&](kernels::Backend& backend, int64_t first, int64_t rows) {
      Arrays arrays(backend);
      kernels::RouteParams params = each.params;
      if (each.biased) params.bias = arrays.put(bias);
      auto* ids = arrays.make<int32_t>(rows * used);
      float* weights = arrays.make(rows * used);
      backend.route(params, arrays.put(rows_of(logits, experts, first, rows)), static_cast<int32_t>(rows), ids,
                    weights);
      std::vector<float> both;
      const std::vector<int32_t> chosen = arrays.get(ids, rows * used);
      const std::vector<float> shares = arrays.get(weights, rows * used);
      for (int64_t i = 0; i < rows * used; ++i) {
        both.push_back(static_cast<float>(chosen[i]));
        both.push_back(shares[i]);
      }
      return both;
    });
  }
}

TEST_F(GpuRows, OfEqualExpertsTheFirstIsChosen) {
  Arrays arrays(gpu());
  const std::vector<float> logits = {1, 3, 2, 3, 3, 0, 2, 1};
  auto* ids = arrays.make<int32_t>(4);
  float* weights = arrays.make(4);
  gpu().route({.experts = 8, .used = 4, .renormalise = true}, arrays.put(logits), 1, ids, weights);
  EXPECT_EQ(arrays.get(ids, 4), (std::vector<int32_t>{1, 3, 4, 2}));
}

TEST_F(GpuRows, MoeCombineAgreesWithTheCpu) {
  Random random(8);
  constexpr int32_t kUsed = 5;
  for (const int64_t cols : {7, 256, 333}) {
    const std::vector<float> y = random.normals(kRowsMax * kUsed * cols), weights = random.normals(kRowsMax * kUsed);
    check(1e-6, [&](kernels::Backend& backend, int64_t first, int64_t rows) {
      Arrays arrays(backend);
      float* out = arrays.make(rows * cols);
      backend.moe_combine(arrays.put(rows_of(y, kUsed * cols, first, rows)),
                          arrays.put(rows_of(weights, kUsed, first, rows)), static_cast<int32_t>(rows), kUsed, cols,
                          out);
      return arrays.get(out, rows * cols);
    });
  }
}

}  // namespace
}  // namespace cairn::gpu
