// Compares vocabularies written by llama.cpp's converter with the libraries that their models' authors use: 2,000 texts
// each, made by tests/data/make/make_tokenizers.py, whose docstring has the format of the files.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/testing/test_data.h"
#include "gguf/reader.h"
#include "tokenizer/test_support.h"
#include "tokenizer/tokenizer.h"

namespace cairn::tokenizer {
namespace {

using nlohmann::json;
using Ids = std::vector<int32_t>;

const std::filesystem::path kFolder = std::filesystem::path(test_data()) / "tokenizers-converted";

std::string file_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The lists of ids of a .ids file: two for each text.
std::vector<Ids> id_lists(const std::string& bytes) {
  std::vector<Ids> out;
  const auto number = [&](size_t at) {
    return static_cast<unsigned char>(bytes.at(at)) | static_cast<unsigned char>(bytes.at(at + 1)) << 8;
  };
  for (size_t at = 0; at < bytes.size();) {
    Ids ids(static_cast<size_t>(number(at)));
    at += 2;
    for (int32_t& id : ids) {
      id = number(at);
      at += 2;
    }
    out.push_back(std::move(ids));
  }
  return out;
}

std::vector<std::string> vocabularies() {
  std::vector<std::string> names;
  std::error_code missing;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder, missing)) {
    if (entry.path().extension() == ".gguf") names.push_back(entry.path().stem().string());
  }
  std::ranges::sort(names);
  return names;
}

class ConvertedTokenizer : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    auto reader = gguf::Reader::open(kFolder / (GetParam() + ".gguf"));
    ASSERT_TRUE(reader.has_value()) << reader.error().text();
    auto loaded = Tokenizer::load(reader->metadata());
    ASSERT_TRUE(loaded.has_value()) << loaded.error().text();
    tokenizer_ = std::move(*loaded);
    texts_ = json::parse(file_bytes(kFolder / "texts.json")).get<std::vector<std::string>>();
    expected_ = id_lists(file_bytes(kFolder / (GetParam() + ".ids")));
    about_ = json::parse(file_bytes(kFolder / (GetParam() + ".json")));
    ASSERT_EQ(texts_.size(), 2000u);
    ASSERT_EQ(expected_.size(), 2 * texts_.size());
    ASSERT_LT(about_["left_out"].size(), texts_.size() / 10);
  }
  bool left_out(size_t text) const { return about_["left_out"].contains(std::to_string(text)); }

  std::unique_ptr<Tokenizer> tokenizer_;
  std::vector<std::string> texts_;
  std::vector<Ids> expected_;
  json about_;
};

TEST_P(ConvertedTokenizer, EncodesToTheIdsOfItsAuthorsLibrary) {
  for (size_t i = 0; i < texts_.size(); ++i) {
    if (left_out(i)) continue;
    for (const bool special : {false, true}) {
      const auto ids = tokenizer_->encode(texts_[i], {.add_special = special, .parse_special = special});
      ASSERT_TRUE(ids.has_value()) << ids.error().text();
      EXPECT_EQ(test::numbers(*ids), expected_[2 * i + (special ? 1 : 0)])
          << "text " << i << (special ? " with" : " without") << " special tokens: " << texts_[i];
    }
  }
}

TEST_P(ConvertedTokenizer, DecodesToTheTextOfItsAuthorsLibrary) {
  if (GetParam().starts_with("bert-")) return;  // cleaned texts of embedding models, which are not read back
  for (size_t i = 0; i < texts_.size(); ++i) {
    if (left_out(i)) continue;
    std::vector<TokenId> ids;
    for (const int32_t id : expected_[2 * i]) ids.push_back(TokenId{id});
    const auto other = about_["decoded"].find(std::to_string(i));
    const std::string expected = other == about_["decoded"].end() ? texts_[i] : other->get<std::string>();
    EXPECT_EQ(tokenizer_->decode(ids, true), expected) << "text " << i;
  }
}

TEST(ConvertedTokenizers, AllTestFilesExist) { EXPECT_EQ(vocabularies().size(), 41u); }

// Vocabularies of whole models are tiny: they have every byte or letter, and few words.
TEST(ConvertedTokenizers, VocabulariesOfAllConvertedModelsReadAndWriteText) {
  constexpr std::string_view kText = "Hello world 12";
  size_t models = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder.parent_path() / "converted")) {
    if (entry.path().extension() != ".gguf") continue;
    SCOPED_TRACE(entry.path().filename());
    const auto reader = gguf::Reader::open(entry.path());
    ASSERT_TRUE(reader.has_value()) << reader.error().text();
    if (reader->metadata().string_or("tokenizer.ggml.model", "").value() == "bert") continue;  // words only
    const auto tokenizer = Tokenizer::load(reader->metadata());
    ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().text();
    const auto ids = (*tokenizer)->encode(kText, {.add_special = false, .parse_special = false});
    ASSERT_TRUE(ids.has_value()) << ids.error().text();
    EXPECT_EQ((*tokenizer)->decode(*ids, false), kText);
    ++models;
  }
  EXPECT_GT(models, 70u);
}

INSTANTIATE_TEST_SUITE_P(Vocabularies, ConvertedTokenizer, testing::ValuesIn(vocabularies()), [](const auto& param) {
  std::string name = param.param;
  std::ranges::replace_if(name, [](char c) { return c == '-' || c == '.'; }, '_');
  return name;
});

}  // namespace
}  // namespace cairn::tokenizer
