#include "net/sha256.h"

#include <gtest/gtest.h>

namespace cairn::net {
namespace {

// FIPS 180-4, examples of SHA-256.
constexpr auto kOfAbc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

TEST(Sha256, IsThatOfTheStandardsExamples) {
  EXPECT_EQ(hex_text(sha256("abc")), kOfAbc);
  EXPECT_EQ(hex_text(sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(Sha256, IsReadFromHexadecimalDigitsAlone) {
  ASSERT_TRUE(sha256_from_hex(kOfAbc).has_value());
  EXPECT_TRUE(equal_in_constant_time(*sha256_from_hex(kOfAbc), sha256("abc")));
  EXPECT_FALSE(equal_in_constant_time(*sha256_from_hex(kOfAbc), sha256("abd")));
  EXPECT_TRUE(sha256_from_hex(std::string(64, 'A')).has_value());
  for (const auto& bad : {std::string(), std::string(63, 'a'), std::string(65, 'a'), std::string(64, 'g'),
                          "+" + std::string(63, 'a'), std::string(62, 'a') + " a"})
    EXPECT_FALSE(sha256_from_hex(bad).has_value()) << bad;
}

}  // namespace
}  // namespace cairn::net
