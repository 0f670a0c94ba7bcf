/// The form that a request asks its answer to have: response_format and what llama.cpp, vLLM and SGLang call the same.
#pragma once

#include "api/params/request_fields.h"
#include "chat/answer/request.h"

namespace cairn::api {

inline constexpr size_t kGrammarTriggersMax = 8;
inline constexpr size_t kGrammarTriggerBytesMax = 64;

/// Reads every field but those of one protocol alone. Two forms in one request are refused.
void read_answer_form(RequestFields& fields, chat::AnswerForm& form);
/// Refuses `response_format`, `grammar` and so on where a protocol has a field of its own for them, which has been read
/// before; `why` names it: "use format".
void refuse_answer_form(RequestFields& fields, std::string_view why);
/// Refuses what nobody has read of the object and what may be a form in the wrong place: texts, arrays, objects, and
/// keywords of JSON Schema. `place` is where the form belongs.
void refuse_misplaced_form(RequestFields& fields, const nlohmann::ordered_json& object, std::string_view place);

/// {"type": "text" | "json_object" | "json_schema", ...}, where the schema stands in the object itself or, as on
/// /v1/chat/completions, in its "json_schema".
void read_response_format(RequestFields& fields, std::string_view name, chat::AnswerForm& form);
/// Ollama's "json" or a schema.
void read_format(RequestFields& fields, std::string_view name, chat::AnswerForm& form);
/// {"type": "json_schema", "schema": {...}} of Messages.
void read_output_format(RequestFields& fields, std::string_view name, chat::AnswerForm& form);

}  // namespace cairn::api
