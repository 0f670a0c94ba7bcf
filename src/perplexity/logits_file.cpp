#include "perplexity/logits_file.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "base/system/new_file.h"

namespace cairn::perplexity {
namespace {

constexpr std::string_view kMagic = "_logits_";
constexpr int64_t kHeaderBytes = kMagic.size() + 3 * sizeof(int32_t);
constexpr int64_t kRecordHeadBytes = 2 * sizeof(float);
constexpr int32_t kVocabularyMax = 1 << 24;
// Log-probabilities further below the largest one have code 0.
constexpr float kRange = 16.0f;
constexpr float kCodeMax = 65'535.0f;

template <class T>
T read_at(std::span<const std::byte> bytes, int64_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(value));
  return value;
}

Result<LogitsShape> read_shape(std::span<const std::byte> bytes) {
  const auto size = std::ssize(bytes);
  if (size < kHeaderBytes || std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0) {
    return fail(Code::kCorruptFile, "this is no file of log-probabilities: it does not begin with \"{}\"", kMagic);
  }
  constexpr int64_t kAt = kMagic.size();
  const LogitsShape shape{read_at<int32_t>(bytes, kAt), read_at<int32_t>(bytes, kAt + 4),
                          read_at<int32_t>(bytes, kAt + 8)};
  if (shape.window_tokens < kWindowTokensMin || shape.window_tokens > kWindowTokensMax || shape.vocabulary < 1 ||
      shape.vocabulary > kVocabularyMax || shape.windows < 1) {
    return fail_at("offset 8", Code::kCorruptFile,
                   "the file is damaged: it says that it has {} windows of {} tokens of a vocabulary of {}",
                   shape.windows, shape.window_tokens, shape.vocabulary);
  }
  // The product of all could exceed 64 bits, so the file's size bounds one factor after the other.
  const int64_t tokens = int64_t{shape.windows} * shape.window_tokens;
  const int64_t rest = (size - kHeaderBytes) - tokens * static_cast<int64_t>(sizeof(int32_t));
  if (rest / shape.record_bytes() != shape.positions() || rest % shape.record_bytes() != 0) {
    return fail(Code::kCorruptFile,
                "the file is damaged, or was not written to its end: {} bytes are not {} windows of {} tokens of a "
                "vocabulary of {}",
                size, shape.windows, shape.window_tokens, shape.vocabulary);
  }
  return shape;
}

}  // namespace

int64_t LogitsShape::record_bytes() const {
  return kRecordHeadBytes + (vocabulary + vocabulary % 2) * static_cast<int64_t>(sizeof(uint16_t));
}

uint16_t LogitsRecord::code(int64_t entry) const {
  return read_at<uint16_t>(codes, entry * static_cast<int64_t>(sizeof(uint16_t)));
}

void encode_record(std::span<const float> logits, float largest, float log_sum, std::span<std::byte> record) {
  const float scale = kRange / kCodeMax;
  const float least = -kRange - log_sum;
  const float floor = largest - kRange;
  std::ranges::fill(record.last(4), std::byte{0});  // the padding code, if the vocabulary's size is odd
  std::memcpy(record.data(), &scale, sizeof(scale));
  std::memcpy(record.data() + sizeof(scale), &least, sizeof(least));
  std::byte* to = record.data() + kRecordHeadBytes;
  for (size_t i = 0; i < logits.size(); ++i) {
    const float above = logits[i] > floor ? logits[i] - floor : 0.0f;  // NaN: 0
    const auto code = static_cast<uint16_t>(std::min(above / scale + 0.5f, kCodeMax));
    std::memcpy(to + i * sizeof(code), &code, sizeof(code));
  }
}

// ---- Reading ----

Result<LogitsFile> LogitsFile::open(const std::filesystem::path& path) {
  CAIRN_TRY(MappedFile mapping, MappedFile::open(path));
  auto file = from_bytes(mapping.bytes());
  if (!file.has_value()) {
    Error error = std::move(file).error();
    error.at = error.at.empty() ? path.string() : path.string() + ", " + error.at;
    return std::unexpected(std::move(error));
  }
  file->mapping_ = std::move(mapping);
  return file;
}

Result<LogitsFile> LogitsFile::from_bytes(std::span<const std::byte> bytes) {
  LogitsFile file;
  CAIRN_TRY(file.shape_, read_shape(bytes));
  file.bytes_ = bytes;
  const int64_t tokens = int64_t{file.shape_.windows} * file.shape_.window_tokens;
  file.records_begin_ = kHeaderBytes + tokens * static_cast<int64_t>(sizeof(int32_t));
  file.tokens_.reserve(static_cast<size_t>(tokens));
  for (int64_t offset = kHeaderBytes; offset < file.records_begin_; offset += sizeof(int32_t)) {
    const auto token = read_at<int32_t>(bytes, offset);
    if (token < 0 || token >= file.shape_.vocabulary) {
      return fail_at(fmt::format("offset {}", offset), Code::kCorruptFile,
                     "the file is damaged: token {} is not in its vocabulary of {}", token, file.shape_.vocabulary);
    }
    file.tokens_.push_back(TokenId{token});
  }
  return file;
}

std::span<const std::byte> LogitsFile::records(int64_t begin, int64_t end) const {
  const int64_t size = shape_.record_bytes();
  return bytes_.subspan(static_cast<size_t>(records_begin_ + begin * size), static_cast<size_t>((end - begin) * size));
}

Result<LogitsRecord> LogitsFile::record(int64_t position) const {
  const auto bytes = records(position, position + 1);
  const LogitsRecord record{read_at<float>(bytes, 0), read_at<float>(bytes, sizeof(float)),
                            bytes.subspan(kRecordHeadBytes, static_cast<size_t>(shape_.vocabulary) * sizeof(uint16_t))};
  if (!std::isfinite(record.scale) || !std::isfinite(record.least) || record.scale < 0 || record.least > 0) {
    return fail_at(fmt::format("offset {}", bytes.data() - bytes_.data()), Code::kCorruptFile,
                   "the file of log-probabilities is damaged: they would begin at {} in steps of {}", record.least,
                   record.scale);
  }
  return record;
}

void LogitsFile::release(int64_t begin, int64_t end) const {
  if (mapping_.has_value()) mapping_->release(records(begin, end));
}

// ---- Writing ----

struct LogitsFileWriter::State {
  NewFile file;
  int64_t missing = 0;  // bytes of records
};

LogitsFileWriter::LogitsFileWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
LogitsFileWriter::LogitsFileWriter(LogitsFileWriter&&) noexcept = default;
LogitsFileWriter& LogitsFileWriter::operator=(LogitsFileWriter&&) noexcept = default;
LogitsFileWriter::~LogitsFileWriter() = default;

Result<LogitsFileWriter> LogitsFileWriter::create(const std::filesystem::path& path, const LogitsShape& shape,
                                                  std::span<const TokenId> tokens) {
  CAIRN_TRY(NewFile file, NewFile::create(path));
  std::string head(kMagic);
  const auto append_number = [&head](int32_t number) { head.append(reinterpret_cast<const char*>(&number), 4); };
  for (const int32_t number : {shape.window_tokens, shape.vocabulary, shape.windows}) append_number(number);
  for (const TokenId token : tokens) append_number(index(token));
  CAIRN_TRY_VOID(file.write(std::as_bytes(std::span(head))));
  const int64_t missing = shape.positions() * shape.record_bytes();
  return LogitsFileWriter(std::unique_ptr<State>(new State{std::move(file), missing}));
}

Result<void> LogitsFileWriter::append(std::span<const std::byte> records) {
  state_->missing -= std::ssize(records);
  return state_->file.write(records);
}

Result<void> LogitsFileWriter::finish() {
  if (state_->missing != 0) return fail(Code::kInternal, "{} bytes of log-probabilities are missing", state_->missing);
  return state_->file.finish();
}

}  // namespace cairn::perplexity
