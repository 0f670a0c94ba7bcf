#include "serve/operate_flags.h"

#include "base/log.h"
#include "help/help_format.h"
#include "help/value_checks.h"
#include "net/http/http_client.h"
#include "values.h"

namespace cairn {

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
}

}  // namespace cairn
