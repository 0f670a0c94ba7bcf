#include "loader/catalog/catalog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/testing/test_data.h"
#include "loader/catalog/description_cache.h"

namespace cairn::loader {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

constexpr const char* kDigest = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

/// A fixture without a chat template.
constexpr const char* kWithoutTemplate = "../trained/stories260K-f32";

class CatalogTest : public testing::Test {
 protected:
  CatalogTest() : root_(fs::path(testing::TempDir()) / "catalog_test") {
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  ~CatalogTest() override { fs::remove_all(root_); }

  static fs::path fixture(const std::string& name) { return fs::path(test_data()) / "models" / (name + ".gguf"); }
  /// A copy of a fixture; an own file, so that it is another model.
  fs::path put(const std::string& below, const std::string& model = "llama") const {
    const fs::path path = root_ / below;
    fs::create_directories(path.parent_path());
    fs::copy_file(fixture(model), path);
    return path;
  }
  void write(const std::string& below, const std::string& text) const {
    fs::create_directories((root_ / below).parent_path());
    std::ofstream(root_ / below, std::ios::binary) << text;
  }
  Catalog scan(ModelSource source = ModelSource::kOwn, const std::string& below = "") const {
    return scan_models({{source, root_ / below}}, cache_);
  }
  static std::vector<std::string> names(const Catalog& catalog) {
    std::vector<std::string> all;
    for (const CatalogModel& model : catalog.models) all.push_back(model.name);
    return all;
  }

  fs::path root_;
  fs::path cache_;  // none
};

TEST_F(CatalogTest, ModelsThatWereMadeAreListedBehindTheirBases) {
  put("base.gguf");
  ASSERT_TRUE(write_made(root_, {.name = "ns/mine:v1", .base = "base", .system = "Be kind."}).has_value());
  ASSERT_TRUE(write_made(root_, {.name = "orphan", .base = "gone"}).has_value());
  ASSERT_TRUE(write_made(root_, {.name = "base", .base = "base"}).has_value());
  write("made/broken.json", "{}");
  write("made/other.json", R"({"cairn_made": 1, "name": "x", "base": "base", "system": "", "template": "",
                               "parameters": {}, "messages": [], "adapters": [], "licenses": []})");
  const Catalog catalog = scan();
  EXPECT_THAT(names(catalog), ElementsAre("base", "ns/mine:v1"));
  EXPECT_EQ(catalog.models[1].path, catalog.models[0].path);
  EXPECT_EQ(catalog.models[1].made->system, "Be kind.");
  std::vector<std::string> reasons;
  for (const SkippedFile& file : catalog.skipped) reasons.push_back(file.reason);
  EXPECT_THAT(reasons,
              UnorderedElementsAre(HasSubstr("its base gone is not here"), HasSubstr("a file's model is named base"),
                                   HasSubstr("no made model of this version"), HasSubstr("another file's")));
  EXPECT_TRUE(remove_made(root_, "ns/mine:v1:latest").value_or(false) ||
              remove_made(root_, "ns/mine:v1").value_or(false));
  EXPECT_THAT(names(scan()), ElementsAre("base"));
}

TEST(MadeModel, NamesLeadToNoOtherFolder) {
  for (const char* name : {"a", "Mine-1.5_x", "ns/mine", "mine:v1", "ns/mine:v1", "mine:latest"})
    EXPECT_TRUE(check_made_name(name).has_value()) << name;
  EXPECT_EQ(check_made_name("mine:latest").value(), "mine");
  for (const char* name : {"", ".", "..", "../a", "/a", "a/", "a/b/c", "a:b:c", ".a", "a\\b", "a b", "a:", ":a", "-a"})
    EXPECT_FALSE(check_made_name(name).has_value()) << name;
  EXPECT_FALSE(check_made_name(std::string(101, 'a')).has_value());
  EXPECT_TRUE(check_adapter_name("folder/a.gguf").has_value());
  for (const char* name : {"", "/a.gguf", "../a.gguf", "a/../../b.gguf", ".a.gguf", "a\\b.gguf"})
    EXPECT_FALSE(check_adapter_name(name).has_value()) << name;
}

TEST_F(CatalogTest, NamesFilesOfTheOwnFolderByWhereTheyCameFrom) {
  put("huggingface.co/acme/Tiny-GGUF/tiny-Q4_K_M.gguf");
  put("huggingface.co/acme/Tiny-GGUF/tiny.gguf");
  put("huggingface.co/acme/Tiny-GGUF/sub/tiny-Q4_K_M.gguf");
  put("huggingface.co/acme/Tiny-GGUF/tiny-UD-Q5_K_XL.gguf");
  put("registry.ollama.ai/library/qwen3/4b.gguf");
  put("registry.ollama.ai/me/mine/latest.gguf");
  put("registry.ollama.ai/me/mine/q4_0.gguf");
  put("sub/folder/Some Model.gguf");
  put("not-done.gguf.part");
  put("mmproj-tiny.gguf");
  put("tiny.mmproj-F16.gguf");
  write("readme.txt", "no model");
  const Catalog catalog = scan();
  EXPECT_THAT(names(catalog), UnorderedElementsAre("acme/Tiny-GGUF:Q4_K_M", "acme/Tiny-GGUF/tiny-Q4_K_M.gguf",
                                                   "acme/Tiny-GGUF:UD-Q5_K_XL", "acme/Tiny-GGUF/tiny.gguf", "qwen3:4b",
                                                   "me/mine:latest", "registry.ollama.ai/me/mine:q4_0", "Some Model"));
  const auto dynamic = std::ranges::find(catalog.models, "acme/Tiny-GGUF:UD-Q5_K_XL", &CatalogModel::name);
  ASSERT_NE(dynamic, catalog.models.end());
  EXPECT_THAT(dynamic->aliases, ElementsAre("acme/Tiny-GGUF:Q5_K_XL"));
  EXPECT_THAT(catalog.skipped, IsEmpty());
  const CatalogModel& model = catalog.models.front();
  EXPECT_EQ(model.architecture, "llama");
  EXPECT_EQ(model.kind, ModelKind::kChat);
  EXPECT_TRUE(model.usable());
  EXPECT_EQ(model.file_bytes, static_cast<int64_t>(fs::file_size(fixture("llama"))));
}

TEST_F(CatalogTest, KnowsWhatAModelIsFor) {
  put("llama.gguf");
  put("bert.gguf", "bert");
  put("story.gguf", kWithoutTemplate);
  const Catalog catalog = scan();
  ASSERT_THAT(names(catalog), ElementsAre("bert", "llama", "story"));
  EXPECT_EQ(catalog.models[0].kind, ModelKind::kEmbedding);
  EXPECT_EQ(catalog.models[1].kind, ModelKind::kChat);
  EXPECT_EQ(catalog.models[2].kind, ModelKind::kText);
  for (const ModelKind kind : {ModelKind::kChat, ModelKind::kText, ModelKind::kEmbedding, ModelKind::kReranking})
    EXPECT_EQ(kind_named(kind_name(kind)), kind);
  EXPECT_TRUE(answers(ModelKind::kText, ModelKind::kChat));
  EXPECT_FALSE(answers(ModelKind::kEmbedding, ModelKind::kChat));
}

TEST_F(CatalogTest, ATemplateOfAMadeModelMakesATextModelOneForChats) {
  put("base.gguf", kWithoutTemplate);
  ASSERT_TRUE(write_made(root_, {.name = "plain", .base = "base", .system = "Be kind."}).has_value());
  ASSERT_TRUE(write_made(root_, {.name = "told", .base = "base", .chat_template = "{{ messages }}"}).has_value());
  const Catalog catalog = scan();
  ASSERT_THAT(names(catalog), ElementsAre("base", "plain", "told"));
  EXPECT_EQ(catalog.models[1].kind, ModelKind::kText);
  EXPECT_EQ(catalog.models[2].kind, ModelKind::kChat);
}

TEST_F(CatalogTest, FindsWhatHuggingFacesCacheHasOfTheNewestRevision) {
  const fs::path blob = put("hub/models--acme--Tiny-GGUF/blobs/abc");
  for (const std::string revision : {"0123abcd", "9999ffff"}) {
    const fs::path snapshot = root_ / "hub/models--acme--Tiny-GGUF/snapshots" / revision;
    fs::create_directories(snapshot);
    fs::create_symlink(blob, snapshot / "tiny-q8_0.gguf");
  }
  write("hub/models--acme--Tiny-GGUF/refs/main", "9999ffff");
  write("hub/datasets--acme--x/snapshots/1/tiny.gguf", "no model's folder");
  const Catalog catalog = scan(ModelSource::kHuggingFace, "hub");
  ASSERT_THAT(names(catalog), ElementsAre("acme/Tiny-GGUF:Q8_0"));
  EXPECT_THAT(catalog.models[0].path.string(), HasSubstr("9999ffff"));
}

TEST_F(CatalogTest, FindsOllamasBlobsByTheirManifests) {
  put("ollama/blobs/sha256-" + std::string(kDigest));
  const std::string manifest =
      R"({"layers": [{"mediaType": "application/vnd.ollama.image.license", "digest": "sha256:1"},
                     {"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:)" +
      std::string(kDigest) + "\"}]}";
  write("ollama/manifests/registry.ollama.ai/library/qwen3/4b", manifest);
  write("ollama/manifests/registry.ollama.ai/library/qwen3/latest", manifest);
  write("ollama/manifests/registry.ollama.ai/library/bad/1", "{");
  write("ollama/manifests/registry.ollama.ai/library/bad/2",
        R"({"layers": [{"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:../../etc/passwd"}]})");
  const Catalog catalog = scan(ModelSource::kOllama, "ollama");
  ASSERT_THAT(names(catalog), ElementsAre("qwen3:4b"));
  EXPECT_THAT(catalog.models[0].aliases, ElementsAre("qwen3:latest"));
  EXPECT_EQ(catalog.models[0].digest, kDigest);
  EXPECT_EQ(catalog.skipped.size(), 2U);
}

TEST_F(CatalogTest, TellsAModelOfTwoPlacesOnceAndTwoOfOneNameApart) {
  put("one/same.gguf");
  put("two/same.gguf");
  fs::create_hard_link(root_ / "one/same.gguf", root_ / "link.gguf");
  const Catalog catalog = scan();
  ASSERT_THAT(names(catalog), ElementsAre("link", "two/same"));
  EXPECT_THAT(catalog.models[0].aliases, ElementsAre("same"));
}

TEST_F(CatalogTest, NamesAThousandBrokenFilesAndServesTheOthers) {
  put("good.gguf");
  for (int i = 0; i < 1'000; ++i) write(fmt::format("bad/{:04}.gguf", i), i % 2 == 0 ? "" : "GGUF\x03 and nonsense");
  const Catalog catalog = scan();
  EXPECT_THAT(names(catalog), ElementsAre("good"));
  ASSERT_EQ(catalog.skipped.size(), 1'000U);
  EXPECT_FALSE(catalog.skipped.front().reason.empty());
}

TEST_F(CatalogTest, OpensNoFileASecondTimeThatHasNotChanged) {
  cache_ = root_ / "cache" / "descriptions.jsonl";
  for (int i = 0; i < 200; ++i) put(fmt::format("models/m{}.gguf", i));
  EXPECT_EQ(scan(ModelSource::kOwn, "models").models.size(), 200U);
  ASSERT_EQ(read_descriptions(cache_).size(), 200U);
  // A file that may not be opened is known all the same.
  const fs::path last = root_ / "models/m7.gguf";
  const auto time = fs::last_write_time(last);
  const auto size = fs::file_size(last);
  std::ofstream(last, std::ios::in | std::ios::out | std::ios::binary) << "XXXX";
  ASSERT_EQ(fs::file_size(last), size);
  fs::last_write_time(last, time);
  const auto begun = std::chrono::steady_clock::now();
  const Catalog catalog = scan(ModelSource::kOwn, "models");
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  EXPECT_EQ(catalog.models.size(), 200U);
  std::printf("200 models are listed in %.3f s\n", took.count());
  fs::last_write_time(last, time + std::chrono::seconds(1));
  EXPECT_EQ(scan(ModelSource::kOwn, "models").models.size(), 199U);
}

TEST_F(CatalogTest, DoesWithoutACacheThatIsNoneOrThatItCannotWrite) {
  put("models/a.gguf");
  cache_ = root_ / "cache";
  write("cache", "{\"cairn_descriptions\":1}\nnot json\n{\"path\":3}\n[]\n");
  EXPECT_EQ(scan(ModelSource::kOwn, "models").models.size(), 1U);
  cache_ = root_ / "cache" / "below a file";
  EXPECT_EQ(scan(ModelSource::kOwn, "models").models.size(), 1U);
}

TEST_F(CatalogTest, AFolderThatIsNotThereHasNoModels) {
  const Catalog catalog = scan(ModelSource::kOwn, "nowhere");
  EXPECT_THAT(catalog.models, IsEmpty());
  EXPECT_THAT(catalog.skipped, IsEmpty());
  EXPECT_THAT(scan(ModelSource::kOllama, "nowhere").models, IsEmpty());
  EXPECT_THAT(scan(ModelSource::kHuggingFace, "nowhere").models, IsEmpty());
}

TEST(ModelName, IsThatOfTheFileWithoutAPartsNumber) {
  EXPECT_EQ(model_name_of("dir/a-00001-of-00003.gguf"), "a");
  EXPECT_EQ(model_name_of("dir/a-1-of-3.gguf"), "a-1-of-3");
}

}  // namespace
}  // namespace cairn::loader
