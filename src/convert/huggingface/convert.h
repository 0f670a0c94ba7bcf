/// Makes a GGUF file of a folder in Hugging Face's form: config.json, safetensors, tokenizer.
///
/// Memory does not depend on the size of the model: weights are read from mapped files, a part of a tensor at a time,
/// and what was read is given back. The new file appears under its name when it is complete.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "convert/quantize.h"

namespace cairn::convert {

struct ConvertProgress {
  std::string_view tensor;
  int64_t tensor_index = 0;  ///< from 0
  int64_t tensors = 0;
  int64_t bytes_done = 0;  ///< of the new tensors
  int64_t bytes_total = 0;
};

struct ConvertOptions {
  /// The types of weights; none: those of the checkpoint, so that nothing is lost (FP8 becomes BF16).
  std::optional<QuantizeMix> mix = {};
  std::string name = {};           ///< general.name; empty: the folder's
  std::string pre_tokenizer = {};  ///< tokenizer.ggml.pre; empty: it is found out
  /// Bytes of tensors that a file has at most; more become NAME-00001-of-00003.gguf and so on. 0: one file.
  int64_t split_bytes = 0;
  int threads = 0;  ///< 0: one per usable core
  /// Called on the caller's thread after each part of a tensor is written; may be empty.
  std::function<void(const ConvertProgress&)> progress = {};
};

struct ConvertReport {
  std::string architecture;
  QuantizeMix mix = QuantizeMix::kF16;
  int64_t tensors = 0;
  int64_t elements = 0;
  int64_t bytes = 0;                         ///< of tensors
  int64_t left_out = 0;                      ///< tensors of the checkpoint for vision, audio and such
  std::vector<std::filesystem::path> files;  ///< written, in order
  double bits_per_weight() const {
    return elements == 0 ? 0.0 : 8.0 * static_cast<double>(bytes) / static_cast<double>(elements);
  }
};

/// Converts a model. Errors: kNotFound (a file of the folder), kUnsupported (a class of models, a tokenizer or a type
/// of weights that is not known; each is named), kCorruptFile (files that contradict each other; with tensor and what
/// is expected), kInvalidArgument, kIo.
Result<ConvertReport> convert_folder(const std::filesystem::path& folder, const std::filesystem::path& out,
                                     const ConvertOptions& options);

/// Whether the folder has a LoRA adapter in the form of PEFT: adapter_config.json.
bool is_adapter_folder(const std::filesystem::path& folder);
/// Converts an adapter. `base`: the folder of the model that it changes, of which only config.json is read. Types of
/// `options` that are no floats become F32. Errors: those of convert_folder.
Result<ConvertReport> convert_adapter(const std::filesystem::path& folder, const std::filesystem::path& base,
                                      const std::filesystem::path& out, const ConvertOptions& options);

}  // namespace cairn::convert
