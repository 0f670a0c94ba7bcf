// cairn bench serve: puts load on any OpenAI-compatible server and measures what its clients see.
#include <csignal>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "base/system/new_file.h"
#include "base/text/printable.h"
#include "bench/client.h"
#include "bench/load.h"
#include "bench/report.h"
#include "bench/workload.h"
#include "commands.h"
#include "help/help_format.h"
#include "help/value_checks.h"
#include "net/http/http_client.h"
#include "output.h"

namespace cairn {
namespace {

using namespace bench;
using nlohmann::ordered_json;
using std::chrono::steady_clock;

struct BenchFlags {
  std::string url;
  std::string mix = "chat";
  std::string endpoint = "chat";
  std::string extra;
  std::string csv;
  int timeout_s = 600;
  int warmup = 0;
  Target target;
  WorkloadOptions workload;
  TrafficOptions load;
};

constexpr int64_t kRequestsMissing = 64;

std::atomic<bool> stop_requested = false;

/// The first Ctrl-C ends the run with a report of the requests so far; the second ends the program.
void stop_at_interrupt() {
  struct sigaction action{};
  action.sa_handler = [](int) { stop_requested = true; };
  sigemptyset(&action.sa_mask);
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
}

Result<Target> make_target(const BenchFlags& flags) {
  Target target = flags.target;
  CAIRN_TRY(target.server, net::parse_server_address(flags.url));
  target.endpoint = flags.endpoint == "chat" ? Endpoint::kChat : Endpoint::kCompletions;
  target.timeout = std::chrono::seconds(flags.timeout_s);
  if (!flags.extra.empty()) {
    target.extra = ordered_json::parse(flags.extra, nullptr, false);
    if (!target.extra.is_object()) {
      return fail_at("--extra", Code::kInvalidArgument, "must be a JSON object, such as '{{\"ignore_eos\": true}}'");
    }
  }
  if (target.model.empty()) {
    CAIRN_TRY(target.model, first_model(target));
  }
  return target;
}

/// Sends requests before the measured ones, one after the other, with words from another random stream.
Result<void> warm_up(const Target& target, const BenchFlags& flags) {
  WorkloadOptions options;
  options.seed = ~flags.workload.seed;
  options.words = flags.workload.words;
  Workload workload(options);
  for (int i = 0; i < flags.warmup && !stop_requested.load(); ++i) {
    std::string answer;
    const Sample sample = ask(target, workload.next(i), steady_clock::now(), stop_requested, answer);
    if (!sample.answered()) return fail(Code::kUnavailable, "warming up: status {}: {}", sample.status, sample.error);
  }
  return {};
}

std::string title_of(const Target& target, const BenchFlags& flags) {
  const std::string loop = flags.load.rate > 0 ? fmt::format("open loop, {} requests/s", flags.load.rate)
                                               : fmt::format("closed loop, {} clients", flags.load.clients);
  return fmt::format("{} at {}: {}, {}, up to {} tokens each, seed {}", printable(target.model), flags.url, flags.mix,
                     loop, target.max_tokens, flags.workload.seed);
}

Result<void> bench_serve(BenchFlags flags) {
  CAIRN_TRY(flags.workload.mixes, parse_mixes(flags.mix));
  if (flags.load.requests == 0) flags.load.requests = flags.load.seconds > 0 ? kRequestsMax : kRequestsMissing;
  flags.load.seed = flags.workload.seed;
  // Opened before the run, so that a file that cannot be written is noticed at once.
  std::optional<NewFile> csv;
  if (!flags.csv.empty()) {
    CAIRN_TRY(csv, NewFile::create(flags.csv));
  }
  CAIRN_TRY(const Target target, make_target(flags));
  stop_at_interrupt();
  CAIRN_TRY_VOID(warm_up(target, flags));

  Workload workload(flags.workload);
  std::mutex mutex;
  Report report(steady_clock::now());
  const auto send = [&](int64_t index, TimePoint due) {
    Job job = workload.next(index);
    std::string answer;
    Sample sample = ask(target, job, due, stop_requested, answer);
    if (sample.answered()) workload.answered(std::move(job), std::move(answer));
    const std::lock_guard lock(mutex);
    report.add(std::move(sample));
  };
  const auto drop = [&](int64_t index, TimePoint due) {
    Sample sample;
    sample.index = index;
    sample.mix = flags.workload.mixes[static_cast<size_t>(index) % flags.workload.mixes.size()];
    sample.due = sample.ended = due;
    sample.error = fmt::format("not sent: {} requests were under way", kInFlightMax);
    const std::lock_guard lock(mutex);
    report.add(std::move(sample));
  };
  run_load(flags.load, send, drop, stop_requested);

  print_text(report.table(title_of(target, flags)));
  if (csv) {
    const std::string lines = report.csv();
    CAIRN_TRY_VOID(csv->write(std::as_bytes(std::span(lines))));
    CAIRN_TRY_VOID(csv->finish());
  }
  if (!report.any_answered())
    return fail(Code::kUnavailable, "no request was answered; the table above has the errors");
  return {};
}

void add_bench_serve(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("serve", "Measure any OpenAI-compatible server under load");
  set_help(*command, "cairn bench serve --url http://127.0.0.1:8080 --clients 8",
           {"--help", "--url", "--clients", "--rate", "--mix", "--requests", "--seconds", "--max-tokens", "--model",
            "--api-key", "--csv"});
  auto flags = std::make_shared<BenchFlags>();
  command->add_option("--url", flags->url, "Server, e.g. http://127.0.0.1:8080 or unix:/run/cairn.sock")
      ->required()
      ->type_name("URL");
  auto* clients =
      command
          ->add_option("--clients", flags->load.clients,
                       "Closed loop: this many clients, each of which waits for its answer before it asks again")
          ->check(whole_number(1, kClientsMax))
          ->capture_default_str();
  command
      ->add_option("--rate", flags->load.rate,
                   "Open loop: requests per second, at random times (default: a closed loop)")
      ->check(real_number(0.001, 10'000.0))
      ->excludes(clients);
  command
      ->add_option(
          "--mix", flags->mix,
          "Kinds of requests: chat (a short question), agent (growing conversations), long (documents), shared (a "
          "long system prompt in common); several, separated by commas, take turns")
      ->type_name("KINDS")
      ->capture_default_str();
  command
      ->add_option("--requests", flags->load.requests, "Number of requests (default: 64, or no limit with --seconds)")
      ->check(whole_number(1, kRequestsMax));
  command->add_option("--seconds", flags->load.seconds, "Stop sending after this many seconds (default: no limit)")
      ->check(real_number(0.001, 1e6));
  command->add_option("-n,--max-tokens", flags->target.max_tokens, "Maximum tokens of an answer")
      ->check(whole_number(1, 1 << 20))
      ->capture_default_str();
  command
      ->add_option(
          "--words", flags->workload.words,
          "Words of a question, tool result, document or system prompt (default: chat 60, agent 120, long 4500, "
          "shared 3400)")
      ->check(whole_number(1, kWordsMax));
  command->add_option("--turns", flags->workload.turns, "Turns of each conversation (agent)")
      ->check(whole_number(1, kTurnsMax))
      ->capture_default_str();
  command->add_option("--seed", flags->workload.seed, "The same seed gives the same prompts at the same times")
      ->check(whole_number(0, std::numeric_limits<uint64_t>::max()))
      ->capture_default_str();
  command->add_option("--endpoint", flags->endpoint, "Endpoint: /v1/chat/completions or /v1/completions")
      ->check(one_of({"chat", "completions"}))
      ->capture_default_str();
  command->add_option("--model", flags->target.model, "Model to ask (default: the first one that the server lists)")
      ->type_name("NAME");
  command->add_option("--temperature", flags->target.temperature, "Temperature; 0 always takes the most likely token")
      ->check(real_number(0.0, 2.0))
      ->capture_default_str();
  command
      ->add_option("--extra", flags->extra,
                   "JSON object of fields to add to each request, e.g. {\"ignore_eos\":true} (default: none)")
      ->type_name("JSON");
  command->add_option("--api-key", flags->target.api_key, "API key for the server (default: none)")->type_name("KEY");
  command->add_option("--warmup", flags->warmup, "Requests to send first, which are not measured")
      ->check(whole_number(0, 1000))
      ->capture_default_str();
  command->add_option("--timeout", flags->timeout_s, "Seconds without data after which a request counts as failed")
      ->check(whole_number(1, 86'400))
      ->capture_default_str();
  command->add_option("--csv", flags->csv, "Write a line for each request to this file (default: none)")
      ->type_name("FILE");
  command->callback([flags, &exit_code] {
    if (const auto done = bench_serve(*flags); !done) exit_code = report(done.error());
  });
}

}  // namespace

void add_bench(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("bench", "Measure a server under load, or a model alone");
  set_help(*command, "cairn bench serve --url http://127.0.0.1:8080 --clients 8");
  add_bench_serve(*command, exit_code);
  add_bench_model(*command, exit_code);
  add_bench_context(*command, exit_code);
  add_bench_recall(*command, exit_code);
}

}  // namespace cairn
