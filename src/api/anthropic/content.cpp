#include "api/anthropic/content.h"

#include <algorithm>
#include <map>
#include <vector>

#include "api/chat/messages.h"
#include "api/errors.h"
#include "api/params/request_fields.h"
#include "api/serialization/json_text.h"

namespace cairn::api::anthropic {
namespace {

using nlohmann::ordered_json;

std::unexpected<Error> unsupported(const std::string& path, std::string_view why) {
  return fail_at(path, Code::kUnsupported, "{} is not supported: {}", path, why);
}

std::string item(const std::string& path, size_t i) { return fmt::format("{}[{}]", path, i); }

void append_line(std::string& text, std::string_view more) {
  if (!text.empty() && !more.empty()) text += '\n';
  text += more;
}

// Null for a field that is absent or null.
const ordered_json* find(const ordered_json& object, std::string_view name) {
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

Result<std::string> read_string(const ordered_json& object, std::string_view name, const std::string& path) {
  const ordered_json* value = find(object, name);
  if (value == nullptr || !value->is_string())
    return invalid_field(fmt::format("{}.{}", path, name), "is missing or not a string");
  return value->get<std::string>();
}

Result<std::string> read_type(const ordered_json& block, const std::string& path) {
  if (!block.is_object()) return invalid_field(path, fmt::format("must be an object, not {}", json_kind(block)));
  return read_string(block, "type", path);
}

Result<std::string> read_texts(const ordered_json& content, const std::string& path);

Result<std::string> read_document_source(const ordered_json& source, const std::string& path) {
  CAIRN_TRY(const std::string type, read_type(source, path));
  if (type == "text") return read_string(source, "data", path);
  if (type != "content")
    return unsupported(path + ".type",
                       fmt::format("a document's source must be text or content, not {}", quoted_value(type)));
  const ordered_json* content = find(source, "content");
  if (content == nullptr) return invalid_field(path + ".content", "is missing");
  return read_texts(*content, path + ".content");
}

Result<std::string> read_document(const ordered_json& block, const std::string& path) {
  if (const ordered_json* citations = find(block, "citations");
      citations != nullptr && citations->is_object() && citations->value("enabled", ordered_json(false)) == true)
    return unsupported(path + ".citations.enabled", "the answer cites nothing");
  std::string text;
  for (const std::string_view name : {"title", "context"}) {
    if (find(block, name) == nullptr) continue;
    CAIRN_TRY(const std::string line, read_string(block, name, path));
    append_line(text, line);
  }
  const ordered_json* source = find(block, "source");
  if (source == nullptr) return invalid_field(path + ".source", "is missing");
  CAIRN_TRY(const std::string body, read_document_source(*source, path + ".source"));
  append_line(text, body);
  return text;
}

Result<std::string> read_search_result(const ordered_json& block, const std::string& path) {
  CAIRN_TRY(std::string text, read_string(block, "title", path));
  CAIRN_TRY(const std::string source, read_string(block, "source", path));
  append_line(text, source);
  const ordered_json* content = find(block, "content");
  if (content == nullptr) return invalid_field(path + ".content", "is missing");
  CAIRN_TRY(const std::string body, read_texts(*content, path + ".content"));
  append_line(text, body);
  return text;
}

/// A block that is text in whatever form.
Result<std::string> read_text(const ordered_json& block, const std::string& path) {
  CAIRN_TRY(const std::string type, read_type(block, path));
  if (type == "text") return read_string(block, "text", path);
  if (type == "document") return read_document(block, path);
  if (type == "search_result") return read_search_result(block, path);
  if (type == "tool_reference") return read_string(block, "tool_name", path);
  if (type == "image") return unsupported(path + ".type", "this model reads text only, not \"image\"");
  return unsupported(path + ".type", fmt::format("{} cannot stand here", quoted_value(type)));
}

Result<std::string> read_texts(const ordered_json& content, const std::string& path) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array())
    return invalid_field(path, fmt::format("must be a string or an array of blocks, not {}", json_kind(content)));
  std::string text;
  for (size_t i = 0; i < content.size(); ++i) {
    CAIRN_TRY(const std::string each, read_text(content[i], item(path, i)));
    append_line(text, each);
  }
  return text;
}

// A string may be all blocks that some proxy has joined: only the line goes.
std::string without_billing_line(const std::string& text) {
  if (!text.starts_with(kBillingHeader)) return text;
  const size_t end = text.find('\n');
  return end == std::string::npos ? std::string() : text.substr(end + 1);
}

Result<std::string> read_system(const ordered_json& system, const std::string& path) {
  if (system.is_string()) return without_billing_line(system.get<std::string>());
  if (!system.is_array())
    return invalid_field(path, fmt::format("must be a string or an array of text blocks, not {}", json_kind(system)));
  std::string text;
  for (size_t i = 0; i < system.size(); ++i) {
    const std::string block_path = item(path, i);
    CAIRN_TRY(const std::string type, read_type(system[i], block_path));
    if (type != "text")
      return invalid_field(block_path + ".type", fmt::format("must be \"text\", not {}", quoted_value(type)));
    CAIRN_TRY(const std::string block, read_string(system[i], "text", block_path));
    if (!block.starts_with(kBillingHeader)) append_line(text, block);
  }
  return text;
}

/// Messages as they come -> turns, which are whole when the role changes.
class Reader {
 public:
  explicit Reader(std::string system) : system_(std::move(system)) {}

  Result<void> add(const ordered_json& message, const std::string& path);
  Result<Conversation> finish();

 private:
  struct Call {
    std::string name;
    bool answered = false;
  };

  Result<void> add_system(const ordered_json& message, const std::string& path);
  void begin_turn(std::string role);
  void end_turn();
  Result<void> add_block(const ordered_json& block, const std::string& path, std::string& text);
  Result<void> add_call(const ordered_json& block, const std::string& path);
  Result<void> add_result(const ordered_json& block, const std::string& path);

  std::string system_;
  Conversation read_;
  bool has_user_ = false;
  std::map<std::string, Call, std::less<>> calls_;  // of the assistant's last turn, by id

  // The turn that is being read.
  std::string role_;  // empty: none
  std::string path_;  // of its last message
  std::string text_;
  std::string thinking_;
  std::vector<ordered_json> tool_calls_;
  std::vector<ordered_json> results_;
};

Result<void> Reader::add(const ordered_json& message, const std::string& path) {
  if (!message.is_object()) return invalid_field(path, fmt::format("must be an object, not {}", json_kind(message)));
  CAIRN_TRY(const std::string role, read_string(message, "role", path));
  if (role == "system") return add_system(message, path);
  if (role != "user" && role != "assistant")
    return invalid_field(path + ".role", fmt::format("{} is not one of user, assistant, system", quoted_value(role)));
  const std::string content_path = path + ".content";
  const ordered_json* content = find(message, "content");
  if (content == nullptr) return invalid_field(content_path, "is missing");
  if (role != role_) begin_turn(role);
  path_ = path;
  std::string text;
  if (content->is_string()) {
    text = *content;
  } else if (content->is_array()) {
    for (size_t i = 0; i < content->size(); ++i) CAIRN_TRY_VOID(add_block((*content)[i], item(content_path, i), text));
  } else {
    return invalid_field(content_path,
                         fmt::format("must be a string or an array of blocks, not {}", json_kind(*content)));
  }
  append_line(text_, text);
  return {};
}

Result<void> Reader::add_system(const ordered_json& message, const std::string& path) {
  const ordered_json* content = find(message, "content");
  if (content == nullptr) return invalid_field(path + ".content", "is missing");
  CAIRN_TRY(const std::string text, read_system(*content, path + ".content"));
  if (role_.empty() && read_.messages.empty()) {
    append_line(system_, text);
  } else if (!text.empty()) {
    end_turn();
    read_.messages.push_back({{"role", "system"}, {"content", text}});
  }
  return {};
}

void Reader::begin_turn(std::string role) {
  end_turn();
  if (read_.messages.empty() && !system_.empty())
    read_.messages.push_back({{"role", "system"}, {"content", std::move(system_)}});
  role_ = std::move(role);
  if (role_ == "assistant") calls_.clear();
}

void Reader::end_turn() {
  if (role_ == "user") {
    for (auto& result : results_) read_.messages.push_back(std::move(result));
    if (results_.empty() || !text_.empty()) read_.messages.push_back({{"role", "user"}, {"content", std::move(text_)}});
    has_user_ = true;
  } else if (role_ == "assistant") {
    ordered_json message = {{"role", "assistant"}, {"content", std::move(text_)}};
    if (!thinking_.empty()) message["reasoning_content"] = std::move(thinking_);
    for (auto& call : tool_calls_) message["tool_calls"].push_back(std::move(call));
    read_.messages.push_back(std::move(message));
  }
  role_.clear();
  text_.clear();
  thinking_.clear();
  tool_calls_.clear();
  results_.clear();
}

Result<void> Reader::add_block(const ordered_json& block, const std::string& path, std::string& text) {
  CAIRN_TRY(const std::string type, read_type(block, path));
  if (role_ == "user") {
    if (type == "tool_result") return add_result(block, path);
    CAIRN_TRY(const std::string more, read_text(block, path));
    append_line(text, more);
    return {};
  }
  // The texts between an answer's calls are one text, as they were when the model wrote them.
  if (type == "text") {
    CAIRN_TRY(const std::string more, read_string(block, "text", path));
    text += more;
    return {};
  }
  if (type == "thinking") {
    CAIRN_TRY(const std::string more, read_string(block, "thinking", path));
    append_line(thinking_, more);
    return {};
  }
  if (type == "tool_use") return add_call(block, path);
  if (type == "redacted_thinking") return {};  // nobody but who wrote it can read it
  return unsupported(path + ".type", fmt::format("{} cannot stand in the assistant's message", quoted_value(type)));
}

Result<void> Reader::add_call(const ordered_json& block, const std::string& path) {
  CAIRN_TRY(std::string id, read_string(block, "id", path));
  CAIRN_TRY(std::string name, read_string(block, "name", path));
  if (id.empty()) return invalid_field(path + ".id", "is empty");
  if (name.empty()) return invalid_field(path + ".name", "is empty");
  if (tool_calls_.size() == kHistoryCallsMax)
    return invalid_field(path, fmt::format("is one tool_use more than the {} that a turn may have", kHistoryCallsMax));
  if (!calls_.try_emplace(id, Call{name}).second)
    return invalid_field(path + ".id", fmt::format("{} is the id of another tool_use of this turn", quoted_value(id)));
  const ordered_json* input = find(block, "input");
  std::string arguments = "{}";
  if (input != nullptr) arguments = input->is_string() ? input->get<std::string>() : dump(*input);
  tool_calls_.push_back({{"id", std::move(id)},
                         {"type", "function"},
                         {"function", {{"name", std::move(name)}, {"arguments", std::move(arguments)}}}});
  return {};
}

Result<void> Reader::add_result(const ordered_json& block, const std::string& path) {
  CAIRN_TRY(const std::string id, read_string(block, "tool_use_id", path));
  const auto call = calls_.find(id);
  if (call == calls_.end())
    return invalid_field(path + ".tool_use_id",
                         fmt::format("{} is no tool_use of the assistant's turn before it", quoted_value(id)));
  if (call->second.answered)
    return invalid_field(path + ".tool_use_id", fmt::format("{} has a result already", quoted_value(id)));
  call->second.answered = true;
  std::string text;
  if (const ordered_json* content = find(block, "content")) {
    CAIRN_TRY(text, read_texts(*content, path + ".content"));
  }
  if (const ordered_json* is_error = find(block, "is_error")) {
    if (!is_error->is_boolean()) return invalid_field(path + ".is_error", "must be true or false");
    if (*is_error == true && !text.starts_with("Error")) text.insert(0, text.empty() ? "Error" : "Error: ");
  }
  results_.push_back(
      {{"role", "tool"}, {"tool_call_id", id}, {"name", call->second.name}, {"content", std::move(text)}});
  return {};
}

Result<Conversation> Reader::finish() {
  if (role_ == "assistant") {
    if (!tool_calls_.empty())
      return invalid_field(path_, "ends the conversation with a tool_use: its tool_result must follow");
    if (!thinking_.empty())
      return invalid_field(path_, "ends the conversation with thinking: only an answer's text can be continued");
    read_.prefill = std::move(text_);
    role_.clear();
  }
  end_turn();
  if (!has_user_) return invalid_field("messages", "must have a message of the user");
  return std::move(read_);
}

}  // namespace

Result<Conversation> read_conversation(const ordered_json* system, const ordered_json& messages) {
  std::string system_text;
  if (system != nullptr) {
    CAIRN_TRY(system_text, read_system(*system, "system"));
  }
  if (!messages.is_array())
    return invalid_field("messages", fmt::format("must be an array, not {}", json_kind(messages)));
  if (messages.empty() || messages.size() > kMessagesMax)
    return invalid_field("messages", fmt::format("must have 1 to {} messages, not {}", kMessagesMax, messages.size()));
  Reader reader(std::move(system_text));
  for (size_t i = 0; i < messages.size(); ++i) CAIRN_TRY_VOID(reader.add(messages[i], item("messages", i)));
  return reader.finish();
}

}  // namespace cairn::api::anthropic
