#include "api/service.h"

#include <malloc.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "api/models/model_response.h"
#include "api/store/file.h"
#include "api/store/turn_store.h"
#include "base/system/unwinding_reserve.h"
#include "base/text/json.h"
#include "net/http/content_coding.h"
#include "sampling/default_parameters.h"

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

/// Whether `openai_sampling` is about its endpoints.
bool is_of_openai(Protocol protocol) {
  return protocol == Protocol::kOpenAi || protocol == Protocol::kResponses || protocol == Protocol::kAnthropic;
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

Service::Service(const loader::Registry& registry, ServiceOptions options)
    : registry_(registry),
      options_(std::move(options)),
      bytes_(std::make_shared<ByteBudget>(options_.request_bytes)),
      monitor_(registry, running_requests_),
      response_store_(make_recent_responses({.bytes_max = options_.recent_bytes})),
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

void Service::hand_over(Job given) {
  const bool compressed = coding_of(given.exchange.request) != net::ContentCoding::kIdentity;
  const auto bytes = static_cast<int64_t>(given.exchange.request.body.size()) * (compressed ? kDecodedBytesPerByte : 1);
  const auto job = std::make_shared<Job>(std::move(given));
  job->decoded = ByteShare(bytes_);
  const auto work = [this, compressed, job] {
    Exchange& exchange = job->exchange;
    if (exchange.response->closed()) return;
    answer_throws(*exchange.response, job->errors, [&] {
      if (const auto done = compressed ? decode(exchange.request, job->decoded) : Result<void>(); !done)
        return send_error(*exchange.response, done.error(), job->errors);
      const bool meant = job->needs.kind || job->needs.named;
      if (meant && models() != nullptr) {
        run_when_found(job);
      } else {
        run(*job, nullptr);
      }
    });
  };
  if (workers_.submit(work, bytes)) return;
  send_error(*job->exchange.response, {Code::kUnavailable, "too many requests wait to be read; try again later", {}},
             job->errors);
}

void Service::set_generation_defaults(const std::string& model, const GenerationDefaults& defaults) {
  const std::lock_guard lock(model_defaults_mutex_);
  model_defaults_[model] = defaults;
}

GenerationDefaults Service::generation_defaults(const loader::LoadedModel& model) const {
  return generation_defaults(model.name, model.file.metadata());
}

GenerationDefaults Service::generation_defaults(const std::string& model, const gguf::Metadata& metadata) const {
  return defaults_of(model, metadata).or_else({.sampling = sampling::default_parameters()});
}

GenerationDefaults Service::defaults_of(const std::string& model, const gguf::Metadata& metadata) const {
  GenerationDefaults defaults = options_.defaults;
  {
    const std::lock_guard lock(model_defaults_mutex_);
    const auto own = model_defaults_.find(model);
    if (own != model_defaults_.end()) defaults = own->second.or_else(options_.defaults);
  }
  return defaults.or_else({.sampling = recommended_by(metadata)});
}

void Service::run(Job& job, loader::SharedModel model) {
  Exchange& exchange = job.exchange;
  ByteShare share(bytes_);
  if (!share.grow_to(working_bytes(exchange.request.body)))
    return send_error(*exchange.response, no_request_bytes(), job.errors);
  answer_by(exchange.context, std::move(model), job.protocol);
  answer(exchange, job.handle);
}

void Service::when_looked_for(std::string_view name, const loader::ModelScope& scope,
                              const std::function<void()>& then) {
  const bool unknown =
      models() != nullptr && (name.empty() ? models()->empty() : !models()->find_exactly(name, scope).has_value());
  const auto on_worker = [this, then] {
    if (!workers_.submit(then, 0)) then();
  };
  if (!unknown || !models()->look_again(on_worker)) then();
}

void Service::run_when_found(const std::shared_ptr<Job>& job) {
  const Exchange& exchange = job->exchange;
  auto asked = read_model_request(exchange.request.body, job->needs.ollama);
  if (!asked) return send_error(*exchange.response, asked.error(), job->errors);
  if (job->needs.named) {
    if (const auto in_query = exchange.request.query_value("model")) asked->model = *in_query;
    if (!exchange.context.id().empty()) asked->model = exchange.context.id();
  }
  when_looked_for(asked->model, exchange.context.scope(), [this, job, asked = *asked] {
    answer_throws(*job->exchange.response, job->errors,
                  [&] { job->needs.kind ? run_with_model(job, asked) : run(*job, nullptr); });
  });
}

void Service::run_with_model(const std::shared_ptr<Job>& job, const ModelRequest& asked) {
  Exchange& exchange = job->exchange;
  const Needs& needs = job->needs;
  const auto refuse = [&](const Error& error) { send_error(*exchange.response, error, job->errors); };
  const auto choice = models()->choose(asked.model, *needs.kind, exchange.context.scope());
  if (!choice) return refuse(choice.error());
  const auto response = std::make_shared<ModelResponse>(exchange.response, choice->name, job->errors);
  exchange.response = response;
  if (needs.instead != nullptr) {
    const auto answered = needs.instead(exchange, asked, choice->name);
    if (!answered) return refuse(answered.error());
    if (*answered) return;
  }
  loader::ModelManager::Waiter waiter;
  waiter.gone = [response] { return response->closed(); };
  if (asked.stream && !needs.ollama) waiter.tell = [response] { response->tell_loading(); };
  std::optional<loader::KeepAlive> keep = asked.keep_alive;
  if (keep && !principal_of(exchange.request).may_manage()) {
    exchange.context.note_ignored("keep_alive", "keep_alive has no effect: this key may not manage models");
    keep.reset();
  }
  with_model(choice->name, keep, std::move(waiter), [this, job](Result<loader::SharedModel> model) {
    net::HttpResponse& to = *job->exchange.response;
    answer_throws(to, job->errors, [&] {
      if (!model) return send_error(to, model.error(), job->errors);
      run(*job, *std::move(model));
    });
  });
}

void Service::with_model(const std::string& name, const std::optional<loader::KeepAlive>& keep,
                         loader::ModelManager::Waiter waiter, std::function<void(Result<loader::SharedModel>)> work) {
  waiter.ready = [this, work](Result<loader::SharedModel> model) {
    if (!model) return work(std::move(model));
    if (!workers_.submit([work, model] { work(model); }, 0))
      work(fail(Code::kUnavailable, "too many requests wait to be read; try again later"));
  };
  Result<loader::SharedModel> loaded = models()->use(name, keep, std::move(waiter));
  if (!loaded || *loaded != nullptr) work(std::move(loaded));
}

Result<loader::SharedModel> Service::find_model(const RequestContext& context, std::string_view name) const {
  if (context.model() != nullptr) return context.model();
  if (models() == nullptr) return registry_.find(name, context.scope());
  CAIRN_TRY(const loader::ModelChoice choice, models()->choose(name, loader::ModelKind::kChat, context.scope()));
  CAIRN_TRY(loader::ModelStatus status, models()->find_exactly(choice.name, context.scope()));
  if (status.loaded != nullptr) return std::move(status.loaded);
  return fail_at("model", Code::kUnavailable, "{} is not loaded: ask it something, or POST /v1/models/load",
                 choice.name);
}

void Service::answer_by(RequestContext& context, loader::SharedModel model, Protocol protocol) const {
  GenerationDefaults defaults = model == nullptr ? options_.defaults : defaults_of(model->name, model->file.metadata());
  if (!options_.openai_sampling || !is_of_openai(protocol))
    defaults = defaults.or_else({.sampling = sampling::default_parameters()});
  context.set_model(std::move(model), defaults);
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
