/// Reads a file's bytes front to back; every read is checked against the end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "gguf/number_type.h"

namespace cairn::gguf {

class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  uint64_t offset() const { return offset_; }
  uint64_t remaining() const { return bytes_.size() - offset_; }

  /// The next `count` bytes. `what` names them in the error: "the file is cut short: <what> needs bytes up to ...".
  Result<std::span<const std::byte>> take(uint64_t count, std::string_view what) {
    if (count > remaining()) return cut_short(count, what);
    const auto taken = bytes_.subspan(offset_, count);
    offset_ += count;
    return taken;
  }

  template <class T>
  Result<T> number(std::string_view what) {
    CAIRN_TRY(const auto bytes, take(sizeof(T), what));
    return load<T>(bytes.data());
  }

  /// A string: 64-bit length, then the bytes. kTooLarge over `bytes_max`.
  Result<std::string_view> string(uint64_t bytes_max, std::string_view what) {
    const std::string begin = at();
    CAIRN_TRY(const uint64_t length, number<uint64_t>(what));
    if (length > bytes_max) {
      return fail_at(begin, Code::kTooLarge, "{} is {} bytes long, the limit is {}; the file is damaged or not usable",
                     what, length, bytes_max);
    }
    CAIRN_TRY(const auto bytes, take(length, what));
    return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }

  /// "offset 1234".
  std::string at() const { return fmt::format("offset {}", offset_); }

 private:
  std::unexpected<Error> cut_short(uint64_t count, std::string_view what) const {
    if (count > UINT64_MAX - offset_) {
      return fail_at(at(), Code::kCorruptFile, "{} claims {} bytes, more than any file has; the file is damaged", what,
                     count);
    }
    return fail_at(at(), Code::kCorruptFile,
                   "the file is cut short: {} needs bytes up to {}, the file has {}; download it again", what,
                   offset_ + count, bytes_.size());
  }

  std::span<const std::byte> bytes_;
  uint64_t offset_ = 0;
};

}  // namespace cairn::gguf
