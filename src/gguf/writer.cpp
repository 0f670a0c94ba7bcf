#include "gguf/writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "base/system/new_file.h"
#include "base/text/printable.h"
#include "base/text/utf8.h"
#include "gguf/encode.h"
#include "gguf/parse.h"

namespace cairn::gguf {
namespace {

constexpr uint32_t kVersion = 3;

uint64_t padding(uint64_t offset, uint64_t alignment) { return (alignment - offset % alignment) % alignment; }

struct Declared {
  std::string name;
  TensorType type = TensorType::kF32;
  std::vector<int64_t> shape;
  uint64_t bytes = 0;
};

struct KeyEntry {
  std::string key;
  std::string value;  ///< type and value as in the file
};

}  // namespace

struct Writer::State {
  NewFile file;
  bool finished = false;
  uint64_t alignment = kAlignmentDefault;

  std::vector<KeyEntry> entries;
  std::vector<Declared> tensors;
  std::set<std::string, std::less<>> names;
  std::optional<Error> failed;  ///< error of a call that returns nothing, or of a write; reported by every later call

  bool header_written = false;
  uint64_t offset = 0;  ///< bytes written so far
  size_t tensor = 0;    ///< index of the tensor whose bytes come next
  uint64_t tensor_written = 0;

  explicit State(NewFile empty) : file(std::move(empty)) {}
  void fail_later(Error error) {
    if (!failed) failed = std::move(error);
  }

  void set_entry(std::string_view key, const Value& value);
  Result<void> check_declaration(std::string_view name, TensorType type, std::span<const int64_t> shape) const;
  std::string header() const;
  Result<void> append(std::span<const std::byte> bytes);
  Result<void> pad();
  Result<void> begin_data();
  Result<void> write_tensor_bytes(std::span<const std::byte> bytes);
  Result<void> skip_rest();
  Result<void> check_whole();
};

void Writer::State::set_entry(std::string_view key, const Value& value) {
  const std::string place = "key " + printable(key);
  if (header_written) return fail_later({Code::kInvalidArgument, "metadata was set after a tensor's bytes", place});
  if (key.size() > kNameBytesMax || !utf8_valid(key)) {
    return fail_later({Code::kInvalidArgument, "the key is too long or not UTF-8", place});
  }
  if (key == "general.alignment") {
    const auto wanted = Metadata({{key, value}}).integer(key);
    const char* problem = wanted ? alignment_problem(*wanted) : "it must be an integer";
    if (problem != nullptr) return fail_later({Code::kInvalidArgument, problem, place});
    alignment = static_cast<uint64_t>(*wanted);
  }
  KeyEntry entry{std::string(key), {}};
  if (auto encoded = append_value(entry.value, value, strings_of(key)); !encoded) {
    return fail_later({encoded.error().code, encoded.error().message, place});
  }
  const auto found = std::ranges::find(entries, key, &KeyEntry::key);
  if (found != entries.end()) {
    *found = std::move(entry);
  } else if (entries.size() == kMetadataMax) {
    fail_later({Code::kTooLarge, fmt::format("more than {} metadata keys", kMetadataMax), place});
  } else {
    entries.push_back(std::move(entry));
  }
}

Result<void> Writer::State::check_declaration(std::string_view name, TensorType type,
                                              std::span<const int64_t> shape) const {
  if (header_written) return fail(Code::kInvalidArgument, "a tensor was declared after another one's bytes");
  if (name.size() > kNameBytesMax || !utf8_valid(name)) {
    return fail(Code::kInvalidArgument, "the name is too long or not UTF-8");
  }
  if (names.contains(name)) return fail(Code::kInvalidArgument, "the tensor is declared twice");
  if (tensors.size() == kTensorsMax) return fail(Code::kTooLarge, "more than {} tensors", kTensorsMax);
  if (shape.empty() || shape.size() > kDimensionsMax) {
    return fail(Code::kInvalidArgument, "the tensor has {} dimensions; 1 to {} are possible", shape.size(),
                kDimensionsMax);
  }
  CAIRN_TRY_VOID(tensor_bytes(shape, tensor_type_info(type)));
  return {};
}

std::string Writer::State::header() const {
  std::string out = "GGUF";
  append_number(out, kVersion);
  append_number(out, static_cast<uint64_t>(tensors.size()));
  append_number(out, static_cast<uint64_t>(entries.size()));
  for (const KeyEntry& entry : entries) {
    append_string(out, entry.key);
    out += entry.value;
  }
  uint64_t data_offset = 0;
  for (const Declared& declared : tensors) {
    append_string(out, declared.name);
    append_number(out, static_cast<uint32_t>(declared.shape.size()));
    for (const int64_t size : declared.shape) append_number(out, static_cast<uint64_t>(size));
    append_number(out, static_cast<uint32_t>(declared.type));
    append_number(out, data_offset);
    data_offset += declared.bytes + padding(declared.bytes, alignment);
  }
  return out;
}

Result<void> Writer::State::append(std::span<const std::byte> bytes) {
  CAIRN_TRY_VOID(file.write(bytes));
  offset += bytes.size();
  return {};
}

Result<void> Writer::State::pad() {
  const std::string zeros(padding(offset, alignment), '\0');
  return append(std::as_bytes(std::span(zeros)));
}

Result<void> Writer::State::begin_data() {
  if (failed) return std::unexpected(*failed);
  if (header_written) return {};
  header_written = true;
  const std::string bytes = header();
  CAIRN_TRY_VOID(append(std::as_bytes(std::span(bytes))));
  return pad();
}

Result<void> Writer::State::write_tensor_bytes(std::span<const std::byte> bytes) {
  CAIRN_TRY_VOID(begin_data());
  while (!bytes.empty()) {
    if (tensor == tensors.size()) {
      return fail(Code::kInvalidArgument, "{} bytes more than the declared tensors have", bytes.size());
    }
    const uint64_t missing = tensors[tensor].bytes - tensor_written;
    const auto part = bytes.first(std::min<uint64_t>(missing, bytes.size()));
    CAIRN_TRY_VOID(append(part));
    bytes = bytes.subspan(part.size());
    tensor_written += part.size();
    if (part.size() == missing) {
      CAIRN_TRY_VOID(pad());
      ++tensor;
      tensor_written = 0;
    }
  }
  return {};
}

Result<void> Writer::State::skip_rest() {
  CAIRN_TRY_VOID(begin_data());
  for (; tensor < tensors.size(); ++tensor, tensor_written = 0) {
    offset += tensors[tensor].bytes - tensor_written;
    offset += padding(offset, alignment);
  }
  return file.resize(offset);
}

Result<void> Writer::State::check_whole() {
  CAIRN_TRY_VOID(begin_data());
  if (finished) return fail(Code::kInvalidArgument, "the file is finished already");
  if (tensor < tensors.size()) {
    return fail_at("tensor " + printable(tensors[tensor].name), Code::kInvalidArgument,
                   "only {} of the tensor's {} bytes were written", tensor_written, tensors[tensor].bytes);
  }
  return {};
}

Writer::Writer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Writer::Writer(Writer&&) noexcept = default;
Writer& Writer::operator=(Writer&&) noexcept = default;
Writer::~Writer() = default;

Result<Writer> Writer::create(const std::filesystem::path& path, uint32_t alignment) {
  if (const char* problem = alignment_problem(alignment)) {
    return fail(Code::kInvalidArgument, "the alignment is {}, {}", alignment, problem);
  }
  CAIRN_TRY(NewFile file, NewFile::create(path));
  Writer writer(std::make_unique<State>(std::move(file)));
  if (alignment != kAlignmentDefault) writer.set_integer("general.alignment", ValueType::kU32, alignment);
  return writer;
}

void Writer::set(std::string_view key, std::string_view value) {
  state_->set_entry(key, Value{ValueType::kString, value});
}
void Writer::set_integer(std::string_view key, ValueType type, int64_t value) {
  state_->set_entry(key, Value{type, value});
}
void Writer::set_number(std::string_view key, ValueType type, double value) {
  state_->set_entry(key, Value{type, value});
}
void Writer::set_boolean(std::string_view key, bool value) { state_->set_entry(key, Value{ValueType::kBool, value}); }
void Writer::set(std::string_view key, const Value& value) { state_->set_entry(key, value); }

void Writer::declare(std::string_view name, TensorType type, std::span<const int64_t> shape) {
  if (auto checked = state_->check_declaration(name, type, shape); !checked) {
    return state_->fail_later({checked.error().code, checked.error().message, "tensor " + printable(name)});
  }
  const uint64_t bytes = *tensor_bytes(shape, tensor_type_info(type));
  state_->names.emplace(name);
  state_->tensors.push_back(Declared{std::string(name), type, {shape.begin(), shape.end()}, bytes});
}

Result<void> Writer::write(std::span<const std::byte> bytes) {
  auto written = state_->write_tensor_bytes(bytes);
  if (!written) state_->fail_later(written.error());
  return written;
}

Result<void> Writer::skip_rest() {
  auto skipped = state_->skip_rest();
  if (!skipped) state_->fail_later(skipped.error());
  return skipped;
}

Result<void> Writer::sync() {
  CAIRN_TRY_VOID(state_->check_whole());
  return state_->file.sync();
}

Result<void> Writer::finish() {
  CAIRN_TRY_VOID(state_->check_whole());
  CAIRN_TRY_VOID(state_->file.finish());
  state_->finished = true;
  return {};
}

}  // namespace cairn::gguf
