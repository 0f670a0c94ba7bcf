#include "api/params/unsupported_fields.h"

#include "api/params/generation_params.h"

namespace cairn::api {

void refuse_structured_output(RequestFields& fields) {
  refuse_unless_text_format(fields, "response_format");
  refuse_grammars(fields);
}

void refuse_grammars(RequestFields& fields) {
  constexpr std::string_view kWhy = "answers cannot be held to a form yet; ask for it in the prompt";
  fields.refuse("json_schema", kWhy);  // an empty one, too, asks for JSON
  for (const auto* name :
       {"grammar", "structured_outputs", "guided_json", "guided_regex", "guided_choice", "guided_grammar"})
    fields.only_empty(name, kWhy);
}

}  // namespace cairn::api
