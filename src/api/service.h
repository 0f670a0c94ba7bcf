/// What the endpoints share besides the models.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "api/errors.h"
#include "api/http/kept_streams.h"
#include "api/params/generation_defaults.h"
#include "api/running_responses.h"
#include "api/store/response_store.h"
#include "api/workers.h"
#include "base/system/byte_budget.h"
#include "chat/constraints/answer_grammar.h"
#include "chat/sampled_turns.h"
#include "grammar/grammar_source.h"
#include "loader/registry.h"
#include "sampling/text_ban.h"

namespace cairn::api {

/// Threads that take requests, one of which is for small ones alone; and how many of these may wait for one of them.
inline constexpr int kWorkerThreads = 2;
inline constexpr size_t kWaitingRequestsMax = 1'024;
/// Once so many bytes of requests and answers have been given back, the allocator gives free memory to the system.
inline constexpr int64_t kTrimBytes = 16 << 20;

/// --request-bytes where nobody has said: an eighth of the memory that is available, from 16 MiB to 1 GiB.
int64_t default_request_bytes(int64_t available_bytes);

/// Thread-safe but for what is said. Requests are read, templated and tokenised on workers (`hand_over`), and so far as
/// that needs the store it is read there. What an answer keeps is written on a thread of its own (`store_later`). The
/// rest of an answer, from its submission to the engine on, belongs to the server's thread.
class Service {
 public:
  /// `registry` outlives this.
  explicit Service(const Registry& registry, int64_t request_bytes = std::numeric_limits<int64_t>::max());

  const Registry& registry() const { return registry_; }
  /// What requests and their answers may take in memory.
  const std::shared_ptr<ByteBudget>& bytes() const { return bytes_; }
  KeptStreams& kept_streams() { return kept_streams_; }
  SampledTurnCache& turns() { return turns_; }
  /// Refuses fields that an endpoint does not know. Before serving.
  void set_strict_fields(bool strict) { strict_fields_ = strict; }
  bool strict_fields() const { return strict_fields_; }
  /// Whether calls in another dress are read where a request does not say. Set before serving.
  void set_lenient_calls(bool lenient) { lenient_calls_ = lenient; }
  bool lenient_calls() const { return lenient_calls_; }
  /// For requests that say nothing. Before serving.
  void set_generation_defaults(const GenerationDefaults& defaults) { generation_defaults_ = defaults; }
  const GenerationDefaults& generation_defaults() const { return generation_defaults_; }
  /// Server's thread only.
  RunningResponses& running_responses() { return running_responses_; }
  /// Keeps responses and sampled turns in this file. Before serving. Errors: StoreFile::open's.
  Result<void> open_store(const std::string& path);
  /// How much of recent responses is kept in memory where there is no file. Before serving.
  void keep_recent_responses(int64_t bytes_max);
  ResponseStore& response_store() { return *response_store_; }
  /// Forbids the beginning of a tool call in the model's format; made when it is asked for first. Null: the format has
  /// no text of its own that begins one.
  std::shared_ptr<const TextBan> call_ban(const LoadedModel& model);
  /// What completes the texts that begin a call in the model's format (tool_call::call_starts), in their order; made
  /// when it is asked for first. Null: there are none.
  std::shared_ptr<const TextBan> call_starts(const LoadedModel& model);
  /// Made when it is asked for first.
  std::shared_ptr<const AnswerVocabulary> answer_vocabulary(const LoadedModel& model);
  grammar::GrammarCache& grammars() { return grammars_; }

  using Handler =
      std::function<void(Service&, const net::HttpRequest& request, std::shared_ptr<net::HttpResponse> response)>;
  /// Has a worker call the handler, with RequestNotes, unless the client has gone by then. What it throws, and a
  /// request that has no room in `bytes` or in the workers' queue, is answered in `shape`.
  void hand_over(net::HttpRequest request, std::shared_ptr<net::HttpResponse> response, ErrorFormat format,
                 Handler handler);
  /// The same for what is no HTTP request; false: no worker is free for it, or all has stopped.
  [[nodiscard]] bool hand_over(std::move_only_function<void()> job, int64_t bytes) {
    return workers_.submit(std::move(job), bytes);
  }
  /// Runs what may wait for a disk, in the order in which it comes.
  void store_later(std::function<void()> work);
  /// Waits for what the threads are at, and drops the rest. After the server has stopped and before it is destroyed.
  void stop();

 private:
  void give_memory_back();

  const Registry& registry_;
  const std::shared_ptr<ByteBudget> bytes_;
  KeptStreams kept_streams_{bytes_};
  SampledTurnCache turns_;
  bool lenient_calls_ = true;
  RunningResponses running_responses_;
  std::unique_ptr<ResponseStore> response_store_;
  std::mutex call_bans_mutex_;
  std::map<std::string, std::shared_ptr<const TextBan>, std::less<>> call_bans_;
  std::map<std::string, std::shared_ptr<const TextBan>, std::less<>> call_starts_;
  std::mutex answer_vocabularies_mutex_;
  std::map<std::string, std::shared_ptr<const AnswerVocabulary>, std::less<>> answer_vocabularies_;
  grammar::GrammarCache grammars_;
  bool strict_fields_ = false;
  GenerationDefaults generation_defaults_;
  std::atomic<int64_t> trimmed_at_ = 0;    // of bytes_->given_back()
  std::atomic<bool> trims_again_ = false;  // at the next idle moment
  // Last, so that they end first.
  Workers storing_;
  Workers workers_;
};

/// About what reading a request takes: its document, its text several times over, its tokens.
int64_t working_bytes(std::string_view body);

}  // namespace cairn::api
