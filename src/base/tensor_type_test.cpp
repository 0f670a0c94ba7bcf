#include "base/tensor_type.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace cairn {
namespace {

bool holds_weights(TensorType type) {
  return type != TensorType::kI8 && type != TensorType::kI16 && type != TensorType::kI32 && type != TensorType::kI64 &&
         type != TensorType::kF64;
}

TEST(TensorType, FilesOfEveryTypeOfWeightsHaveANameAndANumberOfTheirOwn) {
  std::set<int32_t> ids;
  std::set<std::string_view> names;
  for (const TensorTypeInfo& info : tensor_types()) {
    EXPECT_EQ(!info.file_types[0].name.empty(), holds_weights(info.type)) << info.name;
    for (const FileType& type : info.file_types) {
      if (type.name.empty()) continue;
      EXPECT_TRUE(ids.insert(type.id).second) << type.name;
      EXPECT_TRUE(names.insert(type.name).second) << type.name;
      EXPECT_EQ(file_type_name(type.id), type.name);
      EXPECT_EQ(file_type_id(type.name), type.id);
      EXPECT_EQ(file_type_main(type.name), info.type);
    }
  }
}

TEST(TensorType, FileTypesAreFoundByNumberAndByName) {
  EXPECT_EQ(file_type_name(15), "Q4_K_M");
  EXPECT_EQ(file_type_name(39), "NVFP4");
  EXPECT_EQ(file_type_id("q2_0"), 41);
  EXPECT_EQ(file_type_main("q3_k_l"), TensorType::kQ3_K);
  EXPECT_FALSE(file_type_name(4));
  EXPECT_FALSE(file_type_name(-1));
  EXPECT_FALSE(file_type_id(""));
  EXPECT_FALSE(file_type_main("Q4_K"));
}

}  // namespace
}  // namespace cairn
