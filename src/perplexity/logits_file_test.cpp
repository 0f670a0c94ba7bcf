#include "perplexity/logits_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

namespace cairn::perplexity {
namespace {

template <class T>
void append(std::vector<std::byte>& bytes, T value) {
  const auto* from = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), from, from + sizeof(value));
}

// A file as llama-perplexity lays it out: one window of four tokens, one counted position, a vocabulary of three.
std::vector<std::byte> small_file() {
  std::vector<std::byte> bytes;
  for (const char c : std::string("_logits_")) bytes.push_back(static_cast<std::byte>(c));
  for (const int32_t number : {4, 3, 1}) append(bytes, number);
  for (const int32_t token : {2, 0, 1, 2}) append(bytes, token);
  append(bytes, 0.25f);
  append(bytes, -16.0f);
  for (const int code : {0, 60, 63, 0}) append(bytes, static_cast<uint16_t>(code));
  return bytes;
}

template <class T>
std::vector<std::byte> with(std::vector<std::byte> bytes, size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof(value));
  return bytes;
}

TEST(LogitsFile, ReadsTheLayoutOfLlamaPerplexity) {
  const auto bytes = small_file();
  const auto file = LogitsFile::from_bytes(bytes);
  ASSERT_TRUE(file.has_value()) << file.error().text();
  EXPECT_EQ(file->shape().positions(), 1);
  EXPECT_EQ(file->tokens(), (std::vector{TokenId{2}, TokenId{0}, TokenId{1}, TokenId{2}}));
  const auto record = file->record(0);
  ASSERT_TRUE(record.has_value());
  EXPECT_EQ(record->log_probability(0), -16);
  EXPECT_EQ(record->log_probability(1), -1);
  EXPECT_EQ(record->log_probability(2), -0.25);
}

TEST(LogitsFile, ADamagedFileIsRefusedNamingTheDamage) {
  const auto bytes = small_file();
  const auto refused = [](std::span<const std::byte> damaged, const std::string& words) {
    const auto file = LogitsFile::from_bytes(damaged);
    ASSERT_FALSE(file.has_value()) << words;
    EXPECT_EQ(file.error().code, Code::kCorruptFile);
    EXPECT_NE(file.error().text().find(words), std::string::npos) << file.error().text();
  };
  refused({}, "no file of log-probabilities");
  refused(with(bytes, 0, 'x'), "no file of log-probabilities");
  for (size_t size = 20; size < bytes.size(); ++size) refused(std::span(bytes).first(size), "not written to its end");
  auto longer = bytes;
  longer.push_back(std::byte{0});
  refused(longer, "not written to its end");
  refused(with(bytes, 8, int32_t{2}), "windows of 2 tokens");
  refused(with(bytes, 12, int32_t{-3}), "vocabulary of -3");
  refused(with(bytes, 16, int32_t{0}), "0 windows");
  refused(with(bytes, 16, int32_t{0x7fffffff}), "not written to its end");
  refused(with(bytes, 24, int32_t{3}), "token 3 is not in its vocabulary");
  for (const auto& damaged : {with(bytes, 36, std::nanf("")), with(bytes, 36, -1.0f), with(bytes, 40, 1.0f)}) {
    const auto file = LogitsFile::from_bytes(damaged);
    ASSERT_TRUE(file.has_value());
    const auto record = file->record(0);
    ASSERT_FALSE(record.has_value());
    EXPECT_EQ(record.error().at, "offset 36");
  }
}

TEST(LogitsFile, AWrittenFileReadsBackTheSame) {
  const auto path = std::filesystem::temp_directory_path() / ("cairn_logits_file_" + std::to_string(::getpid()));
  const LogitsShape shape{.window_tokens = 5, .vocabulary = 3, .windows = 2};
  const std::vector<TokenId> tokens(10, TokenId{1});
  const std::vector<float> logits = {1, 3, -30};
  const auto log_sum = static_cast<float>(std::log(1 + std::exp(-2.0)));
  std::vector<std::byte> record(static_cast<size_t>(shape.record_bytes()));
  encode_record(logits, 3, log_sum, record);
  {
    auto writer = LogitsFileWriter::create(path, shape, tokens);
    ASSERT_TRUE(writer.has_value()) << writer.error().text();
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(writer->append(record).has_value());
    EXPECT_FALSE(writer->finish().has_value());  // one is missing
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  auto writer = LogitsFileWriter::create(path, shape, tokens);
  ASSERT_TRUE(writer.has_value()) << writer.error().text();
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(writer->append(record).has_value());
  ASSERT_TRUE(writer->finish().has_value());
  const auto file = LogitsFile::open(path);
  std::filesystem::remove(path);
  ASSERT_TRUE(file.has_value()) << file.error().text();
  EXPECT_EQ(file->tokens(), tokens);
  for (int i = 0; i < 4; ++i) {
    const auto read = file->record(i);
    ASSERT_TRUE(read.has_value());
    EXPECT_NEAR(read->log_probability(0), -2 - log_sum, 1.3e-4);
    EXPECT_NEAR(read->log_probability(1), -log_sum, 1.3e-4);
    EXPECT_EQ(read->code(2), 0);
    file->release(i, i + 1);
  }
}

}  // namespace
}  // namespace cairn::perplexity
