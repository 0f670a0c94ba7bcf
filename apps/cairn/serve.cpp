// cairn serve: serves a model over HTTP and, optionally, a Unix socket.
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "api/errors.h"
#include "api/frames/session.h"
#include "api/monitoring/metrics.h"
#include "api/request_handler.h"
#include "api/store/recent_responses.h"
#include "api/telemetry/trace_export.h"
#include "base/log.h"
#include "base/system/machine.h"
#include "base/system/unwinding_reserve.h"
#include "base/text/bytes_text.h"
#include "build_version.h"
#include "catalog_flags.h"
#include "commands.h"
#include "config/settings.h"
#include "first_model.h"
#include "help/help_format.h"
#include "help/value_checks.h"
#include "load_flags.h"
#include "loader/model_manager.h"
#include "model_argument.h"
#include "net/descriptors.h"
#include "net/http/http_server.h"
#include "net/listen_address.h"
#include "pull_flags.h"
#include "serve/access_flags.h"
#include "serve/life.h"
#include "serve/model_flags.h"
#include "serve/operate_flags.h"
#include "serve/request_flags.h"
#include "values.h"

namespace cairn {
namespace {

using namespace std::chrono_literals;

/// Time that a model which is still being loaded has to come to its end before the program ends without it.
constexpr auto kLoadingGrace = 10s;
/// How often it is looked whether the machine runs on battery, in api::web::kMonitorInterval.
constexpr int64_t kBatteryTicks = 10;

struct ServeFlags : ModelFlags {
  std::vector<std::string> files;           ///< or names of models; none: all of the catalog
  std::string hugging_face;                 ///< --hf-repo: a model of that hub in place of a file; empty: none
  std::vector<loader::CatalogModel> given;  ///< those that `files` and `hugging_face` name
  CatalogFlags catalog;
  ManagerFlags manager;
  std::string host = "127.0.0.1";
  uint16_t port = 8080;
  std::string frames;  ///< path of a socket; empty: none
  net::FrameLimits frame_limits;
  std::optional<std::string> store;  ///< path of a file
  int64_t request_bytes = 0;         ///< 0: default_request_bytes
  int64_t response_bytes = 0;        ///< 0: kRecentResponseBytes, at most request_bytes
  AccessFlags access;
  RequestFlags requests;
  bool page = true;
  size_t turns_max = chat::kSampledTurnsMax;
  bool exact_replay = true;
  OperateFlags operate;
  std::string config;  ///< path of a file; empty: none
  net::Compression compression = net::Compression::kWhole;
  bool pull = false;     ///< clients may pull and delete models wherever they are
  bool no_pull = false;  ///< they may not; with neither, on a loopback address
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

/// Lets clients pull and delete models, where they may. `find_again` outlives the service.
void allow_pulls(api::Service& service, const ServeFlags& flags, bool on_loopback,
                 const std::function<Result<void>()>& find_again) {
  if (flags.no_pull || (!flags.pull && !on_loopback)) return;
  auto options = pull_options(flags.catalog.models_folder());
  if (!options) return log_warning("clients cannot pull models: {}", options.error().text());
  std::function<void(const std::filesystem::path&)> changed;
  if (flags.given.empty()) {
    changed = [&find_again](const std::filesystem::path&) {
      if (const auto done = find_again(); !done) log_error("models: {}", done.error().text());
    };
  }
  service.pulls().allow({.options = std::move(*options), .on_pulled = changed, .on_removed = changed});
}

/// What there is to try once the server has started.
enum class Serves { kText, kVectors, kNothing };

void tell_addresses(const ServeFlags& flags, const std::string& name, Serves what, uint16_t port) {
  const net::ListenAddress address = net::parse_listen_address(flags.host).value_or(net::ListenAddress());
  const bool over_tcp = address.socket.empty();
  const std::string url = over_tcp ? fmt::format("{}://{}:{}", flags.access.scheme(), net::url_host(address.host), port)
                                   : "unix:" + address.socket;
  const std::string curl =
      over_tcp ? "curl " + url : fmt::format("curl --unix-socket {} http://localhost", address.socket);
  log_info("serving {} on {}", name, url);
  if (!flags.frames.empty()) log_info("and framed JSON at {0}; try: cairn frames {0} -m Hello", flags.frames);
  if (what == Serves::kNothing) {
    if (flags.page && over_tcp) log_info("or open {} in a browser, which gets a model for you", url);
  } else if (what == Serves::kVectors) {
    log_info("try: {}/v1/embeddings -H 'Content-Type: application/json' -d '{{\"input\":\"Hello!\"}}'", curl);
  } else {
    log_info(
        "try: {}/v1/chat/completions -H 'Content-Type: application/json' -d "
        "'{{\"messages\":[{{\"role\":\"user\",\"content\":\"Hello!\"}}],\"stream\":true}}'",
        curl);
    log_info("or:  cairn chat --url {}", url);
    if (flags.page && over_tcp) log_info("or open {} in a browser", url);
  }
}

/// The only file that is given, which is loaded at the start and stays.
bool serves_one_file(const ServeFlags& flags) { return flags.given.size() == 1; }

/// The names by which the config file may have a table of the model.
std::vector<std::string> table_names(const loader::CatalogModel& model) {
  std::vector<std::string> names = model.aliases;
  if (model.made != nullptr) names.push_back(model.made->base);
  for (const std::string& name : {model.name, model.path.filename().string(), model.path.stem().string()})
    if (!name.empty()) names.push_back(name);
  return names;
}

/// The model as the flags and the config file's table say.
Result<loader::ServedModel> served_model(loader::CatalogModel model, const ServeFlags& flags, const ConfigFile& config,
                                         api::Service& service) {
  CAIRN_TRY(ModelFlags own, flags_of_model(config, table_names(model), flags));
  CAIRN_TRY_VOID(own.load.find_companions(flags.catalog.folder));
  CAIRN_TRY(loader::LoadOptions options, own.load.load_options());
  options.engine.power = flags.operate.power;
  options.engine.step_trace = flags.operate.steps;
  api::GenerationDefaults defaults = own.defaults;
  if (model.made != nullptr) {
    const auto applied = apply_made(*model.made, flags.catalog.models_folder(), options, defaults);
    if (!applied) model.unusable = applied.error().text();
  }
  if (!options.chat_template.empty() && model.kind == loader::ModelKind::kText) model.kind = loader::ModelKind::kChat;
  service.set_generation_defaults(model.name, defaults);
  return loader::ServedModel{std::move(model), std::move(options), false};
}

/// What the log has been told of the folders of models, which are looked into again and again.
struct ToldOfFolders {
  std::mutex mutex;  ///< of whoever looks into them
  std::set<std::string> skipped;
  bool empty = false;

  /// Returns the files of which it has not been told.
  std::vector<loader::SkippedFile> news(const std::vector<loader::SkippedFile>& files) {
    std::set<std::string> now;
    std::vector<loader::SkippedFile> fresh;
    for (const loader::SkippedFile& file : files) {
      const std::string line = file.path.string() + ": " + file.reason;
      if (!skipped.contains(line)) fresh.push_back(file);
      now.insert(line);
    }
    skipped = std::move(now);
    return fresh;
  }
};

/// Tells whoever has no model how to get one.
void tell_first_models(const ServeFlags& flags) {
  log_warning("there are no models yet: {}, or get one of those that fit this machine; it is served at once",
              flags.catalog.how_to_add());
  const int64_t memory = flags.manager.options(true, 0).memory_bytes;
  for (const std::string& line : FirstModels(memory).lines("pull")) log_info("{}", line);
}

Result<std::vector<loader::ServedModel>> served_models(const ServeFlags& flags, const ConfigFile& config,
                                                       api::Service& service, ToldOfFolders& told) {
  const loader::LoadOptions& options = flags.load.options;
  if (flags.given.size() != 1 && (!options.name.empty() || !options.aliases.empty()))
    return fail(Code::kInvalidArgument, "--name and --alias name one model, but {} would be served; give one file",
                flags.given.empty() ? "all models of this machine" : "several files");
  std::vector<loader::ServedModel> models;
  for (loader::CatalogModel model : flags.given) {
    if (model.name.empty()) {
      CAIRN_TRY(model, loader::describe_file(model.path));
    }
    model.aliases.insert(model.aliases.begin(), options.aliases.begin(), options.aliases.end());
    if (!options.aliases.empty()) model.name = options.aliases.front();
    if (!options.name.empty()) model.name = options.name;
    if (serves_one_file(flags)) model.unusable.clear();  // loading it says more
    CAIRN_TRY(loader::ServedModel served, served_model(std::move(model), flags, config, service));
    served.pinned = serves_one_file(flags);
    models.push_back(std::move(served));
  }
  if (flags.given.empty()) {
    loader::Catalog catalog = flags.catalog.scan();
    log_skipped(told.news(catalog.skipped));
    for (loader::CatalogModel& model : catalog.models) {
      CAIRN_TRY(loader::ServedModel served, served_model(std::move(model), flags, config, service));
      models.push_back(std::move(served));
    }
    const bool was_empty = std::exchange(told.empty, models.empty());
    if (models.empty() && !was_empty) tell_first_models(flags);
  }
  CAIRN_TRY_VOID(flags.manager.pin(models));
  return models;
}

/// Looks through the folders of models again. Errors: as at the start; then nothing changes.
Result<void> find_models_again(const ServeFlags& flags, const ConfigFile& config, api::Service& service,
                               loader::ModelManager& manager, ToldOfFolders& told) {
  const std::lock_guard lock(told.mutex);
  CAIRN_TRY(std::vector<loader::ServedModel> models, served_models(flags, config, service, told));
  return manager.set_models(std::move(models));
}

/// Loads what is loaded at the start, on a thread of its own; meanwhile the server answers that it is loading.
Result<void> load(const ServeFlags& flags, const ConfigFile& config, loader::ModelManager& manager,
                  api::Service& service, uint16_t port, ServerLife& life, ToldOfFolders& told) {
  std::vector<loader::ServedModel> models;
  {
    const std::lock_guard lock(told.mutex);  // SIGHUP may come already
    CAIRN_TRY(models, served_models(flags, config, service, told));
    CAIRN_TRY_VOID(manager.set_models(models));
  }
  loader::SharedModel only;
  for (const loader::ServedModel& served : models)
    if (served.pinned && !serves_one_file(flags)) CAIRN_TRY_VOID(manager.load(served.model.name, loader::kEveryModel));
  if (serves_one_file(flags)) {
    CAIRN_TRY(only, manager.load_and_wait(models.front().model.name));
    warn_without_template(*only);
  }
  service.set_started();
  life.loaded();
  if (only != nullptr) {
    tell_addresses(flags, only->name, only->embedder != nullptr ? Serves::kVectors : Serves::kText, port);
    return {};
  }
  log_info("models may take {} of memory (--memory), and are loaded when they are asked for",
           bytes_text(manager.memory().bytes_max()));
  tell_addresses(flags, fmt::format("{} models", models.size()), models.empty() ? Serves::kNothing : Serves::kText,
                 port);
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

api::ServiceOptions service_options(const ServeFlags& flags, int64_t request_bytes, loader::ModelManager& manager) {
  api::ServiceOptions options = flags.requests.service_options();
  options.request_bytes = request_bytes;
  options.models = &manager;
  options.defaults = flags.defaults;
  options.page = flags.page;
  options.turns_max = flags.exact_replay ? flags.turns_max : 0;
  options.power = flags.operate.power;
  options.recent_bytes =
      flags.response_bytes > 0 ? flags.response_bytes : std::min(api::kRecentResponseBytes, request_bytes);
  return options;
}

/// A line of the log for each number, without what explains them.
void log_metrics(std::string_view text) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    if (!line.empty() && !line.starts_with('#')) log_info("SIGUSR1: {}", line);
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
}

Result<void> serve(const ServeFlags& flags, const ConfigFile& config) {
  ServerLife::block_signals();
  give_back_memory_soon();
  install_unwinding_reserve();
  // Listens before loading, so that a port that is taken is noticed before a large model was read.
  loader::Registry registry;
  const int64_t request_bytes =
      flags.request_bytes > 0
          ? flags.request_bytes
          : api::default_request_bytes(std::min(available_memory_bytes(), address_space_left_bytes()));
  std::unique_ptr<api::TraceExporter> traces;  // outlives what it is told of
  loader::ModelManager manager(registry, flags.manager.options(flags.given.empty(), flags.given.size()));
  api::Service service(registry, service_options(flags, request_bytes, manager));
  if (const OperateFlags& tells = flags.operate; !tells.otlp.empty() || !tells.trace_file.empty()) {
    CAIRN_TRY(traces, api::TraceExporter::open(tells.otlp, tells.trace_file, service.telemetry().traces_dropped()));
    service.telemetry().set_trace([&traces](const api::RequestFacts& facts) { traces->add(facts); });
    service.telemetry().set_traces_texts(tells.trace_text);
  }
  net::HttpLimits limits = http_limits(service.bytes());
  limits.compression = flags.compression;
  limits.traffic = service.traffic();
  service.telemetry().set_log_requests(flags.operate.log_requests);
  CAIRN_TRY(auto server, net::HttpServer::listen(flags.host, flags.port, limits, api::make_handler(service),
                                                 api::openai_error_body));
  server->every(api::web::kMonitorInterval, [&service, &power = *flags.operate.power, ticks = int64_t{0}]() mutable {
    service.monitor().tick();
    if (ServerLife::take_wish_for_metrics()) log_metrics(api::prometheus_text(service, loader::kEveryModel));
    if (ticks++ % kBatteryTicks == 0) power.set_on_battery(engine::runs_on_battery());
  });
  CAIRN_TRY_VOID(flags.access.set_up(flags.host, service, *server));
  ToldOfFolders told;
  const std::function<Result<void>()> find_again = [&] {
    return find_models_again(flags, config, service, manager, told);
  };
  if (flags.given.empty()) manager.set_finder(find_again);
  allow_pulls(service, flags, server->on_loopback(), find_again);
  if (!flags.frames.empty()) {
    net::FrameLimits frame_limits = flags.frame_limits;
    frame_limits.budget = limits.budget;
    frame_limits.traffic = service.frames_traffic();
    CAIRN_TRY_VOID(server->listen_frames(flags.frames, frame_limits, api::frames::make_handler(service)));
  }
  Reloads reloads;
  flags.access.add_to(reloads, service, *server);
  if (flags.given.empty()) reloads.add("the folders of models", find_again);
  ServerLife life(*server, service, registry, reloads, std::chrono::seconds(flags.operate.drain_seconds));
  if (flags.store) CAIRN_TRY_VOID(service.open_store(*flags.store));
  log_info("cairn {}", kBuildVersion);
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
    return load(flags, config, manager, service, server->port(), life, told);
  });
  server->run();
  // Loading cannot be interrupted, and needs all local objects as long as the process lives.
  if (const int code = life.exit_code_of_loading(); code != 0) ::_exit(code);
  Result<void> loaded = loading.get();
  // Neither can loading for a request.
  if (!manager.stop(kLoadingGrace)) ::_exit(life.exit_code());
  // Workers and engines are stopped first: their threads wake connections, which must still exist.
  service.stop();
  registry.clear();
  return loaded;
}

/// What is kept of answers so that they come into later prompts exactly as they were sampled.
void add_replay_flags(CLI::App& command, ServeFlags& flags, const std::string& group) {
  auto* turns = command.add_option("--tool-memory-max-ids", flags.turns_max,
                                   "Answers whose exact tokens are kept in memory, so that a later prompt with them is "
                                   "found in the KV cache");
  turns->check(whole_number(1, 1 << 20))->capture_default_str()->group(group);
  command
      .add_flag("!--no-exact-replay,!--disable-exact-dsml-tool-replay", flags.exact_replay,
                "Render earlier answers with the chat template as clients send them, never from the tokens that were "
                "sampled")
      ->excludes(turns)
      ->group(group);
}

/// How requests are read, and what of them and of their answers is kept.
void add_request_flags(CLI::App& command, ServeFlags& flags) {
  const std::string group = "Requests and answers";
  command
      .add_option(
          "--store", flags.store,
          "SQLite file that keeps the answers of /v1/responses, for previous_response_id and GET, and the exact "
          "tokens of answers and tool calls whose text alone does not give them again; created if it does not exist "
          "(default: none, see --response-bytes)")
      ->type_name("FILE")
      ->group(group);
  command
      .add_option("--response-bytes", flags.response_bytes,
                  "Memory for recent answers of /v1/responses, which previous_response_id and item_reference find "
                  "without --store; the least recently used are dropped first (default: 64MiB, at most "
                  "--request-bytes)")
      ->transform(byte_size(1))
      ->group(group);
  command
      .add_option("--request-bytes", flags.request_bytes,
                  "Memory for all requests and answers in progress, e.g. 512MiB; requests beyond it are answered 503 "
                  "(default: an eighth of what is free at startup, 16MiB to 1GiB)")
      ->transform(byte_size(1))
      ->group(group);
  flags.requests.add_to(command, group);
  add_replay_flags(command, flags, group);
}

/// Where the server listens, and what it offers there.
void add_address_flags(CLI::App& command, ServeFlags& flags) {
  const std::string group = "Where the server listens";
  command
      .add_option("--host", flags.host,
                  "Address to listen on: 0.0.0.0 for all networks, ::1 for IPv6, HOST:PORT for both at once, or "
                  "unix:/PATH for a Unix socket that only you can connect to")
      ->type_name("ADDRESS")
      ->capture_default_str()
      ->check(listen_address())
      ->group(group);
  command.add_option("--port", flags.port, "Port; 0 picks a free one")
      ->check(whole_number(0, std::numeric_limits<uint16_t>::max()))
      ->capture_default_str()
      ->group(group);
  command
      .add_option_function<std::string>(
          "--compress",
          [&flags](const std::string& which) {
            flags.compression = which == "none"  ? net::Compression::kNone
                                : which == "all" ? net::Compression::kAll
                                                 : net::Compression::kWhole;
          },
          "Which answers to gzip for clients that accept it: none; whole: large ones that are not streamed; all: "
          "streams too")
      ->check(one_of({"none", "whole", "all"}))
      ->default_str("whole")
      ->group(group);
  command
      .add_option("--frames", flags.frames,
                  "Unix socket for framed JSON, e.g. /tmp/cairn.sock; only you can connect to it (default: none)")
      ->type_name("PATH")
      ->group(group);
  add_frames_flags(command, flags.frame_limits);
  command.add_flag("!--no-web", flags.page, "Do not serve the web page: GET / answers everybody in plain text")
      ->group(group);
}

/// All options, and where their values go.
std::shared_ptr<ServeFlags> add_options(CLI::App* command) {
  auto flags = std::make_shared<ServeFlags>();
  add_address_flags(*command, *flags);
  flags->access.add_to(*command);
  const std::string models = "Models";
  auto* pull = command->add_flag("--pull", flags->pull,
                                 "Let clients download and delete models (/api/pull, /api/delete), which by default "
                                 "they may only on a loopback address");
  pull->group(models);
  command->add_flag("--no-pull", flags->no_pull, "Never let clients download or delete models")
      ->excludes(pull)
      ->group(models);
  command
      ->add_option("--name", flags->load.options.name, "Name of the model for clients (default: the one in its file)")
      ->type_name("NAME")
      ->group(models);
  add_list(*command, "--alias", flags->load.options.aliases,
           "More names for the model, separated by commas; without --name the first one is its main name (default: "
           "none)")
      ->group(models);
  auto* files =
      command
          ->add_option("-m,--model-file,MODEL", flags->files,
                       "GGUF files (of a split model, any part) or names that cairn list shows. A single model is "
                       "loaded at startup. Several models, or without any name all that cairn list shows, are loaded "
                       "one by one when they are first used (default: none)")
          ->type_name("FILE")
          ->group(models);
  add_hugging_face_flag(*command, flags->hugging_face)->excludes(files)->group(models);
  flags->catalog.add_to(*command);
  flags->manager.add_to(*command);
  flags->add_limits_to(*command);
  flags->load.add_model_flags(*command);
  flags->load.add_template_flags(*command);
  flags->add_defaults_to(*command);
  add_request_flags(*command, *flags);
  add_log_flag(*command);
  flags->operate.add_to(*command);
  command
      ->add_option("--config", flags->config,
                   "Config file (TOML) with any of these flags by name (default: CAIRN_CONFIG, if set)")
      ->type_name("FILE")
      ->group(std::string(kOperatingHeading));
  refuse_empty_values(*command);
  return flags;
}

/// What --host says besides a host must not contradict other options.
Result<void> check_address(const CLI::App& command, const ServeFlags& flags) {
  CAIRN_TRY(const net::ListenAddress address, net::parse_listen_address(flags.host));
  const bool has_port = command.get_option("--port")->count() > 0;
  if (address.port && has_port && flags.port != *address.port)
    return fail(Code::kInvalidArgument, "--host {} and --port {} name two ports; leave --port out", flags.host,
                flags.port);
  if (address.socket.empty()) return {};
  if (!flags.access.tls_certificate.empty())
    return fail(Code::kInvalidArgument, "--host {}: TLS is not for Unix sockets; leave --tls-cert out", flags.host);
  if (has_port) log_warning("--port {} has no effect: a Unix socket has no ports", flags.port);
  return {};
}

/// The models that are named, of which one of a hub is pulled if it is not here. Errors: those of find_model.
Result<std::vector<loader::CatalogModel>> given_models(const ServeFlags& flags) {
  const std::string folder = flags.catalog.models_folder();
  std::vector<loader::CatalogModel> given;
  for (const std::string& file : flags.files) {
    CAIRN_TRY(loader::CatalogModel model, find_model(file, {.folder = folder, .made = true}));
    given.push_back(std::move(model));
  }
  if (!flags.hugging_face.empty()) {
    CAIRN_TRY(loader::CatalogModel model, find_hugging_face_model(flags.hugging_face, folder));
    given.push_back(std::move(model));
  }
  return given;
}

/// Flags, variables and the config file, and then the server.
Result<void> configure_and_serve(CLI::App& command, ServeFlags& flags) {
  SettingSources sources;
  CAIRN_TRY(const ConfigFile config, configure(command, flags.config, sources));
  std::string wrong;
  for (const std::string& problem : check_model_tables(config)) wrong += (wrong.empty() ? "" : "; ") + problem;
  if (!wrong.empty()) return fail(Code::kInvalidArgument, "{}", wrong);
  CAIRN_TRY_VOID(check_address(command, flags));
  if (!flags.operate.trace_steps.empty()) {
    ServerLife::block_signals();  // the trace has a thread, which must not be the one that they come to
    CAIRN_TRY(flags.operate.steps, engine::StepTrace::open(flags.operate.trace_steps));
  }
  CAIRN_TRY(flags.given, given_models(flags));
  return serve(flags, config);
}

}  // namespace

void add_serve_options(CLI::App& command) {
  // The options write into the flags as long as the command lives.
  command.parse_complete_callback([flags = add_options(&command)] {});
}

void add_serve(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand(
      "serve",
      "Serve models over HTTP, compatible with OpenAI, Anthropic, Ollama and llama.cpp. There is a web page, too");
  set_help(*command, "cairn serve qwen3-4b.gguf --ctx 16384",
           {"--help", "--model-file", "--host", "--port", "--ctx", "--gpu-layers", "--threads", "--kv-type", "--memory",
            "--models", "--api-key-file", "--max-tokens", "--temp", "--config", "--log-level"});
  command->footer("Each flag is also a variable (CAIRN_PORT for --port) and a name in the config file (port = 8080).");
  const auto flags = add_options(command);
  command->callback([command, flags, &exit_code] {
    if (const auto done = configure_and_serve(*command, *flags); !done) exit_code = report(done.error());
  });
}

}  // namespace cairn
