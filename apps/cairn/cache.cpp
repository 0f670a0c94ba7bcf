// cairn cache: what the disk tier of the KV cache holds, and how it goes (docs/kv-disk.md).
#include <fmt/core.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/hash.h"
#include "base/text/bytes_text.h"
#include "base/text/printable.h"
#include "cache/disk/disk_tier.h"
#include "commands.h"
#include "load_flags.h"
#include "output.h"

namespace cairn {
namespace {

constexpr size_t kNameShownMax = 200;

struct CacheFlags {
  std::string folder;
  std::string tenant;
};

Result<std::unique_ptr<cache::disk::PageStore>> open_store(cache::disk::Files& files, const std::string& folder) {
  // Opening would make a folder of any place.
  if (!files.exists(folder + "/secret")) return fail(Code::kNotFound, "{} holds no keys and values", folder);
  // No limit, so that nothing is evicted.
  return cache::disk::PageStore::open(files, folder, {.bytes_max = INT64_MAX, .daily_bytes_max = 0, .unix_s = {}});
}

Result<void> list(const CacheFlags& flags) {
  const auto files = cache::disk::system_files();
  CAIRN_TRY(const auto store, open_store(*files, flags.folder));
  for (const cache::disk::SpaceSummary& space : store->spaces()) {
    const auto about = nlohmann::json::parse(space.about, nullptr, false);
    const auto said = [&](const char* key) {
      return printable(about.is_object() ? about.value(key, "?") : std::string("?"), kNameShownMax);
    };
    print("{}  {} {} {} ({})  {} pages, {}\n", space.name.substr(0, 8), said("model"), said("architecture"),
          said("quantisation"), said("file"), space.pages, bytes_text(space.bytes));
    for (const auto& [owner, bytes] : space.owners) print("          tenant {:016x}  {}\n", owner, bytes_text(bytes));
  }
  const cache::disk::StoreCounts counts = store->counts();
  print("{} pages, {}\n", counts.pages, bytes_text(counts.bytes));
  return {};
}

Result<void> verify(const CacheFlags& flags) {
  const auto files = cache::disk::system_files();
  CAIRN_TRY(const auto store, open_store(*files, flags.folder));
  const int64_t before = store->counts().pages;
  const int64_t wrong = store->verify();
  print("{} pages are as they were written, {} were not and are forgotten\n", before - wrong, wrong);
  return {};
}

Result<void> clear(const CacheFlags& flags) {
  const auto files = cache::disk::system_files();
  if (flags.tenant.empty()) {
    if (!files->exists(flags.folder + "/secret"))
      return fail(Code::kNotFound, "{} holds no keys and values", flags.folder);
    CAIRN_TRY_VOID(cache::disk::PageStore::erase_all(*files, flags.folder));
    print("everything is deleted\n");
    return {};
  }
  CAIRN_TRY(const auto store, open_store(*files, flags.folder));
  // An API key, as api/http/tenant.h makes a name of it; that name; or what `list` shows.
  std::vector<uint64_t> owners = {
      cache::disk::DiskTier::owner(*store, hash64(fmt::format("{:016x}", hash64(flags.tenant)))),
      cache::disk::DiskTier::owner(*store, hash64(flags.tenant)),
  };
  uint64_t shown = 0;
  if (flags.tenant.size() == 16 && std::sscanf(flags.tenant.c_str(), "%16lx", &shown) == 1) owners.push_back(shown);
  CAIRN_TRY(const int64_t pages, store->erase(owners));
  print("{} pages of that tenant are deleted\n", pages);
  return {};
}

}  // namespace

void add_kv_disk_flags(CLI::App& command, loader::KvDiskOptions& options, CLI::Option* no_cache) {
  auto* folder = command
                     .add_option("--kv-disk", options.folder,
                                 "Folder in which keys and values outlive the process: they hold what was asked, "
                                 "readable for this user alone (default: none)")
                     ->excludes(no_cache);
  command.add_option("--kv-disk-bytes", options.bytes, "What --kv-disk may take, e.g. 64GiB (default: 32GiB)")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::PositiveNumber)
      ->needs(folder);
  command
      .add_option("--kv-disk-daily-bytes", options.daily_bytes,
                  "What may be written to --kv-disk on a day, which spares the drive; 0: no limit")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::NonNegativeNumber)
      ->needs(folder);
}

void add_cache(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("cache", "Shows, checks or deletes what --kv-disk keeps");
  command->require_subcommand(1);
  auto flags = std::make_shared<CacheFlags>();
  const auto add = [&](const char* name, const char* help, Result<void> (*run)(const CacheFlags&)) {
    auto* one = command->add_subcommand(name, help);
    one->add_option("folder", flags->folder, "The folder of --kv-disk")->required()->check(CLI::ExistingDirectory);
    add_log_flag(*one);
    one->callback([flags, run, &exit_code] {
      if (const auto done = run(*flags); !done) exit_code = report(done.error());
    });
    return one;
  };
  add("list", "Models, tenants, pages and bytes", list);
  add("verify", "Reads every page, and forgets those that are not what was written", verify);
  add("clear", "Deletes everything, or what one tenant has", clear)
      ->add_option("--tenant", flags->tenant, "An API key, or a tenant as `list` shows it");
}

}  // namespace cairn
