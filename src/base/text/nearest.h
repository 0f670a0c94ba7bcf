/// The known names that are most like an unknown one, for hints in error messages.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cairn {

/// Names that a hint has at most.
inline constexpr size_t kNearestMax = 3;
/// Bytes of a name that are compared; what follows makes no difference.
inline constexpr size_t kNearestBytesMax = 128;

/// The names of `known` that `word` may have been meant to be, the most likely first and at most `most` of them: those
/// that begin with it, differ from it by few letters (about one in three, at most four), or have it within them. Upper
/// and lower case of ASCII are the same here. Names that are equally likely come in the order of `known`; a name that
/// is there twice comes once. The views are those of `known`.
std::vector<std::string_view> nearest(std::string_view word, std::span<const std::string_view> known, size_t most);

/// "; did you mean serve or server?", to be put behind a message; empty where no name is near. `in_front` is written in
/// front of each name, such as "--".
std::string did_you_mean(std::string_view word, std::span<const std::string_view> known, size_t most = kNearestMax,
                         std::string_view in_front = {});

}  // namespace cairn
