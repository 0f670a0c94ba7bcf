#include "model/pooling.h"

#include <algorithm>

#include "base/check.h"
#include "model/metadata_reader.h"

namespace cairn::model {

Result<Pooling> read_pooling(const gguf::Reader& file, Pooling missing) {
  CAIRN_TRY(const std::string_view name, file.metadata().string("general.architecture"));
  CAIRN_TRY(const int64_t number,
            MetadataReader(file, name)
                .integer_or("pooling_type", static_cast<int64_t>(missing), 0, static_cast<int64_t>(Pooling::kRank)));
  return static_cast<Pooling>(number);
}

void PoolingAccumulator::add(std::span<const float> rows) {
  for (; !rows.empty(); rows = rows.subspan(width_)) {
    const bool first = rows_++ == 0;
    if (pooling_ == Pooling::kCls && !first) continue;
    if (first || pooling_ == Pooling::kLast) {
      std::copy_n(rows.begin(), width_, sums_.begin());
    } else {
      for (int64_t i = 0; i < width_; ++i) sums_[i] += double{rows[i]};
    }
  }
}

std::vector<float> PoolingAccumulator::vector() const {
  CAIRN_CHECK(rows_ > 0);
  const auto count = static_cast<double>(pooling_ == Pooling::kMean ? rows_ : 1);
  std::vector<float> result;
  result.reserve(sums_.size());
  for (const double sum : sums_) result.push_back(static_cast<float>(sum / count));
  return result;
}

}  // namespace cairn::model
