/// A model file of DeepSeek V4.1's architecture with few small layers and random weights.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "gguf/writer.h"

namespace cairn::deepseek41 {

struct FileOptions {
  /// Names of numbers as in the model's config.json (antirez/ds4), not as llama.cpp has them.
  bool config_names = false;
  std::string architecture = "deepseek41";
  bool fp8_tables = false;                                         ///< tables of engrams as E4M3 with scales, not F32
  std::string left_out = {};                                       ///< a tensor that the file has not
  std::string misshapen = {};                                      ///< a tensor with a row too few
  bool drafting_head = false;                                      ///< a tensor of the head that drafts is there
  std::function<void(gguf::Writer&)> keys = [](gguf::Writer&) {};  ///< sets more metadata
};

/// The file is removed with the object.
class ModelFile {
 public:
  explicit ModelFile(const FileOptions& options = {});
  ~ModelFile() { std::filesystem::remove(path_); }
  ModelFile(const ModelFile&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Sets an array of integers.
void set_integers(gguf::Writer& writer, const std::string& key, gguf::ValueType type,
                  const std::vector<uint64_t>& values);

}  // namespace cairn::deepseek41
