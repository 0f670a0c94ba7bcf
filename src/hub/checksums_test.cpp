#include "hub/checksums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

namespace cairn::hub {
namespace {

using ::testing::HasSubstr;

const std::string kA(64, 'a');
const std::string kB(64, 'b');

TEST(Checksums, ListsAreRead) {
  const auto list = parse_checksums(
      "# comment\r\n\n" + std::string(64, 'A') + "  folder/model.gguf\r\n" + kB + " *other.gguf\n" + kA + "\n",
      "this.gguf");
  ASSERT_TRUE(list.has_value()) << list.error().text();
  ASSERT_EQ(list->size(), 3u);
  EXPECT_EQ((*list)[0].sha256, kA);
  EXPECT_EQ((*list)[0].name, "model.gguf");
  EXPECT_EQ((*list)[1].name, "other.gguf");
  EXPECT_EQ((*list)[2].name, "this.gguf");
  EXPECT_EQ(parse_checksums((*list)[0].text(), "")->front().name, "model.gguf");
}

TEST(Checksums, WhatIsNoListIsRefusedWithItsLine) {
  for (const std::string& line : {std::string("abc"), kA + " x", kA + "x", std::string(64, 'g') + "  x", "  " + kA})
    EXPECT_THAT(parse_checksums(kA + "  ok\n" + line, "f").error().text(), HasSubstr("line 2 is no SHA-256"));
  EXPECT_THAT(parse_checksums("\n# nothing\n", "f").error().text(), HasSubstr("no checksums"));
}

TEST(Checksums, FilesAndTensorsAreCompared) {
  const std::vector<Checksum> found = {{kA, "new-name.gguf"}, {kA, "new-name.gguf:one"}, {kB, "new-name.gguf:two"}};
  const auto same = compare_checksums(std::vector<Checksum>{{kA, "new-name.gguf"}, {kB, "elsewhere.gguf"}}, found);
  ASSERT_TRUE(same.has_value());
  EXPECT_TRUE(same->empty());
  const auto renamed = compare_checksums(std::vector<Checksum>{{kA, "old.gguf:one"}, {kA, "old.gguf:two"}}, found);
  ASSERT_EQ(renamed->size(), 1u);
  EXPECT_EQ((*renamed)[0].name, "old.gguf:two");
  EXPECT_EQ((*renamed)[0].found, kB);
  const auto missing = compare_checksums(std::vector<Checksum>{{kA, "old.gguf:three"}}, found);
  ASSERT_EQ(missing->size(), 1u);
  EXPECT_EQ((*missing)[0].found, "");
  EXPECT_THAT(compare_checksums(std::vector<Checksum>{{kA, "elsewhere.gguf"}}, found).error().text(),
              HasSubstr("no checksum of this model; it names elsewhere.gguf"));
}

TEST(Checksums, BlobsAreCalledByTheirChecksum) {
  const auto folder = std::filesystem::path(testing::TempDir()) / ("checksums_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  for (const std::string& blob : {kA, "sha256-" + kB}) std::ofstream(folder / blob) << "x";
  std::filesystem::create_symlink(kA, folder / "model.gguf");
  EXPECT_EQ(checksum_in_name(folder / kA), kA);
  EXPECT_EQ(checksum_in_name(folder / "model.gguf"), kA);
  EXPECT_EQ(checksum_in_name(folder / ("sha256-" + kB)), kB);
  EXPECT_EQ(checksum_in_name(folder), std::nullopt);
  EXPECT_EQ(checksum_in_name(folder / "none"), std::nullopt);
  std::filesystem::remove_all(folder);
}

TEST(Checksums, ASplitModelHasSeveralFiles) {
  EXPECT_EQ(files_of_model("/a/m-00002-of-00003.gguf").back(), "/a/m-00003-of-00003.gguf");
  EXPECT_EQ(files_of_model("/a/m-00002-of-00003.gguf").size(), 3u);
  EXPECT_EQ(files_of_model("/a/m.gguf").size(), 1u);
}

}  // namespace
}  // namespace cairn::hub
