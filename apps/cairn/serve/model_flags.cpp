#include "serve/model_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "config/settings.h"
#include "sampling_flags.h"
#include "values.h"

namespace cairn {
namespace {

/// Gives `flags` what a table says; returns what is wrong.
std::vector<std::string> apply_table(const ConfigFile::Model& table, ModelFlags& flags) {
  CLI::App command;
  flags.add_to(command);
  refuse_meaningless_values(command);
  SettingSources sources;
  return apply_settings(command, table.settings, sources);
}

}  // namespace

void ModelFlags::add_to(CLI::App& command) {
  add_limits_to(command);
  add_defaults_to(command);
  load.add_model_flags(command);
  load.add_template_flags(command);
}

void ModelFlags::add_limits_to(CLI::App& command) {
  loader::LoadOptions& options = load.options;
  command.add_option("--queue-max", options.engine.queue_max, "Requests that may wait; more are answered 429")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command.add_option("--parallel", options.sequences, "Whole contexts that the default --kv-bytes holds")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command.add_option("--parallel-max", options.engine.sequences_max, "Requests that run at once; others wait")
      ->check(CLI::Range(1, 128))
      ->capture_default_str();
  command
      .add_option_function<std::string>(
          "--step-ms",
          [&options](const std::string& step_ms) {
            options.engine.step.reset();
            if (step_ms != "auto") options.engine.step = std::chrono::milliseconds(std::stoi(step_ms));
          },
          "What reading prompts may add to the time between two tokens of a running stream; auto: as much as lets a "
          "prompt take at most 1.6 times as long as alone while that time stays under 200 ms")
      ->check(CLI::Range(1, 10'000) | CLI::IsMember({"auto"}))
      ->default_str("auto");
  command
      .add_option("--tenant-requests-max", options.engine.tenant_requests_max,
                  "Requests that one API key may have waiting and running; 0: no limit")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  auto* no_cache =
      command.add_flag("!--no-prefix-cache", options.engine.prefix_cache, "Keep nothing of what was computed");
  command
      .add_option("--kv-host-bytes", options.engine.kv_host_bytes,
                  "Memory for cached keys and values that --kv-bytes has no room for, e.g. 8GiB (default: none)")
      ->transform(CLI::AsSizeValue(false))
      ->excludes(no_cache);
  add_kv_disk_flags(command, options.kv_disk, no_cache);
}

void ModelFlags::add_defaults_to(CLI::App& command) {
  const std::string heading = "For requests that leave it out";
  add_parameter_flags(command, defaults.sampling, heading, ShownDefaults::kAll);
  command.add_option("-s,--seed", defaults.seed, "Seed of all such requests; -1: another one for each")->group(heading);
  command
      .add_option("-n,--predict,--n-predict,--max-tokens", defaults.predict,
                  "Tokens of an answer; -1: to the end of the context")
      ->check(CLI::Range(-1, std::numeric_limits<int32_t>::max()))
      ->group(heading);
}

Result<ModelFlags> flags_of_model(const ConfigFile& config, std::span<const std::string> names,
                                  const ModelFlags& server) {
  ModelFlags flags = server;
  std::string all;
  for (const ConfigFile::Model& table : config.models) {
    if (std::ranges::find(names, table.name) == names.end()) continue;
    for (const std::string& problem : apply_table(table, flags)) all += (all.empty() ? "" : "; ") + problem;
  }
  if (!all.empty()) return fail(Code::kInvalidArgument, "{}", all);
  return flags;
}

std::vector<std::string> check_model_tables(const ConfigFile& config) {
  std::vector<std::string> wrong;
  for (const ConfigFile::Model& table : config.models) {
    ModelFlags flags;
    const auto problems = apply_table(table, flags);
    wrong.insert(wrong.end(), problems.begin(), problems.end());
  }
  return wrong;
}

}  // namespace cairn
