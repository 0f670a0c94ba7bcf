#include "guard.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "api/errors.h"
#include "api/serialization/json_text.h"

namespace cairn::library {
namespace {

constexpr const char* kNoMemory = "out of memory";

/// For callers of whom there is no memory to tell. Never freed.
cairn_error& no_memory() {
  static cairn_error error{
      CAIRN_OUT_OF_MEMORY,
      kNoMemory,
      {},
      R"({"error":{"message":"out of memory","type":"server_error","param":null,"code":"out_of_memory"}})"};
  return error;
}
/// Made when the library is loaded, when there is memory.
[[maybe_unused]] const cairn_error& made_early = no_memory();

}  // namespace

Error caught() noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return {Code::kOutOfMemory, kNoMemory, {}};
  } catch (const std::exception& error) {
    try {
      return {Code::kInternal, std::string("unexpected: ") + error.what(), {}};
    } catch (const std::exception&) {
      return {Code::kOutOfMemory, kNoMemory, {}};
    }
  } catch (...) {
    return {Code::kInternal, "unexpected", {}};
  }
}

cairn_code code_of(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
      return CAIRN_INVALID_ARGUMENT;
    case Code::kNotFound:
      return CAIRN_NOT_FOUND;
    case Code::kUnsupported:
      return CAIRN_UNSUPPORTED;
    case Code::kCorruptFile:
      return CAIRN_CORRUPT_FILE;
    case Code::kTooLarge:
      return CAIRN_TOO_LARGE;
    case Code::kOutOfMemory:
      return CAIRN_OUT_OF_MEMORY;
    case Code::kContextLengthExceeded:
      return CAIRN_CONTEXT_LENGTH_EXCEEDED;
    case Code::kQueueFull:
      return CAIRN_QUEUE_FULL;
    case Code::kCancelled:
      return CAIRN_CANCELLED;
    case Code::kUnavailable:
      return CAIRN_UNAVAILABLE;
    case Code::kIo:
      return CAIRN_IO;
    case Code::kInternal:
      break;
  }
  return CAIRN_INTERNAL;
}

void give(cairn_error** to, const Error& error) noexcept {
  if (to == nullptr) return;
  try {
    const nlohmann::ordered_json body = api::openai_error(error);
    *to = new cairn_error{code_of(error.code), body["error"]["message"].get<std::string>(), error.at, api::dump(body)};
  } catch (const std::exception&) {
    *to = &no_memory();
  }
}

void release(cairn_error* error) noexcept {
  if (error != &no_memory()) delete error;
}

Result<void> check_given(const void* argument, std::string_view name) {
  if (argument != nullptr) return {};
  return fail_at(std::string(name), Code::kInvalidArgument, "{} is NULL", name);
}

Result<void*> copied(const void* data, size_t bytes) {
  void* const copy = std::malloc(std::max<size_t>(bytes, 1));
  if (copy == nullptr) return fail(Code::kOutOfMemory, "{}", kNoMemory);
  if (bytes > 0) std::memcpy(copy, data, bytes);
  return copy;
}

Result<char*> copied_text(std::string_view text, size_t* size) {
  auto* const copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy == nullptr) return fail(Code::kOutOfMemory, "{}", kNoMemory);
  if (!text.empty()) std::memcpy(copy, text.data(), text.size());
  copy[text.size()] = '\0';
  if (size != nullptr) *size = text.size();
  return copy;
}

}  // namespace cairn::library
