#include "api/service.h"

#include <malloc.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "api/models/model_request.h"
#include "api/models/model_response.h"
#include "api/params/request_notes.h"
#include "api/serialization/json_text.h"
#include "api/serialization/timestamps.h"
#include "api/store/file.h"
#include "api/store/recent_responses.h"
#include "api/store/turn_store.h"
#include "api/telemetry/request_record.h"
#include "base/system/unwinding_reserve.h"
#include "base/text/json.h"
#include "loader/model_scope.h"
#include "net/http/content_coding.h"

namespace cairn::api {
namespace {

/// Texts, as they are read, checked, rendered and cut into pieces, and a token for a byte at the worst.
constexpr int64_t kWorkingBytesPerByte = 8;
constexpr int64_t kRequestBytesMin = 16 << 20;
constexpr int64_t kRequestBytesMax = 1 << 30;
constexpr int64_t kAvailablePart = 8;

/// What a compressed body is taken for until it is read, so that it does not go for a small request.
constexpr int64_t kDecodedBytesPerByte = 8;

/// Unknown codings have been refused.
net::ContentCoding coding_of(const net::HttpRequest& request) {
  return net::content_coding(request.header("content-encoding")).value_or(net::ContentCoding::kIdentity);
}

/// Puts the body in the place of the compressed one. `share` is its memory.
Result<void> decode(net::HttpRequest& request, ByteShare& share) {
  const auto room_for = [&](size_t bytes) { return share.grow_to(static_cast<int64_t>(bytes)); };
  CAIRN_TRY(request.body,
            net::decode_body(coding_of(request), request.body, net::HttpLimits{}.body_bytes_max, room_for));
  share.shrink_to(static_cast<int64_t>(request.body.size()));
  return {};
}

constexpr std::string_view kOllamaChat = "/api/chat", kOllamaGenerate = "/api/generate";

/// How Ollama's clients unload a model: a request without a prompt that is to keep it loaded for no time.
bool unloads(std::string_view path, const ModelRequest& request) {
  const bool now = request.keep_alive && request.keep_alive->time == std::chrono::milliseconds(0);
  return now && request.asks_nothing && (path == kOllamaChat || path == kOllamaGenerate);
}

/// The answer, as a stream of one line if the request wants a stream.
void send_unloaded(std::string_view path, const ModelRequest& request, const std::string& model,
                   net::HttpResponse& response) {
  nlohmann::ordered_json value = {{"model", request.model.empty() ? model : request.model},
                                  {"created_at", rfc3339_now()}};
  if (path == kOllamaChat) {
    value["message"] = {{"role", "assistant"}, {"content", ""}};
  } else {
    value["response"] = "";
  }
  value["done"] = true;
  value["done_reason"] = "unload";
  std::string body = dump(value);
  if (request.stream) body += '\n';
  response.send(200, request.stream ? "application/x-ndjson" : "application/json", std::move(body));
}

}  // namespace

int64_t default_request_bytes(int64_t available_bytes) {
  return std::clamp(available_bytes / kAvailablePart, kRequestBytesMin, kRequestBytesMax);
}

int64_t working_bytes(std::string_view body) {
  const auto measure = measure_json(body);  // what is no JSON, or over a limit, is not read
  return static_cast<int64_t>(body.size()) * kWorkingBytesPerByte +
         (measure ? static_cast<int64_t>(measure->bytes) : 0);
}

Service::Service(const Registry& registry, int64_t request_bytes)
    : registry_(registry),
      bytes_(std::make_shared<ByteBudget>(request_bytes)),
      monitor_(registry, running_requests_),
      response_store_(make_recent_responses()),
      storing_(1, std::numeric_limits<size_t>::max()),
      workers_(kWorkerThreads, kWaitingRequestsMax, [this] { give_memory_back(); }) {}

Result<void> Service::open_store(const std::string& path) {
  CAIRN_TRY(const auto file, StoreFile::open(path));
  CAIRN_TRY(response_store_, ResponseStore::open(file));
  CAIRN_TRY(auto turns, open_turn_store(file));
  turns_.set_store(std::move(turns));
  stores_on_disk_ = true;
  return {};
}

void Service::keep_recent_responses(int64_t bytes_max) {
  response_store_ = make_recent_responses({.bytes_max = bytes_max});
}

/// A request on its way to its endpoint.
struct Service::Job {
  net::HttpRequest request;
  std::shared_ptr<net::HttpResponse> response;
  ErrorFormat format;
  Handler handler;
  ByteShare decoded;  ///< for a body that came compressed
};

void Service::hand_over(net::HttpRequest request, std::shared_ptr<net::HttpResponse> response, ErrorFormat format,
                        Handler handler) {
  const bool compressed = coding_of(request) != net::ContentCoding::kIdentity;
  const auto bytes = static_cast<int64_t>(request.body.size()) * (compressed ? kDecodedBytesPerByte : 1);
  auto job = std::make_shared<Job>(std::move(request), response, format, std::move(handler), ByteShare(bytes_));
  const auto work = [this, compressed, job] {
    if (job->response->closed()) return;
    answer_throws(*job->response, job->format, [&] {
      if (const auto done = compressed ? decode(job->request, job->decoded) : Result<void>(); !done)
        return send_error(*job->response, done.error(), job->format);
      const auto kind = models_ == nullptr ? std::nullopt : kind_for_path(job->request.path);
      kind ? run_with_model(job, *kind) : run(*job, nullptr, std::nullopt);
    });
  };
  if (workers_.submit(work, bytes)) return;
  send_error(*response, {Code::kUnavailable, "too many requests wait to be read; try again later", {}}, format);
}

void Service::set_generation_defaults(const std::string& model, const GenerationDefaults& defaults) {
  const std::lock_guard lock(model_defaults_mutex_);
  model_defaults_[model] = defaults;
}

GenerationDefaults Service::generation_defaults(std::string_view model) const {
  if (const AnsweringModel* answering = AnsweringModel::current()) return defaults_of(*answering->model());
  const auto models = registry_.list();
  const auto found = std::ranges::find_if(models, [&](const auto& each) {
    return models.size() == 1 || each->name == model || std::ranges::find(each->aliases, model) != each->aliases.end();
  });
  return found == models.end() ? generation_defaults_ : defaults_of(**found);
}

GenerationDefaults Service::defaults_of(const LoadedModel& model) const {
  GenerationDefaults defaults = generation_defaults_;
  {
    const std::lock_guard lock(model_defaults_mutex_);
    const auto own = model_defaults_.find(model.name);
    if (own != model_defaults_.end()) defaults = own->second.or_else(generation_defaults_);
  }
  return defaults.or_else({.sampling = recommended_by(model.file.metadata())});
}

void Service::run(Job& job, SharedModel model, const std::optional<KeepAlive>& keep) {
  ByteShare share(bytes_);
  if (!share.grow_to(working_bytes(job.request.body))) return send_error(*job.response, no_request_bytes(), job.format);
  std::optional<AnsweringModel> answering;
  if (model != nullptr) answering.emplace(std::move(model), keep);
  const ModelScope scope(principal_of(job.request).models());
  const RequestNotes notes(
      strict_fields_, [this](auto name) { return generation_defaults(name); },
      std::static_pointer_cast<RequestRecord>(job.request.context));
  job.handler(*this, job.request, job.response);
}

void Service::run_with_model(const std::shared_ptr<Job>& job, ModelKind kind) {
  const bool ollama = job->format == ErrorFormat::kOllama;
  const auto asked = read_model_request(job->request.body, ollama);
  if (!asked) return send_error(*job->response, asked.error(), job->format);
  const ModelScope scope(principal_of(job->request).models());
  const auto choice = models_->choose(asked->model, kind);
  if (!choice) return send_error(*job->response, choice.error(), job->format);
  const auto response = std::make_shared<ModelResponse>(job->response, choice->name, job->format);
  job->response = response;
  const auto status = models_->find_exactly(choice->name);
  if (unloads(job->request.path, *asked) && status && !status->served->pinned) {
    if (const auto done = models_->unload(choice->name); !done) return send_error(*response, done.error(), job->format);
    return send_unloaded(job->request.path, *asked, choice->name, *response);
  }
  ModelManager::Waiter waiter;
  waiter.gone = [response] { return response->closed(); };
  if (asked->stream && !ollama) waiter.tell = [response] { response->tell_loading(); };
  with_model(choice->name, asked->keep_alive, std::move(waiter),
             [this, job, keep = asked->keep_alive](Result<SharedModel> model) {
               answer_throws(*job->response, job->format, [&] {
                 if (!model) return send_error(*job->response, model.error(), job->format);
                 run(*job, *std::move(model), keep);
               });
             });
}

void Service::with_model(const std::string& name, const std::optional<KeepAlive>& keep, ModelManager::Waiter waiter,
                         std::function<void(Result<SharedModel>)> work) {
  waiter.ready = [this, work](Result<SharedModel> model) {
    if (!model) return work(std::move(model));
    if (!workers_.submit([work, model] { work(model); }, 0))
      work(fail(Code::kUnavailable, "too many requests wait to be read; try again later"));
  };
  Result<SharedModel> loaded = models_->use(name, keep, std::move(waiter));
  if (!loaded || *loaded != nullptr) work(std::move(loaded));
}

Result<SharedModel> Service::find_model(std::string_view name) const {
  if (const AnsweringModel* answering = AnsweringModel::current()) return answering->model();
  if (models_ == nullptr) return registry_.find(name);
  CAIRN_TRY(const ModelChoice choice, models_->choose(name, ModelKind::kChat));
  CAIRN_TRY(ModelStatus status, models_->find_exactly(choice.name));
  if (status.loaded != nullptr) return std::move(status.loaded);
  return fail_at("model", Code::kUnavailable, "{} is not loaded: ask it something, or POST /v1/models/load",
                 choice.name);
}

void Service::store_later(std::function<void()> work) { (void)storing_.submit(std::move(work), 0); }

void Service::stop() {
  kept_streams_.clear();
  workers_.stop();
  pulls_.stop();
  storing_.stop();
}

void Service::give_memory_back() {
  refill_unwinding_reserve();
  const int64_t given_back = bytes_->given_back();
  const bool much = given_back - trimmed_at_.load(std::memory_order_relaxed) >= kTrimBytes;
  if (!much && !trims_again_.load(std::memory_order_relaxed)) return;
  // Once more a moment later: a share may be given back before what it was for.
  trims_again_.store(much, std::memory_order_relaxed);
  if (much) trimmed_at_.store(given_back, std::memory_order_relaxed);
  ::malloc_trim(0);
}

}  // namespace cairn::api
