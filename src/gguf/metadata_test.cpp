#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "gguf/number_type.h"
#include "gguf/test_bytes.h"

namespace cairn::gguf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Metadata with(Value value) { return Metadata({{"key", std::move(value)}}); }
Metadata with(uint64_t value) { return with(Value{ValueType::kU64, value}); }
Metadata with(int64_t value) { return with(Value{ValueType::kI64, value}); }
Metadata with(double value) { return with(Value{ValueType::kF64, value}); }

// The metadata points to the numbers.
template <class T>
Metadata with_array(ValueType type, const std::vector<T>& numbers) {
  Array array;
  array.type = type;
  array.size = numbers.size();
  array.numbers = std::as_bytes(std::span(numbers));
  return with(Value{ValueType::kArray, array});
}

TEST(Metadata, IntegersConvertWhenTheyFit) {
  EXPECT_EQ(*with(uint64_t{7}).integer("key"), 7);
  EXPECT_EQ(*with(int64_t{-7}).integer("key"), -7);
  EXPECT_EQ(*with(8.0).integer("key"), 8);
  EXPECT_EQ(*with(uint64_t{INT64_MAX}).integer("key"), INT64_MAX);
  EXPECT_EQ(*with(INT64_MIN).integer("key"), INT64_MIN);
  EXPECT_FALSE(with(uint64_t{INT64_MAX} + 1).integer("key").has_value());
  EXPECT_FALSE(with(8.5).integer("key").has_value());
  EXPECT_FALSE(with(1e300).integer("key").has_value());
  EXPECT_FALSE(with(std::nan("")).integer("key").has_value());
  EXPECT_FALSE(with(std::numeric_limits<double>::infinity()).integer("key").has_value());
}

TEST(Metadata, NumbersConvertWhenTheyFit) {
  EXPECT_EQ(*with(uint64_t{7}).number("key"), 7.0);
  EXPECT_EQ(*with(int64_t{-7}).number("key"), -7.0);
  EXPECT_EQ(*with(0.5).number("key"), 0.5);
  EXPECT_FALSE(with(UINT64_MAX).number("key").has_value());
}

TEST(Metadata, ErrorsNameTheKeyItsTypeAndTheExpectedType) {
  const auto wrong = with(Value{ValueType::kString, std::string_view("many\n")}).integer("key").error();
  EXPECT_EQ(wrong.code, Code::kCorruptFile);
  EXPECT_EQ(wrong.message, "metadata key key is the string \"many\\n\"; expected a 64-bit integer");
  const auto missing = Metadata().string("other").error();
  EXPECT_EQ(missing.code, Code::kCorruptFile);
  EXPECT_EQ(missing.message, "metadata key other is missing; expected a string");
  EXPECT_THAT(with(Value{ValueType::kBool, true}).number("key").error().message,
              HasSubstr("is the bool true; expected a number"));
  EXPECT_THAT(with(Value{ValueType::kU8, uint64_t{3}}).strings("key").error().message,
              HasSubstr("is the u8 3; expected an array of strings"));
  EXPECT_THAT(with_array(ValueType::kU8, std::vector<uint8_t>{1, 2}).booleans("key").error().message,
              HasSubstr("is an array of 2 u8 elements; expected an array of bools"));
  EXPECT_THAT(with(-1.5).boolean("key").error().message, HasSubstr("is the f64 -1.5; expected a bool"));
}

TEST(Metadata, ReadsArraysOfEveryNumberType) {
  const auto check = [&]<class T>(ValueType type, T) {
    const std::vector<T> numbers = {T{1}, T{100}};
    const auto metadata = with_array(type, numbers);
    EXPECT_THAT(*metadata.integers("key"), ElementsAre(1, 100)) << value_type_name(type);
    EXPECT_THAT(*metadata.floats("key"), ElementsAre(1.0f, 100.0f)) << value_type_name(type);
  };
  for (uint32_t id = 0; id <= static_cast<uint32_t>(ValueType::kF64); ++id) {
    const auto type = static_cast<ValueType>(id);
    visit_number_type(type, [&]<class T>() { check(type, T{}); });
  }
}

TEST(Metadata, AnErrorNamesTheArrayElementThatDoesNotFit) {
  EXPECT_EQ(with_array(ValueType::kU64, std::vector<uint64_t>{1, UINT64_MAX}).integers("key").error().message,
            "element 1 of metadata key key is not a 64-bit integer");
  EXPECT_EQ(with_array(ValueType::kF64, std::vector<double>{1e300}).floats("key").error().message,
            "element 0 of metadata key key is not a 32-bit float");
  EXPECT_TRUE(std::isinf((*with_array(ValueType::kF32, std::vector<float>{INFINITY}).floats("key"))[0]));
}

TEST(Metadata, OptionalValuesAreOnlyOptionalWhenMissing) {
  const Metadata empty;
  EXPECT_EQ(*empty.string_or("key", "no"), "no");
  EXPECT_EQ(*empty.integer_or("key", 4), 4);
  EXPECT_EQ(*empty.number_or("key", 0.5), 0.5);
  EXPECT_EQ(*empty.boolean_or("key", true), true);
  EXPECT_EQ(*with(uint64_t{9}).integer_or("key", 4), 9);
  const auto text = with(Value{ValueType::kString, std::string_view("x")});
  EXPECT_FALSE(text.integer_or("key", 4).has_value());
  EXPECT_FALSE(text.number_or("key", 4).has_value());
  EXPECT_FALSE(text.boolean_or("key", false).has_value());
  EXPECT_FALSE(with(0.5).string_or("key", "no").has_value());
}

}  // namespace
}  // namespace cairn::gguf
