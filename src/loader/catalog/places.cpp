#include "loader/catalog/places.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>
#include <system_error>
#include <utility>

#include "base/text/json.h"
#include "base/text/utf8.h"
#include "gguf/model_folder.h"
#include "gguf/split.h"
#include "loader/catalog/description.h"

namespace cairn::loader {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kModelLayer = "application/vnd.ollama.image.model";
constexpr size_t kSha256Digits = 64;

/// The path of a variable that is set and not empty.
fs::path path_of(const char* variable) {
  const char* value = std::getenv(variable);
  return value == nullptr ? fs::path() : fs::path(value);
}
fs::path home_path(std::string_view below) {
  const fs::path home = path_of("HOME");
  return home.empty() ? fs::path() : home / below;
}
fs::path xdg_path(const char* variable, std::string_view usual) {
  const fs::path set = path_of(variable);
  return set.is_absolute() ? set : home_path(usual);
}

std::string as_text(const fs::path& path) { return utf8_replace_invalid(path.string()); }

/// Whether a file's name is that of a model, or of a split one's first part.
bool is_model_name(const fs::path& path) {
  const std::string name = path.filename().string();
  const auto split = gguf::split_name(name);
  return gguf::is_gguf_name(path.native()) && !gguf::is_projector(name) && (!split || split->part == 1);
}

std::vector<std::string> parts_below(const fs::path& folder, const fs::path& path) {
  std::vector<std::string> parts;
  for (const fs::path& part : path.lexically_relative(folder)) parts.push_back(as_text(part));
  return parts;
}

void set_names(FoundFile& file, std::string name, std::string longer_name) {
  file.name = std::move(name);
  file.longer_name = std::move(longer_name);
  // Unsloth's mixtures have a name with this in it, whose prefix `cairn pull` does not need either.
  constexpr std::string_view kDynamic = ":UD-";
  if (const size_t at = file.name.find(kDynamic); at != std::string::npos)
    file.other_name = std::string(file.name).erase(at + 1, kDynamic.size() - 1);
}

/// `parts`: the path in the repository.
void name_as_hub(const std::string& repository, std::span<const std::string> parts, FoundFile& file) {
  const std::string inside = fmt::format("{}", fmt::join(parts, "/"));
  set_names(file, gguf::hub_name(repository, inside), repository + "/" + inside);
}

void name_file(const ModelPlace& place, FoundFile& file) {
  const fs::path relative = file.path.lexically_relative(place.folder);
  const std::vector<std::string> parts = parts_below(place.folder, file.path);
  if (place.source == ModelSource::kLmStudio && parts.size() >= 3)
    return name_as_hub(parts[0] + "/" + parts[1], std::span(parts).subspan(2), file);
  const auto pulled = place.source == ModelSource::kOwn ? gguf::pulled_name(relative) : std::nullopt;
  if (pulled)
    return set_names(file, utf8_replace_invalid(*pulled), as_text(relative.lexically_relative(*relative.begin())));
  const std::string name = model_name_of(file.path);
  const bool flat = place.source == ModelSource::kLlamaCpp;
  set_names(file, name,
            flat ? fmt::format("{}/{}", source_name(place.source), name)
                 : as_text(fs::path(relative).replace_filename(name)));
}

/// All files below a folder that `wanted` takes.
std::vector<fs::path> files_below(const fs::path& folder, bool (*wanted)(const fs::path&),
                                  std::vector<SkippedFile>& skipped) {
  std::vector<fs::path> files;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, fs::directory_options::skip_permission_denied, error);
  if (error && error != std::errc::no_such_file_or_directory && error != std::errc::not_a_directory)
    skipped.push_back({folder, error.message()});
  size_t seen = 0;
  while (!error && entry != fs::recursive_directory_iterator()) {
    if (++seen > kPlaceEntriesMax) {
      skipped.push_back(
          {folder, fmt::format("has more than {} files; the others are not looked at", kPlaceEntriesMax)});
      break;
    }
    std::error_code unreadable;
    if (entry.depth() >= kFolderDepthMax) entry.disable_recursion_pending();
    if (wanted(entry->path()) && entry->is_regular_file(unreadable)) files.push_back(entry->path());
    if (wanted(entry->path()) && unreadable && unreadable != std::errc::no_such_file_or_directory)
      skipped.push_back({entry->path(), unreadable.message()});
    entry.increment(error);
  }
  std::ranges::sort(files);
  return files;
}

std::string read_text(const fs::path& path, size_t bytes_max) {
  std::ifstream file(path, std::ios::binary);
  std::string text(bytes_max, '\0');
  file.read(text.data(), static_cast<std::streamsize>(bytes_max));
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

/// models--ORG--REPO/snapshots/REVISION/.../FILE.gguf, of the revision that refs/main names, or else of every one.
void find_in_hub(const ModelPlace& place, std::vector<FoundFile>& found, std::vector<SkippedFile>& skipped) {
  constexpr std::string_view kPrefix = "models--";
  std::vector<fs::path> repositories;
  std::error_code error;
  for (fs::directory_iterator entry(place.folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    if (entry->path().filename().string().starts_with(kPrefix)) repositories.push_back(entry->path());
  }
  std::ranges::sort(repositories);
  for (const fs::path& folder : repositories) {
    std::string repository = as_text(folder.filename()).substr(kPrefix.size());
    if (const size_t at = repository.find("--"); at != std::string::npos) repository.replace(at, 2, "/");
    std::string revision = read_text(folder / "refs" / "main", kSha256Digits);
    revision.erase(std::min(revision.find_first_not_of("0123456789abcdef"), revision.size()));
    const fs::path snapshots = folder / "snapshots";
    const bool main = !revision.empty() && fs::is_directory(snapshots / revision, error);
    for (const fs::path& path : files_below(main ? snapshots / revision : snapshots, is_model_name, skipped)) {
      FoundFile file{.path = path, .source = place.source};
      const std::vector<std::string> parts = parts_below(snapshots, path);
      name_as_hub(repository, std::span(parts).subspan(1), file);  // without the revision
      found.push_back(std::move(file));
    }
  }
}

/// The digest of the manifest's model layer. Errors say what is wrong.
Result<std::string> model_digest(const fs::path& manifest) {
  CAIRN_TRY(const nlohmann::ordered_json document, read_json(read_text(manifest, kManifestBytesMax)));
  const auto layers = document.find("layers");
  if (layers == document.end() || !layers->is_array()) return fail(Code::kCorruptFile, "has no layers");
  for (const auto& layer : *layers) {
    if (!layer.is_object() || layer.value("mediaType", nlohmann::ordered_json()) != kModelLayer) continue;
    const auto digest = layer.value("digest", nlohmann::ordered_json());
    constexpr std::string_view kSha256 = "sha256:";
    if (!digest.is_string()) break;
    std::string hex = digest.get<std::string>();
    if (!hex.starts_with(kSha256)) break;
    hex.erase(0, kSha256.size());
    if (hex.size() == kSha256Digits && hex.find_first_not_of("0123456789abcdef") == std::string::npos) return hex;
    break;
  }
  return fail(Code::kCorruptFile, "names no model by a SHA-256 digest");
}

/// manifests/HOST/OWNER/MODEL/TAG, each a JSON document that names a file in blobs/.
void find_in_ollama(const ModelPlace& place, std::vector<FoundFile>& found, std::vector<SkippedFile>& skipped) {
  const fs::path manifests = place.folder / "manifests";
  const auto any = [](const fs::path&) { return true; };
  for (const fs::path& path : files_below(manifests, any, skipped)) {
    const auto parts = parts_below(manifests, path);
    if (parts.size() != 4) continue;
    auto digest = model_digest(path);
    if (!digest) {
      skipped.push_back({path, "a manifest of Ollama's: " + digest.error().message});
      continue;
    }
    FoundFile file{.path = place.folder / "blobs" / ("sha256-" + *digest), .digest = *digest, .source = place.source};
    file.name = file.longer_name = gguf::ollama_name(parts[0], parts[1], parts[2], parts[3]);
    found.push_back(std::move(file));
  }
}

}  // namespace

std::string_view source_name(ModelSource source) {
  switch (source) {
    case ModelSource::kGiven:
      return "given";
    case ModelSource::kOwn:
      return "cairn";
    case ModelSource::kHuggingFace:
      return "huggingface";
    case ModelSource::kLlamaCpp:
      return "llama.cpp";
    case ModelSource::kOllama:
      return "ollama";
    case ModelSource::kLmStudio:
      return "lmstudio";
  }
  return "";
}

fs::path default_models_folder() { return gguf::default_models_folder().value_or(fs::path()); }

fs::path default_cache_folder() {
  const fs::path cache = xdg_path("XDG_CACHE_HOME", ".cache");
  return cache.empty() ? cache : cache / "cairn";
}

std::vector<ModelPlace> foreign_places() {
  const fs::path cache = xdg_path("XDG_CACHE_HOME", ".cache");
  const auto or_else = [](fs::path path, const fs::path& other) { return path.empty() ? other : path; };
  const fs::path hub_home = or_else(path_of("HF_HOME"), cache.empty() ? cache : cache / "huggingface");
  std::vector<ModelPlace> places = {
      {ModelSource::kHuggingFace, or_else(path_of("HF_HUB_CACHE"), hub_home.empty() ? hub_home : hub_home / "hub")},
      {ModelSource::kLlamaCpp, or_else(path_of("LLAMA_CACHE"), cache.empty() ? cache : cache / "llama.cpp")},
      {ModelSource::kLmStudio, home_path(".lmstudio/models")},
      {ModelSource::kLmStudio, home_path(".cache/lm-studio/models")},
  };
  if (const fs::path set = path_of("OLLAMA_MODELS"); !set.empty()) {
    places.push_back({ModelSource::kOllama, set});
  } else {
    places.push_back({ModelSource::kOllama, home_path(".ollama/models")});
    places.push_back({ModelSource::kOllama, "/usr/share/ollama/.ollama/models"});
  }
  std::erase_if(places, [](const ModelPlace& place) { return place.folder.empty(); });
  return places;
}

void find_files(const ModelPlace& place, std::vector<FoundFile>& found, std::vector<SkippedFile>& skipped) {
  if (place.source == ModelSource::kHuggingFace) return find_in_hub(place, found, skipped);
  if (place.source == ModelSource::kOllama) return find_in_ollama(place, found, skipped);
  for (const fs::path& path : files_below(place.folder, is_model_name, skipped)) {
    FoundFile file{.path = path, .source = place.source};
    name_file(place, file);
    found.push_back(std::move(file));
  }
}

}  // namespace cairn::loader
