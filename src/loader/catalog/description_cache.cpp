#include "loader/catalog/description_cache.h"

#include <unistd.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "base/text/json.h"

namespace cairn::loader {
namespace {

using nlohmann::ordered_json;

/// The version of the format, and of what descriptions are made by: another one's lines are not used.
constexpr std::string_view kHead = R"({"cairn_descriptions":5})";

ordered_json to_json(const std::string& path, const CachedDescription& cached) {
  ordered_json line = {
      {"path", path}, {"size", cached.size}, {"modified_ns", cached.modified_ns}, {"inode", cached.inode}};
  if (!cached.broken.empty()) line["broken"] = cached.broken;
  if (const auto& model = cached.model) {
    line["kind"] = kind_name(model->kind);
    line["architecture"] = model->architecture;
    line["quantisation"] = model->quantisation;
    line["parameters"] = model->parameters;
    line["file_bytes"] = model->file_bytes;
    line["context_tokens"] = model->context_tokens;
    line["vocabulary"] = model->vocabulary;
    line["width"] = model->width;
    line["memory_bytes"] = model->memory_bytes;
    line["encoder"] = model->encoder;
    line["title"] = model->title;
    line["unusable"] = model->unusable;
  }
  return line;
}

template <class T>
T number(const ordered_json& line, std::string_view key) {
  const auto found = line.find(key);
  return found != line.end() && found->is_number_integer() ? found->get<T>() : T{0};
}
std::string text(const ordered_json& line, std::string_view key) {
  const auto found = line.find(key);
  return found != line.end() && found->is_string() ? found->get<std::string>() : std::string();
}

CachedDescription from_json(const ordered_json& line) {
  CachedDescription cached;
  cached.size = number<uint64_t>(line, "size");
  cached.modified_ns = number<int64_t>(line, "modified_ns");
  cached.inode = number<uint64_t>(line, "inode");
  cached.broken = text(line, "broken");
  if (const auto kind = kind_named(text(line, "kind"))) {
    cached.model = ModelSummary{.kind = *kind,
                                .architecture = text(line, "architecture"),
                                .quantisation = text(line, "quantisation"),
                                .parameters = number<int64_t>(line, "parameters"),
                                .file_bytes = number<int64_t>(line, "file_bytes"),
                                .context_tokens = number<int64_t>(line, "context_tokens"),
                                .vocabulary = number<int64_t>(line, "vocabulary"),
                                .width = number<int64_t>(line, "width"),
                                .memory_bytes = number<int64_t>(line, "memory_bytes"),
                                .encoder = line.value("encoder", ordered_json(false)) == true,
                                .title = text(line, "title"),
                                .unusable = text(line, "unusable")};
  }
  return cached;
}

}  // namespace

DescriptionCache parse_descriptions(std::string_view text_of_file) {
  DescriptionCache cache;
  bool head = true;
  while (!text_of_file.empty() && cache.size() < kDescriptionsMax) {
    const size_t end = std::min(text_of_file.find('\n'), text_of_file.size());
    const std::string_view line = text_of_file.substr(0, end);
    text_of_file.remove_prefix(std::min(end + 1, text_of_file.size()));
    if (std::exchange(head, false)) {
      if (line != kHead) return {};
      continue;
    }
    const auto read = read_json(line);
    if (!read || !read->is_object()) continue;
    std::string path = text(*read, "path");
    if (!path.empty()) cache.insert_or_assign(std::move(path), from_json(*read));
  }
  return cache;
}

DescriptionCache read_descriptions(const std::filesystem::path& file) {
  std::error_code error;
  const auto size = std::filesystem::file_size(file, error);
  if (error || size > kDescriptionBytesMax) return {};
  std::ifstream in(file, std::ios::binary);
  return parse_descriptions(std::string(std::istreambuf_iterator<char>(in), {}));
}

Result<void> write_descriptions(const std::filesystem::path& file, const DescriptionCache& cache) {
  std::error_code error;
  std::filesystem::create_directories(file.parent_path(), error);
  const std::filesystem::path written = file.string() + "." + std::to_string(::getpid());
  {
    std::ofstream out(written, std::ios::binary);
    out << kHead << '\n';
    for (const auto& [path, cached] : cache)
      out << to_json(path, cached).dump(-1, ' ', false, ordered_json::error_handler_t::replace) << '\n';
    out.flush();
    if (!out) error = std::make_error_code(std::errc::io_error);
  }
  if (!error) std::filesystem::rename(written, file, error);
  if (!error) return {};
  const std::string reason = error.message();
  std::filesystem::remove(written, error);
  return fail(Code::kIo, "cannot write {}: {}", file.string(), reason);
}

}  // namespace cairn::loader
