/// Models that were made of others: a name over a base with a system message, parameters, a template, messages and
/// adapters of its own. Each is a file in the folder kMadeFolder of a models folder, which says all of it; weights stay
/// those of the base.
///
///     made/NAME.json        %2F and %3A stand for the slash and the colon of the name
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "model/weights/lora.h"

namespace cairn::loader {

inline constexpr std::string_view kMadeFolder = "made";
inline constexpr size_t kMadeModelsMax = 4'096;       ///< of one folder
inline constexpr size_t kMadeBytesMax = 1 << 20;      ///< of a file
inline constexpr size_t kMadeNamePartBytesMax = 100;  ///< of a name between its slashes and colons

struct MadeModel {
  std::string name{};
  std::string base{};           ///< the name of a model that has a file
  std::string system{};         ///< of conversations that have none; may be empty
  std::string chat_template{};  ///< in place of the base's; empty: that one
  nlohmann::ordered_json parameters = nlohmann::ordered_json::object();  ///< for requests that leave them out
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();     ///< in front of every conversation
  std::vector<std::string> adapters{};  ///< names of files in the models folder, beside those of the base
  std::vector<std::string> licenses{};

  bool operator==(const MadeModel&) const = default;
};

/// MODEL, MODEL:TAG or NAMESPACE/MODEL:TAG of letters, digits and ".", "_", "-", without ":latest". Error:
/// kInvalidArgument, what a name must be.
Result<std::string> check_made_name(std::string_view name);
/// The name of a file within a models folder, without leading out of it. Error: kInvalidArgument.
Result<void> check_adapter_name(std::string_view name);

/// The adapters' files in the models folder.
std::vector<model::LoraFile> adapter_files(const std::filesystem::path& folder, const MadeModel& model);
/// Whether a model of the architecture can be loaded with the adapters. Errors: check_adapter_name's and
/// model::open_lora_adapters'.
Result<void> check_adapters(const std::filesystem::path& folder, const MadeModel& model, std::string_view architecture);

/// Where a model of that name, which has been checked, lies in a models folder.
std::filesystem::path made_path(const std::filesystem::path& folder, std::string_view name);
/// Errors: kIo; kCorruptFile, no such file or one of another name.
Result<MadeModel> read_made(const std::filesystem::path& path);
/// Puts the file in the place of an older one at once. Errors: kIo; kTooLarge, over kMadeBytesMax or kMadeModelsMax.
Result<void> write_made(const std::filesystem::path& folder, const MadeModel& model);
/// False: there is none. Error: kIo.
Result<bool> remove_made(const std::filesystem::path& folder, std::string_view name);
/// The files of a models folder, sorted; none if it has none.
std::vector<std::filesystem::path> made_files(const std::filesystem::path& folder);

}  // namespace cairn::loader
