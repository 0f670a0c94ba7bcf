#include "api/params/request_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "api/params/request_context.h"
#include "base/text/printable.h"

namespace cairn::api {
namespace {

using nlohmann::ordered_json;
using testing::HasSubstr;

Error first_error(const ordered_json& object, const std::function<void(RequestFields&)>& read) {
  RequestContext context({.strict_fields = true});
  RequestFields fields(context, object, "outer.");
  read(fields);
  const auto done = fields.finish();
  return done ? Error{Code::kInternal, "no error", {}} : done.error();
}

TEST(RequestFields, ReadsValuesAndDefaults) {
  const ordered_json object = {{"b", true}, {"i", 7}, {"whole", 3.0}, {"x", 0.5}, {"s", "text"}, {"nothing", nullptr}};
  RequestContext context;
  RequestFields fields(context, object);
  EXPECT_TRUE(fields.boolean("b", false));
  EXPECT_EQ(fields.integer("i", 0, 0, 10), 7);
  EXPECT_EQ(fields.integer("whole", 0, 0, 10), 3);
  EXPECT_EQ(fields.number("x", 0, 0, 1), 0.5);
  EXPECT_EQ(fields.string("s", ""), "text");
  EXPECT_EQ(fields.integer("nothing", 42, 0, 10), 42);
  EXPECT_EQ(fields.optional_integer("absent", 0, 10), std::nullopt);
  EXPECT_TRUE(fields.finish().has_value());
}

TEST(RequestFields, ErrorsNameThePathTheRangeAndTheValue) {
  const auto error = first_error({{"n", 99}}, [](RequestFields& fields) { fields.integer("n", 1, 1, 8); });
  EXPECT_EQ(error.code, Code::kInvalidArgument);
  EXPECT_EQ(error.at, "outer.n");
  EXPECT_EQ(error.message, "outer.n must be from 1 to 8, not 99");
  EXPECT_THAT(first_error({{"n", 1.5}}, [](RequestFields& fields) { fields.integer("n", 1, 1, 8); }).message,
              HasSubstr("a fraction"));
  EXPECT_THAT(first_error({{"n", "1"}}, [](RequestFields& fields) { fields.integer("n", 1, 1, 8); }).message,
              HasSubstr("a string"));
  EXPECT_THAT(first_error({{"x", 2}}, [](RequestFields& fields) { fields.number("x", 0, 0, 1); }).message,
              HasSubstr("from 0 to 1"));
}

TEST(RequestFields, NumbersBeyond64BitsAreRefusedNotWrapped) {
  const auto huge = ordered_json::parse(R"({"n": 18446744073709551615, "m": 1e300, "k": -1e300})");
  for (const auto* name : {"n", "m", "k"}) {
    const auto error = first_error(huge, [&](RequestFields& fields) {
      fields.integer(name, 0, 0, 100);
      fields.accept({"n", "m", "k"});
    });
    EXPECT_THAT(error.message, HasSubstr("must be from 0 to 100")) << name;
  }
}

TEST(RequestFields, UnknownAndRefusedFieldsAreNamed) {
  EXPECT_THAT(first_error({{"frob", 1}}, [](RequestFields&) {}).message, HasSubstr("outer.frob is not a known field"));
  const auto refused = first_error({{"echo", true}}, [](RequestFields& fields) { fields.refuse("echo", "because"); });
  EXPECT_EQ(refused.code, Code::kUnsupported);
  EXPECT_EQ(refused.message, "outer.echo is not supported: because");
}

TEST(RequestFields, NeutralValuesAreTakenAndOthersRefusedByName) {
  const auto read = [](RequestFields& fields) {
    fields.only("store", false, "leave it out");
    fields.only_empty("grammar", "ask for it");
    fields.only_if("n", [](const ordered_json& value) { return value == 1; }, "ask again");
  };
  for (const char* taken : {R"({"store": false, "grammar": "", "n": 1.0})", R"({"grammar": []})", R"({"grammar": {}})",
                            R"({"grammar": false})", R"({"store": null, "n": null})"}) {
    EXPECT_EQ(first_error(ordered_json::parse(taken), read).message, "no error") << taken;
  }
  EXPECT_EQ(first_error({{"store", true}}, read).message, "outer.store is not supported: leave it out");
  EXPECT_EQ(first_error({{"grammar", "root"}}, read).message, "outer.grammar is not supported: ask for it");
  EXPECT_EQ(first_error({{"n", 2}}, read).code, Code::kUnsupported);
}

TEST(RequestFields, WhatHasNoEffectIsTakenAndToldOnce) {
  const ordered_json object = {{"user", "u"}, {"keep_alive", 5}, {"frob", 1}, {"nothing", nullptr}};
  RequestContext context;
  RequestFields fields(context, object);
  fields.accept({"user", "absent"});
  fields.accept("keep_alive", "models stay loaded");
  EXPECT_TRUE(fields.finish().has_value());
  EXPECT_TRUE(fields.finish().has_value());
  EXPECT_THAT(context.warnings(),
              testing::ElementsAre("user has no effect here", "keep_alive has no effect here: models stay loaded",
                                   "frob is not a field that this endpoint knows: it is ignored"));
  EXPECT_EQ(context.wanted_warnings(), "") << "nobody asks for them";
}

TEST(RequestFields, WarningsAreForWhoAsksForThem) {
  const ordered_json object = {{"frob", 1}, {"warnings", true}};
  RequestContext context;
  EXPECT_TRUE(RequestFields(context, object, "options.").finish().has_value());
  EXPECT_EQ(context.wanted_warnings(), "") << "the field of an inner object is another one";
  EXPECT_TRUE(RequestFields(context, object).finish().has_value());
  EXPECT_THAT(context.wanted_warnings(),
              HasSubstr(R"("frob is not a field that this endpoint knows: it is ignored"])"));
  const ordered_json wrong = {{"warnings", "yes"}};
  EXPECT_EQ(RequestFields(context, wrong).finish().error().message, "warnings must be true or false, not a string");
}

TEST(ParseObject, LimitsAreNamedAndTheLastOfTwoMembersCounts) {
  std::string many = "{";
  for (int i = 0; i < 100'000; ++i) many += fmt::format("\"k{}\":{},", i, i);
  const auto refused = parse_object(many + "\"z\":1}");
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kTooLarge);
  EXPECT_EQ(refused.error().message, "the request body has an object of more than 65536 members");
  EXPECT_EQ(parse_object(R"({"n": 1, "n": 2})").value()["n"], 2);
  EXPECT_THAT(parse_object(std::string("{}\0", 3)).error().message, HasSubstr("NUL byte at byte 2"));
}

TEST(RequestFields, NamesThatWouldNotBeSeenAreQuotedAndLongOnesCut) {
  EXPECT_THAT(first_error({{"", 1}}, [](RequestFields&) {}).message, HasSubstr("outer.\"\" is not a known field"));
  EXPECT_THAT(first_error({{"a b\n", 1}}, [](RequestFields&) {}).message, HasSubstr("outer.\"a b\\n\" is not"));
  const Error error = first_error({{std::string(1 << 20, 'k'), 1}}, [](RequestFields&) {});
  EXPECT_LT(error.message.size(), kEchoBytesMax);
  EXPECT_LT(error.at.size(), kEchoBytesMax);
}

TEST(ParseObject, RepeatsLittleOfALongNumber) {
  const auto parsed = parse_object("{\"a\": " + std::string(1 << 20, '1') + "e999999 }");
  ASSERT_FALSE(parsed.has_value());
  EXPECT_LT(parsed.error().message.size(), kEchoBytesMax + 100);
}

TEST(ParseObject, SaysWhereTheTextStopsBeingJson) {
  EXPECT_THAT(parse_object("{\"a\":\n ]").error().message, HasSubstr("line 2"));
  EXPECT_THAT(parse_object("[]").error().message, HasSubstr("an array"));
  EXPECT_THAT(parse_object("{\"a\":\"\xff\"}").error().message, HasSubstr("byte 6"));
  EXPECT_THAT(parse_object(std::string(100'000, '[')).error().message, HasSubstr("nested deeper"));
  EXPECT_TRUE(parse_object("{\"brackets in strings\": \"" + std::string(1'000, '[') + "\\\"[[[\"}").has_value());
}

}  // namespace
}  // namespace cairn::api
