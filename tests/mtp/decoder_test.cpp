// The MTP modules of decoders: a layer of the model over pairs of a token and the row before it. So a model of this
// layer alone, whose "tokens" are the pairs, has the module's logits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/testing/test_data.h"
#include "cache/page_pool.h"
#include "edited_model.h"
#include "kernels/cpu/cpu_backend.h"
#include "model/model.h"

namespace cairn::mtp {
namespace {

constexpr double kPairNmseMax = 1e-9;
constexpr int32_t kPromptTokens = 40;

struct Case {
  const char* file;
  const char* architecture;
  const char* layer;                    ///< of the module
  std::vector<std::string> of_trunk{};  ///< keys that make the one layer what the module's is, by their new numbers
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.file; }

std::filesystem::path path_of(const Case& c) {
  return std::filesystem::path(test_data()) / "models" / (std::string(c.file) + ".gguf");
}

std::vector<float> floats_of(const gguf::Reader& file, const std::string& name) {
  const gguf::Tensor* tensor = file.find_tensor(name);
  EXPECT_NE(tensor, nullptr) << name;
  std::vector<float> values(tensor->bytes.size() / sizeof(float));
  std::memcpy(values.data(), tensor->bytes.data(), tensor->bytes.size());
  return values;
}

double nmse_of(std::span<const float> got, std::span<const float> expected) {
  double error = 0, power = 0;
  EXPECT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    const double difference = double{got[i]} - expected[i];
    error += difference * difference;
    power += double{expected[i]} * expected[i];
  }
  return error / power;
}

TokenId best_of(std::span<const float> logits) {
  return TokenId{static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin())};
}

/// A sequence that runs through a model of its own.
class Conversation {
 public:
  Conversation(const std::filesystem::path& path, bool load_mtp) : file_(gguf::Reader::open(path).value()) {
    backend_ = kernels::make_cpu_backend({.threads = 2, .isa = ""}).value();
    auto loaded =
        model::load_model(file_, *backend_, {.context_tokens = 64, .batch_tokens_max = 64, .load_mtp = load_mtp});
    EXPECT_TRUE(loaded.has_value()) << loaded.error().text();
    runner_ = std::move(*loaded);
    const std::vector<int32_t> pages(runner_->kv_layout().groups.size(), 4);
    pool_ = cache::PagePool::create(*backend_, runner_->kv_layout(), pages).value();
  }

  const gguf::Reader& file() const { return file_; }
  model::Runner& runner() { return *runner_; }
  std::vector<float> step(std::span<const TokenId> tokens, int32_t position) { return run(tokens, position, false); }
  std::vector<float> mtp_step(TokenId token, int32_t position) { return run({&token, 1}, position, true); }
  /// What the model or its module has left at a position for the next.
  std::vector<float> row_at(int32_t position) const {
    const auto& groups = runner_->kv_layout().groups;
    const auto g = std::ranges::find_if(groups, &cache::KvGroup::optional) - groups.begin();
    const kernels::KvView view = pool_.view(static_cast<int32_t>(g), 0);
    const PageId page = table_.groups[static_cast<size_t>(g)][static_cast<size_t>(position / kernels::kPageTokens)];
    const std::byte* row = view.base + index(page) * view.page_stride + view.layer_offset +
                           position % kernels::kPageTokens * kernels::kv_row_bytes(view.type, view.key_dim);
    std::vector<float> values(static_cast<size_t>(view.key_dim));
    std::memcpy(values.data(), row, values.size() * sizeof(float));
    return values;
  }

 private:
  std::vector<float> run(std::span<const TokenId> tokens, int32_t position, bool mtp) {
    const auto rows = static_cast<int32_t>(tokens.size());
    EXPECT_TRUE(pool_.extend(table_, position + rows));
    const model::BatchSlice slice{.rows = rows,
                                  .position_begin = position,
                                  .pages = &table_,
                                  .logits = mtp ? model::LogitsWanted::kLast : model::LogitsWanted::kAll};
    const model::Batch batch{.tokens = tokens, .slices = std::span(&slice, 1), .pool = &pool_};
    const auto logits = mtp ? runner_->mtp_step(batch) : runner_->step(batch);
    EXPECT_TRUE(logits.has_value()) << logits.error().text();
    return {logits->values.begin(), logits->values.end()};
  }

  gguf::Reader file_;
  std::unique_ptr<kernels::Backend> backend_;
  std::unique_ptr<model::Runner> runner_;
  cache::PagePool pool_;
  cache::PageTable table_;
};

std::vector<double> rms_norm(std::span<const float> x, std::span<const float> weight) {
  constexpr double kNormEpsilon = 1e-5;
  double sum = 0;
  for (const float value : x) sum += double{value} * value;
  const double factor = 1 / std::sqrt(sum / static_cast<double>(x.size()) + kNormEpsilon);
  std::vector<double> y;
  for (size_t i = 0; i < x.size(); ++i) y.push_back(x[i] * factor * weight[i]);
  return y;
}

class DecoderMtp : public testing::TestWithParam<Case> {
 protected:
  DecoderMtp() {
    std::mt19937 random(5);
    for (int i = 0; i < kPromptTokens + 8; ++i) tokens_.push_back(TokenId{static_cast<int32_t>(random() % 300)});
  }
  std::span<const TokenId> tokens(int32_t begin, int32_t end) const {
    return std::span(tokens_).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
  }
  std::string prefix() const { return std::string(GetParam().layer) + "nextn."; }

  /// What the module's layer reads: of a token, and the row before it.
  std::vector<float> pair_of(const gguf::Reader& file, TokenId token, std::span<const float> before) const {
    const std::vector<float> table = floats_of(file, "token_embd.weight"),
                             matrix = floats_of(file, prefix() + "eh_proj.weight");
    const size_t width = before.size();
    std::vector<double> both = rms_norm(std::span(table).subspan(static_cast<size_t>(index(token)) * width, width),
                                        floats_of(file, prefix() + "enorm.weight"));
    const std::vector<double> row = rms_norm(before, floats_of(file, prefix() + "hnorm.weight"));
    both.insert(both.end(), row.begin(), row.end());
    std::vector<float> pair;
    for (size_t i = 0; i < width; ++i) {
      double sum = 0;
      for (size_t j = 0; j < both.size(); ++j) sum += matrix[i * both.size() + j] * both[j];
      pair.push_back(static_cast<float>(sum));
    }
    return pair;
  }

  /// A model of the module's layer alone: token i has the embedding pairs[i].
  std::unique_ptr<EditedModel> model_of_pairs(const gguf::Reader& file,
                                              const std::vector<std::vector<float>>& pairs) const {
    const gguf::Tensor& table = *file.find_tensor("token_embd.weight");
    AddedTensor embedding{"token_embd.weight", table.shape, floats_of(file, "token_embd.weight")};
    for (size_t i = 0; i < pairs.size(); ++i) {
      std::ranges::copy(pairs[i], embedding.values.begin() + static_cast<std::ptrdiff_t>(i * pairs[i].size()));
    }
    AddedTensor norm{"output_norm.weight", {table.shape[0]}, floats_of(file, prefix() + "shared_head_norm.weight")};
    std::vector<AddedTensor> added;
    added.push_back(std::move(embedding));
    added.push_back(std::move(norm));
    std::vector<std::string> left_out;
    const std::string layer = GetParam().layer;
    for (const gguf::Tensor& tensor : file.tensors()) {
      const std::string name(tensor.name);
      if (!name.starts_with("blk.")) continue;
      left_out.push_back(name);
      if (!name.starts_with(layer) || name.starts_with(prefix())) continue;
      added.push_back({"blk.0." + name.substr(layer.size()), tensor.shape, floats_of(file, name)});
    }
    const std::string architecture = std::string(GetParam().architecture) + ".";
    const auto keys = [&](gguf::Writer& writer) {
      writer.set_integer(architecture + "block_count", gguf::ValueType::kU32, 1);
      writer.set_integer(architecture + "nextn_predict_layers", gguf::ValueType::kU32, 0);
      for (const std::string& key : GetParam().of_trunk) {
        const size_t at = key.find('=');
        writer.set_integer(architecture + key.substr(0, at), gguf::ValueType::kU32, std::stoi(key.substr(at + 1)));
      }
    };
    return std::make_unique<EditedModel>(path_of(GetParam()), "pairs", added, keys, left_out);
  }

  std::vector<TokenId> tokens_;
};

TEST_P(DecoderMtp, TheModuleIsALayerOverPairsOfATokenAndTheRowBeforeIt) {
  Conversation run(path_of(GetParam()), true);
  ASSERT_TRUE(run.runner().has_mtp());
  // In two chunks, so that the module reads rows of an earlier one.
  run.step(tokens(0, 7), 0);
  run.step(tokens(7, kPromptTokens), 7);
  const auto width = static_cast<size_t>(run.file().find_tensor("token_embd.weight")->shape[0]);
  std::vector<float> before(width);
  std::vector<std::vector<float>> pairs;
  for (int32_t p = 0; p < kPromptTokens; ++p) {
    pairs.push_back(pair_of(run.file(), tokens_[static_cast<size_t>(p)], before));
    before = run.row_at(p);
  }
  // Drafts go on from the module's own rows.
  std::vector<std::vector<float>> drafts;
  TokenId token = tokens_[kPromptTokens];
  for (int32_t position = kPromptTokens; position < kPromptTokens + 3; ++position) {
    pairs.push_back(pair_of(run.file(), token, run.row_at(position - 1)));
    drafts.push_back(run.mtp_step(token, position));
    token = best_of(drafts.back());
  }
  const auto model = model_of_pairs(run.file(), pairs);
  Conversation module(model->path(), false);
  std::vector<TokenId> numbers;
  for (size_t i = 0; i < pairs.size(); ++i) numbers.push_back(TokenId{static_cast<int32_t>(i)});
  const std::vector<float> expected = module.step(numbers, 0);
  const size_t vocabulary = drafts[0].size();
  for (size_t i = 0; i < drafts.size(); ++i) {
    const auto row = std::span(expected).subspan((kPromptTokens + i) * vocabulary, vocabulary);
    EXPECT_LE(nmse_of(drafts[i], row), kPairNmseMax) << "draft " << i;
  }
}

TEST_P(DecoderMtp, RowsAreThoseThatTheModelsLogitsAreMadeOf) {
  Conversation run(path_of(GetParam()), true);
  const std::vector<float> logits = run.step(tokens(0, kPromptTokens), 0);
  const std::vector<float> row = run.row_at(kPromptTokens - 1), output = floats_of(run.file(), "output.weight");
  std::vector<float> expected;
  for (size_t begin = 0; begin < output.size(); begin += row.size()) {
    double sum = 0;
    for (size_t i = 0; i < row.size(); ++i) sum += double{row[i]} * output[begin + i];
    expected.push_back(static_cast<float>(sum));
  }
  EXPECT_LE(nmse_of(std::span(logits).last(expected.size()), expected), kPairNmseMax);
}

TEST_P(DecoderMtp, DraftingDoesNotChangeTheModelsLogits) {
  Conversation plain(path_of(GetParam()), false), drafting(path_of(GetParam()), true);
  EXPECT_FALSE(plain.runner().has_mtp());
  EXPECT_EQ(plain.step(tokens(0, kPromptTokens), 0), drafting.step(tokens(0, kPromptTokens), 0));
  TokenId token = tokens_[kPromptTokens];
  for (int32_t i = 0; i < 4; ++i) token = best_of(drafting.mtp_step(token, kPromptTokens + i));
  const auto rest = tokens(kPromptTokens, kPromptTokens + 8);
  EXPECT_EQ(plain.step(rest, kPromptTokens), drafting.step(rest, kPromptTokens));
}

TEST_P(DecoderMtp, AModuleThatLacksATensorIsNamedAndLeftOutWhenNobodyAsksForIt) {
  const std::string name = prefix() + "hnorm.weight";
  const EditedModel edited(path_of(GetParam()), "lacking", {}, [](gguf::Writer&) {}, {name});
  const auto file = gguf::Reader::open(edited.path()).value();
  const auto backend = kernels::make_cpu_backend({.threads = 1, .isa = ""}).value();
  const auto loaded = model::load_model(file, *backend, {.load_mtp = true});
  ASSERT_FALSE(loaded.has_value());
  for (const std::string& part : {"tensor " + name, std::string("leave out --speculate")}) {
    EXPECT_NE(loaded.error().text().find(part), std::string::npos) << loaded.error().text();
  }
  EXPECT_TRUE(model::load_model(file, *backend, {}).has_value());
}

INSTANTIATE_TEST_SUITE_P(Files, DecoderMtp,
                         testing::Values(Case{"qwen35-mtp", "qwen35", "blk.2.", {"full_attention_interval=1"}},
                                         Case{"glm4moe-mtp", "glm4moe", "blk.2.", {"leading_dense_block_count=0"}}),
                         [](const auto& tested) { return std::string(tested.param.architecture); });

}  // namespace
}  // namespace cairn::mtp
