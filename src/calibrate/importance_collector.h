/// Sums the squares of what a model's weights are multiplied with, column by column.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "calibrate/watched_backend.h"
#include "convert/importance.h"
#include "gguf/reader.h"
#include "model/weights/weight_names.h"

namespace cairn::calibrate {

/// Thread: the model's.
class ImportanceCollector final : public ProductWatcher {
 public:
  /// The names of the weights are noted there while the model is loaded (ModelOptions::weight_names).
  model::WeightNames& names() { return names_; }

  void see(std::span<const kernels::MatmulTarget> products, std::span<const float> x, int32_t rows) override;
  void see_grouped(std::span<const kernels::MatmulTarget> products, std::span<const float> x, int32_t rows,
                   std::span<const int32_t> ids, int32_t used, bool input_per_choice) override;

  /// What has been summed for tensors of the model's file, without texts and chunks.
  convert::ImportanceMatrix matrix(const gguf::Reader& file) const;

 private:
  struct Sums {
    int64_t columns = 0;
    std::vector<double> squares;  // [matrices, columns]
    std::vector<double> counts;   // [matrices]
  };
  /// The sums of each tensor that the products are of: one that was taken apart has several products, but one input.
  void find(std::span<const kernels::MatmulTarget> products);

  model::WeightNames names_;
  std::map<std::string, Sums, std::less<>> sums_;
  std::vector<Sums*> found_;
  std::vector<double> row_sums_;
};

}  // namespace cairn::calibrate
