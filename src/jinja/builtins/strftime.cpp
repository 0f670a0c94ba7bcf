#include "jinja/builtins/strftime.h"

#include <array>

namespace cairn::jinja {

Result<void> put_time(Buffer& out, const Piece& pattern, std::time_t now) {
  const std::string_view format = pattern.bytes();
  // The supported single codes; datetime passes others to the C library, where they are not portable.
  constexpr std::string_view kCodes = "aAbBcCdDeFgGhHIjklmMnpPrRsStTuUVwWxXyYzZ";
  constexpr std::string_view kFlags = "-_0^#";
  std::tm local{};
  if (localtime_r(&now, &local) == nullptr) return fail(Code::kInvalidArgument, "the time {} has no date", now);
  Derivation derived(out, pattern);
  for (size_t i = 0; i < format.size(); ++i) {
    const size_t percent = format.find('%', i);
    CAIRN_TRY_VOID(derived.put(format.substr(i, percent - i), format.substr(i, percent - i)));
    if (percent == std::string_view::npos) break;
    const bool has_flag = percent + 1 < format.size() && kFlags.find(format[percent + 1]) != std::string_view::npos;
    const size_t at = percent + 1 + has_flag;
    const char code = at < format.size() ? format[at] : '\0';
    i = percent;
    const std::string_view field = format.substr(percent, at - percent + 1);
    if (code == '%') {
      CAIRN_TRY_VOID(derived.put("%", field));
      i = at;
    } else if (code == 'f') {
      CAIRN_TRY_VOID(derived.put("000000", field));  // microseconds, which `now` does not have
      i = at;
    } else if (code != '\0' && kCodes.find(code) != std::string_view::npos) {
      const char one[4] = {'%', has_flag ? format[at - 1] : code, has_flag ? code : '\0', '\0'};
      std::array<char, 128> bytes{};
      const size_t length = std::strftime(bytes.data(), bytes.size(), one, &local);
      CAIRN_TRY_VOID(derived.put(std::string_view(bytes.data(), length), field));
      i = at;
    } else {
      CAIRN_TRY_VOID(derived.put("%", format.substr(percent, 1)));
    }
  }
  return derived.finish();
}

}  // namespace cairn::jinja
