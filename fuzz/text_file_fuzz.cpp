// Fuzzes the reader of text files: any bytes give an error that begins with the file's name, or text that is valid
// UTF-8 without a mark or NUL characters; and the same text is read of UTF-8 with a mark and of UTF-16 of both orders.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/text/text_file.h"
#include "base/text/utf8.h"

using namespace cairn;  // NOLINT: one small program

namespace {

constexpr std::string_view kName = "the file";

void require(bool condition) {
  if (!condition) std::abort();
}

std::string utf16_of(std::string_view text, bool big) {
  std::string bytes;
  const auto add = [&](char32_t unit) {
    const char high = static_cast<char>(unit >> 8), low = static_cast<char>(unit & 0xFF);
    bytes.append({big ? high : low, big ? low : high});
  };
  add(0xFEFF);
  for (size_t at = 0; at < text.size();) {
    const Utf8Char next = utf8_decode(text, at);
    at += static_cast<size_t>(next.length);
    if (next.value < 0x10000) {
      add(next.value);
      continue;
    }
    add(0xD800 + ((next.value - 0x10000) >> 10));
    add(0xDC00 + ((next.value - 0x10000) & 0x3FF));
  }
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const auto text = text_of_bytes(bytes, kName);
  if (!text) {
    require(text.error().code == Code::kInvalidArgument && text.error().message.starts_with(kName));
    require(utf8_valid(text.error().message) && text.error().message.size() < 200);
    return 0;
  }
  require(utf8_valid(*text) && text->find('\0') == std::string::npos);
  require(text_of_bytes("\xef\xbb\xbf" + *text, kName) == *text);
  for (const bool big : {false, true}) require(text_of_bytes(utf16_of(*text, big), kName) == *text);
  return 0;
}
