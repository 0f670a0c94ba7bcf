#include "gguf/split.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>

namespace cairn::gguf {
namespace {

constexpr size_t kDigits = 5;
constexpr std::string_view kSuffix = ".gguf";

std::optional<uint32_t> five_digits(std::string_view text) {
  if (text.size() != kDigits) return std::nullopt;
  uint32_t value = 0;
  for (const char digit : text) {
    if (digit < '0' || digit > '9') return std::nullopt;
    value = value * 10 + static_cast<uint32_t>(digit - '0');
  }
  return value;
}

}  // namespace

bool is_gguf_name(std::string_view file_name) {
  if (file_name.size() <= kSuffix.size()) return false;
  const size_t begin = file_name.size() - kSuffix.size();
  const auto same = [](unsigned char a, unsigned char b) { return std::tolower(a) == b; };
  return std::ranges::equal(file_name.substr(begin), kSuffix, same) && file_name[begin - 1] != '/';
}

std::optional<SplitName> split_name(const std::string& file_name) {
  constexpr std::string_view kOf = "-of-";
  constexpr size_t kTail = 1 + kDigits + kOf.size() + kDigits + kSuffix.size();
  if (file_name.size() <= kTail || !is_gguf_name(file_name)) return std::nullopt;
  const std::string_view tail = std::string_view(file_name).substr(file_name.size() - kTail);
  if (tail[0] != '-' || tail.substr(1 + kDigits, kOf.size()) != kOf) return std::nullopt;
  const auto part = five_digits(tail.substr(1, kDigits));
  const auto parts = five_digits(tail.substr(1 + kDigits + kOf.size(), kDigits));
  if (!part || !parts || *part < 1 || *part > *parts) return std::nullopt;
  return SplitName{file_name.substr(0, file_name.size() - kTail), *part, *parts,
                   file_name.substr(file_name.size() - kSuffix.size())};
}

std::string split_file_name(const SplitName& name, uint32_t part) {
  return fmt::format("{}-{:05}-of-{:05}{}", name.stem, part, name.parts, name.ending);
}

Result<SplitInfo> split_info(const Metadata& metadata) {
  CAIRN_TRY(const int64_t parts, metadata.integer_or("split.count", 1));
  if (parts == 0 || parts == 1) return SplitInfo{};
  if (parts < 0 || parts > kSplitsMax) {
    return fail_at("key split.count", Code::kTooLarge, "the model is split into {} files, the limit is {}", parts,
                   kSplitsMax);
  }
  CAIRN_TRY(const int64_t part, metadata.integer("split.no"));
  if (part < 0 || part >= parts) {
    return fail_at("key split.no", Code::kCorruptFile, "the file says it is part {} (counted from 0) of {}", part,
                   parts);
  }
  SplitInfo info{static_cast<uint32_t>(part), static_cast<uint32_t>(parts), std::nullopt};
  if (metadata.contains("split.tensors.count")) {
    CAIRN_TRY(const int64_t total, metadata.integer("split.tensors.count"));
    if (total < 0) return fail_at("key split.tensors.count", Code::kCorruptFile, "the number of tensors is {}", total);
    info.tensors_total = static_cast<uint64_t>(total);
  }
  return info;
}

}  // namespace cairn::gguf
