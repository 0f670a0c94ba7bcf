/// How fast this machine reads memory, which decides how fast a model writes on its processor.
#pragma once

#include <chrono>
#include <cstdint>

namespace cairn {

/// How long a measurement takes: on a machine that is not busy, no longer.
inline constexpr std::chrono::milliseconds kBandwidthTime{500};
/// Memory that is written and then read over and over, which the caches forget each time; it is no more than one part
/// in kBandwidthFreeShare of what is free.
inline constexpr int64_t kBandwidthBytes = int64_t{64} << 20;
inline constexpr int64_t kBandwidthFreeShare = 8;

/// Bytes per second that all usable cores together read from memory while they run: on a busy machine, what they would
/// reach if they had the time. 0 where that cannot be measured: too little memory is free, or the processor has no
/// instruction to empty its caches. Takes kBandwidthTime and all cores: not for a thread that answers. Any thread.
int64_t measure_memory_bandwidth();

/// The same, measured by the first call in this process; calls meanwhile wait for it.
int64_t memory_bandwidth();

}  // namespace cairn
