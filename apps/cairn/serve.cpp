// cairn serve: serves a model over HTTP and, optionally, a Unix socket.
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/errors.h"
#include "api/frames/session.h"
#include "api/routes.h"
#include "api/store/recent_responses.h"
#include "api/telemetry/trace_export.h"
#include "base/log.h"
#include "base/system/machine.h"
#include "base/system/unwinding_reserve.h"
#include "base/text/bytes_text.h"
#include "commands.h"
#include "config/settings.h"
#include "load_flags.h"
#include "net/descriptors.h"
#include "net/http/http_server.h"
#include "serve/life.h"
#include "serve/model_flags.h"
#include "serve/operate_flags.h"

namespace cairn {
namespace {

using namespace std::chrono_literals;

struct ServeFlags : ModelFlags {
  std::string host = "127.0.0.1";
  uint16_t port = 8080;
  std::string frames;                ///< path of a socket; empty: none
  std::optional<std::string> store;  ///< path of a file
  int64_t request_bytes = 0;         ///< 0: default_request_bytes
  int64_t response_bytes = 0;        ///< 0: kRecentResponseBytes, at most request_bytes
  std::vector<std::string> allow_hosts;
  bool strict_fields = false;
  std::string tool_calls = "lenient";  ///< or "strict"
  OperateFlags operate;
  std::string config;  ///< path of a file; empty: none
  net::Compression compression = net::Compression::kWhole;
};

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

/// The names by which the config file may have a table of the model.
std::vector<std::string> table_names(const LoadFlags& load) {
  const std::filesystem::path path(load.model);
  std::vector<std::string> names = load.options.aliases;
  for (const std::string& name : {load.options.name, path.filename().string(), path.stem().string()})
    if (!name.empty()) names.push_back(name);
  return names;
}

/// Loads the model on a thread of its own; meanwhile the server answers that it is loading.
Result<void> load(const ServeFlags& flags, const ConfigFile& config, api::Service& service, Registry& registry,
                  uint16_t port, ServerLife& life) {
  CAIRN_TRY(const ModelFlags own, flags_of_model(config, table_names(flags.load), flags));
  CAIRN_TRY(auto model, own.load.load());
  warn_without_template(*model);
  const std::string name = model->name;
  const bool encoder = model->embedder != nullptr;
  service.set_generation_defaults(name, own.defaults);
  CAIRN_TRY_VOID(registry.add(std::move(model)));
  life.loaded();
  tell_addresses(flags, name, encoder, port);
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

Result<void> serve(const ServeFlags& flags, const ConfigFile& config) {
  ServerLife::block_signals();
  give_back_memory_soon();
  install_unwinding_reserve();
  // Listens before loading, so that a port that is taken is noticed before a large model was read.
  Registry registry;
  const int64_t request_bytes =
      flags.request_bytes > 0
          ? flags.request_bytes
          : api::default_request_bytes(std::min(available_memory_bytes(), address_space_left_bytes()));
  std::unique_ptr<api::TraceExporter> traces;  // outlives what it is told of
  api::Service service(registry, request_bytes);
  service.set_strict_fields(flags.strict_fields);
  service.set_generation_defaults(flags.defaults);
  if (const OperateFlags& tells = flags.operate; !tells.otlp.empty() || !tells.trace_file.empty()) {
    CAIRN_TRY(traces, api::TraceExporter::open(tells.otlp, tells.trace_file, service.telemetry().traces_dropped()));
    service.telemetry().set_trace([&traces](const api::RequestFacts& facts) { traces->add(facts); });
  }
  net::HttpLimits limits = http_limits(service.bytes());
  limits.compression = flags.compression;
  limits.traffic = service.traffic();
  service.telemetry().set_log_requests(flags.operate.log_requests);
  CAIRN_TRY(auto server, net::HttpServer::listen(flags.host, flags.port, limits, api::make_handler(service),
                                                 api::openai_error_body));
  say_who_may_come(*server, flags);
  if (!flags.frames.empty()) {
    net::FrameLimits frame_limits;
    frame_limits.budget = limits.budget;
    CAIRN_TRY_VOID(server->listen_frames(flags.frames, frame_limits, api::frames::make_handler(service)));
  }
  Reloads reloads;
  ServerLife life(*server, service, registry, reloads, std::chrono::seconds(flags.operate.drain_seconds));
  service.keep_recent_responses(flags.response_bytes > 0 ? flags.response_bytes
                                                         : std::min(api::kRecentResponseBytes, request_bytes));
  service.set_lenient_calls(flags.tool_calls == "lenient");
  if (flags.store) CAIRN_TRY_VOID(service.open_store(*flags.store));
  log_info("requests and their answers may take {} of memory at a time (--request-bytes)", bytes_text(request_bytes));
  life.watch();
  auto loading = std::async(std::launch::async, [&] {
    // Stops the server if loading fails or throws: it must not go on without a model.
    struct StopUnlessLoaded {
      net::HttpServer& server;
      ServerLife& life;
      ~StopUnlessLoaded() {
        if (!life.is_loaded()) server.stop(0s);
      }
    } const at_end{*server, life};
    return load(flags, config, service, registry, server->port(), life);
  });
  server->run();
  // Loading cannot be interrupted, and needs all local objects as long as the process lives.
  if (const int code = life.exit_code_of_loading(); code != 0) ::_exit(code);
  Result<void> loaded = loading.get();
  // Workers and engines are stopped first: their threads wake connections, which must still exist.
  service.stop();
  registry.clear();
  return loaded;
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

/// All options, and where their values go.
std::shared_ptr<ServeFlags> add_options(CLI::App* command) {
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
  flags->add_limits_to(*command);
  flags->add_defaults_to(*command);
  flags->load.add_to(*command, false);
  flags->operate.add_to(*command);
  command
      ->add_option("--config", flags->config,
                   "Config file (TOML) with any of these options by their names (default: none, or CAIRN_CONFIG)")
      ->check(not_empty());
  return flags;
}

/// Flags, variables and the config file, and then the server.
Result<void> configure_and_serve(CLI::App& command, const ServeFlags& flags) {
  SettingSources sources;
  CAIRN_TRY(const ConfigFile config, configure(command, flags.config, sources));
  std::string wrong;
  for (const std::string& problem : check_model_tables(config)) wrong += (wrong.empty() ? "" : "; ") + problem;
  if (!wrong.empty()) return fail(Code::kInvalidArgument, "{}", wrong);
  if (flags.load.model.empty())
    return fail(Code::kInvalidArgument, "say which model: cairn serve MODEL.gguf, or model-file in the config file");
  return serve(flags, config);
}

}  // namespace

void add_serve_options(CLI::App& command) {
  // The options write into the flags as long as the command lives.
  command.parse_complete_callback([flags = add_options(&command)] {});
}

void add_serve(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("serve", "Serve a model over HTTP (OpenAI-compatible)");
  const auto flags = add_options(command);
  command->callback([command, flags, &exit_code] {
    if (const auto done = configure_and_serve(*command, *flags); !done) exit_code = report(done.error());
  });
}

}  // namespace cairn
