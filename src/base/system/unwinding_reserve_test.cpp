#include "base/system/unwinding_reserve.h"

#include <gtest/gtest.h>

#include <new>

namespace cairn {
namespace {

// The handler is what operator new calls: it gives the reserve away once, and only to a thread whose stack is being
// unwound.
TEST(UnwindingReserve, IsGivenOnceAndOnlyToAThreadWhoseStackIsBeingUnwound) {
  const std::new_handler before = std::get_new_handler();
  install_unwinding_reserve();
  const std::new_handler handler = std::get_new_handler();
  EXPECT_THROW(handler(), std::bad_alloc) << "nothing is being unwound";
  int given = 0, refused = 0;
  struct Asks {
    ~Asks() {
      for (int i = 0; i < 2; ++i) {
        try {
          handler();
          ++given;
        } catch (const std::bad_alloc&) {
          ++refused;
        }
      }
    }
    std::new_handler handler;
    int& given;
    int& refused;
  };
  for (int round = 1; round <= 2; ++round) {
    try {
      const Asks asks{handler, given, refused};
      throw std::bad_alloc();
    } catch (const std::bad_alloc&) {
      refill_unwinding_reserve();
    }
    EXPECT_EQ(given, round);
    EXPECT_EQ(refused, round);
  }
  std::set_new_handler(before);
}

}  // namespace
}  // namespace cairn
