// `cairn grammar`: which texts and tokens a schema, an expression or a grammar allows, line by line for programs.
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text/text_file.h"
#include "commands.h"
#include "gguf/reader.h"
#include "grammar/json_schema/keyword_table.h"
#include "grammar/masks/token_mask.h"
#include "grammar/matcher.h"
#include "grammar_check/grammar_line.h"
#include "grammar_check/json_line.h"
#include "grammar_check/token_cut.h"
#include "help/help_format.h"
#include "model_argument.h"
#include "output.h"
#include "sampling/random.h"
#include "tokenizer/tokenizer.h"

namespace cairn {

namespace {

using grammar::Grammar;
using grammar::Matcher;
using nlohmann::ordered_json;

constexpr uint64_t kSamplesMax = 10'000;          ///< of one line
constexpr uint64_t kSampleTokensMax = 1'000'000;  ///< of one sample
/// How much likelier than others tokens are that end something, so that samples do.
constexpr uint64_t kEndingWeight = 64;

struct GrammarFlags {
  std::string model;
  bool jsonl = false;
  bool standard = false;
};

/// What answers need of a model: its vocabulary.
struct Vocabulary {
  explicit Vocabulary(std::unique_ptr<tokenizer::Tokenizer> made)
      : tokenizer(std::move(made)), masks(*tokenizer), cutter(*tokenizer) {
    for (int32_t i = 0; i < tokenizer->size(); ++i) {
      const TokenId token{i};
      const bool ends = tokenizer->ends_generation(token) ||
                        tokenizer->piece(token, false).find_first_of("\"}],") != std::string_view::npos;
      weights.push_back(ends ? kEndingWeight : 1);
    }
  }

  std::unique_ptr<tokenizer::Tokenizer> tokenizer;
  grammar::TokenMasks masks;
  TokenCutter cutter;
  std::vector<uint64_t> weights;  // of tokens in samples
};

bool has_bit(std::span<const uint64_t> mask, TokenId token) {
  const auto i = static_cast<size_t>(index(token));
  return (mask[i / 64] >> (i % 64) & 1) != 0;
}

template <class Visit>
void for_each_bit(std::span<const uint64_t> mask, Visit visit) {
  for (size_t i = 0; i < mask.size(); ++i)
    for (uint64_t word = mask[i]; word != 0; word &= word - 1)
      visit(TokenId{static_cast<int32_t>(i * 64 + static_cast<size_t>(std::countr_zero(word)))});
}

/// Processor time of this thread, in microseconds.
double processor_time() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

// ---- check ----

/// What was learnt of one instance.
struct Verdict {
  bool accepted = false;
  std::optional<size_t> stuck_at{};
};

Verdict check_bytes(Matcher& matcher, std::string_view text) {
  const size_t taken = matcher.push(text);
  if (taken < text.size()) return {false, taken};
  return {matcher.may_end(), {}};
}

// Times and forced tokens of the masks of a line.
struct MaskCounts {
  std::vector<double> microseconds;
  uint64_t forced = 0;
};

// Whether the grammar allows nothing but the bytes of the token.
bool is_forced(Matcher& matcher, std::string_view bytes) {
  const size_t begin = matcher.position();
  const bool forced = std::ranges::all_of(bytes, [&](char byte) {
    const auto value = static_cast<uint8_t>(byte);
    return matcher.forced() == value && matcher.push(value);
  });
  matcher.rewind(begin);
  return forced;
}

Verdict check_tokens(const Vocabulary& vocabulary, Matcher& matcher, std::span<const TokenId> tokens,
                     MaskCounts& counts) {
  std::vector<uint64_t> mask(vocabulary.masks.words());
  for (const TokenId token : tokens) {
    const std::string_view bytes = vocabulary.tokenizer->piece(token, false);
    const bool forced = is_forced(matcher, bytes);
    const double begin = processor_time();
    vocabulary.masks.compute(matcher, mask);
    const bool allowed = has_bit(mask, token) && vocabulary.masks.push(matcher, token);
    counts.microseconds.push_back(std::round((processor_time() - begin) * 10) / 10);
    if (!allowed) return {false, matcher.position() + matcher.push(bytes)};
    counts.forced += forced;
  }
  vocabulary.masks.compute(matcher, mask);
  bool may_end = false;
  for_each_bit(mask, [&](TokenId token) { may_end = may_end || vocabulary.masks.ends_generation(token); });
  return {may_end, {}};
}

Result<ordered_json> check_instances(const std::shared_ptr<const Grammar>& made, const ordered_json& line,
                                     const Vocabulary* vocabulary) {
  CAIRN_TRY(const std::vector<std::string> instances, instances_of(line));
  CAIRN_TRY(const std::optional<TokenCut> cut, token_cut_of(line));
  if (cut && vocabulary == nullptr)
    return fail_at("tokens", Code::kInvalidArgument, "needs a model: cairn grammar check MODEL.gguf --jsonl");
  ordered_json accepted = ordered_json::array();
  ordered_json stuck_at = ordered_json::array();
  MaskCounts counts;
  for (const std::string& text : instances) {
    Matcher matcher(made);
    Verdict verdict;
    if (cut) {
      CAIRN_TRY(const std::vector<TokenId> tokens, vocabulary->cutter.cut(text, *cut));
      verdict = check_tokens(*vocabulary, matcher, tokens, counts);
    } else {
      verdict = check_bytes(matcher, text);
    }
    accepted.push_back(verdict.accepted);
    stuck_at.push_back(verdict.stuck_at ? ordered_json(*verdict.stuck_at) : ordered_json());
  }
  ordered_json out;
  out["accepted"] = std::move(accepted);
  out["stuck_at"] = std::move(stuck_at);
  if (cut) out["masks"] = {{"us", counts.microseconds}, {"forced", counts.forced}};
  return out;
}

// ---- sample ----

// A token of the mask, drawn by the weights; nullopt: the mask is empty.
std::optional<TokenId> draw(std::span<const uint64_t> mask, std::span<const uint64_t> weights, double where) {
  uint64_t sum = 0;
  for_each_bit(mask, [&](TokenId token) { sum += weights[static_cast<size_t>(index(token))]; });
  auto left = static_cast<uint64_t>(where * static_cast<double>(sum));
  std::optional<TokenId> drawn;
  for_each_bit(mask, [&](TokenId token) {
    if (drawn) return;
    const uint64_t weight = weights[static_cast<size_t>(index(token))];
    if (left < weight) drawn = token;
    left -= std::min(left, weight);
  });
  return drawn;
}

ordered_json sample(const Vocabulary& vocabulary, const std::shared_ptr<const Grammar>& made, uint64_t seed,
                    uint64_t tokens_max) {
  Matcher matcher(made);
  std::vector<uint64_t> mask(vocabulary.masks.words());
  std::string text;
  bool ended = false;
  for (uint64_t i = 0; i < tokens_max && !ended; ++i) {
    vocabulary.masks.compute(matcher, mask);
    const std::optional<TokenId> token = draw(mask, vocabulary.weights, sampling::uniform(seed, i));
    if (!token) break;
    ended = vocabulary.masks.ends_generation(*token);
    if (ended) break;
    text += vocabulary.tokenizer->piece(*token, false);
    vocabulary.masks.push(matcher, *token);
  }
  return {{"text", std::move(text)}, {"ended", ended}};
}

Result<ordered_json> sample_line(const std::shared_ptr<const Grammar>& made, const ordered_json& line,
                                 const Vocabulary* vocabulary) {
  CAIRN_TRY(const uint64_t count, count_of(line, "count", 1));
  CAIRN_TRY(const uint64_t seed, count_of(line, "seed", 0));
  CAIRN_TRY(const uint64_t tokens_max, count_of(line, "tokens_max", 400));
  if (count > kSamplesMax) return fail_at("count", Code::kTooLarge, "at most {} samples of a line", kSamplesMax);
  if (tokens_max > kSampleTokensMax)
    return fail_at("tokens_max", Code::kTooLarge, "at most {} tokens of a sample", kSampleTokensMax);
  ordered_json samples = ordered_json::array();
  for (uint64_t i = 0; i < count; ++i)
    samples.push_back(sample(*vocabulary, made, sampling::mix_bits(seed + sampling::mix_bits(i)), tokens_max));
  return ordered_json{{"samples", std::move(samples)}};
}

// ---- Lines ----

using AnswerLine = Result<ordered_json> (*)(const std::shared_ptr<const Grammar>&, const ordered_json&,
                                            const Vocabulary*);

ordered_json error_json(const Error& error, std::string_view keyword) {
  ordered_json out{{"code", code_name(error.code)}, {"at", error.at}};
  if (!keyword.empty()) out["keyword"] = keyword;
  out["message"] = error.message;
  return {{"error", std::move(out)}};
}

/// How a verb answers lines.
struct Verb {
  AnswerLine answer;
  grammar::SchemaReading reading;
  bool timed;
};

ordered_json answer_line(const ordered_json& line, const Vocabulary* vocabulary, const Verb& verb) {
  const auto begin = std::chrono::steady_clock::now();
  const auto made = compile_line(line, verb.reading);
  const auto took = std::chrono::steady_clock::now() - begin;
  if (!made) return error_json(made.error().error, made.error().keyword);
  const Result<ordered_json> rest = verb.answer(*made, line, vocabulary);
  if (!rest) return error_json(rest.error(), {});
  ordered_json out = ordered_json::object();
  if (verb.timed) out["compile_us"] = std::chrono::duration_cast<std::chrono::microseconds>(took).count();
  out.update(*rest);
  return out;
}

Result<void> answer_lines(const Vocabulary* vocabulary, const Verb& verb) {
  for (LineInput lines;;) {
    CAIRN_TRY(const auto text, lines.next());
    if (!text) return {};
    const JsonLine line = parse_line(*text);
    ordered_json out{{"id", line.value.is_object() ? line.value.value("id", ordered_json()) : ordered_json()}};
    out.update(line.valid ? answer_line(line.value, vocabulary, verb) : error_json(line.valid.error(), {}));
    CAIRN_TRY_VOID(show(out.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n"));
  }
}

Result<void> run(const GrammarFlags& flags, const Verb& verb) {
  std::optional<Vocabulary> vocabulary;
  if (!flags.model.empty()) {
    CAIRN_TRY(const std::string path, find_model_file(flags.model));
    CAIRN_TRY(const gguf::Reader reader, gguf::Reader::open(path));
    CAIRN_TRY(std::unique_ptr<tokenizer::Tokenizer> tokenizer, tokenizer::Tokenizer::load(reader.metadata()));
    vocabulary.emplace(std::move(tokenizer));
  }
  return answer_lines(vocabulary ? &*vocabulary : nullptr, verb);
}

// The table of docs/grammar.md.
void print_keywords() {
  print("| keywords | drafts | enforced |\n|---|---|---|\n");
  for (const grammar::KeywordNote& note : grammar::keyword_table()) {
    std::string names;
    for (const std::string_view name : std::views::split(note.keywords, std::string_view(", ")) |
                                           std::views::transform([](auto part) { return std::string_view(part); }))
      names += fmt::format("{}`{}`", names.empty() ? "" : ", ", name);
    print("| {} | {} | {} |\n", names, note.drafts, note.held);
  }
}

}  // namespace

void add_grammar(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand(
      "grammar", "Test what a JSON Schema, a regular expression or a grammar allows, line by line, for programs");
  set_help(*command, "cairn grammar keywords");
  const auto flags = std::make_shared<GrammarFlags>();
  const auto add = [&](const char* name, const char* what, bool needs_model, AnswerLine answer) {
    auto* verb = command->add_subcommand(name, what);
    set_help(*verb, fmt::format("cairn grammar {} qwen3:4b --jsonl < lines.jsonl", name));
    verb->add_option("MODEL", flags->model,
                     "GGUF file, which need only have a vocabulary, or a name that cairn list shows")
        ->required(needs_model);
    verb->add_flag("--jsonl", flags->jsonl, "Read and write one JSON object per line, which is the only format")
        ->required();
    verb->add_flag("--standard", flags->standard,
                   "Read schemas to the letter: objects may have other keys than their properties, unless "
                   "additionalProperties forbids it");
    verb->callback([=, &exit_code] {
      const Verb how{.answer = answer,
                     .reading = flags->standard ? grammar::SchemaReading::kStandard : grammar::SchemaReading::kDeclared,
                     .timed = !needs_model};
      if (const Result<void> done = run(*flags, how); !done) exit_code = report(done.error());
    });
  };
  auto* keywords =
      command->add_subcommand("keywords", "Print which keywords of JSON Schema are enforced, as a Markdown table");
  set_help(*keywords, "cairn grammar keywords");
  keywords->callback(print_keywords);
  add("check", "Check which texts a grammar allows, as bytes or as a model's tokens", false, check_instances);
  add("sample", "Print random texts that a grammar allows, of tokens of a model's vocabulary", true, sample_line);
}

}  // namespace cairn
