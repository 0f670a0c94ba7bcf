#include "hub/checksums.h"

#include <algorithm>
#include <map>
#include <system_error>
#include <utility>

#include "base/text/printable.h"
#include "gguf/split.h"
#include "net/sha256.h"

namespace cairn::hub {
namespace {

constexpr size_t kDigits = 64;
constexpr std::string_view kBlobPrefix = "sha256-";  // of Ollama's blobs

// The digits in lower case; nullopt for anything else.
std::optional<std::string> hex_digits(std::string_view text) {
  const auto digest = net::sha256_from_hex(text);
  if (!digest) return std::nullopt;
  return net::hex_text(*digest);
}

std::string_view without_folders(std::string_view name) {
  const size_t slash = name.rfind('/');
  return slash == std::string_view::npos ? name : name.substr(slash + 1);
}

std::optional<Checksum> parse_line(std::string_view line, std::string_view file_name) {
  const auto digest = hex_digits(line.substr(0, kDigits));
  if (!digest) return std::nullopt;
  line.remove_prefix(kDigits);
  if (line.find_first_not_of(" \t") == std::string_view::npos) return Checksum{*digest, std::string(file_name)};
  if (!line.starts_with("  ") && !line.starts_with(" *")) return std::nullopt;
  return Checksum{*digest, std::string(without_folders(line.substr(2)))};
}

// FILE:TENSOR as ":TENSOR", whatever the file is called; a file's name as it is.
std::string_view compared_name(std::string_view name) {
  const size_t colon = name.find(".gguf:");
  return colon == std::string_view::npos ? name : name.substr(colon + std::string_view(".gguf").size());
}

}  // namespace

Result<std::vector<Checksum>> parse_checksums(std::string_view text, std::string_view file_name) {
  std::vector<Checksum> list;
  for (size_t number = 1; !text.empty(); ++number) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.starts_with('#')) continue;
    auto checksum = parse_line(line, file_name);
    if (!checksum) {
      return fail(Code::kInvalidArgument, "line {} is no SHA-256 checksum with a name, as sha256sum prints them: {}",
                  number, printable(line));
    }
    list.push_back(std::move(*checksum));
  }
  if (list.empty()) return fail(Code::kInvalidArgument, "it has no checksums");
  return list;
}

std::optional<std::string> checksum_in_name(const std::filesystem::path& path) {
  std::error_code error;
  const auto real = std::filesystem::canonical(path, error);
  if (error) return std::nullopt;
  const std::string name = real.filename().string();
  return hex_digits(name.starts_with(kBlobPrefix) ? std::string_view(name).substr(kBlobPrefix.size()) : name);
}

std::vector<std::filesystem::path> files_of_model(const std::filesystem::path& path) {
  const auto name = gguf::split_name(path.filename().string());
  if (!name) return {path};
  std::vector<std::filesystem::path> files;
  for (uint32_t part = 1; part <= std::min(name->parts, gguf::kSplitsMax); ++part)
    files.push_back(path.parent_path() / gguf::split_file_name(*name, part));
  return files;
}

Result<std::vector<Checksum>> tensor_checksums(const gguf::Reader& file, std::string_view file_name,
                                               const std::function<bool(int64_t)>& on_bytes) {
  std::vector<Checksum> list;
  int64_t bytes = 0;
  for (const gguf::Tensor& tensor : file.tensors()) {
    const std::string_view text(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
    list.push_back({net::hex_text(net::sha256(text)), fmt::format("{}:{}", file_name, tensor.name)});
    bytes += std::ssize(text);
    if (!on_bytes(bytes)) return fail(Code::kCancelled, "stopped");
  }
  return list;
}

Result<std::vector<ChecksumMismatch>> compare_checksums(std::span<const Checksum> expected,
                                                        std::span<const Checksum> found) {
  std::map<std::string_view, std::string_view> known;
  bool tensors = false;
  for (const Checksum& checksum : found) {
    known.emplace(compared_name(checksum.name), checksum.sha256);
    tensors |= compared_name(checksum.name).starts_with(':');
  }
  std::vector<ChecksumMismatch> wrong;
  bool any = false;
  for (const Checksum& checksum : expected) {
    const std::string_view name = compared_name(checksum.name);
    const auto one = known.find(name);
    const bool concerns = one != known.end() || (tensors && name.starts_with(':'));
    any |= concerns;
    if (!concerns || (one != known.end() && one->second == checksum.sha256)) continue;
    wrong.push_back({checksum.name, checksum.sha256, one == known.end() ? "" : std::string(one->second)});
  }
  if (any) return wrong;
  return fail(Code::kNotFound, "the list has no checksum of this model; it names {}{}",
              printable(expected.empty() ? "nothing" : std::string_view(expected.front().name)),
              expected.size() > 1 ? " and others" : "");
}

}  // namespace cairn::hub
