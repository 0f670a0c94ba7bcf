#include "kernels/cuda/runtime/graph.h"

#include <utility>

namespace cairn::kernels::cuda {

namespace {

// Makes `after` wait for `before`: for its end, or, if `early`, only for its blocks' calls of trigger_dependents().
cudaError_t add_edge(cudaGraph_t graph, cudaGraphNode_t before, cudaGraphNode_t after, bool early) {
  cudaGraphEdgeData edge{};
  if (early) {
    edge.from_port = cudaGraphKernelNodePortProgrammatic;
    edge.type = cudaGraphDependencyTypeProgrammatic;
  }
#if CUDART_VERSION >= 13000
  return cudaGraphAddDependencies(graph, &before, &after, &edge, 1);
#else
  return cudaGraphAddDependencies_v2(graph, &before, &after, &edge, 1);
#endif
}

}  // namespace

std::unique_ptr<Graph> Graph::create(LaunchList list, bool overlaps, cudaError_t& error) {
  std::unique_ptr<Graph> made(new Graph(std::move(list)));
  error = made->build(overlaps);
  return error == cudaSuccess ? std::move(made) : nullptr;
}

Graph::~Graph() {
  if (executable_ != nullptr) cudaGraphExecDestroy(executable_);
  if (graph_ != nullptr) cudaGraphDestroy(graph_);
}

cudaError_t Graph::build(bool overlaps) {
  if (const cudaError_t error = cudaGraphCreate(&graph_, 0); error != cudaSuccess) return error;
  for (size_t i = 0; i < list_.size(); ++i) {
    const cudaKernelNodeParams params = list_.at(i);
    cudaGraphNode_t node = nullptr;
    cudaError_t error = cudaGraphAddKernelNode(&node, graph_, nullptr, 0, &params);
    if (error == cudaSuccess && !nodes_.empty())
      error = add_edge(graph_, nodes_.back(), node, overlaps && list_.dependent(i));
    if (error != cudaSuccess) return error;
    nodes_.push_back(node);
  }
  return cudaGraphInstantiate(&executable_, graph_, 0);
}

cudaError_t Graph::update(LaunchList& list) {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (list.same(i, list_)) continue;
    const cudaKernelNodeParams params = list.at(i);
    const cudaError_t error = cudaGraphExecKernelNodeSetParams(executable_, nodes_[i], &params);
    if (error != cudaSuccess) return error;
  }
  list_ = list;
  return cudaSuccess;
}

}  // namespace cairn::kernels::cuda
