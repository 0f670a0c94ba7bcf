/// The way of kernels to a stream: at once, or those of a step together.
///
/// A step of decoding is hundreds of short kernels, and the host may take longer to enqueue one than the GPU to run it.
/// Steps that follow each other have the same kernels with nearly the same arguments: once that has been seen they
/// become a graph, which is enqueued by one call, and of which only the arguments that differ are written again.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/cuda/runtime/launch_list.h"

namespace cairn::cuda {

class Graph;

/// Errors of launches stay with the device (cudaGetLastError). The stream's device is current. Thread: one at a time.
class LaunchQueue {
 public:
  /// Graphs that are kept, those that were used last: one for each number of sequences that decode together.
  static constexpr size_t kGraphsMax = 16;
  /// Kernels that are worth one.
  static constexpr size_t kKernelsMin = 16;
  /// Lists that must have been alike before a graph is made of another one, and how many kinds of them are remembered:
  /// a step may have more kernels at every fourth or 128th position.
  static constexpr int kAlikeMin = 3;
  static constexpr size_t kSeenMax = 8;

  explicit LaunchQueue(cudaStream_t stream);
  ~LaunchQueue();
  LaunchQueue(const LaunchQueue&) = delete;
  LaunchQueue& operator=(const LaunchQueue&) = delete;

  void add(const Launch& launch);
  /// LaunchQueue wait for enqueue() from now on. What they read is not written before.
  void gather() { gathers_ = true; }
  bool gathers() const { return gathers_; }
  /// Enqueues what waits; from now on each launch at once.
  void enqueue();
  /// How many there have been.
  int64_t count() const { return count_; }
  /// Steps that were enqueued as graphs so far.
  int64_t graph_launches() const { return graph_launches_; }

 private:
  struct Known {
    std::unique_ptr<Graph> graph;
    int64_t used = 0;  // when
  };
  // What there is no graph of yet: the last one of those that were alike.
  struct Seen {
    LaunchList list;
    int times = 0;
    int64_t used = 0;
  };

  void enqueue_each(LaunchList& list);
  bool enqueue_as_graph();
  Graph* graph_like(const LaunchList& list);
  /// Whether enough lists like the one at hand have come before it; it is remembered if not.
  bool was_seen();
  Graph* make_graph();
  void give_up(cudaError_t error);

  const cudaStream_t stream_;
  bool gathers_ = false;
  LaunchList list_;
  std::vector<Seen> seen_;
  std::vector<Known> graphs_;
  int64_t count_ = 0;
  int64_t lists_ = 0;
  int64_t graph_launches_ = 0;
  bool has_failed_ = false;
};

}  // namespace cairn::cuda
