#include "serve/operate_flags.h"

#include "base/log.h"
#include "net/http/http_client.h"
#include "values.h"

namespace cairn {

void OperateFlags::add_to(CLI::App& command) {
  const std::string group = "Operating";
  command
      .add_option_function<std::string>(
          "--log-format",
          [](const std::string& format) { set_log_format(format == "json" ? LogFormat::kJson : LogFormat::kText); },
          "Lines of the log: text, or json, an object each")
      ->check(CLI::IsMember({"text", "json"}))
      ->default_str("text")
      ->group(group);
  command
      .add_flag("--log-requests,!--no-log-requests", log_requests,
                "A line in the log for each request (default), or none")
      ->group(group);
  command
      .add_option("--drain-seconds", drain_seconds,
                  "Time that answers in progress have to end after SIGTERM or Ctrl-C; new requests are refused (503)")
      ->check(CLI::Range(0, kDrainSecondsMax))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--otlp", otlp,
                  "Collector that gets a trace of every request as OTLP/JSON, e.g. http://127.0.0.1:4318 (default: "
                  "none)")
      ->check(readable_by(net::check_http_url))
      ->group(group);
  command
      .add_option("--trace", trace_file,
                  "File that gets a line of OTLP/JSON with the trace of every request, behind what it has (default: "
                  "none)")
      ->group(group);
}

}  // namespace cairn
