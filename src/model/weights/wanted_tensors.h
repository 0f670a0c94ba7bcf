/// What the file of a model that does not exist yet must hold: the tensors that loading it asks for.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/tensor_type.h"
#include "gguf/reader.h"

namespace cairn::model {

class WantedTensors {
 public:
  /// A stand-in without bytes, the same for the same name. It lives as long as this.
  const gguf::Tensor* add(const std::string& name, TensorType type, std::span<const int64_t> shape) {
    const auto [found, is_new] = tensors_.try_emplace(name);
    gguf::Tensor& tensor = found->second;
    if (!is_new) return &tensor;
    tensor = {.name = found->first, .type = type, .shape = {shape.begin(), shape.end()}, .bytes = {}};
    order_.push_back(&tensor);
    return &tensor;
  }

  /// They are in the order in which they were asked for.
  std::span<const gguf::Tensor* const> tensors() const { return order_; }

 private:
  std::map<std::string, gguf::Tensor> tensors_;
  std::vector<const gguf::Tensor*> order_;
};

}  // namespace cairn::model
