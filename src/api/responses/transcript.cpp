#include "api/responses/transcript.h"

#include <algorithm>
#include <array>
#include <utility>

#include "api/chat/messages.h"
#include "api/errors.h"
#include "api/params/request_fields.h"
#include "api/serialization/json_text.h"
#include "base/text/printable.h"

namespace cairn::api::responses {
namespace {

using nlohmann::ordered_json;

// A string that must be there; null counts as absent.
Result<std::string> required(const ordered_json& item, std::string_view name, const std::string& path) {
  const auto found = item.find(name);
  const std::string at = fmt::format("{}.{}", path, name);
  if (found == item.end() || found->is_null()) return invalid_field(at, "is missing");
  if (!found->is_string()) return invalid_field(at, fmt::format("must be a string, not {}", json_kind(*found)));
  if (found->get_ref<const std::string&>().empty()) return invalid_field(at, "is empty");
  return found->get<std::string>();
}

bool has_type(const ordered_json& part) {
  return part.is_object() && part.contains("type") && part["type"].is_string();
}

bool is_text(const std::string& type) {
  static constexpr std::array<std::string_view, 6> kTexts = {"input_text", "output_text",  "text",
                                                             "refusal",    "summary_text", "reasoning_text"};
  return std::ranges::find(kTexts, type) != kTexts.end();
}

Result<std::string> part_text(const ordered_json& part, const std::string& path) {
  const auto& type = part["type"].get_ref<const std::string&>();
  if (!is_text(type)) {
    return fail_at(path + ".type", Code::kUnsupported,
                   "{}.type {} is not supported: this model reads text only (input_text, output_text)", path,
                   quoted_value(type));
  }
  const std::string_view name = type == "refusal" ? "refusal" : "text";
  if (!part.contains(name) || !part[name].is_string())
    return invalid_field(fmt::format("{}.{}", path, name), "must be a string");
  return part[name].get<std::string>();
}

// "image/png" of "data:image/png;base64,..."; empty: it is no such address.
std::string_view media_type(const ordered_json& part, std::string_view field) {
  const auto value = part.find(field);
  if (value == part.end() || !value->is_string()) return {};
  std::string_view text = value->get_ref<const std::string&>();
  if (!text.starts_with("data:")) return {};
  text.remove_prefix(std::string_view("data:").size());
  return text.substr(0, text.find_first_of(";,"));
}

// What a model that reads text is shown in the place of a picture, a file, or anything else.
std::string stand_in(const ordered_json& part) {
  const auto& type = part["type"].get_ref<const std::string&>();
  std::string what = type;
  std::string_view more;
  if (type == "input_image") {
    what = "image";
    more = media_type(part, "image_url");
  } else if (type == "input_file") {
    what = "file";
    const auto name = part.find("filename");
    more = name != part.end() && name->is_string() ? std::string_view(name->get_ref<const std::string&>())
                                                   : media_type(part, "file_data");
  }
  return fmt::format("[{}{}{}, this model reads text only]", cut_text(what, kQuotedBytesMax), more.empty() ? "" : ": ",
                     cut_text(more, kQuotedBytesMax));
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

Result<std::vector<std::string>> Transcript::texts(const ordered_json& value, const std::string& path, bool stand_ins) {
  if (value.is_string()) return std::vector{value.get<std::string>()};
  if (!value.is_array())
    return invalid_field(path, fmt::format("must be a string or an array of parts, not {}", json_kind(value)));
  std::vector<std::string> read;
  read.reserve(value.size());
  for (size_t i = 0; i < value.size(); ++i) {
    const std::string at = fmt::format("{}[{}]", path, i);
    if (!has_type(value[i])) return invalid_field(at, "must be an object with a type");
    const auto& type = value[i]["type"].get_ref<const std::string&>();
    if (stand_ins && !is_text(type)) {
      left_out_.insert(cut_text(type, kQuotedBytesMax));
      read.push_back(stand_in(value[i]));
      continue;
    }
    CAIRN_TRY(std::string text, part_text(value[i], at));
    read.push_back(std::move(text));
  }
  return read;
}

void Transcript::add_instructions(std::string_view text) {
  messages_.push_back({{"role", "system"}, {"content", text}});
}

ordered_json& Transcript::turn() {
  if (!in_turn_) {
    messages_.push_back({{"role", "assistant"}, {"content", ""}});
    unanswered_.clear();
  }
  in_turn_ = true;
  return messages_.back();
}

Result<void> Transcript::add(const ordered_json& item, const std::string& path) {
  if (!item.is_object()) return invalid_field(path, fmt::format("must be an object, not {}", json_kind(item)));
  if (++items_ > kItemsMax) return fail_at(path, Code::kTooLarge, "the conversation has more than {} items", kItemsMax);
  const std::string type = item_type(item);
  if (type.empty()) return invalid_field(path + ".type", "is missing or not a string");
  using Adder = Result<void> (Transcript::*)(const ordered_json&, const std::string&);
  static constexpr std::array<std::pair<std::string_view, Adder>, 9> kAdders = {{
      {"message", &Transcript::add_message},
      {"reasoning", &Transcript::add_reasoning},
      {"function_call", &Transcript::add_function_call},
      {"function_call_output", &Transcript::add_call_output},
      {"custom_tool_call", &Transcript::add_custom_call},
      {"custom_tool_call_output", &Transcript::add_call_output},
      {"tool_search_call", &Transcript::add_search_call},
      {"tool_search_output", &Transcript::add_search_output},
      {"compaction", &Transcript::add_compaction},
  }};
  const auto* const found =
      std::ranges::find(kAdders, std::string_view(type), &std::pair<std::string_view, Adder>::first);
  if (found != kAdders.end()) return (this->*found->second)(item, path);
  left_out_.insert(cut_text(type, kQuotedBytesMax));
  return {};
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
    // Clients send a picture that a tool has made as the user's message behind the output.
    CAIRN_TRY(said, texts(*content, path + ".content", assistant || behind_output_));
  }
  if (!assistant) {
    in_turn_ = said_text_ = behind_output_ = false;
    messages_.push_back({{"role", system ? "system" : "user"}, {"content", content_of(std::move(said))}});
    return {};
  }
  behind_output_ = false;
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
    CAIRN_TRY(const auto said, texts(*found, fmt::format("{}.{}", path, name), true));
    if (thought.empty()) thought = joined(said, name == "summary" ? "\n\n" : "");
  }
  said_text_ = behind_output_ = false;
  if (thought.empty()) return {};
  auto& reasoning = turn()["reasoning_content"];
  reasoning = reasoning.is_null() ? thought : reasoning.get_ref<const std::string&>() + thought;
  return {};
}

Result<void> Transcript::add_function_call(const ordered_json& item, const std::string& path) {
  CAIRN_TRY(const std::string name, required(item, "name", path));
  const auto name_space = item.find("namespace");
  const bool inside = name_space != item.end() && name_space->is_string();
  // A session must go on whatever a model once wrote, so that arguments may be any text.
  ordered_json arguments = item.contains("arguments") ? item["arguments"] : ordered_json(nullptr);
  if (arguments.is_null()) arguments = "{}";
  if (!arguments.is_string() && !arguments.is_object())
    return invalid_field(path + ".arguments", fmt::format("must be a string of JSON, not {}", json_kind(arguments)));
  return add_call(item, offered_name(inside ? name_space->get_ref<const std::string&>() : "", name),
                  std::move(arguments), path);
}

Result<void> Transcript::add_custom_call(const ordered_json& item, const std::string& path) {
  CAIRN_TRY(std::string name, required(item, "name", path));
  const auto input = item.find("input");
  const bool text = input != item.end() && input->is_string();
  if (!text && input != item.end() && !input->is_null())
    return invalid_field(path + ".input", fmt::format("must be a string, not {}", json_kind(*input)));
  const ordered_json arguments = {{kCustomInput, text ? input->get<std::string>() : std::string()}};
  return add_call(item, std::move(name), dump(arguments), path);
}

// A search that another server has run has no call that could be answered.
Result<void> Transcript::add_search_call(const ordered_json& item, const std::string& path) {
  if (!item.contains("execution") || item["execution"] != "client") {
    left_out_.insert("tool_search_call");
    return {};
  }
  ordered_json arguments = item.contains("arguments") ? item["arguments"] : ordered_json(nullptr);
  if (!arguments.is_string()) arguments = arguments.is_object() ? dump(arguments) : "{}";
  return add_call(item, std::string(kToolSearch), std::move(arguments), path);
}

Result<void> Transcript::add_call(const ordered_json& item, std::string name, ordered_json arguments,
                                  const std::string& path) {
  const auto given = item.find("call_id");
  const bool named = given != item.end() && given->is_string() && !given->get_ref<const std::string&>().empty();
  std::string id = named ? given->get<std::string>() : fmt::format("call_{}", items_);
  auto& calls = turn()["tool_calls"];
  if (calls.size() == kHistoryCallsMax)
    return fail_at(path, Code::kTooLarge, "{} is over the {} calls of one turn", path, kHistoryCallsMax);
  calls.push_back({{"id", id},
                   {"type", "function"},
                   {"function", {{"name", std::move(name)}, {"arguments", std::move(arguments)}}}});
  unanswered_.push_back(std::move(id));
  said_text_ = behind_output_ = false;
  return {};
}

Result<void> Transcript::add_call_output(const ordered_json& item, const std::string& path) {
  const auto output = item.find("output");
  std::vector<std::string> said;
  if (output != item.end() && !output->is_null()) {
    CAIRN_TRY(said, texts(*output, path + ".output", true));
  }
  add_output(item, content_of(std::move(said)));
  return {};
}

// What was found is shown here, behind all that is cached, and not among the tools in front.
Result<void> Transcript::add_search_output(const ordered_json& item, const std::string& /*path*/) {
  if (!item.contains("execution") || item["execution"] != "client") {
    left_out_.insert("tool_search_output");
    return {};
  }
  ToolList found = found_tools(item.contains("tools") ? item["tools"] : ordered_json::array());
  const std::string text = dump(ordered_json{{"tools", found.functions}});
  for (auto& function : found.functions) {
    if (!found_.offered.contains(function["function"]["name"].get_ref<const std::string&>()))
      found_.functions.push_back(std::move(function));
  }
  found_.offered.merge(found.offered);
  left_out_.merge(found.left_out);
  add_output(item, text);
  return {};
}

void Transcript::add_output(const ordered_json& item, ordered_json content) {
  const auto given = item.find("call_id");
  const bool named = given != item.end() && given->is_string() && !given->get_ref<const std::string&>().empty();
  // Without an id it answers the oldest call that waits.
  std::string id = named                 ? given->get<std::string>()
                   : unanswered_.empty() ? fmt::format("call_{}", items_)
                                         : unanswered_.front();
  if (const auto call = std::ranges::find(unanswered_, id); call != unanswered_.end()) unanswered_.erase(call);
  messages_.push_back({{"role", "tool"}, {"tool_call_id", std::move(id)}, {"content", std::move(content)}});
  in_turn_ = said_text_ = false;
  behind_output_ = true;
}

Result<void> Transcript::add_compaction(const ordered_json& item, const std::string& /*path*/) {
  const auto content = item.find("encrypted_content");
  if (content == item.end() || !content->is_string() ||
      !content->get_ref<const std::string&>().starts_with(kSummaryMark)) {
    left_out_.insert("compaction");
    return {};
  }
  in_turn_ = said_text_ = behind_output_ = false;
  messages_.push_back({{"role", "user"},
                       {"content", "A summary of the conversation so far:\n\n" +
                                       content->get_ref<const std::string&>().substr(kSummaryMark.size())}});
  return {};
}

}  // namespace cairn::api::responses
