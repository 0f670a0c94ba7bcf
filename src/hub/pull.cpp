#include "hub/pull.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/log.h"
#include "base/text/bytes_text.h"
#include "base/text/printable.h"
#include "gguf/model_folder.h"
#include "gguf/split.h"

namespace cairn::hub {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kManifestType = "application/vnd.docker.distribution.manifest.v2+json";
constexpr size_t kDigestShown = 12;         // hexadecimal digits, as Ollama has them in its status
constexpr int64_t kDiskReserve = 64 << 20;  // left free for others

/// A file on its way from a hub into the folder.
struct Fetch {
  DownloadSource source;
  fs::path target;
  std::string title() const {
    return source.sha256.empty() ? target.filename().string() : source.sha256.substr(0, kDigestShown);
  }
  std::string digest() const { return source.sha256.empty() ? "" : "sha256:" + source.sha256; }
};

struct Plan {
  std::vector<Fetch> fetches;
  std::vector<std::string> notes;
};

/// One pull: what its parts share.
struct Pull {
  const ModelName& name;
  const PullOptions& options;
  const OnPullEvent& on_event;
  const std::atomic<bool>& cancelled;

  void say(std::string status) const { on_event({.status = std::move(status), .digest = {}}); }
  Result<net::HttpReply> ask(const std::string& url, const std::string& token, std::string_view accept) const {
    return fetch_text(
        {.url = url, .headers = {{"Accept", std::string(accept)}}, .token = token, .stall = options.limits.stall},
        kAnswerBytesMax, options.limits.attempts, options.limits.first_wait, cancelled);
  }
};

/// Adds what can be done about an answer of Hugging Face that refuses.
Error with_token_hint(Error error, const ModelName& name, const Endpoints& endpoints) {
  if (error.code != Code::kInvalidArgument) return error;
  error.message += fmt::format(
      fmt::runtime(
          endpoints.token.empty()
              ? "; if there is a repository {}/{}, it is private or asks for a licence to be accepted: set HF_TOKEN"
              : "; the token that is set has no right to {}/{}, or its licence is not accepted yet"),
      name.owner, name.model);
  return error;
}

/// Adds to the error of a repository that cannot be listed what with_token_hint() adds, and what else its name could
/// have meant.
Error explained(Error error, const ModelName& name, const Endpoints& endpoints) {
  error = with_token_hint(std::move(error), name, endpoints);
  if (error.code == Code::kInvalidArgument || error.code == Code::kNotFound)
    error.message +=
        fmt::format("; the model {0}/{1} of Ollama's registry would be ollama.com/{0}/{1}", name.owner, name.model);
  return error;
}

/// The address of the next page in a Link header; empty: there is none.
std::string next_page(std::string_view link) {
  const size_t begin = link.find('<'), end = link.find('>');
  if (begin == std::string_view::npos || end == std::string_view::npos || end < begin) return {};
  if (link.substr(end).find("rel=\"next\"") == std::string_view::npos) return {};
  return std::string(link.substr(begin + 1, end - begin - 1));
}

Result<std::vector<RemoteFile>> list_repository(const Pull& pull) {
  const Endpoints& endpoints = pull.options.endpoints;
  std::string url = fmt::format("{}/api/models/{}/{}/tree/main?recursive=true", endpoints.hugging_face, pull.name.owner,
                                pull.name.model);
  std::vector<RemoteFile> files;
  for (int page = 0; !url.empty(); ++page) {
    if (page == kPagesMax)
      return fail(Code::kTooLarge, "the list of {} has more than {} pages", pull.name.text(), kPagesMax);
    const auto answer = pull.ask(url, endpoints.token, "application/json");
    if (!answer) return std::unexpected(explained(answer.error(), pull.name, endpoints));
    CAIRN_TRY(std::vector<RemoteFile> more, read_file_list(answer->body));
    if (files.size() + more.size() > kFilesMax)
      return fail(Code::kTooLarge, "{} has more than {} GGUF files", pull.name.text(), kFilesMax);
    std::ranges::move(more, std::back_inserter(files));
    url = next_page(answer->header("link"));
    // The token is for this hub alone.
    if (!url.empty() && !url.starts_with(endpoints.hugging_face + "/"))
      return fail(Code::kCorruptFile, "the hub's list goes on at another address, {}", printable(url));
  }
  return files;
}

Result<Plan> plan_hugging_face(const Pull& pull) {
  const ModelName& name = pull.name;
  const Endpoints& endpoints = pull.options.endpoints;
  CAIRN_TRY(const std::vector<RemoteFile> files, list_repository(pull));
  CAIRN_TRY(Choice choice, choose_files(name, files, pull.options.memory_bytes));
  Plan plan;
  if (!choice.reason.empty()) plan.notes.push_back(choice.reason);
  std::ranges::move(choice.left_out, std::back_inserter(plan.notes));
  const std::vector<RemoteFile> projector = projector_of(files);
  if (!projector.empty() && pull.options.projector) choice.files.push_back(projector[0]);
  if (!projector.empty() && !pull.options.projector)
    plan.notes.push_back(
        fmt::format("the vision projector {} is left out: Cairn reads text alone (--mmproj fetches it)",
                    printable(projector[0].path)));
  for (const RemoteFile& file : choice.files) {
    plan.fetches.push_back({{.url = fmt::format("{}/{}/{}/resolve/main/{}", endpoints.hugging_face, name.owner,
                                                name.model, url_path(file.path)),
                             .token = endpoints.token,
                             .bytes = file.bytes,
                             .sha256 = file.sha256},
                            pull.options.folder / name.folder() / file.path});
  }
  return plan;
}

Result<Plan> plan_ollama(const Pull& pull) {
  const ModelName& name = pull.name;
  const std::string base = fmt::format("{}/v2/{}/{}", pull.options.endpoints.ollama, name.owner, name.model);
  const auto answer = pull.ask(fmt::format("{}/manifests/{}", base, name.tag), "", kManifestType);
  if (!answer && answer.error().code == Code::kNotFound)
    return fail(Code::kNotFound, "{}; Ollama's registry has no {}", answer.error().message, name.text());
  if (!answer) return std::unexpected(answer.error());
  CAIRN_TRY(const OllamaManifest manifest, read_manifest(answer->body));
  Plan plan;
  for (const std::string& kind : manifest.other) {
    if (kind == "params" || kind == "system" || kind == "adapter" || kind == "projector")
      plan.notes.push_back(fmt::format("the model's {} of Ollama is left out: the GGUF file alone is used", kind));
  }
  plan.fetches.push_back({{.url = fmt::format("{}/blobs/{}", base, manifest.model.path),
                           .token = {},
                           .bytes = manifest.model.bytes,
                           .sha256 = manifest.model.sha256},
                          pull.options.folder / name.folder() / (name.tag + ".gguf")});
  return plan;
}

/// The lowest folder above `path` that exists.
fs::path existing_folder(fs::path path) {
  std::error_code error;
  while (path.has_relative_path() && !fs::is_directory(path, error)) path = path.parent_path();
  return path;
}

Result<void> check_disk(const Plan& plan) {
  int64_t wanted = 0;
  for (const Fetch& fetch : plan.fetches) {
    std::error_code error;
    const auto there = fs::file_size(fetch.target, error);
    if (!error && static_cast<int64_t>(there) == fetch.source.bytes) continue;
    wanted += fetch.source.bytes - loaded_bytes(fetch.target, fetch.source);
  }
  const fs::path folder = existing_folder(plan.fetches[0].target.parent_path());
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  if (error || wanted == 0) return {};
  const auto free = static_cast<int64_t>(std::min<uintmax_t>(space.available, static_cast<uintmax_t>(INT64_MAX)));
  if (wanted + std::min(kDiskReserve, wanted) <= free) return {};
  return fail(Code::kIo,
              "the disk of {} has {} free, and the model needs {} more: make room, or choose another folder "
              "with --models",
              folder.string(), bytes_text(free), bytes_text(wanted));
}

void remove_empty_folders(fs::path folder, const fs::path& root) {
  std::error_code error;
  while (folder != root && folder.has_relative_path() && fs::remove(folder, error) && !error)
    folder = folder.parent_path();
}

Result<void> fetch_one(const Pull& pull, const Fetch& fetch) {
  const auto loading = [&](int64_t completed) {
    pull.on_event({.status = "pulling " + fetch.title(),
                   .digest = fetch.digest(),
                   .total = fetch.source.bytes,
                   .completed = completed});
  };
  bool told = false;  // that all of it is here
  const auto on_progress = [&](const DownloadProgress& progress) {
    switch (progress.stage) {
      case DownloadProgress::Stage::kWaiting:
        return pull.on_event({.status = "waiting for another pull of " + fetch.title(), .digest = fetch.digest()});
      case DownloadProgress::Stage::kVerifying:
        return pull.on_event({.status = "verifying sha256 digest", .digest = fetch.digest()});
      case DownloadProgress::Stage::kLoading:
        told = progress.completed == progress.total;
        return loading(progress.completed);
    }
  };
  CAIRN_TRY_VOID(download(fetch.source, fetch.target, pull.options.limits, on_progress, pull.cancelled));
  if (!told) loading(fetch.source.bytes);
  return {};
}

}  // namespace

Result<std::vector<fs::path>> pull(const ModelName& name, const PullOptions& options, const OnPullEvent& on_event,
                                   const std::atomic<bool>& cancelled) {
  const Pull pull{name, options, on_event, cancelled};
  pull.say("pulling manifest");
  CAIRN_TRY(const Plan plan, name.hub == Hub::kOllama ? plan_ollama(pull) : plan_hugging_face(pull));
  for (const std::string& note : plan.notes) pull.say(note);
  CAIRN_TRY_VOID(check_disk(plan));
  std::vector<fs::path> paths;
  for (const Fetch& fetch : plan.fetches) {
    if (const auto done = fetch_one(pull, fetch); !done) {
      remove_empty_folders(fetch.target.parent_path(), options.folder);
      return std::unexpected(name.hub == Hub::kHuggingFace ? with_token_hint(done.error(), name, options.endpoints)
                                                           : done.error());
    }
    paths.push_back(fetch.target);
  }
  pull.say("writing manifest");
  return paths;
}

namespace {

/// The files of a repository's folder as the hub's list would have them.
std::vector<RemoteFile> files_below(const fs::path& folder) {
  std::vector<RemoteFile> files;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, fs::directory_options::skip_permission_denied, error), end;
       !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (!gguf::is_gguf_name(entry->path().native()) || !entry->is_regular_file(ignored)) continue;
    const auto bytes = static_cast<int64_t>(entry->file_size(ignored));
    files.push_back({entry->path().lexically_relative(folder).string(), bytes, {}});
    if (files.size() == kFilesMax) break;
  }
  std::ranges::sort(files, {}, &RemoteFile::path);
  return files;
}

std::unexpected<Error> not_pulled(const ModelName& name, const fs::path& folder) {
  return fail(Code::kNotFound, "{} is not in {}", name.text(), folder.string());
}

/// Unfinished files of the model: all of them, for a name that does not say a file.
std::vector<fs::path> unfinished(const ModelName& name, const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder / name.folder(), error), end; !error && entry != end;
       entry.increment(error)) {
    std::string file = entry->path().lexically_relative(folder / name.folder()).string();
    for (const std::string_view suffix : {".new", ".json"})
      if (file.ends_with(suffix)) file.resize(file.size() - suffix.size());
    if (!file.ends_with(gguf::kPartSuffix)) continue;
    file.resize(file.size() - gguf::kPartSuffix.size());
    const bool meant = name.hub == Hub::kOllama ? file == name.tag + ".gguf"
                       : !name.file.empty()     ? file == name.file
                       : !name.tag.empty()
                           ? gguf::quantisation_label(file) == gguf::quantisation_label("-" + name.tag + ".gguf")
                           : true;
    if (meant) paths.push_back(entry->path());
  }
  return paths;
}

}  // namespace

Result<std::vector<fs::path>> find_pulled(const ModelName& name, const fs::path& folder, int64_t memory_bytes) {
  const fs::path below = folder / name.folder();
  std::error_code error;
  if (name.hub == Hub::kOllama) {
    const fs::path path = below / (name.tag + ".gguf");
    if (!fs::is_regular_file(path, error)) return not_pulled(name, folder);
    return std::vector<fs::path>{path};
  }
  const std::vector<RemoteFile> files = files_below(below);
  if (files.empty()) return not_pulled(name, folder);
  auto choice = choose_files(name, files, memory_bytes);
  if (!choice && choice.error().code == Code::kInvalidArgument) return std::unexpected(choice.error());
  if (!choice && choice.error().code != Code::kOutOfMemory) return not_pulled(name, folder);
  if (memory_bytes == 0 && (!choice || !choice->reason.empty())) {
    std::string list;
    for (const RemoteFile& file : files)
      list += fmt::format("{}{}/{}/{}", list.empty() ? "" : ", ", name.owner, name.model, file.path);
    return fail(Code::kInvalidArgument, "{} has several files here; say which one: {}", name.text(),
                printable(list, kEchoBytesMax * 8));
  }
  if (!choice) return std::unexpected(choice.error());
  for (const std::string& line : choice->left_out) log_info("{} in {}: {}", name.text(), below.string(), line);
  // What is here may be but the head of a model that is not.
  const bool says_which = !name.file.empty() || is_beside_models(name.tag) || is_beside_models(name.model);
  if (!says_which && is_beside_models(choice->files[0].path)) return not_pulled(name, folder);
  std::vector<fs::path> paths;
  for (const RemoteFile& file : choice->files) paths.push_back(below / file.path);
  return paths;
}

Result<Removed> remove_pulled(const ModelName& name, const fs::path& folder) {
  const auto found = find_pulled(name, folder, 0);
  if (!found && found.error().code != Code::kNotFound) return std::unexpected(found.error());
  std::vector<fs::path> paths = unfinished(name, folder);
  if (found) paths.insert(paths.begin(), found->begin(), found->end());
  // A projector is of no use without its model.
  std::vector<fs::path> rest;
  for (const RemoteFile& file : files_below(folder / name.folder())) rest.push_back(folder / name.folder() / file.path);
  std::erase_if(rest, [&](const fs::path& path) { return std::ranges::find(paths, path) != paths.end(); });
  if (std::ranges::all_of(rest, [](const fs::path& path) { return gguf::is_projector(path.string()); }))
    paths.insert(paths.end(), rest.begin(), rest.end());
  if (paths.empty()) return std::unexpected(found.error());
  std::error_code error;
  const fs::path root = fs::canonical(folder, error);
  Removed removed;
  for (const fs::path& path : paths) {
    // A folder that is a link may lead out of the models folder.
    const fs::path real = fs::canonical(path.parent_path(), error);
    if (error || std::ranges::mismatch(root, real).in1 != root.end())
      return fail(Code::kInvalidArgument, "{} lies outside of {}, so it is left alone", path.string(), folder.string());
    const auto bytes = fs::is_symlink(path, error) ? 0 : fs::file_size(path, error);
    if (!fs::remove(path, error) || error)
      return fail(Code::kIo, "cannot delete {}: {}", path.string(), error.message());
    removed.bytes += static_cast<int64_t>(bytes);
    removed.files.push_back(path);
    remove_empty_folders(path.parent_path(), folder);
  }
  return removed;
}

}  // namespace cairn::hub
