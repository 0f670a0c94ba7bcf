#include "terminal/markdown.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "terminal/text_width.h"

namespace cairn::terminal {
namespace {

/// The colours as letters: B bold, C code, D dim, and . the usual ones.
std::string named(std::string text) {
  const std::pair<std::string_view, std::string_view> names[] = {
      {"\x1b[1m", "<B>"}, {"\x1b[22m", "<.>"}, {"\x1b[36m", "<C>"}, {"\x1b[39m", "<.>"}, {"\x1b[2m", "<D>"}};
  for (const auto& [sequence, name] : names) {
    for (size_t at = 0; (at = text.find(sequence, at)) != std::string::npos;) text.replace(at, sequence.size(), name);
  }
  return text;
}

/// In whatever pieces the text comes, the same comes out.
std::string styled(std::string_view text) {
  std::string whole;
  for (size_t piece = 1; piece <= text.size(); ++piece) {
    MarkdownStyle style;
    std::string out;
    for (size_t at = 0; at < text.size(); at += piece) out += style.push(text.substr(at, piece));
    out += style.finish();
    if (piece == 1) whole = out;
    EXPECT_EQ(named(out), named(whole)) << piece;
  }
  return named(whole);
}

TEST(Markdown, ShowsBoldTextCodeAndHeadings) {
  EXPECT_EQ(styled("A **bold** word and `code`."), "A <B>bold<.> word and <C>code<.>.");
  EXPECT_EQ(styled("# Title\nText"), "<B># Title<.>\nText");
  EXPECT_EQ(styled("* **Item:** text\n* x"), "* <B>Item:<.> text\n* x");
  EXPECT_EQ(styled("``a`b``"), "<C>a`b<.>");
  EXPECT_EQ(styled("### Three"), "<B>### Three<.>");
}

TEST(Markdown, CodeInABlockStaysAsItIs) {
  EXPECT_EQ(styled("Look:\n```py\nx = 2 ** 3 ** 4  # `no`\n# no title\n```\n**b**"),
            "Look:\n<D>```py<.>\n<C>x = 2 ** 3 ** 4  # `no`<.>\n<C># no title<.>\n<D>```<.>\n<B>b<.>");
  EXPECT_EQ(styled("~~~~\n```\n~~~~\nx"), "<D>~~~~<.>\n<C>```<.>\n<D>~~~~<.>\nx");
  EXPECT_EQ(styled("```\ncut"), "<D>```<.>\n<C>cut<.>");
}

TEST(Markdown, MarksWithoutTheirOtherHalfAreText) {
  for (const char* text : {"2 ** 3 ** 4", "a ** b", "**open\nand closed**", "`open\n`", "a * b * c", "x**y**z", "***",
                           "#no", "####### seven", "5 * 3 = 15 `", "**", "a** b **c"})
    EXPECT_EQ(styled(text), text);
  const std::string far = "**" + std::string(500, 'x') + "** end";
  MarkdownStyle style;
  std::string out = style.push(far.substr(0, 400));
  EXPECT_GT(out.size(), 200u);  // it does not wait for the end of the answer
  out += style.push(far.substr(400)) + style.finish();
  EXPECT_EQ(out, far);
}

TEST(Markdown, TextComesAtOnce) {
  MarkdownStyle style;
  EXPECT_EQ(style.push("Hello"), "Hello");
  EXPECT_EQ(style.push(" you"), " you");
  EXPECT_EQ(style.push(" and `c"), " and ");
  EXPECT_EQ(named(style.push("` so")), "<C>c<.> so");
}

TEST(Harmless, NoTextMovesTheCursor) {
  EXPECT_EQ(harmless("a\tb\nc\rd\x1b[2Je\x7f\u009bf\u202e"), "a\tb\nc^Md^[[2Je^?\\x9bf\\u202e");
  EXPECT_EQ(text_width("a日e\u0301"), 4);
}

}  // namespace
}  // namespace cairn::terminal
