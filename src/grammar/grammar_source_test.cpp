#include "grammar/grammar_source.h"

#include <gtest/gtest.h>

#include <string>

#include "grammar/masks/token_mask.h"
#include "grammar/matcher.h"

namespace cairn::grammar {
namespace {

using nlohmann::ordered_json;

GrammarSource regex_source(std::string text) {
  return {.kind = GrammarSource::Kind::kRegex, .field = "regex", .text = std::move(text)};
}

std::shared_ptr<const Grammar> cached(GrammarCache& cache, const GrammarSource& source) {
  auto made = cache.get(source);
  if (!made.has_value()) ADD_FAILURE() << made.error().text();
  return made.value_or(nullptr);
}

bool takes(const std::shared_ptr<const Grammar>& grammar, std::string_view text) {
  Matcher matcher(grammar);
  return matcher.push(text) == text.size() && matcher.may_end();
}

TEST(GrammarCache, GivesTheSameGrammarForTheSameSource) {
  GrammarCache cache;
  const auto first = cached(cache, regex_source("a+"));
  EXPECT_EQ(cached(cache, regex_source("a+")), first);
  // The field is for errors alone.
  GrammarSource elsewhere = regex_source("a+");
  elsewhere.field = "response_format.regex";
  EXPECT_EQ(cached(cache, elsewhere), first);
  EXPECT_NE(cached(cache, regex_source("b+")), first);
}

TEST(GrammarCache, TellsSourcesApart) {
  GrammarCache cache;
  using Kind = GrammarSource::Kind;
  const auto letters = cached(cache, regex_source("start"));
  EXPECT_TRUE(takes(letters, "start"));
  const auto choice = cached(cache, {.kind = Kind::kChoice, .choices = {"start", "a"}});
  EXPECT_TRUE(takes(choice, "a"));
  EXPECT_FALSE(takes(letters, "a"));
  // The order of a schema's keys is that of the answer.
  const auto schema = [](std::string_view text) {
    return GrammarSource{.kind = Kind::kJsonSchema, .schema = ordered_json::parse(text)};
  };
  constexpr std::string_view kAb =
      R"({"properties":{"a":{"const":1},"b":{"const":2}},"required":["a","b"],"additionalProperties":false,"type":"object"})";
  constexpr std::string_view kBa =
      R"({"properties":{"b":{"const":2},"a":{"const":1}},"required":["a","b"],"additionalProperties":false,"type":"object"})";
  EXPECT_TRUE(takes(cached(cache, schema(kAb)), R"({"a":1,"b":2})"));
  EXPECT_TRUE(takes(cached(cache, schema(kBa)), R"({"b":2,"a":1})"));
  EXPECT_FALSE(takes(cached(cache, schema(kBa)), R"({"a":1,"b":2})"));
  const auto calls = [](const std::string& close) {
    return GrammarSource{.kind = Kind::kCalls,
                         .forms = {{.opens = {"<"}, .name_closes = {":"}, .call_close = close}},
                         .tools = {{.name = "t"}}};
  };
  EXPECT_TRUE(takes(cached(cache, calls(">")), "<t:{}>"));
  EXPECT_FALSE(takes(cached(cache, calls("!")), "<t:{}>"));
}

TEST(GrammarCache, ForgetsWhatWasUsedLeastRecently) {
  GrammarCache cache;
  const auto source = [](size_t i) { return regex_source("a{" + std::to_string(i + 1) + "}"); };
  std::vector<std::shared_ptr<const Grammar>> made;
  for (size_t i = 0; i < GrammarCache::kGrammarsMax; ++i) made.push_back(cached(cache, source(i)));
  EXPECT_EQ(cached(cache, source(0)), made[0]);  // and is now the last to be forgotten
  cached(cache, source(GrammarCache::kGrammarsMax));
  EXPECT_EQ(cached(cache, source(0)), made[0]);
  EXPECT_EQ(cached(cache, source(2)), made[2]);
  EXPECT_NE(cached(cache, source(1)), made[1]);
}

TEST(GrammarCache, IsBoundedByTheBytesOfSources) {
  GrammarCache cache;
  const auto small = cached(cache, regex_source("a"));
  const auto large = [](char letter) {
    GrammarSource source = regex_source("a");
    source.choices = {std::string(GrammarCache::kSourceBytesMax * 2 / 5, letter)};  // part of the key alone
    return source;
  };
  const auto first = cached(cache, large('x'));
  const auto second = cached(cache, large('y'));
  EXPECT_EQ(cached(cache, large('x')), first);
  EXPECT_EQ(cached(cache, regex_source("a")), small);
  cached(cache, large('z'));
  EXPECT_NE(cached(cache, large('y')), second);
  // One that is too large for itself is given, and kept until the next one comes.
  GrammarSource huge = regex_source("a");
  huge.choices = {std::string(GrammarCache::kSourceBytesMax + 1, 'h')};
  EXPECT_EQ(cached(cache, huge), cached(cache, huge));
  EXPECT_NE(cached(cache, regex_source("a")), small);
}

TEST(GrammarSource, InAFrameTheTextIsAMessageBehindThinkingOrACallTakesItsPlace) {
  using Kind = GrammarSource::Kind;
  GrammarCache cache;
  const std::string end = control_token_bytes(TokenId{7});
  const std::vector<GrammarSource> kinds = {
      {.kind = Kind::kJsonObject},
      {.kind = Kind::kJsonSchema, .schema = ordered_json::parse(R"({"type": "object", "maxProperties": 0})")},
      {.kind = Kind::kRegex, .text = "[{][}]"},
      {.kind = Kind::kGbnf, .text = "root ::= \"{\" \"}\""},
      {.kind = Kind::kLark, .text = "start: \"{\" \"}\""},
      {.kind = Kind::kChoice, .choices = {"{}", "x"}}};
  for (GrammarSource source : kinds) {
    source.frame = MessageFrame{.thinking_open = "T:", .thinking_close = end, .answer_opens = {"A:", "B:"}};
    const auto free = cached(cache, source);
    EXPECT_TRUE(takes(free, "A:{}"));
    EXPECT_TRUE(takes(free, "T:any {\xC3\xA4} A:" + end + "T:" + end + "B:{}"));
    EXPECT_FALSE(takes(free, "{}"));
    EXPECT_FALSE(takes(free, "T:" + end));
    EXPECT_FALSE(takes(free, "T:" + control_token_bytes(TokenId{8}) + end + "A:{}"));
    EXPECT_FALSE(takes(free, "A:{}A:{}"));
    source.forms = {{.opens = {"<"}, .name_closes = {":"}, .call_close = ">"}};
    source.tools = {{.name = "t"}};
    const auto calls = cached(cache, source);
    EXPECT_TRUE(takes(calls, "T:x" + end + "<t:{}>"));
    EXPECT_TRUE(takes(calls, "A:{}"));
    source.frame->thinking_open.clear();
    EXPECT_FALSE(takes(cached(cache, source), "T:x" + end + "<t:{}>"));
    EXPECT_TRUE(takes(cached(cache, source), "<t:{}>"));
  }
  // Else it could only think, or call.
  GrammarSource none{
      .kind = Kind::kRegex, .field = "regex", .text = "[^\\s\\S]", .frame = MessageFrame{.thinking_open = "T:"}};
  EXPECT_FALSE(cache.get(none).has_value());
}

TEST(GrammarSource, ErrorsNameTheFieldAndThePlaceInside) {
  using Kind = GrammarSource::Kind;
  GrammarCache cache;
  const auto error_of = [&](const GrammarSource& source) {
    auto made = cache.get(source);
    EXPECT_FALSE(made.has_value());
    return made.has_value() ? Error{} : made.error();
  };
  Error error = error_of({.kind = Kind::kJsonSchema,
                          .field = "response_format.json_schema.schema",
                          .schema = {{"properties", {{"a", {{"pattern", "("}}}}}}});
  EXPECT_EQ(error.at, "response_format.json_schema.schema");
  EXPECT_NE(error.message.find("/properties/a/pattern"), std::string::npos) << error.message;
  error = error_of({.kind = Kind::kGbnf, .field = "grammar", .text = "root ::= x\nx ::= \"a\" | ["});
  EXPECT_EQ(error.at, "grammar");
  EXPECT_NE(error.message.find("2:"), std::string::npos) << error.message;
  error = error_of({.kind = Kind::kLark, .field = "tools[0].custom.format", .text = "start: x\n"});
  EXPECT_EQ(error.at, "tools[0].custom.format");
  EXPECT_NE(error.message.find("1:"), std::string::npos) << error.message;
  error = error_of(regex_source("ab("));
  EXPECT_EQ(error.at, "regex");
  EXPECT_EQ(error.code, Code::kInvalidArgument);
  // An error is no grammar: the next request is answered alike.
  EXPECT_EQ(error_of(regex_source("ab(")).message, error.message);
}

TEST(GrammarSource, ToolsNameTheSchemaThatCannotBeHeldTo) {
  const ordered_json bad = {{"properties", {{"a", {{"pattern", "("}}}}}};
  const ordered_json good = {{"type", "object"}, {"properties", {{"a", {{"const", 1}}}}}};
  GrammarSource source{.kind = GrammarSource::Kind::kCalls,
                       .field = "tools",
                       .forms = {{.opens = {"<"}, .name_closes = {":"}, .call_close = ">"}},
                       .tools = {{.name = "one", .schema = good, .strict = true}, {.name = "two", .schema = bad}}};
  const auto lenient = compile(source);
  ASSERT_TRUE(lenient.has_value()) << lenient.error().text();
  EXPECT_TRUE(takes(*lenient, R"(<one:{"a":1}>)"));
  EXPECT_FALSE(takes(*lenient, R"(<one:{"a":2}>)"));
  EXPECT_TRUE(takes(*lenient, R"(<two:{"a":2}>)"));  // any object
  source.tools[1].strict = true;
  source.tools[1].field = "tools[1].function.parameters";
  const auto strict = compile(source);
  ASSERT_FALSE(strict.has_value());
  EXPECT_NE(strict.error().message.find("tools[1].function.parameters"), std::string::npos) << strict.error().text();
}

// Every value of it has another within it, without end.
TEST(GrammarSource, ToolsNameTheSchemaThatNoValueFits) {
  const ordered_json endless = {
      {"type", "object"}, {"properties", {{"a", {{"$ref", "#"}}}}}, {"required", ordered_json::array({"a"})}};
  GrammarSource source{.kind = GrammarSource::Kind::kCalls,
                       .field = "tools",
                       .forms = {{.opens = {"<"}, .name_closes = {":"}, .call_close = ">"}},
                       .tools = {{.name = "one", .strict = true},
                                 {.name = "two", .schema = endless, .strict = true, .field = "two: parameters"}}};
  const auto made = compile(source);
  ASSERT_FALSE(made.has_value());
  EXPECT_NE(made.error().text().find("two: parameters"), std::string::npos) << made.error().text();
}

}  // namespace
}  // namespace cairn::grammar
