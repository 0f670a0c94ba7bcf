#include "serve/request_flags.h"

#include "form_flags.h"
#include "help/value_checks.h"

namespace cairn {

void RequestFlags::add_to(CLI::App& command, const std::string& group) {
  command
      .add_flag("--strict-fields", strict_fields,
                "Refuse requests with fields that the endpoint does not know, instead of ignoring the fields with a "
                "line in the log")
      ->group(group);
  command
      .add_option("--api-sampling", api_sampling,
                  "Sampling defaults of OpenAI's and Anthropic's endpoints, where neither the request, this server nor "
                  "the model's file sets any: same as everywhere else, or openai (temperature 1, top_p 1, no filters)")
      ->check(one_of({"same", "openai"}))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--tool-calls", tool_calls,
                  "How to recognise tool calls: strict, only in the model's own format; lenient, also in other common "
                  "formats, if "
                  "they are unambiguous (in requests: tool_call_parsing)")
      ->check(one_of({"strict", "lenient"}))
      ->capture_default_str()
      ->group(group);
  add_schema_reading_flag(command, schema_reading)->group(group);
}

api::ServiceOptions RequestFlags::service_options() const {
  api::ServiceOptions options;
  options.strict_fields = strict_fields;
  options.openai_sampling = api_sampling == "openai";
  options.lenient_calls = tool_calls == "lenient";
  options.schema_reading = schema_reading;
  return options;
}

}  // namespace cairn
