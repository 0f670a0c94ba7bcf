/// LoRA adapters in GGUF files: for a tensor NAME of the model, NAME.lora_a [cols, rank] and NAME.lora_b [rank, rows]
/// (row length first), and adapter.lora.alpha. For the table of tokens [cols, rows], whose rows are looked up, lora_a
/// is turned, [rank, rows], and lora_b is [rank, cols].
///
/// Source: llama.cpp, convert_lora_to_gguf.py; alpha / rank scales the product, as in Hu et al. 2021.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "gguf/reader.h"

namespace cairn::model {

/// Adapters of one model at most.
inline constexpr int32_t kLoraAdaptersMax = 32;

struct LoraFile {
  std::string path;
  float scale = 1;
};

/// An open file. What is loaded of it is copied.
struct LoraAdapter {
  std::string path;
  float scale = 1;  ///< LoraFile's
  /// What products are scaled by besides, over their rank; 0, or none in the file: by the scale alone, as llama.cpp
  /// does.
  float alpha = 0;
  gguf::Reader file;

  /// The parts for a tensor of the model; null if the adapter leaves it alone.
  struct Parts {
    const gguf::Tensor* a = nullptr;
    const gguf::Tensor* b = nullptr;
  };
  /// Matrices per expert are a [cols, rank, experts] and b [rank, rows, experts], of which one may be without experts
  /// as all share it; b may have the rows of all experts in one dimension if they share `a`.
  /// Errors: kCorruptFile (one part is missing, or their shapes do not fit [cols, rows, experts]; named).
  Result<Parts> find(std::string_view tensor, int64_t cols, int64_t rows, int64_t experts) const;
  /// The same for a table [cols, rows]: a [rank, rows], b [rank, cols].
  Result<Parts> find_of_table(std::string_view tensor, int64_t cols, int64_t rows) const;

 private:
  Result<Parts> find_parts(std::string_view tensor) const;
};

/// Errors: those of the reader; kInvalidArgument (no adapter, or too many), kUnsupported (an adapter of another kind,
/// or of another architecture than `architecture`), kCorruptFile (an alpha that is no number).
Result<std::vector<LoraAdapter>> open_lora_adapters(std::span<const LoraFile> files, std::string_view architecture);

}  // namespace cairn::model
