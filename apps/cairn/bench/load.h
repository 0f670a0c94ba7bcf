/// Sends requests: from clients that each wait for their answer (closed loop), or at given times whatever the server
/// does (open loop).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include "bench/client.h"

namespace cairn::bench {

inline constexpr int kClientsMax = 1'024;
inline constexpr int kInFlightMax = 2'048;  ///< maximum requests in flight of an open loop; one thread each
inline constexpr int64_t kRequestsMax = 1'000'000;

struct TrafficOptions {
  int clients = 8;       ///< of a closed loop
  double rate = 0;       ///< requests per second of an open loop, Poisson; 0: closed loop
  int64_t requests = 0;  ///< maximum number
  double seconds = 0;    ///< time after which none is sent; 0: no limit
  uint64_t seed = 1;     ///< for the times of an open loop
};

/// Sends request `index`, which was due at `due`, and waits for its end. Called on many threads.
using SendOne = std::function<void(int64_t index, TimePoint due)>;
/// Called for request `index`, which was due and could not be sent: kInFlightMax others were in flight.
using DropOne = std::function<void(int64_t index, TimePoint due)>;

/// Returns when every request has ended. `interrupted` stops sending.
void run_load(const TrafficOptions& options, const SendOne& send, const DropOne& drop,
              const std::atomic<bool>& interrupted);

}  // namespace cairn::bench
