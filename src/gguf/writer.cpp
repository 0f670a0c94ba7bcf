#include "gguf/writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
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
// A crash leaves NAME.PID-N.partial behind, and process ids are reused, so the next number is tried.
constexpr int kTemporaryNamesMax = 64;

std::unexpected<Error> io_error(std::string_view what, const std::filesystem::path& path) {
  return fail(Code::kIo, "cannot {} {}: {}", what, path.string(), std::strerror(errno));
}

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

// Syncs the folder: without that the file's entry may not reach the disk.
Result<void> sync_folder(const std::filesystem::path& path) {
  const auto folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  const int file = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return io_error("open", folder);
  const bool synced = ::fsync(file) == 0 || errno == EINVAL;  // some file systems cannot sync folders
  auto result = synced ? Result<void>() : Result<void>(io_error("sync", folder));
  ::close(file);
  return result;
}

}  // namespace

struct Writer::State {
  std::filesystem::path path;
  std::filesystem::path temporary;
  int file = -1;
  bool renamed = false;
  uint64_t alignment = kAlignmentDefault;

  std::vector<KeyEntry> entries;
  std::vector<Declared> tensors;
  std::set<std::string, std::less<>> names;
  std::optional<Error> failed;  ///< error of a call that returns nothing, or of a write; reported by every later call

  bool header_written = false;
  uint64_t offset = 0;  ///< bytes written so far
  size_t tensor = 0;    ///< index of the tensor whose bytes come next
  uint64_t tensor_written = 0;

  ~State() {
    if (file >= 0) ::close(file);
    if (file >= 0 && !renamed) ::unlink(temporary.c_str());
  }

  void fail_later(Error error) {
    if (!failed) failed = std::move(error);
  }

  Result<void> open_temporary();
  void set_entry(std::string_view key, const Value& value);
  Result<void> check_declaration(std::string_view name, TensorType type, std::span<const int64_t> shape) const;
  std::string header() const;
  Result<void> append(std::span<const std::byte> bytes);
  Result<void> pad();
  Result<void> begin_data();
  Result<void> write_tensor_bytes(std::span<const std::byte> bytes);
  Result<void> skip_rest();
  Result<void> finish();
};

Result<void> Writer::State::open_temporary() {
  for (int attempt = 0; attempt < kTemporaryNamesMax; ++attempt) {
    temporary = path;
    temporary += fmt::format(".{}-{}.partial", ::getpid(), attempt);
    file = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file >= 0) return {};
    if (errno != EEXIST) break;
  }
  return io_error("create", temporary);
}

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
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return io_error("write", temporary);
    offset += static_cast<uint64_t>(written);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
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
  if (::ftruncate(file, static_cast<off_t>(offset)) != 0) return io_error("make room in", temporary);
  return {};
}

Result<void> Writer::State::finish() {
  CAIRN_TRY_VOID(begin_data());
  if (renamed) return fail(Code::kInvalidArgument, "the file is finished already");
  if (tensor < tensors.size()) {
    return fail_at("tensor " + printable(tensors[tensor].name), Code::kInvalidArgument,
                   "only {} of the tensor's {} bytes were written", tensor_written, tensors[tensor].bytes);
  }
  if (::fsync(file) != 0) return io_error("sync", temporary);
  if (::rename(temporary.c_str(), path.c_str()) != 0) return io_error("rename the finished file to", path);
  renamed = true;
  return sync_folder(path);
}

Writer::Writer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Writer::Writer(Writer&&) noexcept = default;
Writer& Writer::operator=(Writer&&) noexcept = default;
Writer::~Writer() = default;

Result<Writer> Writer::create(const std::filesystem::path& path, uint32_t alignment) {
  if (const char* problem = alignment_problem(alignment)) {
    return fail(Code::kInvalidArgument, "the alignment is {}, {}", alignment, problem);
  }
  CAIRN_TRY_VOID(check_file_may_be_made(path));
  auto state = std::make_unique<State>();
  state->path = path;
  CAIRN_TRY_VOID(state->open_temporary());
  Writer writer(std::move(state));
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

Result<void> Writer::finish() { return state_->finish(); }

}  // namespace cairn::gguf
