#include "net/http/authority.h"

#include <algorithm>

namespace cairn::net {
namespace {

bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f'); }

/// Whether the character, in lower case, may be in a reg-name: unreserved, sub-delims and '%'.
bool is_name_char(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') ||
         std::string_view("-._~!$&'()*+,;=%").find(c) != std::string_view::npos;
}

}  // namespace

std::optional<Authority> parse_authority(std::string_view text) {
  Authority parsed;
  std::string host = lower_case(text);
  size_t end = 0;
  if (host.starts_with('[')) {
    end = host.find(']');
    if (end == std::string::npos) return std::nullopt;
    parsed.host = host.substr(1, end - 1);
    ++end;
    if (const size_t zone = parsed.host.find('%'); zone != std::string::npos) {  // RFC 6874
      const std::string_view name = std::string_view(parsed.host).substr(zone + 1);
      if (name.empty() || !std::ranges::all_of(name, is_name_char)) return std::nullopt;
      parsed.host.erase(zone);
    }
    const auto is_address_char = [](char c) { return is_hex(c) || c == ':' || c == '.'; };
    if (parsed.host.empty() || !std::ranges::all_of(parsed.host, is_address_char)) return std::nullopt;
  } else {
    end = std::min(host.find(':'), host.size());
    parsed.host = host.substr(0, end);
    if (!std::ranges::all_of(parsed.host, is_name_char)) return std::nullopt;
  }
  if (end == host.size()) return parsed;
  if (host[end] != ':') return std::nullopt;
  parsed.port = host.substr(end + 1);
  if (!std::ranges::all_of(parsed.port, is_digit)) return std::nullopt;
  return parsed;
}

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ') || text.starts_with('\t')) text.remove_prefix(1);
  while (text.ends_with(' ') || text.ends_with('\t')) text.remove_suffix(1);
  return text;
}

std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

}  // namespace cairn::net
