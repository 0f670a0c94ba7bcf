/// What a GGUF file's header says of a model, known without reading its weights.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "gguf/reader.h"

namespace cairn::loader {

/// What a model is for, and what it is asked for when a request does not name it.
enum class ModelKind {
  kChat,       ///< it writes text, and has a chat template
  kText,       ///< it writes text, and has none: a base model
  kEmbedding,  ///< it gives vectors
  kReranking,  ///< it gives scores
};
/// "chat", "text", "embedding", "reranking".
std::string_view kind_name(ModelKind kind);
std::optional<ModelKind> kind_named(std::string_view name);
/// Whether a model of the kind answers what one of the asked kind is asked: whatever writes text answers chats.
bool answers(ModelKind kind, ModelKind asked);

struct ModelSummary {
  ModelKind kind = ModelKind::kChat;
  std::string architecture;
  std::string quantisation;
  int64_t parameters = 0;
  int64_t file_bytes = 0;      ///< of all parts
  int64_t context_tokens = 0;  ///< that it was trained for; 0: the file does not say
  int64_t vocabulary = 0;      ///< tokens
  int64_t width = 0;           ///< of an embedding
  int64_t memory_bytes = 0;    ///< that a catalog knows: conversation_bytes (loader/fit.h); 0: not known
  bool encoder = false;        ///< it gives vectors, and writes no text
  std::string title;           ///< general.name; may be empty
  std::string unusable;        ///< why it cannot be loaded; empty: nothing is known against it
};

/// Tells whether a file is still the one that was looked at.
struct FileState {
  uint64_t size = 0;
  int64_t modified_ns = 0;
  uint64_t inode = 0;

  FileState() = default;
  explicit FileState(const struct stat& status);
  /// nullopt: there is no such file, or it cannot be looked at.
  static std::optional<FileState> of(const std::filesystem::path& path);
  bool operator==(const FileState&) const = default;
};

/// nullopt: the file is no model but a part of one (a projector, an adapter, an MTP module).
std::optional<ModelSummary> describe_model(const gguf::Reader& file);

/// "Q4_K_M", "F16", ...: general.file_type, or the type of most bytes.
std::string quantisation_of(const gguf::Reader& file);

/// "dir/NAME.gguf" and "dir/NAME-00001-of-00003.gguf" -> "NAME", valid UTF-8.
std::string model_name_of(const std::filesystem::path& path);

}  // namespace cairn::loader
