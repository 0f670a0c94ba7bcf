#include "kernels/cuda/runtime/launch_queue.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "kernels/cuda/runtime/graph.h"
#include "kernels/cuda/runtime/probe.h"

namespace cairn::kernels::cuda {
namespace {

// Maximum number of kernels of a graph whose arguments may change: updating them takes about as long as launching the
// kernels.
size_t changes_max(size_t kernels) { return kernels / 4; }

bool are_alike(const LaunchList& a, const LaunchList& b) {
  return a.differences(b, changes_max(a.size())) <= changes_max(a.size());
}

}  // namespace

LaunchQueue::LaunchQueue(cudaStream_t stream) : stream_(stream), overlaps_(knows_dependent_launches()) {}
LaunchQueue::~LaunchQueue() = default;

void LaunchQueue::add(const Launch& launch) {
  ++count_;
  list_.add(launch);
  if (gathers_) return;
  enqueue_each(list_);
  list_.clear();
}

void LaunchQueue::enqueue() {
  gathers_ = false;
  enqueue_list();
}

void LaunchQueue::enqueue_first_part() {
  first_part_ = false;
  enqueue_list();
}

void LaunchQueue::enqueue_list() {
  if (list_.size() == 0) return;
  ++lists_;
  if (!enqueue_as_graph()) enqueue_each(list_);
  list_.clear();
}

void LaunchQueue::enqueue_each(LaunchList& list) {
  for (size_t i = 0; i < list.size(); ++i) {
    enqueue_one(list.at(i), overlaps_ && list.dependent(i));
  }
}

void LaunchQueue::enqueue_one(const cudaKernelNodeParams& params, bool dependent) const {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = params.gridDim;
  config.blockDim = params.blockDim;
  config.dynamicSmemBytes = params.sharedMemBytes;
  config.stream = stream_;
  config.attrs = &attribute;
  config.numAttrs = dependent ? 1 : 0;
  cudaLaunchKernelExC(&config, params.func, params.kernelParams);
}

bool LaunchQueue::enqueue_as_graph() {
  if (list_.size() < kKernelsMin || has_failed_) return false;
  bool differs = false;
  Graph* graph = graph_like(list_, differs);
  if (graph == nullptr) {
    if (!was_seen()) return false;
    graph = make_graph();
    if (graph == nullptr) return false;
  }
  cudaError_t error = differs ? graph->update(list_) : cudaSuccess;
  if (error == cudaSuccess) error = graph->launch(stream_);
  if (error != cudaSuccess) {
    give_up(error);
    return false;
  }
  ++graph_launches_;
  return true;
}

Graph* LaunchQueue::graph_like(const LaunchList& list, bool& differs) {
  for (Known& known : graphs_) {
    const size_t most = changes_max(list.size()), differences = list.differences(known.graph->list(), most);
    if (differences > most) continue;
    differs = differences > 0;
    known.used = lists_;
    return known.graph.get();
  }
  return nullptr;
}

bool LaunchQueue::was_seen() {
  auto found = std::ranges::find_if(seen_, [&](const Seen& seen) { return are_alike(seen.list, list_); });
  if (found == seen_.end()) {
    if (seen_.size() < kSeenMax) seen_.emplace_back();
    // A new entry, or the least recently used one.
    found = std::ranges::min_element(seen_, {}, &Seen::used);
    found->times = 0;
  } else if (found->times == kAlikeMin) {
    seen_.erase(found);
    return true;
  }
  found->list = list_;
  ++found->times;
  found->used = lists_;
  return false;
}

Graph* LaunchQueue::make_graph() {
  cudaError_t error = cudaSuccess;
  std::unique_ptr<Graph> made = Graph::create(list_, overlaps_, error);
  if (made == nullptr) {
    give_up(error);
    return nullptr;
  }
  if (graphs_.size() == kGraphsMax) graphs_.erase(std::ranges::min_element(graphs_, {}, &Known::used));
  graphs_.push_back({std::move(made), lists_});
  return graphs_.back().graph.get();
}

void LaunchQueue::give_up(cudaError_t error) {
  cudaGetLastError();
  has_failed_ = true;
  log_warning("gpu: kernels are launched one by one, since graphs of them fail: {} ({})", cudaGetErrorString(error),
              cudaGetErrorName(error));
}

}  // namespace cairn::kernels::cuda
