#include "terminal/key_decoder.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace cairn::terminal {
namespace {

using Kind = KeyKind;

Key typed(std::string text) { return {Kind::kText, std::move(text)}; }
Key pasted(std::string text) { return {Kind::kPaste, std::move(text)}; }

std::vector<Key> keys_of(std::string_view bytes) {
  KeyDecoder decoder;
  std::vector<Key> keys = decoder.push(bytes);
  for (Key& key : decoder.flush()) keys.push_back(std::move(key));
  return keys;
}

TEST(KeyDecoder, KnowsTheSequencesOfCommonTerminals) {
  const std::pair<std::string_view, Kind> cases[] = {
      {"\x1b[A", Kind::kUp},
      {"\x1b[B", Kind::kDown},
      {"\x1b[C", Kind::kRight},
      {"\x1b[D", Kind::kLeft},
      {"\x1bOA", Kind::kUp},
      {"\x1bOD", Kind::kLeft},
      {"\x1b[H", Kind::kHome},
      {"\x1bOF", Kind::kEnd},
      {"\x1b[1~", Kind::kHome},
      {"\x1b[8~", Kind::kEnd},
      {"\x1b[3~", Kind::kDelete},
      {"\x1b[3;5~", Kind::kKillWordAfter},
      {"\x1b[1;5C", Kind::kWordRight},
      {"\x1b[1;3D", Kind::kWordLeft},
      {"\x1b[1;2D", Kind::kLeft},
      {"\x1b"
       "b",
       Kind::kWordLeft},
      {"\x1b"
       "f",
       Kind::kWordRight},
      {"\x1b"
       "d",
       Kind::kKillWordAfter},
      {"\x1b\x7f", Kind::kKillWordBefore},
      {"\x1b\r", Kind::kNewline},
      {"\x1b[13;2u", Kind::kNewline},
      {"\x1b[27;2;13~", Kind::kNewline},
      {"\r", Kind::kEnter},
      {"\n", Kind::kEnter},
      {"\t", Kind::kTab},
      {"\x01", Kind::kHome},
      {"\x05", Kind::kEnd},
      {"\x03", Kind::kInterrupt},
      {"\x04", Kind::kEndOfInput},
      {"\x0b", Kind::kKillToEnd},
      {"\x0c", Kind::kClearScreen},
      {"\x15", Kind::kKillToBegin},
      {"\x17", Kind::kKillWordBefore},
      {"\x19", Kind::kYank},
      {"\x1a", Kind::kSuspend},
      {"\x7f", Kind::kBackspace},
      {"\x08", Kind::kBackspace},
      {"\x1b", Kind::kEscape},
  };
  for (const auto& [bytes, kind] : cases) {
    EXPECT_EQ(keys_of(bytes), std::vector<Key>{{kind}}) << ::testing::PrintToString(bytes);
    // However the bytes come, they are the same key.
    KeyDecoder decoder;
    std::vector<Key> keys;
    for (const char byte : bytes) {
      for (Key& key : decoder.push({&byte, 1})) keys.push_back(std::move(key));
    }
    for (Key& key : decoder.flush()) keys.push_back(std::move(key));
    EXPECT_EQ(keys, std::vector<Key>{{kind}}) << ::testing::PrintToString(bytes);
  }
}

TEST(KeyDecoder, PassesOverWhatItDoesNotKnowAsAWhole) {
  EXPECT_EQ(keys_of("a\x1b[5~b\x1b[1;5Sc\x1b[?1;2cd\x1bOPe\x1b[201~f\x1dg"),
            (std::vector<Key>{typed("a"), typed("b"), typed("c"), typed("d"), typed("e"), typed("f"), typed("g")}));
  EXPECT_EQ(keys_of("\x1b[" + std::string(1'000, '1') + "x"), std::vector<Key>{typed("x")});
  EXPECT_EQ(keys_of("\x1b[1\rx"), (std::vector<Key>{{Kind::kEnter}, typed("x")}));
}

TEST(KeyDecoder, HoldsBackACharacterUntilItIsWhole) {
  KeyDecoder decoder;
  EXPECT_EQ(decoder.push("h\xc3"), std::vector<Key>{typed("h")});
  EXPECT_TRUE(decoder.waits_for_more());
  EXPECT_EQ(decoder.push("\xa9!"), std::vector<Key>{typed("é!")});
  EXPECT_FALSE(decoder.waits_for_more());
  EXPECT_EQ(decoder.push("\xff"
                         "a"),
            std::vector<Key>{typed("\ufffd"
                                   "a")});
  decoder.push("\xe6\x97");
  EXPECT_EQ(decoder.flush(), std::vector<Key>{typed("\ufffd")});
}

TEST(KeyDecoder, APasteIsOneKeyOfAnyLengthAndKeepsEveryByte) {
  EXPECT_EQ(keys_of("\x1b[200~one\ntwo\r\nthree\rfour\t\x03\x1b[A\x1b[201~\r"),
            (std::vector<Key>{pasted("one\ntwo\nthree\nfour\t\x03\x1b[A"), {Kind::kEnter}}));
  std::string text;
  for (int i = 0; i < 40'000; ++i) text += "line " + std::to_string(i) + " ü\n";
  const std::string bytes = "\x1b[200~" + text + "\x1b[201~";
  KeyDecoder decoder;
  std::vector<Key> keys;
  for (size_t at = 0; at < bytes.size(); at += 4'093) {
    for (Key& key : decoder.push(std::string_view(bytes).substr(at, 4'093))) keys.push_back(std::move(key));
  }
  EXPECT_EQ(keys, std::vector<Key>{pasted(text)});
}

TEST(KeyDecoder, APasteEndsWhereverItsBytesAreDivided) {
  KeyDecoder decoder;
  std::vector<Key> keys;
  for (const char byte : std::string_view("\x1b[200~one\x1b[201~!")) {
    for (Key& key : decoder.push({&byte, 1})) keys.push_back(std::move(key));
  }
  EXPECT_EQ(keys, (std::vector<Key>{pasted("one"), typed("!")}));
}

TEST(KeyDecoder, APasteWhoseEndIsLostIsTakenAsItIs) {
  KeyDecoder decoder;
  EXPECT_TRUE(decoder.push("\x1b[200~half\x1b[20").empty());
  EXPECT_TRUE(decoder.in_paste());
  EXPECT_EQ(decoder.flush(), std::vector<Key>{pasted("half\x1b[20")});
  EXPECT_EQ(decoder.push("x"), std::vector<Key>{typed("x")});
}

}  // namespace
}  // namespace cairn::terminal
