/// API keys and what each may do, as a file has them: see docs/access.md.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/access/rate_meter.h"
#include "base/error.h"
#include "engine/party.h"
#include "net/sha256.h"

namespace cairn::api {

inline constexpr size_t kKeysMax = 10'000;           ///< of one server
inline constexpr size_t kKeyFileBytesMax = 4 << 20;  ///< of a key file
inline constexpr size_t kKeyNameBytesMax = 64;
inline constexpr size_t kKeyTextBytesMax = 512;
inline constexpr size_t kKeyModelsMax = 256;  ///< patterns of one key
/// Shorter keys can be found by trying: the log warns of them. A key that stands alone on its line is at least as long.
inline constexpr size_t kKeyTextBytesMin = 16;

/// What a key may do.
struct KeyRules {
  std::string name{};                 ///< who logs, limits and stored answers say it is
  std::vector<std::string> models{};  ///< patterns of names (base/text/glob.h); empty: all models
  engine::Priority priority =
      engine::Priority::kInteractive;  ///< kBatch: its requests never go before interactive ones
  RateLimits limits{};
  bool no_disk = false;  ///< nothing of its requests is written to a disk
  bool manages = false;  ///< may fetch, delete, load and unload models
};

struct Key {
  net::Sha256 digest{};  ///< of the key's text, which is kept nowhere
  KeyRules rules;
};

/// "key-" and the first twelve digits of the hash, for a key that has no name.
std::string key_name(const net::Sha256& digest);
/// A key with these rules; warns of one that is short. Errors: kInvalidArgument (not of printable ASCII without blanks,
/// or too long); the message does not have the key in it.
Result<Key> key_of(std::string_view text, KeyRules rules);
/// One key a line: NAME KEY [WORD...], or KEY alone. Empty lines, and what stands behind a '#' at the beginning of a
/// line or behind a blank, are left out. `file` is named in errors, with the line. Errors: kInvalidArgument (also two
/// keys with one name, a key twice, no key at all), kTooLarge.
Result<std::vector<Key>> parse_keys(std::string_view text, std::string_view file);
/// The text of a key file; warns if others than its owner and group may read or change it. Errors: kNotFound,
/// kTooLarge, kIo.
Result<std::string> read_key_text(const std::string& path);

}  // namespace cairn::api
