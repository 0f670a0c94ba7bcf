/// Files of log-probabilities: a model's distribution over the next token after many positions of a text, for comparing
/// other weights or other programs with it. The layout is that of llama-perplexity (--kl-divergence-base), so that
/// either program reads what the other has written.
///
/// Little-endian: the bytes "_logits_"; three 32-bit numbers, tokens of a window, entries of the vocabulary and
/// windows; the tokens, 32 bits each, [windows, tokens of a window]; then a record for every counted position of every
/// window, those of the second half but for the last one. A record is a float32 `scale`, a float32 `least` and a 16-bit
/// code for every entry of the vocabulary, and one code of padding if their number is odd. An entry's log-probability
/// is least + scale * code; code 0 also stands for all smaller ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "base/system/mapped_file.h"

namespace cairn::perplexity {

/// Windows of fewer tokens have no position that counts.
inline constexpr int32_t kWindowTokensMin = 3;
inline constexpr int32_t kWindowTokensMax = 1 << 24;

struct LogitsShape {
  int32_t window_tokens = 0;
  int32_t vocabulary = 0;
  int32_t windows = 0;

  /// Number of positions that count in a window: those of [window_tokens / 2, window_tokens - 1), each of which
  /// predicts the next token.
  int32_t counted() const { return window_tokens - 1 - window_tokens / 2; }
  int64_t positions() const { return int64_t{windows} * counted(); }
  int64_t record_bytes() const;
};

/// Log-probabilities after one position.
struct LogitsRecord {
  float scale = 0;
  float least = 0;
  std::span<const std::byte> codes;  ///< 16 bits for each entry of the vocabulary

  uint16_t code(int64_t entry) const;
  float log_probability(int64_t entry) const { return least + scale * static_cast<float>(code(entry)); }
};

/// Writes the record of a row of logits with the maximum `largest` and the sum of exponentials e^(largest + log_sum).
/// Codes reach from the largest log-probability to 16 below it.
void encode_record(std::span<const float> logits, float largest, float log_sum, std::span<std::byte> record);

/// A file mapped into memory. Move-only.
class LogitsFile {
 public:
  /// Errors: those of MappedFile; kCorruptFile (not a file of log-probabilities, shorter or longer than its header
  /// says, a token outside the vocabulary).
  static Result<LogitsFile> open(const std::filesystem::path& path);
  /// Reads a file's contents like open(), from bytes that outlive the result.
  static Result<LogitsFile> from_bytes(std::span<const std::byte> bytes);

  const LogitsShape& shape() const { return shape_; }
  const std::vector<TokenId>& tokens() const { return tokens_; }  ///< [windows, window_tokens]
  /// The record of one counted position, 0 .. shape().positions() - 1, counted over all windows. Error: kCorruptFile,
  /// with its offset.
  Result<LogitsRecord> record(int64_t position) const;
  /// Gives the memory of the records [begin, end) back: they can be read again.
  void release(int64_t begin, int64_t end) const;

 private:
  LogitsFile() = default;
  std::span<const std::byte> records(int64_t begin, int64_t end) const;

  std::optional<MappedFile> mapping_;
  std::span<const std::byte> bytes_;
  int64_t records_begin_ = 0;
  LogitsShape shape_;
  std::vector<TokenId> tokens_;
};

/// Writes such a file. It appears under its name only once it is complete.
class LogitsFileWriter {
 public:
  /// `tokens` [windows, window_tokens]. Error: kIo.
  static Result<LogitsFileWriter> create(const std::filesystem::path& path, const LogitsShape& shape,
                                         std::span<const TokenId> tokens);
  LogitsFileWriter(LogitsFileWriter&&) noexcept;
  LogitsFileWriter& operator=(LogitsFileWriter&&) noexcept;
  ~LogitsFileWriter();

  /// Appends the next records; their bytes are whole records. Error: kIo.
  Result<void> append(std::span<const std::byte> records);
  /// Errors: kIo, kInternal (records are missing).
  Result<void> finish();

 private:
  struct State;
  explicit LogitsFileWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace cairn::perplexity
