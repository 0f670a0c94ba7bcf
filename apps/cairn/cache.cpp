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
#include "help/help_format.h"
#include "load_flags.h"
#include "output.h"

namespace cairn {
namespace {

constexpr size_t kNameShownMax = 200;

struct CacheFlags {
  std::string folder;
  std::string tenant;
};

std::unexpected<Error> no_cache_in(const std::string& folder) {
  return fail(Code::kNotFound, "{} is not a folder of cached keys and values; give the one of cairn serve --kv-disk",
              folder);
}

Result<std::unique_ptr<cache::disk::PageStore>> open_store(cache::disk::Files& files, const std::string& folder) {
  // Opening would make a folder of any place.
  if (!files.exists(folder + "/secret")) return no_cache_in(folder);
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
  print("{} pages are intact; {} were damaged and are dropped\n", before - wrong, wrong);
  return {};
}

Result<void> clear(const CacheFlags& flags) {
  const auto files = cache::disk::system_files();
  if (flags.tenant.empty()) {
    if (!files->exists(flags.folder + "/secret")) return no_cache_in(flags.folder);
    CAIRN_TRY_VOID(cache::disk::PageStore::erase_all(*files, flags.folder));
    print("deleted everything in {}\n", flags.folder);
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
  print("deleted {} pages of that tenant\n", pages);
  return {};
}

}  // namespace

void add_cache(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("cache", "Show, check or delete what cairn serve --kv-disk keeps");
  set_help(*command, "cairn cache list /var/cache/cairn");
  auto flags = std::make_shared<CacheFlags>();
  const auto add = [&](const char* name, const char* help, Result<void> (*run)(const CacheFlags&)) {
    auto* one = command->add_subcommand(name, help);
    set_help(*one, fmt::format("cairn cache {} /var/cache/cairn", name));
    one->add_option("FOLDER", flags->folder, "The folder given to --kv-disk")->required();
    add_log_flag(*one);
    one->callback([flags, run, &exit_code] {
      if (const auto done = run(*flags); !done) exit_code = report(done.error());
    });
    return one;
  };
  add("list", "List models, tenants, pages and bytes", list);
  add("verify", "Read every page, and drop those that are damaged", verify);
  add("clear", "Delete everything, or what belongs to one tenant", clear)
      ->add_option(
          "--tenant", flags->tenant,
          "Delete only this tenant's pages: an API key, or a tenant as cairn cache list shows it (default: all)")
      ->type_name("KEY");
}

}  // namespace cairn
