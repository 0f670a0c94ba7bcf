// The MTP module computes its formulas, in both kinds of files, and does not change the model's results.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <random>

#include "base/testing/test_data.h"
#include "cache/page_pool.h"
#include "engine/speculation/drafter.h"
#include "kernels/cpu/cpu_backend.h"
#include "model/model.h"
#include "mtp/files.h"
#include "mtp/reference.h"

namespace cairn::mtp {
namespace {

constexpr double kNmseMax = 1e-5;
constexpr int32_t kPrompt = 40;

template <class Values>
double nmse(const Values& actual, const Vector& expected) {
  double error = 0, power = 0;
  EXPECT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    error += (actual[i] - expected[i]) * (actual[i] - expected[i]);
    power += expected[i] * expected[i];
  }
  return error / power;
}

TokenId first_choice(std::span<const float> logits) {
  return TokenId{static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin())};
}

/// At most two sequences that run through a model of their own.
class Session {
 public:
  Session(const gguf::Reader& file, bool load_mtp, const gguf::Reader* mtp_file = nullptr) {
    backend_ = kernels::make_cpu_backend({.threads = 2, .isa = ""}).value();
    model::ModelOptions options;
    options.context_tokens = 64;
    options.batch_tokens_max = 64;
    options.simulate_rounding = false;
    options.load_mtp = load_mtp;
    options.mtp_file = mtp_file;
    auto loaded = model::load_model(file, *backend_, options);
    EXPECT_TRUE(loaded.has_value()) << loaded.error().text();
    runner_ = std::move(*loaded);
    const std::vector<int32_t> each(runner_->kv_layout().groups.size(), 4);
    pool_ = cache::PagePool::create(*backend_, runner_->kv_layout(), each).value();
  }

  model::Runner& runner() { return *runner_; }
  std::vector<float> step(std::span<const TokenId> tokens, int32_t position, size_t sequence = 0) {
    return run(tokens, position, false, tables_[sequence]);
  }
  /// Logits of the token after `token`, which is at `position`.
  std::vector<float> mtp_step(TokenId token, int32_t position) { return run({&token, 1}, position, true, tables_[0]); }
  /// A block of drafts (DSpark) behind `token`, which is at `position`: their logits.
  std::vector<std::vector<float>> drafts(TokenId token, int32_t position) {
    std::vector<std::vector<float>> all;
    EXPECT_TRUE(pool_.extend(tables_[0], position + kDsparkBlock));
    for (int32_t ahead = 0; ahead < kDsparkBlock; ++ahead) {
      all.push_back(run({&token, 1}, position + ahead, true, tables_[0], ahead));
      token = first_choice(all.back());
    }
    return all;
  }
  /// A request for drafts after all of `tokens`.
  engine::DraftRequest request(size_t sequence, std::span<const TokenId> tokens, int32_t tokens_max,
                               std::vector<TokenId>& proposed) {
    EXPECT_TRUE(pool_.extend(tables_[sequence], static_cast<int32_t>(tokens.size()) + tokens_max));
    return {SequenceId(static_cast<int32_t>(sequence)), tokens, tokens_max, &proposed, &tables_[sequence], &pool_};
  }

  /// The residual streams that the model left at a position.
  Vector streams_at(int32_t position) const {
    const auto& groups = runner_->kv_layout().groups;
    for (size_t g = 0; g < groups.size(); ++g) {
      if (groups[g].window != 2) continue;
      const kernels::KvView view = pool_.view(static_cast<int32_t>(g), 0);
      const PageId page = tables_[0].groups[g][static_cast<size_t>(position / kernels::kPageTokens)];
      const std::byte* row = view.base + index(page) * view.page_stride + view.layer_offset +
                             position % kernels::kPageTokens * kernels::kv_row_bytes(view.type, view.key_dim);
      std::vector<float> values(static_cast<size_t>(view.key_dim));
      std::memcpy(values.data(), row, values.size() * sizeof(float));
      return {values.begin(), values.end()};
    }
    ADD_FAILURE() << "there are no streams";
    return {};
  }

 private:
  std::vector<float> run(std::span<const TokenId> tokens, int32_t position, bool mtp, cache::PageTable& table,
                         int32_t ahead = 0) {
    const auto rows = static_cast<int32_t>(tokens.size());
    EXPECT_TRUE(pool_.extend(table, position + rows));
    model::BatchSlice slice{.sequence = SequenceId(1), .rows = rows, .position_begin = position, .pages = &table};
    slice.logits = mtp ? model::LogitsWanted::kLast : model::LogitsWanted::kAll;
    slice.drafts_before = ahead;
    const model::Batch batch{.tokens = tokens, .slices = std::span(&slice, 1), .pool = &pool_};
    const auto logits = mtp ? runner_->mtp_step(batch) : runner_->step(batch);
    EXPECT_TRUE(logits.has_value()) << logits.error().text();
    return {logits->values.begin(), logits->values.end()};
  }

  std::unique_ptr<kernels::Backend> backend_;
  std::unique_ptr<model::Runner> runner_;
  cache::PagePool pool_;
  std::array<cache::PageTable, 2> tables_;
};

class MtpModule : public testing::Test {
 protected:
  MtpModule() : file_(gguf::Reader::open(make_model(folder_ / "model.gguf")).value()) {
    std::mt19937 random(5);
    for (int i = 0; i < kPrompt + 8; ++i) tokens_.push_back(TokenId{static_cast<int32_t>(random() % 500)});
  }
  std::span<const TokenId> tokens(int32_t begin, int32_t end) const {
    return std::span(tokens_).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
  }

  Folder folder_;
  gguf::Reader file_;
  std::vector<TokenId> tokens_;
};

TEST_F(MtpModule, TheModuleComputesItsFormulas) {
  const Reference reference(file_, "blk.4.");
  const std::string head = "blk.4.nextn.hc_head", norm = "blk.4.nextn.shared_head_norm.weight";
  Session session(file_, true);
  ASSERT_TRUE(session.runner().has_mtp());
  // In two chunks, so that the MTP module reads rows of an earlier one.
  session.step(tokens(0, 7), 0);
  const std::vector<float> logits = session.step(tokens(7, kPrompt), 7);
  const auto vocabulary = static_cast<size_t>(session.runner().vocabulary());
  // The module starts from the streams from which the model's own logits are computed.
  const Vector last = session.streams_at(kPrompt - 1);
  EXPECT_LE(nmse(std::span(logits).last(vocabulary), reference.logits(last, "output_hc", "output_norm.weight")),
            kNmseMax);

  // Rows of all positions, from the token there and the streams before it.
  std::vector<Vector> rows;
  const auto follow = [&](int32_t position, TokenId token) {
    const Vector nothing(static_cast<size_t>(reference.streams * reference.width), 0);
    const Vector before = position == 0 ? nothing : session.streams_at(position - 1);
    const Vector input = reference.begin(before, index(token));
    rows.resize(static_cast<size_t>(position) + 1);
    rows.back() = reference.row(input, position);
    return input;
  };
  for (int32_t p = 0; p < kPrompt; ++p) follow(p, tokens_[static_cast<size_t>(p)]);

  // The first draft, and two more from the module's own output.
  TokenId token = tokens_[kPrompt];
  for (int32_t position = kPrompt; position < kPrompt + 3; ++position) {
    const Vector input = follow(position, token);
    const Vector output = reference.layer(input, rows);
    const std::vector<float> draft = session.mtp_step(token, position);
    EXPECT_LE(nmse(draft, reference.logits(output, head, norm)), kNmseMax) << position;
    EXPECT_LE(nmse(session.streams_at(position), output), kNmseMax) << position;
    token = first_choice(draft);
  }

  // The model continues with other tokens: its rows replace those of the drafts.
  session.step(tokens(kPrompt, kPrompt + 2), kPrompt);
  for (int32_t p = kPrompt; p < kPrompt + 2; ++p) follow(p, tokens_[static_cast<size_t>(p)]);
  const Vector input = follow(kPrompt + 2, tokens_[kPrompt + 2]);
  EXPECT_LE(nmse(session.mtp_step(tokens_[kPrompt + 2], kPrompt + 2),
                 reference.logits(reference.layer(input, rows), head, norm)),
            kNmseMax);
}

// V4's drafting head reads what layers leave, and a head of its own reduces its streams to one row.
TEST_F(MtpModule, ADraftingHeadOfV4ComputesItsFormulas) {
  const auto file = gguf::Reader::open(make_with_dspark(file_, folder_ / "dspark.gguf")).value();
  Session with_module(file_, true), session(file, true);
  ASSERT_EQ(session.runner().draft_block(), kDsparkBlock);
  EXPECT_EQ(with_module.step(tokens(0, kPrompt), 0), session.step(tokens(0, kPrompt), 0));
  const Reference stages[] = {Reference(file, "mtp.0."), Reference(file, "mtp.1.")};
  const Reference& any = stages[0];

  // The window of each layer, from the mean of the streams behind the model's last layer.
  constexpr int32_t kWindow = 16;
  std::vector<Vector> rows;
  for (int32_t position = kPrompt - kWindow; position < kPrompt; ++position) {
    const Vector left = with_module.streams_at(position);
    Vector mean(static_cast<size_t>(any.width), 0);
    for (size_t i = 0; i < left.size(); ++i) mean[i % mean.size()] += left[i] / static_cast<double>(any.streams);
    const Vector main = norm(any.product("mtp.0.main_proj.weight", mean), any.tensor("mtp.0.main_norm.weight"));
    rows.push_back(any.key(main, position));
  }
  std::vector<Vector> block;
  TokenId last = tokens_[kPrompt];
  for (int32_t i = 0; i < kDsparkBlock; ++i) {
    const auto token = static_cast<size_t>(i == 0 ? index(last) : 3);
    const Vector all = any.tensor("token_embd.weight");
    Vector& streams = block.emplace_back();
    for (int64_t s = 0; s < any.streams; ++s) {
      const auto row = all.begin() + static_cast<std::ptrdiff_t>(token * static_cast<size_t>(any.width));
      streams.insert(streams.end(), row, row + any.width);
    }
  }
  for (const Reference& stage : stages) {
    std::vector<Vector> seen = rows;
    for (int32_t i = 0; i < kDsparkBlock; ++i) seen.push_back(stage.row(block[i], kPrompt + i));
    for (int32_t i = 0; i < kDsparkBlock; ++i) block[i] = stage.layer(block[i], kPrompt + i, seen);
  }
  const std::vector<std::vector<float>> drafts = session.drafts(last, kPrompt);
  const Vector pairs = any.tensor("mtp.1.markov_head.markov_w1.weight");
  constexpr std::ptrdiff_t kRank = 16;
  for (int32_t i = 0; i < kDsparkBlock; ++i) {
    Vector logits = any.logits(block[i], "mtp.1.hc_head", "mtp.1.norm.weight");
    const auto before = pairs.begin() + index(last) * kRank;
    const Vector added = any.product("mtp.1.markov_head.markov_w2.weight", {before, before + kRank});
    for (size_t token = 0; token < logits.size(); ++token) logits[token] += added[token];
    EXPECT_LE(nmse(drafts[i], logits), kNmseMax) << i;
    last = first_choice(drafts[i]);
  }
}

TEST_F(MtpModule, DraftingDoesNotChangeTheModelsLogits) {
  Session plain(file_, false), drafting(file_, true);
  EXPECT_FALSE(plain.runner().has_mtp());
  EXPECT_EQ(plain.step(tokens(0, kPrompt), 0), drafting.step(tokens(0, kPrompt), 0));
  TokenId token = tokens_[kPrompt];
  for (int32_t i = 0; i < 4; ++i) token = first_choice(drafting.mtp_step(token, kPrompt + i));
  EXPECT_EQ(plain.step(tokens(kPrompt, kPrompt + 3), kPrompt), drafting.step(tokens(kPrompt, kPrompt + 3), kPrompt));
}

TEST_F(MtpModule, TheDrafterProposesTheModulesTokensOfEachSequenceAlone) {
  constexpr int32_t kDepth = 4;
  const std::array<std::span<const TokenId>, 2> histories = {tokens(0, kPrompt + 1), tokens(20, 30)};
  Session both(file_, true);
  std::vector<engine::DraftRequest> requests;
  std::array<std::vector<TokenId>, 2> proposed, expected;
  for (size_t i = 0; i < histories.size(); ++i) {
    const std::span<const TokenId> seen = histories[i].first(histories[i].size() - 1);
    const auto position = static_cast<int32_t>(seen.size());
    Session alone(file_, true);
    alone.step(seen, 0);
    TokenId token = histories[i].back();
    for (int32_t draft = 0; draft < kDepth; ++draft) {
      token = first_choice(alone.mtp_step(token, position + draft));
      expected[i].push_back(token);
    }
    both.step(seen, 0, i);
    requests.push_back(both.request(i, histories[i], kDepth, proposed[i]));
  }
  EXPECT_NE(expected[0], expected[1]);
  engine::make_mtp_drafter(both.runner())->propose(requests);
  EXPECT_EQ(proposed, expected);
}

TEST_F(MtpModule, TheModuleMayBeInASeparateFile) {
  const auto own = gguf::Reader::open(make_own_file(file_, folder_ / "own.gguf")).value();
  EXPECT_TRUE(model::is_mtp_file(own));
  EXPECT_FALSE(model::is_mtp_file(file_));
  Session joint(file_, true), separate(file_, true, &own);
  ASSERT_TRUE(separate.runner().has_mtp());
  joint.step(tokens(0, kPrompt), 0);
  separate.step(tokens(0, kPrompt), 0);
  for (int32_t i = 0; i < 3; ++i) {
    const TokenId token = tokens_[static_cast<size_t>(kPrompt + i)];
    const std::vector<float> expected = joint.mtp_step(token, kPrompt + i);
    EXPECT_LE(nmse(separate.mtp_step(token, kPrompt + i), Vector(expected.begin(), expected.end())), kNmseMax);
  }
}

TEST_F(MtpModule, ErrorsNameMissingAndUnusableTensors) {
  const auto backend = kernels::make_cpu_backend({.threads = 1, .isa = ""}).value();
  model::ModelOptions options;
  options.load_mtp = true;
  const auto error_of = [&](const gguf::Reader& model) {
    const auto loaded = model::load_model(model, *backend, options);
    return loaded.has_value() ? std::string("loaded") : loaded.error().text();
  };
  // A file with a single tensor, of the wrong shape.
  gguf::Writer writer = gguf::Writer::create(folder_ / "poor.gguf").value();
  writer.set("general.architecture", "deepseek4_mtp_support");
  write_tensors(writer, {{"mtp.0.enorm.weight", TensorType::kF32, {8}, std::vector<std::byte>(32)}});
  const auto poor = gguf::Reader::open(folder_ / "poor.gguf").value();
  options.mtp_file = &poor;
  EXPECT_NE(error_of(file_).find("tensor mtp.0.enorm.weight has shape [8], but the metadata asks for [256]; the model "
                                 "loads without its MTP module: leave out --draft"),
            std::string::npos)
      << error_of(file_);
  // The module's router has a bias, although the layers of models may lack it.
  make_own_file(file_, folder_ / "own.gguf");
  const auto whole = gguf::Reader::open(folder_ / "own.gguf").value();
  const auto without = [&](const gguf::Reader& from, std::string_view name, const std::string& to) {
    return gguf::Reader::open(make_without(from, name, folder_ / to)).value();
  };
  const auto unbiased = without(whole, "mtp.0.exp_probs_b.bias", "unbiased.gguf");
  options.mtp_file = &unbiased;
  EXPECT_NE(error_of(file_).find("tensor mtp.0.exp_probs_b.bias is missing"), std::string::npos) << error_of(file_);
  options.mtp_file = &poor;
  const auto llama = gguf::Reader::open(test_data("/models/llama.gguf")).value();
  EXPECT_NE(error_of(llama).find("the model's architecture is \"llama\""), std::string::npos) << error_of(llama);
  // Requested but missing: the model loads without it.
  options.mtp_file = nullptr;
  const auto v4 = gguf::Reader::open(test_data("/models/deepseek4.gguf")).value();
  const auto loaded = model::load_model(v4, *backend, options);
  ASSERT_TRUE(loaded.has_value()) << loaded.error().text();
  EXPECT_FALSE((*loaded)->has_mtp());
  // Incomplete: the model loads without it if it is not requested.
  const auto partly = without(file_, "blk.4.nextn.hnorm.weight", "partly.gguf");
  EXPECT_NE(error_of(partly).find("tensor blk.4.nextn.hnorm.weight of shape [256] is missing; the model loads without "
                                  "its MTP module: leave out --speculate"),
            std::string::npos)
      << error_of(partly);
  options.load_mtp = false;
  EXPECT_EQ(error_of(partly), "loaded");
}

TEST_F(MtpModule, TensorsAfterTheLastBlockCauseAWarning) {
  const auto backend = kernels::make_cpu_backend({.threads = 1, .isa = ""}).value();
  const auto warnings_of = [&](const gguf::Reader& model) {
    testing::internal::CaptureStderr();
    EXPECT_TRUE(model::load_model(model, *backend, {}).has_value());
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(warnings_of(file_).find("not used"), std::string::npos);
  std::vector<NewTensor> tensors;
  for (const gguf::Tensor& tensor : file_.tensors()) tensors.push_back(copy_of(tensor));
  tensors.push_back({"blk.5.attn_norm.weight", TensorType::kF32, {8}, std::vector<std::byte>(32)});
  const auto more = gguf::Reader::open(make_model_of(file_, tensors, folder_ / "more.gguf")).value();
  EXPECT_NE(warnings_of(more).find("1 tensors of the file are not used: blk.5.attn_norm.weight"), std::string::npos);
}

}  // namespace
}  // namespace cairn::mtp
