#include "api/responses/transcript.h"

#include <algorithm>
#include <array>

#include "api/chat/messages.h"
#include "api/errors.h"
#include "api/params/request_fields.h"
#include "api/serialization/json_text.h"

namespace cairn::api::responses {
namespace {

using nlohmann::ordered_json;

// What tools leave in a conversation that this server does not run, or that are no functions.
constexpr std::array<std::string_view, 23> kLeftOut = {"web_search_call",
                                                       "file_search_call",
                                                       "code_interpreter_call",
                                                       "image_generation_call",
                                                       "computer_call",
                                                       "computer_call_output",
                                                       "local_shell_call",
                                                       "local_shell_call_output",
                                                       "shell_call",
                                                       "shell_call_output",
                                                       "apply_patch_call",
                                                       "apply_patch_call_output",
                                                       "custom_tool_call",
                                                       "custom_tool_call_output",
                                                       "mcp_call",
                                                       "mcp_list_tools",
                                                       "mcp_approval_request",
                                                       "mcp_approval_response",
                                                       "tool_search_call",
                                                       "tool_search_output",
                                                       "additional_tools",
                                                       "program",
                                                       "program_output"};

// A string that must be there; null counts as absent.
Result<std::string> required(const ordered_json& item, std::string_view name, const std::string& path) {
  const auto found = item.find(name);
  const std::string at = fmt::format("{}.{}", path, name);
  if (found == item.end() || found->is_null()) return invalid_field(at, "is missing");
  if (!found->is_string()) return invalid_field(at, fmt::format("must be a string, not {}", json_kind(*found)));
  if (found->get_ref<const std::string&>().empty()) return invalid_field(at, "is empty");
  return found->get<std::string>();
}

Result<std::string> part_text(const ordered_json& part, const std::string& path) {
  if (!part.is_object() || !part.contains("type") || !part["type"].is_string())
    return invalid_field(path, "must be an object with a type");
  static constexpr std::array<std::string_view, 6> kTexts = {"input_text", "output_text",  "text",
                                                             "refusal",    "summary_text", "reasoning_text"};
  const auto& type = part["type"].get_ref<const std::string&>();
  if (std::ranges::find(kTexts, type) == kTexts.end()) {
    return fail_at(path + ".type", Code::kUnsupported,
                   "{}.type {} is not supported: this model reads text only (input_text, output_text)", path,
                   quoted_value(type));
  }
  const std::string_view name = type == "refusal" ? "refusal" : "text";
  if (!part.contains(name) || !part[name].is_string())
    return invalid_field(fmt::format("{}.{}", path, name), "must be a string");
  return part[name].get<std::string>();
}

// A string, or an array of text parts: their texts.
Result<std::vector<std::string>> texts(const ordered_json& value, const std::string& path) {
  if (value.is_string()) return std::vector{value.get<std::string>()};
  if (!value.is_array())
    return invalid_field(path, fmt::format("must be a string or an array of parts, not {}", json_kind(value)));
  std::vector<std::string> read;
  read.reserve(value.size());
  for (size_t i = 0; i < value.size(); ++i) {
    CAIRN_TRY(std::string text, part_text(value[i], fmt::format("{}[{}]", path, i)));
    read.push_back(std::move(text));
  }
  return read;
}

// One text is a string, several are parts: the template joins them as it likes.
ordered_json content_of(std::vector<std::string> texts) {
  if (texts.empty()) return "";
  if (texts.size() == 1) return std::move(texts.front());
  ordered_json parts = ordered_json::array();
  for (auto& text : texts) parts.push_back({{"type", "text"}, {"text", std::move(text)}});
  return parts;
}

std::string joined(const std::vector<std::string>& texts, std::string_view between) {
  std::string all;
  for (size_t i = 0; i < texts.size(); ++i) {
    if (i > 0) all += between;
    all += texts[i];
  }
  return all;
}

}  // namespace

std::string item_type(const ordered_json& item) {
  const auto type = item.find("type");
  if (type != item.end() && type->is_string()) return type->get<std::string>();
  if (type != item.end() && !type->is_null()) return {};
  if (item.contains("role")) return "message";
  return item.contains("id") ? "item_reference" : "";
}

void Transcript::add_instructions(std::string_view text) {
  messages_.push_back({{"role", "system"}, {"content", text}});
}

ordered_json& Transcript::turn() {
  if (!in_turn_) messages_.push_back({{"role", "assistant"}, {"content", ""}});
  in_turn_ = true;
  return messages_.back();
}

Result<void> Transcript::add(const ordered_json& item, const std::string& path) {
  if (!item.is_object()) return invalid_field(path, fmt::format("must be an object, not {}", json_kind(item)));
  if (++items_ > kItemsMax) return fail_at(path, Code::kTooLarge, "the conversation has more than {} items", kItemsMax);
  const std::string type = item_type(item);
  if (type == "message") return add_message(item, path);
  if (type == "reasoning") return add_reasoning(item, path);
  if (type == "function_call") return add_call(item, path);
  if (type == "function_call_output") return add_call_output(item, path);
  if (std::ranges::find(kLeftOut, type) != kLeftOut.end()) {
    left_out_.insert(type);
    return {};
  }
  if (type.empty()) return invalid_field(path + ".type", "is missing or not a string");
  return fail_at(path + ".type", Code::kUnsupported,
                 "{}.type {} is not supported; messages, reasoning, function_call and function_call_output are", path,
                 quoted_value(type));
}

Result<void> Transcript::add_message(const ordered_json& item, const std::string& path) {
  CAIRN_TRY(const std::string role, required(item, "role", path));
  const bool assistant = role == "assistant";
  const bool system = role == "system" || role == "developer";
  if (!assistant && !system && role != "user") {
    return invalid_field(path + ".role",
                         fmt::format("{} is not one of user, assistant, system, developer", quoted_value(role)));
  }
  const auto content = item.find("content");
  const bool missing = content == item.end() || content->is_null();
  if (missing && !assistant) return invalid_field(path + ".content", "is missing");
  std::vector<std::string> said;
  if (!missing) {
    CAIRN_TRY(said, texts(*content, path + ".content"));
  }
  if (!assistant) {
    in_turn_ = said_text_ = false;
    messages_.push_back({{"role", system ? "system" : "user"}, {"content", content_of(std::move(said))}});
    return {};
  }
  if (said_text_) in_turn_ = false;
  auto& text = turn()["content"].get_ref<std::string&>();
  text += joined(said, "");
  said_text_ = true;
  return {};
}

Result<void> Transcript::add_reasoning(const ordered_json& item, const std::string& path) {
  std::string thought;
  // The thinking itself if it is there, else what was sent of it; what is encrypted elsewhere nobody here can read.
  for (const std::string_view name : {"content", "summary"}) {
    const auto found = item.find(name);
    if (found == item.end() || found->is_null()) continue;
    CAIRN_TRY(const auto said, texts(*found, fmt::format("{}.{}", path, name)));
    if (thought.empty()) thought = joined(said, name == "summary" ? "\n\n" : "");
  }
  said_text_ = false;
  if (thought.empty()) return {};
  auto& reasoning = turn()["reasoning_content"];
  reasoning = reasoning.is_null() ? thought : reasoning.get_ref<const std::string&>() + thought;
  return {};
}

Result<void> Transcript::add_call(const ordered_json& item, const std::string& path) {
  CAIRN_TRY(const std::string id, required(item, "call_id", path));
  CAIRN_TRY(const std::string name, required(item, "name", path));
  // A session must go on whatever a model once wrote, so that arguments may be any text.
  ordered_json arguments = item.contains("arguments") ? item["arguments"] : ordered_json(nullptr);
  if (arguments.is_null()) arguments = "{}";
  if (!arguments.is_string() && !arguments.is_object())
    return invalid_field(path + ".arguments", fmt::format("must be a string of JSON, not {}", json_kind(arguments)));
  auto& calls = turn()["tool_calls"];
  if (std::ranges::any_of(calls, [&](const auto& call) { return call["id"] == id; }))
    return invalid_field(path + ".call_id", fmt::format("{} is the id of another call of this turn", quoted_value(id)));
  if (calls.size() == kHistoryCallsMax)
    return fail_at(path, Code::kTooLarge, "{} is over the {} calls of one turn", path, kHistoryCallsMax);
  calls.push_back(
      {{"id", id}, {"type", "function"}, {"function", {{"name", name}, {"arguments", std::move(arguments)}}}});
  // Some models count their calls from zero in every turn.
  answered_[id] = false;
  said_text_ = false;
  return {};
}

Result<void> Transcript::add_call_output(const ordered_json& item, const std::string& path) {
  CAIRN_TRY(const std::string id, required(item, "call_id", path));
  const auto answered = answered_.find(id);
  if (answered == answered_.end())
    return invalid_field(path + ".call_id",
                         fmt::format("{} is the call_id of no function_call before it", quoted_value(id)));
  if (answered->second)
    return invalid_field(path + ".call_id", fmt::format("{} has an output already", quoted_value(id)));
  const auto output = item.find("output");
  if (output == item.end() || output->is_null()) return invalid_field(path + ".output", "is missing");
  CAIRN_TRY(auto said, texts(*output, path + ".output"));
  messages_.push_back({{"role", "tool"}, {"tool_call_id", id}, {"content", content_of(std::move(said))}});
  answered->second = true;
  in_turn_ = said_text_ = false;
  return {};
}

}  // namespace cairn::api::responses
