/// What a model is called that can be fetched from a hub.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/error.h"

namespace cairn::hub {

enum class Hub { kHuggingFace, kOllama };

/// Names have from one to three parts: `MODEL[:TAG]` is Ollama's; `A/B` and `A/B:QUANTISATION` are Hugging Face's
/// repositories, `A/B:TAG` with any other tag is Ollama's; `A/B/FILE.gguf` is a file of a repository. A host before it
/// (huggingface.co, hf.co; registry.ollama.ai, ollama.com) settles which hub is meant, with https:// as well.
struct ModelName {
  Hub hub = Hub::kHuggingFace;
  std::string owner;  ///< organisation or user; Ollama's namespace
  std::string model;  ///< repository; Ollama's model
  std::string tag;    ///< quantisation, empty: the best that fits; Ollama's tag, never empty
  std::string file;   ///< path in the repository; empty: chosen by the tag

  /// With the host, so that no other model can be meant.
  std::string text() const;
  /// Where its files lie, relative to the models folder: see gguf/model_folder.h.
  std::filesystem::path folder() const;
};

/// Errors: kInvalidArgument, which says which forms there are.
Result<ModelName> parse_model_name(std::string_view text);

/// Whether `path` may be joined to a folder: parts that are no "." or "..", do not begin with a dot and have neither
/// control characters nor backslashes.
bool is_safe_path(std::string_view path);

}  // namespace cairn::hub
