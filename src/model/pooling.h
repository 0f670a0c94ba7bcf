/// How the rows of a text become one vector.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "gguf/reader.h"

namespace cairn::model {

/// The numbers are those of "<architecture>.pooling_type".
enum class Pooling {
  kNone = 0,  ///< they do not: all rows
  kMean = 1,
  kCls = 2,  ///< the first row
  kLast = 3,
  kRank = 4,  ///< one number, by the head that judges how well two texts go together
};

/// A text that is no pair has this EmbedText::second_begin.
inline constexpr int32_t kNoSecond = -1;

/// What a model can do for texts that are not to be continued.
struct EmbeddingAbility {
  int32_t dimensions = 0;            ///< of a vector; 0: it gives none
  Pooling pooling = Pooling::kLast;  ///< as the file says, or what is usual for its kind
  bool ranks = false;                ///< Pooling::kRank works
};

/// "<architecture>.pooling_type", or `missing`. Errors: kCorruptFile (no such number).
Result<Pooling> read_pooling(const gguf::Reader& file, Pooling missing);

/// Takes the rows of one text as they come, in order. How they are grouped does not change the result.
class PoolingAccumulator {
 public:
  /// Not for kNone and kRank.
  PoolingAccumulator(Pooling pooling, int64_t width)
      : pooling_(pooling), width_(width), sums_(static_cast<size_t>(width)) {}

  int64_t rows() const { return rows_; }
  /// rows [n, width]
  void add(std::span<const float> rows);
  /// The vector of at least one row.
  std::vector<float> vector() const;

 private:
  Pooling pooling_;
  int64_t width_;
  int64_t rows_ = 0;
  std::vector<double> sums_;
};

}  // namespace cairn::model
