/* libcairn: language models in GGUF files, run inside a program. The C interface of the engine that `cairn serve` has.
 *
 * One model answers many requests at once, in one batch, as it does in the server: the same scheduler, the same fields
 * of requests with the same defaults, and the same bytes for the same request and seed. Requests are the JSON bodies of
 * the server's endpoints (docs/api/openai.md), so that this interface has no structs of parameters.
 *
 * Threads: any function may be called from any thread, and several threads may use one model at the same time. A stream
 * belongs to one thread at a time, except cairn_stream_cancel(), which may be called by any thread while the stream is
 * open. No function calls another thread's code: callbacks run on the thread that called the function which was given
 * them, except the one for the log.
 *
 * Ownership: what a function returns as `char *`, `int32_t *` or `float *` belongs to the caller, who frees it with
 * cairn_free(). A `const char *` belongs to the handle that it came from. Handles are freed with their own functions.
 *
 * Errors: a function that can fail takes `cairn_error **error` last. If it fails and `error` is not NULL, *error is set
 * to an error that the caller frees with cairn_error_free(); if it succeeds, *error is set to NULL. No C++ exception
 * leaves a function, and lack of memory is an error like any other. An argument that must not be NULL and is, is an
 * error too (CAIRN_INVALID_ARGUMENT).
 *
 * fork(): a model has threads, which a child process does not have. A child that uses its parent's model gets
 * CAIRN_UNAVAILABLE; closing a handle there does nothing. Open models after fork().
 *
 * Texts are UTF-8. Where a function takes a text without its size, the text ends with a zero byte. Texts that are
 * returned have a zero byte behind them, which does not count as part of `*size`. Every `size_t *size` may be NULL.
 */
#ifndef CAIRN_H
#define CAIRN_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define CAIRN_API __attribute__((visibility("default")))
#else
#define CAIRN_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Errors ---- */

typedef enum cairn_code {
  CAIRN_OK = 0,
  CAIRN_INVALID_ARGUMENT = 1,        /* a request, an option or an argument has a value that cannot be used */
  CAIRN_NOT_FOUND = 2,               /* there is no such file or model */
  CAIRN_UNSUPPORTED = 3,             /* a form of file or model that Cairn does not run */
  CAIRN_CORRUPT_FILE = 4,            /* the bytes of a file contradict its format */
  CAIRN_TOO_LARGE = 5,               /* over a limit, which the message names */
  CAIRN_OUT_OF_MEMORY = 6,           /* the plan of the memory, or an allocation, does not fit */
  CAIRN_CONTEXT_LENGTH_EXCEEDED = 7, /* the prompt is longer than the context */
  CAIRN_QUEUE_FULL = 8,              /* too many requests wait; try again later */
  CAIRN_CANCELLED = 9,               /* somebody has cancelled the request */
  CAIRN_UNAVAILABLE = 10,            /* the model belongs to another process (fork), or is being closed */
  CAIRN_IO = 11,                     /* the system has refused to read or map a file */
  CAIRN_INTERNAL = 12                /* a fault of the library */
} cairn_code;

typedef struct cairn_error cairn_error;

/* CAIRN_OK for NULL. */
CAIRN_API cairn_code cairn_error_code(const cairn_error *error);
/* What is wrong and what to do, in the words of the server; "" for NULL. */
CAIRN_API const char *cairn_error_message(const cairn_error *error);
/* The field that is wrong, such as "messages[2].content"; NULL if it is none in particular. */
CAIRN_API const char *cairn_error_param(const cairn_error *error);
/* The body with which the server answers such an error: {"error": {"message", "type", "param", "code"}}. */
CAIRN_API const char *cairn_error_json(const cairn_error *error);
CAIRN_API void cairn_error_free(cairn_error *error);

/* Frees what a function returned as `char *`, `int32_t *` or `float *`. NULL is fine. */
CAIRN_API void cairn_free(void *memory);

/* ---- The library ---- */

/* "0.4.0". Lives as long as the library. */
CAIRN_API const char *cairn_version(void);

typedef enum cairn_log_level {
  CAIRN_LOG_DEBUG = 0,
  CAIRN_LOG_INFO = 1,
  CAIRN_LOG_WARNING = 2,
  CAIRN_LOG_ERROR = 3,
  CAIRN_LOG_OFF = 4
} cairn_log_level;

/* A line of the log, without a line feed. Called from any thread, one call at a time. It must not call the library. */
typedef void (*cairn_log_function)(cairn_log_level level, const char *text, void *user);

/* Sends lines of at least `level`, of all models, to `function`. The library is silent until this is called, and again
 * after a call with NULL: it writes nothing to standard error. When the call returns, no call of the previous function
 * is running any more. */
CAIRN_API void cairn_set_log(cairn_log_level level, cairn_log_function function, void *user);

/* ---- Models ---- */

typedef struct cairn_model cairn_model;

/* Loads a model and starts its engine. `model`: a GGUF file (of a split model, any part), or a name that `cairn list`
 * shows. `options`: a JSON object of settings by their names in `cairn serve --help-all` without dashes in front, such
 * as {"ctx": 8192, "threads": 4, "kv-type": "q8_0", "draft": "small.gguf", "lora": ["a.gguf:0.5"], "temp": 0}; NULL or
 * "" leaves everything at its default. A name that is not known is an error that says the nearest one. NULL on error. */
CAIRN_API cairn_model *cairn_model_open(const char *model, const char *options, cairn_error **error);

/* Frees the handle. Streams that are still open keep the model: they go on, and its memory is freed when the last of
 * them is closed. No other thread may be in a call with this handle. NULL is fine. */
CAIRN_API void cairn_model_close(cairn_model *model);

/* How much memory a model would take, without loading it: the JSON object that `cairn inspect --json` has as "memory",
 * for the options as cairn_model_open() takes them. */
CAIRN_API char *cairn_plan(const char *model, const char *options, size_t *size, cairn_error **error);

/* What the model is, as a JSON object: "name", "architecture", "quantisation", "parameters", "file_bytes",
 * "context_tokens", "vocabulary", "embedding_dimensions", "device" and whether it "generates", "embeds" and "ranks". */
CAIRN_API char *cairn_model_info(cairn_model *model, size_t *size, cairn_error **error);

/* What its engine is doing and has done so far, as a JSON object: the same as an entry of "models" in GET /stats. */
CAIRN_API char *cairn_model_stats(cairn_model *model, size_t *size, cairn_error **error);

/* ---- Tokens and templates ---- */

enum {
  CAIRN_ADD_SPECIAL = 1,  /* adds the tokens with which the model's texts begin and end */
  CAIRN_PARSE_SPECIAL = 2 /* texts such as "<|im_start|>" are special tokens */
};

/* The token ids of a text. `flags`: CAIRN_ADD_SPECIAL and CAIRN_PARSE_SPECIAL, or 0. For an empty text the array is
 * empty, but not NULL. */
CAIRN_API int32_t *cairn_tokenize(cairn_model *model, const char *text, size_t size, int flags, size_t *count,
                                  cairn_error **error);

/* The text of token ids, special tokens included. What is not valid UTF-8 is replaced by U+FFFD. */
CAIRN_API char *cairn_detokenize(cairn_model *model, const int32_t *tokens, size_t count, size_t *size,
                                 cairn_error **error);

/* The text that the model would continue for a conversation. `request`: as POST /apply-template takes it, with
 * "messages" and perhaps "tools". */
CAIRN_API char *cairn_apply_template(cairn_model *model, const char *request, size_t *size, cairn_error **error);

/* ---- Answers ---- */

typedef struct cairn_stream cairn_stream;

/* Submits a conversation, whose `request` is the body of POST /v1/chat/completions, with tools, "response_format",
 * "seed" and all other fields. "model" may be left out, and "stream" makes no difference. The engine works on it from
 * now on, also while nobody asks for events; if many events wait, it pauses the request. NULL on error. */
CAIRN_API cairn_stream *cairn_chat(cairn_model *model, const char *request, cairn_error **error);

/* The same for texts to continue: the body of POST /v1/completions, whose "prompt" is a text, token ids, or a list. */
CAIRN_API cairn_stream *cairn_complete(cairn_model *model, const char *request, cairn_error **error);

typedef enum cairn_event_type {
  CAIRN_EVENT_TEXT = 1,           /* `text` continues the answer */
  CAIRN_EVENT_REASONING = 2,      /* `text` continues what the model thinks before it answers */
  CAIRN_EVENT_CALL_BEGIN = 3,     /* a tool is called: `text` is its name, `id` the id of the call */
  CAIRN_EVENT_CALL_ARGUMENTS = 4, /* `text` continues the arguments of the call, which are JSON */
  CAIRN_EVENT_CALL_END = 5,       /* the call is complete, or has been cut off; the finish tells */
  CAIRN_EVENT_FINISH = 6,         /* the choice is complete: `text` is why, see below */
  CAIRN_EVENT_END = 7             /* all choices are complete: cairn_stream_response() has the whole answer */
} cairn_event_type;

/* Pointers are valid until the next call with this stream. */
typedef struct cairn_event {
  cairn_event_type type;
  int32_t choice;        /* from 0 to n - 1; -1 for CAIRN_EVENT_END */
  int32_t call;          /* number of the call within its choice, from 0; -1 if the event is not about a call */
  const char *text;      /* never NULL. CAIRN_EVENT_FINISH: "stop", "length", "tool_calls", "repetition", "cancelled" */
  size_t text_size;      /* bytes of `text` */
  const char *id;        /* CAIRN_EVENT_CALL_BEGIN: the call's id; otherwise NULL */
  const int32_t *tokens; /* tokens that the model wrote since the previous event of the choice; NULL if there are none */
  size_t token_count;    /* a token that only ends the answer is not among them */
} cairn_event;

typedef enum cairn_next {
  CAIRN_NEXT_FAILED = -1, /* the request has failed; *error says why, and further calls say the same */
  CAIRN_NEXT_TIMEOUT = 0, /* nothing came in that time */
  CAIRN_NEXT_EVENT = 1    /* *event is set */
} cairn_next;

/* Waits up to `timeout_ms` milliseconds for the next event: 0 does not wait, and a negative number waits for as long as
 * it takes. After CAIRN_EVENT_END, every call gives that event again. */
CAIRN_API cairn_next cairn_stream_next(cairn_stream *stream, int32_t timeout_ms, cairn_event *event,
                                       cairn_error **error);

/* Returning anything but 0 cancels the request. */
typedef int (*cairn_event_function)(const cairn_event *event, void *user);

/* Calls `function` with each event on this thread until the end; NULL just waits. Returns CAIRN_OK at the end,
 * CAIRN_CANCELLED if the request was cancelled, and otherwise the error's code. `function` may call
 * cairn_stream_cancel(), but nothing else with this stream. */
CAIRN_API cairn_code cairn_stream_run(cairn_stream *stream, cairn_event_function function, void *user,
                                      cairn_error **error);

/* Ends the answer early, from any thread. The engine frees its memory within one step. What was already there still
 * comes, then a CAIRN_EVENT_FINISH with "cancelled" for each choice, and CAIRN_EVENT_END. After the end it does
 * nothing. */
CAIRN_API void cairn_stream_cancel(cairn_stream *stream);

/* After CAIRN_EVENT_END: the whole answer, as the server gives it to a request without "stream", with "usage" and
 * "timings". Errors: CAIRN_INVALID_ARGUMENT before the end, CAIRN_CANCELLED after a cancelled answer. */
CAIRN_API char *cairn_stream_response(cairn_stream *stream, size_t *size, cairn_error **error);

/* What of the request has no effect and why, as a JSON array of texts; "[]" if everything has. Any time. */
CAIRN_API char *cairn_stream_warnings(cairn_stream *stream, size_t *size, cairn_error **error);

/* Cancels the request if it is still running, and frees the handle. NULL is fine. */
CAIRN_API void cairn_stream_close(cairn_stream *stream);

/* ---- Vectors, relevance and logits ---- */

/* Embeds texts: `request` is the body of POST /v1/embeddings. Returns *rows vectors of *dimensions numbers, one after
 * the other in the order of the texts. Waits for all of them. */
CAIRN_API float *cairn_embed(cairn_model *model, const char *request, size_t *rows, size_t *dimensions,
                             cairn_error **error);

/* How well documents go with a query: `request` is the body of POST /v1/rerank, and what is returned is its answer. */
CAIRN_API char *cairn_rerank(cairn_model *model, const char *request, size_t *size, cairn_error **error);

/* The logits after each token of a text, or with `last_only` other than 0 after its last one alone: *rows rows of
 * *vocabulary numbers. Computed by the engine, in the same batches as answers. */
CAIRN_API float *cairn_logits(cairn_model *model, const int32_t *tokens, size_t count, int last_only, size_t *rows,
                              size_t *vocabulary, cairn_error **error);

#ifdef __cplusplus
}
#endif

#endif /* CAIRN_H */
