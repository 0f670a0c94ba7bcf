#include "chat/history.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/text/json.h"
#include "chat/generic_tools.h"

namespace cairn::chat {
namespace {

using nlohmann::ordered_json;

// Letters and digits of a call's id where a template demands them (Mistral's).
constexpr size_t kIdBytes = 9;

bool is_role(const ordered_json& message, std::string_view role) {
  const auto found = message.find("role");
  return found != message.end() && found->is_string() && found->get_ref<const std::string&>() == role;
}

bool has_calls(const ordered_json& message) {
  const auto calls = message.find("tool_calls");
  return calls != message.end() && calls->is_array() && !calls->empty();
}

bool is_blank(std::string_view text) { return text.find_first_not_of(" \t\r\n") == std::string_view::npos; }

bool has_no_text(const ordered_json& message) {
  const auto content = message.find("content");
  if (content == message.end() || content->is_null()) return true;
  if (content->is_string()) return is_blank(content->get_ref<const std::string&>());
  return content->is_array() && std::ranges::all_of(*content, [](const ordered_json& part) {
           const auto text = part.is_object() ? part.find("text") : part.end();
           return part.is_object() && text != part.end() && text->is_string() &&
                  is_blank(text->get_ref<const std::string&>());
         });
}

ordered_json message_of(std::string_view role, ordered_json content) {
  return {{"role", role}, {"content", std::move(content)}};
}

ordered_json take_content(ordered_json& message) {
  const auto content = message.find("content");
  return content == message.end() || content->is_null() ? ordered_json("") : std::move(*content);
}

/// Appends a content, which is a string or a list of parts, to another one.
void append_content(ordered_json& content, ordered_json more, std::string_view between) {
  if (content.is_null()) content = "";
  if (content.is_string() && more.is_string()) {
    auto& text = content.get_ref<std::string&>();
    if (!text.empty() && !more.get_ref<const std::string&>().empty()) text += between;
    text += more.get_ref<const std::string&>();
    return;
  }
  const auto as_parts = [](ordered_json& value) {
    if (value.is_string())
      value = value == "" ? ordered_json::array()
                          : ordered_json::array({ordered_json{{"type", "text"}, {"text", std::move(value)}}});
  };
  as_parts(content);
  as_parts(more);
  for (auto& part : more) content.push_back(std::move(part));
}

/// An id of nine letters and digits, the same for the same id.
std::string short_id(const std::string& id) {
  const auto is_valid = [](unsigned char c) { return std::isalnum(c) != 0; };
  if (id.size() == kIdBytes && std::ranges::all_of(id, is_valid)) return id;
  return fmt::format("{:016x}", hash64(id)).substr(0, kIdBytes);
}

std::string string_of(const ordered_json& object, std::string_view name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::string function_name(const ordered_json& call) {
  const auto function = call.find("function");
  return function != call.end() && function->is_object() ? string_of(*function, "name") : std::string();
}

class Fitter {
 public:
  Fitter(ChatInput& input, const HistoryRules& rules)
      : input_(input), can_(rules.can), rules_(rules), given_(std::move(input.messages)) {}

  void fit() {
    const auto is_result = [](const ordered_json& message) { return message.is_object() && is_role(message, "tool"); };
    system_in_user_ =
        !can_.system_role || (can_.results && !can_.system_with_results && std::ranges::any_of(given_, is_result));
    fit_tools();
    for (next_ = 0; next_ < given_.size();) {
      const bool sampled = sampled_at(next_);
      ordered_json& message = given_[next_++];
      if (message.is_object() && message.contains("role") && message["role"].is_string()) {
        add(message, sampled);
      } else {
        made_.push_back(std::move(message));
      }
    }
    if (!system_.is_null()) add_user(message_of("user", std::exchange(system_, nullptr)));
    // The model would go on behind its own call, and some templates leave a last message of the assistant's out.
    if (input_.add_generation_prompt && last_is("assistant") && has_calls(made_.back())) answer_open_calls();
    add_missing_user();
    input_.messages = std::move(made_);
    input_.sampled.clear();
  }

 private:
  struct OpenCall {
    std::string id;
    std::string name;
  };

  bool sampled_at(size_t i) const { return std::ranges::binary_search(input_.sampled, i); }
  bool last_is(std::string_view role) const { return !made_.empty() && is_role(made_.back(), role); }

  void fit_tools();
  void add(ordered_json& message, bool sampled);
  void add_system(ordered_json& message);
  void add_user(ordered_json message);
  void add_assistant(ordered_json& message, bool sampled);
  void add_calls(ordered_json message);
  void add_result(ordered_json message);
  void add_missing_user();
  void split_calls(ordered_json& message);
  void answer_open_calls();
  void put_system_first();
  void fit_arguments(ordered_json& call) const;
  void fit_call(ordered_json& call) const;

  ChatInput& input_;
  const ChatCapabilities& can_;
  const HistoryRules& rules_;
  ordered_json given_;
  ordered_json made_ = ordered_json::array();
  size_t next_ = 0;              // of given_
  ordered_json system_;          // content that the first user's message begins with; null: none
  bool system_in_user_ = false;  // the system's text begins the first user's message
  bool only_systems_ = true;     // so far
  bool has_user_ = false;
  bool results_last_ = false;   // the last message has results as a user's text
  std::vector<OpenCall> open_;  // calls without a result
};

// One of several types is taken: the one that is not null; of several of those the first.
void choose_type(ordered_json& schema) {
  const auto types = schema.find("type");
  if (types == schema.end() || !types->is_array() || types->empty()) return;
  const auto chosen = std::ranges::find_if(*types, [](const ordered_json& type) { return type != "null"; });
  ordered_json type = chosen == types->end() ? types->front() : *chosen;
  *types = std::move(type);
}

// Templates take schemas for objects: true, which is any value, becomes {}.
void simplify_schema(ordered_json& schema, const ChatCapabilities& can) {
  if (schema == true) schema = ordered_json::object();
  if (!schema.is_object()) return;
  if (!can.type_lists) choose_type(schema);
  if (const auto items = schema.find("items"); items != schema.end()) simplify_schema(*items, can);
  if (const auto properties = schema.find("properties"); properties != schema.end() && properties->is_object())
    for (ordered_json& property : *properties) simplify_schema(property, can);
  for (const auto* name : {"anyOf", "oneOf", "allOf"}) {
    const auto choices = schema.find(name);
    if (choices == schema.end() || !choices->is_array()) continue;
    for (ordered_json& choice : *choices) simplify_schema(choice, can);
  }
}

void Fitter::fit_tools() {
  if (!input_.tools.is_array() || input_.tools.empty()) {
    input_.tools = nullptr;
    return;
  }
  for (ordered_json& tool : input_.tools) {
    const auto function = tool.is_object() ? tool.find("function") : tool.end();
    if (!tool.is_object() || function == tool.end() || !function->is_object()) continue;
    auto& parameters = (*function)["parameters"];
    if (!parameters.is_object()) parameters = ordered_json{{"type", "object"}};
    if (!parameters.contains("properties") || !parameters["properties"].is_object())
      parameters["properties"] = ordered_json::object();
    if (parameters.contains("required") && parameters["required"].is_null()) parameters.erase("required");
    simplify_schema(parameters, can_);
    if (can_.bare_properties) continue;
    for (auto& [name, property] : parameters["properties"].items())
      if (property.is_object() && !property.contains("description")) property["description"] = "";
  }
  if (can_.tools) return;
  ordered_json text = tools_as_text(input_.tools, rules_.style);
  input_.tools = nullptr;
  if (!given_.empty() && given_[0].is_object() && is_role(given_[0], "system")) {
    append_content(given_[0]["content"], std::move(text), "\n");
  } else {
    ordered_json system = message_of("system", std::move(text));
    add_system(system);
  }
}

void Fitter::add(ordered_json& message, bool sampled) {
  const std::string role = message["role"];
  if (role == "system") return add_system(message);
  put_system_first();
  if (role == "user") {
    add_user(std::move(message));
  } else if (role == "assistant") {
    add_assistant(message, sampled);
  } else if (role == "tool") {
    add_result(std::move(message));
  } else if (rules_.shows_role(role)) {
    made_.push_back(std::move(message));
  } else {
    message["role"] = "user";
    add_user(std::move(message));
  }
}

void Fitter::add_system(ordered_json& message) {
  if (!only_systems_) {
    if (can_.later_system) {
      made_.push_back(std::move(message));
    } else {
      message["role"] = "user";
      add_user(std::move(message));
    }
    return;
  }
  if (system_in_user_) {
    append_content(system_, take_content(message), "\n\n");
  } else if (!made_.empty() && !can_.several_systems) {
    append_content(made_.back()["content"], take_content(message), "\n\n");
  } else {
    made_.push_back(std::move(message));
  }
}

// Where the system's text is part of the first user's message, that comes now.
void Fitter::put_system_first() {
  if (!only_systems_) return;
  only_systems_ = false;
  if (system_.is_null()) return;
  if (given_[next_ - 1].is_object() && is_role(given_[next_ - 1], "user")) {
    ordered_json& content = given_[next_ - 1]["content"];
    ordered_json text = std::exchange(system_, nullptr);
    append_content(text, std::move(content), "\n\n");
    content = std::move(text);
  } else {
    add_user(message_of("user", std::exchange(system_, nullptr)));
  }
}

void Fitter::add_user(ordered_json message) {
  if (!can_.unanswered_calls) answer_open_calls();
  open_.clear();
  has_user_ = true;
  const bool after_results = std::exchange(results_last_, false);
  if (last_is("user") && (!can_.repeated_user || after_results)) {
    append_content(made_.back()["content"], take_content(message), "\n\n");
  } else if (last_is("tool") && !can_.user_after_result) {
    append_content(made_.back()["content"], take_content(message), "\n\n");
  } else {
    made_.push_back(std::move(message));
  }
}

void Fitter::add_assistant(ordered_json& message, bool sampled) {
  const bool calls = has_calls(message);
  if (!calls && !can_.empty_answers && has_no_text(message)) return;
  if (!can_.unanswered_calls) answer_open_calls();
  results_last_ = false;
  const bool is_first = made_.empty() || is_role(made_.back(), "system");
  if (is_first && !has_user_ && !can_.assistant_first) {
    made_.push_back(message_of("user", ""));
    has_user_ = true;
  }
  const bool has_answer_before = last_is("assistant") && !has_calls(made_.back());
  if (has_answer_before && !can_.repeated_assistant && (!calls || can_.text_beside_calls)) {
    append_content(made_.back()["content"], take_content(message), "\n\n");
    if (!calls) return;
    message["content"] = std::move(made_.back()["content"]);
    made_.erase(made_.size() - 1);
  }
  if (!calls) {
    open_.clear();
    made_.push_back(std::move(message));
    return;
  }
  open_.clear();
  for (const ordered_json& call : message["tool_calls"])
    if (call.is_object()) open_.push_back({string_of(call, "id"), function_name(call)});
  if (!sampled && can_.calls && !can_.text_beside_calls && can_.text_before_calls && !has_no_text(message))
    made_.push_back(message_of("assistant", std::exchange(message["content"], "")));
  if (sampled) {
    message.erase("tool_calls");
    made_.push_back(std::move(message));
  } else if (can_.calls && !can_.parallel_calls && message["tool_calls"].size() > 1) {
    split_calls(message);
  } else {
    add_calls(std::move(message));
  }
}

// Adds a message with calls, in the form that the template takes.
void Fitter::add_calls(ordered_json message) {
  if (!can_.calls) {
    auto& content = message["content"];
    for (const ordered_json& call : message["tool_calls"])
      append_content(content, call_as_text(call, rules_.style), "\n");
    message.erase("tool_calls");
  } else {
    for (ordered_json& call : message["tool_calls"]) fit_call(call);
  }
  made_.push_back(std::move(message));
}

// One message for every call, and its result behind it.
void Fitter::split_calls(ordered_json& message) {
  ordered_json calls = std::move(message["tool_calls"]);
  std::vector<ordered_json> results;
  while (next_ < given_.size() && given_[next_].is_object() && is_role(given_[next_], "tool"))
    results.push_back(std::move(given_[next_++]));
  std::multimap<std::string, size_t> by_id;
  for (size_t i = 0; i < results.size(); ++i) by_id.emplace(string_of(results[i], "tool_call_id"), i);
  std::vector<bool> added(results.size());
  for (ordered_json& call : calls) {
    ordered_json one = message_of("assistant", "");
    if (&call == &calls.front()) one = std::move(message);
    open_ = {{string_of(call, "id"), function_name(call)}};
    const auto found = by_id.lower_bound(open_[0].id);
    one["tool_calls"] = ordered_json::array({std::move(call)});
    add_calls(std::move(one));
    if (found == by_id.end() || found->first != open_[0].id) {
      if (!can_.unanswered_calls) answer_open_calls();
      continue;
    }
    added[found->second] = true;
    add_result(std::move(results[found->second]));
    by_id.erase(found);
  }
  for (size_t i = 0; i < results.size(); ++i)
    if (!added[i]) add_result(std::move(results[i]));
}

void Fitter::add_result(ordered_json message) {
  const std::string id = string_of(message, "tool_call_id");
  const auto call = std::ranges::find(open_, id, &OpenCall::id);
  const bool answers = call != open_.end();
  if (answers) {
    // Many templates write the function's name in front of its result.
    if (!message.contains("name") && !call->name.empty()) message["name"] = call->name;
    open_.erase(call);
  } else if (!message.contains("name")) {
    message["name"] = "tool";
  }
  if (!can_.results || (!answers && !can_.orphan_results)) {
    ordered_json text = result_as_text(take_content(message));
    if (results_last_) return append_content(made_.back()["content"], std::move(text), "\n");
    std::vector<OpenCall> open = std::exchange(open_, {});
    add_user(message_of("user", std::move(text)));
    open_ = std::move(open);
    results_last_ = true;
    return;
  }
  results_last_ = false;
  if (!can_.any_call_id) message["tool_call_id"] = short_id(id);
  made_.push_back(std::move(message));
}

// Gives calls that nothing has answered an empty result.
void Fitter::answer_open_calls() {
  if (!can_.results || !can_.calls) return open_.clear();
  while (!open_.empty()) {
    ordered_json result = message_of("tool", "");
    result["tool_call_id"] = open_.front().id;
    add_result(std::move(result));
  }
}

void Fitter::add_missing_user() {
  if (has_user_ || can_.no_user) return;
  size_t at = 0;
  while (at < made_.size() && made_[at].is_object() && is_role(made_[at], "system")) ++at;
  made_.insert(made_.begin() + static_cast<std::ptrdiff_t>(at), message_of("user", ""));
}

void Fitter::fit_call(ordered_json& call) const {
  if (!call.is_object() || !call.contains("function") || !call["function"].is_object()) return;
  if (!can_.any_call_id) call["id"] = short_id(string_of(call, "id"));
  fit_arguments(call["function"]);
}

void Fitter::fit_arguments(ordered_json& function) const {
  auto& arguments = function["arguments"];
  if (arguments.is_string()) {
    const auto& text = arguments.get_ref<const std::string&>();
    // What some models and clients write for no arguments.
    if (is_blank(text) || text == "null") arguments = ordered_json::object();
  } else if (!arguments.is_object()) {
    arguments = arguments.is_null() ? ordered_json::object() : ordered_json(written_json(arguments));
  }
  if (!can_.object_arguments) {
    if (!arguments.is_string()) arguments = written_json(arguments);
    return;
  }
  if (!arguments.is_string()) return;
  auto parsed = read_json(arguments.get_ref<const std::string&>());
  if (parsed && parsed->is_object()) {
    arguments = std::move(*parsed);
  } else if (!can_.string_arguments) {
    arguments = ordered_json{{"arguments", std::move(arguments)}};
  }
}

}  // namespace

void fit_history(ChatInput& input, const HistoryRules& rules) { Fitter(input, rules).fit(); }

}  // namespace cairn::chat
