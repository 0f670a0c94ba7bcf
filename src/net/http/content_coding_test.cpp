#include "net/http/content_coding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zstd.h>

namespace cairn::net {
namespace {

using testing::HasSubstr;

bool always(size_t) { return true; }

std::string gzipped(std::string_view text, size_t piece = 1 << 20, bool flush = false) {
  GzipWriter writer;
  std::string bytes;
  for (size_t at = 0; at < text.size(); at += piece) bytes += writer.add(text.substr(at, piece), flush);
  return bytes + writer.finish();
}

std::string zstd(std::string_view text) {
  std::string bytes(ZSTD_compressBound(text.size()), '\0');
  const size_t size = ZSTD_compress(bytes.data(), bytes.size(), text.data(), text.size(), 3);
  EXPECT_EQ(ZSTD_isError(size), 0u);
  bytes.resize(size);
  return bytes;
}

std::string text_of(size_t bytes) {
  std::string text;
  for (size_t i = 0; text.size() < bytes; ++i) text += std::to_string(i * i * i) + " ";
  text.resize(bytes);
  return text;
}

struct Format {
  ContentCoding coding;
  std::string (*encode)(std::string_view text);
};
const std::vector<Format>& formats() {
  static const std::vector<Format> kFormats = {
      {ContentCoding::kGzip, [](std::string_view text) { return gzipped(text); }}, {ContentCoding::kZstd, zstd}};
  return kFormats;
}

TEST(ContentCoding, IsKnownByItsName) {
  EXPECT_EQ(content_coding(""), ContentCoding::kIdentity);
  EXPECT_EQ(content_coding(" Identity "), ContentCoding::kIdentity);
  EXPECT_EQ(content_coding("GZip"), ContentCoding::kGzip);
  EXPECT_EQ(content_coding("x-gzip"), ContentCoding::kGzip);
  EXPECT_EQ(content_coding("zstd"), ContentCoding::kZstd);
  for (const auto* unknown : {"br", "deflate", "gzip, zstd", "gzip,", "*"})
    EXPECT_EQ(content_coding(unknown), std::nullopt);
}

TEST(ContentCoding, GzipIsAcceptedByNameOnly) {
  for (const auto* taken : {"gzip", "gzip, deflate, br", "br;q=1.0, GZIP;q=0.5", "deflate,\tgzip ; q=0.001"})
    EXPECT_TRUE(accepts_gzip(taken)) << taken;
  for (const auto* not_taken : {"", "identity", "br", "*", "gzip;q=0", "gzip; q=0.000, br", "gzipped"})
    EXPECT_FALSE(accepts_gzip(not_taken)) << not_taken;
}

TEST(ContentCoding, ABodyIsWhatItWas) {
  for (const Format& format : formats()) {
    for (const size_t bytes : {size_t{0}, size_t{1}, size_t{1'000}, size_t{64} << 10, size_t{3'000'000}}) {
      const std::string text = text_of(bytes);
      const auto decoded = decode_body(format.coding, format.encode(text), bytes, always);
      ASSERT_TRUE(decoded.has_value()) << decoded.error().text();
      EXPECT_TRUE(*decoded == text) << bytes;
    }
    // Members and frames may follow each other.
    const auto two = decode_body(format.coding, format.encode("one ") + format.encode("two"), 100, always);
    ASSERT_TRUE(two.has_value()) << two.error().text();
    EXPECT_EQ(*two, "one two");
  }
}

TEST(ContentCoding, WhatIsNoSuchBodyIsRefused) {
  for (const Format& format : formats()) {
    const std::string whole = format.encode(text_of(10'000));
    std::string damaged = whole;
    damaged[whole.size() / 2] ^= 0x55;
    damaged[0] ^= 1;
    for (const std::string& bad : {std::string(), std::string("{\"input\": 1}"), whole.substr(0, whole.size() / 2),
                                   whole.substr(0, whole.size() - 1), whole + "x", damaged}) {
      const auto decoded = decode_body(format.coding, bad, 1 << 20, always);
      ASSERT_FALSE(decoded.has_value());
      EXPECT_EQ(decoded.error().code, Code::kInvalidArgument);
      EXPECT_THAT(decoded.error().message, HasSubstr("Content-Encoding"));
    }
  }
}

TEST(ContentCoding, ABombIsRefusedAsSoonAsItIsSeen) {
  for (const Format& format : formats()) {
    const std::string bomb = format.encode(std::string(100 << 20, 'x'));
    EXPECT_LT(bomb.size(), 1u << 20);
    size_t asked = 0;
    const auto counted = [&](size_t bytes) {
      asked = std::max(asked, bytes);
      return true;
    };
    const auto large = decode_body(format.coding, bomb, 1 << 20, counted);
    ASSERT_FALSE(large.has_value());
    EXPECT_EQ(large.error().code, Code::kTooLarge);
    EXPECT_LE(asked, 3u << 20);
    const auto full = decode_body(format.coding, bomb, 1 << 30, [](size_t bytes) { return bytes < 1'000'000; });
    ASSERT_FALSE(full.has_value());
    EXPECT_EQ(full.error().code, Code::kOutOfMemory);
  }
}

TEST(GzipWriter, WhatIsFlushedCanBeRead) {
  GzipWriter writer;
  std::string sent;
  for (const auto* event : {"data: one\n\n", "data: two\n\n"}) {
    sent += writer.add(event, true);
    // A reader of what has come so far, cut where the end would be.
    const auto cut = decode_body(ContentCoding::kGzip, sent, 100, always);
    EXPECT_FALSE(cut.has_value());
  }
  sent += writer.finish();
  EXPECT_EQ(decode_body(ContentCoding::kGzip, sent, 100, always).value(), "data: one\n\ndata: two\n\n");
  EXPECT_EQ(decode_body(ContentCoding::kGzip, gzipped("abc", 1, true), 3, always).value(), "abc");
}

}  // namespace
}  // namespace cairn::net
