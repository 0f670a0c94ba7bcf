#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/text/json.h"
#include "base/text/nearest.h"
#include "evaluation/answerer.h"
#include "net/http/http_client.h"

namespace cairn {
namespace {

using evaluation::AnswerEnd;
using nlohmann::ordered_json;

constexpr size_t kCallsMax = 128;

/// Puts the events of one streamed chat completion together.
class StreamedAnswer {
 public:
  void take(std::string_view bytes) {
    for (const std::string& data : splitter_.push(bytes)) {
      const auto event = read_json(data);
      if (event && event->is_object()) take_event(*event, data);  // else "[DONE]"
    }
  }
  const std::string& failure() const { return failure_; }
  /// Nothing: the stream ended before the answer did.
  std::optional<evaluation::Answer> finish() {
    if (reason_.empty()) return {};
    if (reason_ == "length" && answer_.end == AnswerEnd::kWhole) answer_.end = AnswerEnd::kCut;
    return std::move(answer_);
  }

 private:
  void take_event(const ordered_json& event, const std::string& data) {
    if (event.contains("error")) failure_ = server_error_text(data);
    answer_.tokens = static_cast<int64_t>(
        number_member_of(member_of(event, "usage"), "completion_tokens", static_cast<double>(answer_.tokens)));
    const ordered_json choices = member_of(event, "choices");
    if (!choices.is_array() || choices.empty()) return;
    const ordered_json& choice = choices.front();
    if (std::string reason = text_member_of(choice, "finish_reason"); !reason.empty()) reason_ = std::move(reason);
    if (text_member_of(choice, "stop_reason") == "repetition") answer_.end = AnswerEnd::kRepeated;  // Cairn's
    const ordered_json delta = member_of(choice, "delta");
    answer_.content += text_member_of(delta, "content");
    // vLLM calls it `reasoning`.
    const std::string reasoning = text_member_of(delta, "reasoning_content");
    answer_.reasoning += reasoning.empty() ? text_member_of(delta, "reasoning") : reasoning;
    const ordered_json calls = member_of(delta, "tool_calls");
    if (!calls.is_array()) return;
    for (const ordered_json& call : calls) {
      const auto index = static_cast<size_t>(std::max(0.0, number_member_of(call, "index", 0)));
      if (index >= kCallsMax) continue;
      if (index >= answer_.calls.size()) answer_.calls.resize(index + 1);
      const ordered_json function = member_of(call, "function");
      answer_.calls[index].name += text_member_of(function, "name");
      answer_.calls[index].arguments += text_member_of(function, "arguments");
    }
  }

  net::EventSplitter splitter_;
  evaluation::Answer answer_;
  std::string reason_;
  std::string failure_;
};

/// The names of the server's models; none: it does not tell.
Result<std::vector<std::string>> model_names(ServerClient& server) {
  CAIRN_TRY(const net::HttpReply reply, server.get("/v1/models"));
  if (reply.status == kUnauthorized) return std::unexpected(server.refusal(reply));
  std::vector<std::string> names;
  const auto body = read_json(reply.body);
  const ordered_json data = member_of(body ? *body : ordered_json(), "data");
  if (!reply.success() || !data.is_array()) return names;
  for (const ordered_json& model : data)
    if (std::string id = text_member_of(model, "id"); !id.empty()) names.push_back(std::move(id));
  return names;
}

/// The model's name as requests have it: the one of the flags, or the server's only one.
Result<std::string> chosen_model(ServerClient& server, const std::string& wanted) {
  CAIRN_TRY(const std::vector<std::string> names, model_names(server));
  if (!wanted.empty()) {
    if (names.empty() || std::ranges::find(names, wanted) != names.end()) return wanted;
    const std::vector<std::string_view> known(names.begin(), names.end());
    return fail(Code::kNotFound, "the server has no model {}; it has {}{}", wanted, fmt::join(names, ", "),
                did_you_mean(wanted, known));
  }
  if (names.size() > 1)
    return fail(Code::kInvalidArgument, "the server has several models; name one of {}", fmt::join(names, ", "));
  return names.empty() ? std::string() : names.front();
}

class RemoteAnswerer final : public Answerer {
 public:
  RemoteAnswerer(const EvalFlags& flags, const std::atomic<bool>& stopped, std::string model)
      : flags_(flags), stopped_(stopped), model_(std::move(model)) {}

  std::optional<evaluation::Answer> answer(const evaluation::Question& question) override {
    auto answer = ask(question);
    if (answer) return *std::move(answer);
    if (stopped_) return {};
    return evaluation::Answer{.content = answer.error().text(), .end = AnswerEnd::kFailed};
  }
  std::string name() const override { return model_; }

 private:
  Result<evaluation::Answer> ask(const evaluation::Question& question);
  ordered_json request(const evaluation::Question& question) const;
  /// A client is one thread's at a time, and keeps its connection for the next question.
  Result<std::unique_ptr<ServerClient>> take_client();

  const EvalFlags& flags_;
  const std::atomic<bool>& stopped_;
  const std::string model_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<ServerClient>> clients_;
};

Result<std::unique_ptr<ServerClient>> RemoteAnswerer::take_client() {
  const std::scoped_lock lock(mutex_);
  if (clients_.empty()) return ServerClient::make(flags_.model.server, &stopped_);
  auto client = std::move(clients_.back());
  clients_.pop_back();
  return client;
}

ordered_json RemoteAnswerer::request(const evaluation::Question& question) const {
  ordered_json body = {
      {"messages", evaluation::messages_of(question)}, {"stream", true}, {"stream_options", {{"include_usage", true}}}};
  if (!model_.empty()) body["model"] = model_;
  if (question.tools.is_array()) body["tools"] = question.tools;
  if (flags_.max_tokens > 0) body["max_tokens"] = flags_.max_tokens;
  if (flags_.thinking != "auto") body["chat_template_kwargs"] = {{"enable_thinking", flags_.thinking == "on"}};
  flags_.sampling.add_to_request(body);
  return body;
}

Result<evaluation::Answer> RemoteAnswerer::ask(const evaluation::Question& question) {
  CAIRN_TRY(auto client, take_client());
  StreamedAnswer streamed;
  const auto reply =
      client->post("/v1/chat/completions", request(question), [&](std::string_view bytes) { streamed.take(bytes); });
  if (!reply) return std::unexpected(reply.error());
  if (!reply->success()) return std::unexpected(client->refusal(*reply));
  if (!streamed.failure().empty()) return fail(Code::kUnavailable, "the server stopped: {}", streamed.failure());
  auto answer = streamed.finish();
  if (!answer) return fail(Code::kUnavailable, "the server's answer has no end");
  const std::scoped_lock lock(mutex_);
  clients_.push_back(std::move(client));
  return *std::move(answer);
}

/// Bytes of a token's text, where U+FFFD stands for one that is part of a character.
size_t bytes_of(std::string_view token) {
  constexpr std::string_view kReplaced = "\xef\xbf\xbd";
  size_t bytes = token.size();
  for (size_t at = token.find(kReplaced); at != std::string_view::npos;
       at = token.find(kReplaced, at + kReplaced.size()))
    bytes -= kReplaced.size() - 1;
  return bytes;
}

class RemoteScorer final : public Scorer {
 public:
  RemoteScorer(std::unique_ptr<ServerClient> client, std::string model)
      : client_(std::move(client)), model_(std::move(model)) {}
  Result<ContinuationScore> score(const std::string& prompt, const std::string& continuation) override;

 private:
  const std::unique_ptr<ServerClient> client_;
  const std::string model_;
};

Result<ContinuationScore> RemoteScorer::score(const std::string& prompt, const std::string& continuation) {
  ordered_json body = {
      {"prompt", prompt + continuation}, {"max_tokens", 0}, {"echo", true}, {"logprobs", 1}, {"temperature", 0}};
  if (!model_.empty()) body["model"] = model_;
  CAIRN_TRY(const net::HttpReply reply, client_->post("/v1/completions", body));
  CAIRN_TRY(const ordered_json value, client_->object_of(reply));
  const ordered_json choices = member_of(value, "choices");
  const ordered_json scores =
      member_of(choices.is_array() && !choices.empty() ? choices.front() : ordered_json(), "logprobs");
  const ordered_json tokens = member_of(scores, "tokens"), logprobs = member_of(scores, "token_logprobs");
  if (!tokens.is_array() || !logprobs.is_array() || tokens.size() != logprobs.size() || tokens.empty())
    return fail(Code::kUnsupported,
                "the server does not score prompts: its answer has no logprobs of the prompt (echo with max_tokens 0)");
  ContinuationScore sum;
  size_t bytes = 0;
  for (size_t i = tokens.size(); i > 0 && bytes < continuation.size(); --i) {
    if (!logprobs[i - 1].is_number() || !tokens[i - 1].is_string()) break;
    bytes += bytes_of(tokens[i - 1].get_ref<const std::string&>());
    sum.logprob += logprobs[i - 1].get<double>();
    ++sum.tokens;
  }
  return sum;
}

}  // namespace

Result<std::unique_ptr<Answerer>> make_remote_answerer(const EvalFlags& flags, const std::atomic<bool>& stopped) {
  CAIRN_TRY(const auto client, ServerClient::make(flags.model.server, &stopped));
  CAIRN_TRY(std::string model, chosen_model(*client, flags.model.load.model));
  return std::make_unique<RemoteAnswerer>(flags, stopped, std::move(model));
}

Result<std::unique_ptr<Scorer>> make_remote_scorer(const AskedModel& model, const std::atomic<bool>& stopped) {
  CAIRN_TRY(auto client, ServerClient::make(model.server, &stopped));
  CAIRN_TRY(std::string name, chosen_model(*client, model.load.model));
  return std::make_unique<RemoteScorer>(std::move(client), std::move(name));
}

}  // namespace cairn
