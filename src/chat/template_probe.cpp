#include "chat/template_probe.h"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

namespace cairn::chat {
namespace {

using nlohmann::ordered_json;

// Words of the probes: they occur in a rendering only if the template showed them.
constexpr std::string_view kUser = "cairnuser";
constexpr std::string_view kUser2 = "cairnsecond";
constexpr std::string_view kAnswer = "cairnanswer";
constexpr std::string_view kAnswer2 = "cairnafter";
constexpr std::string_view kSystem = "cairnsystem";
constexpr std::string_view kSystem2 = "cairnrule";
constexpr std::string_view kTool = "cairntool";
constexpr std::string_view kTool2 = "cairnother";
constexpr std::string_view kKey = "cairnkey";
constexpr std::string_view kKey2 = "cairnarg";
constexpr std::string_view kResult = "cairnresult";
constexpr std::string_view kResult2 = "cairnoutput";
constexpr std::string_view kThought = "cairnthought";
constexpr std::string_view kRaw = "cairnraw";

// Ids that every template takes, and one that some refuse.
constexpr std::string_view kId = "call00001";
constexpr std::string_view kId2 = "call00002";
constexpr std::string_view kLongId = "toolu_01_A-long";

bool shows(const Result<jinja::Rendering>& rendered, std::string_view word) {
  return rendered.has_value() && rendered->text.find(word) != std::string::npos;
}

using Messages = std::initializer_list<ordered_json>;
using Words = std::initializer_list<std::string_view>;

class Probe {
 public:
  explicit Probe(ProbeRenderer render) : render_(render) {
    const ordered_json function = {{"name", kTool},
                                   {"description", "A tool."},
                                   {"parameters", {{"type", "object"}, {"properties", ordered_json::object()}}}};
    tools_ = ordered_json::array({ordered_json{{"type", "function"}, {"function", function}}});
  }

  ChatCapabilities run() {
    if (!probe_content()) return std::move(can_);
    probe_roles();
    probe_tools();
    return std::move(can_);
  }

  /// Whether the conversation is rendered, and all words are in it.
  bool all_shown(Messages messages, Words words, const ordered_json& tools = nullptr) const {
    ordered_json list = ordered_json::array();
    for (const ordered_json& message : messages) list.push_back(message);
    const auto rendered = render_(std::move(list), tools);
    return std::ranges::all_of(words, [&](std::string_view word) { return shows(rendered, word); });
  }
  ordered_json message(std::string_view role, std::string_view text) const {
    return {{"role", role}, {"content", can_.string_content ? ordered_json(text) : text_parts(text)}};
  }

 private:
  bool probe_content();
  void probe_roles();
  void probe_tools();
  void probe_arguments();

  ordered_json call(std::string_view id, std::string_view name, ordered_json arguments) const {
    return {{"id", id}, {"type", "function"}, {"function", {{"name", name}, {"arguments", std::move(arguments)}}}};
  }
  ordered_json arguments(std::string_view key) const {
    const ordered_json object = {{key, "value"}};
    return can_.object_arguments ? object : ordered_json(object.dump());
  }
  ordered_json calling(ordered_json calls, std::string_view text = "") const {
    ordered_json made = message("assistant", text);
    made["tool_calls"] = std::move(calls);
    return made;
  }
  ordered_json result(std::string_view id, std::string_view name, std::string_view text) const {
    ordered_json made = message("tool", text);
    made["tool_call_id"] = id;
    made["name"] = name;
    return made;
  }
  // History may have calls while the request has no tools.
  bool both_shown(Messages messages, Words words) const {
    return all_shown(messages, words, tools_) && all_shown(messages, words);
  }

  ProbeRenderer render_;
  ordered_json tools_;
  ChatCapabilities can_;
};

bool Probe::probe_content() {
  const bool shows_string = all_shown({{{"role", "user"}, {"content", kUser}}}, {kUser});
  const auto with_list = [&](std::string_view role, std::string_view first, std::string_view second) {
    ordered_json parts = text_parts(first);
    parts.push_back(text_parts(second)[0]);
    ordered_json messages = ordered_json::array({{{"role", "user"}, {"content", text_parts(kUser)}}});
    if (role == "user") messages.clear();
    messages.insert(role == "system" ? messages.begin() : messages.end(),
                    ordered_json{{"role", role}, {"content", std::move(parts)}});
    const auto rendered = render_(std::move(messages), nullptr);
    // A template that prints the list itself, as Python or as JSON, does not support lists.
    const bool prints_list = shows(rendered, "'type'") || shows(rendered, "\"type\"");
    return !rendered.has_value() || prints_list ? std::optional<bool>()
                                                : shows(rendered, first) && shows(rendered, second);
  };
  can_.list_content = with_list("user", kUser, kUser2).value_or(false);
  // Some show the first part only of what they take for a string elsewhere.
  for (const auto& [role, first, second] :
       {std::tuple("system", kSystem, kSystem2), std::tuple("assistant", kAnswer, kAnswer2),
        std::tuple("tool", kResult, kResult2)}) {
    const ordered_json user = {{"role", "user"}, {"content", kUser}};
    const ordered_json other = {{"role", role}, {"content", first}};
    const bool as_string =
        role == std::string_view("system") ? all_shown({other, user}, {first}) : all_shown({user, other}, {first});
    if (shows_string && as_string && !with_list(role, first, second).value_or(false)) can_.list_content = false;
  }
  can_.string_content = shows_string || !can_.list_content;
  return shows_string || can_.list_content;
}

void Probe::probe_roles() {
  const ordered_json user = message("user", kUser), user2 = message("user", kUser2);
  const ordered_json answer = message("assistant", kAnswer), answer2 = message("assistant", kAnswer2);
  const ordered_json system = message("system", kSystem), system2 = message("system", kSystem2);
  can_.system_role = all_shown({system, user}, {kSystem, kUser});
  can_.several_systems = all_shown({system, system2, user}, {kSystem, kSystem2, kUser});
  can_.later_system = all_shown({system, user, answer, system2, user2}, {kSystem, kUser, kAnswer, kSystem2, kUser2}) &&
                      all_shown({user, system2}, {kUser, kSystem2});
  can_.repeated_user = all_shown({user, user2}, {kUser, kUser2});
  can_.repeated_assistant = all_shown({user, answer, answer2, user2}, {kUser, kAnswer, kAnswer2, kUser2});
  can_.assistant_first = all_shown({answer, user}, {kAnswer, kUser});
  can_.no_user = all_shown({answer}, {kAnswer}) && (!can_.system_role || all_shown({system}, {kSystem}));
  can_.empty_answers = all_shown({user, message("assistant", ""), user2}, {kUser, kUser2});
}

void Probe::probe_arguments() {
  const ordered_json user = message("user", kUser);
  for (const ordered_json& tools : {tools_, ordered_json()}) {
    ordered_json with_object =
        ordered_json::array({user, calling(ordered_json::array({call(kId, kTool, ordered_json{{kKey, "value"}})}))});
    const auto rendered = render_(std::move(with_object), tools);
    can_.object_arguments |= shows(rendered, kKey) && !shows(rendered, fmt::format("'{}'", kKey));
  }
  const std::string raw = fmt::format("{{\"{}\": ", kRaw);
  can_.string_arguments =
      both_shown({user, calling(ordered_json::array({call(kId, kTool, raw)}))}, {kUser, kTool, kRaw});
}

void Probe::probe_tools() {
  const ordered_json user = message("user", kUser), user2 = message("user", kUser2);
  const ordered_json answer = message("assistant", kAnswer);
  can_.tools = all_shown({user}, {kTool}, tools_) || all_shown({message("system", kSystem), user}, {kTool}, tools_);
  probe_arguments();
  ordered_json bare = tools_;
  bare[0]["function"]["parameters"]["properties"][kKey] = {{"type", "string"}};
  can_.bare_properties = !can_.tools || all_shown({user}, {kTool}, bare);
  ordered_json several = tools_;
  several[0]["function"]["parameters"]["properties"][kKey] = {{"type", {"string", "null"}}, {"description", kKey}};
  can_.type_lists = !can_.tools || all_shown({user}, {kTool}, several);

  const ordered_json called = calling(ordered_json::array({call(kId, kTool, arguments(kKey))}));
  const ordered_json answered = result(kId, kTool, kResult);
  can_.calls = both_shown({user, called}, {kUser, kTool, kKey});
  can_.results = can_.calls && both_shown({user, called, answered}, {kUser, kKey, kResult});
  can_.unanswered_calls = both_shown({user, called, user2}, {kUser, kKey, kUser2}) &&
                          both_shown({user, called, answer}, {kUser, kKey, kAnswer});
  can_.user_after_result = both_shown({user, called, answered, user2}, {kUser, kKey, kResult, kUser2});
  can_.orphan_results =
      both_shown({user, answered, answer, result(kId2, kTool2, kResult2)}, {kResult, kResult2}) &&
      both_shown({user, answer, answered, message("assistant", kAnswer2), user2}, {kAnswer, kResult, kAnswer2, kUser2});
  can_.text_before_calls =
      both_shown({user, answer, called, answered, message("assistant", kAnswer2)}, {kAnswer, kKey, kResult, kAnswer2});
  can_.system_with_results =
      !can_.results || both_shown({message("system", kSystem), user, called, answered}, {kSystem, kResult});
  can_.text_beside_calls =
      both_shown({user, calling(called["tool_calls"], kAnswer), answered}, {kUser, kAnswer, kKey, kResult});
  const ordered_json both =
      ordered_json::array({call(kId, kTool, arguments(kKey)), call(kId2, kTool2, arguments(kKey2))});
  can_.parallel_calls = both_shown({user, calling(both), answered, result(kId2, kTool2, kResult2)},
                                   {kKey, kTool2, kKey2, kResult, kResult2});
  const ordered_json foreign = calling(ordered_json::array({call(kLongId, kTool, arguments(kKey))}));
  can_.any_call_id = both_shown({user, foreign, result(kLongId, kTool, kResult)}, {kKey, kResult});

  ordered_json thinking = called;
  thinking["reasoning_content"] = kThought;
  const bool shows_reasoning = all_shown({user, thinking, answered}, {kThought});
  thinking.erase("reasoning_content");
  thinking["thinking"] = kThought;
  can_.thinking_field = !shows_reasoning && all_shown({user, thinking, answered}, {kThought});
}

}  // namespace

ordered_json text_parts(std::string_view text) {
  return ordered_json::array({ordered_json{{"type", "text"}, {"text", text}}});
}

ChatCapabilities probe_template(ProbeRenderer render) { return Probe(render).run(); }

bool probe_role(ProbeRenderer render, const ChatCapabilities& can, const std::string& role) {
  const auto content = [&](std::string_view text) {
    return can.string_content ? ordered_json(text) : text_parts(text);
  };
  const ordered_json user = {{"role", "user"}, {"content", content(kUser)}};
  const ordered_json user2 = {{"role", "user"}, {"content", content(kUser2)}};
  const ordered_json answer = {{"role", "assistant"}, {"content", content(kAnswer)}};
  const ordered_json other = {{"role", role}, {"content", content(kResult)}};
  // It may stand in the place of a user's message or of an answer, or be counted as neither.
  for (const ordered_json& messages :
       {ordered_json{user, other, user2}, ordered_json{user, answer, other, answer, user2}}) {
    const auto rendered = render(messages, nullptr);
    if (!shows(rendered, kUser) || !shows(rendered, kResult) || !shows(rendered, kUser2)) return false;
  }
  return true;
}

}  // namespace cairn::chat
