/// A model file of DeepSeek V4.1's architecture with few small layers and random weights.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "gguf/writer.h"

namespace cairn::deepseek41 {

/// Where the drafting head is: nowhere, beside the model, or in a file of its own by the names of antirez/ds4 or of
/// llama.cpp. It has the same weights in all of them.
enum class Head { kNone, kBeside, kAlone, kDflash };

struct FileOptions {
  /// Names of numbers as in the model's config.json (antirez/ds4), not as llama.cpp has them.
  bool config_names = false;
  std::string architecture = "deepseek41";
  bool fp8_tables = false;     ///< tables of engrams as E4M3 with scales, not F32
  std::string left_out = {};   ///< a tensor that the file has not
  std::string misshapen = {};  ///< a tensor with a row too few
  Head head = Head::kNone;
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

/// Rows of a block of drafts, and tokens of every model.
inline constexpr int32_t kBlock = 4;
inline constexpr int32_t kVocabulary = 96;

/// What tests compare with the reference.
inline constexpr double kNmseMost = 1e-8;
inline constexpr int32_t kContextTokens = 256;

/// Any text of so many tokens.
std::vector<TokenId> text_of(size_t length, uint32_t seed = 7);

/// Sets an array of integers.
void set_integers(gguf::Writer& writer, const std::string& key, gguf::ValueType type,
                  const std::vector<uint64_t>& values);

}  // namespace cairn::deepseek41
