// Fuzzes the config file of `cairn serve` (docs/operating.md): an error with a line, or settings within the limits,
// which options of every kind take or refuse with words. What `cairn config show` then prints is a config file again.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "config/config_file.h"
#include "config/settings.h"
#include "help/value_checks.h"

using namespace cairn;  // NOLINT: one small program

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

/// An option of every kind that `cairn serve` has.
struct Options {
  CLI::App app;
  std::string text;
  int32_t number = 0;
  int64_t bytes = 0;
  float part = 0;
  bool on = false;
  bool off = true;
  std::vector<std::string> list;
  std::string chosen;
  std::string called;

  Options() {
    app.add_option("--host", text);
    app.add_option("--port", number)->check(whole_number(0, 65'535));
    app.add_option("--memory", bytes)->transform(byte_size(1));
    app.add_option("--temp,--temperature", part)->check(real_number(0, 1'000));
    CLI::Option* on_flag = app.add_flag("--pull", on);
    app.add_flag("--no-pull")->excludes(on_flag);
    app.add_flag("!--no-web", off);
    app.add_option("--alias", list)->delimiter(',');
    app.add_option("--log-format", chosen)->check(one_of({"text", "json"}))->capture_default_str();
    app.add_option_function<std::string>("--idle-unload", [this](const std::string& value) { called = value; });
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const bool kQuiet = (set_log_level(LogLevel::kError), true);
  require(kQuiet);
  constexpr size_t kMessageBytesMax = 2'000;
  const auto config = parse_config({reinterpret_cast<const char*>(data), size}, "c.toml");
  if (!config) {
    const std::string& message = config.error().message;
    require(message.find("c.toml") != std::string::npos && message.size() <= kMessageBytesMax);
    return 0;
  }
  require(config->models.size() <= kConfigModelsMax);
  for (const Setting& setting : config->settings)
    require(!setting.values.empty() && setting.values.size() <= kConfigListMax && setting.where.starts_with("c.toml"));
  Options options;
  SettingSources sources;
  for (const std::string& problem : apply_settings(options.app, config->settings, sources)) require(!problem.empty());
  for (const ShownSettings shown : {ShownSettings::kSet, ShownSettings::kAll})
    require(parse_config(settings_text(options.app, sources, shown), "shown").has_value());
  return 0;
}
