#include "convert/huggingface/model_config.h"

#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <system_error>
#include <utility>

#include "base/text/json.h"
#include "base/text/text_file.h"

namespace cairn::convert {
namespace {

constexpr int64_t kIntegerMax = INT32_MAX;

std::optional<int64_t> integer_of(const nlohmann::json& value) {
  if (value.is_number_unsigned() && value.get<uint64_t>() <= kIntegerMax) return value.get<int64_t>();
  if (!value.is_number_float()) return std::nullopt;  // 4.0 stands in some configs
  const double number = value.get<double>();
  if (!(number >= 0 && number <= kIntegerMax) || number != std::floor(number)) return std::nullopt;
  return static_cast<int64_t>(number);
}

Result<nlohmann::json> read_document(const std::filesystem::path& path, size_t bytes_max) {
  CAIRN_TRY(const std::string text, read_text_file(path.string(), path.string(), bytes_max));
  auto json = parse_json(text);
  if (!json) return fail(json.error().code, "{}: the file {}", path.string(), json.error().message);
  return json;
}

}  // namespace

Result<nlohmann::json> parse_json(std::string_view text) {
  // What is nested too deep is left out, so that a few megabytes of brackets do not take gigabytes.
  bool too_deep = false;
  const auto shallow = [&](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    too_deep = too_deep || depth > kJsonDepthMax;
    return depth <= kJsonDepthMax;
  };
  nlohmann::json json = nlohmann::json::parse(text, shallow, false);
  if (too_deep) return fail(Code::kCorruptFile, "is nested deeper than {} levels", kJsonDepthMax);
  if (json.is_discarded()) return fail(Code::kCorruptFile, "is no JSON");
  return json;
}

Result<nlohmann::json> read_json_file(const std::filesystem::path& path, size_t bytes_max) {
  CAIRN_TRY(nlohmann::json json, read_document(path, bytes_max));
  if (!json.is_object()) return fail(Code::kCorruptFile, "{}: the file is no JSON object", path.string());
  return json;
}

Result<nlohmann::json> read_json_list(const std::filesystem::path& path, size_t bytes_max) {
  CAIRN_TRY(nlohmann::json json, read_document(path, bytes_max));
  if (!json.is_array()) return fail(Code::kCorruptFile, "{}: the file is no JSON list", path.string());
  return json;
}

Result<nlohmann::json> read_json_file_if_there(const std::filesystem::path& path, size_t bytes_max) {
  std::error_code missing;
  if (!std::filesystem::exists(path, missing)) return nlohmann::json::object();
  return read_json_file(path, bytes_max);
}

const nlohmann::json* find_member(const nlohmann::json& object, std::string_view name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

ModelConfig::ModelConfig(nlohmann::json root, std::string place)
    : root_(std::move(root)), place_(std::move(place)), error_(std::make_shared<std::optional<Error>>()) {
  if (!root_.is_object()) root_ = nlohmann::json::object();
  for (const char* inner : {"text_config", "llm_config"}) {
    const auto found = root_.find(inner);
    if (found == root_.end() || !found->is_object()) continue;
    const nlohmann::json text = *found;
    for (const auto& [name, value] : text.items()) {
      if (name != "architectures") root_[name] = value;
    }
  }
}

const nlohmann::json* ModelConfig::find(Names names) const {
  for (const std::string_view name : names) {
    if (const nlohmann::json* found = find_member(root_, name)) return found;
  }
  return nullptr;
}

void ModelConfig::refuse(Code code, std::string message) const {
  if (!error_->has_value()) *error_ = Error{code, fmt::format("{}: {}", place_, message), {}};
}

Result<void> ModelConfig::status() const {
  if (error_->has_value()) return std::unexpected(**error_);
  return {};
}

template <class T>
T ModelConfig::refused(Names names, std::string_view wanted, T harmless) const {
  refuse(Code::kCorruptFile, fmt::format("\"{}\" is {}, but must be {}", *names.begin(),
                                         has(names) ? "something else" : "missing", wanted));
  return harmless;
}

int64_t ModelConfig::integer(Names names) const {
  const nlohmann::json* value = find(names);
  const auto number = value == nullptr ? std::nullopt : integer_of(*value);
  return number ? *number : refused<int64_t>(names, "a whole number of 0 to 2147483647", 1);
}

double ModelConfig::number(Names names) const {
  const nlohmann::json* value = find(names);
  if (value == nullptr || !value->is_number()) return refused(names, "a number", 1.0);
  return value->get<double>();
}

int64_t ModelConfig::integer_or(Names names, int64_t missing) const { return has(names) ? integer(names) : missing; }
double ModelConfig::number_or(Names names, double missing) const { return has(names) ? number(names) : missing; }

bool ModelConfig::boolean_or(Names names, bool missing) const {
  const nlohmann::json* value = find(names);
  if (value == nullptr) return missing;
  return value->is_boolean() ? value->get<bool>() : refused(names, "true or false", missing);
}

std::string ModelConfig::text_or(Names names, std::string_view missing) const {
  const nlohmann::json* value = find(names);
  if (value == nullptr) return std::string(missing);
  return value->is_string() ? value->get<std::string>() : refused(names, "a text", std::string(missing));
}

std::vector<int64_t> ModelConfig::integers(Names names) const {
  const nlohmann::json* value = find(names);
  std::vector<int64_t> numbers;
  if (value == nullptr) return numbers;
  if (!value->is_array()) return refused(names, "a list of whole numbers", numbers);
  for (const auto& each : *value) {
    const auto number = integer_of(each);
    if (!number) return refused(names, "a list of whole numbers", std::vector<int64_t>());
    numbers.push_back(*number);
  }
  return numbers;
}

std::vector<double> ModelConfig::numbers(Names names) const {
  const nlohmann::json* value = find(names);
  std::vector<double> numbers;
  if (value == nullptr) return numbers;
  if (!value->is_array()) return refused(names, "a list of numbers", numbers);
  for (const auto& each : *value) {
    if (!each.is_number()) return refused(names, "a list of numbers", std::vector<double>());
    numbers.push_back(each.get<double>());
  }
  return numbers;
}

std::vector<std::string> ModelConfig::texts(Names names) const {
  const nlohmann::json* value = find(names);
  std::vector<std::string> texts;
  if (value == nullptr) return texts;
  if (!value->is_array()) return refused(names, "a list of texts", texts);
  for (const auto& each : *value) {
    if (!each.is_string()) return refused(names, "a list of texts", std::vector<std::string>());
    texts.push_back(each.get<std::string>());
  }
  return texts;
}

ModelConfig ModelConfig::object(Names names) const {
  const nlohmann::json* value = find(names);
  ModelConfig inner(value != nullptr && value->is_object() ? *value : nlohmann::json::object(), place_);
  inner.error_ = error_;
  return inner;
}

}  // namespace cairn::convert
