/// Which files of a hub are a model: the readers of what hubs answer, and the choice of a quantisation.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "hub/model_name.h"

namespace cairn::hub {

inline constexpr size_t kAnswerBytesMax = 16 << 20;  ///< of a manifest, or of a page of a list of files
inline constexpr size_t kFilesMax = 16'384;          ///< of a repository
inline constexpr int kPagesMax = 64;                 ///< of its list
inline constexpr int64_t kFileBytesMax = 1ll << 46;  ///< 64 TiB

/// A file of a hub.
struct RemoteFile {
  std::string path;  ///< in the repository
  int64_t bytes = 0;
  std::string sha256;  ///< 64 hexadecimal digits; empty: the hub does not say
};

/// Reads GET /api/models/ORG/REPO/tree/main: files that end in .gguf. Errors: kCorruptFile.
Result<std::vector<RemoteFile>> read_file_list(std::string_view json);

/// The manifest of a model in Ollama's registry.
struct OllamaManifest {
  RemoteFile model;                ///< path: the digest, "sha256:..."
  std::vector<std::string> other;  ///< kinds of layers that Cairn does not use: "system", "params", ...
};
/// Errors: kCorruptFile; kUnsupported for a model that is no single GGUF file.
Result<OllamaManifest> read_manifest(std::string_view json);

/// What is fetched of a repository.
struct Choice {
  std::vector<RemoteFile> files;      ///< one, or all parts in order
  std::string quantisation;           ///< of the file's name; may be empty
  std::string reason;                 ///< a line that says what was taken and why; empty if the name said it
  std::vector<std::string> left_out;  ///< a line for each split model that lacks parts and could have been meant
  int64_t bytes() const;
};

/// Whether the file's name says that it belongs to a model and is none by itself: a drafting head, an assistant, an
/// adapter, an importance matrix.
bool is_beside_models(std::string_view path);

/// Chooses by the name's file or tag. Without either, the first of the order that takes at most half of
/// `memory_bytes`: Q8_0, Q6_K, Q5_K_M, Q5_K_S, Q4_K_M, Q4_K_S, IQ4_NL, IQ4_XS, Q4_0, then smaller ones, then mixtures
/// of other names from large to small, then floats; if none does, the smallest if it fits at all. Errors: kNotFound,
/// which lists what there is; kInvalidArgument where several files match; kOutOfMemory; kCorruptFile for a split set
/// that is not complete, where no whole file could be meant.
Result<Choice> choose_files(const ModelName& name, std::span<const RemoteFile> files, int64_t memory_bytes);
/// The vision projector that belongs to it: F16 before others, the smallest first; empty if there is none.
std::vector<RemoteFile> projector_of(std::span<const RemoteFile> files);

}  // namespace cairn::hub
