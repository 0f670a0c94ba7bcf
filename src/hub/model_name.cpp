#include "hub/model_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/text/printable.h"
#include "gguf/model_folder.h"
#include "gguf/split.h"
#include "net/http/percent.h"

namespace cairn::hub {
namespace {

constexpr size_t kNameBytesMax = 512;
constexpr size_t kWordBytesMax = 96;       // of an owner, a model or a tag
constexpr size_t kPathPartBytesMax = 240;  // with the suffix of unfinished files below what file systems take
constexpr std::string_view kForms =
    "a name is MODEL[:TAG] or NAMESPACE/MODEL:TAG of Ollama's registry, or ORG/REPO[:QUANTISATION] or "
    "ORG/REPO/FILE.gguf of Hugging Face";

std::unexpected<Error> no_name(std::string_view text, std::string_view why) {
  return fail(Code::kInvalidArgument, "\"{}\" is no model's name: {}; {}", printable(text), why, kForms);
}

bool is_word(std::string_view text) {
  return !text.empty() && text.size() <= kWordBytesMax && text.front() != '.' && text.front() != '-' &&
         text.find("..") == std::string_view::npos && std::ranges::all_of(text, [](unsigned char letter) {
           return std::isalnum(letter) != 0 || letter == '.' || letter == '_' || letter == '-';
         });
}

std::vector<std::string_view> split_at_slashes(std::string_view text) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('/', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

/// The prefix is in lower case; schemes and hosts may be written in any.
bool drop_prefix(std::string_view& text, std::string_view prefix) {
  const auto same = [](unsigned char letter, char lower) { return std::tolower(letter) == lower; };
  if (!std::ranges::equal(text.substr(0, prefix.size()), prefix, same)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

/// Which hub a host before the name says; the host is dropped.
std::optional<Hub> drop_host(std::string_view& text) {
  constexpr std::array<std::pair<std::string_view, Hub>, 4> kHosts = {{{"huggingface.co/", Hub::kHuggingFace},
                                                                       {"hf.co/", Hub::kHuggingFace},
                                                                       {"registry.ollama.ai/", Hub::kOllama},
                                                                       {"ollama.com/", Hub::kOllama}}};
  for (const auto& [host, hub] : kHosts)
    if (drop_prefix(text, host)) return hub;
  return std::nullopt;
}

/// What a page of a repository shows of a file, "?show_file_info=FILE.gguf"; empty: it shows all files.
std::string file_of_query(std::string_view query) {
  constexpr std::string_view kShown = "show_file_info=";
  const size_t begin = query.find(kShown);
  if (begin == std::string_view::npos) return {};
  query.remove_prefix(begin + kShown.size());
  return net::percent_decode(query.substr(0, query.find_first_of("&#"))).value_or(std::string());
}

/// ":TAG" behind the last '/'.
std::string drop_tag(std::string_view& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || text.find('/', colon) != std::string_view::npos) return {};
  std::string tag(text.substr(colon + 1));
  text = text.substr(0, colon);
  return tag;
}

bool is_page(std::string_view part) { return part == "resolve" || part == "blob" || part == "tree"; }

/// ORG/REPO/resolve/main/FILE and ORG/REPO/blob/main/FILE, as the hub's web pages have them, are ORG/REPO/FILE.
Result<std::string> file_of(std::string_view name, std::span<const std::string_view> parts) {
  if (is_page(parts[0])) {
    if (parts.size() < 3 || parts[1] != "main") return no_name(name, "only files of the branch main are fetched");
    parts = parts.subspan(2);
    if (is_page(parts[0])) return no_name(name, "folders of the names resolve, blob and tree are not taken");
  }
  const auto file = fmt::format("{}", fmt::join(parts, "/"));
  if (!is_safe_path(file)) return no_name(name, "the file's path has parts that are not taken");
  if (!gguf::is_gguf_name(file)) return no_name(name, "the file does not end in .gguf");
  return file;
}

Result<ModelName> hugging_face_name(std::string_view text, std::string tag, std::span<const std::string_view> parts) {
  const bool is_page_of_files = parts.size() >= 4 && parts[2] == "tree" && parts[3] == "main";
  // The page of a folder for one quantisation means that quantisation.
  if (is_page_of_files && parts.size() == 5 && tag.empty() && gguf::is_quantisation_label(parts[4])) {
    tag = parts[4];
    parts = parts.first(2);
  }
  if (is_page_of_files && parts.size() == 4) parts = parts.first(2);
  if (parts.size() < 2) return no_name(text, "Hugging Face's have an owner and a repository");
  ModelName name{
      .hub = Hub::kHuggingFace, .owner = std::string(parts[0]), .model = std::string(parts[1]), .tag = {}, .file = {}};
  if (parts.size() > 2) {
    if (!tag.empty()) return no_name(text, "a file has no tag");
    CAIRN_TRY(name.file, file_of(text, parts.subspan(2)));
    return name;
  }
  if (tag != gguf::kOllamaTag) name.tag = std::move(tag);  // Ollama's clients add it to each name
  return name;
}

}  // namespace

bool is_safe_path(std::string_view path) {
  if (path.empty() || path.size() > kNameBytesMax) return false;
  return std::ranges::all_of(split_at_slashes(path), [](std::string_view part) {
    return !part.empty() && part.size() <= kPathPartBytesMax && part.front() != '.' &&
           std::ranges::none_of(part,
                                [](unsigned char letter) { return letter < ' ' || letter == 0x7f || letter == '\\'; });
  });
}

std::string ModelName::text() const {
  if (hub == Hub::kOllama) {
    if (owner == gguf::kOllamaLibrary) return model + ":" + tag;
    return std::string(gguf::kOllamaFolder) + "/" + owner + "/" + model + ":" + tag;
  }
  const std::string repository = "hf.co/" + owner + "/" + model;
  if (!file.empty()) return repository + "/" + file;
  return tag.empty() ? repository : repository + ":" + tag;
}

std::filesystem::path ModelName::folder() const {
  return std::filesystem::path(hub == Hub::kOllama ? gguf::kOllamaFolder : gguf::kHuggingFaceFolder) / owner / model;
}

Result<ModelName> parse_model_name(std::string_view text) {
  std::string_view rest = text;
  if (text.size() > kNameBytesMax) return no_name(text, "it is too long");
  const bool url = drop_prefix(rest, "https://") || drop_prefix(rest, "http://");
  if (url) drop_prefix(rest, "www.");
  const std::optional<Hub> said = !url && drop_prefix(rest, "hf://") ? Hub::kHuggingFace : drop_host(rest);
  if (url && !said) return no_name(text, "only addresses of huggingface.co and ollama.com are taken");
  const size_t query = rest.find_first_of("?#");  // "?download=true"
  const std::string shown = query == std::string_view::npos ? std::string() : file_of_query(rest.substr(query));
  rest = rest.substr(0, query);
  if (said && rest.ends_with('/')) rest.remove_suffix(1);
  std::string path;
  if (said == Hub::kHuggingFace && !shown.empty() && std::ranges::count(rest, '/') == 1) {
    path = fmt::format("{}/{}", rest, shown);
    rest = path;
  }
  // ORG/REPO:FOLDER/FILE.gguf is ORG/REPO/FOLDER/FILE.gguf.
  if (const size_t colon = rest.find(':'); said.value_or(Hub::kHuggingFace) == Hub::kHuggingFace &&
                                           colon != std::string_view::npos && gguf::is_gguf_name(rest) &&
                                           std::ranges::count(rest.substr(0, colon), '/') == 1) {
    path = rest;
    path[colon] = '/';
    rest = path;
  }
  const bool has_tag = rest.find(':') != std::string_view::npos;
  std::string tag = drop_tag(rest);
  if (has_tag && !is_word(tag)) return no_name(text, "its tag is not one");
  const std::vector<std::string_view> parts = split_at_slashes(rest);
  for (size_t i = 0; i < std::min<size_t>(parts.size(), 2); ++i)
    if (!is_word(parts[i])) return no_name(text, "names are letters, digits, dots, dashes and underscores");
  const bool quantisation = tag.empty() || gguf::is_quantisation_label(tag) || parts.size() > 2;
  const Hub hub = said.value_or(parts.size() < 2 || !quantisation ? Hub::kOllama : Hub::kHuggingFace);
  if (hub == Hub::kHuggingFace) return hugging_face_name(text, std::move(tag), parts);
  if (parts.size() > 2) return no_name(text, "Ollama's have a namespace, a model and a tag");
  return ModelName{.hub = Hub::kOllama,
                   .owner = std::string(parts.size() == 2 ? parts[0] : gguf::kOllamaLibrary),
                   .model = std::string(parts.back()),
                   .tag = tag.empty() ? std::string(gguf::kOllamaTag) : std::move(tag),
                   .file = {}};
}

}  // namespace cairn::hub
