#include "loader/catalog/made_model.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <system_error>

#include "base/text/json.h"
#include "base/text/printable.h"

namespace cairn::loader {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr int kVersion = 1;
constexpr std::string_view kSuffix = ".json";
constexpr std::string_view kLatest = ":latest";

bool is_name_part(std::string_view part) {
  const auto fits = [](unsigned char c) { return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-'; };
  return !part.empty() && part.size() <= kMadeNamePartBytesMax && std::isalnum(static_cast<unsigned char>(part[0])) &&
         std::ranges::all_of(part, fits);
}

std::string file_name(std::string_view name) {
  std::string file;
  for (const char c : name) file += c == '/' ? "%2F" : c == ':' ? "%3A" : std::string(1, c);
  return file.append(kSuffix);
}

ordered_json json_of(const MadeModel& model) {
  return {{"cairn_made", kVersion},
          {"name", model.name},
          {"base", model.base},
          {"system", model.system},
          {"template", model.chat_template},
          {"parameters", model.parameters},
          {"messages", model.messages},
          {"adapters", model.adapters},
          {"licenses", model.licenses}};
}

Result<MadeModel> made_from(const ordered_json& value) try {
  if (!value.is_object() || value.value("cairn_made", 0) != kVersion)
    return fail(Code::kCorruptFile, "it is no made model of this version");
  MadeModel model;
  value.at("name").get_to(model.name);
  value.at("base").get_to(model.base);
  value.at("system").get_to(model.system);
  value.at("template").get_to(model.chat_template);
  model.parameters = value.at("parameters");
  model.messages = value.at("messages");
  value.at("adapters").get_to(model.adapters);
  value.at("licenses").get_to(model.licenses);
  if (!model.parameters.is_object() || !model.messages.is_array())
    return fail(Code::kCorruptFile, "its parameters are no object, or its messages no array");
  for (const ordered_json& message : model.messages)
    if (!message.is_object() || !message.value("role", ordered_json()).is_string() ||
        !message.value("content", ordered_json()).is_string())
      return fail(Code::kCorruptFile, "a message of it has no role or no content");
  for (const std::string& adapter : model.adapters) CAIRN_TRY_VOID(check_adapter_name(adapter));
  return model;
} catch (const nlohmann::json::exception& error) {
  return fail(Code::kCorruptFile, "{}", error.what());
}

Result<void> write_text(const fs::path& path, std::string_view text) {
  const fs::path written = path.string() + "." + std::to_string(::getpid()) + ".new";
  std::error_code error;
  {
    std::ofstream out(written, std::ios::binary);
    out << text;
    out.flush();
    if (!out) error = std::make_error_code(std::errc::io_error);
  }
  if (!error) fs::rename(written, path, error);
  if (!error) return {};
  const std::string reason = error.message();
  fs::remove(written, error);
  return fail(Code::kIo, "cannot write {}: {}", path.string(), reason);
}

}  // namespace

Result<std::string> check_made_name(std::string_view name) {
  std::string_view rest = name;
  if (rest.ends_with(kLatest)) rest.remove_suffix(kLatest.size());
  const std::string made(rest);
  const size_t slash = rest.find('/');
  bool fits = slash == std::string_view::npos || is_name_part(rest.substr(0, slash));
  if (slash != std::string_view::npos) rest.remove_prefix(slash + 1);
  const size_t colon = rest.find(':');
  fits = fits && is_name_part(rest.substr(0, colon));
  fits = fits && (colon == std::string_view::npos || is_name_part(rest.substr(colon + 1)));
  if (fits) return made;
  return fail(Code::kInvalidArgument,
              "\"{}\" is no name for a model: it must be NAME, NAME:TAG or NAMESPACE/NAME:TAG of letters, digits and "
              "\".\", \"_\", \"-\", each of at most {} bytes",
              cut_text(name, kQuotedBytesMax), kMadeNamePartBytesMax);
}

Result<void> check_adapter_name(std::string_view name) {
  const fs::path path(name);
  const bool plain = !name.empty() && path.is_relative() && name.find('\\') == std::string_view::npos &&
                     std::ranges::none_of(path, [](const fs::path& part) { return part.string().starts_with('.'); });
  if (plain && name.find('\0') == std::string_view::npos) return {};
  return fail(Code::kInvalidArgument, "\"{}\" is no name of a file in the models folder",
              cut_text(name, kQuotedBytesMax));
}

std::vector<model::LoraFile> adapter_files(const fs::path& folder, const MadeModel& model) {
  std::vector<model::LoraFile> files;
  for (const std::string& name : model.adapters) files.push_back({.path = (folder / name).string(), .scale = 1});
  return files;
}

Result<void> check_adapters(const fs::path& folder, const MadeModel& model, std::string_view architecture) {
  for (const std::string& name : model.adapters) CAIRN_TRY_VOID(check_adapter_name(name));
  CAIRN_TRY_VOID(model::open_lora_adapters(adapter_files(folder, model), architecture));
  return {};
}

fs::path made_path(const fs::path& folder, std::string_view name) { return folder / kMadeFolder / file_name(name); }

Result<MadeModel> read_made(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text(kMadeBytesMax + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(in.gcount()));
  if (!in.eof() || text.empty()) return fail(Code::kIo, "cannot read {}", printable(path.string()));
  CAIRN_TRY(const ordered_json value, read_json(text));
  CAIRN_TRY(MadeModel model, made_from(value));
  CAIRN_TRY_VOID(check_made_name(model.name));
  if (file_name(model.name) != path.filename().string())
    return fail(Code::kCorruptFile, "its name is {}, which is another file's", printable(model.name));
  return model;
}

Result<void> write_made(const fs::path& folder, const MadeModel& model) {
  const std::string text = json_of(model).dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
  if (text.size() > kMadeBytesMax)
    return fail(Code::kTooLarge, "what is said of the model takes {} bytes; {} are the limit", text.size(),
                kMadeBytesMax);
  const fs::path path = made_path(folder, model.name);
  std::error_code error;
  if (!fs::exists(path, error) && made_files(folder).size() >= kMadeModelsMax)
    return fail(Code::kTooLarge, "{} models have been made, which is the limit: delete some", kMadeModelsMax);
  fs::create_directories(path.parent_path(), error);
  return write_text(path, text);
}

Result<bool> remove_made(const fs::path& folder, std::string_view name) {
  const auto made = check_made_name(name);
  if (!made) return false;
  std::error_code error;
  const fs::path path = made_path(folder, *made);
  const bool removed = fs::remove(path, error);
  if (error) return fail(Code::kIo, "cannot delete {}: {}", path.string(), error.message());
  return removed;
}

std::vector<fs::path> made_files(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator entry(folder / kMadeFolder, error);
       !error && entry != fs::directory_iterator() && files.size() < kMadeModelsMax; entry.increment(error)) {
    if (entry->path().extension() == kSuffix) files.push_back(entry->path());
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace cairn::loader
