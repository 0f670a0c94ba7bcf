/// The disk tier of a model's KV cache: what its pages belong to, and its folder.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "gguf/reader.h"

namespace cairn::cache {
struct KvLayout;
}  // namespace cairn::cache
namespace cairn::cache::disk {
class DiskTier;
}  // namespace cairn::cache::disk
namespace cairn::model {
struct ModelOptions;
}  // namespace cairn::model

namespace cairn::loader {

struct Device;

struct KvDiskOptions {
  std::string folder;                 ///< empty: no disk tier
  int64_t bytes = int64_t{32} << 30;  ///< of the folder's pages
  int64_t daily_bytes = 0;            ///< see disk::StoreOptions
};

/// Everything that decides about the bytes of pages, besides their tokens and their layout. A view.
struct KvIdentity {
  const gguf::Reader& file;
  const model::ModelOptions& model;
  const Device& device;
  int32_t context_tokens = 0;  ///< counts only where rope's factors depend on it
};

/// Null without a folder, and if it cannot be used; then a line of the log says why. `about` is JSON for people.
std::shared_ptr<cache::disk::DiskTier> open_kv_disk(const KvDiskOptions& options, const cache::KvLayout& layout,
                                                    const KvIdentity& identity, std::string_view about);

}  // namespace cairn::loader
