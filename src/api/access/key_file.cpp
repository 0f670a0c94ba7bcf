#include "api/access/key_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "base/log.h"
#include "base/text/printable.h"
#include "base/text/text_file.h"

namespace cairn::api {
namespace {

constexpr std::string_view kHashPrefix = "sha256:";
constexpr std::string_view kBlanks = " \t\r";

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  for (size_t begin = line.find_first_not_of(kBlanks); begin != std::string_view::npos;) {
    if (line[begin] == '#') break;
    const size_t end = std::min(line.find_first_of(kBlanks, begin), line.size());
    words.push_back(line.substr(begin, end - begin));
    begin = line.find_first_not_of(kBlanks, end);
  }
  return words;
}

bool is_name(std::string_view text) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-' || c == '@';
  };
  return !text.empty() && text.size() <= kKeyNameBytesMax && std::ranges::all_of(text, fits);
}

bool is_key_text(std::string_view text) {
  return !text.empty() && text.size() <= kKeyTextBytesMax &&
         std::ranges::all_of(text, [](char c) { return c > ' ' && c <= '~'; });
}

/// Whether the word is one of those that come behind a key.
bool is_option(std::string_view word) {
  return word == "no_disk" || word == "manage" ||
         std::ranges::any_of(
             std::initializer_list<std::string_view>{"models=", "priority=", "rpm=", "tpm=", "concurrent="},
             [&](std::string_view begin) { return word.starts_with(begin); });
}

Result<void> read_models(std::string_view list, std::vector<std::string>& models) {
  if (list.empty()) return fail(Code::kInvalidArgument, "models= names no model; without it all may be used");
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    if (end == begin) return fail(Code::kInvalidArgument, "models= has an empty part between its commas");
    models.emplace_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  if (models.size() > kKeyModelsMax)
    return fail(Code::kTooLarge, "models= has {} patterns; {} is the most", models.size(), kKeyModelsMax);
  return {};
}

Result<void> read_word(std::string_view word, KeyRules& rules) {
  CAIRN_TRY(const bool limit, read_limit(word, rules.limits));
  if (limit) return {};
  if (word.starts_with("models=")) return read_models(word.substr(std::strlen("models=")), rules.models);
  if (word == "no_disk") {
    rules.no_disk = true;
  } else if (word == "manage") {
    rules.manages = true;
  } else if (word == "priority=batch") {
    rules.priority = engine::Priority::kBatch;
  } else if (word == "priority=interactive") {
    rules.priority = engine::Priority::kInteractive;
  } else {
    return fail(Code::kInvalidArgument,
                "\"{}\" is none of models=PATTERN,..., priority=interactive, priority=batch, rpm=N, tpm=N, "
                "concurrent=N, no_disk and manage",
                printable(word));
  }
  return {};
}

Result<Key> with_secret(std::string_view secret, KeyRules rules) {
  if (!secret.starts_with(kHashPrefix)) return key_of(secret, std::move(rules));
  const auto digest = net::sha256_from_hex(secret.substr(kHashPrefix.size()));
  if (!digest) return fail(Code::kInvalidArgument, "{} is followed by 64 hexadecimal digits", kHashPrefix);
  return Key{*digest, std::move(rules)};
}

// Nothing here repeats a word that might be the key.
Result<Key> read_line(const std::vector<std::string_view>& words) {
  KeyRules rules;
  if (words.size() == 1) {
    const std::string_view text = words[0];
    if (!text.starts_with(kHashPrefix) && text.size() < kKeyTextBytesMin) {
      return fail(Code::kInvalidArgument,
                  "a line is NAME KEY and what the key may do; a key alone has at least {} characters",
                  kKeyTextBytesMin);
    }
    CAIRN_TRY(Key key, with_secret(text, std::move(rules)));
    key.rules.name = key_name(key.digest);
    return key;
  }
  if (is_option(words[1])) {
    return fail(Code::kInvalidArgument, "there is no key behind the name: a line is NAME KEY and what the key may do");
  }
  if (!is_name(words[0])) {
    return fail(Code::kInvalidArgument, "a name has 1 to {} letters, digits and . _ - @, and comes before the key",
                kKeyNameBytesMax);
  }
  rules.name = words[0];
  for (size_t i = 2; i < words.size(); ++i) CAIRN_TRY_VOID(read_word(words[i], rules));
  return with_secret(words[1], std::move(rules));
}

}  // namespace

std::string key_name(const net::Sha256& digest) {
  constexpr size_t kDigits = 12;
  return "key-" + net::hex_text(digest).substr(0, kDigits);
}

Result<Key> key_of(std::string_view text, KeyRules rules) {
  if (!is_key_text(text)) {
    return fail(Code::kInvalidArgument, "a key has 1 to {} printable ASCII characters and no blanks", kKeyTextBytesMax);
  }
  Key key{net::sha256(text), std::move(rules)};
  if (key.rules.name.empty()) key.rules.name = key_name(key.digest);
  if (text.size() < kKeyTextBytesMin) {
    log_warning("the API key \"{}\" has {} characters, and can be found by trying; `cairn key` makes a better one",
                key.rules.name, text.size());
  }
  return key;
}

Result<std::vector<Key>> parse_keys(std::string_view text, std::string_view file) {
  std::vector<Key> keys;
  std::unordered_map<std::string, int> lines_of_names;
  std::map<net::Sha256, int> lines_of_digests;
  for (int number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const auto words = words_of(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (words.empty()) continue;
    auto key = read_line(words);
    if (!key) return fail(key.error().code, "{}:{}: {}", file, number, key.error().message);
    const auto name = lines_of_names.try_emplace(key->rules.name, number);
    if (!name.second)
      return fail(Code::kInvalidArgument, "{}:{}: line {} has a key of that name already", file, number,
                  name.first->second);
    const auto digest = lines_of_digests.try_emplace(key->digest, number);
    if (!digest.second)
      return fail(Code::kInvalidArgument, "{}:{}: line {} has the same key", file, number, digest.first->second);
    if (keys.size() == kKeysMax)
      return fail(Code::kTooLarge, "{}:{}: there are more than {} keys", file, number, kKeysMax);
    keys.push_back(*std::move(key));
  }
  if (keys.empty()) return fail(Code::kInvalidArgument, "{}: there is no key in it", file);
  return keys;
}

Result<std::string> read_key_text(const std::string& path) {
  CAIRN_TRY(std::string text, read_text_file(path, "the key file", kKeyFileBytesMax));
  struct stat about{};
  if (::stat(path.c_str(), &about) == 0 && (about.st_mode & (S_IROTH | S_IWOTH)) != 0) {
    log_warning("every user of this machine may {} the key file {}; forbid it with: chmod o-rwx {}",
                (about.st_mode & S_IWOTH) != 0 ? "change" : "read", path, path);
  }
  return text;
}

}  // namespace cairn::api
