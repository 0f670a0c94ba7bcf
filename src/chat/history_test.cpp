// The conversations that agents really send, over the chat templates of real models: each is rendered, and nothing of
// it is lost. Every text, argument, name and result has a word of its own, which must be in the prompt.
#include "chat/history.h"
#include "base/testing/test_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace cairn::chat {
namespace {

using nlohmann::ordered_json;

/// A conversation, and the words in it.
class Story {
 public:
  std::string word() {
    words.push_back("wq" + std::to_string(words.size()) + "x");
    return words.back();
  }
  Story& add(std::string_view role, ordered_json content) {
    input.messages.push_back({{"role", role}, {"content", std::move(content)}});
    return *this;
  }
  Story& system() { return add("system", word()); }
  Story& user() { return add("user", word()); }
  Story& answer() { return add("assistant", word()); }
  /// Calls with one argument each, of which the text stands beside them.
  Story& call(int count = 1, bool with_text = false, std::string_view id_prefix = "call0000") {
    add("assistant", with_text ? ordered_json(word()) : ordered_json(""));
    for (int i = 0; i < count; ++i) {
      const std::string name = word();
      ordered_json arguments = {{word(), word()}};
      call_raw(std::string(id_prefix) + std::to_string(i), name, arguments.dump());
    }
    return *this;
  }
  Story& call_raw(const std::string& id, const std::string& name, ordered_json arguments) {
    input.messages.back()["tool_calls"].push_back(
        {{"id", id}, {"type", "function"}, {"function", {{"name", name}, {"arguments", std::move(arguments)}}}});
    return *this;
  }
  /// An answer whose only call has these arguments.
  Story& call_with(ordered_json arguments) {
    return add("assistant", "").call_raw("call00000", word(), std::move(arguments));
  }
  Story& result(std::string_view id = "call00000") {
    add("tool", word());
    input.messages.back()["tool_call_id"] = id;
    return *this;
  }
  Story& tool(ordered_json parameters) {
    if (input.tools.is_null()) input.tools = ordered_json::array();
    input.tools.push_back(
        {{"type", "function"},
         {"function", {{"name", word()}, {"description", word()}, {"parameters", std::move(parameters)}}}});
    return *this;
  }
  Story& tool() {
    return tool({{"type", "object"}, {"properties", {{word(), {{"type", "string"}, {"description", word()}}}}}});
  }
  ordered_json parts(int count) {
    ordered_json list = ordered_json::array();
    for (int i = 0; i < count; ++i) list.push_back({{"type", "text"}, {"text", word()}});
    return list;
  }

  ChatInput input;
  std::vector<std::string> words;
};

struct Case {
  const char* name;
  std::function<void(Story&)> tell;
};

const Case kCases[] = {
    {"one question", [](Story& s) { s.user(); }},
    {"a system message", [](Story& s) { s.system().user(); }},
    {"two system messages", [](Story& s) { s.system().system().user(); }},
    {"three system messages and a conversation", [](Story& s) { s.system().system().system().user().answer().user(); }},
    {"a system message between turns", [](Story& s) { s.system().user().answer().system().user(); }},
    {"a system message in front of an answer", [](Story& s) { s.user().system().answer().user(); }},
    {"a system message at the end", [](Story& s) { s.system().user().system(); }},
    {"a system message at the end, after an answer", [](Story& s) { s.user().answer().system(); }},
    {"a system message after a result", [](Story& s) { s.tool().system().user().call().result().system().user(); }},
    {"a system message alone", [](Story& s) { s.system(); }},
    {"two questions", [](Story& s) { s.user().user(); }},
    {"three questions after an answer", [](Story& s) { s.user().answer().user().user().user(); }},
    {"two answers", [](Story& s) { s.user().answer().answer().user(); }},
    {"an answer first", [](Story& s) { s.answer().user(); }},
    {"a system message and an answer first", [](Story& s) { s.system().answer().user(); }},
    {"an answer alone", [](Story& s) { s.answer(); }},
    {"an empty answer", [](Story& s) { s.user().add("assistant", "").user(); }},
    {"a blank answer", [](Story& s) { s.user().add("assistant", "\n ").user(); }},
    {"an empty question", [](Story& s) { s.add("user", "").answer().user(); }},
    {"an answer at the end", [](Story& s) { s.user().answer(); }},
    {"parts",
     [](Story& s) {
       s.add("system", s.parts(2)).add("user", s.parts(2)).add("assistant", s.parts(2)).add("user", s.parts(1));
     }},
    {"a call and its result", [](Story& s) { s.tool().user().call().result(); }},
    {"a call, its result and an answer", [](Story& s) { s.tool().system().user().call().result().answer().user(); }},
    {"two steps", [](Story& s) { s.tool().user().call().result().call().result().answer().user(); }},
    {"a text beside a call", [](Story& s) { s.tool().user().call(1, true).result(); }},
    {"text after a result", [](Story& s) { s.tool().user().call().result().user(); }},
    {"text after each result", [](Story& s) { s.tool().user().call().result().user().call().result().user(); }},
    {"parallel calls", [](Story& s) { s.tool().tool().user().call(2).result("call00000").result("call00001"); }},
    {"three parallel calls, results in another order",
     [](Story& s) {
       s.tool().user().call(3).result("call00002").result("call00000").result("call00001").answer().user();
     }},
    {"parallel calls and a text after the results",
     [](Story& s) { s.tool().user().call(2, true).result("call00000").result("call00001").user(); }},
    {"parallel calls, one result", [](Story& s) { s.tool().user().call(2).result("call00001").user(); }},
    {"a call without a result", [](Story& s) { s.tool().user().call().user(); }},
    {"a call without a result, then an answer", [](Story& s) { s.tool().user().call().answer().user(); }},
    {"a call at the end", [](Story& s) { s.tool().user().call(); }},
    {"ids of another server",
     [](Story& s) {
       s.tool().user().call(2, false, "toolu_01-A_bcdef").result("toolu_01-A_bcdef0").result("toolu_01-A_bcdef1");
     }},
    {"the same id twice",
     [](Story& s) {
       s.tool()
           .user()
           .add("assistant", "")
           .call_raw("c", s.word(), "{}")
           .call_raw("c", s.word(), "{}")
           .result("c")
           .result("c");
     }},
    {"a result without a call", [](Story& s) { s.user().result().user(); }},
    {"a result without a call after an answer",
     [](Story& s) { s.tool().user().answer().result("nobody").answer().user(); }},
    {"more results than calls", [](Story& s) { s.tool().user().call().result().result("nobody").user(); }},
    {"a question between a call and its result", [](Story& s) { s.tool().user().call().user().result().user(); }},
    {"an empty result",
     [](Story& s) {
       s.tool().user().call().add("tool", "");
       s.input.messages.back()["tool_call_id"] = "call00000";
       s.answer().user();
     }},
    {"a result of parts",
     [](Story& s) {
       s.tool().user().call().add("tool", s.parts(2));
       s.input.messages.back()["tool_call_id"] = "call00000";
     }},
    {"no arguments", [](Story& s) { s.tool().user().call_with("").result().user(); }},
    {"blank arguments", [](Story& s) { s.tool().user().call_with(" \n").result(); }},
    {"null as arguments", [](Story& s) { s.tool().user().call_with("null").result(); }},
    {"cut arguments", [](Story& s) { s.tool().user().call_with("{\"" + s.word() + "\": \"" + s.word()).result(); }},
    {"arguments that are a list", [](Story& s) { s.tool().user().call_with("[\"" + s.word() + "\"]").result(); }},
    {"arguments that are a text", [](Story& s) { s.tool().user().call_with(s.word()).result(); }},
    {"arguments that are an object",
     [](Story& s) { s.tool().user().call_with(ordered_json{{s.word(), {{s.word(), {1, s.word()}}}}}).result(); }},
    {"calls in the history, and no tools", [](Story& s) { s.user().call().result().answer().user(); }},
    {"calls and a text after a result, and no tools",
     [](Story& s) { s.system().user().call(2).result("call00000").result("call00001").user(); }},
    {"tools without parameters",
     [](Story& s) { s.tool(ordered_json::object()).tool(nullptr).tool({{"type", "object"}}).user(); }},
    {"tools with null where a list belongs",
     [](Story& s) {
       s.tool({{"type", "object"}, {"properties", {{s.word(), {{"type", "string"}}}}}, {"required", nullptr}}).user();
     }},
    {"tools with parameters of several types, of any type, and named as templates name things",
     [](Story& s) {
       const ordered_json type = {{"type", {"string", "null"}}, {"description", s.word()}};
       const ordered_json list = {{"type", "array"}, {"items", true}, {"description", s.word()}};
       s.tool({{"type", "object"}, {"properties", {{s.word(), type}, {s.word(), list}, {s.word(), true}}}}).user();
       ordered_json named = ordered_json::object();
       for (const auto* name : {"items", "keys", "values", "get"})
         named[name] = {{"type", "string"}, {"description", "x"}};
       s.tool({{"type", "object"}, {"properties", std::move(named)}}).user();
     }},
    {"tools and several system messages",
     [](Story& s) { s.tool().system().system().user().call().result().system().user(); }},
    {"another role", [](Story& s) { s.user().add("control", s.word()).user(); }},
    {"a result of a function of old", [](Story& s) { s.user().answer().add("ipython", s.word()).answer().user(); }},
    {"marks of channels",
     [](Story& s) { s.user().add("assistant", "<|channel|>analysis<|message|>" + s.word()).user(); }},
    {"thinking",
     [](Story& s) {
       s.tool().user().call(1, true);
       s.input.messages.back()["reasoning_content"] = "hm";
       s.result().answer();
       s.input.messages.back()["reasoning_content"] = "hm";
       s.user();
     }},
};

std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// What a template leaves out of what it can place, on purpose: template, conversation, and why.
struct Exception {
  std::string_view name;
  std::string_view conversation;  ///< empty: all
  std::string_view why;
};
constexpr std::string_view kNoPlace =
    "the template leaves out the text beside a call, and wants answers and questions to alternate";
constexpr Exception kExceptions[] = {
    {"mistralai-Mistral-Nemo-Instruct-2407", "a text beside a call", kNoPlace},
    {"mistralai-Mistral-Nemo-Instruct-2407", "parallel calls and a text after the results", kNoPlace},
    {"mistralai-Mistral-Nemo-Instruct-2407", "thinking", kNoPlace},
    {"Mistral-Small-3.2-24B-Instruct-2506", "a text beside a call", kNoPlace},
    {"Mistral-Small-3.2-24B-Instruct-2506", "parallel calls and a text after the results", kNoPlace},
    {"Mistral-Small-3.2-24B-Instruct-2506", "thinking", kNoPlace},
    {"openai-gpt-oss-120b", "thinking", "a text beside a call is thinking there, and goes with the final answer"},
};

bool is_exception(std::string_view name, std::string_view conversation) {
  return std::ranges::any_of(kExceptions, [&](const Exception& each) {
    return each.name == name && (each.conversation.empty() || each.conversation == conversation);
  });
}

TEST(History, EveryTemplateShowsAllOfEveryConversation) {
  int templates = 0;
  int lost = 0;
  for (const auto& entry : std::filesystem::directory_iterator(test_data() + "/chat-templates")) {
    if (entry.path().extension() != ".jinja") continue;
    const std::string name = entry.path().stem();
    const auto made = ChatTemplate::create(read_text(entry.path()), "<s>", "</s>");
    ASSERT_TRUE(made.has_value()) << name;
    ++templates;
    for (const Case& each : kCases) {
      Story story;
      each.tell(story);
      const auto rendered = made->render(story.input, 1768480496);
      if (!rendered) {
        ++lost;
        ADD_FAILURE() << name << ": " << each.name << ": " << rendered.error().message;
        continue;
      }
      std::string missing;
      for (const std::string& word : story.words)
        if (rendered->text.find(word) == std::string::npos) missing += " " + word;
      const bool excused = is_exception(name, each.name);
      lost += missing.empty() ? 0 : 1;
      EXPECT_EQ(missing.empty(), !excused) << name << ": " << each.name << ": " << missing << "\n"
                                           << story.input.messages.dump() << "\n"
                                           << rendered->text;
    }
  }
  std::printf("%zu conversations over %d templates, %d of them not whole\n", std::size(kCases), templates, lost);
  EXPECT_GE(std::size(kCases), 45u);
  EXPECT_EQ(templates, 70);
}

}  // namespace
}  // namespace cairn::chat
