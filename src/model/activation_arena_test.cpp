#include "model/activation_arena.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "cache/testing/limited_memory.h"

namespace cairn::model {
namespace {

struct Arrays {
  float* first = nullptr;
  float* none = nullptr;
  int32_t* numbers = nullptr;
  float* last = nullptr;

  void add_to(ActivationArena& arena) {
    arena.add(first, 17);
    arena.add(none, 0);
    arena.add(numbers, 16);
    arena.add(last, 1);
  }
};

TEST(ActivationArenaTest, BytesAreKnownWithoutMemory) {
  ActivationArena arena;
  Arrays arrays;
  EXPECT_EQ(arena.bytes(), 0);
  arrays.add_to(arena);
  EXPECT_EQ(arena.bytes(), 128 + 64 + 64);
  EXPECT_EQ(arrays.first, nullptr);
}

TEST(ActivationArenaTest, ArraysLieInTheOrderOfTheListAndBeginAtMultiplesOf64Bytes) {
  cache::LimitedMemory memory;
  ActivationArena arena;
  Arrays arrays;
  arrays.add_to(arena);
  const int64_t before = kernels::Buffer::bytes_in_all();
  ASSERT_TRUE(arena.allocate(memory).has_value());
  EXPECT_EQ(kernels::Buffer::bytes_in_all() - before, arena.bytes());
  const auto offset = [&](const void* array) {
    return static_cast<const std::byte*>(array) - reinterpret_cast<const std::byte*>(arrays.first);
  };
  EXPECT_EQ(offset(arrays.numbers), 128);
  EXPECT_EQ(offset(arrays.last), 192);
  arrays.numbers[15] = 7;
  EXPECT_EQ(*arrays.last, 0) << "arrays do not overlap";
}

TEST(ActivationArenaTest, ArraysStayWhereTheyAreWhenTheArenaMoves) {
  cache::LimitedMemory memory;
  ActivationArena arena;
  Arrays arrays;
  arrays.add_to(arena);
  ASSERT_TRUE(arena.allocate(memory).has_value());
  arrays.first[16] = 3;
  const ActivationArena moved = std::move(arena);
  EXPECT_EQ(arrays.first[16], 3);
  EXPECT_EQ(moved.bytes(), 256);
}

TEST(ActivationArenaTest, TooLittleMemoryIsAnError) {
  cache::LimitedMemory memory;
  memory.bytes_max = 255;
  ActivationArena arena;
  Arrays arrays;
  arrays.add_to(arena);
  const auto made = arena.allocate(memory);
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().code, Code::kOutOfMemory);
}

}  // namespace
}  // namespace cairn::model
