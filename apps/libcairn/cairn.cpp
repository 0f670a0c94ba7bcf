// The functions of include/cairn.h.
#include "cairn.h"

#include <chrono>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "api/embedding/rerank.h"
#include "api/openai/embeddings.h"
#include "api/serialization/json_text.h"
#include "api/stats.h"
#include "api/tokenize_endpoints.h"
#include "base/text/utf8.h"
#include "base/version.h"
#include "exchange.h"
#include "gguf/reader.h"
#include "guard.h"
#include "model.h"
#include "settings.h"
#include "stream.h"
#include "vectors.h"

using cairn::Code;
using cairn::fail_at;
using cairn::Result;
using cairn::library::check_given;
using cairn::library::copied_array;
using cairn::library::copied_text;
using cairn::library::guarded;

struct cairn_model {
  std::shared_ptr<cairn::library::Model> model;
};

struct cairn_stream {
  std::unique_ptr<cairn::library::Stream> stream;
};

namespace {

/// Error: there is no model, or it is another process's.
Result<cairn::library::Model*> model_of(cairn_model* model) {
  CAIRN_TRY_VOID(check_given(model, "model"));
  CAIRN_TRY_VOID(model->model->check_process());
  return model->model.get();
}

Result<cairn::library::Stream*> stream_of(cairn_stream* stream) {
  CAIRN_TRY_VOID(check_given(stream, "stream"));
  CAIRN_TRY_VOID(stream->stream->model().check_process());
  return stream->stream.get();
}

/// Token ids of C, of which each is checked to be one.
Result<std::vector<cairn::TokenId>> tokens_of(const cairn::library::Model& model, const int32_t* tokens, size_t count) {
  if (count > 0) CAIRN_TRY_VOID(check_given(tokens, "tokens"));
  const int32_t vocabulary = model.loaded()->tokenizer->size();
  std::vector<cairn::TokenId> ids;
  ids.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    if (tokens[i] < 0 || tokens[i] >= vocabulary) {
      return fail_at(fmt::format("tokens[{}]", i), Code::kInvalidArgument,
                     "token {} is out of range: the vocabulary has {} tokens", tokens[i], vocabulary);
    }
    ids.push_back(cairn::TokenId{tokens[i]});
  }
  return ids;
}

/// A call of an endpoint whose answer is the text that is returned.
Result<std::string> answer_of(cairn_model* model, cairn::library::Endpoint endpoint, const char* request) {
  CAIRN_TRY(cairn::library::Model* const found, model_of(model));
  CAIRN_TRY_VOID(check_given(request, "request"));
  return cairn::library::call(*found, endpoint, request);
}

std::optional<std::chrono::steady_clock::time_point> deadline_after(int32_t timeout_ms) {
  if (timeout_ms < 0) return std::nullopt;
  return std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
}

void fill(cairn_event& to, const cairn::library::Event& event) {
  to.type = event.type;
  to.choice = event.choice;
  to.call = event.call;
  to.text = event.text.c_str();
  to.text_size = event.text.size();
  to.id = event.type == CAIRN_EVENT_CALL_BEGIN ? event.id.c_str() : nullptr;
  to.tokens = event.tokens.empty() ? nullptr : event.tokens.data();
  to.token_count = event.tokens.size();
}

using StartStream = Result<std::unique_ptr<cairn::library::Stream>>(std::shared_ptr<cairn::library::Model> model,
                                                                    const std::string& request);

cairn_stream* start(cairn_model* model, const char* request, cairn_error** error, StartStream* starts) {
  return guarded(error, static_cast<cairn_stream*>(nullptr), [&]() -> Result<cairn_stream*> {
    CAIRN_TRY_VOID(model_of(model));
    CAIRN_TRY_VOID(check_given(request, "request"));
    CAIRN_TRY(auto stream, starts(model->model, request));
    return new cairn_stream{std::move(stream)};
  });
}

/// A text that is made of the model, for the caller.
template <class Make>
char* text_of(cairn_model* model, size_t* size, cairn_error** error, const Make& make) {
  return guarded(error, static_cast<char*>(nullptr), [&]() -> Result<char*> {
    CAIRN_TRY(cairn::library::Model* const found, model_of(model));
    CAIRN_TRY(const std::string text, make(*found));
    return copied_text(text, size);
  });
}

}  // namespace

cairn_code cairn_error_code(const cairn_error* error) { return error == nullptr ? CAIRN_OK : error->code; }
const char* cairn_error_message(const cairn_error* error) { return error == nullptr ? "" : error->message.c_str(); }
const char* cairn_error_param(const cairn_error* error) {
  return error == nullptr || error->param.empty() ? nullptr : error->param.c_str();
}
const char* cairn_error_json(const cairn_error* error) { return error == nullptr ? "{}" : error->json.c_str(); }
void cairn_error_free(cairn_error* error) { cairn::library::release(error); }
void cairn_free(void* memory) { std::free(memory); }

const char* cairn_version(void) { return cairn::kVersion.data(); }

cairn_model* cairn_model_open(const char* model, const char* options, cairn_error** error) {
  return guarded(error, static_cast<cairn_model*>(nullptr), [&]() -> Result<cairn_model*> {
    CAIRN_TRY_VOID(check_given(model, "model"));
    CAIRN_TRY(auto opened, cairn::library::Model::open(model, options == nullptr ? "" : options));
    return new cairn_model{std::move(opened)};
  });
}

void cairn_model_close(cairn_model* model) {
  if (model != nullptr && model->model->is_of_this_process()) delete model;
}

char* cairn_plan(const char* model, const char* options, size_t* size, cairn_error** error) {
  return guarded(error, static_cast<char*>(nullptr), [&]() -> Result<char*> {
    CAIRN_TRY_VOID(check_given(model, "model"));
    CAIRN_TRY(const auto settings, cairn::library::Settings::read(model, options == nullptr ? "" : options));
    CAIRN_TRY(const cairn::gguf::Reader file, cairn::gguf::Reader::open(settings.model.load.model));
    return copied_text(cairn::api::dump(cairn::report_memory(file, settings.memory()).json()), size);
  });
}

char* cairn_model_info(cairn_model* model, size_t* size, cairn_error** error) {
  return text_of(model, size, error, [](cairn::library::Model& found) -> Result<std::string> { return found.info(); });
}

char* cairn_model_stats(cairn_model* model, size_t* size, cairn_error** error) {
  return text_of(model, size, error, [](cairn::library::Model& found) -> Result<std::string> {
    return cairn::api::dump(cairn::api::model_stats(*found.loaded()));
  });
}

int32_t* cairn_tokenize(cairn_model* model, const char* text, size_t size, int flags, size_t* count,
                        cairn_error** error) {
  return guarded(error, static_cast<int32_t*>(nullptr), [&]() -> Result<int32_t*> {
    CAIRN_TRY(cairn::library::Model* const found, model_of(model));
    CAIRN_TRY_VOID(check_given(text, "text"));
    CAIRN_TRY_VOID(check_given(count, "count"));
    if ((flags & ~(CAIRN_ADD_SPECIAL | CAIRN_PARSE_SPECIAL)) != 0)
      return fail_at("flags", Code::kInvalidArgument, "flags is {}, which has bits that mean nothing", flags);
    CAIRN_TRY(const auto tokens,
              found->loaded()->tokenizer->encode(std::string_view(text, size),
                                                 {.add_special = (flags & CAIRN_ADD_SPECIAL) != 0,
                                                  .parse_special = (flags & CAIRN_PARSE_SPECIAL) != 0}));
    std::vector<int32_t> ids;
    ids.reserve(tokens.size());
    for (const cairn::TokenId token : tokens) ids.push_back(cairn::index(token));
    *count = ids.size();
    return copied_array(std::span<const int32_t>(ids));
  });
}

char* cairn_detokenize(cairn_model* model, const int32_t* tokens, size_t count, size_t* size, cairn_error** error) {
  return text_of(model, size, error, [&](cairn::library::Model& found) -> Result<std::string> {
    CAIRN_TRY(const auto ids, tokens_of(found, tokens, count));
    return cairn::utf8_replace_invalid(found.loaded()->tokenizer->decode(ids, true));
  });
}

char* cairn_apply_template(cairn_model* model, const char* request, size_t* size, cairn_error** error) {
  return guarded(error, static_cast<char*>(nullptr), [&]() -> Result<char*> {
    CAIRN_TRY(const std::string body, answer_of(model, cairn::api::handle_apply_template, request));
    return copied_text(nlohmann::json::parse(body)["prompt"].get<std::string>(), size);
  });
}

cairn_stream* cairn_chat(cairn_model* model, const char* request, cairn_error** error) {
  return start(model, request, error, cairn::library::Stream::chat);
}

cairn_stream* cairn_complete(cairn_model* model, const char* request, cairn_error** error) {
  return start(model, request, error, cairn::library::Stream::complete);
}

cairn_next cairn_stream_next(cairn_stream* stream, int32_t timeout_ms, cairn_event* event, cairn_error** error) {
  return guarded(error, CAIRN_NEXT_FAILED, [&]() -> Result<cairn_next> {
    CAIRN_TRY(cairn::library::Stream* const found, stream_of(stream));
    CAIRN_TRY_VOID(check_given(event, "event"));
    CAIRN_TRY(const cairn::library::Event* const next, found->next(deadline_after(timeout_ms)));
    if (next == nullptr) return CAIRN_NEXT_TIMEOUT;
    fill(*event, *next);
    return CAIRN_NEXT_EVENT;
  });
}

cairn_code cairn_stream_run(cairn_stream* stream, cairn_event_function function, void* user, cairn_error** error) {
  cairn_error* why = nullptr;
  const cairn_code code = guarded(&why, CAIRN_INTERNAL, [&]() -> Result<cairn_code> {
    CAIRN_TRY(cairn::library::Stream* const found, stream_of(stream));
    while (true) {
      CAIRN_TRY(const cairn::library::Event* const next, found->next(std::nullopt));
      cairn_event event;
      fill(event, *next);
      if (function != nullptr && function(&event, user) != 0) found->cancel();
      if (event.type != CAIRN_EVENT_END) continue;
      if (!found->cancelled()) return CAIRN_OK;
      return cairn::fail(Code::kCancelled, "the answer has been cancelled");
    }
  });
  const cairn_code result = why == nullptr ? code : why->code;
  if (error != nullptr) {
    *error = why;
  } else {
    cairn_error_free(why);
  }
  return result;
}

void cairn_stream_cancel(cairn_stream* stream) {
  guarded(nullptr, false, [&]() -> Result<bool> {
    CAIRN_TRY(cairn::library::Stream* const found, stream_of(stream));
    found->cancel();
    return true;
  });
}

char* cairn_stream_response(cairn_stream* stream, size_t* size, cairn_error** error) {
  return guarded(error, static_cast<char*>(nullptr), [&]() -> Result<char*> {
    CAIRN_TRY(const cairn::library::Stream* const found, stream_of(stream));
    CAIRN_TRY(const std::string body, found->response());
    return copied_text(body, size);
  });
}

char* cairn_stream_warnings(cairn_stream* stream, size_t* size, cairn_error** error) {
  return guarded(error, static_cast<char*>(nullptr), [&]() -> Result<char*> {
    CAIRN_TRY(const cairn::library::Stream* const found, stream_of(stream));
    return copied_text(found->warnings(), size);
  });
}

void cairn_stream_close(cairn_stream* stream) {
  if (stream != nullptr && stream->stream->model().is_of_this_process()) delete stream;
}

float* cairn_embed(cairn_model* model, const char* request, size_t* rows, size_t* dimensions, cairn_error** error) {
  return guarded(error, static_cast<float*>(nullptr), [&]() -> Result<float*> {
    CAIRN_TRY(cairn::library::Model* const found, model_of(model));
    CAIRN_TRY_VOID(check_given(request, "request"));
    CAIRN_TRY_VOID(check_given(rows, "rows"));
    CAIRN_TRY_VOID(check_given(dimensions, "dimensions"));
    CAIRN_TRY(const cairn::library::Rows vectors, cairn::library::embed(*found, request));
    *rows = vectors.rows;
    *dimensions = vectors.columns;
    return copied_array(std::span<const float>(vectors.values));
  });
}

char* cairn_rerank(cairn_model* model, const char* request, size_t* size, cairn_error** error) {
  return guarded(error, static_cast<char*>(nullptr), [&]() -> Result<char*> {
    CAIRN_TRY(const std::string body, answer_of(model, cairn::api::handle_rerank, request));
    return copied_text(body, size);
  });
}

float* cairn_logits(cairn_model* model, const int32_t* tokens, size_t count, int last_only, size_t* rows,
                    size_t* vocabulary, cairn_error** error) {
  return guarded(error, static_cast<float*>(nullptr), [&]() -> Result<float*> {
    CAIRN_TRY(cairn::library::Model* const found, model_of(model));
    CAIRN_TRY_VOID(check_given(rows, "rows"));
    CAIRN_TRY_VOID(check_given(vocabulary, "vocabulary"));
    CAIRN_TRY(auto ids, tokens_of(*found, tokens, count));
    CAIRN_TRY(const cairn::library::Rows logits, cairn::library::logits(*found, std::move(ids), last_only != 0));
    *rows = logits.rows;
    *vocabulary = logits.columns;
    return copied_array(std::span<const float>(logits.values));
  });
}
