#include "serve/operate_flags.h"

#include "base/log.h"
#include "help/help_format.h"
#include "help/value_checks.h"
#include "load_flags.h"
#include "net/http/http_client.h"
#include "values.h"

namespace cairn {
namespace {

constexpr int kIdleSecondsMax = 7 * 86'400;

}  // namespace

void OperateFlags::add_to(CLI::App& command) {
  const std::string group(kOperatingHeading);
  command
      .add_option_function<std::string>(
          "--log-format",
          [](const std::string& format) { set_log_format(format == "json" ? LogFormat::kJson : LogFormat::kText); },
          "Format of the log: lines of text, or of JSON")
      ->check(one_of({"text", "json"}))
      ->default_str("text")
      ->group(group);
  command
      .add_flag("--log-requests,!--no-log-requests", log_requests, "Log a line for each request when it is finished")
      ->default_str("true")
      ->group(group);
  command
      .add_option("--drain-seconds", drain_seconds,
                  "Seconds for answers in progress to finish after SIGTERM or Ctrl-C; new requests are refused (503)")
      ->check(whole_number(0, kDrainSecondsMax))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--otlp", otlp,
                  "Send a trace of each request to this collector as OTLP/JSON, e.g. http://127.0.0.1:4318 (default: "
                  "none)")
      ->check(readable_by(net::check_http_url))
      ->type_name("URL")
      ->group(group);
  command
      .add_option("--trace", trace_file,
                  "Append a trace of each request to this file, as a line of OTLP/JSON (default: none)")
      ->type_name("FILE")
      ->group(group);
  command
      .add_flag(
          "--trace-text", trace_text,
          "Traces have the texts of prompts, as the model reads them, and of answers: private data, in plain text")
      ->group(group);
  command
      .add_option("--trace-steps", trace_steps,
                  "Append a record of each step of the models to this file, as a line of JSON: what was in the batch, "
                  "and its time; at 64 MiB the file is renamed to FILE.1 (default: none)")
      ->type_name("FILE")
      ->group(group);
  add_power_flags(command, *power);
}

void add_frames_flags(CLI::App& command, net::FrameLimits& limits) {
  const std::string group = "Where the server listens";
  command.add_option("--frames-connections", limits.connections_max, "Connections to the frames socket at a time")
      ->check(whole_number(1, 1 << 16))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--frames-message-bytes", limits.message_bytes_max,
                  "Bytes of a message on the frames socket; a longer one is refused, and the connection stays")
      ->check(whole_number(1, net::kFrameBytesMax))
      ->capture_default_str()
      ->group(group);
  command
      .add_option_function<std::string>(
          "--frames-mode",
          [&limits](const std::string& mode) { limits.mode = static_cast<mode_t>(std::stoul(mode, nullptr, 8)); },
          "Who may connect to the frames socket: 0600, only you; 0660, your group too; 0666, everybody on the machine")
      ->check(one_of({"0600", "0660", "0666"}))
      ->default_str("0600")
      ->group(group);
  command
      .add_option_function<int>(
          "--frames-idle-seconds", [&limits](int seconds) { limits.idle_timeout = std::chrono::seconds(seconds); },
          "Close a connection to the frames socket on which nothing has come or gone for so long and no request runs; "
          "0: never")
      ->check(whole_number(0, kIdleSecondsMax))
      ->default_str("0")
      ->group(group);
}

}  // namespace cairn
