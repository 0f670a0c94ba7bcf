#include "hub/remote_files.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "base/log.h"
#include "base/text/bytes_text.h"
#include "base/text/json.h"
#include "base/text/printable.h"
#include "gguf/model_folder.h"
#include "gguf/split.h"

namespace cairn::hub {
namespace {

using nlohmann::ordered_json;

constexpr size_t kShaDigits = 64;
constexpr std::string_view kShaPrefix = "sha256:";
constexpr std::string_view kLayerPrefix = "application/vnd.ollama.image.";
constexpr size_t kListedMax = 24;  // quantisations or files that an error names

/// Best first. What is not in it comes behind it.
constexpr auto kOrder = std::to_array<std::string_view>(
    {"Q8_0",  "Q6_K",  "Q5_K_M", "Q5_K_S", "Q4_K_M",  "Q4_K_S", "IQ4_NL", "IQ4_XS", "Q4_0",   "Q3_K_L", "Q3_K_M",
     "IQ3_M", "IQ3_S", "Q3_K_S", "IQ3_XS", "IQ3_XXS", "Q2_K",   "IQ2_M",  "IQ2_S",  "IQ2_XS", "IQ2_XXS"});
constexpr size_t kMixtureRank = kOrder.size();
constexpr size_t kFloatRank = kMixtureRank + 1;

size_t rank_of(std::string_view label) {
  const auto found = std::ranges::find(kOrder, label);
  if (found != kOrder.end()) return static_cast<size_t>(found - kOrder.begin());
  const bool is_float =
      label.ends_with("F16") || label.ends_with("F32") || label.ends_with("FP16") || label.ends_with("FP32");
  return is_float ? kFloatRank : kMixtureRank;
}

bool is_sha256(std::string_view text) {
  return text.size() == kShaDigits &&
         std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

std::string_view text_of(const ordered_json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_string()) return {};
  return found->get_ref<const std::string&>();
}

std::optional<int64_t> bytes_of(const ordered_json& object) {
  const auto found = object.find("size");
  if (found == object.end() || !found->is_number_integer()) return std::nullopt;
  const auto bytes = found->get<int64_t>();
  if (bytes < 0 || bytes > kFileBytesMax) return std::nullopt;
  return bytes;
}

Result<ordered_json> read_answer(std::string_view json, std::string_view what) {
  auto read = read_json(json);
  if (read) return read;
  return fail(Code::kCorruptFile, "the hub's {} {} (it begins with \"{}\")", what, read.error().message,
              printable(json.substr(0, 40)));
}

/// A model of a repository: one file, or the parts of one.
struct Candidate {
  std::string label;
  std::vector<RemoteFile> files;
  uint32_t parts = 1;

  bool is_whole() const { return files.size() == parts; }
  int64_t bytes() const {
    int64_t sum = 0;
    for (const RemoteFile& file : files) sum += file.bytes;
    return sum;
  }
};

std::string upper_label(std::string_view tag) {
  std::string upper(tag);
  std::ranges::transform(upper, upper.begin(), [](unsigned char letter) { return std::toupper(letter); });
  return upper;
}

/// Words of names of files that belong to a model and are none by themselves; the last one may be of a model's own
/// name.
constexpr auto kBesideModels = std::to_array<std::string_view>(
    {"IMATRIX",      "LORA",        "LORAS",          "ADAPTER",        "ADAPTERS",  "MTP",
     "NEXTN",        "DFLASH",      "DSPARK",         "EAGLE",          "EAGLE2",    "EAGLE3",
     "SPECULATOR",   "SPECULATIVE", "DRAFT",          "DRAFTER",        "ASSISTANT", "MTPHEAD",
     "MM-PROJ",      "CLIP",        "VISION-ENCODER", "VISION_ENCODER", "VOCODER",   "TOKENIZER",
     "WAVTOKENIZER", "VOCAB",       "CONTROL-VECTOR", "CONTROL_VECTOR"});

/// Whether the path, in any case, has the word between separators.
bool has_word(std::string_view path, std::string_view word) {
  const std::string text = upper_label(path);
  constexpr std::string_view kSeparators = "-._/ ";
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    const bool begins = at == 0 || kSeparators.contains(text[at - 1]);
    if (begins && (end == text.size() || kSeparators.contains(text[end]))) return true;
  }
  return false;
}

std::vector<Candidate> candidates_of(std::span<const RemoteFile> files) {
  std::map<std::string, Candidate> by_stem;
  for (const RemoteFile& file : files) {
    if (gguf::is_projector(file.path)) continue;
    const auto split = gguf::split_name(file.path);
    Candidate& candidate = by_stem[split ? split->stem + "-of-" + std::to_string(split->parts) : file.path];
    candidate.label = gguf::quantisation_label(file.path);
    candidate.parts = split ? split->parts : 1;
    candidate.files.push_back(file);
  }
  std::vector<Candidate> candidates;
  for (auto& [stem, candidate] : by_stem) {
    std::ranges::sort(candidate.files, {}, &RemoteFile::path);
    candidates.push_back(std::move(candidate));
  }
  return candidates;
}

/// Whether the file is about as large as the models beside it: as one of its quantisation, or where there is none, as
/// the largest. Heads, adapters and the like are a small part of their model.
bool is_as_large_as_a_model(const Candidate& candidate, std::span<const Candidate> models) {
  int64_t same = 0, largest = 0;
  for (const Candidate& model : models) {
    largest = std::max(largest, model.bytes());
    if (model.label == candidate.label) same = std::max(same, model.bytes());
  }
  return candidate.bytes() > (same > 0 ? same : largest) / 2;
}

/// What is beside a model is had by its own name alone. A word that all files have, or one in the name of a file that
/// is as large as a model, is of the model's own name.
void drop_beside_models(std::vector<Candidate>& candidates) {
  for (const std::string_view word : kBesideModels) {
    const auto has = [&](const Candidate& candidate) { return has_word(candidate.files[0].path, word); };
    std::vector<Candidate> models;
    std::ranges::remove_copy_if(candidates, std::back_inserter(models), has);
    if (models.empty()) continue;
    std::erase_if(candidates, [&](const Candidate& candidate) {
      return has(candidate) && !is_as_large_as_a_model(candidate, models);
    });
  }
}

/// Without the split models that lack parts, where there are whole ones; `told` has a line for each that is left out.
void drop_incomplete(std::vector<Candidate>& candidates, std::vector<std::string>& told) {
  if (std::ranges::none_of(candidates, &Candidate::is_whole)) return;
  for (const Candidate& candidate : candidates)
    if (!candidate.is_whole() && told.size() < kListedMax)
      told.push_back(fmt::format("{} is left out: {} of its {} parts are there", printable(candidate.files[0].path),
                                 candidate.files.size(), candidate.parts));
  std::erase_if(candidates, [](const Candidate& candidate) { return !candidate.is_whole(); });
}

std::string list_labels(std::span<const Candidate> candidates) {
  std::set<std::string> labels;
  for (const Candidate& candidate : candidates)
    if (!candidate.label.empty() && labels.size() < kListedMax) labels.insert(candidate.label);
  std::string text;
  for (const std::string& label : labels) text += (text.empty() ? "" : ", ") + label;
  return text.empty() ? "no file whose name says one" : text;
}

std::string list_files(const ModelName& name, std::span<const Candidate> candidates) {
  std::string text;
  for (const Candidate& candidate : candidates.first(std::min(candidates.size(), kListedMax)))
    text += fmt::format("{}{}/{}/{}", text.empty() ? "" : ", ", name.owner, name.model, candidate.files[0].path);
  return printable(text, 2'000);
}

Result<Choice> chosen(Candidate candidate, std::string reason) {
  if (!candidate.is_whole()) {
    return fail(Code::kCorruptFile, "{} has {} of its {} parts; the hub's list lacks the others",
                printable(candidate.files[0].path), candidate.files.size(), candidate.parts);
  }
  return Choice{std::move(candidate.files), std::move(candidate.label), std::move(reason), {}};
}

Result<Choice> choose_by_file(const ModelName& name, std::vector<Candidate> candidates) {
  for (Candidate& candidate : candidates)
    for (const RemoteFile& file : candidate.files)
      if (file.path == name.file) return chosen(std::move(candidate), "");
  return fail(Code::kNotFound, "{}/{} has no file {}; it has {}", name.owner, name.model, printable(name.file),
              list_files(name, candidates));
}

/// Whether the file's name ends in the tag, a word of its own: "i1-Q4_K_M" of "M.i1-Q4_K_M.gguf".
bool ends_in_tag(std::string_view path, std::string_view tag) {
  const auto split = gguf::split_name(std::string(path));
  std::string stem = upper_label(split ? split->stem : path.substr(0, path.rfind('.')));
  if (!stem.ends_with(tag)) return false;
  stem.resize(stem.size() - tag.size());
  return stem.empty() || std::string_view("-._/").contains(stem.back());
}

Result<Choice> choose_by_tag(const ModelName& name, std::vector<Candidate> candidates) {
  const std::string label = upper_label(name.tag);
  // "mtp-Q8_0" says which part it means.
  if (!is_beside_models(name.tag)) drop_beside_models(candidates);
  const auto matching = [&](auto matches) {
    std::vector<Candidate> found;
    for (const Candidate& candidate : candidates)
      if (matches(candidate)) found.push_back(candidate);
    return found;
  };
  std::vector<Candidate> found = matching([&](const Candidate& other) { return other.label == label; });
  if (found.empty()) found = matching([&](const Candidate& other) { return other.label == "UD-" + label; });
  if (found.empty()) found = matching([&](const Candidate& other) { return ends_in_tag(other.files[0].path, label); });
  if (found.empty())
    return fail(Code::kNotFound, "{}/{} has no {}; it has {}", name.owner, name.model, printable(name.tag),
                list_labels(candidates));
  std::vector<std::string> left_out;
  drop_incomplete(found, left_out);
  if (found.size() > 1)
    return fail(Code::kInvalidArgument, "{}/{} has several files of {}; say which one: {}", name.owner, name.model,
                label, list_files(name, found));
  CAIRN_TRY(Choice choice, chosen(std::move(found[0]), ""));
  choice.left_out = std::move(left_out);
  return choice;
}

Result<Choice> choose_by_memory(const ModelName& name, std::vector<Candidate> candidates, int64_t memory_bytes) {
  std::ranges::sort(candidates, {}, [](const Candidate& candidate) {
    return std::tuple(rank_of(candidate.label), -candidate.bytes(), candidate.files[0].path);
  });
  const std::string of = fmt::format("of {} in {}/{}", candidates.size(), name.owner, name.model);
  const auto shown = [](const Candidate& candidate) {
    return candidate.label.empty() ? candidate.files[0].path : candidate.label;
  };
  for (Candidate& candidate : candidates) {
    if (candidate.bytes() > memory_bytes / 2) continue;
    std::string reason = fmt::format(
        "{} ({}) is taken {}: the best that takes at most half of the {} of memory here; say another one behind a "
        "colon, {}/{}:Q4_K_M",
        shown(candidate), bytes_text(candidate.bytes()), of, bytes_text(memory_bytes), name.owner, name.model);
    return chosen(std::move(candidate), std::move(reason));
  }
  Candidate& smallest = *std::ranges::min_element(candidates, {}, &Candidate::bytes);
  if (smallest.bytes() <= memory_bytes) {
    std::string reason = fmt::format("{} ({}) is taken {}: the smallest, with more than half of the {} of memory here",
                                     shown(smallest), bytes_text(smallest.bytes()), of, bytes_text(memory_bytes));
    return chosen(std::move(smallest), std::move(reason));
  }
  return fail(Code::kOutOfMemory,
              "none {} fits into the {} of memory here: the smallest, {}, takes {}; to get one all the same, say it: "
              "{}/{}:{}",
              of, bytes_text(memory_bytes), printable(shown(smallest)), bytes_text(smallest.bytes()), name.owner,
              name.model, printable(smallest.label.empty() ? "QUANTISATION" : smallest.label));
}

}  // namespace

Result<std::vector<RemoteFile>> read_file_list(std::string_view json) {
  CAIRN_TRY(const ordered_json list, read_answer(json, "list of files"));
  if (!list.is_array()) return fail(Code::kCorruptFile, "the hub's list of files is no JSON array");
  std::vector<RemoteFile> files;
  size_t odd = 0;
  for (const ordered_json& entry : list) {
    if (!entry.is_object() || text_of(entry, "type") != "file") continue;
    const std::string_view path = text_of(entry, "path");
    if (!gguf::is_gguf_name(path)) continue;
    if (!is_safe_path(path)) {
      if (++odd <= kListedMax) log_info("the hub lists a file \"{}\", whose name is not taken", printable(path));
      continue;
    }
    const auto lfs = entry.find("lfs");
    const bool large = lfs != entry.end() && lfs->is_object();
    const std::optional<int64_t> bytes = bytes_of(large ? *lfs : entry);
    if (!bytes) {
      if (++odd <= kListedMax)
        log_info("the hub lists a file \"{}\" without a size, which is not taken", printable(path));
      continue;
    }
    const std::string_view sha256 = large ? text_of(*lfs, "oid") : std::string_view();
    files.push_back({std::string(path), *bytes, is_sha256(sha256) ? std::string(sha256) : std::string()});
  }
  return files;
}

Result<OllamaManifest> read_manifest(std::string_view json) {
  CAIRN_TRY(const ordered_json document, read_answer(json, "manifest"));
  const auto layers = document.is_object() ? document.find("layers") : document.end();
  if (!document.is_object() || layers == document.end() || !layers->is_array())
    return fail(Code::kCorruptFile, "the registry's manifest has no layers");
  OllamaManifest manifest;
  int models = 0;
  for (const ordered_json& layer : *layers) {
    if (!layer.is_object()) continue;
    std::string_view kind = text_of(layer, "mediaType");
    if (!kind.starts_with(kLayerPrefix)) continue;
    kind.remove_prefix(kLayerPrefix.size());
    if (kind != "model") {
      if (kind == "tensor" || kind.starts_with("tensor;"))
        return fail(Code::kUnsupported, "the model is a set of tensors, and no GGUF file");
      if (manifest.other.size() < kListedMax) manifest.other.push_back(printable(kind));
      continue;
    }
    const std::string_view digest = text_of(layer, "digest");
    const std::optional<int64_t> bytes = bytes_of(layer);
    if (!digest.starts_with(kShaPrefix) || !is_sha256(digest.substr(kShaPrefix.size())) || !bytes)
      return fail(Code::kCorruptFile, "the registry's manifest has a model without a SHA-256 or a size");
    manifest.model = {std::string(digest), *bytes, std::string(digest.substr(kShaPrefix.size()))};
    ++models;
  }
  if (models != 1)
    return fail(Code::kUnsupported, "the registry's manifest names {} GGUF files; models of one are taken", models);
  return manifest;
}

bool is_beside_models(std::string_view path) {
  return std::ranges::any_of(kBesideModels, [&](std::string_view word) { return has_word(path, word); });
}

int64_t Choice::bytes() const {
  int64_t sum = 0;
  for (const RemoteFile& file : files) sum += file.bytes;
  return sum;
}

Result<Choice> choose_files(const ModelName& name, std::span<const RemoteFile> files, int64_t memory_bytes) {
  std::vector<Candidate> candidates = candidates_of(files);
  if (candidates.empty())
    return fail(Code::kNotFound, "{}/{} has no GGUF file; such repositories often have GGUF in their names", name.owner,
                name.model);
  if (!name.file.empty()) {
    if (!gguf::is_projector(name.file)) return choose_by_file(name, std::move(candidates));
    for (const RemoteFile& file : files)
      if (file.path == name.file) return Choice{{file}, gguf::quantisation_label(file.path), "", {}};
    return choose_by_file(name, std::move(candidates));
  }
  if (!name.tag.empty()) return choose_by_tag(name, std::move(candidates));
  drop_beside_models(candidates);
  std::vector<std::string> left_out;
  drop_incomplete(candidates, left_out);
  CAIRN_TRY(Choice choice, candidates.size() == 1 ? chosen(std::move(candidates[0]), "")
                                                  : choose_by_memory(name, std::move(candidates), memory_bytes));
  choice.left_out = std::move(left_out);
  return choice;
}

std::vector<RemoteFile> projector_of(std::span<const RemoteFile> files) {
  const RemoteFile* best = nullptr;
  const auto order = [](const RemoteFile& file) {
    return std::tuple(gguf::quantisation_label(file.path) != "F16", file.bytes, file.path);
  };
  for (const RemoteFile& file : files)
    if (gguf::is_projector(file.path) && (best == nullptr || order(file) < order(*best))) best = &file;
  return best == nullptr ? std::vector<RemoteFile>() : std::vector<RemoteFile>{*best};
}

}  // namespace cairn::hub
