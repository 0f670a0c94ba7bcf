#include "convert/importance.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/system/mapped_file.h"
#include "base/text/printable.h"
#include "gguf/cursor.h"
#include "gguf/writer.h"

namespace cairn::convert {
namespace {

constexpr std::string_view kSums = ".in_sum2";
constexpr std::string_view kCounts = ".counts";

bool is_sum(float value) { return std::isfinite(value) && value >= 0; }

Result<void> check_entry(const std::string& name, const ImportanceEntry& entry) {
  const std::string at = "entry " + printable(name);
  if (entry.counts.empty() || entry.sums.empty() || entry.sums.size() % entry.counts.size() != 0) {
    return fail_at(at, Code::kCorruptFile, "the importance matrix is damaged: {} sums with {} counts",
                   entry.sums.size(), entry.counts.size());
  }
  if (!std::ranges::all_of(entry.sums, is_sum) || !std::ranges::all_of(entry.counts, is_sum)) {
    return fail_at(at, Code::kCorruptFile,
                   "the importance matrix is damaged: sums of squares and counts are numbers that are not negative");
  }
  return {};
}

Result<void> check_entries(const ImportanceMatrix& matrix) {
  if (matrix.entries.empty()) return fail(Code::kCorruptFile, "the importance matrix has no entries");
  for (const auto& [name, entry] : matrix.entries) CAIRN_TRY_VOID(check_entry(name, entry));
  return {};
}

std::vector<float> floats_of(std::span<const std::byte> bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

Result<ImportanceMatrix> read_gguf(const gguf::Reader& file) {
  ImportanceMatrix matrix;
  const gguf::Metadata& metadata = file.metadata();
  CAIRN_TRY(const std::string_view type, metadata.string_or("general.type", ""));
  if (type != "imatrix") {
    return fail_at("key general.type", Code::kCorruptFile,
                   "the GGUF file is no importance matrix: its type is \"{}\", not \"imatrix\"", printable(type));
  }
  if (metadata.contains("imatrix.datasets")) {
    CAIRN_TRY(const auto names, metadata.strings("imatrix.datasets"));
    matrix.datasets.assign(names.begin(), names.end());
  }
  CAIRN_TRY(matrix.chunks, metadata.integer_or("imatrix.chunk_count", 0));
  CAIRN_TRY(matrix.chunk_tokens, metadata.integer_or("imatrix.chunk_size", 0));
  if (matrix.chunks < 0 || matrix.chunk_tokens < 0) {
    return fail(Code::kCorruptFile, "the importance matrix says that it is of {} chunks of {} tokens", matrix.chunks,
                matrix.chunk_tokens);
  }
  for (const gguf::Tensor& tensor : file.tensors()) {
    const bool is_sums = tensor.name.ends_with(kSums);
    if (!is_sums && !tensor.name.ends_with(kCounts)) continue;  // other statistics of newer files
    if (tensor.type != TensorType::kF32) {
      return fail_at(fmt::format("tensor {}", printable(tensor.name)), Code::kCorruptFile,
                     "a tensor of an importance matrix is of type {}, but it should be F32",
                     tensor_type_name(tensor.type));
    }
    const std::string_view name = tensor.name.substr(0, tensor.name.rfind('.'));
    ImportanceEntry& entry = matrix.entries[std::string(name)];
    (is_sums ? entry.sums : entry.counts) = floats_of(tensor.bytes);
  }
  CAIRN_TRY_VOID(check_entries(matrix));
  return matrix;
}

// A 32-bit number that counts something.
Result<int64_t> count(gguf::Cursor& cursor, std::string_view what) {
  const std::string at = cursor.at();
  CAIRN_TRY(const auto number, cursor.number<int32_t>(what));
  if (number < 0) return fail_at(at, Code::kCorruptFile, "the importance matrix is damaged: {} is {}", what, number);
  return number;
}

Result<std::string> text(gguf::Cursor& cursor, std::string_view what) {
  CAIRN_TRY(const int64_t length, count(cursor, what));
  CAIRN_TRY(const auto bytes, cursor.take(static_cast<uint64_t>(length), what));
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

Result<ImportanceMatrix> read_older(std::span<const std::byte> bytes) {
  ImportanceMatrix matrix;
  gguf::Cursor cursor(bytes);
  CAIRN_TRY(const int64_t entries, count(cursor, "the number of entries"));
  for (int64_t i = 0; i < entries; ++i) {
    CAIRN_TRY(std::string name, text(cursor, "a tensor's name"));
    ImportanceEntry entry;
    CAIRN_TRY(const int64_t chunks, count(cursor, "an entry's number of chunks"));
    CAIRN_TRY(const int64_t values, count(cursor, "an entry's number of values"));
    CAIRN_TRY(const auto sums, cursor.take(static_cast<uint64_t>(values) * sizeof(float), "an entry's values"));
    entry.sums = floats_of(sums);
    entry.counts = {static_cast<float>(chunks)};
    if (!matrix.entries.emplace(name, std::move(entry)).second) {
      return fail_at("entry " + printable(name), Code::kCorruptFile, "the importance matrix has the entry twice");
    }
  }
  if (cursor.remaining() > 0) {
    CAIRN_TRY(matrix.chunks, count(cursor, "the number of chunks"));
    if (cursor.remaining() > 0) {
      CAIRN_TRY(std::string dataset, text(cursor, "the text's name"));
      matrix.datasets.push_back(std::move(dataset));
    }
  }
  CAIRN_TRY_VOID(check_entries(matrix));
  return matrix;
}

bool is_gguf(std::span<const std::byte> bytes) {
  return bytes.size() >= 4 && std::memcmp(bytes.data(), "GGUF", 4) == 0;
}

void add_scaled(std::vector<float>& to, const std::vector<float>& from, double factor) {
  for (size_t i = 0; i < to.size(); ++i) {
    to[i] = static_cast<float>(static_cast<double>(to[i]) + static_cast<double>(from[i]) * factor);
  }
}

}  // namespace

Result<ImportanceMatrix> ImportanceMatrix::open(const std::filesystem::path& path) {
  const auto with_path = [&](Error error) {
    error.at = error.at.empty() ? path.string() : fmt::format("{}: {}", path.string(), error.at);
    return std::unexpected(std::move(error));
  };
  CAIRN_TRY(const MappedFile file, MappedFile::open(path));
  if (!is_gguf(file.bytes())) {
    auto matrix = read_older(file.bytes());
    if (!matrix) return with_path(std::move(matrix).error());
    return matrix;
  }
  CAIRN_TRY(const gguf::Reader reader, gguf::Reader::open(path));
  auto matrix = read_gguf(reader);
  if (!matrix) return with_path(std::move(matrix).error());
  return matrix;
}

Result<ImportanceMatrix> ImportanceMatrix::from_bytes(std::span<const std::byte> bytes) {
  if (!is_gguf(bytes)) return read_older(bytes);
  CAIRN_TRY(const gguf::Reader reader, gguf::Reader::from_bytes(bytes));
  return read_gguf(reader);
}

Result<void> ImportanceMatrix::write(const std::filesystem::path& path) const {
  CAIRN_TRY(gguf::Writer writer, gguf::Writer::create(path));
  using gguf::ValueType;
  writer.set("general.type", "imatrix");
  gguf::Array names{.type = ValueType::kString, .size = datasets.size(), .numbers = {}, .strings = {}, .arrays = {}};
  names.strings.assign(datasets.begin(), datasets.end());
  writer.set("imatrix.datasets", gguf::Value{ValueType::kArray, std::move(names)});
  writer.set_integer("imatrix.chunk_count", ValueType::kU32, chunks);
  writer.set_integer("imatrix.chunk_size", ValueType::kU32, chunk_tokens);
  for (const auto& [name, entry] : entries) {
    const auto matrices = std::ssize(entry.counts);
    const int64_t sums[] = {std::ssize(entry.sums) / matrices, matrices};
    const int64_t counts[] = {1, matrices};
    writer.declare(name + std::string(kSums), TensorType::kF32, sums);
    writer.declare(name + std::string(kCounts), TensorType::kF32, counts);
  }
  for (const auto& [name, entry] : entries) {
    CAIRN_TRY_VOID(writer.write(std::as_bytes(std::span(entry.sums))));
    CAIRN_TRY_VOID(writer.write(std::as_bytes(std::span(entry.counts))));
  }
  return writer.finish();
}

Result<void> ImportanceMatrix::add(const ImportanceMatrix& other) {
  // The older form counts chunks: each weighs as much as one of this matrix.
  const auto factor = static_cast<double>(other.chunk_tokens > 0 ? 1 : std::max<int64_t>(chunk_tokens, 1));
  for (const auto& [name, entry] : other.entries) {
    const auto [place, is_new] = entries.try_emplace(name);
    ImportanceEntry& mine = place->second;
    if (is_new) {
      mine.sums.resize(entry.sums.size());
      mine.counts.resize(entry.counts.size());
    } else if (mine.sums.size() != entry.sums.size()) {
      return fail_at("entry " + printable(name), Code::kInvalidArgument,
                     "the importance matrices are of different models: {} columns and {}", mine.sums.size(),
                     entry.sums.size());
    }
    add_scaled(mine.sums, entry.sums, factor);
    const std::vector<float> spread(mine.counts.size(), entry.counts[0]);  // of the older form, which has one
    add_scaled(mine.counts, entry.counts.size() == mine.counts.size() ? entry.counts : spread, factor);
  }
  chunks += other.chunks;
  for (const std::string& dataset : other.datasets) {
    if (std::ranges::find(datasets, dataset) == datasets.end()) datasets.push_back(dataset);
  }
  return {};
}

Result<ColumnImportance> ImportanceMatrix::of(const gguf::Tensor& tensor) const {
  const auto found = entries.find(tensor.name);
  if (found == entries.end()) return ColumnImportance{};
  const ImportanceEntry& entry = found->second;
  const int64_t columns = tensor.shape[0];
  const int64_t matrices = tensor.shape.size() > 2 ? tensor.shape[2] : 1;
  if (std::ssize(entry.sums) != columns * matrices ||
      (std::ssize(entry.counts) != matrices && entry.counts.size() != 1)) {
    return fail_at(fmt::format("tensor {}", tensor.name), Code::kInvalidArgument,
                   "the importance matrix is of another model: it has {} columns for the tensor, which has {}",
                   entry.sums.size(), columns * matrices);
  }
  ColumnImportance importance;
  importance.means.resize(entry.sums.size());
  std::vector<double> all(static_cast<size_t>(columns));
  double inputs = 0;
  for (int64_t m = 0; m < matrices; ++m) {
    const double count = entry.counts[entry.counts.size() == 1 ? 0 : static_cast<size_t>(m)];
    if (count == 0) {
      importance.unreached.push_back(m);
      continue;
    }
    inputs += count;
    for (int64_t i = 0; i < columns; ++i) {
      const double sum = entry.sums[static_cast<size_t>(m * columns + i)];
      all[static_cast<size_t>(i)] += sum;
      importance.means[static_cast<size_t>(m * columns + i)] = static_cast<float>(sum / count);
    }
  }
  if (inputs == 0) return ColumnImportance{.means = {}, .unreached = std::move(importance.unreached)};
  for (const int64_t m : importance.unreached) {
    for (int64_t i = 0; i < columns; ++i) {
      importance.means[static_cast<size_t>(m * columns + i)] = static_cast<float>(all[static_cast<size_t>(i)] / inputs);
    }
  }
  return importance;
}

}  // namespace cairn::convert
