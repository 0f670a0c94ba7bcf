/// Ids of calls whose model gives them none.
#pragma once

#include <cstdint>
#include <string>

namespace cairn::chat {

/// An id that nobody else has: `bytes` letters and digits, or call_ and 24 of them if 0.
std::string make_call_id(int bytes = 0);
/// The id that a number gives.
std::string call_id_of(uint64_t number, int bytes);

}  // namespace cairn::chat
