#include "terminal/slash_commands.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace cairn::terminal {
namespace {

constexpr SlashCommand kCommands[] = {{"/help", "", "this list"},
                                      {"/exit", "", "leave", "/quit"},
                                      {"/set", "NAME VALUE", "set it", {}, "/set system "},
                                      {"/save", "FILE", "keep the talk"},
                                      {"/stats", "", "numbers"}};

/// "message", "command /NAME [ARGUMENT]" or "nearest /NAME".
std::string meaning(std::string_view line) {
  const ParsedLine parsed = parse_line(line, kCommands);
  if (parsed.kind == LineKind::kMessage) return "message";
  if (parsed.kind == LineKind::kUnknown) return "nearest " + std::string(parsed.nearest);
  return "command " + std::string(kCommands[parsed.command].name) + " [" + parsed.argument + "]";
}

TEST(SlashCommands, KnowsCommandsAndTheirArguments) {
  EXPECT_EQ(meaning("/help"), "command /help []");
  EXPECT_EQ(meaning("/quit "), "command /exit []");
  EXPECT_EQ(meaning("/set  temp 0.2 "), "command /set [temp 0.2]");
  EXPECT_EQ(meaning("/set system One.\nTwo."), "command /set [system One.\nTwo.]");
}

TEST(SlashCommands, SeveralLinesAreAMessageUnlessTheCommandTakesThem) {
  for (const char* text : {"/exit\nnow?", "/help\nme", "/help me\nplease", "/set temp 0.2\nhello", "/set\nsystem One.",
                           "/save talk.json\nand this", "/exit\n\n/exit"})
    EXPECT_EQ(meaning(text), "message") << text;
  EXPECT_EQ(meaning("/exit\n"), "command /exit []");
}

TEST(SlashCommands, AnUnknownCommandIsNoMessageAndHasANearestOne) {
  EXPECT_EQ(meaning("/hlep"), "nearest /help");
  EXPECT_EQ(meaning("/sav talk.json"), "nearest /save");
  EXPECT_EQ(meaning("/st"), "nearest /stats");
  EXPECT_EQ(meaning("/foo"), "nearest ");
  EXPECT_EQ(meaning("/nonsense at all"), "nearest ");
  EXPECT_EQ(meaning("/"), "nearest ");
}

TEST(SlashCommands, WhatOnlyLooksLikeACommandIsAMessage) {
  for (const char* line : {"Hello", "/etc/hosts has what?", "// a comment", "/* one */", " /foo", "/ 2 is half",
                           "/a.out", "/foo\nbar", "/ünknown", ""})
    EXPECT_EQ(meaning(line), "message") << line;
}

TEST(SlashCommands, TheHelpHasThemAll) {
  EXPECT_EQ(commands_help(kCommands),
            "/help            this list\n"
            "/exit            leave\n"
            "/set NAME VALUE  set it\n"
            "/save FILE       keep the talk\n"
            "/stats           numbers\n");
}

}  // namespace
}  // namespace cairn::terminal
