#include "loader/kv_disk.h"

#include "base/hash.h"
#include "base/log.h"
#include "base/system/mapped_file.h"
#include "base/text/bytes_text.h"
#include "base/version.h"
#include "cache/disk/disk_tier.h"
#include "cache/kv_layout.h"
#include "gguf/fingerprint.h"
#include "kernels/backend.h"
#include "loader/device.h"
#include "model/model_options.h"
#include "model/weights/lora.h"

namespace cairn::loader {
namespace {

constexpr uint64_t kSecondSeed = 0x9e3779b97f4a7c15;

// The hash is of all its bytes, with two seeds; a file that cannot be read has another hash than any that can.
std::string hash_of_file(const std::string& path) {
  const auto file = MappedFile::open(path);
  if (!file.has_value()) return "unreadable " + path;
  return fmt::format("{:016x}{:016x}", hash64(file->bytes()), hash64(file->bytes(), kSecondSeed));
}

std::string hash_of_model(const gguf::Reader& file) {
  return fmt::format("{:016x}{:016x}", gguf::thorough_fingerprint(file), gguf::thorough_fingerprint(file, kSecondSeed));
}

// A program of another build has another identity: its kernels may round in other places.
std::string identity_text(const KvIdentity& identity) {
  std::string text = fmt::format("cairn {} {}; model {}; rounding {}", kVersion, hash_of_file("/proc/self/exe"),
                                 hash_of_model(identity.file), identity.model.simulate_rounding);
  if (identity.model.mtp_file != nullptr) text += "; mtp " + hash_of_model(*identity.model.mtp_file);
  for (const DevicePart& part : identity.device.parts) {
    // "cpu avx2, 2 threads": how many threads there are changes no bit.
    const std::string device = part.backend->description();
    text += "; device " + device.substr(0, device.find(','));
  }
  if (identity.file.find_tensor("rope_factors_long.weight") != nullptr)
    text += fmt::format("; context {}", identity.context_tokens);
  if (const model::ControlVectorOptions& vectors = identity.model.control_vectors; !vectors.file.empty()) {
    text += fmt::format("; steered by {} {} {}", hash_of_file(vectors.file), vectors.attention, vectors.feed_forward);
  }
  for (const model::LoraAdapter& adapter : identity.model.adapters)
    text += fmt::format("; lora {} {}", hash_of_model(adapter.file), adapter.scale);
  return text;
}

}  // namespace

std::shared_ptr<cache::disk::DiskTier> open_kv_disk(const KvDiskOptions& options, const cache::KvLayout& layout,
                                                    const KvIdentity& identity, std::string_view about) {
  if (options.folder.empty()) return nullptr;
  const auto open = [&]() -> Result<std::shared_ptr<cache::disk::DiskTier>> {
    CAIRN_TRY(auto worker,
              cache::disk::DiskWorker::open(
                  options.folder, {.bytes_max = options.bytes, .daily_bytes_max = options.daily_bytes, .unix_s = {}}));
    return cache::disk::DiskTier::create(std::move(worker), layout, identity_text(identity), about);
  };
  auto tier = open();
  if (!tier.has_value()) {
    log_warning("no keys and values are kept on disk: {}", tier.error().text());
    return nullptr;
  }
  const cache::disk::StoreCounts counts = (*tier)->worker().store().counts();
  log_info("keys and values on disk: {} of {} in {}", bytes_text(counts.bytes), bytes_text(options.bytes),
           options.folder);
  return std::move(*tier);
}

}  // namespace cairn::loader
