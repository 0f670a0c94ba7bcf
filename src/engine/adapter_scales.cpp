#include "engine/adapter_scales.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "base/hash.h"

namespace cairn::engine {

std::vector<float> AdapterScales::current() const {
  const std::scoped_lock lock(mutex_);
  return scales_;
}

Result<void> AdapterScales::set(std::span<const AdapterScale> wanted) {
  CAIRN_TRY(std::vector<float> scales, resolve(wanted));
  const std::scoped_lock lock(mutex_);
  scales_ = std::move(scales);
  return {};
}

Result<std::vector<float>> AdapterScales::of(const std::optional<std::vector<AdapterScale>>& wanted) const {
  if (wanted) return resolve(*wanted);
  return current();
}

Result<std::vector<float>> AdapterScales::resolve(std::span<const AdapterScale> wanted) const {
  std::vector<float> scales(current().size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    const auto [id, scale] = wanted[i];
    const std::string at = fmt::format("lora[{}]", i);
    if (id < 0 || id >= std::ssize(scales)) {
      return fail_at(
          at, Code::kInvalidArgument, "{}: this model has no LoRA adapter {}; {}", at, id,
          scales.empty() ? "it was started without --lora" : fmt::format("it has adapters 0 to {}", scales.size() - 1));
    }
    if (!std::isfinite(scale) || std::abs(scale) > kAdapterScaleMax) {
      return fail_at(at, Code::kInvalidArgument, "{}: the scale {} is not from {} to {}", at, scale, -kAdapterScaleMax,
                     kAdapterScaleMax);
    }
    scales[static_cast<size_t>(id)] = scale + 0.0F;  // -0 is 0
  }
  return scales;
}

uint64_t salt_with(std::span<const float> scales, uint64_t salt) {
  return scales.empty() ? salt : hash64(std::as_bytes(scales), salt);
}

}  // namespace cairn::engine
