#include <algorithm>
#include <string>

#include "base/hash.h"
#include "grammar/regex/regex.h"
#include "grammar/regex/regex_nodes.h"

namespace cairn::grammar {

// The fingerprint of a node whose children have theirs.
RegexFingerprint RegexPool::Nodes::compute_fingerprint(uint32_t id) {
  const RegexNode& node = at(id);
  std::vector<uint64_t> data{static_cast<uint64_t>(node.kind)};
  const auto add = [&](uint32_t child) {
    data.insert(data.end(), fingerprints[child].begin(), fingerprints[child].end());
  };
  switch (node.kind) {
    case RegexKind::kBytes:
      data.insert(data.end(), sets[node.first].words().begin(), sets[node.first].words().end());
      break;
    case RegexKind::kSequence:
      add(node.first);
      add(node.second);
      break;
    case RegexKind::kAnyOf:
    case RegexKind::kAllOf: {
      std::vector<RegexFingerprint> parts;
      for (uint32_t child : list(id)) parts.push_back(fingerprints[child]);
      std::ranges::sort(parts);  // ids differ between pools
      for (const RegexFingerprint& child : parts) data.insert(data.end(), child.begin(), child.end());
      break;
    }
    case RegexKind::kComplement:
      add(node.first);
      break;
    case RegexKind::kRepeat:
      add(node.first);
      data.push_back(uint64_t{node.second} << 32 | node.most);
      break;
    case RegexKind::kAutomaton:
      data.insert(data.end(), {node.second, automata[node.first].hash});
      break;
    case RegexKind::kTexts:
      data.insert(data.end(), {node.second, trees[node.first]->hash()});
      break;
    default:
      break;
  }
  RegexFingerprint result{};
  for (uint64_t half = 0; half < result.size(); ++half) {
    data.front() = data.front() * 2 + half;
    result[half] = SecretHash()({reinterpret_cast<const char*>(data.data()), data.size() * sizeof(uint64_t)});
  }
  return result;
}

RegexFingerprint RegexPool::Nodes::fingerprint(uint32_t node) {
  fingerprints.resize(nodes.size());
  std::vector<uint32_t> open{node};
  while (!open.empty()) {
    const uint32_t current = open.back();
    if (fingerprints[current] != RegexFingerprint{}) {
      open.pop_back();
      continue;
    }
    const size_t before = open.size();
    const auto need = [&](uint32_t child) {
      if (fingerprints[child] == RegexFingerprint{}) open.push_back(child);
    };
    switch (at(current).kind) {
      case RegexKind::kSequence:
        need(at(current).first);
        need(at(current).second);
        break;
      case RegexKind::kAnyOf:
      case RegexKind::kAllOf:
        for (uint32_t child : list(current)) need(child);
        break;
      case RegexKind::kComplement:
      case RegexKind::kRepeat:
        need(at(current).first);
        break;
      default:
        break;
    }
    if (open.size() == before) fingerprints[current] = compute_fingerprint(current);
  }
  return fingerprints[node];
}

uint32_t RegexPool::Nodes::without_large_counts(uint32_t node, uint32_t bytes) {
  const RegexNode self = at(node);
  if (!self.has_counts || self.has_conditions) return node;
  switch (self.kind) {
    case RegexKind::kSequence: {
      std::vector<uint32_t> spine;
      uint32_t rest = node;
      for (; at(rest).kind == RegexKind::kSequence && at(rest).has_counts; rest = at(rest).second) {
        spine.push_back(without_large_counts(at(rest).first, bytes));
      }
      rest = without_large_counts(rest, bytes);
      for (size_t i = spine.size(); i-- > 0;) rest = sequence(spine[i], rest);
      return rest;
    }
    case RegexKind::kAnyOf: {
      std::vector<uint32_t> parts;
      for (uint32_t i = 0; i < self.second; ++i) parts.push_back(without_large_counts(children[self.first + i], bytes));
      return any_of(std::move(parts));
    }
    case RegexKind::kRepeat:
      return repeat(without_large_counts(self.first, bytes), std::min(self.second, bytes + 1),
                    self.most > bytes ? kNoBound : self.most);
    default:
      return node;
  }
}

uint32_t RegexPool::Nodes::without_far_bounds(uint32_t node, uint32_t bytes,
                                              std::unordered_map<uint32_t, uint32_t>& known) {
  const RegexNode self = at(node);
  if (!self.has_counts) return node;
  if (const auto found = known.find(node); found != known.end()) return found->second;
  uint32_t result = node;
  std::vector<uint32_t> parts;
  switch (self.kind) {
    case RegexKind::kSequence: {
      uint32_t rest = node;
      for (; at(rest).kind == RegexKind::kSequence && at(rest).has_counts; rest = at(rest).second) {
        parts.push_back(without_far_bounds(at(rest).first, bytes, known));
      }
      result = without_far_bounds(rest, bytes, known);
      for (size_t i = parts.size(); i-- > 0;) result = sequence(parts[i], result);
      break;
    }
    case RegexKind::kAnyOf:
    case RegexKind::kAllOf:
      for (uint32_t i = 0; i < self.second; ++i) {
        parts.push_back(without_far_bounds(children[self.first + i], bytes, known));
      }
      result = self.kind == RegexKind::kAnyOf ? any_of(std::move(parts)) : all_of(std::move(parts));
      break;
    case RegexKind::kRepeat: {
      const bool far =
          self.most != kNoBound && self.most > bytes / std::clamp<uint32_t>(text_bytes(self.first), 1, bytes);
      result = repeat(without_far_bounds(self.first, bytes, known), self.second, far ? kNoBound : self.most);
      break;
    }
    default:  // within a complement, more texts would be fewer
      break;
  }
  known.emplace(node, result);
  return result;
}

RegexId RegexPool::without_far_bounds(RegexId node, uint32_t bytes) {
  std::unordered_map<uint32_t, uint32_t> known;
  return RegexId{nodes_->without_far_bounds(static_cast<uint32_t>(node), bytes, known)};
}

uint32_t RegexPool::text_bytes(RegexId node) const { return nodes_->text_bytes(static_cast<uint32_t>(node)); }

RegexFingerprint RegexPool::fingerprint(RegexId node) { return nodes_->fingerprint(static_cast<uint32_t>(node)); }

RegexId RegexPool::without_large_counts(RegexId node, uint32_t bytes) {
  return RegexId{nodes_->without_large_counts(static_cast<uint32_t>(node), bytes)};
}

}  // namespace cairn::grammar
