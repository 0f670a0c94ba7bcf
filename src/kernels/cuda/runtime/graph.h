/// A CUDA graph: a list of launches that is enqueued as a whole.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <vector>

#include "kernels/cuda/runtime/launch_list.h"

namespace cairn::kernels::cuda {

/// A graph on the current device. Its kernels run one after the other, as on a stream.
class Graph {
 public:
  /// With `overlaps`, dependent kernels begin early. Null if CUDA does not create it; `error` is set then.
  static std::unique_ptr<Graph> create(LaunchList list, bool overlaps, cudaError_t& error);
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  const LaunchList& list() const { return list_; }
  /// Updates the graph to `list`, which has the same kernels.
  cudaError_t update(LaunchList& list);
  cudaError_t launch(cudaStream_t stream) { return cudaGraphLaunch(executable_, stream); }

 private:
  explicit Graph(LaunchList list) : list_(std::move(list)) {}
  cudaError_t build(bool overlaps);

  LaunchList list_;
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
  std::vector<cudaGraphNode_t> nodes_;
};

}  // namespace cairn::kernels::cuda
