/// Grammars that are made to take long: each text of them is taken, or refused by name, in less than a second.
#include <gtest/gtest.h>
#include <time.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "grammar/grammar.h"
#include "grammar/grammar_tables.h"
#include "grammar/json_schema/json_schema.h"
#include "grammar/masks/token_mask.h"
#include "grammar/matcher.h"
#include "grammar/readers/gbnf_reader.h"
#include "grammar/readers/lark_reader.h"
#include "grammar/readers/text_readers.h"

namespace cairn::grammar {
namespace {

constexpr size_t kHostileBytes = 1'000;
#ifdef NDEBUG
constexpr double kSecondsMax = 1;
#else
constexpr double kSecondsMax = 60;  // builds without optimisation, with sanitizers
#endif

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

std::string repeated(std::string_view text, size_t count) {
  std::string result;
  for (size_t i = 0; i < count; ++i) result += text;
  return result;
}

// Reads `text` with a mask before each of its first bytes, as long as it can be read.
void read_hostile(const std::string& name, const Result<std::shared_ptr<const Grammar>>& grammar,
                  std::string_view text) {
  static const TokenMasks masks(
      {"", "", "a", "b", "ab", "ba", "aa", "bb", "aaaaaaaaaaaaaaaa", "abababababab", " a", "c"}, {TokenId{1}});
  constexpr size_t kMasks = 60;
  Matcher matcher(*grammar);
  std::vector<uint64_t> mask(masks.words());
  size_t taken = 0;
  for (; taken < text.size(); ++taken) {
    if (taken < kMasks) masks.compute(matcher, mask);
    if (!matcher.push(static_cast<uint8_t>(text[taken]))) break;
  }
  const bool failed = matcher.failure().has_value();
  EXPECT_TRUE(failed || taken == text.size() || taken > 0) << name;
  EXPECT_TRUE(!failed || matcher.failure()->code == Code::kTooLarge) << name;
}

struct HostileCase {
  std::string name;
  enum class Kind : uint8_t { kGbnf, kLark, kRegex } kind;
  std::string grammar;
  std::string text;
};

Result<std::shared_ptr<const Grammar>> build(const HostileCase& one) {
  switch (one.kind) {
    case HostileCase::Kind::kGbnf:
      return read_gbnf(one.grammar);
    case HostileCase::Kind::kLark:
      return read_lark(one.grammar);
    default:
      return read_regex_grammar(one.grammar);
  }
}

std::vector<HostileCase> hostile_cases() {
  using enum HostileCase::Kind;
  const std::string many_a(kHostileBytes, 'a');
  const std::string many_ab = repeated("ab", kHostileBytes / 2);
  return {
      {"two of itself", kGbnf, R"(root ::= root root | "a" | "")", many_a},
      {"three of itself", kGbnf, R"(root ::= root root root | "a" | "")", many_a},
      {"two rules of each other", kGbnf, "root ::= x x | \"a\"\nx ::= root root | root x | \"\"", many_a},
      {"palindromes", kGbnf, R"(root ::= "a" root "a" | "b" root "b" | "")", many_ab},
      {"sums", kGbnf, R"(root ::= root "b" root | root "b" | "b" root | "a")", many_ab},
      {"nested options", kGbnf, "root ::= " + repeated("(", 200) + "\"a\" x" + repeated("?)*", 200) + "\nx ::= \"b\"?",
       many_a},
      {"nested lists of lists", kGbnf,
       "root ::= x{0,1000}\nx ::= y{0,1000} \"b\"?\ny ::= z{0,1000}\nz ::= \"a\" | \"b\" | z z", many_ab},
      {"counts within counts", kGbnf, "root ::= x{2,2000}\nx ::= y{2,2000}\ny ::= \"a\" | \"a\" \"a\" | y y", many_a},
      {"thousands of characters", kLark, "start: " + repeated("/./ ", 5000), many_a},
      {"thousands of optional characters", kLark, "start: " + repeated("/.?/ ", 3000), many_a},
      {"thousands of optional rules", kLark, "start: " + repeated("[x] ", 3000) + "\nx: \"a\" | \"a\" x", many_a},
      {"thousands of choices", kLark, "start: x*\nx: " + repeated("/a+/ \"b\" | ", 2000) + "\"ab\"", many_ab},
      {"star of star", kRegex, "(a*)*", many_a},
      {"optional letters", kRegex, "(a?){5000}", many_a},
      {"nested counts", kRegex, "((a{0,100}){0,100}){0,100}", many_a},
      {"nested counts of two", kRegex, "(((ab?){2,100}b?){2,100}){2,100}", many_ab},
      {"far letter", kRegex, "[ab]*a[ab]{40}", many_ab},
      {"very far letter", kRegex, "[ab]*a[ab]{4000}", many_ab},
      {"letters among others", kRegex, "(.*a){20}", many_ab},
      {"many far letters", kRegex, "(.*a.{50}){20}", many_ab},
      {"all letters", kRegex, "(?=.*a)(?=.*b)(?=.*c)(?=.*d)(?=.*e)(?=.*f)(?=.*g)(?=.*h)(?=.*i)(?=.*j).{10,}", many_ab},
      {"far conditions", kRegex, "(?=.*a.{30}b)(?=.*b.{31}a)(?!.*a.{20}a.{20}b).*", many_ab},
  };
}

TEST(HostileGrammar, IsReadOrRefusedByName) {
  for (const HostileCase& one : hostile_cases()) {
    const double begin = thread_seconds();
    const auto grammar = build(one);
    const double built = thread_seconds();
    if (grammar.has_value()) {
      read_hostile(one.name, grammar, one.text);
    } else {
      EXPECT_FALSE(grammar.error().message.empty()) << one.name;
    }
    const double done = thread_seconds();
    EXPECT_LT(done - begin, kSecondsMax) << one.name << ", of which reading the grammar " << built - begin;
  }
}

// How texts come that have a long common beginning.
using TextList = std::vector<std::string>;
using MadeGrammar = Result<std::shared_ptr<const Grammar>>;

MadeGrammar schema_grammar(const nlohmann::ordered_json& schema) {
  auto made = compile_json_schema(schema, {});
  if (!made.has_value()) return std::unexpected(made.error().error());
  return *std::move(made);
}

std::string joined(const TextList& texts, std::string_view open, std::string_view close, std::string_view between) {
  std::string result;
  for (const std::string& text : texts) {
    if (!result.empty()) result += between;
    result.append(open).append(text).append(close);
  }
  return result;
}

struct WayToList {
  const char* name;
  size_t count;
  MadeGrammar (*build)(const TextList& texts);
  const char* quote = "";
};

std::vector<WayToList> ways_to_list() {
  using Json = nlohmann::ordered_json;
  static constexpr auto kConstants = [](const TextList& texts) {
    Json branches = Json::array();
    for (const std::string& text : texts) branches.push_back({{"const", text}});
    return branches;
  };
  return {
      {"enum", 10'000, [](const TextList& texts) { return schema_grammar({{"enum", texts}}); }, "\""},
      {"enum of strings with a pattern", 10'000,
       [](const TextList& texts) {
         return schema_grammar({{"type", "string"}, {"enum", texts}, {"pattern", "^x*[0-9]*$"}});
       },
       "\""},
      {"anyOf", 2'000, [](const TextList& texts) { return schema_grammar({{"anyOf", kConstants(texts)}}); }, "\""},
      {"oneOf", 400, [](const TextList& texts) { return schema_grammar({{"oneOf", kConstants(texts)}}); }, "\""},
      {"choice", 10'000, [](const TextList& texts) { return read_choice(texts); }},
      {"GBNF", 4'000, [](const TextList& texts) { return read_gbnf("root ::= " + joined(texts, "\"", "\"", " | ")); }},
      {"Lark", 4'000, [](const TextList& texts) { return read_lark("start: " + joined(texts, "\"", "\"", " | ")); }},
      {"regex", 250, [](const TextList& texts) { return read_regex_grammar(joined(texts, "", "", "|")); }},
  };
}

TEST(HostileGrammar, TextsWithALongCommonBeginningTakeLinearTime) {
  const TokenMasks masks({"x", "xx", "\"", "0", "1", "9"}, {});
  for (const WayToList& way : ways_to_list()) {
    TextList texts;
    for (size_t i = 0; i < way.count; ++i) texts.push_back(std::string(200, 'x') + std::to_string(i));
    const double begin = thread_seconds();
    const MadeGrammar grammar = way.build(texts);
    ASSERT_TRUE(grammar.has_value()) << way.name << ": " << grammar.error().message;
    Matcher matcher(*grammar);
    const std::string text = way.quote + texts[17] + way.quote;
    std::vector<uint64_t> mask(masks.words());
    for (const char byte : text) {
      masks.compute(matcher, mask);
      ASSERT_TRUE(matcher.push(static_cast<uint8_t>(byte))) << way.name;
    }
    EXPECT_TRUE(matcher.may_end()) << way.name;
    EXPECT_LT(thread_seconds() - begin, kSecondsMax / 2) << way.name;
  }
}

// All searches for texts while the schema is read and its rules are looked at, in nodes; the code of what refuses it.
std::pair<uint64_t, std::optional<Code>> work_of(const nlohmann::ordered_json& schema) {
  GrammarBuilder builder;
  const auto made = add_json_schema(builder, schema, {});
  if (!made) return {builder.regexes().work_done(), made.error().code};
  const auto empty = builder.first_without_text({{*made}});
  return {builder.regexes().work_done(), empty ? std::nullopt : std::optional(empty.error().code)};
}

TEST(HostileGrammar, AllSearchesOfASchemaHaveOneBudget) {
  using Json = nlohmann::ordered_json;
  constexpr uint64_t kWorkMax = 2 * kBuildWorkMax;
  const Json divisors = {{"allOf", {{{"type", "integer"}, {"multipleOf", 99991}}, {{"multipleOf", 99989}}}}};
  EXPECT_LT(work_of(divisors).first, kBuildWorkMax / 100);
  EXPECT_EQ(work_of(divisors).second, Code::kTooLarge);
  const Json exclusive = {{"oneOf", {{{"multipleOf", 9973}}, {{"multipleOf", 9967}}}}, {"minimum", 1}};
  EXPECT_LT(work_of(exclusive).first, kWorkMax);
  // Each of these has a text, which is long, and takes less than the budget to find.
  Json properties;
  for (int i = 0; i < 40; ++i) {
    const auto multiple = [i](int letters) {
      return Json{{"pattern", "^(a{" + std::to_string(letters + i) + "})+b$"}};
    };
    properties["p" + std::to_string(i)] = {{"type", "string"}, {"allOf", {multiple(100), multiple(151)}}};
  }
  const auto [work, code] = work_of({{"type", "object"}, {"properties", properties}});
  EXPECT_LT(work, kWorkMax);
  EXPECT_EQ(code, Code::kTooLarge);
}

// Each name of a chain needs the next one: 300 took 25 seconds.
TEST(HostileGrammar, AlternativesOfAnObjectHaveABudget) {
  const auto chain = [](std::string_view keyword, int names) {
    nlohmann::ordered_json needs;
    for (int i = 0; i < names; ++i) {
      const std::string next = "k" + std::to_string(i + 1);
      auto& need = needs["k" + std::to_string(i)];
      need = {next};
      if (keyword == "dependentSchemas") need = {{"required", {next}}};
    }
    return work_of({{"type", "object"}, {std::string(keyword), needs}}).second;
  };
  for (const std::string_view keyword : {"dependentRequired", "dependentSchemas"}) {
    EXPECT_EQ(chain(keyword, 30), std::nullopt) << keyword;
    EXPECT_EQ(chain(keyword, 300), Code::kTooLarge) << keyword;
  }
}

TEST(HostileGrammar, DivisorsOfAGrammarHaveABoundTogether) {
  nlohmann::ordered_json properties, same;
  for (int i = 0; i < 50; ++i) {
    properties["p" + std::to_string(i)] = {{"multipleOf", 99'991 - i}};
    same["p" + std::to_string(i)] = {{"multipleOf", 99'991}};
  }
  const MadeGrammar refused = schema_grammar({{"type", "object"}, {"properties", properties}});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kTooLarge);
  const MadeGrammar taken = schema_grammar({{"type", "object"}, {"properties", same}});
  ASSERT_TRUE(taken.has_value()) << taken.error().message;
  EXPECT_LT((*taken)->bytes(), size_t{32} << 20);
}

TEST(HostileGrammar, ASchemaWithTooManyNodesIsNotSaidToFitNoValue) {
  nlohmann::ordered_json properties;
  for (int i = 0; i < 10'000; ++i)
    properties[std::string(200, 'x') + std::to_string(i)] = nlohmann::ordered_json::object();
  const MadeGrammar grammar = schema_grammar({{"type", "object"}, {"properties", properties}});
  ASSERT_FALSE(grammar.has_value());
  EXPECT_EQ(grammar.error().code, Code::kTooLarge);
}

}  // namespace
}  // namespace cairn::grammar
