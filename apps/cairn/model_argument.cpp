#include "model_argument.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "api/models/made_parameters.h"
#include "base/log.h"
#include "base/text/nearest.h"
#include "base/text/printable.h"
#include "catalog_flags.h"
#include "gguf/model_folder.h"
#include "gguf/split.h"
#include "hub/pull.h"
#include "loader/catalog/model_names.h"
#include "pull_flags.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using loader::CatalogModel;
using loader::ModelKind;

/// Files of a folder that are compared with one that is not there.
constexpr size_t kFilesComparedMax = 1'000;

/// Opening what may not be looked at says so.
bool is_file(const std::string& name) {
  std::error_code error;
  const fs::file_status status = fs::status(name, error);
  return error == std::errc::permission_denied || (fs::exists(status) && !fs::is_directory(status));
}

/// Whether the name can only be meant as a path.
bool is_path(std::string_view name) {
  return name.starts_with('/') || name.starts_with("./") || name.starts_with("../") || name.starts_with("~/");
}

/// "; did you mean a or b?", of the model files in the folder of one that is not there.
std::string files_like(const fs::path& path) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator entry(path.has_parent_path() ? path.parent_path() : fs::path("."), error);
  for (; !error && entry != fs::directory_iterator() && names.size() < kFilesComparedMax; entry.increment(error))
    if (gguf::is_gguf_name(entry->path().native())) names.push_back(entry->path().filename().string());
  std::ranges::sort(names);
  const std::vector<std::string_view> known(names.begin(), names.end());
  return did_you_mean(path.filename().string(), known);
}

/// The name by which the list has a hub's model.
std::string listed_name(const hub::ModelName& name) {
  if (name.hub == hub::Hub::kOllama) return gguf::ollama_name(gguf::kOllamaFolder, name.owner, name.model, name.tag);
  const std::string repository = name.owner + "/" + name.model;
  if (!name.file.empty()) return repository + "/" + name.file;
  return name.tag.empty() ? repository : repository + ":" + name.tag;
}

/// One look for a model of that name.
class Search {
 public:
  Search(const std::string& name, const ModelSearch& how)
      : name_(name), how_(how), hub_(hub::parse_model_name(name)), catalog_(how.folder) {
    catalog_.folder = catalog_.models_folder();
    std::error_code error;
    if (!catalog_.folder.empty())
      catalog_.folder = (fs::absolute(catalog_.folder, error) / "").lexically_normal().parent_path();
    look();
  }
  Result<CatalogModel> find();
  /// The file of that name in the folder, which need not be a model; "": there is none.
  std::string find_in_folder() const;
  /// The file that was pulled by that name of a hub.
  Result<std::optional<fs::path>> find_pulled() const;
  Error no_adapter() const;

 private:
  void look() {
    models_ = catalog_.scan().models;
    names_.clear();
    for (const CatalogModel& model : models_) names_.push_back({model.name, model.aliases, model.kind});
  }
  /// The model whose whole name it is, in the list's words or in a hub's.
  Result<const CatalogModel*> find_whole() const;
  /// A model of the list by its file's name, "NAME.gguf".
  const CatalogModel* find_by_file_name() const;
  /// The model whose name begins so, or contains it.
  Result<const CatalogModel*> find_part() const;
  Result<CatalogModel> pull();
  /// The model of the list with that file, or what the file itself says.
  Result<CatalogModel> model_of(const fs::path& path) const;
  Result<CatalogModel> accept(const CatalogModel& model) const;
  Error not_found() const;

  const std::string& name_;
  const ModelSearch& how_;
  const Result<hub::ModelName> hub_;
  CatalogFlags catalog_;
  std::vector<CatalogModel> models_;
  std::vector<loader::ModelNames> names_;
};

Result<const CatalogModel*> Search::find_whole() const {
  CAIRN_TRY(std::optional<size_t> found, loader::find_by_whole_name(names_, name_, ModelKind::kChat));
  if (!found && hub_) {
    CAIRN_TRY(found, loader::find_by_whole_name(names_, listed_name(*hub_), ModelKind::kChat));
  }
  return found ? &models_[*found] : nullptr;
}

const CatalogModel* Search::find_by_file_name() const {
  if (!gguf::is_gguf_name(name_) || is_path(name_)) return nullptr;
  const auto has_it = [&](const CatalogModel& model) {
    return model.made == nullptr && model.path.filename().string() == name_;
  };
  return std::ranges::count_if(models_, has_it) == 1 ? &*std::ranges::find_if(models_, has_it) : nullptr;
}

Result<std::optional<fs::path>> Search::find_pulled() const {
  if (!hub_ || catalog_.folder.empty()) return std::nullopt;
  CAIRN_TRY(const hub::PullOptions options, pull_options(catalog_.folder));
  const auto found = hub::find_pulled(*hub_, options.folder, options.memory_bytes);
  if (found) return found->front();
  if (found.error().code == Code::kNotFound) return std::nullopt;
  return std::unexpected(found.error());
}

Result<const CatalogModel*> Search::find_part() const {
  // A hub's name with all its parts means that model and no other.
  if (how_.pull && hub_ && name_.find_first_of(":/") != std::string::npos) return nullptr;
  const auto found = loader::find_by_name(names_, name_, ModelKind::kChat);
  if (!found && how_.pull && hub_)
    return fail(found.error().code, "{}, or cairn pull {}, which gets that model", found.error().message,
                printable(name_));
  if (!found) return std::unexpected(found.error());
  if (!*found) return nullptr;
  const CatalogModel& model = models_[**found];
  if (how_.pull && !loader::answers(model.kind, ModelKind::kChat)) return nullptr;
  log_info("{} is {}", printable(name_), model.name);
  return &model;
}

Result<CatalogModel> Search::model_of(const fs::path& path) const {
  const auto listed = std::ranges::find_if(
      models_, [&](const CatalogModel& model) { return model.made == nullptr && model.path == path; });
  if (listed != models_.end()) return *listed;
  CAIRN_TRY(CatalogModel model, loader::describe_file(path));
  model.name = gguf::pulled_name(path.lexically_relative(catalog_.folder)).value_or(model.name);
  return model;
}

Result<CatalogModel> Search::pull() {
  CAIRN_TRY(const hub::PullOptions options, pull_options(catalog_.folder));
  CAIRN_TRY(const auto pulled, pull_shown(*hub_, options));
  look();
  return model_of(pulled.front());
}

Result<CatalogModel> Search::accept(const CatalogModel& model) const {
  if (model.made == nullptr || how_.made) return model;
  return fail(Code::kInvalidArgument,
              "{0} was made of {1} and has no file of its own: name {1}, whose file this command reads (cairn show {0} "
              "says how they differ)",
              model.name, model.made->base);
}

Error Search::not_found() const {
  const std::string shown = printable(name_, kEchoBytesMax);
  std::error_code error;
  if (fs::is_directory(name_, error))
    return {Code::kInvalidArgument, fmt::format("{} is a folder: name one of the GGUF files in it", shown), {}};
  if (is_path(name_) || gguf::is_gguf_name(name_)) {
    const bool on_hub = !is_path(name_) && hub_ && !hub_->file.empty();
    return {Code::kNotFound,
            fmt::format("no such file: {}{}; {}", shown, files_like(name_),
                        on_hub ? fmt::format("cairn pull {} gets it from a hub", shown)
                               : "cairn list shows the models that are here"),
            {}};
  }
  std::string text =
      fmt::format("there is neither a file nor a model {}{}", shown, loader::names_like_hint(names_, name_));
  if (!hub_) text += "; " + hub_.error().message;
  text += models_.empty() ? "; there are no models here yet" : "; cairn list shows what is here";
  if (hub_) text += fmt::format(", and cairn pull {} gets one from a hub", shown);
  return {Code::kNotFound, std::move(text), {}};
}

Result<CatalogModel> Search::find() {
  CAIRN_TRY(const CatalogModel* whole, find_whole());
  if (whole == nullptr) whole = find_by_file_name();
  if (whole != nullptr) return accept(*whole);
  if (is_path(name_)) return std::unexpected(not_found());
  CAIRN_TRY(const std::optional<fs::path> pulled, find_pulled());
  if (pulled) return model_of(*pulled);
  CAIRN_TRY(const CatalogModel* part, find_part());
  if (part != nullptr) return accept(*part);
  if (how_.pull && hub_) return pull();
  return std::unexpected(not_found());
}

std::string Search::find_in_folder() const {
  if (is_path(name_) || catalog_.folder.empty()) return {};
  for (const std::string& name : {name_, name_ + ".gguf"}) {
    if (const fs::path path = fs::path(catalog_.folder) / name; is_file(path)) return path.string();
  }
  return {};
}

Error Search::no_adapter() const {
  const std::string shown = printable(name_, kEchoBytesMax);
  if (is_path(name_) || catalog_.folder.empty())
    return {Code::kNotFound, fmt::format("no such file: {}{}", shown, files_like(name_)), {}};
  const std::string file = gguf::is_gguf_name(name_) ? name_ : name_ + ".gguf";
  return {Code::kNotFound,
          fmt::format("there is no file {}{}, and none of that name in {}{}", shown, files_like(file),
                      printable(catalog_.folder), files_like(fs::path(catalog_.folder) / file)),
          {}};
}

}  // namespace

Result<CatalogModel> find_model(const std::string& name, const ModelSearch& search) {
  if (is_file(name)) {
    CatalogModel model;
    model.path = name;
    return model;
  }
  return Search(name, search).find();
}

Result<std::string> find_model_file(const std::string& name) {
  CAIRN_TRY(const CatalogModel model, find_model(name));
  return model.path.string();
}

Result<std::string> find_draft_file(const std::string& name, const std::string& folder) {
  if (is_file(name)) return name;
  const ModelSearch how{.folder = folder};
  Search search(name, how);
  if (std::string file = search.find_in_folder(); !file.empty()) return file;
  const auto model = search.find();
  if (model) return model->path.string();
  CAIRN_TRY(const std::optional<fs::path> pulled, search.find_pulled());
  if (pulled) return pulled->string();
  return std::unexpected(model.error());
}

Result<std::string> find_adapter_file(const std::string& name, const std::string& folder) {
  if (is_file(name)) return name;
  const ModelSearch how{.folder = folder};
  const Search search(name, how);
  if (std::string file = search.find_in_folder(); !file.empty()) return file;
  CAIRN_TRY(const std::optional<fs::path> pulled, search.find_pulled());
  if (pulled) return pulled->string();
  return std::unexpected(search.no_adapter());
}

Result<CatalogModel> find_hugging_face_model(const std::string& repository, const std::string& folder) {
  const auto named = hub::parse_model_name(repository);
  if (named && named->hub == hub::Hub::kHuggingFace)
    return find_model(named->text(), {.folder = folder, .pull = true, .made = true});
  const std::string with_host = "hf.co/" + repository;
  CAIRN_TRY_VOID(hub::parse_model_name(with_host));
  return find_model(with_host, {.folder = folder, .pull = true, .made = true});
}

Result<void> apply_made(const loader::MadeModel& made, const std::string& folder, loader::LoadOptions& options,
                        api::GenerationDefaults& defaults) {
  api::RequestContext context;
  CAIRN_TRY(const api::MadeParameters parameters, api::read_made_parameters(context, made.parameters));
  defaults = parameters.defaults.or_else(defaults);
  if (parameters.context_tokens > 0) options.model.context_tokens = parameters.context_tokens;
  if (!made.chat_template.empty()) options.chat_template = made.chat_template;
  options.template_defaults.system = made.system;
  options.template_defaults.messages = made.messages;
  for (model::LoraFile& file : loader::adapter_files(folder, made)) options.lora.push_back(std::move(file));
  return {};
}

}  // namespace cairn
