// Time of token masks over a vocabulary of the reference data: for each token of a JSON text, the mask and taking it.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/testing/test_data.h"
#include "grammar/grammar.h"
#include "grammar/masks/token_mask.h"
#include "grammar/matcher.h"
#include "tokenizer/test_support.h"

namespace cairn::grammar {
namespace {

struct Json {
  GrammarBuilder builder;
  SymbolId blank, string, number, value;

  Json() : blank{}, string{}, number{}, value{} {
    RegexPool& regexes = builder.regexes();
    blank = builder.terminal(regexes.repeat(regexes.bytes(ByteSet::of(" \n\t\r")), 0, std::nullopt));
    string = text(0, std::nullopt);
    const RegexId digits = regexes.repeat(regexes.bytes(ByteSet::range('0', '9')), 1, std::nullopt);
    const RegexId fraction[] = {regexes.literal("."), digits};
    const RegexId number_parts[] = {regexes.repeat(regexes.literal("-"), 0, 1), digits,
                                    regexes.repeat(regexes.sequence(fraction), 0, 1)};
    number = builder.terminal(regexes.sequence(number_parts));
    value = builder.rule("value");
    const SymbolId member = builder.sequence(std::array{string, blank, literal(":"), blank, value});
    builder.add(value, {string});
    builder.add(value, {number});
    for (const char* word : {"true", "false", "null"}) builder.add(value, {literal(word)});
    builder.add(value, {literal("{"), blank, builder.optional(list(member)), literal("}")});
    builder.add(value, {literal("["), blank, builder.optional(list(value)), literal("]")});
  }

  SymbolId literal(std::string_view text) { return builder.literal(text); }
  SymbolId list(SymbolId item) {
    const SymbolId more = builder.sequence(std::array{literal(","), blank, item, blank});
    return builder.sequence(std::array{item, blank, builder.repeat(more, 0, std::nullopt)});
  }
  SymbolId text(uint32_t min, std::optional<uint32_t> max) {
    RegexPool& regexes = builder.regexes();
    const RegexId plain[] = {regexes.characters(0x20, 0x21), regexes.characters(0x23, 0x5B),
                             regexes.characters(0x5D, 0x10FFFF)};
    const RegexId hex = regexes.bytes(ByteSet::of("0123456789abcdefABCDEF"));
    const RegexId code[] = {regexes.literal("u"), regexes.repeat(hex, 4, 4)};
    const RegexId escapes[] = {regexes.bytes(ByteSet::of("\"\\/bfnrt")), regexes.sequence(code)};
    const RegexId escape[] = {regexes.literal("\\"), regexes.any_of(escapes)};
    const RegexId character[] = {regexes.any_of(plain), regexes.sequence(escape)};
    const RegexId parts[] = {regexes.literal("\""), regexes.repeat(regexes.any_of(character), min, max),
                             regexes.literal("\"")};
    return builder.terminal(regexes.sequence(parts));
  }
  // {"name": text of at most 60 characters, "age": number, "tags": [text]}
  SymbolId person() {
    const auto field = [&](std::string_view key, SymbolId of) {
      return builder.sequence(
          std::array{literal("\"" + std::string(key) + "\""), blank, literal(":"), blank, of, blank});
    };
    const SymbolId tags =
        builder.sequence(std::array{literal("["), blank, builder.optional(list(string)), literal("]")});
    return builder.sequence(std::array{literal("{"), blank, field("name", text(1, 60)), literal(","), blank,
                                       field("age", number), literal(","), blank, field("tags", tags), literal("}")});
  }
};

const tokenizer::Tokenizer& vocabulary() {
  static const std::unique_ptr<tokenizer::Tokenizer> loaded = [] {
    const auto path = tokenizer::test::vocabulary_file(test_data(), "llama-bpe");
    return tokenizer::Tokenizer::load(gguf::Reader::open(path).value().metadata()).value();
  }();
  return *loaded;
}

// A new grammar and matcher each time, as for a new schema, with what the process keeps of its vocabulary.
void mask(benchmark::State& state, bool person, const std::string& text) {
  static const TokenMasks masks(vocabulary());
  const std::vector<TokenId> tokens = vocabulary().encode(text, {}).value();
  std::vector<uint64_t> bits(masks.words());
  std::vector<double> times;
  for (auto _ : state) {
    Json json;
    const SymbolId start = person ? json.person() : json.value;
    Matcher matcher(json.builder.finish(start).value());
    for (TokenId token : tokens) {
      const auto before = std::chrono::steady_clock::now();
      masks.compute(matcher, bits);
      if (!masks.push(matcher, token)) return state.SkipWithError("a token of the text is refused");
      times.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - before).count());
    }
    if (!matcher.may_end()) return state.SkipWithError("the text is not in the language");
  }
  std::ranges::sort(times);
  double sum = 0;
  for (double time : times) sum += time;
  state.counters["mean_us"] = sum / static_cast<double>(times.size());
  state.counters["p50_us"] = times[times.size() / 2];
  state.counters["p99_us"] = times[times.size() * 99 / 100];
  state.counters["max_us"] = times.back();
  state.counters["tokens"] = static_cast<double>(tokens.size());
}

const int kRegistered = [] {
  const std::string person =
      R"({"name": "Ada Lovelace, Countess \u00e9 of somewhere else", "age": 36.5, "tags": ["first", "of her kind \"so\""]})";
  std::string list = "[";
  for (int i = 0; i < 20; ++i) list += person + ", ";
  list += R"({"nested": [[[1, 2], {"a": {"b": null}}]], "ok": true}])";
  benchmark::RegisterBenchmark("person", mask, true, person)->Unit(benchmark::kMicrosecond);
  benchmark::RegisterBenchmark("json", mask, false, list)->Unit(benchmark::kMicrosecond);
  return 0;
}();

}  // namespace
}  // namespace cairn::grammar
