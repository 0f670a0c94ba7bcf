// LoRA adapters of encoders: vectors are those of a model whose matrices hold the adapters' products.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "edited_model.h"
#include "gguf/reader.h"
#include "golden_model.h"
#include "kernels/cpu/cpu_backend.h"
#include "lora_files.h"
#include "model/embedder.h"
#include "model/model.h"

namespace cairn {
namespace {

/// Texts are cut into chunks, and pooled rows may be more than one has.
constexpr int32_t kChunkRows = 7;

class Encoder {
 public:
  explicit Encoder(const std::filesystem::path& path, std::span<const model::LoraAdapter> adapters = {})
      : file_(gguf::Reader::open(path).value()),
        backend_(kernels::make_cpu_backend({.threads = 2, .isa = "generic"}).value()) {
    auto loaded = model::load_embedder(file_, *backend_, {.batch_tokens_max = kChunkRows, .adapters = adapters});
    if (!loaded.has_value()) throw std::runtime_error(loaded.error().text());
    embedder_ = std::move(loaded).value();
  }
  std::vector<float> embed(std::span<const model::EmbedText> texts, model::Pooling pooling) {
    const int64_t width = pooling == model::Pooling::kRank ? 1 : embedder_->ability().dimensions;
    std::vector<float> out(texts.size() * width);
    EXPECT_TRUE(embedder_->embed(texts, pooling, out).has_value());
    return out;
  }

 private:
  gguf::Reader file_;
  std::unique_ptr<kernels::Backend> backend_;
  std::unique_ptr<model::Embedder> embedder_;
};

bool is_multiplied_in_encoder(const gguf::Tensor& tensor) {
  const bool head = tensor.name.starts_with("dense_") || tensor.name.starts_with("cls");
  return is_multiplied(tensor) || (head && tensor.shape.size() == 2 && tensor.name.ends_with(".weight"));
}

struct Case {
  const char* model;
  model::Pooling pooling;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.model; }

class LoraEncoder : public testing::TestWithParam<Case> {
 protected:
  LoraEncoder() {
    for (int32_t i = 0; i < 19; ++i) long_.push_back(TokenId{(5 * i + 3) % 31});
  }
  std::filesystem::path path() const { return fixture(GetParam().model); }

  const gguf::Reader base_ = gguf::Reader::open(path()).value();
  const std::string architecture_{base_.metadata().string("general.architecture").value()};
  std::vector<TokenId> long_;
  std::vector<TokenId> short_ = {TokenId{2}, TokenId{9}, TokenId{4}};
};

TEST_P(LoraEncoder, VectorsAreThoseOfAModelWithTheProductsInItsMatrices) {
  std::vector<AddedTensor> merged;
  std::vector<AddedTensor> parts = parts_of(base_, 4, 0.05F, merged, is_multiplied_in_encoder);
  add_table_parts(base_, 4, 0.05F, parts, merged);
  const AdapterFile adapter("lora_encoder", architecture_, parts);
  const EditedModel edited(path(), "merged_encoder", merged, [](gguf::Writer&) {});
  const std::vector<model::LoraFile> files = {{adapter.path(), 0.05F}};
  const auto adapters = model::open_lora_adapters(files, architecture_).value();
  const model::EmbedText texts[] = {{long_}, {short_}};
  const model::Pooling pooling = GetParam().pooling;
  const std::vector<float> vectors = Encoder(path(), adapters).embed(texts, pooling);
  EXPECT_LE(nmse(vectors, Encoder(edited.path()).embed(texts, pooling)), 1e-9);
  EXPECT_GE(nmse(vectors, Encoder(path()).embed(texts, pooling)), 1e-5) << "the adapter changes something";
}

TEST_P(LoraEncoder, EachTextTakesTheAdapterByItsOwnScale) {
  std::vector<AddedTensor> merged;
  const AdapterFile adapter("lora_encoder", architecture_, parts_of(base_, 2, 1, merged, is_multiplied_in_encoder));
  const std::vector<model::LoraFile> files = {{adapter.path(), 0.1F}};
  const auto adapters = model::open_lora_adapters(files, architecture_).value();
  Encoder model(path(), adapters);
  const float none[] = {0}, half[] = {0.05F};
  const model::Pooling pooling = GetParam().pooling;
  const model::EmbedText plain{long_, model::kNoSecond, none}, halved{long_, model::kNoSecond, half}, usual{short_};
  const model::EmbedText together[] = {plain, usual, halved};
  const std::vector<float> vectors = model.embed(together, pooling);
  const size_t width = vectors.size() / std::size(together);
  const auto vector = [&](size_t text) {
    const auto begin = vectors.begin() + static_cast<int64_t>(text * width);
    return std::vector<float>(begin, begin + static_cast<int64_t>(width));
  };
  EXPECT_EQ(vector(0), Encoder(path()).embed({&plain, 1}, pooling)) << "a scale of 0 is no adapter";
  EXPECT_EQ(vector(1), model.embed({&usual, 1}, pooling));
  EXPECT_EQ(vector(2), model.embed({&halved, 1}, pooling));
  EXPECT_NE(vector(0), vector(2));
}

INSTANTIATE_TEST_SUITE_P(Fixtures, LoraEncoder,
                         testing::Values(Case{"models/bert.gguf", model::Pooling::kCls},
                                         Case{"models/nomic-bert.gguf", model::Pooling::kMean},
                                         Case{"models/jina-bert-v2.gguf", model::Pooling::kMean},
                                         Case{"converted/nomic_bert-moe.gguf", model::Pooling::kMean},
                                         Case{"converted/modernbert.gguf", model::Pooling::kMean},
                                         Case{"converted/embeddinggemma-dense.gguf", model::Pooling::kMean},
                                         Case{"converted/bert-rerank.gguf", model::Pooling::kRank}),
                         [](const auto& p) {
                           std::string name = std::filesystem::path(p.param.model).stem().string();
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace cairn
