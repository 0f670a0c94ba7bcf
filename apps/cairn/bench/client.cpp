#include "bench/client.h"

namespace cairn::bench {
namespace {

using nlohmann::ordered_json;
using std::chrono::steady_clock;

constexpr size_t kErrorShownMax = 300;

/// A call of an endpoint: addresses may be given with or without the "/v1" that clients of OpenAI add. Each call has a
/// connection of its own.
net::HttpCall call_of(const Target& target, std::string_view path) {
  return {.url = target.server.url + (target.server.url.ends_with("/v1") ? "" : "/v1") + std::string(path),
          .headers = {{"Content-Type", "application/json"}, {"Connection", "close"}},
          .token = target.api_key,
          .socket = target.server.socket,
          .stall = target.timeout};
}

std::string body_of(const Target& target, const Job& job) {
  ordered_json body;
  if (!target.model.empty()) body["model"] = target.model;
  if (target.endpoint == Endpoint::kChat) {
    body["messages"] = job.messages;
  } else {
    body["prompt"] = plain_text(job.messages);
  }
  body["max_tokens"] = target.max_tokens;
  body["temperature"] = target.temperature;
  body["seed"] = job.index;
  body["stream"] = true;
  body["stream_options"] = {{"include_usage", true}};
  if (target.extra.is_object()) body.update(target.extra);
  return body.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

std::string error_text(const std::string& body) {
  const auto value = ordered_json::parse(body, nullptr, false);
  const auto error = value.is_object() ? value.find("error") : value.end();
  if (value.is_object() && error != value.end()) {
    if (error->is_string()) return error->get<std::string>();
    if (error->is_object() && error->contains("message") && (*error)["message"].is_string()) return (*error)["message"];
  }
  return body.substr(0, kErrorShownMax);
}

int64_t integer(const ordered_json& object, const char* name) {
  if (!object.is_object()) return 0;
  const auto found = object.find(name);
  return found != object.end() && found->is_number_integer() ? found->get<int64_t>() : 0;
}

/// Reads one answer's events as they come.
class Listener {
 public:
  Listener(Sample& sample, std::string& answer) : sample_(sample), answer_(answer) {}

  void take(std::string_view bytes) {
    const TimePoint now = steady_clock::now();
    for (const auto& data : splitter_.push(bytes)) take_event(data, now);
  }
  bool ended() const { return ended_; }

 private:
  void take_event(const std::string& data, TimePoint now) {
    if (data == "[DONE]") {
      ended_ = true;
      return;
    }
    const auto value = ordered_json::parse(data, nullptr, false);
    if (!value.is_object()) return;
    if (value.contains("error")) sample_.error = error_text(data);
    if (const auto usage = value.find("usage"); usage != value.end() && usage->is_object()) take_usage(*usage);
    // llama.cpp's timings, if `usage` does not say how much was cached.
    if (const auto timings = value.find("timings"); timings != value.end() && sample_.cached_tokens == 0) {
      sample_.cached_tokens = integer(*timings, "cache_n");
    }
    const auto choices = value.find("choices");
    if (choices == value.end() || !choices->is_array() || choices->empty() || !choices->front().is_object()) return;
    const auto& choice = choices->front();
    if (const auto reason = choice.find("finish_reason"); reason != choice.end() && reason->is_string()) ended_ = true;
    bool has_text = append(choice, "text");
    if (const auto delta = choice.find("delta"); delta != choice.end() && delta->is_object()) {
      has_text |= append(*delta, "content");
      has_text |= sees(*delta, "reasoning_content") || sees(*delta, "reasoning");
    }
    if (has_text) count(now);
  }

  void take_usage(const ordered_json& usage) {
    sample_.has_usage = true;
    sample_.prompt_tokens = integer(usage, "prompt_tokens");
    sample_.completion_tokens = integer(usage, "completion_tokens");
    if (const auto details = usage.find("prompt_tokens_details"); details != usage.end()) {
      sample_.cached_tokens = integer(*details, "cached_tokens");
    }
  }

  static bool sees(const ordered_json& object, const char* name) {
    const auto text = object.find(name);
    return text != object.end() && text->is_string() && !text->get_ref<const std::string&>().empty();
  }

  bool append(const ordered_json& object, const char* name) {
    if (!sees(object, name)) return false;
    answer_ += object[name].get_ref<const std::string&>();
    return true;
  }

  void count(TimePoint now) {
    const auto ms = [&](TimePoint since) { return std::chrono::duration<double, std::milli>(now - since).count(); };
    if (sample_.chunks++ == 0) {
      sample_.first_ms = ms(sample_.due);
    } else {
      sample_.gaps_ms.push_back(static_cast<float>(ms(last_)));
    }
    last_ = now;
  }

  Sample& sample_;
  std::string& answer_;
  net::EventSplitter splitter_;
  TimePoint last_;
  bool ended_ = false;
};

}  // namespace

Sample ask(const Target& target, const Job& job, TimePoint due, const std::atomic<bool>& interrupted,
           std::string& answer) {
  Sample sample;
  sample.index = job.index;
  sample.mix = job.mix;
  sample.due = due;
  Listener listener(sample, answer);
  net::HttpCall call = call_of(target, target.endpoint == Endpoint::kChat ? "/chat/completions" : "/completions");
  call.body = body_of(target, job);
  call.cancelled = &interrupted;
  thread_local net::HttpClient client;  // reading the certificates takes longer than a token
  const auto reply = client.request(std::move(call), [&](std::string_view bytes) { listener.take(bytes); });
  sample.ended = steady_clock::now();
  if (!sample.has_usage) sample.completion_tokens = sample.chunks;
  if (!reply) {
    sample.status = sample.chunks > 0 ? 200 : 0;
    sample.error = interrupted.load() ? "interrupted" : reply.error().message;
    return sample;
  }
  sample.status = reply->status;
  if (reply->status != 200) {
    sample.error = error_text(reply->body);
    if (sample.error.empty()) sample.error = "no reason given";
  } else if (sample.error.empty() && !listener.ended()) {
    sample.error = "the stream ended before the answer did";
  }
  return sample;
}

Result<std::string> first_model(const Target& target) {
  const net::HttpCall call = call_of(target, "/models");
  CAIRN_TRY(const auto reply, net::HttpClient().request(call));
  const auto value = ordered_json::parse(reply.body, nullptr, false);
  const auto data = value.is_object() ? value.find("data") : value.end();
  const bool listed = reply.status == 200 && value.is_object() && data != value.end() && data->is_array() &&
                      !data->empty() && data->front().is_object() && data->front().contains("id") &&
                      data->front()["id"].is_string();
  if (!listed) {
    return fail(Code::kUnavailable, "{} does not list its models (status {}: {}); name one with --model",
                net::shown_url(call.url), reply.status, error_text(reply.body));
  }
  return data->front()["id"].get<std::string>();
}

}  // namespace cairn::bench
