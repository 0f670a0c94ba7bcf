/// Reads the config file of `cairn serve` (TOML): the flags by their names, and tables of models.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace cairn {

inline constexpr size_t kConfigBytesMax = 1 << 20;
inline constexpr size_t kConfigModelsMax = 1'024;    ///< tables of models
inline constexpr size_t kConfigKeyPartsMax = 16;     ///< of one key or heading, between its dots
inline constexpr size_t kConfigSettingsMax = 1'024;  ///< of the file, and of a model's table
inline constexpr size_t kConfigListMax = 1'024;      ///< values of a list

/// What an option is set to, and where that is said.
struct Setting {
  std::string name;                 ///< of the option, without its dashes
  std::vector<std::string> values;  ///< as on the command line; a table as JSON
  std::string where;                ///< "cairn.toml, line 3", "the variable CAIRN_PORT"
};

struct ConfigFile {
  struct Model {
    std::string name;
    std::string where;
    std::vector<Setting> settings;
  };
  std::string path{};
  std::vector<Setting> settings{};
  std::vector<Model> models{};  ///< [model."NAME"]
};

/// Errors: kIo, kTooLarge, and kInvalidArgument with the line: no TOML, a key twice, a value that no option takes.
Result<ConfigFile> read_config_file(const std::string& path);
/// The same of a text; `path` is for messages.
Result<ConfigFile> parse_config(std::string_view text, const std::string& path);

}  // namespace cairn
