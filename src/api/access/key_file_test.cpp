#include "api/access/key_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

namespace cairn::api {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr std::string_view kSecret = "sk-0123456789abcdef-secret";

std::string error_of(std::string_view text) {
  const auto keys = parse_keys(text, "keys");
  return keys ? "none" : keys.error().text();
}

TEST(KeyFile, HasAKeyALineWithItsNameAndWhatItMayDo) {
  const std::string text = fmt::format(
      "# people\r\n\n"
      "alice {}  # a friend\r\n"
      "\tbob@home sha256:{} models=qwen*,llama-3 priority=batch rpm=60 tpm=20000 concurrent=2 no_disk manage\n",
      kSecret, net::hex_text(net::sha256("other")));
  const auto keys = parse_keys(text, "keys");
  ASSERT_TRUE(keys.has_value()) << keys.error().text();
  ASSERT_EQ(keys->size(), 2u);
  const KeyRules& alice = (*keys)[0].rules;
  EXPECT_EQ((*keys)[0].digest, net::sha256(kSecret));
  EXPECT_EQ(alice.name, "alice");
  EXPECT_TRUE(alice.models.empty() && !alice.limits.any() && !alice.no_disk && !alice.manages);
  EXPECT_EQ(alice.priority, engine::Priority::kInteractive);
  const KeyRules& bob = (*keys)[1].rules;
  EXPECT_EQ((*keys)[1].digest, net::sha256("other"));
  EXPECT_EQ(bob.name, "bob@home");
  EXPECT_THAT(bob.models, ElementsAre("qwen*", "llama-3"));
  EXPECT_EQ(bob.limits, (RateLimits{60, 20'000, 2}));
  EXPECT_TRUE(bob.no_disk && bob.manages);
  EXPECT_EQ(bob.priority, engine::Priority::kBatch);
}

TEST(KeyFile, AKeyAloneOnItsLineIsNamedByItsHash) {
  const auto keys = parse_keys(std::string(kSecret) + "\n", "keys");
  ASSERT_TRUE(keys.has_value());
  EXPECT_EQ((*keys)[0].rules.name, "key-" + net::hex_text(net::sha256(kSecret)).substr(0, 12));
  EXPECT_THAT(error_of("alice"), HasSubstr("keys:1: a line is NAME KEY"));
}

TEST(KeyFile, ErrorsNameFileAndLineAndNeverTheKey) {
  const std::string secret(kSecret);
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "keys: there is no key in it"},
      {"# nothing\n", "keys: there is no key in it"},
      {"\nalice " + secret + " rpm=0", "keys:2: rpm must be a number from 1"},
      {"alice " + secret + " rpm=many", "\"many\""},
      {"alice " + secret + " colour=red", "\"colour=red\" is none of"},
      {"alice " + secret + " priority=high", "\"priority=high\" is none of"},
      {"alice " + secret + " models=", "names no model"},
      {"alice " + secret + " models=a,,b", "an empty part between its commas"},
      {"alice " + secret + " models=,", "an empty part between its commas"},
      {"alice rpm=60", "there is no key behind the name"},
      {secret + " rpm=60", "there is no key behind the name"},
      {"al/ice " + secret, "a name has 1 to 64"},
      {std::string(65, 'a') + " " + secret, "a name has 1 to 64"},
      {"alice sha256:1234", "64 hexadecimal digits"},
      {"alice " + secret + "\xc3\xa9", "printable ASCII"},
      {"alice " + std::string(513, 'k'), "printable ASCII"},
      {"a " + secret + "\nb " + secret, "keys:2: line 1 has the same key"},
      {"a " + secret + "\na " + secret + "2", "keys:2: line 1 has a key of that name"},
  };
  for (const auto& [text, told] : cases) {
    EXPECT_THAT(error_of(text), HasSubstr(told)) << text;
    EXPECT_THAT(error_of(text), Not(HasSubstr(secret.substr(3)))) << text;
  }
}

TEST(KeyFile, HasAtMostSoManyKeys) {
  std::string text;
  for (size_t i = 0; i <= kKeysMax; ++i) text += fmt::format("n{} key-number-{:08}\n", i, i);
  EXPECT_THAT(error_of(text), HasSubstr(fmt::format("keys:{}: there are more than {} keys", kKeysMax + 1, kKeysMax)));
}

TEST(KeyFile, ThatCannotBeReadIsNamedWithTheReason) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "cairn-key-file";
  std::filesystem::create_directories(folder);
  EXPECT_THAT(read_key_text(folder / "missing").error().text(), HasSubstr("missing is no file: there is nothing"));
  EXPECT_THAT(read_key_text(folder).error().text(), HasSubstr("is no file, but a folder"));
  const auto large = folder / "large";
  std::ofstream(large).close();
  std::filesystem::resize_file(large, kKeyFileBytesMax + 1);
  EXPECT_THAT(read_key_text(large).error().text(), HasSubstr(fmt::format("has over {} bytes", kKeyFileBytesMax)));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace cairn::api
