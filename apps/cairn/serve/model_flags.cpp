#include "serve/model_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "config/settings.h"
#include "help/help_format.h"
#include "help/value_checks.h"
#include "sampling_flags.h"
#include "values.h"

namespace cairn {
namespace {

/// Gives `flags` what a table says; returns what is wrong.
std::vector<std::string> apply_table(const ConfigFile::Model& table, ModelFlags& flags) {
  CLI::App command;
  flags.add_to(command);
  refuse_empty_values(command);
  SettingSources sources;
  return apply_settings(command, table.settings, sources);
}

/// Adds --kv-disk and what belongs to it; `no_cache` is the option that excludes it.
void add_kv_disk_flags(CLI::App& command, loader::KvDiskOptions& options, CLI::Option* no_cache) {
  const std::string group(kCacheHeading);
  auto* folder =
      command
          .add_option("--kv-disk", options.folder,
                      "Folder that keeps cached keys and values across restarts. They contain what was asked "
                      "and answered, and only you can read them (default: none)")
          ->excludes(no_cache)
          ->type_name("FOLDER")
          ->group(group);
  command.add_option("--kv-disk-bytes", options.bytes, "Maximum size of the --kv-disk folder (default: 32GiB)")
      ->transform(byte_size(1))
      ->needs(folder)
      ->group(group);
  command
      .add_option("--kv-disk-daily-bytes", options.daily_bytes,
                  "Maximum bytes to write to --kv-disk per day, to spare the drive; 0: no limit")
      ->capture_default_str()
      ->transform(byte_size(0))
      ->needs(folder)
      ->group(group);
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
  const std::string several = "Several requests at once", cache(kCacheHeading);
  command.add_option("--queue-max", options.engine.queue_max, "Requests that may wait; more are answered 429")
      ->check(whole_number(1, 1 << 20))
      ->capture_default_str()
      ->group(several);
  command
      .add_option("--parallel", options.sequences, "Full contexts that fit into the KV cache, if --kv-bytes is not set")
      ->check(whole_number(1, 1024))
      ->capture_default_str()
      ->group(several);
  command.add_option("--parallel-max", options.engine.sequences_max, "Requests that run at once; others wait")
      ->check(whole_number(1, 128))
      ->capture_default_str()
      ->group(several);
  command
      .add_option_function<std::string>(
          "--step-ms",
          [&options](const std::string& step_ms) {
            options.engine.step.reset();
            if (step_ms != "auto") options.engine.step = std::chrono::milliseconds(std::stoi(step_ms));
          },
          "Milliseconds by which reading other prompts may delay each token of a running answer; auto: a prompt takes "
          "at "
          "most 1.6 times as long as it would alone, as long as the delay stays below 200 ms")
      ->check(whole_number_or({"auto"}, 1, 10'000))
      ->default_str("auto")
      ->group(several);
  command
      .add_option("--first-step-tokens", options.engine.first_rows,
                  "Tokens of the first step after loading, which finds out how fast the machine is")
      ->check(whole_number(1, 4'096))
      ->capture_default_str()
      ->group(several);
  command
      .add_option("--tenant-requests-max", options.engine.tenant_requests_max,
                  "Requests that one API key may have waiting and running; 0: no limit")
      ->check(whole_number(0, 1 << 20))
      ->capture_default_str()
      ->group(several);
  auto* no_cache = command.add_flag("!--no-prefix-cache", options.engine.prefix_cache,
                                    "Compute every prompt from its beginning, and cache nothing between requests");
  no_cache->group(cache);
  command
      .add_option("--kv-host-bytes", options.engine.kv_host_bytes,
                  "Memory for cached keys and values that do not fit into --kv-bytes, e.g. 8GiB (default: none)")
      ->transform(byte_size(0))
      ->excludes(no_cache)
      ->group(cache);
  add_kv_disk_flags(command, options.kv_disk, no_cache);
}

void ModelFlags::add_defaults_to(CLI::App& command) {
  const std::string heading = "Defaults for requests that do not set them";
  add_parameter_flags(command, defaults.sampling, heading, ShownDefaults::kAll);
  command.add_option("-s,--seed", defaults.seed, "Seed; -1: a random one for each request (default: -1)")
      ->check(whole_number(-1, std::numeric_limits<int64_t>::max()))
      ->group(heading);
  command
      .add_option("-n,--predict,--n-predict,--max-tokens", defaults.predict,
                  "Maximum tokens of an answer; -1: until the context is full (default: -1)")
      ->check(whole_number(-1, std::numeric_limits<int32_t>::max()))
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
