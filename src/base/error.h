/// Errors as values: `Result<T>` holds a value or an `Error`.
///
/// An Error is written for the person who must act on it: `message` says what is wrong and what to do, `at` says where
/// (a file offset, a JSON path, a tensor's name). Programmer errors are not Errors: see base/check.h.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace cairn {

/// One list for the whole program. Only api/ maps these to HTTP statuses and protocol error types.
enum class Code {
  kInvalidArgument,        ///< A request or flag has a value that cannot be used.
  kNotFound,               ///< No such file, model, endpoint.
  kUnsupported,            ///< Well-formed, but not implemented.
  kCorruptFile,            ///< A file's bytes contradict its format.
  kTooLarge,               ///< Over a limit, which the message names.
  kOutOfMemory,            ///< The memory plan or an allocation does not fit.
  kContextLengthExceeded,  ///< The prompt is longer than the context; see Error::overflow.
  kQueueFull,              ///< Bounded queue at its limit; try again later.
  kCancelled,              ///< The client went away or asked to stop.
  kUnavailable,            ///< Shutting down, or a peer cannot be reached.
  kIo,                     ///< The operating system refused a read, write, map or socket call.
  kInternal,               ///< The program's fault.
};

/// The name of a code in snake_case without the k, e.g. "corrupt_file".
std::string_view code_name(Code code);

/// A prompt and the context that has no room for it, in tokens.
struct ContextOverflow {
  int64_t prompt_tokens = 0;
  int64_t context_tokens = 0;
};

struct Error {
  Code code = Code::kInternal;
  std::string message;
  std::string at;  ///< The place: "tensor blk.0.attn_q.weight", "messages[2].content", "offset 1234"; may be empty.
  std::optional<ContextOverflow> overflow{};  ///< Of kContextLengthExceeded, where both counts are known.

  /// "message (at)", or just the message.
  std::string text() const;
};

template <class T>
using Result = std::expected<T, Error>;

/// `return fail(Code::kNotFound, "no such file: {}", path);`
template <class... Args>
std::unexpected<Error> fail(Code code, fmt::format_string<Args...> format, Args&&... args) {
  return std::unexpected(Error{code, fmt::format(format, std::forward<Args>(args)...), {}});
}

/// An error like that of `fail`, with a place.
template <class... Args>
std::unexpected<Error> fail_at(std::string at, Code code, fmt::format_string<Args...> format, Args&&... args) {
  return std::unexpected(Error{code, fmt::format(format, std::forward<Args>(args)...), std::move(at)});
}

}  // namespace cairn

#define CAIRN_CONCAT_INNER(a, b) a##b
#define CAIRN_CONCAT(a, b) CAIRN_CONCAT_INNER(a, b)

/// CAIRN_TRY(auto x, expr): x = value of expr, or return its Error from the enclosing function.
#define CAIRN_TRY(declaration, expression) CAIRN_TRY_INNER(CAIRN_CONCAT(cairn_try_, __LINE__), declaration, expression)
#define CAIRN_TRY_INNER(temporary, declaration, expression)                         \
  auto temporary = (expression);                                                    \
  if (!temporary.has_value()) return std::unexpected(std::move(temporary).error()); \
  declaration = std::move(temporary).value()

/// CAIRN_TRY_VOID(expr): return expr's Error, if it has one, from the enclosing function.
#define CAIRN_TRY_VOID(expression)                                   \
  do {                                                               \
    if (auto cairn_result = (expression); !cairn_result.has_value()) \
      return std::unexpected(std::move(cairn_result).error());       \
  } while (false)
