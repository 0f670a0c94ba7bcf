#include "api/anthropic/content.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include "api/chat/messages.h"
#include "api/chat/unreadable.h"
#include "api/errors.h"
#include "api/params/request_fields.h"
#include "api/serialization/json_text.h"

namespace cairn::api::anthropic {
namespace {

// How ids of calls begin: on the wire, and those that this server makes (chat/answer/call_id.h).
constexpr std::string_view kSentId = "toolu_", kOwnId = "call_";
constexpr size_t kOwnIdBytes = 24;  // behind that, letters and digits

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

/// Where a block stands: what a tool has given is data, of which the model gets as much as it can read.
enum class Place { kUser, kToolResult };

Result<std::string> read_texts(const ordered_json& content, const std::string& path, Place place);

Result<std::string> read_document_source(const ordered_json& source, const std::string& path, Place place) {
  CAIRN_TRY(const std::string type, read_type(source, path));
  if (type == "text") return read_string(source, "data", path);
  // Claude Code finds "does not support PDF input" in an error, and goes on without the document.
  if (type != "content")
    return unsupported(path + ".type",
                       fmt::format("this model does not support PDF input: a document's source must be text or "
                                   "content, not {}",
                                   quoted_value(type)));
  const ordered_json* content = find(source, "content");
  if (content == nullptr) return invalid_field(path + ".content", "is missing");
  return read_texts(*content, path + ".content", place);
}

Result<std::string> read_document(const ordered_json& block, const std::string& path, Place place) {
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
  CAIRN_TRY(const std::string body, read_document_source(*source, path + ".source", place));
  append_line(text, body);
  return text;
}

Result<std::string> read_search_result(const ordered_json& block, const std::string& path, Place place) {
  CAIRN_TRY(std::string text, read_string(block, "title", path));
  CAIRN_TRY(const std::string source, read_string(block, "source", path));
  append_line(text, source);
  const ordered_json* content = find(block, "content");
  if (content == nullptr) return invalid_field(path + ".content", "is missing");
  CAIRN_TRY(const std::string body, read_texts(*content, path + ".content", place));
  append_line(text, body);
  return text;
}

/// A block that is text in whatever form.
Result<std::string> read_readable(const ordered_json& block, const std::string& type, const std::string& path,
                                  Place place) {
  if (type == "text") return read_string(block, "text", path);
  if (type == "document") return read_document(block, path, place);
  if (type == "search_result") return read_search_result(block, path, place);
  if (type == "tool_reference") return read_string(block, "tool_name", path);
  // Claude Code finds "Could not process image" in an error, and goes on without the picture.
  if (media_kind(type) == "image")
    return unsupported(path + ".type", "Could not process image: this model reads text only");
  return unsupported(path + ".type", fmt::format("{} cannot stand here", quoted_value(type)));
}

Result<std::string> read_text(const ordered_json& block, const std::string& path, Place place) {
  CAIRN_TRY(const std::string type, read_type(block, path));
  auto text = read_readable(block, type, path, place);
  if (text || place == Place::kUser) return text;
  return unreadable_part(block);
}

Result<std::string> read_texts(const ordered_json& content, const std::string& path, Place place) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array())
    return invalid_field(path, fmt::format("must be a string or an array of blocks, not {}", json_kind(content)));
  std::string text;
  for (size_t i = 0; i < content.size(); ++i) {
    CAIRN_TRY(const std::string each, read_text(content[i], item(path, i), place));
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
    std::string id;
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
  std::vector<Call> calls_;  // of the assistant's last turn
  int calls_seen_ = 0;       // of the whole conversation

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
}

void Reader::end_turn() {
  if (role_ == "user") {
    for (auto& result : results_) read_.messages.push_back(std::move(result));
    if (results_.empty() || !text_.empty()) read_.messages.push_back({{"role", "user"}, {"content", std::move(text_)}});
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
    // A picture beside a tool's result is part of that.
    CAIRN_TRY(const std::string more, read_text(block, path, results_.empty() ? Place::kUser : Place::kToolResult));
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
  // Nobody but who wrote it can read redacted thinking; the rest is of tools that other servers run.
  if (type != "redacted_thinking") log_unknown_block(type);
  return {};
}

Result<void> Reader::add_call(const ordered_json& block, const std::string& path) {
  CAIRN_TRY(std::string name, read_string(block, "name", path));
  if (name.empty()) return invalid_field(path + ".name", "is empty");
  if (tool_calls_.size() == kHistoryCallsMax)
    return invalid_field(path, fmt::format("is one tool_use more than the {} that a turn may have", kHistoryCallsMax));
  const ordered_json* given = find(block, "id");
  const bool has_id = given != nullptr && given->is_string() && !given->get_ref<const std::string&>().empty();
  std::string id = has_id ? received_call_id(given->get_ref<const std::string&>()) : history_call_id(++calls_seen_);
  if (tool_calls_.empty()) calls_.clear();
  calls_.push_back({id, name});
  const ordered_json* input = find(block, "input");
  std::string arguments = "{}";
  if (input != nullptr) arguments = input->is_string() ? input->get<std::string>() : dump(*input);
  tool_calls_.push_back({{"id", std::move(id)},
                         {"type", "function"},
                         {"function", {{"name", std::move(name)}, {"arguments", std::move(arguments)}}}});
  return {};
}

Result<void> Reader::add_result(const ordered_json& block, const std::string& path) {
  const ordered_json* id = find(block, "tool_use_id");
  if (id != nullptr && !id->is_string()) return invalid_field(path + ".tool_use_id", "must be a string");
  const std::string called = id != nullptr ? received_call_id(id->get_ref<const std::string&>()) : std::string();
  // The first call of this id without a result; without an id, the first one at all.
  const auto call = std::ranges::find_if(
      calls_, [&](const Call& each) { return !each.answered && (id == nullptr || each.id == called); });
  std::string text;
  if (const ordered_json* content = find(block, "content")) {
    CAIRN_TRY(text, read_texts(*content, path + ".content", Place::kToolResult));
  }
  if (const ordered_json* is_error = find(block, "is_error")) {
    if (!is_error->is_boolean()) return invalid_field(path + ".is_error", "must be true or false");
    if (*is_error == true && !text.starts_with("Error")) text.insert(0, text.empty() ? "Error" : "Error: ");
  }
  const bool found = call != calls_.end();
  ordered_json result = {{"role", "tool"}};
  result["tool_call_id"] = found           ? ordered_json(call->id)
                           : id != nullptr ? ordered_json(called)
                                           : ordered_json(history_call_id(++calls_seen_));
  if (found) {
    call->answered = true;
    result["name"] = call->name;
  }
  result["content"] = std::move(text);
  results_.push_back(std::move(result));
  return {};
}

Result<Conversation> Reader::finish() {
  // An answer is continued if it answers somebody; a lone one is what a client has kept of a conversation.
  const bool has_question = std::ranges::any_of(read_.messages, [](const ordered_json& message) {
    return message["role"] == "user" || message["role"] == "tool";
  });
  if (role_ == "assistant" && tool_calls_.empty() && has_question) {
    read_.prefill = std::move(text_);
    role_.clear();
  }
  end_turn();
  return std::move(read_);
}

}  // namespace

std::string sent_call_id(std::string_view id) {
  return fmt::format("{}{}", kSentId, id.starts_with(kOwnId) ? id.substr(kOwnId.size()) : id);
}

std::string received_call_id(std::string_view id) {
  if (!id.starts_with(kSentId) || id.size() == kSentId.size()) return std::string(id);
  id.remove_prefix(kSentId.size());
  const bool is_own =
      id.size() == kOwnIdBytes && std::ranges::all_of(id, [](unsigned char c) { return std::isalnum(c) != 0; });
  return fmt::format("{}{}", is_own ? kOwnId : "", id);
}

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
