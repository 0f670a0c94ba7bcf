/// Errors on the wire: the one table from Code to HTTP status and error type.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/function_ref.h"
#include "net/http/http_server.h"

namespace cairn::api {

/// An error's message on the wire is cut behind so much: what it repeats of a request is far shorter (kEchoBytesMax of
/// base/text/printable.h), and the list of all endpoints fits.
inline constexpr size_t kErrorMessageBytesMax = 3'072;

/// How much of a request's method an error message quotes: the longest that is registered has 17 letters.
inline constexpr size_t kMethodBytesMax = 20;

struct WireError {
  int status;
  std::string_view type;            ///< OpenAI's `type`
  std::string_view code;            ///< OpenAI's `code`
  std::string_view anthropic_type;  ///< Anthropic's `type`
};
WireError wire_error(Code code);

/// Why a request is not let in (access/). Nothing below api/ refuses so, and there is no Code for it.
enum class RefusalReason {
  kNoKey,      ///< it shows no API key, or none that this server knows
  kForbidden,  ///< its key may not do that
  kOverLimit,  ///< its key or its address has asked for too much in a time
};

/// What an error's body looks like to the protocol's clients. kLlamaCpp is OpenAI's but for a type that llama.cpp's
/// server has of its own.
enum class ErrorFormat { kOpenAi, kAnthropic, kOllama, kLlamaCpp };
WireError wire_error(RefusalReason reason, ErrorFormat format);

/// {"error": {"message", "type", "param", "code"}}, as OpenAI's clients expect; param is Error::at or null. Errors of a
/// prompt that the context has no room for have n_prompt_tokens and n_ctx in every shape, as llama.cpp has them.
nlohmann::ordered_json openai_error(const Error& error, ErrorFormat format = ErrorFormat::kOpenAi);
/// The message of a ContextOverflow in the words by which clients of the format recognise it, so that they sum up the
/// conversation and go on. An error whose own message begins with its place, a text to embed, keeps that.
std::string overflow_message(const ContextOverflow& overflow, ErrorFormat format);
/// The same for what net/ answers by itself.
std::string openai_error_body(int status, std::string_view message);

nlohmann::ordered_json error_body(const Error& error, ErrorFormat format);
/// For what has a status and no Code: paths and methods.
std::string error_body(int status, std::string_view message, ErrorFormat format);

/// For what has no Code, but names of its own.
std::string error_body(const WireError& wire, std::string_view message, ErrorFormat format);

void send_error(net::HttpResponse& response, const Error& error, ErrorFormat format);
/// 405: the path takes other `methods`, "GET, DELETE".
void send_method_not_allowed(net::HttpResponse& response, const net::HttpRequest& request, std::string_view methods,
                             ErrorFormat format = ErrorFormat::kOpenAi);
/// Answers 200 with the value; exchange.h has the same with the warnings that a request asks for.
void send_json(net::HttpResponse& response, const nlohmann::ordered_json& value);
/// What a catch block has caught, for the request that it came from: kOutOfMemory, or kInternal with what was thrown.
Error thrown_error();
/// Runs `work`; what it throws is the answer.
void answer_throws(net::HttpResponse& response, ErrorFormat format, FunctionRef<void()> work) noexcept;
/// The answer of a request that --request-bytes has no room for.
Error no_request_bytes();
/// What a request is told that the engine cancels by itself.
Error server_stops();

}  // namespace cairn::api
