/// Scales of the model's LoRA adapters (`--lora`), for each request.
///
/// A request's scales are settled when it is submitted and stay as they are to its end, whatever is set meanwhile. They
/// are part of its salt, so that the prefix cache gives no page to a request of other scales. Requests of all scales
/// share a batch (BatchSlice::adapter_scales).
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"

namespace cairn::engine {

/// An adapter by its number, from 0 on, in the order in which they were loaded.
struct AdapterScale {
  int32_t id = 0;
  float scale = 0;  ///< at most kAdapterScaleMax, of either sign
};
inline constexpr float kAdapterScaleMax = 1'000;

/// Thread-safe.
class AdapterScales {
 public:
  /// `scales` has one of each adapter that was loaded.
  explicit AdapterScales(std::vector<float> scales) : scales_(std::move(scales)) {}

  /// The scales of requests that name none.
  std::vector<float> current() const;
  /// Sets the scales of requests that name none, from now on: those of `wanted`, the last of an id, and 0 of all other
  /// adapters. Errors: as of().
  Result<void> set(std::span<const AdapterScale> wanted);
  /// The scales of a request: `wanted` as set() would take it, or else the current ones. Errors: kInvalidArgument (no
  /// such adapter, or a scale out of range; `at` is "lora[N]").
  Result<std::vector<float>> of(const std::optional<std::vector<AdapterScale>>& wanted) const;

 private:
  Result<std::vector<float>> resolve(std::span<const AdapterScale> wanted) const;

  mutable std::mutex mutex_;
  std::vector<float> scales_;
};

/// A salt for pages of the prefix cache that only requests of the same scales share; `salt` where there are none.
uint64_t salt_with(std::span<const float> scales, uint64_t salt);

}  // namespace cairn::engine
