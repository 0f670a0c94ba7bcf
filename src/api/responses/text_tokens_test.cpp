#include "api/responses/text_tokens.h"

#include <gtest/gtest.h>

namespace cairn::api::responses {
namespace {

/// Tokens named by what is to be sent of them.
class Told {
 public:
  Told& token(std::string_view text, std::string_view name) {
    tokens_.add(text, name);
    return *this;
  }
  Told& token(std::string_view text) { return token(text, text); }
  Told& pass(std::string_view text) {
    tokens_.pass(text);
    return *this;
  }
  Told& call() {
    tokens_.pass_all_but_last();
    return *this;
  }
  std::string take(std::string_view text) {
    std::string names;
    for (const auto& name : tokens_.take(text)) names += (names.empty() ? "" : "|") + name.get<std::string>();
    return names;
  }

 private:
  TextTokens tokens_;
};

TEST(TextTokens, EachTokenIsSentOnceWithItsText) {
  Told told;
  EXPECT_EQ(told.token("Hel").take("Hel"), "Hel");
  EXPECT_EQ(told.token("lo").take("lo"), "lo");
  EXPECT_EQ(told.token(" wor").token("ld").take(" world"), " wor|ld");
  EXPECT_EQ(told.token("!").take("!"), "!");
}

TEST(TextTokens, HalvesOfACharacterBelongTogether) {
  EXPECT_EQ(Told().token("", "1st").token("", "2nd").token("é", "3rd").take("é"), "1st|2nd|3rd");
}

TEST(TextTokens, WhatIsHeldBackComesLater) {
  Told told;
  EXPECT_EQ(told.token("a <", "1").take("a "), "1");
  EXPECT_EQ(told.token("b", "2").take("<b"), "2");  // the 1st has been sent
  EXPECT_EQ(told.token("<", "3").token("i", "4").take("<i"), "3|4");
}

TEST(TextTokens, TokensOfMarkersAreNotSentWithAnyText) {
  Told told;
  told.token("<think>").token("Hm").pass("Hm").token(".").pass(".").token("</think>").token("\n\n");
  EXPECT_EQ(told.token("Yes").take("Yes"), "Yes");
  // A token that ends the thinking and begins the text is the text's.
  EXPECT_EQ(Told().token("Hm").pass("Hm").token(".</think>t", "1").pass(".").take("t"), "1");
  // A token that ends a call and begins the text is the text's, too.
  EXPECT_EQ(Told().token("<tool_call>").token("{a").call().token("}</tool_call>a", "1").call().take("a"), "1");
}

TEST(TextTokens, TextWithoutATokenEndsAllThatWaits) {
  Told told;
  EXPECT_EQ(told.token("x").token("", "held").take("xyz"), "x|held");
  EXPECT_EQ(told.take("more"), "");
  EXPECT_EQ(told.token("y").take("y"), "y");
}

}  // namespace
}  // namespace cairn::api::responses
