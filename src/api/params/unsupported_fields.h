/// Fields of peers that would change an answer and that no endpoint here can honour yet.
#pragma once

#include "api/params/request_fields.h"

namespace cairn::api {

/// Refuses what asks for structured output in the words of OpenAI, llama.cpp and vLLM, on endpoints that have no field
/// of their own for it: an answer in another form than was asked for would be an answer to another question.
void refuse_structured_output(RequestFields& fields);
/// The same without `response_format`, where a protocol has a field of its own for it.
void refuse_grammars(RequestFields& fields);

}  // namespace cairn::api
