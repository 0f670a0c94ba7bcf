// Every case of llama.cpp's reference data: ids, decoded text, and the text that comes out token by token.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/testing/test_data.h"
#include "base/text/utf8.h"
#include "gguf/reader.h"
#include "tokenizer/detokenizer.h"
#include "tokenizer/test_support.h"
#include "tokenizer/text/normal_form.h"
#include "tokenizer/text/pre_tokenizer.h"
#include "tokenizer/text/tidy_spaces.h"
#include "tokenizer/tokenizer.h"

namespace cairn::tokenizer {
namespace {

using nlohmann::json;

std::string from_hex(const std::string& hex) {
  std::string out;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) out += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return out;
}

std::optional<std::string> bytes_of(const json& line, const std::string& key) {
  if (line.contains(key)) return line[key].get<std::string>();
  const std::string hex = key == "text" ? "hex" : key + "_hex";
  return line.contains(hex) ? std::optional(from_hex(line[hex].get<std::string>())) : std::nullopt;
}

class Reference : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const auto path = test::vocabulary_file(test_data(), GetParam());
    auto reader = gguf::Reader::open(path);
    ASSERT_TRUE(reader.has_value()) << reader.error().text();
    auto loaded = Tokenizer::load(reader->metadata());
    ASSERT_TRUE(loaded.has_value()) << loaded.error().text();
    tokenizer_ = std::move(*loaded);  // the file is closed, as a tokenizer needs nothing of it
    std::ifstream file(test_data() + "/tokenizers/" + GetParam() + ".jsonl");
    for (std::string line; std::getline(file, line);) cases_.push_back(json::parse(line));
    ASSERT_GT(cases_.size(), 500u);
  }

  // Whether the libraries of the models' authors differ from llama.cpp here, which converted_tokenizer_test.cpp shows:
  // normal form C, texts of Gemma 4's control tokens, "</s>" as a word, and sums of scores rounded to float.
  static bool peer_differs(const json& line) {
    const std::string name = GetParam();
    const std::string text = bytes_of(line, "text").value();
    std::string scratch;
    const auto has = [&](std::string_view part) { return text.find(part) != std::string::npos; };
    if (name == "gemma-4") {
      return !line["parse_special"] && (has("tool_") || has("channel") || has("<|\"|>"));
    }
    if (name.starts_with("qwen") && line["parse_special"] && has("</s>")) return true;
    if (name == "nomic-bert-moe") return text.size() > 60 && line["ids"].size() > 13;
    const PreTokenizerSpec* words = find_pre_tokenizer(name);
    return words != nullptr && words->nfc && utf8_valid(text) && nfc(text, scratch) != text;
  }

  std::unique_ptr<Tokenizer> tokenizer_;
  std::vector<json> cases_;
};

TEST_P(Reference, EncodesToTheReferenceIds) {
  int errors = 0;
  for (const json& line : cases_) {
    if (peer_differs(line)) continue;
    const EncodeOptions options{.add_special = line["add_special"], .parse_special = line["parse_special"]};
    const auto ids = tokenizer_->encode(bytes_of(line, "text").value(), options);
    if (line.contains("error")) {
      ++errors;
      ASSERT_FALSE(ids.has_value()) << line;
      EXPECT_EQ(ids.error().code, Code::kInvalidArgument);
      continue;
    }
    ASSERT_TRUE(ids.has_value()) << line << ids.error().text();
    EXPECT_EQ(test::numbers(*ids), line["ids"].get<std::vector<int32_t>>()) << line;
  }
  const std::string name = GetParam();
  const bool forgiving = name == "llama-spm" || name == "phi-3" || name == "nomic-bert-moe";
  EXPECT_EQ(errors, forgiving ? 0 : 1);
}

TEST_P(Reference, ATextHasAtLeastTheTokensOfItsLengthBound) {
  const std::string name = GetParam();
  const size_t each = tokenizer_->text_bytes_per_token();
  // Vocabularies that rewrite white space or letters, or have an unknown token, do not reproduce the text.
  const bool known = name == "llama-bpe" || name == "qwen2" || name == "llama-spm";
  EXPECT_TRUE(each > 0 || !known) << name;
  if (each == 0) return;
  for (const json& line : cases_) {
    const std::string text = bytes_of(line, "text").value();
    if (line.contains("error") || !utf8_valid(text)) continue;
    EXPECT_GE(line["ids"].size(), text.size() / each) << line;
    for (const auto& id : line["ids"]) EXPECT_LE(tokenizer_->piece(TokenId{id}, true).size(), each);
  }
}

TEST_P(Reference, DecodesToTheReferenceBytes) {
  for (const json& line : cases_) {
    if (line.contains("error")) continue;
    std::vector<TokenId> ids;
    for (const int32_t id : line["ids"]) ids.push_back(TokenId{id});
    // llama.cpp tidies decoded texts of byte-pair vocabularies; the libraries of their authors do not, since that
    // removes spaces that the text has.
    const std::string decoded = tokenizer_->decode(ids, true);
    const std::string expected = bytes_of(line, "detok").value();
    EXPECT_TRUE(decoded == expected || tidy_spaces(decoded) == expected) << line << decoded;
  }
}

TEST_P(Reference, StreamsTheTextThatItDecodes) {
  for (const json& line : cases_) {
    if (line.contains("error")) continue;
    for (const bool render_special : {true, false}) {
      Detokenizer whole(*tokenizer_, true, render_special);
      Detokenizer continued(*tokenizer_, false, render_special);
      std::vector<TokenId> ids;
      std::string text, continued_text, pieces;
      const auto append = [](std::string& out, const std::string& part) {
        EXPECT_TRUE(utf8_valid(part));
        out += part;
      };
      for (const int32_t number : line["ids"]) {
        ids.push_back(TokenId{number});
        append(text, whole.push(ids.back()));
        append(continued_text, continued.push(ids.back()));
        pieces += tokenizer_->piece(ids.back(), render_special);
      }
      append(text, whole.flush());
      append(continued_text, continued.flush());
      EXPECT_EQ(text, utf8_replace_invalid(tokenizer_->decode(ids, render_special))) << line;
      EXPECT_EQ(continued_text, utf8_replace_invalid(pieces)) << line;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Vocabularies, Reference,
                         testing::Values("bert-bge", "command-r", "deepseek-coder", "deepseek-llm", "falcon", "gemma-4",
                                         "gpt-2", "gpt-neox", "llama-bpe", "llama-spm", "mpt", "nomic-bert-moe",
                                         "phi-3", "qwen2", "qwen35", "refact", "starcoder"),
                         [](const auto& param) {
                           std::string name = param.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace cairn::tokenizer
