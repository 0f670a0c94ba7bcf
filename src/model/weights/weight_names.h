/// Which tensor each weight was made of, for those who watch a model's products.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>

#include "kernels/weight_store.h"

namespace cairn::model {

class WeightNames {
 public:
  void add(const kernels::Weight& weight, std::string_view tensor) { names_.insert_or_assign(weight.data, tensor); }
  /// The name of the tensor that the weight is, or has some rows of; null if none was noted.
  const std::string* find(const kernels::Weight& weight) const {
    const auto found = names_.find(weight.data);
    return found == names_.end() ? nullptr : &found->second;
  }

 private:
  std::unordered_map<const void*, std::string> names_;
};

}  // namespace cairn::model
