/// How much memory serving a model takes, from its file's metadata and tensors' shapes: the plans that loading it would
/// make on a machine that has enough.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gguf/reader.h"
#include "loader/memory_plan.h"

namespace cairn {

struct MemoryFlags {
  std::vector<int32_t> contexts;  ///< tokens; none: what the model was trained for
  std::string kv_type = "f16";
  int32_t sequences = MemoryWishes{}.sequences;
  int32_t sequences_max = MemoryWishes{}.sequences_running;
  int32_t threads = 0;
  int32_t drafts = 0;        ///< tokens drafted; above 0: with the model's block that does, if it has one
  std::string draft;         ///< file of such a block; empty: none of its own
  int64_t memory_bytes = 0;  ///< of the machine, free; 0: what this one has

  void add_to(CLI::App& command);
};

struct MemoryReport {
  int64_t file_weight_bytes = 0;
  std::string kv_type;
  std::string why_not;  ///< if the model would not load; then there are no plans
  /// For each context one conversation, and as many as were asked for.
  struct Entry {
    int32_t sequences = 1;
    MemoryPlan plan;
  };
  std::vector<Entry> entries;

  std::string text() const;
  nlohmann::ordered_json json() const;
};

MemoryReport report_memory(const gguf::Reader& file, const MemoryFlags& flags);

}  // namespace cairn
