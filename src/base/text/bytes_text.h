/// Numbers of bytes as readable text.
#pragma once

#include <cstdint>
#include <string>

namespace cairn {

/// "512 B", "1.5 KiB", up to TiB. `bytes` is not negative.
std::string bytes_text(int64_t bytes);

}  // namespace cairn
