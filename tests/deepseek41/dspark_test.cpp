// DSpark, the drafting head of DeepSeek V4.1: what it drafts, from files of every kind, and that the model does not
// notice.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "deepseek41/model_file.h"
#include "deepseek41/reference.h"
#include "engine/speculation/drafter.h"
#include "golden_model.h"

namespace cairn::deepseek41 {
namespace {

constexpr int32_t kWindowTokens = 8;  // of the files

struct Drafted {
  std::vector<float> logits;
  TokenId token{};
  float confidence = 0;
};

/// A model with its head, and sequences that run through it.
class Session {
 public:
  explicit Session(const std::string& isa, const ModelFile& file, const ModelFile* head = nullptr, bool load = true,
                   bool rounding = false)
      : file_(gguf::Reader::open(file.path()).value()),
        backend_(kernels::make_cpu_backend({.threads = 2, .isa = isa}).value()) {
    if (head != nullptr) head_ = std::make_unique<gguf::Reader>(gguf::Reader::open(head->path()).value());
    auto runner = model::load_model(file_, *backend_,
                                    {.context_tokens = kContextTokens,
                                     .batch_tokens_max = 128,
                                     .logits_max = 64,
                                     .simulate_rounding = rounding,
                                     .load_mtp = load,
                                     .mtp_file = head_.get()});
    EXPECT_TRUE(runner.has_value()) << runner.error().text();
    runner_ = std::move(*runner);
    const std::vector<int32_t> pages(runner_->kv_layout().groups.size(), 64);
    pool_ = cache::PagePool::create(*backend_, runner_->kv_layout(), pages).value();
  }

  model::Runner& runner() { return *runner_; }
  const gguf::Reader& file() const { return file_; }
  const cache::PagePool& pool() const { return pool_; }
  cache::PageTable& table(size_t sequence) { return tables_[sequence]; }

  std::vector<float> step(std::span<const TokenId> tokens, int32_t position, size_t sequence = 0) {
    const auto rows = static_cast<int32_t>(tokens.size());
    EXPECT_TRUE(pool_.extend(tables_[sequence], position + rows + kBlock));
    const model::BatchSlice slice{
        SequenceId{static_cast<int32_t>(sequence)}, 0, rows, position, &tables_[sequence], model::LogitsWanted::kAll};
    const auto logits = runner_->step({tokens, std::span(&slice, 1), &pool_});
    EXPECT_TRUE(logits.has_value()) << logits.error().text();
    // As the engine does: pages that no later row reads are others' then.
    pool_.release_behind(tables_[sequence], position + rows);
    return {logits->values.begin(), logits->values.end()};
  }

  /// A block behind `last`, which is at `position`.
  std::vector<Drafted> drafts(TokenId last, int32_t position, size_t sequence = 0) {
    std::vector<Drafted> all;
    for (int32_t ahead = 0; ahead < kBlock; ++ahead) {
      const model::BatchSlice slice{.sequence = SequenceId{static_cast<int32_t>(sequence)},
                                    .rows = 1,
                                    .position_begin = position + ahead,
                                    .pages = &tables_[sequence],
                                    .drafts_before = ahead};
      const auto view = runner_->mtp_step({std::span(&last, 1), std::span(&slice, 1), &pool_});
      EXPECT_TRUE(view.has_value()) << view.error().text();
      Drafted& each = all.emplace_back();
      each.logits.assign(view->values.begin(), view->values.end());
      each.confidence = view->confidence[0];
      each.token = last = cairn::largest(each.logits);
    }
    return all;
  }

 private:
  gguf::Reader file_;
  std::unique_ptr<gguf::Reader> head_;
  std::unique_ptr<kernels::Backend> backend_;
  std::unique_ptr<model::Runner> runner_;
  cache::PagePool pool_;
  std::array<cache::PageTable, 2> tables_;
};

void expect_same(const std::vector<Drafted>& actual, const std::vector<Drafted>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    expect_same_bytes(actual[i].logits, expected[i].logits, "draft " + std::to_string(i));
    EXPECT_EQ(actual[i].confidence, expected[i].confidence) << i;
  }
}

/// What loading a model with a head says.
std::string error_with_head(const FileOptions& model, const FileOptions* head) {
  const ModelFile made(model);
  const auto file = gguf::Reader::open(made.path());
  const auto backend = kernels::make_cpu_backend({.threads = 1, .isa = ""});
  model::ModelOptions options{.context_tokens = kContextTokens, .load_mtp = true};
  std::unique_ptr<ModelFile> head_made;
  std::unique_ptr<gguf::Reader> head_file;
  if (head != nullptr) {
    head_made = std::make_unique<ModelFile>(*head);
    head_file = std::make_unique<gguf::Reader>(gguf::Reader::open(head_made->path()).value());
    options.mtp_file = head_file.get();
  }
  const auto runner = model::load_model(*file, **backend, options);
  return runner.has_value() ? "it loaded" : runner.error().text();
}

class DsparkOnIsas : public testing::TestWithParam<std::string> {};

// At the text's second token, before and behind the window's end, at a page's last row and its first, and later.
TEST_P(DsparkOnIsas, DraftsAreThoseOfTheFormulas) {
  const ModelFile made({.head = Head::kBeside});
  for (const bool rounding : {false, true}) {
    Session session(GetParam(), made, nullptr, true, rounding);
    ASSERT_TRUE(session.runner().has_mtp());
    ASSERT_EQ(session.runner().draft_block(), kBlock);
    Reference reference(session.file(), rounding);
    const std::vector<TokenId> tokens = text_of(rounding ? 3 : 41);
    int compared = 0;
    for (int32_t length = 1; length < std::ssize(tokens); ++length) {
      const TokenId last = tokens[length];
      reference.next(tokens[length - 1]);
      session.step(std::span(&tokens[length - 1], 1), length - 1);
      const bool edge = length <= 2 || length == kWindowTokens - 1 || length == kWindowTokens || length == 9 ||
                        length == 31 || length == 32 || length == 39;
      if (!edge) continue;
      ++compared;
      const std::vector<Drafted> drafts = session.drafts(last, length);
      const std::vector<Reference::Draft> expected = reference.drafts(last);
      ASSERT_EQ(expected.size(), drafts.size());
      for (size_t i = 0; i < drafts.size(); ++i) {
        SCOPED_TRACE(testing::Message() << "draft " << i << " behind " << length << " tokens, rounding " << rounding);
        EXPECT_LE(nmse(drafts[i].logits, expected[i].logits), kNmseMost);
        ASSERT_EQ(drafts[i].token, expected[i].token);
        EXPECT_NEAR(drafts[i].confidence, expected[i].confidence, 1e-4);
      }
    }
    EXPECT_EQ(compared, rounding ? 2 : 8);
  }
}

// What a draft leaves behind is written over: the model's logits and later drafts are those of a text without drafts.
// At the end the window's first row is the last one of its page.
TEST_P(DsparkOnIsas, DraftsLeaveNothing) {
  const ModelFile made({.head = Head::kBeside}), bare;
  constexpr int32_t kLength = kWindowTokens + kernels::kPageTokens - 1;
  const std::vector<TokenId> tokens = text_of(kLength + 1);
  Session drafting(GetParam(), made, nullptr, true, true), whole(GetParam(), made, nullptr, true, true);
  Session without(GetParam(), bare, nullptr, false, true);
  std::vector<float> logits;
  std::vector<Drafted> drafts;
  for (int32_t at = 0; at < kLength; ++at) {
    const std::vector<float> row = drafting.step(std::span(&tokens[at], 1), at);
    logits.insert(logits.end(), row.begin(), row.end());
    drafts = drafting.drafts(tokens[at + 1], at + 1);
  }
  expect_same_bytes(logits, whole.step(std::span(tokens).first(kLength), 0), "as a whole");
  expect_same_bytes(logits, without.step(std::span(tokens).first(kLength), 0), "without a head");
  expect_same(drafts, whole.drafts(tokens.back(), kLength));
}

INSTANTIATE_TEST_SUITE_P(Isas, DsparkOnIsas, testing::ValuesIn(isas()),
                         [](const auto& isa) { return test_name(isa.param); });

TEST(Dspark, HeadsOfAllKindsOfFilesDraftTheSame) {
  const ModelFile bare, beside({.head = Head::kBeside}), alone({.head = Head::kAlone}), dflash({.head = Head::kDflash});
  EXPECT_TRUE(model::is_mtp_file(gguf::Reader::open(alone.path()).value()));
  EXPECT_TRUE(model::is_mtp_file(gguf::Reader::open(dflash.path()).value()));
  EXPECT_FALSE(model::is_mtp_file(gguf::Reader::open(beside.path()).value()));
  const std::string by_itself = error_with_head({.head = Head::kAlone}, nullptr);
  EXPECT_NE(by_itself.find("no model by itself"), std::string::npos) << by_itself;
  const std::vector<TokenId> tokens = text_of(20);
  const auto draft = [&](const ModelFile& file, const ModelFile* head) {
    Session session("generic", file, head);
    session.step(std::span(tokens).first(19), 0);
    return session.drafts(tokens[19], 19);
  };
  const std::vector<Drafted> expected = draft(beside, nullptr);
  expect_same(draft(bare, &alone), expected);
  expect_same(draft(bare, &dflash), expected);
  // The file that is given counts.
  expect_same(draft(beside, &alone), expected);
}

// llama.cpp's converter names the layer behind each one that is read, as in V4, whose head reads what layers leave.
TEST(Dspark, TargetsOfTheFieldsConverterAreThoseOfTheModel) {
  const ModelFile bare, dflash({.head = Head::kDflash});
  const ModelFile later({.head = Head::kDflash, .keys = [](gguf::Writer& writer) {
                           set_integers(writer, "dflash.target_layers", gguf::ValueType::kU32, {6, 7, 8});
                         }});
  const std::vector<TokenId> tokens = text_of(12);
  std::vector<std::vector<Drafted>> drafts;
  for (const ModelFile* head : {&dflash, &later}) {
    Session session("generic", bare, head);
    session.step(std::span(tokens).first(11), 0);
    drafts.push_back(session.drafts(tokens[11], 11));
  }
  expect_same(drafts[1], drafts[0]);
}

// Each as many as it asks for, of two sequences in one call, and no more than a block.
TEST(Dspark, ADrafterProposesBlocksOfSeveralSequences) {
  const ModelFile made({.head = Head::kBeside});
  Session session("", made);
  const auto drafter = engine::make_mtp_drafter(session.runner());
  EXPECT_EQ(drafter->rows_written(1), kBlock);
  EXPECT_EQ(drafter->rows_written(9), kBlock);
  const std::vector<TokenId> first = text_of(20), second = text_of(13, 99);
  session.step(std::span(first).first(19), 0, 0);
  session.step(std::span(second).first(12), 0, 1);
  std::vector<TokenId> expected[2];
  for (const Drafted& each : session.drafts(first[19], 19, 0)) expected[0].push_back(each.token);
  for (const Drafted& each : session.drafts(second[12], 12, 1)) expected[1].push_back(each.token);
  std::vector<TokenId> proposed[2];
  const auto request = [&](size_t i, std::span<const TokenId> tokens, int32_t most, double least) {
    return engine::DraftRequest{.sequence = SequenceId{static_cast<int32_t>(i)},
                                .tokens = tokens,
                                .tokens_max = most,
                                .proposed = &proposed[i],
                                .pages = &session.table(i),
                                .pool = &session.pool(),
                                .probability_min = least};
  };
  const engine::DraftRequest both[] = {request(0, first, 2, 0), request(1, second, 9, 0)};
  drafter->propose(both);
  EXPECT_EQ(proposed[0], std::vector(expected[0].begin(), expected[0].begin() + 2));
  EXPECT_EQ(proposed[1], expected[1]);

  // A draft that is hardly right ends the proposal; the first is always made.
  proposed[0].clear();
  proposed[1].clear();
  const engine::DraftRequest unlikely[] = {request(0, first, 4, 1.1), request(1, second, 4, 0)};
  drafter->propose(unlikely);
  EXPECT_EQ(proposed[0], std::vector(expected[0].begin(), expected[0].begin() + 1));
  EXPECT_EQ(proposed[1], expected[1]);
}

TEST(Dspark, MissingAndMisshapenTensorsOfAHeadAreNamed) {
  for (const char* name :
       {"mtp.0.main_proj.weight", "mtp.0.main_norm.weight", "mtp.1.norm.weight", "mtp.1.markov_head.markov_w1.weight",
        "mtp.1.markov_head.markov_w2.weight", "mtp.0.attn_q_a.weight", "mtp.1.attn_kv.weight", "mtp.1.exp_probs_b.bias",
        "mtp.0.ffn_gate_inp.weight", "mtp.1.ffn_down_exps.weight"}) {
    const FileOptions missing{.left_out = name, .head = Head::kAlone};
    const std::string said = error_with_head({}, &missing);
    EXPECT_NE(said.find(name), std::string::npos) << said;
    EXPECT_NE(said.find("leave out --draft"), std::string::npos) << said;
    const FileOptions misshapen{.misshapen = name, .head = Head::kAlone};
    const std::string shape = error_with_head({}, &misshapen);
    EXPECT_NE(shape.find("mtp."), std::string::npos) << shape;
    const std::string beside = error_with_head({.misshapen = name, .head = Head::kBeside}, nullptr);
    EXPECT_NE(beside.find("leave out --speculate"), std::string::npos) << beside;
  }
  const FileOptions confidence{.left_out = "mtp.1.confidence_head.proj.weight", .head = Head::kAlone};
  EXPECT_EQ(error_with_head({}, &confidence), "it loaded") << "a head need not judge its drafts";
}

TEST(Dspark, KeysOfAHeadOutOfRangeAreNamed) {
  const auto expect = [](Head head, const std::string& key, const std::string& said,
                         const std::function<void(gguf::Writer&, const std::string&)>& set) {
    const FileOptions options{.head = head, .keys = [&](gguf::Writer& writer) { set(writer, key); }};
    const std::string error = error_with_head({}, &options);
    EXPECT_NE(error.find(key), std::string::npos) << error;
    EXPECT_NE(error.find(said), std::string::npos) << error;
  };
  const auto integer = [](int64_t value) {
    return [value](gguf::Writer& writer, const std::string& key) {
      writer.set_integer(key, gguf::ValueType::kU32, value);
    };
  };
  const auto integers = [](std::vector<uint64_t> values) {
    return [values](gguf::Writer& writer, const std::string& key) {
      set_integers(writer, key, gguf::ValueType::kU32, values);
    };
  };
  expect(Head::kAlone, "deepseek41.dspark.block_size", "33", integer(33));
  expect(Head::kAlone, "deepseek41.dspark.noise_token_id", "96", integer(96));
  expect(Head::kAlone, "deepseek41.dspark.target_layer_ids", "layer 8", integers({5, 6, 8}));
  expect(Head::kAlone, "deepseek41.dspark.target_layer_ids", "0 layers", integers({}));
  expect(Head::kAlone, "deepseek41.dspark.num_experts_per_tok", "7", integer(7));
  expect(Head::kDflash, "dflash.target_layers", "layer 9", integers({6, 7, 9}));
  expect(Head::kDflash, "dflash.target_layers", "0 and 8", integers({0, 7, 8}));
  expect(Head::kDflash, "tokenizer.ggml.mask_token_id", "96", integer(96));
  expect(Head::kDflash, "dflash.sample_from_anchor", "false", [](gguf::Writer& writer, const std::string& key) {
    writer.set(key, gguf::Value{gguf::ValueType::kBool, false});
  });
  // A head of another model, which has other experts.
  const FileOptions v4{.head = Head::kAlone,
                       .keys = [](gguf::Writer& writer) { writer.set("general.architecture", "deepseek4-dspark"); }};
  const std::string other = error_with_head({}, &v4);
  EXPECT_NE(other.find("of DeepSeek V4, but the model is V4.1"), std::string::npos) << other;
  const FileOptions mtp{.left_out = "mtp.0.main_proj.weight", .head = Head::kAlone, .keys = [](gguf::Writer& writer) {
                          writer.set("general.architecture", "deepseek4_mtp_support");
                        }};
  const std::string module = error_with_head({}, &mtp);
  EXPECT_NE(module.find("MTP module of DeepSeek V4"), std::string::npos) << module;
}

TEST(Dspark, WithoutDraftsAHeadBesideTheModelTakesNoMemory) {
  const ModelFile bare, beside({.head = Head::kBeside});
  const auto backend = kernels::make_cpu_backend({.threads = 1, .isa = ""}).value();
  const auto memory = [&](const ModelFile& made, bool load) {
    const auto file = gguf::Reader::open(made.path()).value();
    return model::model_memory(file, *backend, {.context_tokens = kContextTokens, .load_mtp = load}).value().stages[0];
  };
  EXPECT_EQ(memory(beside, false).weight_bytes, memory(bare, false).weight_bytes);
  EXPECT_GT(memory(beside, true).weight_bytes, memory(bare, true).weight_bytes);
  EXPECT_GT(memory(beside, true).scratch_bytes, memory(bare, true).scratch_bytes);
}

}  // namespace
}  // namespace cairn::deepseek41
