// `cairn inspect`: the contents of a model file and how much memory running it takes, without loading it.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <variant>
#include <vector>

#include "base/log.h"
#include "base/tensor_type.h"
#include "base/text/bytes_text.h"
#include "base/text/printable.h"
#include "commands.h"
#include "gguf/reader.h"
#include "help/help_format.h"
#include "memory_report.h"
#include "metadata_text.h"
#include "model/arch/table.h"
#include "model_argument.h"
#include "output.h"
#include "table_text.h"

namespace cairn {
namespace {

using nlohmann::ordered_json;

constexpr size_t kKeyWidthMax = 48;
constexpr size_t kTemplateBytesShown = 400;

struct InspectFlags {
  std::string model;
  MemoryFlags memory;
  bool full = false;
  bool tensors = false;
  bool json = false;
  bool supported = false;
};

// ---- Numbers for people ----

std::string human_count(int64_t count) {
  constexpr std::array<std::string_view, 5> kUnits = {"", " thousand", " million", " billion", " trillion"};
  auto value = static_cast<double>(count);
  size_t unit = 0;
  for (; value >= 1000 && unit + 1 < kUnits.size(); ++unit) value /= 1000;
  if (unit == 0) return std::to_string(count);
  return fmt::format("{:.{}f}{}", value, value < 10 ? 2 : value < 100 ? 1 : 0, kUnits[unit]);
}

// ---- File contents ----

struct TypeTotal {
  int64_t tensors = 0;
  int64_t elements = 0;
  int64_t bytes = 0;
};

struct Summary {
  std::string architecture;
  std::string name;
  int64_t parameters = 0;
  std::map<TensorType, TypeTotal> types;
  MemoryReport memory;
};

Summary summarise(const gguf::Reader& file, const MemoryFlags& memory) {
  Summary summary;
  summary.architecture = file.metadata().string("general.architecture").value_or("");
  summary.name = file.metadata().string("general.name").value_or("");
  for (const gguf::Tensor& tensor : file.tensors()) {
    TypeTotal& total = summary.types[tensor.type];
    ++total.tensors;
    total.elements += tensor.elements();
    total.bytes += static_cast<int64_t>(tensor.bytes.size());
    summary.parameters += tensor.elements();
  }
  summary.memory = report_memory(file, memory);
  return summary;
}

// ---- The two forms of the report ----

// The type with the most bytes.
std::string main_type(const Summary& summary) {
  if (summary.types.empty()) return "no weights in the file";
  const auto most = std::ranges::max_element(summary.types, {}, [](const auto& item) { return item.second.bytes; });
  return fmt::format("{}{}", summary.types.size() == 1 ? "" : "mostly ", tensor_type_name(most->first));
}

using Out = std::back_insert_iterator<std::string>;

void print_head(Out out, const gguf::Reader& file, const Summary& summary) {
  const auto known = [](const std::string& text) { return text.empty() ? "(not said)" : printable(text); };
  fmt::format_to(out, "Model\n");
  fmt::format_to(out, "  architecture  {}\n", known(summary.architecture));
  fmt::format_to(out, "  name          {}\n", known(summary.name));
  fmt::format_to(out, "  parameters    {} ({})\n", human_count(summary.parameters), grouped(summary.parameters));
  fmt::format_to(out, "  weights       {}\n", main_type(summary));
  fmt::format_to(out, "  file          {} ({} bytes), GGUF version {}\n", bytes_text(file.file_bytes()),
                 grouped(file.file_bytes()), file.version());
}

void print_metadata(Out out, const gguf::Reader& file, bool full) {
  const auto& values = file.metadata().values();
  fmt::format_to(out, "\nMetadata: {} keys{}\n", values.size(), full ? "" : " (long values cut, --full shows all)");
  size_t width = 0;
  for (const auto& [key, value] : values) width = std::max(width, std::min<size_t>(key.size(), kKeyWidthMax));
  for (const auto& [key, value] : values) {
    fmt::format_to(out, "  {:<{}}  {:<8}  {}\n", printable(key), width, type_text(value), value_text(value, full));
  }
}

void print_template(Out out, const gguf::Reader& file, bool full) {
  const auto source = file.metadata().string("tokenizer.chat_template");
  if (!source) {
    fmt::format_to(out, "\nChat template: none in the file\n");
    return;
  }
  fmt::format_to(out, "\nChat template: {} bytes{}\n", grouped(static_cast<int64_t>(source->size())),
                 full || source->size() <= kTemplateBytesShown ? "" : " (its beginning, --full shows all)");
  const std::string_view shown = full ? *source : source->substr(0, kTemplateBytesShown);
  for (size_t begin = 0; begin < shown.size();) {
    const size_t end = std::min(shown.find('\n', begin), shown.size());
    fmt::format_to(out, "  {}\n", printable(shown.substr(begin, end - begin), shown.size()));
    begin = end + 1;
  }
}

void print_types(Out out, const gguf::Reader& file, const Summary& summary) {
  if (file.tensors().empty()) {
    fmt::format_to(out, "\nTensors: none, this file holds metadata only\n");
    return;
  }
  fmt::format_to(out, "\nTensors: {} (--tensors lists them); bytes by type\n", file.tensors().size());
  for (const auto& [type, total] : summary.types) {
    const double share =
        100.0 * static_cast<double>(total.bytes) / static_cast<double>(summary.memory.file_weight_bytes);
    const double bits = 8.0 * static_cast<double>(total.bytes) / static_cast<double>(total.elements);
    fmt::format_to(out, "  {:<7}  {:>10}  {:5.1f} %  {:>5.2f} bits per weight, {} tensor{}\n", tensor_type_name(type),
                   bytes_text(total.bytes), share, bits, total.tensors, total.tensors == 1 ? "" : "s");
  }
}

void print_tensors(Out out, const gguf::Reader& file) {
  fmt::format_to(out, "\nEach tensor (row length first)\n");
  size_t width = 0;
  size_t shape_width = 0;
  for (const gguf::Tensor& tensor : file.tensors()) {
    width = std::max(width, std::min<size_t>(tensor.name.size(), kKeyWidthMax));
    shape_width = std::max(shape_width, shape_text(tensor).size());
  }
  for (const gguf::Tensor& tensor : file.tensors()) {
    fmt::format_to(out, "  {:<{}}  {:<7}  {:<{}}  {:>10}\n", printable(tensor.name), width,
                   tensor_type_name(tensor.type), shape_text(tensor), shape_width,
                   bytes_text(static_cast<int64_t>(tensor.bytes.size())));
  }
}

std::string report_json(const gguf::Reader& file, const Summary& summary, bool full) {
  ordered_json out;
  out["architecture"] = summary.architecture;
  out["name"] = summary.name;
  out["parameters"] = summary.parameters;
  out["file_bytes"] = file.file_bytes();
  out["version"] = file.version();
  ordered_json& metadata = out["metadata"] = ordered_json::object();
  for (const auto& [key, value] : file.metadata().values()) metadata[std::string(key)] = value_json(value, full);
  ordered_json& tensors = out["tensors"] = ordered_json::array();
  for (const gguf::Tensor& tensor : file.tensors()) {
    tensors.push_back({{"name", tensor.name},
                       {"type", tensor_type_name(tensor.type)},
                       {"shape", tensor.shape},
                       {"bytes", tensor.bytes.size()}});
  }
  ordered_json& types = out["bytes_by_type"] = ordered_json::object();
  for (const auto& [type, total] : summary.types) {
    types[std::string(tensor_type_name(type))] = {{"tensors", total.tensors}, {"bytes", total.bytes}};
  }
  out["memory"] = summary.memory.json();
  return out.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

std::string report_text(const gguf::Reader& file, const Summary& summary, const InspectFlags& flags) {
  std::string text;
  const Out out(text);
  print_head(out, file, summary);
  text += summary.memory.text();
  print_template(out, file, flags.full);
  print_types(out, file, summary);
  print_metadata(out, file, flags.full);
  if (flags.tensors) print_tensors(out, file);
  return text;
}

std::string_view gives(model::ArchitectureKind kind) {
  switch (kind) {
    case model::ArchitectureKind::kDecoder:
      return "text, embeddings";
    case model::ArchitectureKind::kEncoder:
      return "embeddings, scores";
    case model::ArchitectureKind::kAssistant:
      return "drafts";
  }
  return "";
}

// A table in Markdown, docs/models.md.
void print_supported() {
  std::string text = "| architecture | models | gives | runs on |\n|---|---|---|---|\n";
  for (const model::Architecture& each : model::architectures()) {
    text += fmt::format("| `{}` | {} | {} | CPU, CUDA |\n", each.name, each.families, gives(each.kind));
  }
  print_text(text);
}

Result<void> run_inspect(const InspectFlags& flags) {
  set_log_level(LogLevel::kWarning);
  if (flags.supported) {
    print_supported();
    return {};
  }
  if (flags.model.empty())
    return fail(Code::kInvalidArgument,
                "inspect what? Give a model file or a name that cairn list shows, or --supported");
  CAIRN_TRY(const std::string path, find_model_file(flags.model));
  CAIRN_TRY(const gguf::Reader file, gguf::Reader::open(path));
  const Summary summary = summarise(file, flags.memory);
  print_text(flags.json ? report_json(file, summary, flags.full) : report_text(file, summary, flags));
  return {};
}

}  // namespace

void add_inspect(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<InspectFlags>();
  CLI::App* command =
      app.add_subcommand("inspect", "Show what a model file contains, and how much memory it needs to run");
  set_help(*command, "cairn inspect qwen3:4b --ctx 8192 --ctx 32768");
  command->add_option("MODEL", flags->model, kModelHelp);
  flags->memory.add_to(*command);
  command->add_flag("--full", flags->full, "Print arrays and texts in full, not only their beginnings");
  command->add_flag("--tensors", flags->tensors,
                    "Also list each tensor with its type, shape and bytes, as --json does");
  command->add_flag("--json", flags->json, "Print JSON, for programs");
  command->add_flag("--supported", flags->supported,
                    "Print the supported architectures as a Markdown table; needs no file");
  command->callback([flags, &exit_code] {
    if (const auto done = run_inspect(*flags); !done.has_value()) exit_code = report(done.error());
  });
}

}  // namespace cairn
