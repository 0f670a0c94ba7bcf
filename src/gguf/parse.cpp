#include "gguf/parse.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "base/text/printable.h"
#include "base/text/utf8.h"
#include "gguf/cursor.h"
#include "gguf/parse_value.h"

namespace cairn::gguf {
namespace {

// Minimum bytes of an entry of the directory: name length, dimension count, type, offset; and of the metadata: key
// length, type, one byte.
constexpr uint64_t kTensorEntryBytesMin = 24;
constexpr uint64_t kMetadataEntryBytesMin = 13;

struct Header {
  uint32_t version = 0;
  uint64_t tensors = 0;
  uint64_t metadata = 0;
};

// A tensor's entry in the directory; the offset counts from where the data section begins.
struct TensorEntry {
  Tensor tensor;
  uint64_t entry_offset = 0;
  uint64_t data_offset = 0;
  uint64_t bytes = 0;
};

// Adds the key or tensor to the error, before its offset.
std::unexpected<Error> about(std::string what, Error error) {
  error.at = error.at.empty() ? std::move(what) : what + ", " + error.at;
  return std::unexpected(std::move(error));
}

std::string key_place(std::string_view key) { return "key " + printable(key); }
std::string tensor_place(std::string_view name) { return "tensor " + printable(name); }

// Recognises files that users pass instead of a model, by their first bytes.
std::string_view what_else_it_is(std::string_view bytes) {
  if (bytes.starts_with("version https://git-lfs"))
    return "it is a Git LFS pointer: fetch the file with `git lfs pull`";
  if (bytes.starts_with("<")) return "it looks like a web page that was saved in place of the file: download it again";
  if (bytes.starts_with("\x1f\x8b")) return "it is a gzip archive: unpack it first";
  if (bytes.starts_with("PK\x03\x04")) return "it is a zip archive or a PyTorch checkpoint: convert it to GGUF";
  if (bytes.starts_with("lmgg") || bytes.starts_with("fmgg") || bytes.starts_with("tjgg")) {
    return "it is in a format older than GGUF: convert the model again";
  }
  if (bytes.size() > 9 && bytes[8] == '{') return "it looks like a safetensors file: convert it to GGUF";
  return "it does not begin with \"GGUF\"";
}

Result<uint64_t> parse_count(Cursor& cursor, std::string_view what, uint64_t count_max, uint64_t entry_bytes_min) {
  const std::string begin = cursor.at();
  CAIRN_TRY(const uint64_t count, cursor.number<uint64_t>(what));
  if (count > count_max) {
    return fail_at(begin, Code::kTooLarge, "{} is {}, the limit is {}; the file is damaged or not usable", what, count,
                   count_max);
  }
  if (count > cursor.remaining() / entry_bytes_min) {
    return fail_at(begin, Code::kCorruptFile,
                   "the file is cut short: {} is {}, for which the {} bytes that follow are too few; download it again",
                   what, count, cursor.remaining());
  }
  return count;
}

Result<Header> parse_header(Cursor& cursor, std::span<const std::byte> bytes) {
  if (bytes.empty()) return fail_at("offset 0", Code::kCorruptFile, "the file is empty; download it again");
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), std::min<size_t>(bytes.size(), 64));
  if (!text.starts_with("GGUF") && !(text.size() < 4 && std::string_view("GGUF").starts_with(text))) {
    return fail_at("offset 0", Code::kCorruptFile, "this is not a GGUF file: {}", what_else_it_is(text));
  }
  CAIRN_TRY_VOID(cursor.take(4, "the header"));
  Header header;
  CAIRN_TRY(header.version, cursor.number<uint32_t>("the header"));
  if (header.version == 1) {
    return fail_at("offset 4", Code::kUnsupported,
                   "GGUF version 1 is not supported (versions 2 and 3 are); convert the model again");
  }
  if (header.version != 0 && (header.version & 0xffff) == 0) {
    return fail_at("offset 4", Code::kUnsupported,
                   "this is a big-endian GGUF file; only little-endian ones are supported: convert the model again "
                   "without the big-endian option");
  }
  if (header.version != 2 && header.version != 3) {
    return fail_at("offset 4", Code::kUnsupported, "GGUF version {} is not supported (versions 2 and 3 are)",
                   header.version);
  }
  CAIRN_TRY(header.tensors, parse_count(cursor, "the number of tensors", kTensorsMax, kTensorEntryBytesMin));
  CAIRN_TRY(header.metadata, parse_count(cursor, "the number of metadata keys", kMetadataMax, kMetadataEntryBytesMin));
  return header;
}

Result<std::string_view> parse_name(Cursor& cursor, std::string_view what) {
  const std::string begin = cursor.at();
  CAIRN_TRY(const auto name, cursor.string(kNameBytesMax, what));
  if (!utf8_valid(name)) {
    return fail_at(begin, Code::kCorruptFile, "{} is not UTF-8: \"{}\"; the file is damaged", what, printable(name));
  }
  return name;
}

Result<Metadata> parse_metadata(Cursor& cursor, uint64_t count) {
  std::map<std::string_view, Value> values;
  for (uint64_t i = 0; i < count; ++i) {
    const std::string begin = cursor.at();
    CAIRN_TRY(const auto key, parse_name(cursor, "a metadata key"));
    auto value = parse_value(cursor, strings_of(key));
    if (!value) return about(key_place(key), std::move(value).error());
    if (!values.emplace(key, std::move(*value)).second) {
      return fail_at(key_place(key) + ", " + begin, Code::kCorruptFile, "the file has this key twice");
    }
  }
  return Metadata(std::move(values));
}

std::string supported_types() {
  std::string names;
  for (const auto& info : tensor_types()) names += (names.empty() ? "" : ", ") + std::string(info.name);
  return names;
}

Result<std::vector<int64_t>> parse_shape(Cursor& cursor) {
  const std::string begin = cursor.at();
  CAIRN_TRY(const auto dimensions, cursor.number<uint32_t>("the number of dimensions"));
  if (dimensions > kDimensionsMax) {
    return fail_at(begin, Code::kCorruptFile, "a tensor has {} dimensions, the limit is {}; the file is damaged",
                   dimensions, kDimensionsMax);
  }
  std::vector<int64_t> shape;
  for (uint32_t i = 0; i < dimensions; ++i) {
    const std::string place = cursor.at();
    CAIRN_TRY(const auto size, cursor.number<uint64_t>("the shape"));
    if (size == 0 || size > INT64_MAX) {
      return fail_at(place, Code::kCorruptFile, "dimension {} is {}, which no tensor has; the file is damaged", i,
                     size);
    }
    shape.push_back(static_cast<int64_t>(size));
  }
  if (shape.empty()) shape.push_back(1);
  return shape;
}

Result<TensorEntry> parse_entry(Cursor& cursor) {
  TensorEntry entry;
  entry.entry_offset = cursor.offset();
  CAIRN_TRY(entry.tensor.name, parse_name(cursor, "a tensor's name"));
  const auto rest = [&]() -> Result<void> {
    CAIRN_TRY(entry.tensor.shape, parse_shape(cursor));
    const std::string type_offset = cursor.at();
    CAIRN_TRY(const auto type_id, cursor.number<uint32_t>("the tensor's type"));
    const auto type = tensor_type_info(type_id);
    if (!type) {
      return fail_at(type_offset, Code::kUnsupported,
                     "tensor type {} is not supported; supported are {}. Quantise the model to one of these", type_id,
                     supported_types());
    }
    entry.tensor.type = type->type;
    const auto bytes = tensor_bytes(entry.tensor.shape, *type);
    if (!bytes) return fail(Code::kCorruptFile, "{}; the file is damaged", bytes.error().message);
    entry.bytes = *bytes;
    CAIRN_TRY(entry.data_offset, cursor.number<uint64_t>("the tensor's offset"));
    return {};
  }();
  if (!rest) {
    Error error = rest.error();
    if (error.at.empty()) error.at = fmt::format("offset {}", entry.entry_offset);
    return about(tensor_place(entry.tensor.name), std::move(error));
  }
  return entry;
}

Result<std::vector<TensorEntry>> parse_entries(Cursor& cursor, uint64_t count) {
  std::vector<TensorEntry> entries;
  std::set<std::string_view> names;
  entries.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    CAIRN_TRY(TensorEntry entry, parse_entry(cursor));
    if (!names.insert(entry.tensor.name).second) {
      return fail_at(fmt::format("{}, offset {}", tensor_place(entry.tensor.name), entry.entry_offset),
                     Code::kCorruptFile, "the file has this tensor twice");
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

Result<uint64_t> parse_alignment(const Metadata& metadata) {
  CAIRN_TRY(const int64_t alignment, metadata.integer_or("general.alignment", kAlignmentDefault));
  if (const char* problem = alignment_problem(alignment)) {
    return fail_at("key general.alignment", Code::kCorruptFile, "the alignment is {}, {}", alignment, problem);
  }
  return static_cast<uint64_t>(alignment);
}

// Gives every tensor its bytes. `data_begin` is at most the file's size plus the alignment.
Result<void> place_tensors(std::vector<TensorEntry>& entries, std::span<const std::byte> bytes, uint64_t data_begin,
                           uint64_t alignment) {
  for (TensorEntry& entry : entries) {
    const std::string_view name = entry.tensor.name;
    if (entry.data_offset % alignment != 0) {
      return fail_at(tensor_place(name), Code::kCorruptFile,
                     "the tensor's offset {} is not a multiple of the alignment {}; the file is damaged",
                     entry.data_offset, alignment);
    }
    uint64_t begin = 0;
    uint64_t end = 0;
    if (__builtin_add_overflow(data_begin, entry.data_offset, &begin) ||
        __builtin_add_overflow(begin, entry.bytes, &end)) {
      return fail_at(tensor_place(name), Code::kCorruptFile,
                     "the tensor's offset {} lies beyond the end of any file; the file is damaged", entry.data_offset);
    }
    if (end > bytes.size()) {
      return fail_at(fmt::format("{}, offset {}", tensor_place(name), begin), Code::kCorruptFile,
                     "the file is cut short: tensor {} needs bytes up to {}, the file has {}; download it again",
                     printable(name), end, bytes.size());
    }
    entry.tensor.bytes = bytes.subspan(begin, entry.bytes);
  }
  return {};
}

Result<void> check_overlaps(const std::vector<TensorEntry>& entries) {
  std::vector<const TensorEntry*> order;
  order.reserve(entries.size());
  for (const TensorEntry& entry : entries) order.push_back(&entry);
  std::ranges::sort(order, {}, &TensorEntry::data_offset);
  for (size_t i = 1; i < order.size(); ++i) {
    const TensorEntry& before = *order[i - 1];
    if (before.data_offset + before.bytes > order[i]->data_offset) {
      return fail_at(tensor_place(order[i]->tensor.name), Code::kCorruptFile,
                     "the tensor begins at {} of the data section, inside tensor {} ({} to {}); the file is damaged",
                     order[i]->data_offset, printable(before.tensor.name), before.data_offset,
                     before.data_offset + before.bytes);
    }
  }
  return {};
}

}  // namespace

Strings strings_of(std::string_view key) {
  const bool pieces =
      key == "tokenizer.ggml.tokens" || key == "tokenizer.ggml.added_tokens" || key == "tokenizer.ggml.merges";
  return pieces ? Strings::kAnyBytes : Strings::kText;
}

Result<uint64_t> tensor_bytes(std::span<const int64_t> shape, const TensorTypeInfo& type) {
  int64_t elements = 1;
  for (const int64_t size : shape) {
    if (size < 1) return fail(Code::kInvalidArgument, "a dimension is {}, which no tensor has", size);
    if (__builtin_mul_overflow(elements, size, &elements)) {
      return fail(Code::kInvalidArgument, "the tensor has more elements than can be counted");
    }
  }
  if (shape[0] % type.block_elements != 0) {
    return fail(Code::kInvalidArgument, "rows of {} elements cannot be {}, whose blocks have {} elements", shape[0],
                type.name, type.block_elements);
  }
  int64_t bytes = 0;
  if (__builtin_mul_overflow(elements / type.block_elements, int64_t{type.block_bytes}, &bytes)) {
    return fail(Code::kInvalidArgument, "the tensor has more bytes than can be counted");
  }
  return static_cast<uint64_t>(bytes);
}

const char* alignment_problem(int64_t alignment) {
  if (alignment < kAlignmentMin || alignment > (int64_t{1} << 31)) return "it must be 8 at least and fit 32 bits";
  if (!std::has_single_bit(static_cast<uint64_t>(alignment))) return "it must be a power of two";
  return nullptr;
}

Result<Part> parse_part(std::span<const std::byte> bytes) { return parse_part(bytes, bytes); }

Result<Part> parse_part(std::span<const std::byte> header_copy, std::span<const std::byte> bytes) {
  Cursor cursor(header_copy);
  CAIRN_TRY(const Header header, parse_header(cursor, header_copy));
  Part part;
  part.version = header.version;
  CAIRN_TRY(part.metadata, parse_metadata(cursor, header.metadata));
  CAIRN_TRY(auto entries, parse_entries(cursor, header.tensors));
  CAIRN_TRY(const uint64_t alignment, parse_alignment(part.metadata));
  part.header_bytes = cursor.offset();
  const uint64_t data_begin = (cursor.offset() + alignment - 1) / alignment * alignment;
  CAIRN_TRY_VOID(place_tensors(entries, bytes, data_begin, alignment));
  CAIRN_TRY_VOID(check_overlaps(entries));
  part.tensors.reserve(entries.size());
  for (TensorEntry& entry : entries) part.tensors.push_back(std::move(entry.tensor));
  return part;
}

}  // namespace cairn::gguf
