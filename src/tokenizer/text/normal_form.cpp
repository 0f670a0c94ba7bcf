#include "tokenizer/text/normal_form.h"

#include <utf8proc.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <utility>

namespace cairn::tokenizer {
namespace {

// The first byte of U+0300, the first character that normalisation can change or compose with the one before it.
constexpr unsigned char kFirstCombiningLead = 0xCC;

struct Free {
  // NOLINTNEXTLINE(cppcoreguidelines-no-malloc): the library's way to hand memory over
  void operator()(utf8proc_uint8_t* bytes) const { std::free(bytes); }
};

bool is_ascii(char c) { return static_cast<signed char>(c) >= 0; }

// Composes a part that has no ASCII characters except for the first.
void append_composed(std::string& out, std::string_view part) {
  utf8proc_uint8_t* bytes = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(part.data()), static_cast<utf8proc_ssize_t>(part.size()),
                   &bytes, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, Free> owner(bytes);
  if (size < 0) {
    out.append(part);
  } else {
    out.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(size));
  }
}

}  // namespace

std::string_view nfc(std::string_view text, std::string& scratch) {
  std::string out;
  size_t done = 0;
  for (size_t i = 0; i < text.size();) {
    if (is_ascii(text[i])) {
      ++i;
      continue;
    }
    const size_t begin = i == 0 ? 0 : i - 1;  // an ASCII letter may combine with the marks after it
    bool stable = true;
    for (; i < text.size() && !is_ascii(text[i]); ++i) {
      stable = stable && static_cast<unsigned char>(text[i]) < kFirstCombiningLead;
    }
    if (stable) continue;
    out.append(text.substr(done, begin - done));
    append_composed(out, text.substr(begin, i - begin));
    done = i;
  }
  if (done == 0) return text;
  out.append(text.substr(done));
  scratch = std::move(out);
  return scratch;
}

}  // namespace cairn::tokenizer
