#include "talk/saved_talk.h"

#include <cstdlib>
#include <filesystem>
#include <span>
#include <system_error>

#include "base/system/new_file.h"
#include "base/text/json.h"
#include "base/text/printable.h"
#include "base/text/text_file.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

/// The messages in what a file holds; null: it is no conversation.
ordered_json messages_in(const ordered_json& value) {
  if (value.is_array()) return value;
  const auto found = value.is_object() ? value.find("messages") : value.end();
  return value.is_object() && found != value.end() && found->is_array() ? *found : ordered_json();
}

Result<void> add_message(const ordered_json& message, size_t number, Talk& talk) {
  const auto text_of = [&](const char* name) -> const std::string* {
    const auto found = message.is_object() ? message.find(name) : message.end();
    return message.is_object() && found != message.end() && found->is_string() ? found->get_ptr<const std::string*>()
                                                                               : nullptr;
  };
  const std::string* const role = text_of("role");
  const std::string* const content = text_of("content");
  if (role == nullptr || content == nullptr)
    return fail(Code::kInvalidArgument,
                "message {} has no role or no text, so the conversation cannot be continued here", number);
  if (*role == "system" && number == 1) {
    talk.system = *content;
    return {};
  }
  if (*role != "user" && *role != "assistant")
    return fail(Code::kInvalidArgument,
                "message {} has the role {}; only conversations of user and assistant can be continued here", number,
                printable(*role));
  talk.messages.push_back({{"role", *role}, {"content", *content}});
  return {};
}

}  // namespace

ordered_json Talk::whole() const {
  ordered_json all = ordered_json::array();
  if (!system.empty()) all.push_back({{"role", "system"}, {"content", system}});
  all.insert(all.end(), messages.begin(), messages.end());
  return all;
}

std::string expand_home(const std::string& path) {
  const char* const home = std::getenv("HOME");
  return home != nullptr && path.starts_with("~/") ? home + path.substr(1) : path;
}

Result<void> save_talk(const std::string& path, const std::string& model, const Talk& talk) {
  const fs::path file = expand_home(path);
  std::error_code error;
  if (fs::exists(file, error) && !load_talk(path))
    return fail(Code::kInvalidArgument, "{} already exists and is not a saved conversation; choose another name",
                printable(path));
  ordered_json value = ordered_json::object();
  if (!model.empty()) value["model"] = model;
  value["messages"] = talk.whole();
  const std::string text = json_text(value, 1) + "\n";
  CAIRN_TRY(NewFile made, NewFile::create(file));
  CAIRN_TRY_VOID(made.write(std::as_bytes(std::span(text))));
  CAIRN_TRY_VOID(made.finish());
  fs::permissions(file, fs::perms::owner_read | fs::perms::owner_write, error);
  return {};
}

Result<Talk> load_talk(const std::string& path, std::string_view what) {
  CAIRN_TRY(const std::string text, read_text_file(expand_home(path), what));
  const auto value = read_json(text);
  const ordered_json messages = value ? messages_in(*value) : ordered_json();
  if (messages.is_null())
    return fail(Code::kInvalidArgument,
                "{} is not a saved conversation, which is JSON with a list of messages; /save writes one",
                printable(path));
  Talk talk;
  for (size_t i = 0; i < messages.size(); ++i) CAIRN_TRY_VOID(add_message(messages[i], i + 1, talk));
  return talk;
}

Result<Talk> begin_talk(const std::string& path, const std::string& system) {
  Talk talk;
  if (!path.empty()) {
    CAIRN_TRY(talk, load_talk(path, "--load"));
  }
  if (!system.empty()) talk.system = system;
  return talk;
}

}  // namespace cairn
