#include "convert/contents.h"

#include <algorithm>
#include <functional>
#include <string>
#include <system_error>

#include "gguf/encode.h"
#include "gguf/parse.h"
#include "gguf/split.h"

namespace cairn::convert {
namespace {

// Bytes between two calls of OnCopy.
constexpr size_t kCopyBytes = size_t{8} << 20;

// Bytes of the header before the metadata, and those of a tensor's entry besides its name and its dimensions.
constexpr int64_t kHeaderBytes = 24;
constexpr int64_t kEntryBytes = 24;

int64_t entry_bytes(const gguf::Tensor& tensor) {
  return kEntryBytes + std::ssize(tensor.name) + 8 * std::ssize(tensor.shape);
}

bool is_same_file(const std::filesystem::path& a, const std::filesystem::path& b) {
  std::error_code missing;  // a file that does not exist is not the same file
  return a == b || std::filesystem::equivalent(a, b, missing);
}

int64_t aligned(int64_t bytes, int64_t alignment) { return (bytes + alignment - 1) / alignment * alignment; }

Result<void> copy_tensor(const gguf::Tensor& tensor, gguf::Writer& writer, CopyProgress& progress,
                         const OnCopy& on_copy) {
  progress.tensor = tensor.name;
  for (size_t begin = 0; begin < tensor.bytes.size(); begin += kCopyBytes) {
    const auto piece = tensor.bytes.subspan(begin, std::min(kCopyBytes, tensor.bytes.size() - begin));
    CAIRN_TRY_VOID(writer.write(piece));
    progress.bytes_done += std::ssize(piece);
    if (on_copy) on_copy(progress);
  }
  return {};
}

}  // namespace

Contents Contents::of(const gguf::Reader& file) {
  Contents contents;
  for (const auto& [key, value] : file.metadata().values()) {
    if (!is_split_key(key)) contents.metadata.emplace_back(key, value);
  }
  // Keys point into one header, so that their places in memory are their order in the file.
  std::ranges::sort(contents.metadata, std::less<>(), [](const auto& entry) { return entry.first.data(); });
  contents.tensors.assign(file.tensors().begin(), file.tensors().end());
  return contents;
}

gguf::Value* Contents::find(std::string_view key) {
  const auto found = std::ranges::find(metadata, key, [](const auto& entry) { return entry.first; });
  return found == metadata.end() ? nullptr : &found->second;
}

int64_t Contents::tensor_bytes() const {
  int64_t bytes = 0;
  for (const gguf::Tensor& tensor : tensors) bytes += std::ssize(tensor.bytes);
  return bytes;
}

int64_t Contents::alignment() const {
  const auto found = std::ranges::find(metadata, "general.alignment", [](const auto& entry) { return entry.first; });
  if (found == metadata.end()) return gguf::kAlignmentDefault;
  const auto wanted = gguf::Metadata({{found->first, found->second}}).integer(found->first);
  return wanted && gguf::alignment_problem(*wanted) == nullptr ? *wanted : gguf::kAlignmentDefault;
}

Result<int64_t> Contents::file_bytes() const {
  int64_t header = kHeaderBytes;
  for (const auto& [key, value] : metadata) {
    std::string encoded;
    CAIRN_TRY_VOID(gguf::append_value(encoded, value, gguf::strings_of(key)));
    header += static_cast<int64_t>(8 + key.size() + encoded.size());
  }
  int64_t data = 0;
  for (const gguf::Tensor& tensor : tensors) {
    header += entry_bytes(tensor);
    data += aligned(std::ssize(tensor.bytes), alignment());
  }
  return aligned(header, alignment()) + data;
}

int64_t Contents::added_bytes(const gguf::Tensor& tensor) const {
  return aligned(entry_bytes(tensor), alignment()) + aligned(std::ssize(tensor.bytes), alignment());
}

Result<void> check_output(const std::filesystem::path& in, const std::filesystem::path& out) {
  std::vector<std::filesystem::path> parts = {in};
  if (const auto name = gguf::split_name(in.filename().string())) {
    for (uint32_t part = 1; part <= std::min(name->parts, gguf::kSplitsMax); ++part) {
      parts.push_back(in.parent_path() / gguf::split_file_name(*name, part));
    }
  }
  for (const auto& part : parts) {
    if (is_same_file(part, out)) {
      return fail(Code::kInvalidArgument, "the output {} would replace the input; give it another name", out.string());
    }
  }
  return {};
}

Result<gguf::Writer> write_contents(const Contents& contents, const std::filesystem::path& out, CopyProgress& progress,
                                    const OnCopy& on_copy) {
  CAIRN_TRY(gguf::Writer writer, gguf::Writer::create(out));
  for (const auto& [key, value] : contents.metadata) writer.set(key, value);
  for (const gguf::Tensor& tensor : contents.tensors) writer.declare(tensor.name, tensor.type, tensor.shape);
  for (const gguf::Tensor& tensor : contents.tensors) CAIRN_TRY_VOID(copy_tensor(tensor, writer, progress, on_copy));
  return writer;
}

Result<void> write_file(const Contents& contents, const std::filesystem::path& out,
                        std::initializer_list<const gguf::Reader*> read, const OnCopy& on_copy) {
  CopyProgress progress{.bytes_total = contents.tensor_bytes()};
  CAIRN_TRY(gguf::Writer writer, write_contents(contents, out, progress, on_copy));
  for (const gguf::Reader* file : read) CAIRN_TRY_VOID(check_unchanged(*file));
  return writer.finish();
}

Result<void> check_unchanged(const gguf::Reader& file) {
  const MappedFile* const rewritten = file.find_rewritten();
  if (rewritten == nullptr) return {};
  return fail(Code::kIo, "{} was changed while it was read; nothing was written, try again once it is complete",
              rewritten->path());
}

}  // namespace cairn::convert
