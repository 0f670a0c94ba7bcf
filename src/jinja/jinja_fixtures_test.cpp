// Compares renderings with Jinja2's, byte for byte: the fixtures' chat templates with their conversations, and small
// templates.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "base/testing/test_data.h"
#include "jinja/jinja.h"
#include "jinja/testing/template_files.h"

namespace cairn::jinja {
namespace {

const std::string kFolder = test_data("/chat-templates/");

using nlohmann::ordered_json;

std::vector<ordered_json> read_lines(const std::string& path) {
  std::istringstream text(read_file(path));
  std::vector<ordered_json> lines;
  for (std::string line; std::getline(text, line);)
    if (!line.empty()) lines.push_back(ordered_json::parse(line));
  return lines;
}

// The place where two texts differ, with the following text of each.
std::string difference(const std::string& got, const std::string& wanted) {
  size_t at = 0;
  while (at < got.size() && at < wanted.size() && got[at] == wanted[at]) ++at;
  const size_t from = at < 30 ? 0 : at - 30;
  return "byte " + std::to_string(at) + "\n   got: " +
         ordered_json(got.substr(from, 120)).dump(-1, ' ', false, ordered_json::error_handler_t::replace) +
         "\n  want: " +
         ordered_json(wanted.substr(from, 120)).dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

// Renders and compares; a case with "error" must fail.
::testing::AssertionResult check(const Result<JinjaTemplate>& parsed, const ordered_json& variables,
                                 const ordered_json& wanted) {
  const Result<Rendering> made = parsed.has_value() ? parsed->render(variables, kNothingOwn, kNow)
                                                    : Result<Rendering>(std::unexpected(parsed.error()));
  const Result<std::string> got = made.has_value() ? made->text : Result<std::string>(std::unexpected(made.error()));
  if (wanted.contains("error")) {
    // Lists of the template's own can be appended to here.
    const bool appends = wanted["error"].get_ref<const std::string&>().find("'append' of 'list'") != std::string::npos;
    if (appends && wanted.contains("context")) return ::testing::AssertionSuccess();
    if (!got.has_value()) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << "no error; Jinja2 has " << wanted["error"] << "\n   got: " << *got;
  }
  if (!got.has_value()) return ::testing::AssertionFailure() << "error: " << got.error().text();
  const auto& text = wanted["rendered"].get_ref<const std::string&>();
  if (*got == text) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << difference(*got, text);
}

class JinjaFixtures : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv("TZ", "UTC", 1);
    tzset();
  }
};

TEST_F(JinjaFixtures, ChatTemplatesRenderAsInJinja2) {
  const ordered_json contexts = ordered_json::parse(read_file(kFolder + "contexts.json"));
  std::map<std::string, Result<JinjaTemplate>> templates;
  int passed = 0;
  int total = 0;
  for (const ordered_json& wanted : read_lines(kFolder + "cases.jsonl")) {
    std::string name = wanted["template"];
    if (!name.ends_with(".jinja")) name += ".jinja";
    auto found = templates.find(name);
    if (found == templates.end())
      found = templates.emplace(name, JinjaTemplate::parse(read_file(kFolder + name))).first;
    const std::string context = wanted["context"];
    const auto result = check(found->second, contexts.at(context), wanted);
    EXPECT_TRUE(result) << name << " over " << context;
    passed += static_cast<bool>(result);
    ++total;
  }
  std::printf("chat templates: %d of %d cases\n", passed, total);
  EXPECT_EQ(total, 1330);
}

TEST_F(JinjaFixtures, SmallTemplatesRenderAsInJinja2) {
  const std::vector<ordered_json> lines = read_lines(kFolder + "snippets.jsonl");
  const ordered_json context = lines.at(0).at("context");
  int passed = 0;
  for (size_t i = 1; i < lines.size(); ++i) {
    const std::string source = lines[i]["template"];
    const auto result = check(JinjaTemplate::parse(source), context, lines[i]);
    EXPECT_TRUE(result) << "snippet on line " << i + 1 << ": " << source;
    passed += static_cast<bool>(result);
  }
  std::printf("snippets: %d of %zu\n", passed, lines.size() - 1);
  EXPECT_EQ(lines.size() - 1, 485u);
}

}  // namespace
}  // namespace cairn::jinja
