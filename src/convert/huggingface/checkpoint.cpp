#include "convert/huggingface/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <system_error>
#include <utility>

#include "base/text/printable.h"
#include "convert/huggingface/model_config.h"

namespace cairn::convert {
namespace {

namespace fs = std::filesystem;

bool is_file(const fs::path& path) {
  std::error_code missing;
  return fs::is_regular_file(path, missing);
}

// The parts NAME-00001-of-00003.safetensors, which some repositories have without an index.
std::vector<fs::path> numbered_parts(const fs::path& folder, std::string_view name) {
  std::vector<fs::path> parts;
  std::error_code missing;
  const std::string begin = fmt::format("{}-", name);
  for (const auto& entry : fs::directory_iterator(folder, missing)) {
    const std::string file = entry.path().filename().string();
    if (file.starts_with(begin) && file.contains("-of-") && file.ends_with(".safetensors"))
      parts.push_back(entry.path());
  }
  std::ranges::sort(parts);
  return parts;
}

}  // namespace

Result<void> Checkpoint::add_file(const fs::path& path) {
  if (files_.size() >= kCheckpointFilesMax) {
    return fail(Code::kTooLarge, "the model has more than {} weight files", kCheckpointFilesMax);
  }
  CAIRN_TRY(MappedFile file, MappedFile::open(path));
  auto tensors = parse_safetensors(file.bytes());
  if (!tensors) {
    Error error = std::move(tensors).error();
    error.message = fmt::format("{}: {}", path.string(), error.message);
    return std::unexpected(std::move(error));
  }
  for (NamedTensor& each : *tensors) {
    if (!tensors_.emplace(each.name, std::move(each.tensor)).second) {
      return fail(Code::kCorruptFile, "{}: the tensor {} is also in another file", path.string(), printable(each.name));
    }
  }
  files_.push_back(std::move(file));
  return {};
}

Result<void> Checkpoint::add_indexed(const fs::path& folder, const fs::path& index) {
  CAIRN_TRY(const nlohmann::json json, read_json_file(index, kJsonFileBytesMax));
  const auto map = json.find("weight_map");
  if (map == json.end() || !map->is_object()) {
    return fail(Code::kCorruptFile, "{}: there is no weight_map, which says where tensors are", index.string());
  }
  std::set<std::string> files;
  for (const auto& [name, file] : map->items()) {
    if (!file.is_string() ||
        fs::path(file.get_ref<const std::string&>()).filename().string() != file.get_ref<const std::string&>()) {
      return fail(Code::kCorruptFile, "{}: the place of tensor {} is no file name", index.string(), printable(name));
    }
    files.insert(file.get<std::string>());
  }
  for (const std::string& file : files) CAIRN_TRY_VOID(add_file(folder / file));
  for (const auto& [name, file] : map->items()) {
    if (!tensors_.contains(name)) {
      return fail(Code::kCorruptFile, "{}: tensor {} is not in {}", index.string(), printable(name),
                  printable(file.get_ref<const std::string&>()));
    }
  }
  return {};
}

Result<Checkpoint> Checkpoint::open_file(const fs::path& path) {
  Checkpoint checkpoint;
  CAIRN_TRY_VOID(checkpoint.add_file(path));
  return checkpoint;
}

Result<Checkpoint> Checkpoint::open(const fs::path& folder, std::string_view name) {
  const fs::path single = folder / fmt::format("{}.safetensors", name);
  const fs::path index = folder / fmt::format("{}.safetensors.index.json", name);
  Checkpoint checkpoint;
  if (is_file(index)) {
    CAIRN_TRY_VOID(checkpoint.add_indexed(folder, index));
    return checkpoint;
  }
  if (is_file(single)) {
    CAIRN_TRY_VOID(checkpoint.add_file(single));
    return checkpoint;
  }
  const auto parts = numbered_parts(folder, name);
  if (parts.empty()) {
    const bool pickled = is_file(folder / "pytorch_model.bin") || is_file(folder / "pytorch_model.bin.index.json") ||
                         is_file(folder / "adapter_model.bin");
    return fail(
        Code::kNotFound, "{}: there is neither {} nor {}{}", folder.string(), single.filename().string(),
        index.filename().string(),
        pickled ? "; PyTorch's .bin files are programs and are not read, so save the model as safetensors" : "");
  }
  for (const auto& part : parts) CAIRN_TRY_VOID(checkpoint.add_file(part));
  return checkpoint;
}

const StoredTensor* Checkpoint::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

void Checkpoint::release(std::span<const std::byte> bytes) const {
  for (const MappedFile& file : files_) {
    if (file.release(bytes)) return;
  }
}

void Checkpoint::release() const {
  for (const MappedFile& file : files_) file.release(file.bytes());
}

int64_t Checkpoint::bytes() const {
  int64_t sum = 0;
  for (const auto& [name, tensor] : tensors_) sum += static_cast<int64_t>(tensor.bytes.size());
  return sum;
}

}  // namespace cairn::convert
