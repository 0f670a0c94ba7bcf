#include "net/frames/frame_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace cairn::net {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Reads all results of the reader, with errors as "! MESSAGE (AT)".
void take_all(FrameReader& reader, std::vector<std::string>& out) {
  while (true) {
    const auto message = reader.next();
    if (message && !*message) return;
    out.push_back(message ? **message : "! " + message.error().text());
  }
}

std::vector<std::string> read(std::initializer_list<std::string_view> pieces) {
  FrameReader reader;
  std::vector<std::string> out;
  for (const auto piece : pieces) {
    reader.push(piece);
    take_all(reader, out);
  }
  for (auto last = reader.finish(); !last || *last; last = reader.finish()) {
    out.push_back(last ? **last : "! " + last.error().text());
  }
  return out;
}

std::string frame(std::string_view message) { return encode_frame(Framing::kLength, message); }

/// Expects the same messages and errors for any two cuts.
void expect_any_split(const std::string& stream, const std::vector<std::string>& expected) {
  ASSERT_EQ(read({stream}), expected);
  const std::string_view text = stream;
  for (size_t i = 0; i <= text.size(); ++i) {
    for (size_t j = i; j <= text.size(); ++j) {
      ASSERT_EQ(read({text.substr(0, i), text.substr(i, j - i), text.substr(j)}), expected) << i << " " << j;
    }
  }
}

TEST(FrameReader, FramesAreReadHoweverTheStreamIsCut) {
  const std::string empty(4, '\0');
  expect_any_split(
      frame("{\"id\":\"a\"}") + frame("x\ny") + empty + frame("{}"),
      {"{\"id\":\"a\"}", "x\ny", "! a frame of length 0 has no message (frame 3, byte 21 of the connection)", "{}"});
}

TEST(FrameReader, LinesAreReadHoweverTheStreamIsCut) {
  expect_any_split("{\"a\": 1}\r\n\n  \n{\"b\": 2}\nlast", {"{\"a\": 1}\r", "{\"b\": 2}", "last"});
}

TEST(FrameReader, AStreamThatEndsInsideAFrameIsAnError) {
  const std::string stream = frame("ab") + frame("cdef").substr(0, 6);
  expect_any_split(stream, {"ab", "! the connection ended 6 bytes into a frame (frame 2, byte 6 of the connection)"});
  EXPECT_THAT(read({std::string_view("\3\0", 2)}), ElementsAre(HasSubstr("ended 2 bytes into a frame")));
  EXPECT_THAT(read({"{}"}), ElementsAre("{}"));
  EXPECT_THAT(read({"\n"}), ElementsAre());
  // Two lines that together are too short for the first four bytes to decide.
  EXPECT_THAT(read({"{\n{"}), ElementsAre("{", "{"));
  EXPECT_THAT(read({"\n{\n"}), ElementsAre("{"));
  EXPECT_THAT(read({""}), ElementsAre());
}

TEST(FrameReader, TheFirstFourBytesDecideTheFraming) {
  const auto framing = [](std::string_view first) {
    FrameReader reader;
    reader.push(first);
    (void)reader.next();
    return reader.framing();
  };
  for (const auto* text : {"{\"id", "{ \n ", "\n\n\n{", " {\"a", "\t\r\n{"})
    EXPECT_EQ(framing(text), Framing::kLines) << text;
  EXPECT_EQ(framing("{\"i"), Framing::kUndecided);
  // 123 = '{' is a valid length, and so is that of "{}\n" followed by a zero byte.
  for (const size_t length : {size_t{123}, size_t{0x0A}, size_t{0x0A7D7B}, kFrameBytesMax}) {
    const std::string message(length, 'x');
    FrameReader reader;
    reader.push(frame(message));
    const auto read = reader.next();
    ASSERT_TRUE(read.has_value() && read->has_value()) << length;
    EXPECT_EQ(**read, message);
    EXPECT_EQ(reader.framing(), Framing::kLength);
  }
}

TEST(FrameReader, AMessageThatIsTooLongEndsTheStream) {
  const std::string most(kFrameBytesMax, 'x');
  FrameReader frames;
  const std::string over = {'\1', '\0', '\x10', '\0'};
  frames.push(frame(most) + over + frame("{}"));
  EXPECT_EQ(**frames.next(), most);
  EXPECT_EQ(frames.position(), "frame 1");
  const auto refused = frames.next();
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kTooLarge);
  EXPECT_THAT(refused.error().message, HasSubstr("1048577 bytes is over the limit of 1048576"));
  EXPECT_EQ(refused.error().at, "frame 2, byte 1048580 of the connection");
  EXPECT_TRUE(frames.broken());
  frames.push(frame("{}"));
  EXPECT_EQ(*frames.next(), std::nullopt);
  EXPECT_FALSE(frames.partial());

  FrameReader lines;
  lines.push("{}  \n");
  lines.push(most + "\n");
  EXPECT_EQ(**lines.next(), "{}  ");
  EXPECT_EQ(**lines.next(), most);
  lines.push(most);
  EXPECT_EQ(*lines.next(), std::nullopt);
  lines.push("x");
  EXPECT_EQ(lines.next().error().code, Code::kTooLarge);
  EXPECT_TRUE(lines.broken());
}

TEST(FrameReader, OtherTextIsRefusedWithADescriptionOfFrames) {
  EXPECT_THAT(read({"GET / HTTP/1.1\r\n"}), ElementsAre(HasSubstr("a frame is its length, as 4 bytes")));
}

TEST(EncodeFrame, AddsTheLengthOrALineFeed) {
  EXPECT_EQ(frame(std::string(0x10203, 'x')).substr(0, 4), std::string("\3\2\1\0", 4));
  EXPECT_EQ(encode_frame(Framing::kLines, "{}"), "{}\n");
}

}  // namespace
}  // namespace cairn::net
