#include "loader/catalog/catalog.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "base/log.h"
#include "base/text/printable.h"
#include "loader/catalog/description_cache.h"
#include "loader/catalog/model_names.h"
#include "loader/fit.h"

namespace cairn::loader {
namespace {

constexpr int64_t kNsPerSecond = 1'000'000'000;

CachedDescription look_into(const std::filesystem::path& path, const FileState& state) {
  CachedDescription made(state);
  const auto file = gguf::Reader::open(path);
  if (file) {
    made.model = describe_model(*file);
    if (made.model && made.model->unusable.empty()) made.model->memory_bytes = conversation_bytes(*file).value_or(0);
  } else {
    made.broken = file.error().text();
    // A part that is missing is no property of this one: it is looked at again.
    if (file.error().code == Code::kNotFound || file.error().code == Code::kIo) made.modified_ns = 0;
  }
  return made;
}

class Scan {
 public:
  explicit Scan(DescriptionCache known) : known_(std::move(known)) {}

  void add(const FoundFile& file);
  void skip(std::vector<SkippedFile> skipped) { catalog_.skipped = std::move(skipped); }
  bool changed() const { return changed_; }
  /// What is known of all files, those of other places too.
  const DescriptionCache& known() {
    for (const auto& [path, described] : seen_) known_.insert_or_assign(path, described);
    while (known_.size() > kDescriptionsMax) known_.erase(known_.begin());
    return known_;
  }
  void add_other_names() {
    for (auto& [index, name] : other_names_)
      if (names_.insert(name).second) catalog_.models[index].aliases.push_back(std::move(name));
  }
  /// The models that were made in a models folder, whose bases are known.
  void add_made(const std::filesystem::path& folder);
  Catalog take() { return std::move(catalog_); }

 private:
  const CachedDescription& description_of(const FoundFile& file, const FileState& state);
  /// A name that no model has.
  std::string free_name(const FoundFile& file) const;
  bool taken(const std::string& name) const { return names_.contains(name); }

  DescriptionCache known_;
  DescriptionCache seen_;
  bool changed_ = false;
  std::set<std::string, std::less<>> names_;                   // and aliases
  std::map<std::pair<dev_t, ino_t>, size_t> models_by_inode_;  // where catalog_ has them
  std::vector<std::pair<size_t, std::string>> other_names_;    // of catalog_.models
  Catalog catalog_;
};

const CachedDescription& Scan::description_of(const FoundFile& file, const FileState& state) {
  const std::string key = file.path.string();
  const auto found = known_.find(key);
  if (found != known_.end() && static_cast<const FileState&>(found->second) == state)
    return seen_.insert_or_assign(key, found->second).first->second;
  changed_ = true;
  return seen_.insert_or_assign(key, look_into(file.path, state)).first->second;
}

std::string Scan::free_name(const FoundFile& file) const {
  if (!taken(file.name)) return file.name;
  if (!taken(file.longer_name)) return file.longer_name;
  for (int number = 2;; ++number) {
    std::string name = fmt::format("{}#{}", file.longer_name, number);
    if (!taken(name)) return name;
  }
}

void Scan::add(const FoundFile& file) {
  struct stat status{};
  if (::stat(file.path.c_str(), &status) != 0) {
    catalog_.skipped.push_back({file.path, errno == ENOENT ? "its file is not there" : "its file cannot be read"});
    return;
  }
  const auto [same, first] = models_by_inode_.try_emplace({status.st_dev, status.st_ino}, catalog_.models.size());
  if (!first && same->second < catalog_.models.size()) {
    if (names_.insert(file.name).second) catalog_.models[same->second].aliases.push_back(file.name);
    return;
  }
  const FileState state(status);
  const CachedDescription& described = description_of(file, state);
  if (!described.broken.empty()) catalog_.skipped.push_back({file.path, described.broken});
  if (!described.model) {
    models_by_inode_.erase(same);
    return;
  }
  CatalogModel model;
  static_cast<ModelSummary&>(model) = *described.model;
  model.name = free_name(file);
  model.path = file.path;
  model.source = file.source;
  model.file_state = state;
  model.modified_unix_s = state.modified_ns / kNsPerSecond;
  model.digest = file.digest;
  names_.insert(model.name);
  if (!file.other_name.empty()) other_names_.emplace_back(catalog_.models.size(), file.other_name);
  catalog_.models.push_back(std::move(model));
}

void Scan::add_made(const std::filesystem::path& folder) {
  const size_t files = catalog_.models.size();  // a base has one
  for (const std::filesystem::path& path : made_files(folder)) {
    const auto skip = [&](std::string reason) { catalog_.skipped.push_back({path, std::move(reason)}); };
    auto made = read_made(path);
    if (!made) {
      skip("a made model: " + made.error().message);
      continue;
    }
    const std::span<const CatalogModel> bases(catalog_.models.data(), files);
    const auto base = std::ranges::find_if(bases, [&](const CatalogModel& model) {
      return is_called({model.name, model.aliases, model.kind}, made->base);
    });
    const auto state = FileState::of(path);
    if (base == bases.end() || !state) {
      skip(fmt::format("its base {} is not here", printable(made->base)));
      continue;
    }
    if (!names_.insert(made->name).second) {
      skip(fmt::format("a file's model is named {}", made->name));
      continue;
    }
    CatalogModel model = *base;
    model.name = made->name;
    model.aliases.clear();
    model.modified_unix_s = state->modified_ns / kNsPerSecond;
    model.digest.clear();
    if (!made->chat_template.empty() && model.kind == ModelKind::kText) model.kind = ModelKind::kChat;
    model.made = std::make_shared<const MadeModel>(*std::move(made));
    catalog_.models.push_back(std::move(model));
  }
}

}  // namespace

Catalog scan_models(const std::vector<ModelPlace>& places, const std::filesystem::path& cache_file) {
  std::vector<FoundFile> found;
  std::vector<SkippedFile> skipped;
  for (const ModelPlace& place : places) find_files(place, found, skipped);
  Scan scan(cache_file.empty() ? DescriptionCache() : read_descriptions(cache_file));
  scan.skip(std::move(skipped));
  for (const FoundFile& file : found) scan.add(file);
  if (!cache_file.empty() && scan.changed()) {
    if (const auto written = write_descriptions(cache_file, scan.known()); !written)
      log_debug("what the models' headers say is not kept: {}", written.error().text());
  }
  scan.add_other_names();
  for (const ModelPlace& place : places)
    if (place.source == ModelSource::kOwn) scan.add_made(place.folder);
  return scan.take();
}

Result<CatalogModel> describe_file(const std::filesystem::path& path) {
  const FileState state = FileState::of(path).value_or(FileState());  // before it is read: a later one is read anew
  CAIRN_TRY(const gguf::Reader file, gguf::Reader::open(path));
  auto described = describe_model(file);
  if (!described) return fail(Code::kUnsupported, "{} is no model, but belongs to one", printable(path.string()));
  CatalogModel model;
  static_cast<ModelSummary&>(model) = *std::move(described);
  model.name = model_name_of(path);
  model.path = path;
  model.source = ModelSource::kGiven;
  model.file_state = state;
  model.modified_unix_s = state.modified_ns / kNsPerSecond;
  return model;
}

}  // namespace cairn::loader
