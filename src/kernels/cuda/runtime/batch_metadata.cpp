#include "kernels/cuda/runtime/batch_metadata.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "kernels/cuda/attention/split_plan.h"
#include "kernels/cuda/mla/read_plan.h"

namespace cairn::kernels::cuda {
namespace {

constexpr int64_t pages_of(int64_t tokens) { return (tokens + kPageTokens - 1) / kPageTokens; }

template <class T>
bool same_bytes(const std::vector<T>& a, const std::vector<T>& b) {
  static_assert(std::has_unique_object_representations_v<T>);
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

template <class T>
int64_t bytes_of(const std::vector<T>& values) {
  return static_cast<int64_t>(values.size() * sizeof(T));
}

}  // namespace

BatchMetadata::Limits BatchMetadata::Limits::of(const WorkspaceSizes& sizes) {
  const bool latent = sizes.mla.row_dim > 0;
  const int64_t tokens = std::max(sizes.attention_tokens, latent ? sizes.mla.context_tokens : 0);
  return {std::max(sizes.attention_rows, latent ? sizes.mla.rows : 0), std::max(kPagesMin, pages_of(tokens)), tokens};
}

int64_t BatchMetadata::Limits::place_bytes() const {
  return (rows * static_cast<int64_t>(sizeof(TokenPlace)) + kAlignment - 1) / kAlignment * kAlignment;
}

int64_t BatchMetadata::Limits::bytes() const { return place_bytes() + pages * static_cast<int64_t>(sizeof(int32_t)); }

void BatchMetadata::Content::clear() {
  places.clear();
  pages.clear();
  positions_max = 0;
  slice_rows_max = 0;
  slices = 0;
}

void BatchMetadata::Content::reserve(const Limits& limits) {
  places.reserve(static_cast<size_t>(limits.rows));
  pages.reserve(static_cast<size_t>(limits.pages));
}

bool BatchMetadata::Content::operator==(const Content& other) const {
  return positions_max == other.positions_max && same_bytes(places, other.places) && same_bytes(pages, other.pages);
}

// Bytes on the device and on the host, where a copy is kept for comparison.
int64_t BatchMetadata::bytes(const WorkspaceSizes& sizes) {
  if (Limits::of(sizes).rows == 0) return 0;
  return Limits::of(sizes).bytes() * static_cast<int64_t>(2 * kRemembered + 1);
}

Result<void> BatchMetadata::reserve(Stream& stream, const Limits& wanted) {
  if (wanted.rows == 0) return {};
  limits_ = {std::max(limits_.rows, wanted.rows), std::max(limits_.pages, wanted.pages),
             std::max(limits_.tokens, wanted.tokens)};
  wanted_.reserve(limits_);
  for (Slot& slot : slots_) {
    slot.content.clear();
    slot.content.reserve(limits_);
    CAIRN_TRY_VOID(grow(stream, limits_.bytes(), slot.device));
  }
  return {};
}

int64_t BatchMetadata::completed(std::span<const AttentionSlice> slices, int64_t end, int32_t tokens_per_row) {
  int64_t rows = 0;
  for (const AttentionSlice& slice : slices) {
    const auto inside = static_cast<int32_t>(std::clamp<int64_t>(end - slice.row_begin, 0, slice.rows));
    rows += completed_rows(slice.position_begin, slice.position_begin + inside, tokens_per_row);
  }
  return rows;
}

void BatchMetadata::begin_step() {
  for (Slot& slot : slots_) slot.content.clear();
  known_slices_.clear();
  oldest_ = 0;
}

void BatchMetadata::begin(std::span<const AttentionSlice> slices) {
  left_ = slices;
  done_ = 0;
}

int64_t BatchMetadata::gather() {
  wanted_.clear();
  int64_t first = 0;
  for (; !left_.empty(); left_ = left_.subspan(1), done_ = 0) {
    const AttentionSlice& slice = left_.front();
    const int32_t end = slice.position_begin + slice.rows;
    const int64_t pages = pages_of(end);
    const auto row = int64_t{slice.row_begin} + done_;
    const auto rows = static_cast<int64_t>(wanted_.places.size());
    CAIRN_CHECK(pages <= limits_.pages && pages <= std::ssize(slice.pages));
    if (rows == 0) first = row;
    if (row != first + rows || rows == limits_.rows) break;
    const auto pages_begin = static_cast<int32_t>(wanted_.pages.size());
    if (pages_begin + pages > limits_.pages) break;
    static_assert(sizeof(PageId) == sizeof(int32_t));
    const auto* ids = reinterpret_cast<const int32_t*>(slice.pages.data());
    wanted_.pages.insert(wanted_.pages.end(), ids, ids + pages);
    wanted_.positions_max = std::max(wanted_.positions_max, end);
    wanted_.slice_rows_max = std::max(wanted_.slice_rows_max, slice.rows);
    ++wanted_.slices;
    const auto taken = static_cast<int32_t>(std::min<int64_t>(slice.rows - done_, limits_.rows - rows));
    for (int32_t i = 0; i < taken; ++i) {
      wanted_.places.push_back({slice.position_begin + done_ + i, pages_begin, slice.position_begin, slice.rows});
    }
    done_ += taken;
    if (done_ < slice.rows) break;
  }
  // Rounded up coarsely, so that values that follow from it, such as grid sizes, are the same in most steps.
  const int64_t coarse = (wanted_.positions_max + int64_t{kChunkLeast} - 1) / kChunkLeast * kChunkLeast;
  wanted_.positions_max =
      static_cast<int32_t>(std::min(coarse, std::max<int64_t>(limits_.tokens, wanted_.positions_max)));
  return first;
}

Rows BatchMetadata::rows_in(const Slot& slot) const {
  const auto* memory = static_cast<const std::byte*>(slot.device.data());
  return {.places = reinterpret_cast<const TokenPlace*>(memory),
          .pages = reinterpret_cast<const int32_t*>(memory + limits_.place_bytes()),
          .count = static_cast<int32_t>(slot.content.places.size()),
          .positions_max = slot.content.positions_max,
          .slice_rows_max = slot.content.slice_rows_max,
          .slices = slot.content.slices};
}

const BatchMetadata::Run* BatchMetadata::known(std::span<const AttentionSlice> slices) const {
  const auto same = [](const AttentionSlice& a, const AttentionSlice& b) {
    return a.row_begin == b.row_begin && a.rows == b.rows && a.position_begin == b.position_begin &&
           a.pages.data() == b.pages.data() && a.pages.size() == b.pages.size();
  };
  return !slices.empty() && std::ranges::equal(slices, known_slices_, same) ? &known_run_ : nullptr;
}

bool BatchMetadata::next(Stream& stream, StagingRing& ring, Run& run) {
  const std::span<const AttentionSlice> slices = left_;
  // Pages are not compared: within a step they stay as they are.
  const bool whole = done_ == 0 && stream.launches().gathers();
  if (const Run* again = whole ? known(slices) : nullptr; again != nullptr) {
    left_ = {};
    run = *again;
    return true;
  }
  run.first = gather();
  if (wanted_.places.empty()) return false;
  find_or_send(stream, ring, run);
  known_slices_.clear();
  if (whole && left_.empty()) {
    known_slices_.assign(slices.begin(), slices.end());
    known_run_ = run;
  }
  return true;
}

void BatchMetadata::find_or_send(Stream& stream, StagingRing& ring, Run& run) {
  const auto found = std::ranges::find(slots_, wanted_, &Slot::content);
  if (found != slots_.end()) {
    run.rows = rows_in(*found);
    return;
  }
  Slot& slot = slots_[oldest_];
  if (!slot.content.places.empty()) stream.get();  // queued launches may read it
  oldest_ = (oldest_ + 1) % kRemembered;
  std::swap(slot.content, wanted_);
  auto* memory = static_cast<std::byte*>(slot.device.data());
  ring.send(stream, slot.content.places.data(), bytes_of(slot.content.places), memory);
  ring.send(stream, slot.content.pages.data(), bytes_of(slot.content.pages), memory + limits_.place_bytes());
  run.rows = rows_in(slot);
}

}  // namespace cairn::kernels::cuda
