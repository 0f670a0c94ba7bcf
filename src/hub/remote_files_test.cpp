#include "hub/remote_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "hub/pull.h"

namespace cairn::hub {
namespace {

using testing::HasSubstr;

constexpr int64_t kGiB = 1ll << 30;
const std::string kSha(64, 'a');

TEST(RemoteFiles, AListGivesTheFilesWithTheirSizesAndChecksums) {
  const auto files =
      read_file_list(R"([{"type": "directory", "path": "sub"}, {"type": "file", "path": "README.md", "size": 3},
      {"type": "file", "path": "small.gguf", "size": 7},
      {"type": "file", "path": "sub/m-Q8_0.gguf", "size": 130, "lfs": {"oid": ")" +
                     kSha + R"(", "size": 5000, "pointerSize": 130}}])");
  ASSERT_TRUE(files.has_value()) << files.error().text();
  ASSERT_EQ(files->size(), 2);
  EXPECT_EQ((*files)[0].bytes, 7);
  EXPECT_EQ((*files)[0].sha256, "");
  EXPECT_EQ((*files)[1].bytes, 5000);
  EXPECT_EQ((*files)[1].sha256, kSha);
}

TEST(RemoteFiles, ListsThatCannotBeUsedAreRefusedInWords) {
  const auto why = [](std::string_view json) { return read_file_list(json).error().message; };
  EXPECT_THAT(why("<html>"), HasSubstr("it begins with \"<html>\""));
  EXPECT_THAT(why("{}"), HasSubstr("no JSON array"));
}

TEST(RemoteFiles, FilesWithoutASizeThatCanBeAreOneArePassedOver) {
  for (const std::string_view size : {"", R"(, "size": -1)", R"(, "size": 99999999999999999)", R"(, "size": "12")",
                                      R"(, "size": 1e30)", R"(, "size": 5, "lfs": {"oid": "x"})"}) {
    const auto files = read_file_list(fmt::format(
        R"([{{"type": "file", "path": "m.gguf", "size": 7}}, {{"type": "file", "path": "odd.gguf"{}}}])", size));
    ASSERT_TRUE(files.has_value()) << files.error().text();
    ASSERT_EQ(files->size(), 1) << size;
    EXPECT_EQ((*files)[0].path, "m.gguf");
  }
}

TEST(RemoteFiles, FilesOfOddNamesArePassedOver) {
  for (const std::string_view odd :
       {"../m.gguf", "/m.gguf", ".cache/old.gguf", "a\\\\b.gguf", "a//b.gguf", "a\\u0007.gguf"}) {
    const auto files = read_file_list(fmt::format(
        R"([{{"type": "file", "path": "{}", "size": 1}}, {{"type": "file", "path": "M-Q4_K_M.GGUF", "size": 2}}])",
        odd));
    ASSERT_TRUE(files.has_value()) << files.error().text();
    ASSERT_EQ(files->size(), 1) << odd;
    EXPECT_EQ((*files)[0].path, "M-Q4_K_M.GGUF");
  }
}

TEST(RemoteFiles, AManifestGivesTheOneGgufFile) {
  const auto layer = [](std::string_view kind, std::string_view digest, int size) {
    return fmt::format(R"({{"mediaType": "application/vnd.ollama.image.{}", "digest": "{}", "size": {}}})", kind,
                       digest, size);
  };
  const std::string digest = "sha256:" + kSha;
  const auto manifest =
      read_manifest(fmt::format(R"({{"layers": [{}, {}]}})", layer("model", digest, 9), layer("params", digest, 1)));
  ASSERT_TRUE(manifest.has_value()) << manifest.error().text();
  EXPECT_EQ(manifest->model.path, digest);
  EXPECT_EQ(manifest->model.bytes, 9);
  EXPECT_EQ(manifest->model.sha256, kSha);
  EXPECT_EQ(manifest->other, std::vector<std::string>{"params"});
  const auto why = [](std::string_view json) { return read_manifest(json).error().message; };
  EXPECT_THAT(why("nonsense"), HasSubstr("manifest"));
  EXPECT_THAT(why("[]"), HasSubstr("no layers"));
  EXPECT_THAT(why(R"({"layers": []})"), HasSubstr("names 0 GGUF files"));
  EXPECT_THAT(why(fmt::format(R"({{"layers": [{0}, {0}]}})", layer("model", digest, 9))), HasSubstr("names 2"));
  EXPECT_THAT(why(fmt::format(R"({{"layers": [{}]}})", layer("model", "sha256:../../x", 9))),
              HasSubstr("without a SHA-256"));
  EXPECT_THAT(why(fmt::format(R"({{"layers": [{}]}})", layer("tensor", digest, 9))), HasSubstr("set of tensors"));
}

std::vector<RemoteFile> repository() {
  return {{"m-BF16.gguf", 16 * kGiB, ""},
          {"m-Q8_0.gguf", 8 * kGiB, ""},
          {"m-Q4_K_M.gguf", 4 * kGiB + 1, ""},
          {"m-Q4_0.gguf", 4 * kGiB, ""},
          {"m-UD-Q2_K_XL.gguf", 2 * kGiB, ""},
          {"big/m-Q6_K-00001-of-00002.gguf", 3 * kGiB, ""},
          {"big/m-Q6_K-00002-of-00002.gguf", 3 * kGiB, ""},
          {"mmproj-F32.gguf", 3, ""},
          {"mmproj-F16.gguf", 5, ""},
          {"imatrix.gguf", 1, ""}};
}
ModelName named(std::string tag, std::string file = "") {
  return {.hub = Hub::kHuggingFace, .owner = "org", .model = "repo", .tag = std::move(tag), .file = std::move(file)};
}
std::string chosen(const ModelName& name, int64_t memory, const std::vector<RemoteFile>& files = repository()) {
  const auto choice = choose_files(name, files, memory);
  if (!choice) return choice.error().message;
  std::string paths;
  for (const RemoteFile& file : choice->files) paths += (paths.empty() ? "" : " ") + file.path;
  return paths;
}

TEST(RemoteFiles, TheTagChoosesTheQuantisationInAnyCase) {
  EXPECT_EQ(chosen(named("q4_k_m"), 0), "m-Q4_K_M.gguf");
  EXPECT_EQ(chosen(named("q2_k_xl"), 0), "m-UD-Q2_K_XL.gguf");
  EXPECT_EQ(chosen(named("Q6_K"), 0), "big/m-Q6_K-00001-of-00002.gguf big/m-Q6_K-00002-of-00002.gguf");
  EXPECT_THAT(chosen(named("Q5_K_M"), 0),
              HasSubstr("org/repo has no Q5_K_M; it has BF16, Q4_0, Q4_K_M, Q6_K, Q8_0, UD-Q2_K_XL"));
  const std::vector<RemoteFile> two = {{"a-Q8_0.gguf", 1, ""}, {"b-Q8_0.gguf", 1, ""}};
  EXPECT_THAT(chosen(named("Q8_0"), 0, two), HasSubstr("say which one: org/repo/a-Q8_0.gguf, org/repo/b-Q8_0.gguf"));
}

TEST(RemoteFiles, WithoutATagTheBestThatTakesHalfOfTheMemoryIsTaken) {
  EXPECT_EQ(chosen(named(""), 64 * kGiB), "m-Q8_0.gguf");
  EXPECT_EQ(chosen(named(""), 12 * kGiB), "big/m-Q6_K-00001-of-00002.gguf big/m-Q6_K-00002-of-00002.gguf");
  EXPECT_EQ(chosen(named(""), 9 * kGiB), "m-Q4_K_M.gguf");
  EXPECT_EQ(chosen(named(""), 8 * kGiB), "m-Q4_0.gguf");
  EXPECT_EQ(chosen(named(""), 4 * kGiB), "m-UD-Q2_K_XL.gguf");
  EXPECT_EQ(chosen(named(""), 3 * kGiB), "m-UD-Q2_K_XL.gguf");
  EXPECT_THAT(chosen(named(""), kGiB), HasSubstr("the smallest, UD-Q2_K_XL, takes 2.0 GiB"));
  const auto choice = choose_files(named(""), repository(), 9 * kGiB);
  EXPECT_THAT(choice->reason, HasSubstr("Q4_K_M (4.0 GiB) is taken of 6 in org/repo"));
  EXPECT_EQ(chosen(named(""), 1, {{"only.gguf", 9 * kGiB, ""}}), "only.gguf");
}

TEST(RemoteFiles, WhatIsBesideAModelIsHadByItsOwnNameAlone) {
  const std::vector<RemoteFile> files = {{"M-Q8_0.gguf", 9 * kGiB, ""},       {"M-Q4_K_M.gguf", 4 * kGiB, ""},
                                         {"mtp/M-mtp-Q8_0.gguf", kGiB, ""},   {"mtp/M-mtp-Q4_K_M.gguf", kGiB, ""},
                                         {"M-assistant-Q8_0.gguf", kGiB, ""}, {"M.eagle3.Q6_K.gguf", kGiB, ""}};
  EXPECT_EQ(chosen(named(""), 10 * kGiB, files), "M-Q4_K_M.gguf");
  EXPECT_EQ(chosen(named("Q4_K_M"), 0, files), "M-Q4_K_M.gguf");
  EXPECT_EQ(chosen(named("Q8_0"), 0, files), "M-Q8_0.gguf");
  EXPECT_EQ(chosen(named("", "mtp/M-mtp-Q8_0.gguf"), 0, files), "mtp/M-mtp-Q8_0.gguf");
  EXPECT_EQ(chosen(named("mtp-q8_0"), 0, files), "mtp/M-mtp-Q8_0.gguf");
  EXPECT_EQ(chosen(named("Q8_0"), 0, {{"M-Assistant-Q8_0.gguf", 9, ""}, {"M-Assistant-draft-Q8_0.gguf", 1, ""}}),
            "M-Assistant-Q8_0.gguf");
  EXPECT_EQ(chosen(named(""), kGiB, {{"draftsman-7b-Q4_0.gguf", 2, ""}, {"draft-Q4_0.gguf", 1, ""}}),
            "draftsman-7b-Q4_0.gguf");
  EXPECT_EQ(chosen(named("Q4_0"), 0, {{"lora-Q4_0.gguf", 1, ""}}), "lora-Q4_0.gguf");
}

TEST(RemoteFiles, AModelWhoseNameHasAWordOfHeadsIsKnownByItsSize) {
  const std::vector<RemoteFile> files = {
      {"8B.gguf", 8 * kGiB, ""}, {"Assistant-8B.gguf", 8 * kGiB, ""}, {"8B-assistant.gguf", kGiB, ""}};
  EXPECT_EQ(chosen(named(""), 20 * kGiB, files), "8B.gguf");
  EXPECT_EQ(chosen(named(""), 20 * kGiB, {files[1], files[2]}), "Assistant-8B.gguf");
  const std::vector<RemoteFile> mixed = {{"8B-F16.gguf", 16 * kGiB, ""},
                                         {"Assistant-8B-Q4_0.gguf", 4 * kGiB + kGiB / 2, ""},
                                         {"8B-Q4_0.gguf", 4 * kGiB, ""},
                                         {"8B-mtp-F16.gguf", kGiB, ""}};
  EXPECT_EQ(chosen(named(""), 40 * kGiB, mixed), "Assistant-8B-Q4_0.gguf");
  EXPECT_THAT(chosen(named("Q4_0"), 0, mixed), HasSubstr("has several files of Q4_0; say which one"));
  EXPECT_EQ(chosen(named("F16"), 0, mixed), "8B-F16.gguf");
  EXPECT_THAT(chosen(named("Q8_0"), 0, mixed), HasSubstr("it has F16, Q4_0"));
}

TEST(RemoteFiles, PartsOfOtherProgramsBesideAModelAreNotTakenForIt) {
  for (const std::string part :
       {"M-speculative-Q8_0.gguf", "M-vocoder-Q8_0.gguf", "WavTokenizer-Q8_0.gguf", "M-tokenizer-Q8_0.gguf",
        "M-vision-encoder-Q8_0.gguf", "clip/M-Q8_0.gguf", "mm-proj-M-Q8_0.gguf", "ggml-vocab-M.gguf",
        "M-control-vector-Q8_0.gguf", "M-MTPhead-Q8_0.gguf"}) {
    const std::vector<RemoteFile> files = {{"M-Q8_0.gguf", 8, ""}, {"M-Q4_K_M.gguf", 4, ""}, {part, 1, ""}};
    EXPECT_EQ(chosen(named(""), 9, files), "M-Q4_K_M.gguf") << part;
    EXPECT_EQ(chosen(named("Q8_0"), 9, files), "M-Q8_0.gguf") << part;
    EXPECT_EQ(chosen(named("", part), 9, files), part);
  }
}

TEST(RemoteFiles, AHeadThatWasPulledAloneIsNotRunAsTheModel) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "cairn_heads";
  const std::filesystem::path head = folder / "huggingface.co/org/repo/mtp/M-mtp-Q8_0.gguf";
  std::filesystem::create_directories(head.parent_path());
  std::ofstream(head) << "x";
  constexpr int64_t kMemory = 9 * kGiB;
  EXPECT_EQ(find_pulled(named(""), folder, kMemory).error().code, Code::kNotFound);
  EXPECT_EQ(find_pulled(named("Q8_0"), folder, kMemory).error().code, Code::kNotFound);
  EXPECT_EQ(find_pulled(named("mtp-Q8_0"), folder, kMemory).value().front(), head);
  EXPECT_EQ(find_pulled(named("", "mtp/M-mtp-Q8_0.gguf"), folder, kMemory).value().front(), head);
  std::filesystem::remove_all(folder);
}

TEST(RemoteFiles, ATagMayBeWhatOneFilesNameEndsIn) {
  const std::vector<RemoteFile> files = {{"M.i1-Q4_K_M.gguf", 1, ""}, {"M.i1-IQ2_M.gguf", 1, ""}};
  EXPECT_EQ(chosen(named("i1-Q4_K_M"), 0, files), "M.i1-Q4_K_M.gguf");
  EXPECT_EQ(chosen(named("iq2_m"), 0, files), "M.i1-IQ2_M.gguf");
  const std::vector<RemoteFile> own = {{"M-BALANCED.gguf", 1, ""}, {"M-MINI.GGUF", 1, ""}};
  EXPECT_EQ(chosen(named("mini"), 0, own), "M-MINI.GGUF");
  EXPECT_THAT(chosen(named("INI"), 0, own), HasSubstr("has no INI"));
}

TEST(RemoteFiles, AFileIsTakenWithAllItsParts) {
  EXPECT_EQ(chosen(named("", "m-Q4_0.gguf"), 0), "m-Q4_0.gguf");
  EXPECT_EQ(chosen(named("", "big/m-Q6_K-00002-of-00002.gguf"), 0),
            "big/m-Q6_K-00001-of-00002.gguf big/m-Q6_K-00002-of-00002.gguf");
  EXPECT_EQ(chosen(named("", "mmproj-F32.gguf"), 0), "mmproj-F32.gguf");
  EXPECT_THAT(chosen(named("", "x.gguf"), 0), HasSubstr("org/repo has no file x.gguf"));
  EXPECT_THAT(chosen(named(""), 0, {}), HasSubstr("has no GGUF file"));
  EXPECT_THAT(chosen(named(""), 9, {{"m-00001-of-00003.gguf", 1, ""}}), HasSubstr("has 1 of its 3 parts"));
}

TEST(RemoteFiles, ASplitModelThatLacksPartsMakesWayForAWholeFile) {
  const RemoteFile part = {"m-Q8_0-00001-of-00003.gguf", 1, ""};
  EXPECT_EQ(chosen(named(""), 100, {part, {"m-Q4_0.gguf", 2, ""}}), "m-Q4_0.gguf");
  EXPECT_EQ(chosen(named(""), 100, {part, {"m-Q4_0.gguf", 2, ""}, {"m-Q6_K.gguf", 3, ""}}), "m-Q6_K.gguf");
  EXPECT_EQ(chosen(named("Q8_0"), 100, {part, {"other/m-Q8_0.gguf", 3, ""}}), "other/m-Q8_0.gguf");
  // Where it is meant, it is no other.
  EXPECT_THAT(chosen(named("Q8_0"), 100, {part, {"m-Q4_0.gguf", 2, ""}}), HasSubstr("has 1 of its 3 parts"));
  EXPECT_THAT(chosen(named("", part.path), 100, {part, {"m-Q4_0.gguf", 2, ""}}), HasSubstr("has 1 of its 3 parts"));
  const std::vector<RemoteFile> files = {part, {"m-Q4_0.gguf", 2, ""}};
  EXPECT_THAT(choose_files(named(""), files, 100).value().left_out,
              testing::ElementsAre(HasSubstr("m-Q8_0-00001-of-00003.gguf is left out: 1 of its 3 parts")));
}

TEST(RemoteFiles, OfProjectorsTheOneOfHalfPrecisionIsFetched) {
  const std::vector<RemoteFile> files = repository();
  ASSERT_EQ(projector_of(files).size(), 1);
  EXPECT_EQ(projector_of(files)[0].path, "mmproj-F16.gguf");
  EXPECT_TRUE(projector_of({}).empty());
}

}  // namespace
}  // namespace cairn::hub
