/// Enqueues kernels on a stream: at once, or those of a step together as a graph or two.
///
/// A step of decoding is hundreds of short kernels, and the host may take longer to enqueue one than the GPU to run it.
/// Consecutive steps have the same kernels with nearly the same arguments: once that has been observed they become a
/// CUDA graph, which is enqueued by one call, and of which only the arguments that differ are updated.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/cuda/runtime/launch_list.h"

namespace cairn::kernels::cuda {

class Graph;

/// Errors of launches stay with the device (cudaGetLastError). The stream's device is current. Not thread-safe.
class LaunchQueue {
 public:
  /// Maximum number of graphs kept, the most recently used ones: two for each number of sequences that decode together.
  static constexpr size_t kGraphsMax = 32;
  /// Number of waiting kernels that are enqueued as the first part of a step, so that the GPU works while the host
  /// lists the others. They take the GPU longer than the host takes for several times as many.
  static constexpr size_t kFirstPart = 32;
  /// Minimum number of kernels for a graph.
  static constexpr size_t kKernelsMin = 16;
  /// Number of similar lists after which the next one becomes a graph, and how many kinds of lists are remembered: a
  /// step may have more kernels at every fourth or 128th position.
  static constexpr int kAlikeMin = 3;
  static constexpr size_t kSeenMax = 8;

  explicit LaunchQueue(cudaStream_t stream);
  ~LaunchQueue();
  LaunchQueue(const LaunchQueue&) = delete;
  LaunchQueue& operator=(const LaunchQueue&) = delete;

  void add(const Launch& launch);
  /// Launches wait for enqueue() from now on. Memory that they read must not be overwritten before.
  void gather() {
    gathers_ = true;
    first_part_ = true;
  }
  bool gathers() const { return gathers_; }
  /// Whether the first part of what was gathered should be enqueued.
  bool has_first_part() const { return first_part_ && list_.size() >= kFirstPart; }
  /// Enqueues the waiting launches; the next ones wait again.
  void enqueue_first_part();
  /// Enqueues the waiting launches; from now on each launch is enqueued at once.
  void enqueue();
  /// Number of launches so far.
  int64_t count() const { return count_; }
  /// Number of steps enqueued as graphs so far.
  int64_t graph_launches() const { return graph_launches_; }

 private:
  struct Known {
    std::unique_ptr<Graph> graph;
    int64_t used = 0;  // time of the last use
  };
  // A kind of list without a graph so far: the last one of those that were similar.
  struct Seen {
    LaunchList list;
    int times = 0;
    int64_t used = 0;
  };

  void enqueue_list();
  void enqueue_each(LaunchList& list);
  void enqueue_one(const cudaKernelNodeParams& params, bool dependent) const;
  bool enqueue_as_graph();
  /// A graph of a list like this one, or null; `differs` says whether it has to be updated.
  Graph* graph_like(const LaunchList& list, bool& differs);
  /// Whether enough lists similar to the current one have come before; if not, it is remembered.
  bool was_seen();
  Graph* make_graph();
  void give_up(cudaError_t error);

  const cudaStream_t stream_;
  const bool overlaps_;  // whether dependent kernels begin early
  bool gathers_ = false;
  bool first_part_ = false;  // whether nothing was enqueued since gather()
  LaunchList list_;
  std::vector<Seen> seen_;
  std::vector<Known> graphs_;
  int64_t count_ = 0;
  int64_t lists_ = 0;
  int64_t graph_launches_ = 0;
  bool has_failed_ = false;
};

}  // namespace cairn::kernels::cuda
