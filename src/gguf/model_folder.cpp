#include "gguf/model_folder.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <vector>

#include "base/tensor_type.h"
#include "gguf/split.h"

namespace cairn::gguf {
namespace {

constexpr std::string_view kGgufSuffix = ".gguf";
constexpr std::string_view kDynamic = "UD";  // the word before the labels of Unsloth's mixtures

std::string upper_case(std::string_view text) {
  std::string upper(text);
  std::ranges::transform(upper, upper.begin(), [](unsigned char letter) { return std::toupper(letter); });
  return upper;
}

bool digit(char letter) { return letter >= '0' && letter <= '9'; }

/// Q4_K_M, IQ2_XXS, TQ1_0, Q8: a bit width, and words of up to three letters or digits.
bool is_block_type(std::string_view text) {
  if (text.starts_with("I") || text.starts_with("T")) text.remove_prefix(1);
  if (text.size() < 2 || text[0] != 'Q' || !digit(text[1])) return false;
  text.remove_prefix(2);
  constexpr size_t kWordMax = 3;
  while (!text.empty()) {
    if (text.front() != '_') return false;
    text.remove_prefix(1);
    const std::string_view word = text.substr(0, text.find('_'));
    if (word.empty() || word.size() > kWordMax) return false;
    if (!std::ranges::all_of(word, [](unsigned char letter) { return std::isalnum(letter) != 0; })) return false;
    text.remove_prefix(word.size());
  }
  return true;
}

bool is_upper_label(std::string_view text) {
  constexpr std::array<std::string_view, 3> kOtherNames = {"FP16", "FP32", "MXFP4_MOE"};
  return file_type_id(text) || std::ranges::find(kOtherNames, text) != kOtherNames.end() || is_block_type(text);
}

/// The label at the end of a word: "Q4_K_M" of "MODEL_Q4_K_M".
std::string_view label_within(std::string_view word) {
  for (size_t begin = 0; begin < word.size(); ++begin) {
    if (begin > 0 && word[begin - 1] != '_') continue;
    if (is_upper_label(word.substr(begin))) return word.substr(begin);
  }
  return {};
}

std::string stem_of(std::string_view file_name) {
  file_name = file_name.substr(file_name.rfind('/') + 1);
  const std::string name(file_name);
  if (const auto split = split_name(name)) return split->stem;
  return std::string(file_name.substr(0, file_name.size() - (is_gguf_name(file_name) ? kGgufSuffix.size() : 0)));
}

}  // namespace

Result<std::filesystem::path> default_models_folder() {
  const std::filesystem::path inside = std::filesystem::path("cairn") / "models";
  const char* const data = std::getenv("XDG_DATA_HOME");
  if (data != nullptr && *data == '/') return data / inside;  // a relative one counts as none
  const char* const home = std::getenv("HOME");
  if (home != nullptr && *home != '\0') return home / std::filesystem::path(".local/share") / inside;
  return fail(Code::kNotFound,
              "neither XDG_DATA_HOME nor HOME says where the models folder is; name one with --models FOLDER");
}

bool is_quantisation_label(std::string_view text) {
  std::string upper = upper_case(text);
  if (upper.starts_with("UD-")) upper.erase(0, kDynamic.size() + 1);
  return is_upper_label(upper);
}

std::string quantisation_label(std::string_view file_name) {
  const std::string stem = upper_case(stem_of(file_name));
  std::vector<std::string_view> words;
  for (size_t begin = 0; begin <= stem.size();) {
    const size_t end = std::min(stem.find_first_of("-.", begin), stem.size());
    words.push_back(std::string_view(stem).substr(begin, end - begin));
    begin = end + 1;
  }
  for (size_t i = words.size(); i-- > 0;) {
    const std::string_view label = label_within(words[i]);
    if (label.empty()) continue;
    const bool dynamic = i > 0 && words[i - 1] == kDynamic && label.size() == words[i].size();
    return dynamic ? std::string(kDynamic) + "-" + std::string(label) : std::string(label);
  }
  return {};
}

bool is_projector(std::string_view file_name) {
  return upper_case(stem_of(file_name)).find("MMPROJ") != std::string::npos;
}

std::string hub_name(std::string_view repository, std::string_view file) {
  const std::string label = quantisation_label(file);
  std::string name(repository);
  return label.empty() ? name.append("/").append(file) : name.append(":").append(label);
}

std::string ollama_name(std::string_view host, std::string_view name_space, std::string_view model,
                        std::string_view tag) {
  std::string name;
  if (host != kOllamaFolder) name.append(host).append("/");
  if (host != kOllamaFolder || name_space != kOllamaLibrary) name.append(name_space).append("/");
  return name.append(model).append(":").append(tag);
}

std::optional<std::string> pulled_name(const std::filesystem::path& relative) {
  const std::vector<std::filesystem::path> parts(relative.begin(), relative.end());
  constexpr size_t kPartsMin = 4;
  if (parts.size() < kPartsMin || !is_gguf_name(relative.native())) return std::nullopt;
  const std::string owner = parts[1].string(), model = parts[2].string();
  if (parts[0] == kHuggingFaceFolder) {
    const std::filesystem::path file = relative.lexically_relative(parts[0] / parts[1] / parts[2]);
    return hub_name(owner + "/" + model, file.generic_string());
  }
  if (parts[0] != kOllamaFolder || parts.size() != kPartsMin) return std::nullopt;
  const std::string tag = relative.stem().string();
  const std::string name = ollama_name(kOllamaFolder, owner, model, tag);
  // A quantisation as the tag would be read as Hugging Face's.
  const bool host_is_needed = owner != kOllamaLibrary && is_quantisation_label(tag);
  return host_is_needed ? std::string(kOllamaFolder) + "/" + name : name;
}

}  // namespace cairn::gguf
