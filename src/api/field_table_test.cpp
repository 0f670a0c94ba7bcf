// docs/fields.md against the parsers: every field of every endpoint, and what becomes of it. With CAIRN_UPDATE=1 in the
// environment the file is written anew.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "api/anthropic/request.h"
#include "api/embedding/rerank.h"
#include "api/frames/message.h"
#include "api/llama_cpp/request.h"
#include "api/ollama/embed.h"
#include "api/ollama/models.h"
#include "api/ollama/request.h"
#include "api/openai/embeddings.h"
#include "api/openai/request.h"
#include "api/params/request_context.h"
#include "api/responses/request.h"
#include "api/routes.h"
#include "api/tokenize_endpoints.h"
#include "base/testing/test_data.h"
#include "sampling/parameters.h"

namespace cairn::api {
namespace {

using nlohmann::ordered_json;

struct Reader {
  std::string name;
  std::string body;  // the least that is valid, and objects whose fields are to be listed
  std::function<Result<void>(RequestContext& context, const ordered_json& body)> parse;
};

template <typename T>
Result<void> forget(const Result<T>& result) {
  if (!result) return std::unexpected(result.error());
  return {};
}

std::string chat_body(std::string_view more = "") {
  return fmt::format(R"({{"messages": [{{"role": "user", "content": "x"}}]{}}})", more);
}

std::vector<Reader> answering() {
  return {
      {"/v1/chat/completions", chat_body(R"(, "stream_options": {}, "metadata": {})"),
       [](RequestContext& context, const ordered_json& body) { return forget(openai::parse_chat(context, body)); }},
      {"/v1/completions", R"({"prompt": "x", "stream_options": {}})",
       [](RequestContext& context, const ordered_json& body) {
         return forget(openai::parse_completion(context, body));
       }},
      {"/v1/responses", R"({"input": "x", "reasoning": {}, "text": {}, "stream_options": {}})",
       [](RequestContext& context, const ordered_json& body) {
         return forget(responses::parse_responses(context, body, {}));
       }},
      {"/v1/messages",
       chat_body(R"(, "max_tokens": 5, "metadata": {}, "thinking": {"type": "enabled", "budget_tokens": 2000},
                   "output_config": {}, "context_management": {})"),
       [](RequestContext& context, const ordered_json& body) {
         return forget(anthropic::parse_messages(context, body, anthropic::Purpose::kAnswer));
       }},
      {"/v1/embeddings", R"({"input": "x"})",
       [](RequestContext& context, const ordered_json& body) {
         return forget(openai::parse_embeddings(context, body));
       }},
      {"/embed", R"({"inputs": "x"})",
       [](RequestContext& context, const ordered_json& body) {
         return forget(openai::parse_tei_embed(context, body));
       }},
      {"/v1/rerank", R"({"query": "x", "documents": ["y"]})",
       [](RequestContext& context, const ordered_json& body) { return forget(parse_rerank(context, body)); }},
      {"/api/chat", chat_body(R"(, "options": {})"),
       [](RequestContext& context, const ordered_json& body) { return forget(ollama::parse_chat(context, body)); }},
      {"/api/generate", R"({"prompt": "x", "options": {}})",
       [](RequestContext& context, const ordered_json& body) { return forget(ollama::parse_generate(context, body)); }},
      {"/api/embed", R"({"input": "x", "options": {}})",
       [](RequestContext& context, const ordered_json& body) { return forget(ollama::parse_embed(context, body)); }},
      {"/api/embeddings", R"({"prompt": "x", "options": {}})",
       [](RequestContext& context, const ordered_json& body) {
         return forget(ollama::parse_embeddings(context, body));
       }},
      {"/completion", R"({"prompt": "x"})",
       [](RequestContext& context, const ordered_json& body) {
         return forget(llama_cpp::parse_completion(context, body));
       }},
      {"/infill", R"({"input_prefix": "x", "input_suffix": "y"})",
       [](RequestContext& context, const ordered_json& body) {
         return forget(llama_cpp::parse_infill(context, body));
       }},
      {"frames", chat_body(R"(, "id": "1")"),
       [](RequestContext& context, const ordered_json& body) -> Result<void> {
         const auto message = frames::parse_message(context, body.dump());
         if (!message) return std::unexpected(message.error().error);
         return {};
       }},
  };
}

std::vector<Reader> preparing() {
  return {
      {"/tokenize", R"({"content": "x"})",
       [](RequestContext& context, const ordered_json& body) { return forget(parse_tokenize(context, body)); }},
      {"/detokenize", R"({"tokens": [1]})",
       [](RequestContext& context, const ordered_json& body) { return forget(parse_detokenize(context, body)); }},
      {"/api/show", R"({"model": "x"})",
       [](RequestContext& context, const ordered_json& body) { return forget(ollama::parse_show(context, body)); }},
      {"/apply-template", chat_body(),
       [](RequestContext& context, const ordered_json& body) { return forget(parse_apply_template(context, body)); }},
  };
}

std::vector<Reader> readers() {
  std::vector<Reader> all = answering();
  for (Reader& reader : preparing()) all.push_back(std::move(reader));
  return all;
}

// The body with a value at a path of names with dots between.
ordered_json with(ordered_json body, std::string_view path, const ordered_json& value) {
  ordered_json* at = &body;
  for (size_t dot = path.find('.'); dot != std::string_view::npos; dot = path.find('.')) {
    at = &(*at)[std::string(path.substr(0, dot))];
    path.remove_prefix(dot + 1);
  }
  (*at)[std::string(path)] = value;
  return body;
}

constexpr std::string_view kProbes[] = {R"("x")",      R"("")",       "0",
                                        "0.5",         "1",           "2",
                                        "16",          "-1",          "true",
                                        "false",       "{}",          "[]",
                                        R"(["x"])",    R"(["text"])", R"({"type": "text"})",
                                        R"({"a": 1})", R"("auto")",   R"("standard")",
                                        R"("float")",  R"("right")"};

/// What becomes of values of the field, as the parser does it.
struct Outcomes {
  bool taken = false;    ///< some value is
  bool refused = false;  ///< for some value the reason is that this server cannot
};

Outcomes outcomes(const Reader& reader, const ordered_json& body, const std::string& name) {
  Outcomes seen;
  for (const std::string_view value : kProbes) {
    RequestContext context;
    const auto done = reader.parse(context, with(body, name, ordered_json::parse(value)));
    seen.taken |= done.has_value();
    seen.refused |= !done && done.error().code == Code::kUnsupported && done.error().at.starts_with(name);
  }
  return seen;
}

/// A field that is read counts as honoured only if no value of it is refused for what it asks.
FieldUse use_of(const Outcomes& seen) {
  if (!seen.refused) return FieldUse::kHonoured;
  return seen.taken ? FieldUse::kNeutral : FieldUse::kRefused;
}

std::map<std::string, FieldUse> find_uses(const Reader& reader) {
  const auto body = ordered_json::parse(reader.body);
  std::map<std::string, FieldUse> uses;
  {
    FieldAudit audit;
    RequestContext context;
    context.set_audit(&audit);
    const auto done = reader.parse(context, body);
    EXPECT_TRUE(done.has_value()) << reader.name << ": " << done.error().text();
    uses = audit.all();
  }
  std::erase_if(uses, [](const auto& use) { return use.first.find('[') != std::string::npos; });
  for (auto& [name, use] : uses) {
    if (use == FieldUse::kHonoured) use = use_of(outcomes(reader, body, name));
  }
  return uses;
}

/// Found once: it takes thousands of requests.
const std::map<std::string, FieldUse>& uses_of(const Reader& reader) {
  static std::map<std::string, std::map<std::string, FieldUse>> known;
  const auto [found, made] = known.try_emplace(reader.name);
  if (made) found->second = find_uses(reader);
  return found->second;
}

std::string_view word_of(FieldUse use) {
  switch (use) {
    case FieldUse::kHonoured:
      return "**yes**";
    case FieldUse::kNeutral:
      return "neutral";
    case FieldUse::kIgnored:
      return "ignored";
    case FieldUse::kRefused:
      break;
  }
  return "refused";
}

std::string table(const std::vector<Reader>& all) {
  std::vector<std::map<std::string, FieldUse>> uses;
  std::set<std::string> names;
  for (const Reader& reader : all) {
    uses.push_back(uses_of(reader));
    for (const auto& [name, use] : uses.back()) names.insert(name);
  }
  std::string text = "| field |";
  for (const Reader& reader : all) text += " `" + reader.name + "` |";
  text += "\n|---|";
  for (size_t i = 0; i < all.size(); ++i) text += "---|";
  text += "\n";
  for (const std::string& name : names) {
    text += "| `" + name + "` |";
    for (const auto& use : uses) {
      const auto found = use.find(name);
      if (found == use.end()) {
        text += " |";
      } else {
        text += fmt::format(" {} |", word_of(found->second));
      }
    }
    text += "\n";
  }
  return text;
}

std::string page() {
  return R"(# Fields of every endpoint

This table is generated from the parsers themselves, and `api_test` checks it.

* **yes**: honoured. A value of the wrong type or out of range is rejected with the field's path.
* neutral: a value that changes nothing is accepted (`0`, `false`, `""`, `[]`, `null`, or the only supported value).
  Any other value would change the answer in a way that is not supported, so it is rejected by name, and the error says
  what to do instead.
* ignored: accepted with any value, but without effect here. This is reported: by a line in the log the first time, and
  in the `"warnings"` of the answer if the request has `"warnings": true`.
* refused: rejected with an error that says what to do instead.

A field that is not in an endpoint's column is ignored and reported as well; `cairn serve --strict-fields` rejects it by
name. The pages of [api](api/README.md) explain the fields; [frames.md](api/frames.md) explains those of the socket,
whose messages are in the column `frames`.

)" + table(answering()) +
         "\n" + table(preparing());
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(FieldTable, IsWhatTheParsersSay) {
  const std::string path = source_file("/docs/fields.md");
  if (std::getenv("CAIRN_UPDATE") != nullptr) std::ofstream(path, std::ios::binary) << page();
  EXPECT_EQ(read_file(path), page()) << "run api_test with CAIRN_UPDATE=1 in the environment";
}

/// Endpoints of parsers that the table has under another endpoint's name.
constexpr std::pair<std::string_view, std::string_view> kReadAs[] = {
    {"/v1/chat/completions/input_tokens", "/v1/chat/completions"},
    {"/v1/messages/count_tokens", "/v1/messages"},
    {"/v1/responses/input_tokens", "/v1/responses"},
    {"/v1/responses/compact", "/v1/responses"},
    {"/embedding", "/v1/embeddings"},
    {"/api/v0/chat/completions", "/v1/chat/completions"},
    {"/api/v0/completions", "/v1/completions"}};

TEST(FieldTable, HasEveryEndpointThatAModelAnswers) {
  std::set<Endpoint::Handler> known;  // of rows by these names
  const std::vector<Reader> all = readers();
  for (const Endpoint& row : endpoints()) {
    const auto* as = std::ranges::find(kReadAs, row.pattern, &std::pair<std::string_view, std::string_view>::first);
    const std::string_view name = as == std::end(kReadAs) ? row.pattern : as->second;
    if (std::ranges::find(all, name, &Reader::name) != all.end()) known.insert(row.handle);
  }
  for (const Endpoint& row : endpoints())
    EXPECT_TRUE(!row.needs.kind || known.contains(row.handle)) << row.pattern << " is in no column of docs/fields.md";
}

TEST(FieldTable, WhatIsHonouredMindsItsValueAndWhatIsRefusedIsRefused) {
  // Nothing takes this.
  const ordered_json nonsense = ordered_json::parse(R"([[[{"a": [true]}]]])");
  for (const Reader& reader : readers()) {
    const auto body = ordered_json::parse(reader.body);
    for (const auto& [name, use] : uses_of(reader)) {
      RequestContext context;
      const auto done = reader.parse(context, with(body, name, nonsense));
      if (use == FieldUse::kIgnored) {
        EXPECT_TRUE(done.has_value()) << reader.name << " " << name << ": " << (done ? "" : done.error().text());
        continue;
      }
      ASSERT_FALSE(done.has_value()) << reader.name << " does not look at " << name;
      const std::string first = name.substr(0, name.find('.'));
      EXPECT_TRUE(done.error().at.starts_with(first)) << reader.name << " " << name << ": " << done.error().text();
    }
  }
}

TEST(FieldTable, NeutralFieldsTakeWhatAsksForNothingAndRefuseTheRestByName) {
  for (const Reader& reader : readers()) {
    const auto body = ordered_json::parse(reader.body);
    for (const auto& [name, use] : uses_of(reader)) {
      if (use != FieldUse::kNeutral) continue;
      const Outcomes seen = outcomes(reader, body, name);
      EXPECT_TRUE(seen.taken) << reader.name << " " << name;
      EXPECT_TRUE(seen.refused) << reader.name << " " << name;
    }
  }
}

TEST(FieldTable, WhatHasNoEffectIsTold) {
  for (const Reader& reader : readers()) {
    const auto body = ordered_json::parse(reader.body);
    for (const auto& [name, use] : uses_of(reader)) {
      if (use != FieldUse::kIgnored) continue;
      RequestContext context;
      ASSERT_TRUE(reader.parse(context, with(body, name, 1)).has_value()) << reader.name << " " << name;
      EXPECT_THAT(context.warnings(), testing::Contains(testing::HasSubstr(name))) << reader.name;
    }
  }
}

TEST(FieldTable, EveryProtocolHonoursEverySamplingParameterByAllItsNames) {
  std::set<std::string> sampling;
  for (const Reader& reader : answering()) {
    const auto& uses = uses_of(reader);
    const auto honours = [&](std::string_view name) {
      const auto found = uses.find(std::string(name));
      return found != uses.end() && found->second == FieldUse::kHonoured;
    };
    const std::string path = honours("options.temperature") ? "options." : "";
    if (!honours(path + "temperature")) continue;
    sampling.insert(reader.name);
    for (const sampling::SamplingParameter& parameter : sampling::sampling_parameters())
      for (const std::string_view name : {parameter.name, parameter.alias})
        EXPECT_TRUE(name.empty() || honours(path + std::string(name))) << reader.name << " " << name;
  }
  EXPECT_THAT(sampling,
              testing::IsSupersetOf({"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages",
                                     "/api/chat", "/api/generate", "/completion", "/infill", "frames"}));
}

TEST(FieldTable, WhatIsNotListedIsToldOrIfFieldsAreStrictRefusedByName) {
  for (const Reader& reader : readers()) {
    const auto body = with(ordered_json::parse(reader.body), "frobnicate", 1);
    {
      RequestContext context;
      const auto done = reader.parse(context, body);
      ASSERT_TRUE(done.has_value()) << reader.name << ": " << done.error().text();
      EXPECT_THAT(context.warnings(), testing::Contains(testing::HasSubstr("frobnicate"))) << reader.name;
    }
    RequestContext strict({.strict_fields = true});
    const auto done = reader.parse(strict, body);
    ASSERT_FALSE(done.has_value()) << reader.name;
    EXPECT_THAT(done.error().message, testing::HasSubstr("frobnicate")) << reader.name;
    EXPECT_EQ(done.error().at, "frobnicate");
  }
}

}  // namespace
}  // namespace cairn::api
