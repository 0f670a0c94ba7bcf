#include "talk/remote_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "net/http/http_client.h"
#include "net/http/percent.h"
#include "output.h"

namespace cairn {
namespace {

using nlohmann::ordered_json;

constexpr int kUnauthorized = 401;

/// The message of an error body, or the body itself.
std::string error_text(const std::string& body) {
  const auto value = ordered_json::parse(body, nullptr, false);
  if (value.is_object() && value.contains("error") && value["error"].is_object() &&
      value["error"].contains("message") && value["error"]["message"].is_string()) {
    return value["error"]["message"];
  }
  return body.substr(0, 300);
}

std::unexpected<Error> refusal(int status, const std::string& body) {
  const std::string_view hint = status == kUnauthorized ? " (give it with --api-key or CAIRN_API_KEY)" : "";
  return fail(Code::kUnavailable, "the server answered {}: {}{}", status, error_text(body), hint);
}

/// What the flags ask of the thinking, as fields of a request to a server.
Result<void> add_reasoning(const ChatFlags& flags, ordered_json& body) {
  CAIRN_TRY(const loader::LoadOptions options, flags.load.load_options());
  const chat::TemplateDefaults& defaults = options.template_defaults;
  const chat::ReasoningOptions reasoning = flags.reasoning();
  if (const auto enabled = reasoning.enabled ? reasoning.enabled : defaults.reasoning)
    body["enable_thinking"] = *enabled;
  if (reasoning.tokens_max) body["reasoning_budget_tokens"] = *reasoning.tokens_max;
  if (!defaults.variables.empty()) body["chat_template_kwargs"] = defaults.variables;
  return {};
}

void warn_of_remote_cut(const FormFlags& form) {
  if (!form.schema_file.empty() || !form.grammar_file.empty() || !form.regex.empty())
    log_warning(
        "the answer was cut off before it was complete by --json-schema, --grammar or --regex; raise --max-tokens");
}

/// The member of an object; null where there is none.
ordered_json member(const ordered_json& object, const char* name) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  return found == object.end() ? ordered_json() : *found;
}

double number(const ordered_json& object, const char* name, double otherwise) {
  const ordered_json value = member(object, name);
  return value.is_number() ? value.get<double>() : otherwise;
}

/// Reads the events of one answer.
class RemoteAnswer {
 public:
  RemoteAnswer(AnswerDisplay& display, const FormFlags& form) : display_(display), form_(form) {}

  void take(std::string_view bytes) {
    for (const auto& data : splitter_.push(bytes)) {
      const auto value = ordered_json::parse(data, nullptr, false);
      if (value.is_object()) take_event(value, data);  // else "[DONE]"
    }
    if (!flush_output()) chat_interrupted = true;
  }
  const std::string& failure() const { return failure_; }

  AnswerStats stats() const {
    constexpr double kMilliseconds = 1e3;
    AnswerStats stats{.first_seconds = display_.first_seconds(), .seconds = display_.seconds(), .note = note_};
    if (stats.first_seconds >= 0) stats.decode_seconds = stats.seconds - stats.first_seconds;
    if (!timings_.is_object()) return stats;
    stats.tokens = static_cast<int64_t>(number(timings_, "predicted_n", -1));
    stats.cached_tokens = static_cast<int64_t>(number(timings_, "cache_n", 0));
    if (timings_.contains("prompt_n"))
      stats.prompt_tokens = stats.cached_tokens + static_cast<int64_t>(number(timings_, "prompt_n", 0));
    stats.decode_seconds = number(timings_, "predicted_ms", stats.decode_seconds * kMilliseconds) / kMilliseconds;
    return stats;
  }

 private:
  void take_event(const ordered_json& value, const std::string& data) {
    if (value.contains("error")) failure_ = error_text(data);
    if (const ordered_json progress = member(value, "prompt_progress"); progress.is_object())
      display_.reading(static_cast<int64_t>(number(progress, "total", 0)),
                       static_cast<int64_t>(number(progress, "cache", 0)),
                       static_cast<int64_t>(number(progress, "processed", 0)));
    if (ordered_json timings = member(value, "timings"); timings.is_object()) timings_ = std::move(timings);
    const ordered_json choices = member(value, "choices");
    if (!choices.is_array() || choices.empty()) return;
    const ordered_json& choice = choices.front();
    if (member(choice, "finish_reason") == "length") {
      warn_of_remote_cut(form_);
      note_ = "cut off at --max-tokens";
    }
    const ordered_json delta = member(choice, "delta");
    if (const auto thinking = member(delta, "reasoning_content"); thinking.is_string())
      display_.thinking(thinking.get_ref<const std::string&>());
    if (const auto content = member(delta, "content"); content.is_string())
      display_.content(content.get_ref<const std::string&>());
  }

  AnswerDisplay& display_;
  const FormFlags& form_;
  net::EventSplitter splitter_;
  std::string failure_;
  std::string note_;
  ordered_json timings_;
};

class RemoteModel final : public TalkModel {
 public:
  RemoteModel(net::ServerAddress server, const ChatFlags& flags)
      : server_(std::move(server)), shown_(net::shown_url(flags.url)), key_(flags.api_key), name_(flags.load.model) {}

  Result<TalkAnswer> answer(const ChatFlags& flags, const ordered_json& messages) override;
  std::string name() const override { return name_; }
  std::string description() const override {
    return fmt::format("{} of {}", name_.empty() ? "the model" : name_, shown_);
  }
  int64_t context_tokens() const override { return context_tokens_; }
  Result<std::vector<std::string>> models() override;
  Result<void> use(const std::string& name) override {
    CAIRN_TRY_VOID(check_model(name));
    name_ = name;
    context_tokens_ = 0;
    return {};
  }

  /// Asks what the server says of itself. Errors: it is not there, or does not let us in.
  Result<void> look();
  /// Whether the server has a model of that name; a server that lists none is believed to.
  Result<void> check_model(const std::string& name);

 private:
  Result<net::HttpReply> get(const std::string& path) {
    return client_.request(
        {.url = server_.url + path, .token = key_, .socket = server_.socket, .cancelled = &chat_interrupted});
  }
  Result<ordered_json> request(const ChatFlags& flags, const ordered_json& messages) const;

  const net::ServerAddress server_;
  const std::string shown_;
  const std::string key_;
  std::string name_;
  bool tells_progress_ = false;  // it is Cairn's or llama.cpp's
  int64_t context_tokens_ = 0;
  net::HttpClient client_;
};

Result<void> RemoteModel::look() {
  auto reply = get("/props");
  if (!reply) {
    Error error = reply.error();
    if (error.code == Code::kUnavailable) error.message += "; cairn serve MODEL.gguf starts a server";
    return std::unexpected(std::move(error));
  }
  if (reply->status == kUnauthorized) return refusal(reply->status, reply->body);
  if (!reply->success()) return {};  // another program's server
  const auto props = ordered_json::parse(reply->body, nullptr, false);
  tells_progress_ = member(props, "default_generation_settings").is_object();
  if (name_.empty())
    context_tokens_ = static_cast<int64_t>(number(member(props, "default_generation_settings"), "n_ctx", 0));
  return {};
}

Result<ordered_json> RemoteModel::request(const ChatFlags& flags, const ordered_json& messages) const {
  ordered_json body = {{"messages", messages}, {"stream", true}};
  if (!name_.empty()) body["model"] = name_;
  if (tells_progress_) body["return_progress"] = true;
  flags.sampling.add_to_request(body);
  if (flags.max_tokens > 0) body["max_tokens"] = flags.max_tokens;
  CAIRN_TRY(const auto form, flags.form.read());
  if (form) add_form(*form, body);
  CAIRN_TRY_VOID(add_reasoning(flags, body));
  return body;
}

Result<TalkAnswer> RemoteModel::answer(const ChatFlags& flags, const ordered_json& messages) {
  CAIRN_TRY(const ordered_json body, request(flags, messages));
  AnswerDisplay display;
  RemoteAnswer answer(display, flags.form);
  const auto reply = client_.request({.url = server_.url + "/v1/chat/completions",
                                      .body = body.dump(-1, ' ', false, ordered_json::error_handler_t::replace),
                                      .headers = {{"Content-Type", "application/json"}},
                                      .token = key_,
                                      .socket = server_.socket,
                                      .cancelled = &chat_interrupted},
                                     [&](std::string_view bytes) { answer.take(bytes); });
  AnswerStats stats = answer.stats();
  if (!reply && reply.error().code == Code::kCancelled) {
    stats.note = "stopped";
    return TalkAnswer{display.finish(), stats};
  }
  if (!reply) return std::unexpected(reply.error());
  if (reply->status != 200) return refusal(reply->status, reply->body);
  if (!answer.failure().empty()) return fail(Code::kUnavailable, "the server stopped: {}", answer.failure());
  return TalkAnswer{display.finish(), stats};
}

Result<std::vector<std::string>> RemoteModel::models() {
  CAIRN_TRY(const net::HttpReply reply, get("/v1/models"));
  if (reply.status == kUnauthorized) return refusal(reply.status, reply.body);
  std::vector<std::string> names;
  const ordered_json data = member(ordered_json::parse(reply.body, nullptr, false), "data");
  if (!reply.success() || !data.is_array()) return names;
  for (const ordered_json& model : data) {
    if (const ordered_json id = member(model, "id"); id.is_string()) names.push_back(id);
  }
  return names;
}

Result<void> RemoteModel::check_model(const std::string& name) {
  CAIRN_TRY(const net::HttpReply list, get("/v1/models"));
  const ordered_json data = member(ordered_json::parse(list.body, nullptr, false), "data");
  if (!list.success() || !data.is_array()) return {};
  std::string names;
  for (const ordered_json& model : data) {
    const ordered_json id = member(model, "id");
    if (!id.is_string()) continue;
    if (id == name) return {};
    names += (names.empty() ? "" : ", ") + id.get<std::string>();
  }
  CAIRN_TRY(const net::HttpReply own, get("/v1/models/" + net::percent_encode(name)));  // it may be another name of one
  if (own.success()) return {};
  return fail(Code::kNotFound, "the server has no model {}; it has {}", name, names.empty() ? "none" : names);
}

}  // namespace

Result<std::unique_ptr<TalkModel>> connect_talk_model(const ChatFlags& flags, bool in_person) {
  CAIRN_TRY(net::ServerAddress server, net::parse_server_address(flags.url));
  auto model = std::make_unique<RemoteModel>(std::move(server), flags);
  if (in_person) CAIRN_TRY_VOID(model->look());
  if (!flags.load.model.empty()) CAIRN_TRY_VOID(model->check_model(flags.load.model));
  return model;
}

}  // namespace cairn
