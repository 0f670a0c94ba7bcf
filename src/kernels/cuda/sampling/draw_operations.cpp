#include "kernels/cuda/sampling/draw_operations.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/cuda/kernels.h"

namespace cairn::cuda {
namespace {

template <class T>
int64_t bytes_of(int64_t count) {
  return count * static_cast<int64_t>(sizeof(T));
}

}  // namespace

int64_t CudaDraw::workspace_bytes(const WorkspaceSizes& sizes) {
  return sizes.draw_rows == 0 ? 0 : bytes_of<Drawn>(sizes.draw_rows) + bytes_of<float>(kChangesAtOnce);
}

int64_t CudaDraw::argument_bytes(const WorkspaceSizes& sizes) {
  return sizes.draw_rows == 0 ? 0 : std::max(bytes_of<Draw>(sizes.draw_rows), bytes_of<LogitChange>(kChangesAtOnce));
}

Result<void> CudaDraw::reserve(const WorkspaceSizes& sizes) {
  if (sizes.draw_rows == 0) return {};
  CAIRN_TRY_VOID(grow(stream_, bytes_of<Drawn>(sizes.draw_rows), drawn_));
  return grow(stream_, bytes_of<float>(kChangesAtOnce), changed_);
}

void CudaDraw::draw(float* logits, int64_t vocabulary, std::span<const Draw> draws,
                    std::span<const LogitChange> changes, std::span<Drawn> drawn) {
  CAIRN_CHECK(draws.size() == drawn.size() &&
              bytes_of<Drawn>(std::ssize(draws)) <= static_cast<int64_t>(drawn_.bytes()));
  CAIRN_CHECK(std::ranges::all_of(draws, [](const Draw& draw) { return draw.change_count() <= kDrawChangesMax; }));
  auto* const results = static_cast<Drawn*>(drawn_.data());
  for (size_t begin = 0; begin < draws.size();) {
    const int64_t first_change = draws[begin].changes;
    int64_t change_count = 0;
    size_t end = begin;
    for (; end < draws.size() && change_count + draws[end].change_count() <= kChangesAtOnce; ++end) {
      CAIRN_CHECK(draws[end].changes == first_change + change_count);
      change_count += draws[end].change_count();
    }
    const std::span<const Draw> now = draws.subspan(begin, end - begin);
    const auto* there = static_cast<const Draw*>(arguments_.put(stream_, now.data(), bytes_of<Draw>(std::ssize(now))));
    const LogitChange* changes_there = nullptr;
    if (change_count > 0) {
      const LogitChange* from = changes.subspan(static_cast<size_t>(first_change)).data();
      changes_there =
          static_cast<const LogitChange*>(arguments_.put(stream_, from, bytes_of<LogitChange>(change_count)));
    }
    cuda::draw(stream_.launches(), logits, vocabulary, there, static_cast<int32_t>(now.size()), changes_there,
               static_cast<int32_t>(first_change), changed_.floats(), results + begin);
    stream_.launched("draw");
    begin = end;
  }
  const size_t bytes = drawn.size_bytes();
  const cudaStream_t stream = stream_.get();
  stream_.check(cudaMemcpyAsync(drawn.data(), results, bytes, cudaMemcpyDeviceToHost, stream), "a copy of draws");
  stream_.check(cudaStreamSynchronize(stream), "a kernel");
}

}  // namespace cairn::cuda
