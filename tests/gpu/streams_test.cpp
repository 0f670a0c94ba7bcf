// Operations of DeepSeek V4 on the GPU compared with the CPU's: hyper-connections and the KV compressor.
#include "gpu/lab.h"

namespace cairn::gpu {
namespace {

class GpuStreams : public GpuTest {};

TEST_F(GpuStreams, HyperConnectionWeightsAgreeWithTheCpu) {
  for (const int32_t streams : {1, 4, 7, 8}) {
    SCOPED_TRACE(streams);
    const int32_t shares = kernels::stream_shares(streams);
    Random random(1);
    const std::vector<float> scale = random.normals(3), base = random.normals(shares);
    const std::vector<float> logits = random.normals(int64_t{kRowsMax} * shares, 3);
    const std::vector<float> gates = random.normals(int64_t{kRowsMax} * streams, 3);
    const auto params = [&](Arrays& arrays, int32_t rounds) {
      return kernels::StreamParams{streams, rounds, 1e-3F, arrays.put(scale), arrays.put(base)};
    };
    for (const int32_t rounds : {1, 20}) {
      check_rows(gpu(), cpu(), 1e-6, [&](kernels::Backend& backend, int64_t first, int64_t rows) {
        Arrays arrays(backend);
        float* out = arrays.make(rows * shares);
        const float* x = arrays.put(rows_of(logits, shares, first, rows));
        backend.hyper_connections()->hyper_connection_weights(params(arrays, rounds), x, rows, out);
        return arrays.get(out, rows * shares);
      });
    }
    check_rows(gpu(), cpu(), 1e-6, [&](kernels::Backend& backend, int64_t first, int64_t rows) {
      Arrays arrays(backend);
      float* out = arrays.make(rows * streams);
      const float* x = arrays.put(rows_of(gates, streams, first, rows));
      backend.hyper_connections()->gate_streams(params(arrays, 0), x, rows, out);
      return arrays.get(out, rows * streams);
    });
  }
}

TEST_F(GpuStreams, ReadAndWriteAgreeWithTheCpu) {
  for (const auto& [streams, cols] : {std::pair{4, 67}, {4, 64}, {8, 1'100}, {1, 5}}) {
    SCOPED_TRACE(testing::Message() << streams << " streams of " << cols);
    const int32_t shares = kernels::stream_shares(streams);
    Random random(2);
    const std::vector<float> x = random.normals(int64_t{kRowsMax} * streams * cols);
    const std::vector<float> y = random.normals(int64_t{kRowsMax} * cols);
    const std::vector<float> mix = random.normals(int64_t{kRowsMax} * shares);
    check_rows(gpu(), cpu(), 1e-6, [&](kernels::Backend& backend, int64_t first, int64_t rows) {
      Arrays arrays(backend);
      const float* there = arrays.put(rows_of(x, int64_t{streams} * cols, first, rows));
      const float* weights = arrays.put(rows_of(mix, shares, first, rows));
      float* out = arrays.make(rows * cols);
      backend.hyper_connections()->hyper_connection_read(there, weights, shares, streams, rows, cols, out);
      return arrays.get(out, rows * cols);
    });
    check_rows(gpu(), cpu(), 1e-6, [&](kernels::Backend& backend, int64_t first, int64_t rows) {
      Arrays arrays(backend);
      const float* there = arrays.put(rows_of(x, int64_t{streams} * cols, first, rows));
      const float* block = arrays.put(rows_of(y, cols, first, rows));
      const float* weights = arrays.put(rows_of(mix, shares, first, rows));
      float* out = arrays.make(rows * streams * cols);
      backend.hyper_connections()->hyper_connection_write(there, block, weights, streams, rows, cols, out);
      return arrays.get(out, rows * streams * cols);
    });
  }
}

struct CompressorShape {
  int32_t ratio = 4;
  int32_t dim = 40;
  bool overlapping = false;
};

/// Two sequences in one memory, with interleaved pages, and their compressed rows on a backend.
class Compressor {
 public:
  static constexpr int32_t kTokens = 400;

  Compressor(kernels::Backend& backend, const CompressorShape& shape)
      : backend_(backend), memory_(backend), params_{shape.ratio, shape.dim, shape.overlapping} {
    Random random(3);
    params_.biases = memory_.put(random.normals(int64_t{shape.ratio} * params_.width()));
    constexpr int32_t kPages = (kTokens + kernels::kPageTokens - 1) / kernels::kPageTokens;
    for (int32_t page = 0; page < kPages; ++page) {
      for (size_t s = 0; s < 2; ++s) pages_[s].push_back(PageId{2 * page + static_cast<int32_t>(s)});
    }
    const kernels::AttentionSlice all[] = {{0, kTokens, 0, pages_[0]}, {kTokens, kTokens, 0, pages_[1]}};
    for (kernels::KvView* view : {&values_, &scores_}) {
      *view = {.type = kernels::KvType::kF32, .kv_heads = 1, .key_dim = params_.width()};
      view->page_stride = (kernels::kPageTokens * kernels::kv_row_bytes(view->type, view->key_dim) + 63) / 64 * 64;
      const std::vector<uint8_t> ones(static_cast<size_t>(view->page_stride * 2 * kPages), 0xff);
      view->base = reinterpret_cast<std::byte*>(memory_.put(ones));
      const std::vector<float> rows = random.normals(int64_t{2} * kTokens * params_.width());
      backend.mla()->store_rows(*view, all, memory_.put(rows));
    }
  }

  struct Part {
    size_t sequence;
    int32_t begin;
    int32_t rows;
  };
  std::vector<float> compress(std::span<const Part> parts) {
    std::vector<kernels::AttentionSlice> slices;
    int32_t row = 0;
    int64_t completed = 0;
    for (const Part& part : parts) {
      slices.push_back({row, part.rows, part.begin, pages_[part.sequence]});
      row += part.rows;
      completed +=
          kernels::kv_rows(part.begin + part.rows, params_.ratio) - kernels::kv_rows(part.begin, params_.ratio);
    }
    Arrays arrays(backend_);
    float* out = arrays.make(completed * params_.dim + 1);
    backend_.compressor()->compress(params_, values_, scores_, slices, out);
    return arrays.get(out, completed * params_.dim);
  }

 private:
  kernels::Backend& backend_;
  Arrays memory_;
  kernels::CompressorParams params_;
  std::vector<PageId> pages_[2];
  kernels::KvView values_;
  kernels::KvView scores_;
};

class GpuCompressor : public GpuTest {};

TEST_F(GpuCompressor, CompressedRowsAgreeWithTheCpu) {
  for (const CompressorShape& shape :
       {CompressorShape{4, 40, true}, CompressorShape{4, 33, false}, CompressorShape{128, 20, false},
        CompressorShape{128, 140, true}, CompressorShape{1, 8, false}, CompressorShape{2, 512, true}}) {
    SCOPED_TRACE(testing::Message() << shape.ratio << " positions, " << shape.dim << " columns");
    Compressor on_gpu(gpu(), shape), on_cpu(cpu(), shape);
    // Parts from the start, from the middle of a row, one that completes none, and one with more rows than a run has.
    constexpr Compressor::Part kParts[] = {{0, 0, 130}, {1, 250, 7}, {1, 257, 1}, {1, 258, 142}, {0, 383, 1}};
    const std::vector<float> together = on_gpu.compress(kParts);
    EXPECT_LE(difference(together, on_cpu.compress(kParts)), 1e-6);
    std::vector<float> alone;
    for (const Compressor::Part& part : kParts) {
      for (int32_t at = 0, rows = 0; at < part.rows; at += rows) {
        rows = std::min(1 + at % 40, part.rows - at);
        const Compressor::Part some{part.sequence, part.begin + at, rows};
        const std::vector<float> out = on_gpu.compress({&some, 1});
        alone.insert(alone.end(), out.begin(), out.end());
      }
    }
    EXPECT_TRUE(kernels::cpu::same_bits(together, alone));
  }
}

// Exact on both: all bits are equal.
TEST_F(GpuCompressor, RoundingToFewBitsGivesTheBitsOfTheCpu) {
  Random random(4);
  for (const int32_t dims : {448, 100, 64, 7}) {
    const int32_t stride = dims + 9;
    std::vector<float> x = random.normals(int64_t{kRowsMax} * stride, 100);
    for (size_t i = 0; i < x.size(); i += 3) x[i] *= 1e-4F;  // also below the format's smallest numbers
    for (int32_t i = 0; i < std::min(dims, 64); ++i) x[static_cast<size_t>(i)] = i % 2 == 0 ? 0.0F : 1e-30F;
    const auto rounded = [&](kernels::Backend& backend) {
      Arrays arrays(backend);
      float* there = arrays.put(x);
      backend.compressor()->round_fp8(there, kRowsMax, stride, dims);
      return arrays.get(there, std::ssize(x));
    };
    const std::vector<float> on_gpu = rounded(gpu());
    EXPECT_TRUE(kernels::cpu::same_bits(on_gpu, rounded(cpu()))) << dims;
    EXPECT_FALSE(kernels::cpu::same_bits(on_gpu, x));
  }
}

TEST_F(GpuCompressor, RoundingAfterAHadamardTransformAgreesWithTheCpu) {
  Random random(5);
  for (const int32_t dims : {128, 512, 16, 1}) {
    const std::vector<float> x = random.normals(int64_t{kRowsMax} * dims);
    const auto rounded = [&](kernels::Backend& backend) {
      Arrays arrays(backend);
      float* there = arrays.put(x);
      backend.compressor()->hadamard_fp4(there, kRowsMax, dims);
      return arrays.get(there, std::ssize(x));
    };
    EXPECT_TRUE(kernels::cpu::same_bits(rounded(gpu()), rounded(cpu()))) << dims;
  }
}

}  // namespace
}  // namespace cairn::gpu
