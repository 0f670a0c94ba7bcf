#include "api/responses/custom_input.h"

#include <gtest/gtest.h>

namespace cairn::api::responses {
namespace {

// The input of arguments that come `step` bytes at a time.
std::string input_of(std::string_view arguments, size_t step) {
  CustomInput input;
  std::string whole;
  for (size_t at = 0; at < arguments.size(); at += step) whole += input.add(arguments.substr(at, step));
  return whole + input.finish();
}

struct Case {
  const char* arguments;
  const char* input;
};

TEST(CustomInput, IsTheStringInTheArguments) {
  for (const Case& one : std::initializer_list<Case>{
           {R"({"input": "plain"})", "plain"},
           {" {\n \"input\" :\t\"a\\nb\\\"c\\\\d\\/\\t\"}", "a\nb\"c\\d/\t"},
           {R"({"input":"\u00e4\ud83d\ude00\u0041"})", "ä😀A"},
           {R"({"input":"\ude00-\ud83d\ud83d!"})", "\xef\xbf\xbd-\xef\xbf\xbd\xef\xbf\xbd!"},
           {R"({"input":""})", ""},
           {R"({"input":"cut off in the mid)", "cut off in the mid"},
           {R"({"input":"cut at \u00)", "cut at "},
           {R"({"why":"first","input":"then"})", "then"},
           {R"({"patch":"x"})", R"({"patch":"x"})"},
           {R"({"input":7})", R"({"input":7})"},
           {"*** Begin Patch", "*** Begin Patch"},
           {"", ""},
       })
    for (const size_t step : {1, 2, 3, 7, 1000}) EXPECT_EQ(input_of(one.arguments, step), one.input) << step;
}

TEST(CustomInput, IsToldAsSoonAsItIsCertain) {
  CustomInput input;
  EXPECT_EQ(input.add(R"({"input":")"), "");
  EXPECT_EQ(input.add("ab\\"), "ab");
  EXPECT_EQ(input.add("n"), "\n");
  EXPECT_EQ(input.add("\\ud83d"), "");
  EXPECT_EQ(input.add("\\ude00c"), "😀c");
}

}  // namespace
}  // namespace cairn::api::responses
