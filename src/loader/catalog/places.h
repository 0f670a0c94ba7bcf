/// Where model files lie on this machine, and what they are called there.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::loader {

/// Whose folder a model's file lies in.
enum class ModelSource { kGiven, kOwn, kHuggingFace, kLlamaCpp, kOllama, kLmStudio };
/// "given", "cairn", "huggingface", "llama.cpp", "ollama", "lmstudio".
std::string_view source_name(ModelSource source);

/// Folders below a place that are looked into, and files and folders of one place.
inline constexpr int kFolderDepthMax = 8;
inline constexpr size_t kPlaceEntriesMax = 100'000;
/// Bytes of a manifest of Ollama's.
inline constexpr size_t kManifestBytesMax = 1 << 20;

struct ModelPlace {
  ModelSource source = ModelSource::kOwn;
  std::filesystem::path folder;
};

/// $XDG_DATA_HOME/cairn/models, or else ~/.local/share/cairn/models.
std::filesystem::path default_models_folder();
/// The folders of other programs, as their own variables say: HF_HUB_CACHE, HF_HOME, LLAMA_CACHE, OLLAMA_MODELS. They
/// need not exist.
std::vector<ModelPlace> foreign_places();
/// $XDG_CACHE_HOME/cairn, or else ~/.cache/cairn.
std::filesystem::path default_cache_folder();

/// A file that may be a model.
struct FoundFile {
  std::filesystem::path path;  ///< of a split model: the first part
  std::string name{};
  std::string longer_name{};  ///< if another one has the name
  std::string other_name{};   ///< an alias, unless another one has it; may be empty
  std::string digest{};       ///< SHA-256 in hex, where the place says it; else empty
  ModelSource source = ModelSource::kOwn;
};

/// What cannot be used and why.
struct SkippedFile {
  std::filesystem::path path;
  std::string reason;
};

/// Appends the files of a place, sorted by path; what cannot be read goes to `skipped`. A folder that does not exist
/// has none.
void find_files(const ModelPlace& place, std::vector<FoundFile>& found, std::vector<SkippedFile>& skipped);

}  // namespace cairn::loader
