#include "kernels/cuda/runtime/graph.h"

#include <utility>

namespace cairn::cuda {

std::unique_ptr<Graph> Graph::create(LaunchList list, cudaError_t& error) {
  std::unique_ptr<Graph> made(new Graph(std::move(list)));
  error = made->build();
  return error == cudaSuccess ? std::move(made) : nullptr;
}

Graph::~Graph() {
  if (executable_ != nullptr) cudaGraphExecDestroy(executable_);
  if (graph_ != nullptr) cudaGraphDestroy(graph_);
}

cudaError_t Graph::build() {
  if (const cudaError_t error = cudaGraphCreate(&graph_, 0); error != cudaSuccess) return error;
  for (size_t i = 0; i < list_.size(); ++i) {
    const cudaKernelNodeParams params = list_.at(i);
    cudaGraphNode_t node = nullptr;
    const cudaGraphNode_t* before = nodes_.empty() ? nullptr : &nodes_.back();
    const cudaError_t error = cudaGraphAddKernelNode(&node, graph_, before, nodes_.empty() ? 0 : 1, &params);
    if (error != cudaSuccess) return error;
    nodes_.push_back(node);
  }
  return cudaGraphInstantiate(&executable_, graph_, 0);
}

cudaError_t Graph::launch(LaunchList& list, cudaStream_t stream) {
  bool changed = false;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (list.same(i, list_)) continue;
    const cudaKernelNodeParams params = list.at(i);
    const cudaError_t error = cudaGraphExecKernelNodeSetParams(executable_, nodes_[i], &params);
    if (error != cudaSuccess) return error;
    changed = true;
  }
  if (changed) list_ = list;
  return cudaGraphLaunch(executable_, stream);
}

}  // namespace cairn::cuda
