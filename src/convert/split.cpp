#include "convert/split.h"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>
#include <string>
#include <utility>

#include "base/text/bytes_text.h"
#include "base/text/printable.h"
#include "gguf/split.h"

namespace cairn::convert {
namespace {

using gguf::Value;
using gguf::ValueType;

constexpr std::string_view kPartNumber = "split.no";
constexpr std::string_view kPartCount = "split.count";
constexpr std::string_view kTensorCount = "split.tensors.count";

std::string tensor_at(const gguf::Tensor& tensor) { return "tensor " + printable(tensor.name); }

// What every part says of the set.
void append_split_keys(Contents& part, size_t number, size_t parts, size_t tensors) {
  part.metadata.emplace_back(kPartNumber, Value{ValueType::kU16, static_cast<uint64_t>(number)});
  part.metadata.emplace_back(kPartCount, Value{ValueType::kU16, static_cast<uint64_t>(parts)});
  part.metadata.emplace_back(kTensorCount, Value{ValueType::kI32, static_cast<int64_t>(tensors)});
}

// Deals the tensors out to parts, in order.
class Dealer {
 public:
  Dealer(const Contents& all, const SplitOptions& options) : all_(all), options_(options) {}

  Result<std::vector<Contents>> deal() {
    parts_.push_back({all_.metadata, {}});
    CAIRN_TRY_VOID(begin_part());
    bool in_first = true;
    for (const gguf::Tensor& tensor : all_.tensors) {
      const int64_t bytes = all_.added_bytes(tensor);
      const bool full = options_.bytes_max > 0 && bytes_ + bytes > options_.bytes_max;
      const bool enough = options_.tensors_max > 0 && std::ssize(parts_.back().tensors) == options_.tensors_max;
      if (full || enough || (in_first && options_.first_part_empty)) {
        parts_.push_back({metadata_of_later_parts(), {}});
        CAIRN_TRY_VOID(begin_part());
        in_first = false;
      }
      if (options_.bytes_max > 0 && bytes_ + bytes > options_.bytes_max) return too_large(tensor, bytes_ + bytes);
      bytes_ += bytes;
      parts_.back().tensors.push_back(tensor);
    }
    if (parts_.size() > gguf::kSplitsMax) {
      return fail(Code::kTooLarge, "the model would have {} parts, the limit is {}; make them larger", parts_.size(),
                  gguf::kSplitsMax);
    }
    for (size_t i = 0; i < parts_.size(); ++i) append_split_keys(parts_[i], i, parts_.size(), all_.tensors.size());
    return std::move(parts_);
  }

 private:
  // A reader needs the alignment of every part; everything else is in the first one.
  std::vector<std::pair<std::string_view, Value>> metadata_of_later_parts() const {
    std::vector<std::pair<std::string_view, Value>> metadata;
    for (const auto& entry : all_.metadata) {
      if (entry.first == "general.alignment") metadata.push_back(entry);
    }
    return metadata;
  }

  // Counts the bytes of a part without tensors.
  Result<void> begin_part() {
    Contents empty = parts_.back();
    append_split_keys(empty, 0, 1, 0);
    CAIRN_TRY(bytes_, empty.file_bytes());
    if (options_.bytes_max == 0 || bytes_ <= options_.bytes_max) return {};
    return fail(Code::kInvalidArgument, "the metadata alone takes {} ({} bytes), more than a part may have",
                bytes_text(bytes_), bytes_);
  }

  std::unexpected<Error> too_large(const gguf::Tensor& tensor, int64_t bytes) const {
    return fail_at(tensor_at(tensor), Code::kInvalidArgument,
                   "a part with this tensor takes {} ({} bytes), more than a part may have, and tensors are not "
                   "divided; allow parts of that size",
                   bytes_text(bytes), bytes);
  }

  const Contents& all_;
  const SplitOptions& options_;
  std::vector<Contents> parts_;
  int64_t bytes_ = 0;  // of the last part so far
};

gguf::SplitName name_of_parts(const std::filesystem::path& prefix, size_t parts) {
  std::string stem = prefix.filename().string();
  if (gguf::is_gguf_name(stem)) stem.resize(stem.size() - std::string_view(".gguf").size());
  return {.stem = std::move(stem), .part = 1, .parts = static_cast<uint32_t>(parts)};
}

// Writes all parts, and gives them their names once all are on the disk. Part 1, by which a model is opened, comes
// last.
Result<void> write_parts(const std::vector<Contents>& parts, const std::vector<SplitPart>& places,
                         const gguf::Reader& file, const OnCopy& on_copy) {
  CopyProgress progress;
  for (const Contents& part : parts) progress.bytes_total += part.tensor_bytes();
  std::vector<gguf::Writer> writers;
  for (size_t i = 0; i < parts.size(); ++i) {
    CAIRN_TRY(gguf::Writer writer, write_contents(parts[i], places[i].path, progress, on_copy));
    CAIRN_TRY_VOID(writer.sync());
    writers.push_back(std::move(writer));
  }
  CAIRN_TRY_VOID(check_unchanged(file));
  for (gguf::Writer& writer : std::views::reverse(writers)) CAIRN_TRY_VOID(writer.finish());
  return {};
}

}  // namespace

Result<std::vector<SplitPart>> split_file(const std::filesystem::path& in, const std::filesystem::path& prefix,
                                          const SplitOptions& options) {
  if (options.bytes_max <= 0 && options.tensors_max <= 0)
    return fail(Code::kInvalidArgument, "neither the size of a part nor its number of tensors is limited");
  CAIRN_TRY(const gguf::Reader file, gguf::Reader::open(in));
  const Contents all = Contents::of(file);
  CAIRN_TRY(const std::vector<Contents> parts, Dealer(all, options).deal());
  const gguf::SplitName name = name_of_parts(prefix, parts.size());
  std::vector<SplitPart> places;
  for (size_t i = 0; i < parts.size(); ++i) {
    CAIRN_TRY(const int64_t bytes, parts[i].file_bytes());
    const auto path = prefix.parent_path() / gguf::split_file_name(name, static_cast<uint32_t>(i + 1));
    CAIRN_TRY_VOID(check_output(in, path));
    places.push_back({path, std::ssize(parts[i].tensors), bytes});
  }
  if (options.dry_run) return places;
  CAIRN_TRY_VOID(write_parts(parts, places, file, options.on_copy));
  return places;
}

Result<int64_t> merge_files(const std::filesystem::path& in, const std::filesystem::path& out, const OnCopy& on_copy) {
  CAIRN_TRY(const gguf::Reader file, gguf::Reader::open(in));
  if (!gguf::split_name(in.filename().string()) || !file.metadata().contains(kPartCount)) {
    return fail(Code::kInvalidArgument, "{} is not a part of a split model; parts are called NAME-00001-of-00003.gguf",
                in.string());
  }
  CAIRN_TRY_VOID(check_output(in, out));
  const Contents contents = Contents::of(file);
  CAIRN_TRY_VOID(write_file(contents, out, {&file}, on_copy));
  return contents.file_bytes();
}

}  // namespace cairn::convert
