/// config.json and the other JSON files of a folder in Hugging Face's form.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace cairn::convert {

/// Limits on a file that is read whole: indexes and configs, and tokenizers (Gemma's has 33 MB).
inline constexpr size_t kJsonFileBytesMax = 32 << 20;
inline constexpr size_t kTokenizerFileBytesMax = 128 << 20;

/// Reads JSON whose objects may have more members than read_json of base takes, as vocabularies do. Errors:
/// kCorruptFile (no JSON, or nested deeper than kJsonDepthMax), with a message that continues a name for the text.
Result<nlohmann::json> parse_json(std::string_view text);

/// Reads a JSON object. Errors: those of read_text_file and parse_json, kCorruptFile (no JSON object).
Result<nlohmann::json> read_json_file(const std::filesystem::path& path, size_t bytes_max);
/// The same, and an empty object for a file that is not there.
Result<nlohmann::json> read_json_file_if_there(const std::filesystem::path& path, size_t bytes_max);

/// The same for a JSON list.
Result<nlohmann::json> read_json_list(const std::filesystem::path& path, size_t bytes_max);

/// The member of an object; nullptr if it is null, is not there, or `object` is none.
const nlohmann::json* find_member(const nlohmann::json& object, std::string_view name);

/// One object of a config, whose values are asked for by the names that families give them, in order of preference.
///
/// The rules of families are lists of facts, so that getters do not return errors: the first missing or ill-typed value
/// is kept for status(), and the getter returns a harmless value. Numbers are at least 1 where they divide something.
class ModelConfig {
 public:
  using Names = std::initializer_list<std::string_view>;

  /// The members of `text_config` or `llm_config`, where there are any, replace those of the same names.
  /// `place`: the file, for errors.
  ModelConfig(nlohmann::json root, std::string place);

  /// The value under the first of the names that is there and not null; nullptr if none is.
  const nlohmann::json* find(Names names) const;
  bool has(Names names) const { return find(names) != nullptr; }

  /// Required: an integer of 0 to 2^31 - 1.
  int64_t integer(Names names) const;
  double number(Names names) const;
  int64_t integer_or(Names names, int64_t missing) const;
  double number_or(Names names, double missing) const;
  bool boolean_or(Names names, bool missing) const;
  std::string text_or(Names names, std::string_view missing) const;
  /// Empty if there is none.
  std::vector<int64_t> integers(Names names) const;
  std::vector<double> numbers(Names names) const;
  std::vector<std::string> texts(Names names) const;
  /// The object under that name, or an empty one.
  ModelConfig object(Names names) const;

  void set(std::string_view name, nlohmann::json value) { root_[std::string(name)] = std::move(value); }
  const nlohmann::json& root() const { return root_; }

  /// Keeps an error of a value, unless there is one.
  void refuse(Code code, std::string message) const;
  /// The first error of a getter, of this or an object of it.
  Result<void> status() const;

 private:
  template <class T>
  T refused(Names names, std::string_view wanted, T harmless) const;

  nlohmann::json root_;
  std::string place_;
  std::shared_ptr<std::optional<Error>> error_;
};

}  // namespace cairn::convert
