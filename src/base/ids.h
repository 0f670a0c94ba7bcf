/// Ids as distinct types, so that a page cannot be passed for a token.
#pragma once

#include <cstdint>

namespace cairn {

/// An entry of a model's vocabulary, 0 .. vocabulary size - 1; -1 means "none".
enum class TokenId : int32_t {};
inline constexpr TokenId kNoToken{-1};
constexpr int32_t index(TokenId id) { return static_cast<int32_t>(id); }

/// A sequence in the engine. Never reused while the program runs.
enum class SequenceId : int64_t {};
constexpr int64_t index(SequenceId id) { return static_cast<int64_t>(id); }

/// A page of KV memory of one group, 0 .. the group's pages - 1; -1 means "none".
enum class PageId : int32_t {};
inline constexpr PageId kNoPage{-1};
constexpr int32_t index(PageId id) { return static_cast<int32_t>(id); }

}  // namespace cairn
