#include "model/weights/wanted_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/testing/test_data.h"
#include "kernels/cpu/cpu_backend.h"
#include "model/model.h"

namespace cairn::model {
namespace {

using Shapes = std::map<std::string, std::vector<int64_t>, std::less<>>;

std::vector<int64_t> without_ones(std::vector<int64_t> shape) {
  std::erase(shape, 1);
  return shape;
}

// Tensors that are read with the metadata, or by nobody.
bool is_unasked(std::string_view name) {
  return name.starts_with("rope_f") || name.ends_with(".input_scale") || name.ends_with(".exp_probs_b_vl.bias");
}

// A file that says which tensors it has, and not how large they are, must hold the tensors that it has.
TEST(WantedTensors, OfEachFixtureAreThoseThatItHas) {
  const auto backend = kernels::make_cpu_backend({.threads = 1, .isa = ""}).value();
  int compared = 0;
  for (const char* folder : {"/models", "/converted"}) {
    for (const auto& entry : std::filesystem::directory_iterator(test_data(folder))) {
      if (entry.path().extension() != ".gguf") continue;
      SCOPED_TRACE(entry.path().filename().string());
      const auto file = gguf::Reader::open(entry.path());
      ASSERT_TRUE(file.has_value());
      const auto wanted = wanted_tensors(*file, *backend);
      if (!wanted.has_value() && wanted.error().code == Code::kUnsupported) continue;
      ASSERT_TRUE(wanted.has_value()) << wanted.error().text();
      Shapes there, asked;
      for (const gguf::Tensor& tensor : file->tensors()) {
        if (!is_unasked(tensor.name)) there[std::string(tensor.name)] = without_ones(tensor.shape);
      }
      for (const gguf::Tensor* tensor : wanted->tensors()) {
        asked[std::string(tensor->name)] = without_ones(tensor->shape);
      }
      EXPECT_THAT(asked, testing::ContainerEq(there));
      ++compared;
    }
  }
  EXPECT_GT(compared, 50);
}

TEST(WantedTensors, AreInTheOrderOfTheFirstRequests) {
  WantedTensors wanted;
  const int64_t shape[] = {4, 2};
  const gguf::Tensor* first = wanted.add("b", TensorType::kF32, shape);
  wanted.add("a", TensorType::kI32, shape);
  EXPECT_EQ(wanted.add("b", TensorType::kF32, shape), first);
  ASSERT_EQ(wanted.tensors().size(), 2u);
  EXPECT_EQ(wanted.tensors()[0]->name, "b");
  EXPECT_EQ(wanted.tensors()[1]->type, TensorType::kI32);
  EXPECT_THAT(first->shape, testing::ElementsAre(4, 2));
}

}  // namespace
}  // namespace cairn::model
