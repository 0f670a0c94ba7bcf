#include "base/error.h"

namespace cairn {

std::string_view code_name(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
      return "invalid_argument";
    case Code::kNotFound:
      return "not_found";
    case Code::kUnsupported:
      return "unsupported";
    case Code::kCorruptFile:
      return "corrupt_file";
    case Code::kTooLarge:
      return "too_large";
    case Code::kOutOfMemory:
      return "out_of_memory";
    case Code::kContextLengthExceeded:
      return "context_length_exceeded";
    case Code::kQueueFull:
      return "queue_full";
    case Code::kCancelled:
      return "cancelled";
    case Code::kUnavailable:
      return "unavailable";
    case Code::kIo:
      return "io";
    case Code::kInternal:
      return "internal";
  }
  return "internal";
}

std::string Error::text() const { return at.empty() ? message : message + " (" + at + ")"; }

}  // namespace cairn
