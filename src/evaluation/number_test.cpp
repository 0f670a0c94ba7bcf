#include "evaluation/number.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace cairn::evaluation {
namespace {

std::string first(std::string_view text) {
  const auto found = find_number(text);
  if (!found) return "none";
  return found->value ? found->value->text() : "too large";
}

TEST(Number, ManyFormsOfTheSameNumbers) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"42", "42"},
      {"+42", "42"},
      {"-42", "-42"},
      {"\xe2\x88\x92 5", "5"},
      {"\xe2\x88\x92"
       "5",
       "-5"},
      {"1,234,567", "1234567"},
      {"1 234 567", "1234567"},
      {"1_000", "1000"},
      {"1\xe2\x80\xaf"
       "000",
       "1000"},
      {"1,234.50", "2469/2"},
      {"3.14", "157/50"},
      {"3,14", "157/50"},
      {".5", "1/2"},
      {"0.500", "1/2"},
      {"2.0", "2"},
      {"1.5e3", "1500"},
      {"1.5E-1", "3/20"},
      {"6.02 \xc3\x97 10^3", "6020"},
      {"6 \\times 10^{3}", "6000"},
      {"6 \\cdot 10^{-1}", "3/5"},
      {"3/4", "3/4"},
      {"6 / 8", "3/4"},
      {"-3/4", "-3/4"},
      {"\\frac{3}{4}", "3/4"},
      {"\\dfrac{-3}{4}", "-3/4"},
      {"-\\frac{1}{2}", "-1/2"},
      {"1 3/4", "7/4"},
      {"2\\frac{1}{2}", "5/2"},
      {"$1,000.00", "1000"},
      {"12 km/h", "12"},
      {"50%", "50"},
      {"50 %", "50"},
      {"100\xc2\xb0"
       "C",
       "100"},
      {"(7)", "7"},
      {"about 12.", "12"},
      {"0", "0"},
      {"-0", "0"},
      {"0.1000000000000000000000000", "1/10"},
      {"9223372036854775807", "9223372036854775807"},
  };
  for (const auto& [text, number] : cases) EXPECT_EQ(first(text), number) << text;
}

TEST(Number, WhatIsNone) {
  for (const char* text : {"", "none", "H2O", "x1 and y_2", "\\frac{a}{b}", "...", "-", "e5"})
    EXPECT_EQ(first(text), "none") << text;
  EXPECT_EQ(first("9223372036854775808"), "too large");
  EXPECT_EQ(first("1e400"), "too large");
  EXPECT_EQ(first("1e99999999999999999999"), "1");  // an exponent that is none ends the number before it
  EXPECT_EQ(first("0.0000000000000000000001"), "too large");
}

TEST(Number, ADashBetweenNumbersIsNoSign) {
  EXPECT_EQ(last_number("5-3")->text(), "3");
  EXPECT_EQ(last_number("5 -3")->text(), "-3");
  EXPECT_EQ(last_number("page-3")->text(), "3");
}

TEST(Number, TheLastOneCounts) {
  EXPECT_EQ(last_number("First 3, then 4, so 12 in all.")->text(), "12");
  EXPECT_EQ(last_number("3 and then 99999999999999999999"), std::nullopt);
  EXPECT_EQ(last_number("no digits"), std::nullopt);
  EXPECT_EQ(last_number("12,34,567")->text(), "567");
}

TEST(Number, AFractionByZeroIsTheNumberBeforeIt) { EXPECT_EQ(first("3/0"), "3"); }

}  // namespace
}  // namespace cairn::evaluation
