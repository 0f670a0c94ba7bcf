#include "terminal/line_editor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "terminal/key_decoder.h"
#include "terminal/message_text.h"

namespace cairn::terminal {
namespace {

using ::testing::ElementsAre;

/// Types bytes as a terminal sends them, and gives the message or what stands there with its cursor.
class Typist {
 public:
  explicit Typist(Completer complete = {}) : editor_(history_, std::move(complete)) {
    for (const char* message : {"first", "second one", "two\nlines"}) EXPECT_TRUE(history_.add(message));
    editor_.take();
  }

  std::string type(std::string_view bytes) {
    KeyDecoder decoder;
    std::vector<Key> keys = decoder.push(bytes);
    for (Key& key : decoder.flush()) keys.push_back(std::move(key));
    for (const Key& key : keys) {
      last_ = editor_.apply(key);
      if (last_ == EditResult::kMessage) {
        const bool literal = editor_.is_literal();
        const std::string text = editor_.take();
        return "sent: " + (literal ? text : without_block(text));
      }
    }
    return std::string(editor_.buffer().text()).insert(editor_.buffer().cursor(), "|");
  }
  EditResult last() const { return last_; }
  LineEditor& editor() { return editor_; }

 private:
  InputHistory history_;
  LineEditor editor_;
  EditResult last_ = EditResult::kNothing;
};

TEST(LineEditor, EditsALine) {
  EXPECT_EQ(Typist().type("hello wrld\x1b[D\x1b[D\x1b[Do"), "hello wo|rld");
  EXPECT_EQ(Typist().type("world\x01hello \x05!\r"), "sent: hello world!");
  EXPECT_EQ(Typist().type("one two three\x17\x17\x19\x19"), "one two two |");
  EXPECT_EQ(Typist().type("one two\x1b"
                          "b\x0b"),
            "one |");
  EXPECT_EQ(Typist().type("one two\x15\x19\x7f"), "one tw|");
  EXPECT_EQ(Typist().type("日本\x1b[D\x04x"), "日x|");
}

TEST(LineEditor, AMessageMayHaveSeveralLines) {
  EXPECT_EQ(Typist().type("one\x1b\rtwo\r"), "sent: one\ntwo");
  EXPECT_EQ(Typist().type("one\\\rtwo\r"), "sent: one\ntwo");
  EXPECT_EQ(Typist().type("\"\"\"\rone\\\rtwo\r\"\"\"\r"), "sent: one\\\ntwo");
  EXPECT_EQ(Typist().type("\"\"\"one\r"), "\"\"\"one\n|");
  EXPECT_EQ(Typist().type("one\x1b\rtwo\x1b[A!"), "one!|\ntwo");
}

TEST(LineEditor, APasteIsTextAsItStands) {
  EXPECT_EQ(Typist().type("\x1b[200~one\ntwo\n\x1b[201~"), "one\ntwo\n|");
  EXPECT_EQ(Typist().type("\x1b[200~one\\\n\x1b[201~\x7f\r"), "one\n|");
  EXPECT_EQ(Typist().type("\x1b[200~one\\\x1b[201~\r"), "sent: one\\");
  EXPECT_EQ(Typist().type("\x1b[200~\"\"\"Doc.\x1b[201~\r"), "sent: \"\"\"Doc.");
  EXPECT_EQ(Typist().type("\x1b[200~\"\"\"Doc.\"\"\"\x1b[201~\r"), "sent: \"\"\"Doc.\"\"\"");
  // Between marks that are typed it is part of the block.
  EXPECT_EQ(Typist().type("\"\"\"\r\x1b[200~a\nb\x1b[201~\r\"\"\"\r"), "sent: a\nb");
}

TEST(LineEditor, RemembersMessages) {
  EXPECT_EQ(Typist().type("dr\x1b[A"), "two\nlines|");
  EXPECT_EQ(Typist().type("dr\x1b[A\x1b[A\x1b[A"), "second one|");  // the second goes up a line
  EXPECT_EQ(Typist().type("dr\x1b[A\x1b[B"), "dr|");
  EXPECT_EQ(Typist().type("dr\x10\x10\x10\x0e\x0e\x0e\x0e"), "dr|");
  EXPECT_EQ(Typist().type("\x10\x10\x10\x10\x10\x10\x10\x10\r"), "sent: first");
  EXPECT_EQ(Typist().type("\x1b[A!\r"), "sent: two\nlines!");
  EXPECT_EQ(Typist().type("on\x12"), "second one|");
  EXPECT_EQ(Typist().type("s\x12\x12\x12"), "first|");
  EXPECT_EQ(Typist().type("nothing alike\x12"), "nothing alike|");
}

TEST(LineEditor, TheMessageThatWasSentLastIsTheFirstOfThoseBefore) {
  InputHistory history;
  LineEditor editor(history, {});
  editor.apply({KeyKind::kText, "one"});
  EXPECT_EQ(editor.apply({KeyKind::kEnter}), EditResult::kMessage);
  EXPECT_TRUE(history.add(editor.take()));
  editor.begin();
  editor.apply({KeyKind::kText, "two"});
  EXPECT_EQ(editor.apply({KeyKind::kUp}), EditResult::kChanged);
  EXPECT_EQ(editor.buffer().text(), "one");
  EXPECT_EQ(editor.apply({KeyKind::kDown}), EditResult::kChanged);
  EXPECT_EQ(editor.buffer().text(), "two");
}

TEST(LineEditor, EndsAndInterrupts) {
  Typist typist;
  typist.type("\x04");
  EXPECT_EQ(typist.last(), EditResult::kEnded);
  typist.type("ab\x04");
  EXPECT_EQ(typist.last(), EditResult::kNothing);
  typist.type("\x03");
  EXPECT_EQ(typist.last(), EditResult::kInterrupted);
  EXPECT_EQ(typist.editor().take(), "ab");
  typist.type("\x1a");
  EXPECT_EQ(typist.last(), EditResult::kSuspended);
  typist.type("\x0c");
  EXPECT_EQ(typist.last(), EditResult::kClearScreen);
}

TEST(LineEditor, Completes) {
  const auto complete = [](std::string_view before) -> Completion {
    Completion found;
    for (const char* name : {"/save", "/set", "/stats", "/dir/"}) {
      if (std::string_view(name).starts_with(before)) found.candidates.emplace_back(name);
    }
    return found;
  };
  EXPECT_EQ(Typist(complete).type("/sa\t"), "/save |");
  EXPECT_EQ(Typist(complete).type("/d\t"), "/dir/|");
  EXPECT_EQ(Typist(complete).type("x\t"), "x|");
  EXPECT_EQ(Typist().type("x\t"), "x|");
  Typist typist(complete);
  EXPECT_EQ(typist.type("/s\t"), "/s|");
  EXPECT_EQ(typist.last(), EditResult::kCandidates);
  EXPECT_THAT(typist.editor().candidates(), ElementsAre("/save", "/set", "/stats"));
  const auto accents = [](std::string_view) { return Completion{0, {"aé", "aè"}}; };
  EXPECT_EQ(Typist(accents).type("\t"), "a|");  // not half a character
}

}  // namespace
}  // namespace cairn::terminal
