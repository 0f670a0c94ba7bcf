/// The folder of models that `cairn pull` fills: where a model lies there, and what it is called. Names follow from
/// paths, so that nothing else has to be kept.
///
///     huggingface.co/ORG/REPO/FILE.gguf           ORG/REPO:Q4_K_M, or ORG/REPO/FILE.gguf without a quantisation
///     registry.ollama.ai/NAMESPACE/MODEL/TAG.gguf MODEL:TAG of the namespace `library`, else NAMESPACE/MODEL:TAG
///
/// A file that is not complete ends in kPartSuffix.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace cairn::gguf {

inline constexpr std::string_view kHuggingFaceFolder = "huggingface.co";
inline constexpr std::string_view kOllamaFolder = "registry.ollama.ai";
/// The namespace that Ollama's names leave out, and the tag.
inline constexpr std::string_view kOllamaLibrary = "library";
inline constexpr std::string_view kOllamaTag = "latest";
inline constexpr std::string_view kPartSuffix = ".part";

/// $XDG_DATA_HOME/cairn/models, else ~/.local/share/cairn/models. Error: kNotFound where neither variable is set.
Result<std::filesystem::path> default_models_folder();

/// The quantisation that a file's name says, in upper case: "Q4_K_M" of "qwen3-4b-q4_k_m.gguf", "UD-Q4_K_XL",
/// "BF16"; empty if it says none. `file_name` may have folders before it, and be a part of a split set.
std::string quantisation_label(std::string_view file_name);
/// Whether the text, in any case, is such a label.
bool is_quantisation_label(std::string_view text);
/// Whether a file's name is that of a vision projector ("mmproj"), which is no model.
bool is_projector(std::string_view file_name);

/// A file of one of Hugging Face's repositories: ORG/REPO:Q4_K_M, or ORG/REPO/FILE.gguf without a quantisation.
/// `file`: its path there, with slashes.
std::string hub_name(std::string_view repository, std::string_view file);
/// A model of a registry of Ollama's, as its clients write it: the host kOllamaFolder and the namespace kOllamaLibrary
/// are left out.
std::string ollama_name(std::string_view host, std::string_view name_space, std::string_view model,
                        std::string_view tag);
/// The name by which the model at `relative` to the folder is asked for; nullopt if the path has neither form above.
std::optional<std::string> pulled_name(const std::filesystem::path& relative);

}  // namespace cairn::gguf
