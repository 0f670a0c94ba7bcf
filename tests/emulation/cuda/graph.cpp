// Kernels by address, launched one by one or as graphs.
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "emulation/cuda/launcher.h"
#include "emulation/cuda/queue.h"

using namespace cairn::kernels::cuda::emulated;

// NOLINTBEGIN(readability-identifier-naming): CUDA's names
struct EmulatedNode {
  const void* kernel = nullptr;
  Grid grid;
  std::function<void()> work;
  bool has_edge = false;

  explicit EmulatedNode(const cudaKernelNodeParams& params)
      : kernel(params.func),
        grid{params.gridDim, static_cast<int32_t>(params.blockDim.x), params.sharedMemBytes, false},
        work(bound(params.func, params.kernelParams)) {}
};

struct EmulatedGraph {
  std::vector<std::unique_ptr<EmulatedNode>> nodes;
};

struct EmulatedExecutable {
  int device = 0;
  std::vector<std::pair<cudaGraphNode_t, EmulatedNode>> nodes;  // including those of the graph that they come from
};

namespace cairn::kernels::cuda::emulated {
namespace {

int64_t launched = 0;

std::unordered_map<const void*, Bind>& binds() {
  static auto* all = new std::unordered_map<const void*, Bind>;
  return *all;
}

}  // namespace

int64_t graphs_launched() { return launched; }

void know(const void* kernel, Bind bind) { binds()[kernel] = bind; }

std::function<void()> bound(const void* kernel, void** arguments) {
  const auto found = binds().find(kernel);
  if (found == binds().end()) broken("a kernel that nobody has launched", Place::current());
  return found->second(kernel, arguments);
}

}  // namespace cairn::kernels::cuda::emulated

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  attributes->ptxVersion = 90;
  return cudaSuccess;
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* kernel, void** arguments) {
  const Grid grid{config->gridDim, static_cast<int32_t>(config->blockDim.x), config->dynamicSmemBytes,
                  config->numAttrs > 0};
  return launch(kernel, grid, config->stream, bound(kernel, arguments));
}

cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned) {
  *graph = new EmulatedGraph;
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* before,
                                   size_t before_count, const cudaKernelNodeParams* params) {
  if (before != nullptr || before_count != 0) broken("a graph's node that has edges when it is made", Place::current());
  graph->nodes.push_back(std::make_unique<EmulatedNode>(*params));
  *node = graph->nodes.back().get();
  return cudaSuccess;
}

cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
                                     const cudaGraphEdgeData* edges, size_t count) {
  const size_t nodes = graph->nodes.size();
  const bool in_turn = count == 1 && nodes > 1 && *to == graph->nodes.back().get() &&
                       *from == graph->nodes[nodes - 2].get() && !(*to)->has_edge;
  if (!in_turn) broken("a graph's kernel that does not run after the one before it", Place::current());
  (*to)->has_edge = true;
  (*to)->grid.dependent = edges->type == cudaGraphDependencyTypeProgrammatic;
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  for (size_t i = 1; i < graph->nodes.size(); ++i) {
    if (!graph->nodes[i]->has_edge) broken("a graph's kernel that waits for none", Place::current());
  }
  *executable = new EmulatedExecutable{.device = current_device(), .nodes = {}};
  for (const auto& node : graph->nodes) (*executable)->nodes.emplace_back(node.get(), *node);
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete executable;
  return cudaSuccess;
}

cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t executable, cudaGraphNode_t node,
                                             const cudaKernelNodeParams* params) {
  for (auto& [of_graph, own] : executable->nodes) {
    if (of_graph != node) continue;
    if (own.kernel != params->func) return keep(cudaErrorInvalidValue);
    const bool dependent = own.grid.dependent;
    own = EmulatedNode(*params);
    own.grid.dependent = dependent;
    return cudaSuccess;
  }
  return keep(cudaErrorInvalidValue);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  if (executable->device != current_device()) broken("a graph of another device", Place::current());
  ++launched;
  for (const auto& [of_graph, node] : executable->nodes) {
    if (const cudaError_t error = launch(node.kernel, node.grid, stream, node.work); error != cudaSuccess) return error;
  }
  return cudaSuccess;
}
// NOLINTEND(readability-identifier-naming)
