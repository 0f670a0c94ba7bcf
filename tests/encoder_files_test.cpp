// Files of encoders that lack something, or have it in the wrong shape: what is wrong is named.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/testing/test_data.h"
#include "edited_model.h"
#include "gguf/reader.h"
#include "kernels/cpu/cpu_backend.h"
#include "model/embedder.h"
#include "model/model.h"

namespace cairn {
namespace {

std::filesystem::path file_of(const std::string& name) {
  return std::filesystem::path(test_data()) / "converted" / (name + ".gguf");
}

/// What is said of a file that is loaded; empty if nothing is wrong.
std::string refusal_of(const std::filesystem::path& path) {
  const auto reader = gguf::Reader::open(path);
  if (!reader.has_value()) return reader.error().text();
  const auto backend = kernels::make_cpu_backend({.threads = 1, .isa = ""}).value();
  const auto loaded = model::load_embedder(*reader, *backend, {});
  return loaded.has_value() ? "" : loaded.error().text();
}

class EncoderFilesTest : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Files, EncoderFilesTest,
                         testing::Values("bert", "nomic_bert", "nomic_bert-moe", "jina_embeddings_v3", "modernbert",
                                         "eurobert", "embeddinggemma-dense", "modernbert-rerank", "roberta-rerank"),
                         [](const auto& p) {
                           std::string name = p.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

/// What a file of its architecture may lack: biases, types of tokens, and the pooler of a head that ranks.
bool may_be_missing(const std::string& tensor) {
  return tensor.ends_with(".bias") || tensor == "token_types.weight" || tensor == "cls.weight" ||
         tensor == "cls.norm.weight";
}

TEST_P(EncoderFilesTest, ATensorThatIsMissingOrHasAnotherShapeIsNamed) {
  const auto file = gguf::Reader::open(file_of(GetParam()));
  ASSERT_TRUE(file.has_value());
  EXPECT_EQ(refusal_of(file_of(GetParam())), "");
  for (const auto& tensor : file->tensors()) {
    const std::string name(tensor.name);
    if (name.starts_with("blk.2.")) continue;  // as blk.0 or blk.1
    if (!may_be_missing(name)) {
      const EditedModel without(file_of(GetParam()), "cairn-without", {}, [](gguf::Writer&) {}, {name});
      // Without the matrix of all three, queries are looked for first.
      std::string named = name;
      if (const size_t fused = named.find("attn_qkv"); fused != std::string::npos) named.replace(fused, 8, "attn_q");
      EXPECT_NE(refusal_of(without.path()).find(named), std::string::npos) << name << refusal_of(without.path());
    }
    std::vector<int64_t> shape(tensor.shape.begin(), tensor.shape.end());
    shape[0] += 1;
    const EditedModel misshapen(file_of(GetParam()), "cairn-misshapen", {random_tensor(name, shape, 1)},
                                [](gguf::Writer&) {});
    EXPECT_NE(refusal_of(misshapen.path()).find(name), std::string::npos)
        << name << ": " << refusal_of(misshapen.path());
  }
}

struct WrongKey {
  const char* file;
  const char* key;  ///< of the architecture
  int64_t value;
  const char* said;
};

TEST(EncoderKeysTest, AKeyWithAValueThatCannotBeIsNamed) {
  const WrongKey wrong[] = {
      {"eurobert", "eurobert.attention.head_count_kv", 3, "does not divide"},
      {"eurobert", "eurobert.attention.head_count_kv", 8, "must be in 1 .. 4"},
      {"eurobert", "eurobert.attention.value_length", 8, "keys and values of one length"},
      {"eurobert", "eurobert.attention.key_length", 0, "must be in 1 .."},
      {"eurobert", "eurobert.rope.dimension_count", 15, "come in pairs"},
      {"embeddinggemma-dense", "gemma-embedding.dense_2_feat_in", 63, "maps 64 numbers to 96"},
      {"embeddinggemma-dense", "gemma-embedding.dense_3_feat_out", 64, "maps 96 numbers to 48"},
      {"embeddinggemma-dense", "gemma-embedding.attention.sliding_window", 1 << 25, "must be in 0 .."},
      {"modernbert", "modern-bert.attention.sliding_window_pattern", 2000, "must be in 0 .."},
      {"nomic_bert-moe", "nomic-bert-moe.expert_count", 0, "must be in 1 .."},
      {"nomic_bert-moe", "nomic-bert-moe.expert_used_count", 9, "must be in 1 .. 8"},
      {"nomic_bert-moe", "nomic-bert-moe.moe_every_n_layers", 5000, "must be in 0 .."},
  };
  for (const WrongKey& each : wrong) {
    const EditedModel file(file_of(each.file), "cairn-key", {},
                           [&](gguf::Writer& keys) { keys.set_integer(each.key, gguf::ValueType::kU32, each.value); });
    const std::string said = refusal_of(file.path());
    EXPECT_NE(said.find(each.key), std::string::npos) << each.key << ": " << said;
    EXPECT_NE(said.find(each.said), std::string::npos) << each.key << ": " << said;
  }
}

TEST(EncoderKeysTest, AKeyThatIsMissingIsNamed) {
  const std::pair<const char*, const char*> needed[] = {
      {"nomic_bert-moe", "nomic-bert-moe.moe_every_n_layers"},
      {"nomic_bert-moe", "nomic-bert-moe.expert_count"},
      {"nomic_bert-moe", "nomic-bert-moe.expert_used_count"},
      {"nomic_bert-moe", "nomic-bert-moe.attention.layer_norm_epsilon"},
      {"modernbert", "modern-bert.attention.layer_norm_epsilon"},
      {"eurobert", "eurobert.attention.layer_norm_rms_epsilon"},
      {"embeddinggemma-dense", "gemma-embedding.feed_forward_length"},
      {"jina_embeddings_v3", "jina-bert-v3.context_length"},
  };
  for (const auto& [name, key] : needed) {
    const EditedModel file(file_of(name), "cairn-no-key", {}, [](gguf::Writer&) {}, {key});
    EXPECT_NE(refusal_of(file.path()).find(key), std::string::npos) << key << ": " << refusal_of(file.path());
  }
}

TEST(EncoderKeysTest, AnActivationOrHeadThatIsNotKnownIsRefusedByName) {
  const EditedModel activation(file_of("modernbert"), "cairn-activation", {},
                               [](gguf::Writer& keys) { keys.set("modern-bert.hidden_activation", "relu"); });
  EXPECT_NE(refusal_of(activation.path()).find("modern-bert.hidden_activation"), std::string::npos);
  EXPECT_NE(refusal_of(activation.path()).find("relu"), std::string::npos);
  const EditedModel causal(file_of("eurobert"), "cairn-causal", {},
                           [](gguf::Writer& keys) { keys.set_boolean("eurobert.attention.causal", true); });
  EXPECT_NE(refusal_of(causal.path()).find("eurobert.attention.causal"), std::string::npos);
  const EditedModel variant(file_of("bert"), "cairn-variant", {random_tensor("blk.0.attn_norm_2.weight", {64}, 3)},
                            [](gguf::Writer&) {});
  EXPECT_NE(refusal_of(variant.path()).find("attn_norm_2"), std::string::npos);
  // The pooler is no head: the file says that there is one label.
  const EditedModel headless(file_of("roberta-rerank"), "cairn-headless", {}, [](gguf::Writer&) {},
                             {"cls.output.weight", "cls.output.bias"});
  EXPECT_NE(refusal_of(headless.path()).find("cls.weight"), std::string::npos) << refusal_of(headless.path());
}

}  // namespace
}  // namespace cairn
