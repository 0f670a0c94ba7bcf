#include "gguf/reader.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "base/text/printable.h"
#include "gguf/parse.h"
#include "gguf/split.h"

namespace cairn::gguf {
namespace {

// A file of the set, checked by itself.
struct OpenPart {
  MappedFile file;
  std::vector<std::byte> header;
  Part part;
  SplitInfo split;
};

std::unexpected<Error> in_file(const std::filesystem::path& path, Error error) {
  error.at = error.at.empty() ? path.string() : path.string() + ", " + error.at;
  return std::unexpected(std::move(error));
}

Result<OpenPart> open_part(const std::filesystem::path& path) {
  CAIRN_TRY(MappedFile file, MappedFile::open(path));
  auto part = parse_part(file.bytes());
  if (!part) return in_file(path, std::move(part).error());
  // Parsed again from a copy, which stays as it was checked whatever happens to the file.
  const auto in_mapping = file.bytes().first(part->header_bytes);
  std::vector<std::byte> header(in_mapping.begin(), in_mapping.end());
  part = parse_part(header, file.bytes());
  if (!part) return in_file(path, std::move(part).error());
  auto split = split_info(part->metadata);
  if (!split) return in_file(path, std::move(split).error());
  return OpenPart{std::move(file), std::move(header), std::move(*part), *split};
}

// Checks that a part's metadata agrees with its name.
Result<void> check_part(const std::filesystem::path& path, const OpenPart& part, uint32_t number, uint32_t parts) {
  if (part.split.parts == parts && part.split.part + 1 == number) return {};
  if (part.split.parts == 1) {
    return fail_at(path.string(), Code::kCorruptFile,
                   "the name says part {} of {}, but the file has no split.count: it belongs to another model", number,
                   parts);
  }
  return fail_at(path.string(), Code::kCorruptFile,
                 "the name says part {} of {}, the file says part {} of {}: it was renamed or belongs to another model",
                 number, parts, part.split.part + 1, part.split.parts);
}

// Opens all parts in order. `named` is the one that the user gave.
Result<std::vector<OpenPart>> open_set(const std::filesystem::path& path, OpenPart named) {
  std::vector<OpenPart> set;
  if (named.split.parts == 1) {
    set.push_back(std::move(named));
    return set;
  }
  const auto name = split_name(path.filename().string());
  if (!name) {
    return fail_at(
        path.string(), Code::kCorruptFile,
        "this is part {0} of {1} of a split model, but it is not named like NAME-{0:05}-of-{1:05}.gguf, so the "
        "other parts cannot be found; give all parts their names back",
        named.split.part + 1, named.split.parts);
  }
  CAIRN_TRY_VOID(check_part(path, named, name->part, name->parts));
  for (uint32_t number = 1; number <= name->parts; ++number) {
    if (number == name->part) continue;
    const auto part_path = path.parent_path() / split_file_name(*name, number);
    auto part = open_part(part_path);
    if (!part && part.error().code == Code::kNotFound) {
      return fail(Code::kNotFound, "part {} of {} of the model is missing: {}; put all parts in one folder", number,
                  name->parts, part_path.string());
    }
    if (!part) return std::unexpected(std::move(part).error());
    CAIRN_TRY_VOID(check_part(part_path, *part, number, name->parts));
    set.push_back(std::move(*part));
  }
  set.insert(set.begin() + static_cast<ptrdiff_t>(name->part - 1), std::move(named));
  return set;
}

Result<void> check_tensor_total(const std::vector<OpenPart>& set) {
  if (set.size() == 1) return {};
  uint64_t total = 0;
  for (const OpenPart& part : set) total += part.part.tensors.size();
  if (!set.front().split.tensors_total) {
    return fail(Code::kCorruptFile, "part 1 of a split model has no key split.tensors.count");
  }
  for (size_t i = 0; i < set.size(); ++i) {
    const auto said = set[i].split.tensors_total;
    if (said && *said != total) {
      return fail(
          Code::kCorruptFile,
          "part {} says that the model has {} tensors, all parts together have {}: they do not belong together, "
          "download all of them again",
          i + 1, *said, total);
    }
  }
  if (total > kTensorsMax)
    return fail(Code::kTooLarge, "the model has {} tensors, the limit is {}", total, kTensorsMax);
  return {};
}

}  // namespace

int64_t Tensor::elements() const {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<int64_t>());
}

Result<Reader> Reader::open(const std::filesystem::path& path) {
  CAIRN_TRY(OpenPart named, open_part(path));
  CAIRN_TRY(auto set, open_set(path, std::move(named)));
  if (auto total = check_tensor_total(set); !total) return in_file(path, std::move(total).error());
  Reader reader;
  reader.version_ = set.front().part.version;
  reader.metadata_ = std::move(set.front().part.metadata);
  for (OpenPart& part : set) {
    reader.file_bytes_ += static_cast<int64_t>(part.file.bytes().size());
    reader.files_.push_back(std::move(part.file));
    reader.headers_.push_back(std::move(part.header));
    for (Tensor& tensor : part.part.tensors) {
      if (!reader.tensor_index_.emplace(tensor.name, reader.tensors_.size()).second) {
        return fail_at(path.string(), Code::kCorruptFile, "tensor {} is in two parts of the model",
                       printable(tensor.name));
      }
      reader.tensors_.push_back(std::move(tensor));
    }
  }
  return reader;
}

Result<Reader> Reader::from_bytes(std::span<const std::byte> bytes) {
  CAIRN_TRY(Part part, parse_part(bytes));
  Reader reader;
  reader.version_ = part.version;
  reader.file_bytes_ = static_cast<int64_t>(bytes.size());
  reader.metadata_ = std::move(part.metadata);
  reader.set_tensors(std::move(part.tensors));
  return reader;
}

Reader Reader::planned(Metadata metadata, std::vector<Tensor> tensors) {
  Reader reader;
  reader.metadata_ = std::move(metadata);
  reader.set_tensors(std::move(tensors));
  return reader;
}

void Reader::set_tensors(std::vector<Tensor> tensors) {
  tensors_ = std::move(tensors);
  for (size_t i = 0; i < tensors_.size(); ++i) tensor_index_.emplace(tensors_[i].name, i);
}

const Tensor* Reader::find_tensor(std::string_view name) const {
  const auto found = tensor_index_.find(name);
  return found == tensor_index_.end() ? nullptr : &tensors_[found->second];
}

void Reader::release(const Tensor& tensor) const {
  for (const MappedFile& file : files_) {
    if (file.release(tensor.bytes)) return;
  }
}

void Reader::warm(const Tensor& tensor) const {
  for (const MappedFile& file : files_) {
    if (file.warm(tensor.bytes)) return;
  }
}

void Reader::survive_cuts() const {
  for (const MappedFile& file : files_) file.survive_cuts();
}

const MappedFile* Reader::find_cut() const {
  const auto found = std::ranges::find_if(files_, &MappedFile::was_cut);
  return found == files_.end() ? nullptr : &*found;
}

const MappedFile* Reader::find_rewritten() const {
  const auto found = std::ranges::find_if(files_, &MappedFile::was_rewritten);
  return found == files_.end() ? nullptr : &*found;
}

}  // namespace cairn::gguf
