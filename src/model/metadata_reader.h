/// Numbers of "<architecture>.*" in a file's metadata, read with bounds: no value that passes can overflow a size.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "gguf/reader.h"

namespace cairn::model {

/// Bounds that hostile files meet; published models stay far below.
inline constexpr int64_t kLayersMax = 1'024;
inline constexpr int64_t kEmbeddingMax = 1 << 18;
inline constexpr int64_t kFeedForwardMax = 1 << 22;
inline constexpr int64_t kHeadsMax = 4'096;
inline constexpr int64_t kHeadDimMax = 1'024;
inline constexpr int64_t kExpertsMax = 4'096;
inline constexpr int64_t kExpertsUsedMax = 64;
inline constexpr int64_t kLowRankMax = 1 << 15;
inline constexpr int64_t kContextMax = 1 << 24;
inline constexpr int64_t kVocabularyMax = 1 << 22;

/// MetadataReader of one architecture, named without the "<architecture>." before them. Every Error is kCorruptFile and
/// names the whole key, what is there and what was expected.
class MetadataReader {
 public:
  /// `file` outlives this.
  MetadataReader(const gguf::Reader& file, std::string_view architecture) : file_(file), architecture_(architecture) {}

  const gguf::Reader& file() const { return file_; }
  std::string_view architecture() const { return architecture_; }
  std::string full(std::string_view key) const;
  bool contains(std::string_view key) const { return file_.metadata().contains(full(key)); }

  /// For a key whose value does not matter.
  void mark_read(std::string_view key) const { full(key); }

  /// Within [least, most]. The `_or` forms give `missing`, unchecked, if there is no such key.
  Result<int64_t> integer(std::string_view key, int64_t least, int64_t most) const;
  Result<int64_t> integer_or(std::string_view key, int64_t missing, int64_t least, int64_t most) const;
  /// Finite, of magnitude at most 1e30.
  Result<float> number(std::string_view key) const;
  Result<float> number_or(std::string_view key, float missing) const;
  /// Above zero besides.
  Result<float> positive_or(std::string_view key, float missing) const;
  Result<std::string_view> string_or(std::string_view key, std::string_view missing) const;
  Result<bool> boolean_or(std::string_view key, bool missing) const;

  /// For each of `layers` layers, one number for all or an array of at least so many.
  Result<std::vector<int64_t>> per_layer(std::string_view key, int64_t layers, int64_t least, int64_t most) const;

  /// For each of `layers` layers a flag of an array of at least so many, which are booleans or numbers.
  Result<std::vector<bool>> flag_per_layer(std::string_view key, int64_t layers) const;

  /// Which of `layers` layers have a window, by "attention.sliding_window_pattern": a flag per layer, or a period P of
  /// which the last layer has none (1: no windows at all, 0: windows everywhere). `period` stands for a missing key.
  /// With `first` it is the first of P that has none.
  Result<std::vector<bool>> window_pattern(int64_t layers, int64_t period, bool first = false) const;

  /// Whole names of keys of the architecture that the file has and that nobody has asked for: a file that has some may
  /// mean more than we compute. MetadataReader of experts count only if there are experts.
  std::vector<std::string> unread() const;

 private:
  const gguf::Reader& file_;
  std::string_view architecture_;
  mutable std::set<std::string, std::less<>> asked_;  ///< whole names
};

}  // namespace cairn::model
