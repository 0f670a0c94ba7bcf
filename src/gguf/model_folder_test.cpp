#include "gguf/model_folder.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace cairn::gguf {
namespace {

TEST(ModelFolder, QuantisationsAreReadFromTheNamesThatPublishersWrite) {
  EXPECT_EQ(quantisation_label("qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"), "Q4_K_M");
  EXPECT_EQ(quantisation_label("Llama-3.2-1B-Instruct-Q8_0.gguf"), "Q8_0");
  EXPECT_EQ(quantisation_label("UD-Q4_K_XL/Big-UD-Q4_K_XL-00001-of-00003.gguf"), "UD-Q4_K_XL");
  EXPECT_EQ(quantisation_label("Phi-3-mini-4k-instruct-fp16.gguf"), "FP16");
  EXPECT_EQ(quantisation_label("model_IQ2_XXS.gguf"), "IQ2_XXS");
  EXPECT_EQ(quantisation_label("mistral-7b.Q5_K_S.gguf"), "Q5_K_S");
  EXPECT_EQ(quantisation_label("gpt-oss-20b-mxfp4.gguf"), "MXFP4");
  EXPECT_EQ(quantisation_label("Model-Q4_K_M-imat.gguf"), "Q4_K_M");
  EXPECT_EQ(quantisation_label("falcon-tq2_0.gguf"), "TQ2_0");
  EXPECT_EQ(quantisation_label("QwQ-32B.gguf"), "");
  EXPECT_EQ(quantisation_label("stories.gguf"), "");
  EXPECT_EQ(quantisation_label(""), "");
  EXPECT_EQ(quantisation_label("-_.-.gguf"), "");
}

TEST(ModelFolder, TagsThatAreNoQuantisationAreNotTakenForOne) {
  for (const char* label : {"q4_k_m", "UD-IQ2_XXS", "bf16", "Q4_0_4_4", "q8", "nvfp4", "mxfp4_moe", "fp16"})
    EXPECT_TRUE(is_quantisation_label(label)) << label;
  for (const char* tag : {"latest", "4b", "8b-q4_0", "", "Q", "Q4_", "Q4_LONG", "UD-", "i8"})
    EXPECT_FALSE(is_quantisation_label(tag)) << tag;
}

TEST(ModelFolder, NamesFollowFromPaths) {
  EXPECT_EQ(pulled_name("huggingface.co/org/repo/m-Q4_K_M.gguf"), "org/repo:Q4_K_M");
  EXPECT_EQ(pulled_name("huggingface.co/org/repo/sub/m.gguf"), "org/repo/sub/m.gguf");
  EXPECT_EQ(pulled_name("registry.ollama.ai/library/qwen3/4b.gguf"), "qwen3:4b");
  EXPECT_EQ(pulled_name("registry.ollama.ai/someone/m/8b.gguf"), "someone/m:8b");
  EXPECT_EQ(pulled_name("registry.ollama.ai/someone/m/q4_0.gguf"), "registry.ollama.ai/someone/m:q4_0");
  EXPECT_FALSE(pulled_name("registry.ollama.ai/library/qwen3/4b.gguf.part"));
  EXPECT_FALSE(pulled_name("elsewhere/a/b/c.gguf"));
  EXPECT_FALSE(pulled_name("m.gguf"));
}

TEST(ModelFolder, ProjectorsAreNoModels) {
  EXPECT_TRUE(is_projector("mmproj-model-f16.gguf"));
  EXPECT_TRUE(is_projector("gemma-3-4b-it.mmproj-Q8_0.gguf"));
  EXPECT_FALSE(is_projector("mmproj/m.gguf"));
}

TEST(ModelFolder, TheDefaultLiesInTheUsersData) {
  const char* const before = std::getenv("XDG_DATA_HOME");
  const std::string kept = before == nullptr ? "" : before;
  ::setenv("XDG_DATA_HOME", "/data", 1);
  EXPECT_EQ(default_models_folder().value(), "/data/cairn/models");
  ::setenv("XDG_DATA_HOME", "relative", 1);
  EXPECT_TRUE(default_models_folder().value().string().ends_with("/.local/share/cairn/models"));
  before == nullptr ? ::unsetenv("XDG_DATA_HOME") : ::setenv("XDG_DATA_HOME", kept.c_str(), 1);
}

}  // namespace
}  // namespace cairn::gguf
