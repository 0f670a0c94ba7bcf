/// What the endpoints share besides the models.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "api/access/access.h"
#include "api/errors.h"
#include "api/exchange.h"
#include "api/http/kept_streams.h"
#include "api/models/model_pulls.h"
#include "api/models/model_request.h"
#include "api/params/generation_defaults.h"
#include "api/params/request_context.h"
#include "api/store/recent_responses.h"
#include "api/store/response_store.h"
#include "api/stream/running_requests.h"
#include "api/stream/running_responses.h"
#include "api/telemetry/telemetry.h"
#include "api/web/monitor.h"
#include "api/workers.h"
#include "base/system/byte_budget.h"
#include "chat/sampled_turns.h"
#include "engine/power_limit.h"
#include "grammar/grammar_source.h"
#include "loader/model_manager.h"
#include "loader/registry.h"

namespace cairn::api {

/// Threads that take requests, one of which is for small ones alone, so that two large ones are read at once; and how
/// many of these may wait for one of them.
inline constexpr int kWorkerThreads = 3;
inline constexpr size_t kWaitingRequestsMax = 1'024;
/// Once so many bytes of requests and answers have been given back, the allocator gives free memory to the system.
inline constexpr int64_t kTrimBytes = 16 << 20;

/// --request-bytes where nobody has said: an eighth of the memory that is available, from 16 MiB to 1 GiB.
int64_t default_request_bytes(int64_t available_bytes);

/// What a server is started with.
struct ServiceOptions {
  /// What requests and their answers may take in memory.
  int64_t request_bytes = std::numeric_limits<int64_t>::max();
  /// The models that requests may ask for, which are loaded then; it outlives the service. Null: requests are answered
  /// by those of the registry.
  loader::ModelManager* models = nullptr;
  GenerationDefaults defaults{};  ///< for requests that say nothing, where the model has no defaults of its own
  bool strict_fields = false;     ///< fields that an endpoint does not know are refused
  bool openai_sampling = false;   ///< OpenAI's and Anthropic's endpoints have OpenAI's own defaults of sampling
  bool lenient_calls = true;      ///< calls in another dress are read where a request does not say
  grammar::SchemaReading schema_reading = grammar::SchemaReading::kDeclared;
  bool page = true;                             ///< browsers get the page
  size_t turns_max = chat::kSampledTurnsMax;    ///< SampledTurnCache's
  std::shared_ptr<engine::PowerLimit> power{};  ///< of all engines; null: there is none
  int64_t recent_bytes = kRecentResponseBytes;  ///< of responses that are kept in memory where there is no file
};

/// Thread-safe but for what is said. Requests are read, templated and tokenised on workers (`hand_over`), and so far as
/// that needs the store it is read there. What an answer keeps is written on a thread of its own (`store_later`). The
/// rest of an answer, from its submission to the engine on, belongs to the server's thread.
class Service {
 public:
  /// `registry` outlives this.
  explicit Service(const loader::Registry& registry, ServiceOptions options = {});

  const loader::Registry& registry() const { return registry_; }
  const ServiceOptions& options() const { return options_; }
  loader::ModelManager* models() const { return options_.models; }
  /// The model that answers a request which names it so: the context's, or where it has none, the one that is loaded
  /// of that name. Errors: those of Registry::find and ModelManager::choose; kUnavailable, it is not loaded.
  Result<loader::SharedModel> find_model(const RequestContext& context, std::string_view name) const;
  /// Says in the context that the model answers the request, with the defaults of requests to it in this protocol.
  /// `model` may be null.
  void answer_by(RequestContext& context, loader::SharedModel model, Protocol protocol) const;
  /// While requests are answered 503: until there is a model, or with a manager of them until `set_started`.
  bool loading() const { return models() == nullptr ? registry_.loading() : !started_.load(); }
  void set_started() { started_ = true; }
  /// Calls `then` here and now, or, where no model is called `name`, or it is empty and there are no models, on a
  /// worker once the folders of models have been looked into again: not if that was only just done
  /// (ModelManager::look_again).
  void when_looked_for(std::string_view name, const loader::ModelScope& scope, const std::function<void()>& then);
  /// Calls `work` with the model of that name: here and now if it is loaded, else on a worker once it is. Errors go to
  /// `work` too, from any thread. Not called if the client is `gone` by then or all stops.
  void with_model(const std::string& name, const std::optional<loader::KeepAlive>& keep,
                  loader::ModelManager::Waiter waiter, std::function<void(Result<loader::SharedModel>)> work);
  /// What requests and their answers may take in memory.
  const std::shared_ptr<ByteBudget>& bytes() const { return bytes_; }
  KeptStreams& kept_streams() { return kept_streams_; }
  Telemetry& telemetry() { return telemetry_; }
  /// What the server's sockets have had; it counts here.
  const std::shared_ptr<net::Traffic>& traffic() const { return traffic_; }
  /// The same of the frames socket.
  const std::shared_ptr<net::Traffic>& frames_traffic() const { return frames_traffic_; }
  /// The server ends soon: new requests are refused. Thread-safe.
  void begin_to_stop() { stopping_.store(true, std::memory_order_relaxed); }
  bool stopping() const { return stopping_.load(std::memory_order_relaxed); }
  chat::SampledTurnCache& turns() { return turns_; }
  /// What clients have the server fetch.
  ModelPulls& pulls() { return pulls_; }
  bool lenient_calls() const { return options_.lenient_calls; }
  /// The defaults of requests to one model, by its own name. Thread-safe.
  void set_generation_defaults(const std::string& model, const GenerationDefaults& defaults);
  /// For requests to the model: its own, then the server's, then what its file recommends, then the defaults of all
  /// models (sampling/default_parameters.h), which `openai_sampling` takes from some endpoints.
  GenerationDefaults generation_defaults(const loader::LoadedModel& model) const;
  /// The same of one that need not be loaded, by its file's metadata.
  GenerationDefaults generation_defaults(const std::string& model, const gguf::Metadata& metadata) const;
  /// Who may ask. Before serving; null: everybody may.
  void set_access(std::unique_ptr<Access> access) { access_ = std::move(access); }
  Access* access() { return access_.get(); }
  /// Server's thread only.
  RunningResponses& running_responses() { return running_responses_; }
  /// Server's thread only.
  RunningRequests& running_requests() { return running_requests_; }
  /// Where a request to the model is listed while it runs. Any thread.
  Listing listing(const loader::LoadedModel& model) { return {&running_requests_, model.name}; }
  web::Monitor& monitor() { return monitor_; }
  /// Keeps responses and sampled turns in this file. Before serving. Errors: StoreFile::open's.
  Result<void> open_store(const std::string& path);
  /// Whether there is such a file.
  bool stores_on_disk() const { return stores_on_disk_; }
  ResponseStore& response_store() { return *response_store_; }
  grammar::GrammarCache& grammars() { return grammars_; }

  /// A request on its way to a worker.
  struct Job {
    Exchange exchange;
    ErrorFormat errors{};  ///< of what refuses it, and of what the handler throws
    Needs needs{};
    Protocol protocol{};
    std::function<Result<void>(Exchange& exchange)> handle;
    ByteShare decoded{};  ///< of a body that came compressed
  };
  /// Has a worker call the handler once there is what it needs, unless the client has gone by then. A request that has
  /// no room in `bytes` or in the workers' queue is refused.
  void hand_over(Job job);
  /// The same for what is no HTTP request; false: no worker is free for it, or all has stopped.
  [[nodiscard]] bool hand_over(std::move_only_function<void()> job, int64_t bytes) {
    return workers_.submit(std::move(job), bytes);
  }
  /// Runs what may wait for a disk, in the order in which it comes.
  void store_later(std::function<void()> work);
  /// Waits for what the threads are at, and drops the rest. After the server has stopped and before it is destroyed.
  void stop();

 private:
  /// Reads the request by its endpoint. `model` may be null.
  void run(Job& job, loader::SharedModel model);
  /// The same once its model is loaded, which is the one that the request means.
  void run_with_model(const std::shared_ptr<Job>& job, const ModelRequest& asked);
  /// The same once the model that it names is there, if there is one.
  void run_when_found(const std::shared_ptr<Job>& job);
  void give_memory_back();
  /// Without the defaults of all models.
  GenerationDefaults defaults_of(const std::string& model, const gguf::Metadata& metadata) const;

  const loader::Registry& registry_;
  const ServiceOptions options_;
  std::atomic<bool> started_ = false;
  const std::shared_ptr<ByteBudget> bytes_;
  KeptStreams kept_streams_{bytes_};
  Telemetry telemetry_;
  const std::shared_ptr<net::Traffic> traffic_ = std::make_shared<net::Traffic>();
  const std::shared_ptr<net::Traffic> frames_traffic_ = std::make_shared<net::Traffic>();
  std::atomic<bool> stopping_ = false;
  chat::SampledTurnCache turns_{options_.turns_max};
  RunningResponses running_responses_;
  RunningRequests running_requests_;
  web::Monitor monitor_;
  std::unique_ptr<ResponseStore> response_store_;
  bool stores_on_disk_ = false;
  grammar::GrammarCache grammars_{options_.schema_reading};
  std::unique_ptr<Access> access_;
  mutable std::mutex model_defaults_mutex_;
  std::map<std::string, GenerationDefaults, std::less<>> model_defaults_;
  std::atomic<int64_t> trimmed_at_ = 0;    // of bytes_->given_back()
  std::atomic<bool> trims_again_ = false;  // at the next idle moment
  // Last, so that they end first.
  ModelPulls pulls_;
  Workers storing_;
  Workers workers_;
};

/// About what reading a request takes: its document, its text several times over, its tokens.
int64_t working_bytes(std::string_view body);

}  // namespace cairn::api
