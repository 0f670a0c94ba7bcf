/// Orders of eviction: by value, or by last use. Both name nodes by number and allocate at creation only.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/check.h"

namespace cairn::cache {

/// A binary heap whose first element is the node of the smallest value; of equal ones, the smallest number.
class ValueHeap {
 public:
  explicit ValueHeap(int32_t nodes_max) : places_(nodes_max, -1) { heap_.reserve(nodes_max); }
  static int64_t bytes(int64_t nodes_max) {
    return nodes_max * static_cast<int64_t>(sizeof(std::pair<double, int32_t>) + sizeof(int32_t));
  }

  bool empty() const { return heap_.empty(); }
  bool contains(int32_t node) const { return places_[node] >= 0; }
  int32_t first() const { return heap_.front().second; }
  double first_value() const { return heap_.front().first; }

  /// Adds a node or changes its value.
  void put(int32_t node, double value) {
    if (!contains(node)) {
      places_[node] = static_cast<int32_t>(heap_.size());
      heap_.emplace_back(value, node);
    }
    heap_[places_[node]].first = value;
    settle(places_[node]);
  }
  void remove(int32_t node) {
    const int32_t place = places_[node];
    if (place < 0) return;
    swap(place, static_cast<int32_t>(heap_.size()) - 1);
    heap_.pop_back();
    places_[node] = -1;
    if (place < static_cast<int32_t>(heap_.size())) settle(place);
  }

 private:
  void swap(int32_t a, int32_t b) {
    std::swap(heap_[a], heap_[b]);
    places_[heap_[a].second] = a;
    places_[heap_[b].second] = b;
  }
  void settle(int32_t place) {
    for (; place > 0 && heap_[place] < heap_[(place - 1) / 2]; place = (place - 1) / 2) swap(place, (place - 1) / 2);
    const auto size = static_cast<int32_t>(heap_.size());
    while (2 * place + 1 < size) {
      int32_t child = 2 * place + 1;
      if (child + 1 < size && heap_[child + 1] < heap_[child]) ++child;
      if (!(heap_[child] < heap_[place])) return;
      swap(place, child);
      place = child;
    }
  }

  std::vector<std::pair<double, int32_t>> heap_;
  std::vector<int32_t> places_;  // position of each node in heap_, or -1
};

/// A list of nodes in order of use, the least recently used first. No node is in it twice.
class UseList {
 public:
  explicit UseList(int32_t nodes_max) : links_(nodes_max + 1) { links_[end()] = {end(), end()}; }
  static int64_t bytes(int64_t nodes_max) { return (nodes_max + 1) * static_cast<int64_t>(sizeof(Link)); }

  int32_t size() const { return size_; }
  int32_t first() const { return links_[end()].next; }
  void push_back(int32_t node) {
    CAIRN_DCHECK(node < end());
    const int32_t last = links_[end()].previous;
    links_[node] = {last, end()};
    links_[last].next = node;
    links_[end()].previous = node;
    ++size_;
  }
  void remove(int32_t node) {
    links_[links_[node].previous].next = links_[node].next;
    links_[links_[node].next].previous = links_[node].previous;
    --size_;
  }
  void to_back(int32_t node) {
    remove(node);
    push_back(node);
  }

 private:
  struct Link {
    int32_t previous = 0;
    int32_t next = 0;
  };
  int32_t end() const { return static_cast<int32_t>(links_.size()) - 1; }  // a link of no node, which closes the ring

  std::vector<Link> links_;
  int32_t size_ = 0;
};

}  // namespace cairn::cache
