#include "api/errors.h"

#include <algorithm>
#include <exception>
#include <new>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/serialization/json_text.h"
#include "base/text/printable.h"

namespace cairn::api {

using nlohmann::ordered_json;

namespace {

std::string message_of(std::string_view message) { return cut_text(message, kErrorMessageBytesMax); }

std::string message_of(const Error& error, ErrorFormat format) {
  // A message that begins with its field says what to do about that one.
  const bool names_field = !error.at.empty() && error.message.starts_with(error.at);
  return !error.overflow || names_field ? message_of(error.message) : overflow_message(*error.overflow, format);
}

/// The counts under llama.cpp's names, whatever the shape of the error.
void add_counts(ordered_json& object, const Error& error) {
  if (!error.overflow) return;
  object["n_prompt_tokens"] = error.overflow->prompt_tokens;
  object["n_ctx"] = error.overflow->context_tokens;
}

ordered_json anthropic_error(const Error& error) {
  ordered_json inner = {{"type", wire_error(error.code).anthropic_type},
                        {"message", message_of(error, ErrorFormat::kAnthropic)}};
  // Anthropic's libraries ask again without what these details name.
  if (error.code == Code::kUnsupported && error.at == "thread")
    inner["details"] = {{"error_code", "thread_unsupported_request"}, {"unsupported", {"thread"}}};
  add_counts(inner, error);
  return {{"type", "error"}, {"error", std::move(inner)}};
}

}  // namespace

std::string overflow_message(const ContextOverflow& overflow, ErrorFormat format) {
  const auto [prompt, context] = overflow;
  switch (format) {
    case ErrorFormat::kAnthropic:
      // A token of the context is the answer's, so that a prompt as long as it is too long by that.
      return fmt::format("prompt is too long: {} tokens > {} maximum", prompt, std::min(context, prompt - 1));
    case ErrorFormat::kOllama:
      return fmt::format(
          "prompt too long; exceeded max context length by {} tokens: this model's maximum context length is {} "
          "tokens, "
          "the prompt has {}",
          std::max<int64_t>(prompt - context, 1), context, prompt);
    case ErrorFormat::kLlamaCpp:
      return fmt::format("the request ({} tokens) exceeds the available context size ({} tokens), try increasing it",
                         prompt, context);
    case ErrorFormat::kOpenAi:
      break;
  }
  return fmt::format(
      "This model's maximum context length is {} tokens. However, your messages resulted in {} tokens. Please reduce "
      "the length of the messages.",
      context, prompt);
}

WireError wire_error(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
      return {400, "invalid_request_error", "invalid_value", "invalid_request_error"};
    case Code::kNotFound:
      return {404, "invalid_request_error", "not_found", "not_found_error"};
    case Code::kUnsupported:
      return {400, "invalid_request_error", "unsupported", "invalid_request_error"};
    case Code::kTooLarge:
      return {400, "invalid_request_error", "too_large", "invalid_request_error"};
    case Code::kContextLengthExceeded:
      return {400, "invalid_request_error", "context_length_exceeded", "invalid_request_error"};
    case Code::kQueueFull:
      return {429, "rate_limit_error", "queue_full", "rate_limit_error"};
    case Code::kUnavailable:
      return {503, "server_error", "unavailable", "overloaded_error"};
    case Code::kOutOfMemory:
      return {503, "server_error", "out_of_memory", "overloaded_error"};
    case Code::kCancelled:
      return {499, "server_error", "cancelled", "api_error"};
    case Code::kCorruptFile:
    case Code::kIo:
    case Code::kInternal:
      break;
  }
  return {500, "server_error", "internal_error", "api_error"};
}

WireError wire_error(RefusalReason reason, ErrorFormat format) {
  switch (reason) {
    case RefusalReason::kNoKey:
      return {401, format == ErrorFormat::kLlamaCpp ? "authentication_error" : "invalid_request_error",
              "invalid_api_key", "authentication_error"};
    case RefusalReason::kForbidden:
      return {403, "invalid_request_error", "forbidden", "permission_error"};
    case RefusalReason::kOverLimit:
      break;
  }
  return {429, "rate_limit_error", "rate_limit_exceeded", "rate_limit_error"};
}

ordered_json openai_error(const Error& error, ErrorFormat format) {
  const WireError wire = wire_error(error.code);
  ordered_json inner = {
      {"message", message_of(error, format)},
      {"type", wire.type},
      {"param", error.at.empty() ? ordered_json(nullptr) : ordered_json(cut_text(error.at, kEchoBytesMax))},
      {"code", wire.code}};
  if (error.overflow && format == ErrorFormat::kLlamaCpp) inner["type"] = "exceed_context_size_error";
  add_counts(inner, error);
  return {{"error", std::move(inner)}};
}

std::string openai_error_body(int status, std::string_view message) {
  const bool ours = status >= 500;
  return dump({{"error",
                {{"message", message_of(message)},
                 {"type", ours ? "server_error" : "invalid_request_error"},
                 {"param", nullptr},
                 {"code", nullptr}}}});
}

ordered_json error_body(const Error& error, ErrorFormat format) {
  switch (format) {
    case ErrorFormat::kAnthropic:
      return anthropic_error(error);
    case ErrorFormat::kOllama: {
      ordered_json body = {{"error", message_of(error, format)}};
      add_counts(body, error);
      return body;
    }
    case ErrorFormat::kOpenAi:
    case ErrorFormat::kLlamaCpp:
      break;
  }
  return openai_error(error, format);
}

std::string error_body(int status, std::string_view message, ErrorFormat format) {
  switch (format) {
    case ErrorFormat::kAnthropic: {
      const std::string_view type = status == 404   ? "not_found_error"
                                    : status >= 500 ? "api_error"
                                                    : "invalid_request_error";
      return dump({{"type", "error"}, {"error", {{"type", type}, {"message", message_of(message)}}}});
    }
    case ErrorFormat::kOllama:
      return dump({{"error", message_of(message)}});
    case ErrorFormat::kOpenAi:
    case ErrorFormat::kLlamaCpp:
      break;
  }
  return openai_error_body(status, message);
}

std::string error_body(const WireError& wire, std::string_view message, ErrorFormat format) {
  if (format == ErrorFormat::kOllama) return dump({{"error", message_of(message)}});
  if (format == ErrorFormat::kAnthropic)
    return dump({{"type", "error"}, {"error", {{"type", wire.anthropic_type}, {"message", message_of(message)}}}});
  return dump(
      {{"error", {{"message", message_of(message)}, {"type", wire.type}, {"param", nullptr}, {"code", wire.code}}}});
}

void send_error(net::HttpResponse& response, const Error& error, ErrorFormat format) {
  std::vector<std::pair<std::string, std::string>> headers;
  const int status = wire_error(error.code).status;
  if (status == 429 || status == 503) headers.emplace_back("Retry-After", "1");
  response.send(status, "application/json", dump(error_body(error, format)), std::move(headers));
}

void send_method_not_allowed(net::HttpResponse& response, const net::HttpRequest& request, std::string_view methods,
                             ErrorFormat format) {
  const std::string message = fmt::format("{} takes {}, not {}", cut_text(request.path, kEchoBytesMax), methods,
                                          cut_text(request.method, kMethodBytesMax));
  response.send(405, "application/json", error_body(405, message, format), {{"Allow", std::string(methods)}});
}

void send_json(net::HttpResponse& response, const ordered_json& value) {
  response.send(200, "application/json", dump(value));
}

Error thrown_error() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return {Code::kOutOfMemory, "the server is out of memory; try again later", {}};
  } catch (const std::exception& error) {
    return {Code::kInternal, fmt::format("unexpected: {}", error.what()), {}};
  } catch (...) {
    return {Code::kInternal, "something unexpected was thrown", {}};
  }
}

void answer_throws(net::HttpResponse& response, ErrorFormat format, FunctionRef<void()> work) noexcept {
  try {
    try {
      work();
    } catch (...) {
      send_error(response, thrown_error(), format);
    }
  } catch (...) {
    // Not even memory for the error: the answer that dropping the response sends was made before.
  }
}

Error no_request_bytes() {
  return {Code::kOutOfMemory,
          "the memory for requests and their answers (--request-bytes) is used up; try again later",
          {}};
}

Error server_stops() { return {Code::kUnavailable, "the server is stopping", {}}; }

}  // namespace cairn::api
