/// A list of launches that the GPU takes as a whole.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <vector>

#include "kernels/cuda/runtime/launch_list.h"

namespace cairn::cuda {

/// Of the device that is current. One kernel after the other, as a stream has them.
class Graph {
 public:
  /// Null, and why, if CUDA does not make it.
  static std::unique_ptr<Graph> create(LaunchList list, cudaError_t& error);
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  const LaunchList& list() const { return list_; }
  /// Becomes `list`, which is of the same kernels, and enqueues it.
  cudaError_t launch(LaunchList& list, cudaStream_t stream);

 private:
  explicit Graph(LaunchList list) : list_(std::move(list)) {}
  cudaError_t build();

  LaunchList list_;
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
  std::vector<cudaGraphNode_t> nodes_;
};

}  // namespace cairn::cuda
