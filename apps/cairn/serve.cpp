// cairn serve: serves a model over HTTP and, optionally, a Unix socket.
#include <malloc.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <future>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "api/errors.h"
#include "api/frames/session.h"
#include "api/routes.h"
#include "api/store/recent_responses.h"
#include "base/log.h"
#include "base/system/machine.h"
#include "base/system/unwinding_reserve.h"
#include "base/text/bytes_text.h"
#include "commands.h"
#include "load_flags.h"
#include "loader/model_manager.h"
#include "model_flags.h"
#include "net/descriptors.h"
#include "net/http/http_server.h"

namespace cairn {
namespace {

using namespace std::chrono_literals;

struct ServeFlags {
  LoadFlags load;
  std::vector<std::string> files;  ///< none: those of the catalog
  CatalogFlags catalog;
  ManagerFlags manager;
  std::string host = "127.0.0.1";
  uint16_t port = 8080;
  std::string frames;                ///< path of a socket; empty: none
  std::optional<std::string> store;  ///< path of a file
  int64_t request_bytes = 0;         ///< 0: default_request_bytes
  int64_t response_bytes = 0;        ///< 0: kRecentResponseBytes, at most request_bytes
  std::vector<std::string> allow_hosts;
  bool strict_fields = false;
  std::string tool_calls = "lenient";  ///< or "strict"
  api::GenerationDefaults defaults;
  net::Compression compression = net::Compression::kWhole;
};

/// Time for answers in progress to end after the first Ctrl-C; the second one ends the program at once.
constexpr auto kStopGrace = 10s;

/// State shared by the threads that start, run and stop a server.
struct Progress {
  std::atomic<bool> loaded{false};
  std::atomic<int> signal{0};  ///< the signal that stopped the server; 0: none
};

sigset_t stop_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  return signals;
}

/// The exit code that a shell reports for a program ended by a signal.
int exit_code_of(int signal) { return 128 + signal; }

/// Waits for SIGINT or SIGTERM (blocked in every thread) and stops the server; while it is loading there are no answers
/// in progress.
void watch_signals(net::HttpServer& server, Progress& progress) {
  const sigset_t signals = stop_signals();
  int signal = 0;
  sigwait(&signals, &signal);
  progress.signal = signal;
  if (progress.loaded) {
    log_info("stopping: answers in progress have {} s to end; press Ctrl-C again to stop at once",
             std::chrono::seconds(kStopGrace).count());
    server.stop(kStopGrace);
  } else {
    log_info("stopping: the model was still being loaded");
    server.stop(0s);
  }
  sigwait(&signals, &signal);
  ::_exit(exit_code_of(SIGINT));
}

void block_signals() {
  const sigset_t signals = stop_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

/// Limits the number of connections to what the system allows, and logs that, instead of failing later.
net::HttpLimits http_limits(std::shared_ptr<ByteBudget> budget) {
  constexpr size_t kOtherFiles = 64;  // models, the store, logs
  net::HttpLimits limits;
  limits.budget = std::move(budget);
  const size_t files = net::raise_descriptor_limit();
  if (files < limits.connections_max + kOtherFiles) {
    log_warning(
        "the system lets this program have {} files open, so about {} connections fit instead of {}: raise the "
        "hard limit (ulimit -Hn, or LimitNOFILE= of a systemd unit) for more",
        files, files - std::min(files, kOtherFiles), limits.connections_max);
  }
  return limits;
}

void say_who_may_come(net::HttpServer& server, const ServeFlags& flags) {
  server.allow_hosts(flags.allow_hosts);
  if (server.on_loopback()) return;
  log_warning("listening on {}: everybody who reaches that address may use this server, from web pages too",
              flags.host);
}

void tell_addresses(const ServeFlags& flags, const std::string& name, bool encoder, uint16_t port) {
  const std::string url = fmt::format(
      "http://{}:{}", flags.host.find(':') == std::string::npos ? flags.host : "[" + flags.host + "]", port);
  log_info("serving {} on {}", name, url);
  if (!flags.frames.empty()) log_info("and framed JSON at {0}; try: cairn frames {0} -m Hello", flags.frames);
  if (encoder) {
    log_info("try: curl {}/v1/embeddings -H 'Content-Type: application/json' -d '{{\"input\":\"Hello!\"}}'", url);
  } else {
    log_info(
        "try: curl {}/v1/chat/completions -H 'Content-Type: application/json' -d "
        "'{{\"messages\":[{{\"role\":\"user\",\"content\":\"Hello!\"}}],\"stream\":true}}'",
        url);
    log_info("or:  cairn chat --url {}", url);
  }
}

/// The only file that is given, which is loaded at the start and stays.
bool serves_one_file(const ServeFlags& flags) { return flags.files.size() == 1; }

Result<std::vector<ServedModel>> served_models(const ServeFlags& flags) {
  CAIRN_TRY(const LoadOptions options, flags.load.load_options());
  if (flags.files.size() != 1 && (!options.name.empty() || !options.aliases.empty()))
    return fail(Code::kInvalidArgument, "--name and --alias are for one file; {} are served",
                flags.files.empty() ? "those of the catalog" : "several");
  std::vector<ServedModel> models;
  for (const std::string& file : flags.files) {
    CAIRN_TRY(CatalogModel model, describe_file(file));
    model.aliases = options.aliases;
    if (!options.aliases.empty()) model.name = options.aliases.front();
    if (!options.name.empty()) model.name = options.name;
    if (serves_one_file(flags)) model.unusable.clear();  // loading it says more
    models.push_back({std::move(model), options, serves_one_file(flags)});
  }
  if (flags.files.empty()) {
    Catalog catalog = flags.catalog.scan();
    log_skipped(catalog.skipped);
    for (CatalogModel& model : catalog.models) models.push_back({std::move(model), options, false});
    if (models.empty())
      log_warning("there are no models yet: put GGUF files into {}, or give one on the command line",
                  flags.catalog.models_folder());
  }
  CAIRN_TRY_VOID(flags.manager.pin(models));
  return models;
}

/// Loads what is loaded at the start, on a thread of its own; meanwhile the server answers that it is loading.
Result<void> load(const ServeFlags& flags, ModelManager& manager, api::Service& service, uint16_t port,
                  Progress& progress) {
  CAIRN_TRY(const std::vector<ServedModel> models, served_models(flags));
  CAIRN_TRY_VOID(manager.set_models(models));
  SharedModel only;
  for (const ServedModel& served : models)
    if (served.pinned && !serves_one_file(flags)) CAIRN_TRY_VOID(manager.load(served.model.name));
  if (serves_one_file(flags)) {
    CAIRN_TRY(only, manager.load_and_wait(models.front().model.name));
    warn_without_template(*only);
  }
  progress.loaded = true;
  service.set_starting(false);
  if (only != nullptr) {
    tell_addresses(flags, only->name, only->embedder != nullptr, port);
    return {};
  }
  log_info("models may take {} of memory (--memory), and are loaded when they are asked for",
           bytes_text(manager.memory().bytes_max()));
  tell_addresses(flags, fmt::format("{} models", models.size()), false, port);
  return {};
}

/// Returns a request's memory to the system soon after the request. By default glibc keeps blocks of up to 32 MiB, in
/// an arena for each thread.
void give_back_memory_soon() {
  constexpr int kMappedBytesMin = 256 << 10, kFreeAtEndBytesMax = 1 << 20, kArenasMax = 2;
  ::mallopt(M_MMAP_THRESHOLD, kMappedBytesMin);
  ::mallopt(M_TRIM_THRESHOLD, kFreeAtEndBytesMax);
  ::mallopt(M_ARENA_MAX, kArenasMax);
}

Result<void> serve(const ServeFlags& flags) {
  give_back_memory_soon();
  install_unwinding_reserve();
  // Listens before loading, so that a port that is taken is noticed before a large model was read.
  Registry registry;
  const int64_t request_bytes =
      flags.request_bytes > 0
          ? flags.request_bytes
          : api::default_request_bytes(std::min(available_memory_bytes(), address_space_left_bytes()));
  api::Service service(registry, request_bytes);
  ModelManager manager(registry, flags.manager.options(flags.files.empty(), flags.files.size()));
  service.set_models(manager);
  service.set_starting(true);
  service.set_strict_fields(flags.strict_fields);
  service.set_generation_defaults(flags.defaults);
  net::HttpLimits limits = http_limits(service.bytes());
  limits.compression = flags.compression;
  CAIRN_TRY(auto server, net::HttpServer::listen(flags.host, flags.port, limits, api::make_handler(service),
                                                 api::openai_error_body));
  say_who_may_come(*server, flags);
  if (!flags.frames.empty()) {
    net::FrameLimits frame_limits;
    frame_limits.budget = limits.budget;
    CAIRN_TRY_VOID(server->listen_frames(flags.frames, frame_limits, api::frames::make_handler(service)));
  }
  block_signals();
  service.keep_recent_responses(flags.response_bytes > 0 ? flags.response_bytes
                                                         : std::min(api::kRecentResponseBytes, request_bytes));
  service.set_lenient_calls(flags.tool_calls == "lenient");
  if (flags.store) CAIRN_TRY_VOID(service.open_store(*flags.store));
  log_info("requests and their answers may take {} of memory at a time (--request-bytes)", bytes_text(request_bytes));
  Progress progress;
  std::thread(watch_signals, std::ref(*server), std::ref(progress)).detach();
  auto loading = std::async(std::launch::async, [&] {
    // Stops the server if loading fails or throws: it must not go on without a model.
    struct StopUnlessLoaded {
      net::HttpServer& server;
      Progress& progress;
      ~StopUnlessLoaded() {
        if (!progress.loaded) server.stop(0s);
      }
    } const at_end{*server, progress};
    return load(flags, manager, service, server->port(), progress);
  });
  server->run();
  // Loading cannot be interrupted, and needs all local objects as long as the process lives.
  if (progress.signal != 0 && !progress.loaded) ::_exit(exit_code_of(progress.signal));
  Result<void> loaded = loading.get();
  // Neither can loading for a request.
  if (!manager.stop(kStopGrace)) ::_exit(exit_code_of(progress.signal));
  // Workers and engines are stopped first: their threads wake connections, which must still exist.
  service.stop();
  registry.clear();
  return loaded;
}

/// What requests get that leave it out, whatever their protocol's own default is.
void add_default_flags(CLI::App& command, api::GenerationDefaults& defaults) {
  const std::string group = "For requests that leave it out";
  const auto add = [&](const char* name, auto& value, const char* what, const CLI::Validator& range) {
    command.add_option(name, value, what)->check(range)->group(group);
  };
  constexpr int kMost = std::numeric_limits<int32_t>::max();
  add("--temp,--temperature", defaults.temperature, "Temperature", CLI::Range(0.0f, kTemperatureMax));
  add("--top-k", defaults.top_k, "Tokens to choose from; 0: all", CLI::Range(0, kMost));
  add("--top-p", defaults.top_p, "Probability of the tokens to choose from", CLI::Range(0.0f, 1.0f));
  add("--min-p", defaults.min_p, "Least probability, as a share of the most likely token's", CLI::Range(0.0f, 1.0f));
  add("--repeat-penalty", defaults.repetition_penalty, "What the logits of repeated tokens are divided by",
      CLI::Range(0.01f, 10.0f));
  command.add_option("-s,--seed", defaults.seed, "Seed of all such requests; -1: another one for each")->group(group);
  add("-n,--predict,--n-predict", defaults.predict, "Tokens of an answer; -1: to the end of the context",
      CLI::Range(-1, kMost));
}

/// How requests are read, and what of them and of their answers is kept.
void add_request_flags(CLI::App& command, ServeFlags& flags) {
  command
      .add_option("--store", flags.store,
                  "File (SQLite) that keeps the answers of /v1/responses for previous_response_id and GET, and "
                  "tool calls token for token; made if it is not there (default: none; see --response-bytes)")
      ->check(not_empty());
  command
      .add_option("--response-bytes", flags.response_bytes,
                  "Memory for recent answers of /v1/responses that previous_response_id and item_reference find "
                  "without --store, the least recently used go first (default: 64MiB, at most --request-bytes)")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::PositiveNumber);
  command
      .add_option("--request-bytes", flags.request_bytes,
                  "Memory for requests and their answers at a time, e.g. 512MiB; over it they are answered 503 "
                  "(default: an eighth of what is free at the start, from 16MiB to 1GiB)")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::PositiveNumber);
  command.add_flag("--strict-fields", flags.strict_fields,
                   "Refuse a request with a field that its endpoint does not know (default: the field is ignored, "
                   "with a line in the log)");
  command
      .add_option("--tool-calls", flags.tool_calls,
                  "strict: tool calls are read in the model's own format alone; lenient: also in other common ones, "
                  "where they are certain (requests: tool_call_parsing)")
      ->check(CLI::IsMember({"strict", "lenient"}))
      ->capture_default_str();
}

}  // namespace

void add_serve(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("serve", "Serve models over HTTP (OpenAI-compatible)");
  auto flags = std::make_shared<ServeFlags>();
  command->add_option("--host", flags->host, "Address to listen on; 0.0.0.0 for every network")->capture_default_str();
  command->add_option("--port", flags->port, "Port; 0 picks a free one")->capture_default_str();
  command
      ->add_option(
          "--allow-host", flags->allow_hosts,
          "Name under which clients and web pages may ask a server on a loopback address, beside localhost and "
          "--host (once for each name)")
      ->allow_extra_args(false);
  static const std::map<std::string, net::Compression> kCompressions = {
      {"none", net::Compression::kNone}, {"whole", net::Compression::kWhole}, {"all", net::Compression::kAll}};
  command
      ->add_option(
          "--compress", flags->compression,
          "Answers that are sent gzipped to clients that take it: none, whole (large ones that are no streams, "
          "default), all (streams too)")
      ->transform(CLI::CheckedTransformer(kCompressions))
      ->default_str("whole");
  command
      ->add_option("--frames", flags->frames,
                   "Path of a Unix socket for framed JSON, e.g. /tmp/cairn.sock; only this user can connect "
                   "(default: none)")
      ->check(not_empty());
  add_request_flags(*command, *flags);
  command->add_option("--name", flags->load.options.name, "Name that clients use for the model (default: the file's)")
      ->check(not_empty());
  command
      ->add_option("--alias", flags->load.options.aliases,
                   "Other names for the model, with commas between; the first one is its name if --name does not say "
                   "another")
      ->delimiter(',')
      ->check(not_empty());
  command->add_option("--queue-max", flags->load.options.queue_max, "Requests that may wait; more are answered 429")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--parallel-max", flags->load.options.sequences_max, "Requests that run at once; others wait")
      ->check(CLI::Range(1, 128))
      ->capture_default_str();
  command
      ->add_option("--step-ms", flags->load.options.step_ms,
                   "What reading prompts may add to the time between two tokens of a running stream")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  command
      ->add_option("--tenant-requests-max", flags->load.options.tenant_requests_max,
                   "Requests that one API key may have waiting and running; 0: no limit")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  auto* no_cache =
      command->add_flag("!--no-prefix-cache", flags->load.options.prefix_cache, "Keep nothing of what was computed");
  command
      ->add_option("--kv-host-bytes", flags->load.options.kv_host_bytes,
                   "Memory for cached keys and values that --kv-bytes has no room for, e.g. 8GiB (default: none)")
      ->transform(CLI::AsSizeValue(false))
      ->excludes(no_cache);
  add_default_flags(*command, flags->defaults);
  command->add_option("MODEL", flags->files,
                      "GGUF files (any part of a split one); of several, or of none, which serves all that cairn list "
                      "shows, each is loaded when it is asked for");
  flags->catalog.add_to(*command);
  flags->manager.add_to(*command);
  flags->load.add_options_to(*command);
  command->callback([flags, &exit_code] {
    if (const auto done = serve(*flags); !done) exit_code = report(done.error());
  });
}

}  // namespace cairn
