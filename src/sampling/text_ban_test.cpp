#include "sampling/text_ban.h"
#include "base/testing/test_data.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace cairn::sampling {
namespace {

class TextBanTest : public testing::Test {
 protected:
  void SetUp() override {
    auto file = gguf::Reader::open(test_data("/trained/stories260K-f32.gguf"));
    ASSERT_TRUE(file.has_value()) << file.error().text();
    auto tokenizer = tokenizer::Tokenizer::load(file->metadata());
    ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().text();
    tokenizer_ = std::move(*tokenizer);
  }
  std::unique_ptr<tokenizer::Tokenizer> tokenizer_;
};

// Random walks over the vocabulary that prefer tokens which continue the text: with the ban it never appears, and only
// tokens that would have completed it are banned.
TEST_F(TextBanTest, TheBanKeepsEveryTokenSequenceFromSpellingTheText) {
  const std::string_view texts[] = {"the dog", "a", "the the"};
  for (const std::string_view text : texts) {
    const TextBan ban(*tokenizer_, std::array{text});
    std::mt19937 random(7);
    for (int walk = 0; walk < 50; ++walk) {
      std::string answer;
      for (int step = 0; step < 60; ++step) {
        std::vector<TokenId> banned;
        ban.next(std::string_view(answer).substr(answer.size() - std::min(answer.size(), ban.tail_bytes())), banned);
        for (const TokenId id : banned) {
          const std::string with = answer + std::string(tokenizer_->piece(id, true));
          ASSERT_NE(with.find(text), std::string::npos) << "banned for nothing";
        }
        std::vector<TokenId> top;
        for (int32_t id = 0; id < tokenizer_->size(); ++id) {
          const auto piece = tokenizer_->piece(TokenId{id}, true);
          if (!piece.empty() && text.find(piece) != std::string_view::npos &&
              std::ranges::find(banned, TokenId{id}) == banned.end())
            top.push_back(TokenId{id});
        }
        TokenId next{static_cast<int32_t>(random() % static_cast<uint32_t>(tokenizer_->size()))};
        if (!top.empty() && step % 4 != 0) next = top[random() % top.size()];
        if (std::ranges::find(banned, next) != banned.end()) continue;
        answer += tokenizer_->piece(next, true);
        ASSERT_EQ(answer.find(text), std::string::npos) << answer;
      }
    }
  }
}

}  // namespace
}  // namespace cairn::sampling
