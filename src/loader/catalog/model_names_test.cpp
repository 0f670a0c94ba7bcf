#include "loader/catalog/model_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace cairn::loader {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class ModelNamesTest : public testing::Test {
 protected:
  /// The name of the model that is meant, "none", or the error.
  std::string meant(std::string_view name, ModelKind kind = ModelKind::kChat) const {
    const auto found = find_by_name(models_, name, kind);
    if (!found) return found.error().message;
    return *found ? std::string(models_[**found].name) : "none";
  }
  const std::vector<std::string> aliases_ = {"gpt-4o"};
  const std::vector<ModelNames> models_ = {{"qwen3:4b", {}, ModelKind::kChat},
                                           {"qwen3:8b", {}, ModelKind::kChat},
                                           {"acme/Llama-GGUF:Q4_K_M", aliases_, ModelKind::kChat},
                                           {"mistral:latest", {}, ModelKind::kChat},
                                           {"qwen3-embedding", {}, ModelKind::kEmbedding},
                                           {"QWEN3:4B", {}, ModelKind::kChat},
                                           {"gemma-base", {}, ModelKind::kText},
                                           {"acme/gemma-it", {}, ModelKind::kChat}};
};

TEST_F(ModelNamesTest, ANameThatAModelHasIsThatModel) {
  EXPECT_EQ(meant("qwen3:4b"), "qwen3:4b");
  EXPECT_EQ(meant("QWEN3:4B"), "QWEN3:4B");
  EXPECT_EQ(meant("gpt-4o"), "acme/Llama-GGUF:Q4_K_M");
  EXPECT_EQ(meant("mistral"), "mistral:latest");
  EXPECT_EQ(meant("qwen3-embedding:latest"), "qwen3-embedding");
}

TEST_F(ModelNamesTest, ElseCaseDoesNotCountAndThenAPartOfTheNameWillDo) {
  EXPECT_EQ(meant("Qwen3:8B"), "qwen3:8b");
  EXPECT_EQ(meant("llama"), "acme/Llama-GGUF:Q4_K_M");
  EXPECT_EQ(meant("q4_k_m"), "acme/Llama-GGUF:Q4_K_M");
  EXPECT_EQ(meant("qwen3", ModelKind::kEmbedding), "qwen3-embedding");
  EXPECT_EQ(meant("embedding"), "qwen3-embedding");
  EXPECT_EQ(meant("claude"), "none");
  EXPECT_EQ(meant(""), "none");
}

TEST_F(ModelNamesTest, ABeginningComesBeforeAPartAndWhatAnswersBeforeBoth) {
  EXPECT_EQ(meant("gemma"), "gemma-base") << "the other one contains it";
  EXPECT_THAT(meant("acme"), HasSubstr("acme/Llama-GGUF:Q4_K_M, acme/gemma-it"));
  EXPECT_EQ(meant("Mist"), "mistral:latest");
  EXPECT_EQ(meant("qwen3-e"), "qwen3-embedding") << "nothing that answers chats begins so or has it";
}

TEST_F(ModelNamesTest, AWholeNameIsNoPart) {
  const auto whole = [&](std::string_view name) { return find_by_whole_name(models_, name, ModelKind::kChat).value(); };
  EXPECT_EQ(whole("Qwen3:8B"), 1U);
  EXPECT_EQ(whole("MISTRAL"), 3U);
  EXPECT_EQ(whole("qwen3:8"), std::nullopt);
  EXPECT_FALSE(find_by_whole_name(models_, "Qwen3:4b", ModelKind::kChat).has_value()) << "there are two";
}

TEST_F(ModelNamesTest, ANameThatNoneHasIsComparedWithAll) {
  EXPECT_THAT(names_like(models_, "mistrall"), ElementsAre("mistral:latest"));
  EXPECT_THAT(names_like(models_, "gpt4o"), ElementsAre("acme/Llama-GGUF:Q4_K_M")) << "by its alias";
  EXPECT_THAT(names_like(models_, "lama"), ElementsAre("acme/Llama-GGUF:Q4_K_M")) << "without the owner and the tag";
  EXPECT_THAT(names_like(models_, "qwen3:4c"), Contains("qwen3:4b"));
  EXPECT_THAT(names_like(models_, "claude"), IsEmpty());
  EXPECT_EQ(names_like_hint(models_, "mistrall"), "; did you mean mistral:latest?");
  EXPECT_EQ(names_like_hint(models_, "claude"), "");
}

TEST_F(ModelNamesTest, SeveralThatAreMeantEquallyAreListed) {
  EXPECT_THAT(meant("qwen3"), HasSubstr("qwen3:4b, qwen3:8b, QWEN3:4B"));
  EXPECT_THAT(meant("Qwen3:4b"), HasSubstr("may be any of"));
}

}  // namespace
}  // namespace cairn::loader
