#include "talk/remote_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "base/text/nearest.h"
#include "net/http/http_client.h"
#include "net/http/percent.h"
#include "output.h"
#include "server_client.h"

namespace cairn {
namespace {

using nlohmann::ordered_json;

constexpr int kLoadingStatus = 503;
/// How long a server that nobody has named may be silent.
constexpr std::chrono::seconds kLookTime{2};

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
    stats.tokens = static_cast<int64_t>(number_member_of(timings_, "predicted_n", -1));
    stats.cached_tokens = static_cast<int64_t>(number_member_of(timings_, "cache_n", 0));
    if (timings_.contains("prompt_n"))
      stats.prompt_tokens = stats.cached_tokens + static_cast<int64_t>(number_member_of(timings_, "prompt_n", 0));
    stats.decode_seconds =
        number_member_of(timings_, "predicted_ms", stats.decode_seconds * kMilliseconds) / kMilliseconds;
    return stats;
  }

 private:
  void take_event(const ordered_json& value, const std::string& data) {
    if (value.contains("error")) failure_ = server_error_text(data);
    if (const ordered_json progress = member_of(value, "prompt_progress"); progress.is_object())
      display_.reading(static_cast<int64_t>(number_member_of(progress, "total", 0)),
                       static_cast<int64_t>(number_member_of(progress, "cache", 0)),
                       static_cast<int64_t>(number_member_of(progress, "processed", 0)));
    if (ordered_json timings = member_of(value, "timings"); timings.is_object()) timings_ = std::move(timings);
    const ordered_json choices = member_of(value, "choices");
    if (!choices.is_array() || choices.empty()) return;
    const ordered_json& choice = choices.front();
    if (member_of(choice, "finish_reason") == "length") {
      warn_of_remote_cut(form_);
      note_ = "cut off at --max-tokens";
    }
    const ordered_json delta = member_of(choice, "delta");
    if (const auto thinking = member_of(delta, "reasoning_content"); thinking.is_string())
      display_.thinking(thinking.get_ref<const std::string&>());
    if (const auto content = member_of(delta, "content"); content.is_string())
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
  RemoteModel(std::unique_ptr<ServerClient> server, const ChatFlags& flags)
      : server_(std::move(server)), name_(flags.load.model) {}

  Result<TalkAnswer> answer(const ChatFlags& flags, const ordered_json& messages) override;
  std::string name() const override { return name_; }
  std::string description() const override {
    return fmt::format("{} of {}", name_.empty() ? "the model" : name_, server_->shown());
  }
  int64_t context_tokens() const override { return context_tokens_; }
  Result<std::vector<std::string>> models() override;
  Result<void> use(const std::string& name) override {
    CAIRN_TRY_VOID(check_model(name));
    name_ = name;
    return look();
  }

  /// Asks what the server says of the model, or of its default, which then is the model of the whole conversation.
  /// Errors: it is not there, or does not let us in.
  Result<void> look();
  /// Whether the server has a model of that name; a server that lists none is believed to.
  Result<void> check_model(const std::string& name);
  /// Why nobody can talk to a server that nobody has named; empty: one can. Error: nothing like a server is there.
  Result<std::string> obstacle();

 private:
  Result<ordered_json> request(const ChatFlags& flags, const ordered_json& messages) const;

  const std::unique_ptr<ServerClient> server_;
  std::string name_;
  bool tells_progress_ = false;  // it is Cairn's or llama.cpp's
  int64_t context_tokens_ = 0;
};

Result<void> RemoteModel::look() {
  const std::string query = name_.empty() ? "" : "?model=" + net::percent_encode(name_);
  CAIRN_TRY(const net::HttpReply reply, server_->get("/props" + query));
  context_tokens_ = 0;
  if (reply.status == kUnauthorized) return std::unexpected(server_->refusal(reply));
  if (!reply.success()) return {};  // another program's server
  const auto props = ordered_json::parse(reply.body, nullptr, false);
  const ordered_json settings = member_of(props, "default_generation_settings");
  tells_progress_ = settings.is_object();
  context_tokens_ = static_cast<int64_t>(number_member_of(settings, "n_ctx", 0));
  if (name_.empty()) name_ = text_member_of(props, "model_alias");
  return {};
}

Result<std::string> RemoteModel::obstacle() {
  CAIRN_TRY(const net::HttpReply health, server_->get("/health", kLookTime));
  const auto said = ordered_json::parse(health.body, nullptr, false);
  const bool loading = health.status == kLoadingStatus && member_of(said, "error").is_object();
  if (!loading && text_member_of(said, "status") != "ok") return fail(Code::kUnavailable, "it is another program's");
  if (loading) return "it is still loading its model";
  const auto looked = look();
  if (!looked) return looked.error().message;
  return std::string(name_.empty() ? "it has no model to talk to" : "");
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
  const auto reply = server_->post("/v1/chat/completions", body, [&](std::string_view bytes) { answer.take(bytes); });
  AnswerStats stats = answer.stats();
  if (!reply && reply.error().code == Code::kCancelled) {
    stats.note = "stopped";
    return TalkAnswer{display.finish(), stats};
  }
  if (!reply) return std::unexpected(reply.error());
  if (!reply->success()) return std::unexpected(server_->refusal(*reply));
  if (!answer.failure().empty()) return fail(Code::kUnavailable, "the server stopped: {}", answer.failure());
  return TalkAnswer{display.finish(), stats};
}

Result<std::vector<std::string>> RemoteModel::models() {
  CAIRN_TRY(const net::HttpReply reply, server_->get("/v1/models"));
  if (reply.status == kUnauthorized) return std::unexpected(server_->refusal(reply));
  std::vector<std::string> names;
  const ordered_json data = member_of(ordered_json::parse(reply.body, nullptr, false), "data");
  if (!reply.success() || !data.is_array()) return names;
  for (const ordered_json& model : data) {
    if (std::string id = text_member_of(model, "id"); !id.empty()) names.push_back(std::move(id));
  }
  return names;
}

Result<void> RemoteModel::check_model(const std::string& name) {
  CAIRN_TRY(const std::vector<std::string> names, models());
  if (names.empty() || std::ranges::find(names, name) != names.end()) return {};
  CAIRN_TRY(const net::HttpReply own, server_->get("/v1/models/" + net::percent_encode(name)));
  if (own.success()) return {};  // it is another name of one
  const std::vector<std::string_view> known(names.begin(), names.end());
  return fail(Code::kNotFound, "the server has no model {}; it has {}{}", name, fmt::join(names, ", "),
              did_you_mean(name, known));
}

}  // namespace

Result<std::unique_ptr<TalkModel>> connect_talk_model(const ChatFlags& flags, bool in_person) {
  CAIRN_TRY(auto server, ServerClient::make({flags.url, flags.api_key}, &chat_interrupted));
  auto model = std::make_unique<RemoteModel>(std::move(server), flags);
  if (in_person) CAIRN_TRY_VOID(model->look());
  if (!flags.load.model.empty()) CAIRN_TRY_VOID(model->check_model(flags.load.model));
  return model;
}

std::unique_ptr<TalkModel> find_running_model(const ChatFlags& flags) {
  auto server = ServerClient::make({"", flags.api_key}, &chat_interrupted);
  if (!server) return nullptr;
  const std::string shown = (*server)->shown();
  auto model = std::make_unique<RemoteModel>(*std::move(server), flags);
  const auto obstacle = model->obstacle();
  if (!obstacle) return nullptr;
  if (obstacle->empty()) return model;
  show_aside(fmt::format("a server runs at {}, but {}", shown, *obstacle));
  return nullptr;
}

}  // namespace cairn
