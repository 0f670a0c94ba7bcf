#include "model/weights/pack_cache.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/log.h"
#include "gguf/fingerprint.h"
#include "gguf/writer.h"

namespace cairn::model {
namespace {

constexpr uint32_t kAlignment = 64;
constexpr std::string_view kFormatKey = "cairn.packed.format", kIdentityKey = "cairn.packed.identity";
constexpr std::string_view kChecksumsKey = "cairn.packed.checksums";  // of the tensors, in their order

std::string identity_of(const std::filesystem::path& path, const gguf::Reader& model) {
  struct stat status{};
  const int64_t modified_ns =
      ::stat(path.c_str(), &status) == 0 ? status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec : 0;
  return fmt::format("{:016x} {}", gguf::fingerprint(model), modified_ns);
}

int64_t checksum_of(std::span<const std::byte> bytes) { return static_cast<int64_t>(hash64(bytes)); }

// Reads all of it, which the first step would do.
bool is_whole(const gguf::Reader& file) {
  const auto checksums = file.metadata().integers(kChecksumsKey);
  return checksums.has_value() && std::ranges::equal(file.tensors(), *checksums, {},
                                                     [](const auto& tensor) { return checksum_of(tensor.bytes); });
}

std::filesystem::path packed_path(std::filesystem::path model_path) {
  model_path += ".packed";
  return model_path;
}

}  // namespace

PackCache::PackCache(const std::filesystem::path& model_path, const gguf::Reader& model, std::string_view format)
    : path_(packed_path(model_path)), format_(format), identity_(identity_of(model_path, model)) {
  if (format_.empty()) {
    log_warning("pack cache: not used: weights are on a device with memory of its own, as the file has them");
    return;
  }
  std::error_code none;
  if (!std::filesystem::exists(path_, none)) return;
  auto file = gguf::Reader::open(path_);
  if (!file) {
    log_warning("pack cache: {}; it will be made again", file.error().text());
    return;
  }
  const auto is = [&file](std::string_view key, std::string_view wanted) {
    const auto value = file->metadata().string(key);
    return value.has_value() && *value == wanted;
  };
  if (!is(kFormatKey, format_) || !is(kIdentityKey, identity_)) {
    log_info("pack cache: {} was made from another file or by another version; it will be made again", path_.string());
  } else if (!is_whole(*file)) {
    log_warning("pack cache: {} is damaged: its weights are not what was written; it will be made again",
                path_.string());
  } else {
    file_ = std::move(*file);
  }
}

std::span<const std::byte> PackCache::find(std::string_view name) const {
  if (!file_) return {};
  const gguf::Tensor* tensor = file_->find_tensor(name);
  return tensor != nullptr && tensor->type == TensorType::kI8 ? tensor->bytes : std::span<const std::byte>{};
}

void PackCache::add(std::string name, std::shared_ptr<kernels::Buffer> copy) {
  if (!format_.empty()) added_.push_back({std::move(name), std::move(copy)});
}

Result<void> PackCache::save() {
  if (added_.empty()) return {};
  CAIRN_TRY(gguf::Writer writer, gguf::Writer::create(path_, kAlignment));
  writer.set("general.architecture", "cairn-packed");
  writer.set(kFormatKey, format_);
  writer.set(kIdentityKey, identity_);
  int64_t bytes = 0;
  std::vector<int64_t> checksums;
  // What an earlier run had and this one did not ask for is left out.
  for (const Copy& copy : added_) {
    const int64_t shape[] = {static_cast<int64_t>(copy.memory->bytes())};
    writer.declare(copy.name, TensorType::kI8, shape);
    bytes += shape[0];
    checksums.push_back(checksum_of({static_cast<const std::byte*>(copy.memory->data()), copy.memory->bytes()}));
  }
  writer.set(kChecksumsKey,
             gguf::Value{gguf::ValueType::kArray, gguf::Array{.type = gguf::ValueType::kI64,
                                                              .size = checksums.size(),
                                                              .numbers = std::as_bytes(std::span(checksums)),
                                                              .strings = {},
                                                              .arrays = {}}});
  for (const Copy& copy : added_) {
    CAIRN_TRY_VOID(writer.write({static_cast<const std::byte*>(copy.memory->data()), copy.memory->bytes()}));
  }
  CAIRN_TRY_VOID(writer.finish());
  added_.clear();
  log_info("pack cache: {} MiB written to {}", bytes >> 20, path_.string());
  return {};
}

}  // namespace cairn::model
