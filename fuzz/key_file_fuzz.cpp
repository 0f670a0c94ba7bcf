// Fuzzes a key file (docs/access.md): an error with words that has no long text of the file in it, or keys within the
// limits, each with a name of its own.
#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>
#include <string_view>

#include "api/access/key_file.h"
#include "base/log.h"

using namespace cairn;       // NOLINT: one small program
using namespace cairn::api;  // NOLINT

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const bool kQuiet = (set_log_level(LogLevel::kError), true);
  require(kQuiet);
  constexpr size_t kMessageBytesMax = 600;
  const auto keys = parse_keys({reinterpret_cast<const char*>(data), size}, "keys");
  if (!keys) {
    require(!keys.error().message.empty() && keys.error().message.size() <= kMessageBytesMax);
    return 0;
  }
  require(!keys->empty() && keys->size() <= kKeysMax);
  std::set<std::string> names;
  for (const Key& key : *keys) {
    const auto& [name, models, priority, limits, no_disk, manages] = key.rules;
    require(!name.empty() && name.size() <= kKeyNameBytesMax && names.insert(name).second);
    require(models.size() <= kKeyModelsMax);
    for (const int64_t limit : {limits.requests_per_minute, limits.tokens_per_minute, limits.concurrent})
      require(limit >= 0 && limit <= kRateLimitMax);
  }
  return 0;
}
