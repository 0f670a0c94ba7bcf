// Texts that are encoded in pieces, each with the token before it: cut after special tokens they get the tokens that
// they have as a whole, and cut elsewhere at least the same text.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/testing/test_data.h"
#include "tokenizer/test_support.h"
#include "tokenizer/text/normal_form.h"
#include "tokenizer/tokenizer.h"

namespace cairn::tokenizer {
namespace {

using nlohmann::json;

std::vector<json> lines_of(const std::string& path) {
  std::vector<json> lines;
  std::ifstream file(test_data() + path);
  for (std::string line; std::getline(file, line);) lines.push_back(json::parse(line));
  return lines;
}

class CutText : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const auto path = test::vocabulary_file(test_data(), GetParam());
    auto reader = gguf::Reader::open(path);
    ASSERT_TRUE(reader.has_value()) << reader.error().text();
    auto loaded = Tokenizer::load(reader->metadata());
    ASSERT_TRUE(loaded.has_value()) << loaded.error().text();
    tokenizer_ = std::move(*loaded);
    for (int32_t i = 0; i < tokenizer_->size(); ++i) {
      const TokenId id{i};
      if (tokenizer_->is_special(id) || id == tokenizer_->special().unknown)
        special_.emplace_back(tokenizer_->piece(id, true));
    }
  }

  /// Appends the tokens of `text`.
  void append(std::vector<TokenId>& tokens, std::string_view text, bool parse_special) const {
    const TokenId after = tokens.empty() ? kNoToken : tokens.back();
    const auto more = tokenizer_->encode(text, {.parse_special = parse_special, .after = after});
    ASSERT_TRUE(more.has_value()) << more.error().text();
    tokens.insert(tokens.end(), more->begin(), more->end());
  }
  std::vector<TokenId> whole(std::string_view text, bool parse_special) const {
    std::vector<TokenId> tokens;
    append(tokens, text, parse_special);
    return tokens;
  }
  /// Offsets at which special tokens end in `text`.
  std::vector<size_t> ends(std::string_view text) const {
    std::vector<size_t> found;
    for (const std::string& special : special_) {
      for (size_t at = text.find(special); at != std::string_view::npos; at = text.find(special, at + 1))
        found.push_back(at + special.size());
    }
    std::ranges::sort(found);
    return found;
  }

  std::unique_ptr<Tokenizer> tokenizer_;
  std::vector<std::string> special_;
};

std::string replaced(std::string text, std::string_view what, std::string_view with) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size()))
    text.replace(at, what.size(), with);
  return text;
}

TEST_P(CutText, ChatPromptsCutAfterSpecialTokensGetTheSameTokens) {
  const SpecialTokens& special = tokenizer_->special();
  size_t cuts = 0;
  for (const json& line : lines_of("/chat-templates/cases.jsonl")) {
    const std::string name = line["template"];
    const bool similar = name.find("istral") != std::string::npos || name.find("Phi") != std::string::npos;
    if (!similar || !line.contains("rendered")) continue;
    // The templates were rendered with these texts for the beginning and end tokens.
    std::string text = replaced(line["rendered"], "<|bos|>", tokenizer_->piece(special.bos, true));
    text = replaced(std::move(text), "<|eos|>", tokenizer_->piece(special.eos, true));
    const auto expected = whole(text, true);
    std::vector<TokenId> pieces;
    size_t begin = 0;
    for (const size_t end : ends(text)) {
      auto two = whole(std::string_view(text).substr(0, end), true);
      append(two, std::string_view(text).substr(end), true);
      ASSERT_EQ(test::numbers(two), test::numbers(expected)) << text << "\ncut at " << end;
      append(pieces, std::string_view(text).substr(begin, end - begin), true);
      begin = end;
      ++cuts;
    }
    append(pieces, std::string_view(text).substr(begin), true);
    ASSERT_EQ(test::numbers(pieces), test::numbers(expected)) << text;
  }
  EXPECT_GT(cuts, 100u);
}

TEST_P(CutText, TextsCutAnywhereDecodeToTheSameText) {
  if (std::string_view(GetParam()) == "nomic-bert-moe") return;  // drops white space at either end of a piece
  size_t cuts = 0;
  for (const json& line : lines_of("/tokenizers/" + std::string(GetParam()) + ".jsonl")) {
    if (!line.contains("text") || line.contains("error")) continue;
    const std::string text = line["text"];
    if (text.size() > 500 || !ends(text).empty()) continue;
    // A cut may separate a letter from its accent, which normal form C would compose.
    const auto composed = [&](const std::vector<TokenId>& tokens) {
      std::string scratch;
      return std::string(nfc(tokenizer_->decode(tokens, true), scratch));
    };
    const auto expected = composed(whole(text, false));
    for (size_t at = 1; at < text.size(); at += 3) {
      while (at < text.size() && (text[at] & 0xC0) == 0x80) ++at;
      auto tokens = whole(std::string_view(text).substr(0, at), false);
      append(tokens, std::string_view(text).substr(at), false);
      ASSERT_EQ(composed(tokens), expected) << "cut at " << at;
      ++cuts;
    }
  }
  EXPECT_GT(cuts, 1'000u);
}

INSTANTIATE_TEST_SUITE_P(Vocabularies, CutText,
                         testing::Values("llama-spm", "phi-3", "nomic-bert-moe", "llama-bpe", "qwen2"),
                         [](const auto& param) {
                           std::string name = param.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace cairn::tokenizer
