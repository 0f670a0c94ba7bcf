#include "terminal/message_text.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace cairn::terminal {
namespace {

std::vector<std::string> messages_of(const std::vector<std::string_view>& lines) {
  LineJoiner joiner;
  std::vector<std::string> messages;
  for (const std::string_view line : lines) {
    if (joiner.add(line)) messages.push_back(without_block(joiner.take()));
  }
  if (!joiner.empty()) messages.push_back("rest: " + joiner.take());
  return messages;
}

using Messages = std::vector<std::string>;

TEST(LineJoiner, ALineIsAMessageWithoutItsCarriageReturn) {
  EXPECT_EQ(messages_of({"Hello!\r", "/exit\r", "", "a\rb"}), (Messages{"Hello!", "/exit", "", "a\rb"}));
}

TEST(LineJoiner, ABackslashGoesOnInTheNextLine) {
  EXPECT_EQ(messages_of({"one\\\r", "two\\", "three", "four"}), (Messages{"one\ntwo\nthree", "four"}));
  EXPECT_EQ(messages_of({"C:\\dir\\\\", "x"}), (Messages{"C:\\dir\\\\", "x"}));
  EXPECT_EQ(messages_of({"the end\\"}), (Messages{"rest: the end"}));
}

TEST(LineJoiner, ABlockIsOneMessageWithoutItsMarks) {
  EXPECT_EQ(messages_of({"\"\"\"", "one", "", " two\\", "\"\"\"", "three"}), (Messages{"one\n\n two\\", "three"}));
  EXPECT_EQ(messages_of({"\"\"\"one", "two\"\"\"  "}), (Messages{"one\ntwo"}));
  EXPECT_EQ(messages_of({"\"\"\"one\"\"\""}), (Messages{"one"}));
  EXPECT_EQ(messages_of({"\"\"\"\"\"\""}), (Messages{""}));
  EXPECT_EQ(messages_of({"/system \"\"\"You are", "a pirate\"\"\"", "x"}),
            (Messages{"/system You are\na pirate", "x"}));
  EXPECT_EQ(messages_of({"\"\"\"open", "for ever"}), (Messages{"rest: \"\"\"open\nfor ever"}));
}

TEST(LineJoiner, ThreeQuotesElsewhereAreText) {
  EXPECT_EQ(messages_of({"what is \"\"\" in Python?", "\"\" x"}), (Messages{"what is \"\"\" in Python?", "\"\" x"}));
}

}  // namespace
}  // namespace cairn::terminal
