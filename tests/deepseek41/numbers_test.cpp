#include <gtest/gtest.h>

#include <optional>

#include "deepseek41/model_file.h"
#include "deepseek41/reference.h"
#include "golden_model.h"

namespace cairn::deepseek41 {
namespace {

/// NMSE of each position's logits.
std::vector<double> errors_of(Model& model, std::span<const TokenId> tokens, bool rounding) {
  Reference reference(model.file(), rounding);
  const std::vector<float> logits = logits_of(model, tokens, kRowsMax);
  const int64_t vocabulary = model.runner().vocabulary();
  std::vector<double> errors;
  for (size_t i = 0; i < tokens.size(); ++i) {
    errors.push_back(nmse(std::span(logits).subspan(i * vocabulary, vocabulary), reference.next(tokens[i])));
  }
  return errors;
}

Model loaded(const ModelFile& file, const std::string& isa, int threads, bool rounding = false,
             kernels::KvType type = kernels::KvType::kF32) {
  return Model(file.path().string(), kContextTokens, isa, threads, type, rounding);
}

/// What loading says of the file.
std::string error_of(const FileOptions& options, bool load_mtp = false) {
  const ModelFile made(options);
  const auto file = gguf::Reader::open(made.path());
  const auto backend = kernels::make_cpu_backend({.threads = 1, .isa = ""});
  const auto runner = model::load_model(*file, **backend, {.context_tokens = kContextTokens, .load_mtp = load_mtp});
  return runner.has_value() ? "it loaded" : runner.error().text();
}

class Deepseek41OnIsas : public testing::TestWithParam<std::string> {};

TEST_P(Deepseek41OnIsas, LogitsAreThoseOfTheFormulas) {
  const ModelFile file;
  Model model = loaded(file, GetParam(), 1);
  const std::vector<double> errors = errors_of(model, text_of(60), false);
  const double worst = *std::ranges::max_element(errors);
  RecordProperty("worst_nmse", std::to_string(worst * 1e12) + "e-12");
  EXPECT_LE(worst, kNmseMost);
}

TEST_P(Deepseek41OnIsas, TablesOfE4m3GiveTheFormulasLogitsToo) {
  const ModelFile file({.fp8_tables = true});
  Model model = loaded(file, GetParam(), 1);
  const std::vector<double> errors = errors_of(model, text_of(30), false);
  EXPECT_LE(*std::ranges::max_element(errors), kNmseMost);
}

// A number near the middle between two that a format has may be rounded to either, so that later rows differ more: the
// first ones do not.
TEST_P(Deepseek41OnIsas, RoundedRowsGiveTheFormulasLogits) {
  const ModelFile file;
  Model model = loaded(file, GetParam(), 1, true);
  const std::vector<double> errors = errors_of(model, text_of(40), true);
  std::vector<double> sorted = errors;
  std::ranges::sort(sorted);
  EXPECT_LE(errors.front(), kNmseMost);
  EXPECT_LE(sorted[sorted.size() / 2], 1e-5);
  Model exact = loaded(file, GetParam(), 1, false);
  const std::vector<double> without = errors_of(exact, text_of(40), true);
  EXPECT_GT(*std::ranges::max_element(without), 1e-4) << "rounding changes nothing";
}

TEST_P(Deepseek41OnIsas, EveryDivisionIntoStepsGivesTheSameBytes) {
  const ModelFile file({.fp8_tables = true});
  const std::vector<TokenId> tokens = text_of(75);
  for (const bool rounding : {false, true}) {
    Model model = loaded(file, GetParam(), 1, rounding);
    const std::vector<float> whole = logits_of(model, tokens, kRowsMax);
    expect_same_bytes(whole, logits_of(model, tokens, 5), "in chunks of 5");
    expect_same_bytes(whole, logits_of(model, tokens, 1), "token by token");
    expect_same_bytes(whole, logits_among_others(model, tokens), "among others");
    Model two = loaded(file, GetParam(), 2, rounding);
    expect_same_bytes(whole, logits_of(two, tokens, 7), "two threads");
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, Deepseek41OnIsas, testing::ValuesIn(isas()),
                         [](const auto& isa) { return test_name(isa.param); });

TEST(Deepseek41, RowsAreRoundedToTheNearestNumberOfTheirFormat) {
  const auto backend = kernels::make_cpu_backend({.threads = 2, .isa = ""});
  constexpr int32_t kDims = 96;
  constexpr int64_t kRows = 40;
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0, 1);
  for (const kernels::SimulatedRounding rounding :
       {kernels::SimulatedRounding::kFp8Blocks32, kernels::SimulatedRounding::kFp4Blocks32,
        kernels::SimulatedRounding::kFp4Blocks16}) {
    std::vector<float> x(kRows * kDims);
    // Rows from the tiniest to large ones, one of zeros, and one of numbers in the middle between two.
    for (size_t i = 0; i < x.size(); ++i) {
      const auto row = static_cast<int>(i / kDims);
      x[i] = std::ldexp(normal(random), row - 30);
      if (row == 5) x[i] = 0;
      if (row == 6) x[i] = 0.25F * static_cast<float>(i % 25);
    }
    std::vector<float> ours = x;
    (*backend)->deepseek41()->round_rows(rounding, ours.data(), kRows, kDims);
    for (int64_t row = 0; row < kRows; ++row) {
      const Vector exact(x.begin() + row * kDims, x.begin() + (row + 1) * kDims);
      const Vector expected = rounded(exact, rounding);
      for (int32_t i = 0; i < kDims; ++i) {
        ASSERT_EQ(ours[row * kDims + i], static_cast<float>(expected[i]))
            << static_cast<int>(rounding) << " row " << row << " " << exact[i];
      }
    }
  }
}

TEST(Deepseek41, DraftsThatAreTakenBackLeaveNothing) {
  const ModelFile file;
  const std::vector<TokenId> tokens = text_of(40), drafts = text_of(6, 99);
  Model model = loaded(file, "generic", 1);
  const std::vector<float> whole = logits_of(model, tokens, kRowsMax);
  constexpr int32_t kBegin = 21;  // amid a pair
  cache::PageTable pages;
  ASSERT_TRUE(model.pool().extend(pages, kContextTokens));
  const auto step = [&](std::span<const TokenId> rows, int32_t position) {
    const model::BatchSlice slice{SequenceId{}, 0,      static_cast<int32_t>(rows.size()),
                                  position,     &pages, model::LogitsWanted::kAll};
    const auto view = model.runner().step({rows, std::span(&slice, 1), &model.pool()});
    return std::vector<float>(view->values.begin(), view->values.end());
  };
  step(std::span(tokens).first(kBegin), 0);
  step(drafts, kBegin);
  const std::vector<float> rest = step(std::span(tokens).subspan(kBegin), kBegin);
  expect_same_bytes(std::span(whole).last(rest.size()), rest, "after drafts");
  model.pool().release(pages);
}

TEST(Deepseek41, BothKindsOfNamesAndTheFirstFilesArchitectureGiveTheSameBytes) {
  const std::vector<TokenId> tokens = text_of(30);
  const ModelFile file, config({.config_names = true}), first({.architecture = "deepseek4"});
  Model model = loaded(file, "generic", 1), as_config = loaded(config, "generic", 1), old = loaded(first, "generic", 1);
  const std::vector<float> logits = logits_of(model, tokens, kRowsMax);
  expect_same_bytes(logits, logits_of(as_config, tokens, kRowsMax), "names of config.json");
  expect_same_bytes(logits, logits_of(old, tokens, kRowsMax), "deepseek4");
}

// What the streams are read by next goes from one device to the other, and each has the engrams of its layers.
TEST(Deepseek41, LogitsOnTwoDevicesAreThoseOfOne) {
  const ModelFile made({.fp8_tables = true});
  const auto file = gguf::Reader::open(made.path()).value();
  const std::vector<TokenId> tokens = text_of(60);
  const auto first = kernels::make_cpu_backend({.threads = 1, .isa = ""}).value();
  const auto last = kernels::make_cpu_backend({.threads = 1, .isa = ""}).value();
  Model whole = loaded(made, "", 1);
  const std::vector<float> expected = logits_of(whole, tokens, kRowsMax);
  const auto layers = static_cast<int32_t>(file.metadata().integer("deepseek41.block_count").value());
  int32_t split = 0;
  int32_t refused = 0;
  for (int32_t count = 1; count < layers; ++count) {
    const model::PipelineStage stages[] = {{.backend = first.get(), .layers = count}, {.backend = last.get()}};
    const auto runner = model::load_model(file, stages,
                                          {.context_tokens = kContextTokens,
                                           .kv_type = kernels::KvType::kF32,
                                           .batch_tokens_max = kRowsMax,
                                           .logits_max = kRowsMax,
                                           .simulate_rounding = false});
    if (!runner.has_value()) {
      EXPECT_NE(runner.error().text().find("reads the compressed rows of layer"), std::string::npos)
          << runner.error().text();
      ++refused;
      continue;
    }
    ++split;
    kernels::DeviceMemory* const devices[] = {first.get(), last.get()};
    const std::vector<int32_t> counts((*runner)->kv_layout().groups.size(), 4);
    cache::PagePool pool = cache::PagePool::create(devices, (*runner)->kv_layout(), counts).value();
    cache::PageTable pages;
    ASSERT_TRUE(pool.extend(pages, static_cast<int32_t>(tokens.size())));
    std::vector<float> logits;
    for (int32_t at = 0; at < std::ssize(tokens);) {
      const int32_t rows = at < 40 ? 8 : 1;
      const model::BatchSlice slice{SequenceId{}, 0, rows, at, &pages, model::LogitsWanted::kAll};
      const auto view = (*runner)->step({std::span(tokens).subspan(at, rows), std::span(&slice, 1), &pool});
      ASSERT_TRUE(view.has_value()) << view.error().text();
      logits.insert(logits.end(), view->values.begin(), view->values.end());
      at += rows;
    }
    expect_same_bytes(expected, logits, fmt::format("{} layers first", count));
  }
  EXPECT_GT(split, 0);
  EXPECT_GT(refused, 0);
}

TEST(Deepseek41, CandidatesAndEngramsChangeLaterLogits) {
  const std::vector<TokenId> tokens = text_of(40);
  const auto key = [](const std::string& name, int64_t value) {
    return FileOptions{
        .keys = [=](gguf::Writer& writer) { writer.set_integer("deepseek41." + name, gguf::ValueType::kU32, value); }};
  };
  const ModelFile file, all_blocks(key("attention.indexer.candidate_blocks", 100)), pad(key("engram.pad_id", 3));
  Model model = loaded(file, "generic", 1), free = loaded(all_blocks, "generic", 1), padded = loaded(pad, "generic", 1);
  const std::vector<float> logits = logits_of(model, tokens, kRowsMax);
  const std::vector<float> unbounded = logits_of(free, tokens, kRowsMax);
  const int64_t vocabulary = model.runner().vocabulary();
  // Six rows are candidates at most.
  const auto early = std::span(logits).first(6 * vocabulary);
  expect_same_bytes(early, std::span(unbounded).first(early.size()), "while all blocks are candidates");
  EXPECT_GT(nmse(logits, unbounded), 1e-4);
  const std::vector<float> other_start = logits_of(padded, tokens, kRowsMax);
  EXPECT_GT(nmse(std::span(logits).first(vocabulary), std::span(other_start).first(vocabulary)), 1e-4);
}

TEST(Deepseek41, TablesTakeNoMemory) {
  const ModelFile made;
  const auto file = gguf::Reader::open(made.path());
  int64_t tables = 0, others = 0;
  for (const gguf::Tensor& tensor : file->tensors()) {
    (tensor.name.find("engram_embd") != std::string_view::npos ? tables : others) += std::ssize(tensor.bytes);
  }
  const auto backend = kernels::make_cpu_backend({.threads = 1, .isa = ""});
  const auto memory = model::model_memory(*file, **backend, {.context_tokens = kContextTokens});
  ASSERT_TRUE(memory.has_value());
  EXPECT_GT(tables, 100'000);
  EXPECT_LE(memory->stages[0].weight_bytes, others);
  EXPECT_EQ(memory->stages[0].file_table_bytes, tables);
}

TEST(Deepseek41, CompressedRowsAreKeptOnceForTheLayersThatShareThem) {
  const ModelFile made;
  const auto file = gguf::Reader::open(made.path());
  const auto backend = kernels::make_cpu_backend({.threads = 1, .isa = ""});
  const auto memory = model::model_memory(*file, **backend, {.context_tokens = kContextTokens});
  ASSERT_TRUE(memory.has_value());
  size_t kept = 0;
  for (const cache::KvGroup& group : memory->kv_layout.groups) {
    if (group.kind == cache::KvKind::kFull) kept += group.layers.size();
  }
  EXPECT_EQ(kept, 4) << "rows and an index, of layers 2 and 4";
}

TEST(Deepseek41, MissingAndMisshapenTensorsAreNamed) {
  for (const char* name :
       {"blk.0.hc_attn_fn.weight", "blk.2.attn_compressor_gate.weight", "blk.2.indexer.attn_k.weight",
        "blk.4.indexer.k_norm.weight", "blk.4.indexer.attn_q_b.weight", "blk.6.indexer.proj.weight",
        "blk.1.engram_embd.weight", "blk.3.engram_wkv.weight", "blk.3.engram_q.weight", "blk.7.ffn_down_exps.weight",
        "blk.5.attn_sinks.weight", "blk.6.exp_probs_b.bias"}) {
    const std::string shape = error_of({.misshapen = name});
    EXPECT_NE(shape.find(name), std::string::npos) << shape;
    const std::string missing = error_of({.left_out = name});
    const std::string_view end = std::string_view(name).substr(6);
    // Of those with two names the first is missed.
    const bool renamed = end == "engram_wkv.weight" || end == "engram_q.weight";
    EXPECT_NE(missing.find(renamed ? "blk.3.engram_" : name), std::string::npos) << missing;
  }
}

TEST(Deepseek41, KeysOutOfRangeAreNamed) {
  const auto expect = [](const std::string& key, const std::string& said,
                         const std::function<void(gguf::Writer&, const std::string&)>& set) {
    const std::string name = "deepseek41." + key;
    const std::string error = error_of({.keys = [&](gguf::Writer& writer) { set(writer, name); }});
    EXPECT_NE(error.find(name), std::string::npos) << error;
    EXPECT_NE(error.find(said), std::string::npos) << error;
  };
  const auto integers = [](std::vector<uint64_t> values) {
    return [values](gguf::Writer& writer, const std::string& key) {
      set_integers(writer, key, gguf::ValueType::kU32, values);
    };
  };
  const auto text = [](std::string value) {
    return [value](gguf::Writer& writer, const std::string& key) { writer.set(key, value); };
  };
  const auto integer = [](int64_t value) {
    return [value](gguf::Writer& writer, const std::string& key) {
      writer.set_integer(key, gguf::ValueType::kU32, value);
    };
  };
  expect("attention.compress_ratios", "4 for layer 2", integers({0, 0, 4, 4, 1, 1, 1, 1}));
  expect("attention.compress_ratios", "1 for layer 3", integers({0, 0, 2, 1, 1, 1, 1, 1}));
  expect("attention.compress_ratios", "3 entries", integers({0, 0, 2}));
  expect("attention.indexer.candidate_blocks", "2", integer(2));
  expect("hash_layer_count", "1", integer(1));
  expect("engram.layer_ids", "8", integers({1, 8}));
  expect("engram.layer_ids", "ascend", integers({3, 1}));
  expect("engram.layer_ids", "layer 3", [&](gguf::Writer& writer, const std::string& key) {
    integers({1})(writer, key);
    set_integers(writer, "deepseek41.engram.primes", gguf::ValueType::kU32, {101, 103, 107, 109, 113, 127});
    set_integers(writer, "deepseek41.engram.multipliers", gguf::ValueType::kU64, {3, 5, 7, 9});
  });
  expect("engram.token_map", "2 entries", integers({1, 2}));
  expect("engram.primes", "0", integers({101, 103, 107, 109, 113, 127, 131, 137, 139, 149, 151, 0}));
  expect("engram.multipliers", "3 entries", integers({1, 2, 3}));
  expect("engram.key_length", "33", integer(33));
  expect("engram.pad_id", "96", integer(96));
  expect("engram.encoding", "lloyd4_e5m3_32_r136", text("lloyd4_e5m3_32_r136"));
  expect("engram.external_paths", "files of their own", text("tables.bin"));
}

}  // namespace
}  // namespace cairn::deepseek41
