/// How much memory serving a model takes, computed from its file's metadata and tensors' shapes: the plans that loading
/// it would make on a machine with enough memory.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gguf/reader.h"
#include "kernels/kv.h"
#include "loader/load_options.h"
#include "loader/memory_plan.h"

namespace cairn {

struct MemoryFlags {
  std::vector<int32_t> contexts;  ///< tokens; empty: the context of the model's training
  kernels::KvType kv_type = loader::LoadOptions{}.model.kv_type;
  int32_t sequences = loader::MemoryRequest{}.sequences;
  int32_t sequences_max = loader::MemoryRequest{}.sequences_running;
  int32_t threads = 0;
  int32_t drafts = 0;        ///< draft tokens; above 0: with the model's MTP module, if it has one
  std::string draft;         ///< file of such a module; empty: the model's own
  int64_t memory_bytes = 0;  ///< free memory of the machine; 0: that of this machine

  void add_to(CLI::App& command);
};

struct MemoryReport {
  int64_t file_weight_bytes = 0;
  int64_t bytes_read_per_token = 0;  ///< of the weights
  std::string kv_type;
  std::string why_not;  ///< set if the model would not load; then there are no plans
  /// For each context: a plan for one conversation, and one for the requested number.
  struct Entry {
    int32_t sequences = 1;
    loader::MemoryPlan plan;
  };
  std::vector<Entry> entries;

  std::string text() const;
  nlohmann::ordered_json json() const;
};

MemoryReport report_memory(const gguf::Reader& file, const MemoryFlags& flags);

}  // namespace cairn
