#include "engine/kv/checkpoints.h"

#include <gtest/gtest.h>

#include <string>

#include "base/testing/test_data.h"
#include "engine/testing/engine_fixture.h"

namespace cairn::engine {
namespace {

/// Positions in a conversation of ChatML messages, each of about `tokens` tokens of text.
class Checkpoints : public EngineTest {
 protected:
  static void SetUpTestSuite() { load_tokenizer(test_data()); }

  static std::vector<TokenId> conversation(const std::vector<int32_t>& texts) {
    std::vector<TokenId> tokens;
    for (const int32_t text : texts) {
      append(tokens, "<|im_start|>");
      for (int32_t i = 0; i < text; ++i) tokens.push_back(TokenId{65 + i % 26});
      append(tokens, "<|im_end|>");
    }
    append(tokens, "<|im_start|>");
    return tokens;
  }
  static void append(std::vector<TokenId>& tokens, const std::string& special) {
    const auto added = shared_tokenizer->encode(special, {.parse_special = true}).value();
    ASSERT_EQ(added.size(), 1);
    ASSERT_TRUE(shared_tokenizer->is_control(added[0]));
    tokens.push_back(added[0]);
  }
  static std::vector<int32_t> positions(const std::vector<TokenId>& prompt) {
    return checkpoint_positions(prompt, *shared_tokenizer);
  }
};

TEST_F(Checkpoints, TheFirstAndTheLastTwoMessagesEndAtOne) {
  // Ends of messages: 201, 343, 485, 627, 769.
  EXPECT_EQ(positions(conversation({200, 140, 140, 140, 140})), (std::vector<int32_t>{192, 608, 768}));
  EXPECT_EQ(positions(conversation({200, 140, 3, 140})), (std::vector<int32_t>{192, 320, 480}))
      << "a message of few tokens is none";
}

TEST_F(Checkpoints, NoTwoAreNearEachOtherOrTheBeginning) {
  EXPECT_EQ(positions(conversation({40, 20, 20, 20})), std::vector<int32_t>{96});
  EXPECT_EQ(positions(conversation({30})), std::vector<int32_t>{});
  EXPECT_EQ(positions(conversation({70, 400, 30})), (std::vector<int32_t>{64, 480}));
}

TEST_F(Checkpoints, TextWithoutMessagesHasOneAtItsEnd) {
  EXPECT_EQ(positions(std::vector<TokenId>(300, TokenId{65})), std::vector<int32_t>{288});
  EXPECT_EQ(positions(std::vector<TokenId>(1, TokenId{65})), std::vector<int32_t>{});
  EXPECT_EQ(positions({}), std::vector<int32_t>{});
}

TEST_F(Checkpoints, LongPromptsHaveSomeBetweenMessagesAtPlacesThatLongerPromptsShare) {
  const std::vector<int32_t> some = positions(std::vector<TokenId>(5'000, TokenId{65}));
  EXPECT_EQ(some, (std::vector<int32_t>{1024, 2048, 3072, 4096, 4992}));
  const std::vector<int32_t> more = positions(std::vector<TokenId>(50'000, TokenId{65}));
  EXPECT_EQ(more, (std::vector<int32_t>{8192, 16384, 24576, 32768, 40960, 49152, 49984}));
}

}  // namespace
}  // namespace cairn::engine
