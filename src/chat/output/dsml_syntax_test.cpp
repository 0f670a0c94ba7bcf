// Which bytes of an answer with DSML calls are markup.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "chat/testing/output_parser_fixture.h"

namespace cairn::chat {
namespace {

using nlohmann::ordered_json;

const OutputFormat kFormat{ToolFormat::kDsmlV4, ReasoningFormat::kThink};
const ordered_json kOneTool = ordered_json::parse(R"([{"type": "function", "function": {"name": "f"}}])");

/// Bytes that are all markup, or all text.
struct Piece {
  std::string text;
  bool syntax;
};

void expect_syntax(const std::vector<Piece>& pieces, const std::string& prompt, const OutputFormat& format = kFormat) {
  OutputParser parser(format, kOneTool, prompt);
  std::vector<Part> parts;
  std::string read;
  for (const Piece& piece : pieces) {
    for (const char byte : piece.text) {
      EXPECT_EQ(parser.in_syntax(), piece.syntax) << "after: " << read;
      parser.feed(std::string_view(&byte, 1), parts);
      read += byte;
    }
  }
}

TEST(DsmlSyntax, StringsOfACallAreTextAndTheRestOfItIsMarkup) {
  expect_syntax({{"Hm.</think>Let me see, a < b and <｜x.\n\n<｜DSML｜", false},
                 {"tool_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"path\" string=\"true\">", true},
                 {"src/a < b & c \"d\"\n</", false},
                 {"｜DSML｜parameter>\n<｜DSML｜parameter name=\"n\" string=\"false\">12</｜DSML｜parameter>\n", true},
                 {"<｜DSML｜parameter name=\"o\" string=\"false\">{\"", true},
                 {"key\"", false},
                 {": [1, \"", true},
                 {R"(x \" \\")", false},
                 {", true]}</｜DSML｜parameter>\n<｜DSML｜parameter name=\"empty\" string=\"true\">", true},
                 {"</", false},
                 {"｜DSML｜parameter>\n</｜DSML｜invoke>\n<｜DSML｜invoke name=\"g\">\n\n</｜DSML｜invoke>\n", true},
                 {"</｜DSML｜tool_calls>", true},
                 {"\n\nDone: </x> <｜DSML｜", false},
                 {"invoke name=\"f\">", true}},
                "<think>");
}

TEST(DsmlSyntax, OtherSpellingsOnceTheyAreRead) {
  // Half the mark may be any text until the whole block start is there.
  expect_syntax({{"<DSML｜tool_calls>", false},
                 {"<DSML｜invoke name=\"f\"><DSML｜parameter name=\"a\">", true},
                 {"x</", false},
                 {"DSML｜parameter></DSML｜invoke></DSML｜tool_calls>", true},
                 {"y", false}},
                "</think>");
  // All arguments as one JSON object.
  expect_syntax({{"<｜DSML｜", false},
                 {"function_calls><｜DSML｜invoke name=\"f\">{\"", true},
                 {"a\"", false},
                 {": \"", true},
                 {"b\"", false},
                 {"}</｜DSML｜invoke></｜DSML｜function_calls>", true}},
                "</think>");
}

TEST(DsmlSyntax, ABlockThatTurnsOutToBeNoCallIsText) {
  expect_syntax({{"<｜DSML｜", false}, {"x", true}, {"yz <｜DSML｜", false}, {"tool_calls>a", true}, {"b", false}},
                "</think>");
}

TEST(DsmlSyntax, NothingIsMarkupWithoutCallsOrInOtherFormats) {
  expect_syntax({{"<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">", false}}, "</think>",
                {ToolFormat::kNone, ReasoningFormat::kThink});
  expect_syntax({{"<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>", false}}, "",
                {ToolFormat::kHermes, ReasoningFormat::kThink});
}

}  // namespace
}  // namespace cairn::chat
