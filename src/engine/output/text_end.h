/// Where the text of an answer ends that no stop string says: an expression that it comes to match.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace cairn::engine {

/// The end of one answer, which nobody else has. It sees the text alone, so that it keeps the same bytes. Called on the
/// engine's thread, and quick.
class TextEnd {
 public:
  virtual ~TextEnd() = default;
  struct Found {
    size_t bytes = 0;    ///< of the text that was pushed; the rest of it is not part of the answer
    std::string what{};  ///< for Finish::stop
  };
  /// Reads the text that comes next. Nothing may be pushed behind an end or an error. Errors: the text cannot be read
  /// within the limits of whoever made this.
  virtual Result<std::optional<Found>> push(std::string_view text) = 0;
};

}  // namespace cairn::engine
