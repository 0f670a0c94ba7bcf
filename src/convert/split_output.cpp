#include "convert/split_output.h"

#include <algorithm>
#include <iterator>
#include <ranges>
#include <utility>

#include "base/system/mapped_file.h"
#include "gguf/parse.h"
#include "gguf/split.h"

namespace cairn::convert {

std::vector<size_t> parts_of_size(std::span<const gguf::Tensor> tensors, std::span<const TensorType> types,
                                  int64_t bytes_max) {
  std::vector<size_t> first = {0};
  int64_t bytes = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const int64_t more = row_bytes(types[i], tensors[i].elements());
    if (i > first.back() && bytes + more > bytes_max) {
      first.push_back(i);
      bytes = 0;
    }
    bytes += more;
  }
  return first;
}

Result<std::vector<size_t>> parts_of_file(const std::filesystem::path& path, const gguf::Reader& file) {
  const auto name = gguf::split_name(path.filename().string());
  std::vector<size_t> first = {0};
  if (!name || !file.metadata().contains("split.count")) return first;
  for (uint32_t part = 1; part < name->parts; ++part) {
    CAIRN_TRY(const MappedFile mapped, MappedFile::open(path.parent_path() / gguf::split_file_name(*name, part)));
    CAIRN_TRY(const gguf::Part parsed, gguf::parse_part(mapped.bytes()));
    first.push_back(first.back() + parsed.tensors.size());
  }
  if (first.back() > file.tensors().size()) {
    return fail_at(path.string(), Code::kCorruptFile, "the model's files were changed while they were read");
  }
  return first;
}

std::filesystem::path SplitOutput::path_of(const std::filesystem::path& out, uint32_t part, uint32_t parts) {
  if (parts < 2) return out;
  gguf::SplitName name{.stem = out.filename().string(), .part = part + 1, .parts = parts};
  if (const auto split = gguf::split_name(name.stem)) {
    name.stem = split->stem;
  } else if (gguf::is_gguf_name(name.stem)) {
    name.ending = name.stem.substr(name.stem.size() - name.ending.size());
    name.stem.resize(name.stem.size() - name.ending.size());
  }
  return out.parent_path() / gguf::split_file_name(name, part + 1);
}

Result<SplitOutput> SplitOutput::create(const std::filesystem::path& out, std::span<const gguf::Tensor> tensors,
                                        std::span<const TensorType> types, std::vector<size_t> first) {
  using gguf::ValueType;
  if (first.size() > gguf::kSplitsMax) {
    return fail(Code::kTooLarge, "the model would be split into {} files, the limit is {}; let them be larger",
                first.size(), gguf::kSplitsMax);
  }
  SplitOutput output;
  output.first_ = std::move(first);
  const auto parts = static_cast<uint32_t>(output.first_.size());
  for (uint32_t part = 0; part < parts; ++part) {
    CAIRN_TRY(gguf::Writer writer, gguf::Writer::create(path_of(out, part, parts)));
    if (parts > 1) {
      writer.set_integer("split.no", ValueType::kU16, part);
      writer.set_integer("split.count", ValueType::kU16, parts);
      writer.set_integer("split.tensors.count", ValueType::kI32, std::ssize(tensors));
    }
    output.writers_.push_back(std::move(writer));
  }
  for (size_t i = 0; i < tensors.size(); ++i) output.of(i).declare(tensors[i].name, types[i], tensors[i].shape);
  return output;
}

gguf::Writer& SplitOutput::of(size_t tensor) {
  const auto behind = std::ranges::upper_bound(first_, tensor);
  return writers_[static_cast<size_t>(std::distance(first_.begin(), behind)) - 1];
}

Result<void> SplitOutput::finish() {
  // First all reach the disk, which takes long; then they get their names, the first file, which opens the set, last.
  for (gguf::Writer& writer : writers_) CAIRN_TRY_VOID(writer.sync());
  for (gguf::Writer& writer : std::views::reverse(writers_)) CAIRN_TRY_VOID(writer.finish());
  return {};
}

}  // namespace cairn::convert
