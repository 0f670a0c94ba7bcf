#include "model/metadata_reader.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace cairn::model {

namespace {
constexpr double kNumberMax = 1e30;
// Keys that a configuration does not read, but the code that pools texts and names labels does.
constexpr std::string_view kReadElsewhere[] = {"pooling_type", "classifier.output_labels"};

std::string place(const std::string& key) { return "key " + key; }
}  // namespace

std::string MetadataReader::full(std::string_view key) const {
  std::string name = fmt::format("{}.{}", architecture_, key);
  asked_.insert(name);
  return name;
}

Result<int64_t> MetadataReader::integer(std::string_view key, int64_t least, int64_t most) const {
  const std::string name = full(key);
  CAIRN_TRY(const int64_t value, file_.metadata().integer(name));
  if (value < least || value > most) {
    return fail_at(place(name), Code::kCorruptFile, "{} is {}, but it must be in {} .. {}", name, value, least, most);
  }
  return value;
}

Result<int64_t> MetadataReader::integer_or(std::string_view key, int64_t missing, int64_t least, int64_t most) const {
  if (!contains(key)) return missing;
  return integer(key, least, most);
}

Result<float> MetadataReader::number(std::string_view key) const {
  const std::string name = full(key);
  CAIRN_TRY(const double value, file_.metadata().number(name));
  if (!(std::abs(value) <= kNumberMax)) {
    return fail_at(place(name), Code::kCorruptFile, "{} is {}, but it must be an ordinary number", name, value);
  }
  return static_cast<float>(value);
}

Result<float> MetadataReader::number_or(std::string_view key, float missing) const {
  if (!contains(key)) return missing;
  return number(key);
}

Result<float> MetadataReader::positive_or(std::string_view key, float missing) const {
  CAIRN_TRY(const float value, number_or(key, missing));
  if (!(value > 0)) {
    return fail_at(place(full(key)), Code::kCorruptFile, "{} is {}, but it must be above zero", full(key), value);
  }
  return value;
}

Result<std::string_view> MetadataReader::string_or(std::string_view key, std::string_view missing) const {
  return file_.metadata().string_or(full(key), missing);
}

Result<bool> MetadataReader::boolean_or(std::string_view key, bool missing) const {
  return file_.metadata().boolean_or(full(key), missing);
}

Result<std::vector<int64_t>> MetadataReader::per_layer(std::string_view key, int64_t layers, int64_t least,
                                                       int64_t most) const {
  const std::string name = full(key);
  const gguf::Value* value = file_.metadata().find(name);
  if (value == nullptr || value->type != gguf::ValueType::kArray) {
    CAIRN_TRY(const int64_t one, integer(key, least, most));
    return std::vector<int64_t>(layers, one);
  }
  CAIRN_TRY(std::vector<int64_t> numbers, file_.metadata().integers(name));
  if (std::ssize(numbers) < layers) {
    return fail_at(place(name), Code::kCorruptFile, "{} has {} entries, but there are {} layers", name, numbers.size(),
                   layers);
  }
  numbers.resize(layers);
  for (const int64_t number : numbers) {
    if (number >= least && number <= most) continue;
    return fail_at(place(name), Code::kCorruptFile, "{} has an entry {}, but each must be in {} .. {}", name, number,
                   least, most);
  }
  return numbers;
}

Result<std::vector<bool>> MetadataReader::flag_per_layer(std::string_view key, int64_t layers) const {
  const std::string name = full(key);
  const gguf::Value* value = file_.metadata().find(name);
  const auto* array = value == nullptr ? nullptr : std::get_if<gguf::Array>(&value->data);
  std::vector<bool> flags;
  if (array != nullptr && array->type != gguf::ValueType::kBool) {
    CAIRN_TRY(const std::vector<int64_t> numbers, file_.metadata().integers(name));
    for (const int64_t number : numbers) flags.push_back(number != 0);
  } else {
    CAIRN_TRY(flags, file_.metadata().booleans(name));
  }
  if (std::ssize(flags) < layers) {
    return fail_at(place(name), Code::kCorruptFile, "{} has {} entries, but there are {} layers", name, flags.size(),
                   layers);
  }
  flags.resize(layers);
  return flags;
}

Result<std::vector<bool>> MetadataReader::window_pattern(int64_t layers, int64_t period, bool first) const {
  constexpr std::string_view kKey = "attention.sliding_window_pattern";
  const gguf::Value* value = file_.metadata().find(full(kKey));
  if (value != nullptr && value->type == gguf::ValueType::kArray) return flag_per_layer(kKey, layers);
  CAIRN_TRY(period, integer_or(kKey, period, 0, kLayersMax));
  std::vector<bool> windows;
  for (int64_t i = 0; i < layers; ++i) windows.push_back(period == 0 || i % period != (first ? 0 : period - 1));
  return windows;
}

std::vector<std::string> MetadataReader::unread() const {
  const std::string prefix = fmt::format("{}.", architecture_);
  const bool experts = file_.metadata().contains(prefix + "expert_count");
  std::vector<std::string> names;
  for (const auto& [name, value] : file_.metadata().values()) {
    if (!name.starts_with(prefix) || asked_.contains(name)) continue;
    const std::string_view key = name.substr(prefix.size());
    if (std::ranges::find(kReadElsewhere, key) != std::end(kReadElsewhere)) continue;
    if ((key.starts_with("expert_") || key == "leading_dense_block_count") && !experts) continue;
    names.emplace_back(name);
  }
  return names;
}

}  // namespace cairn::model
