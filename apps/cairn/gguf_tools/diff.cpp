// `cairn gguf diff`: what differs between two model files.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/text/bytes_text.h"
#include "base/text/json.h"
#include "base/text/printable.h"
#include "commands.h"
#include "convert/compare.h"
#include "gguf_tools/gguf_tools.h"
#include "help/help_format.h"
#include "metadata_text.h"
#include "model_argument.h"
#include "output.h"
#include "table_text.h"

namespace cairn {
namespace {

using nlohmann::ordered_json;

// The exit codes of diff and cmp: 0 if they are the same, 1 if not, 2 if that could not be found out.
constexpr int kExitDifferent = 1;
constexpr int kExitTrouble = 2;

struct DiffFlags {
  std::string a;
  std::string b;
  bool json = false;
  bool full = false;
};

std::string typed_value(const gguf::Value& value, bool full) {
  return fmt::format("{} {}", type_text(value), value_text(value, full));
}

void print_key(const convert::KeyDifference& key, bool full) {
  const std::string name = printable(key.key);
  if (key.b == nullptr) return print("- {}  {}\n", name, typed_value(*key.a, full));
  if (key.a == nullptr) return print("+ {}  {}\n", name, typed_value(*key.b, full));
  print("~ {}  {}  ->  {}\n", name, typed_value(*key.a, full), typed_value(*key.b, full));
}

std::string layout_text(const gguf::Tensor& tensor) {
  return fmt::format("{} {}", tensor_type_name(tensor.type), shape_text(tensor));
}

void print_tensor(const convert::TensorDifference& tensor) {
  const std::string name = printable(tensor.name);
  if (tensor.b == nullptr) return print("- {}  {}\n", name, layout_text(*tensor.a));
  if (tensor.a == nullptr) return print("+ {}  {}\n", name, layout_text(*tensor.b));
  if (!tensor.same_layout()) return print("~ {}  {}  ->  {}\n", name, layout_text(*tensor.a), layout_text(*tensor.b));
  print("~ {}  {}  {} of {} bytes differ, the first is byte {}\n", name, layout_text(*tensor.a), grouped(tensor.bytes),
        grouped(std::ssize(tensor.a->bytes)), grouped(tensor.first_byte));
}

void print_text_report(const convert::Comparison& found, const DiffFlags& flags) {
  if (!found.keys.empty()) print("metadata\n");
  for (const convert::KeyDifference& key : found.keys) print_key(key, flags.full);
  if (!found.tensors.empty()) print("tensors\n");
  for (const convert::TensorDifference& tensor : found.tensors) print_tensor(tensor);
  print("{}: {} of {} keys and {} of {} tensors differ ({} compared)\n", found.same() ? "the same" : "different",
        found.keys.size(), found.keys_compared, found.tensors.size(), found.tensors_compared,
        bytes_text(found.bytes_compared));
}

ordered_json tensor_json(const gguf::Tensor* tensor) {
  if (tensor == nullptr) return nullptr;
  return {{"type", tensor_type_name(tensor->type)}, {"shape", tensor->shape}, {"bytes", tensor->bytes.size()}};
}

void print_json_report(const convert::Comparison& found, const DiffFlags& flags) {
  ordered_json keys = ordered_json::array(), tensors = ordered_json::array();
  const auto value = [&](const gguf::Value* of) { return of == nullptr ? nullptr : value_json(*of, flags.full); };
  for (const convert::KeyDifference& key : found.keys)
    keys.push_back({{"key", key.key}, {"a", value(key.a)}, {"b", value(key.b)}});
  for (const convert::TensorDifference& tensor : found.tensors) {
    ordered_json one{{"tensor", tensor.name}, {"a", tensor_json(tensor.a)}, {"b", tensor_json(tensor.b)}};
    if (tensor.same_layout()) {
      one["bytes_differ"] = tensor.bytes;
      one["first_byte"] = tensor.first_byte;
    }
    tensors.push_back(std::move(one));
  }
  const ordered_json result{{"same", found.same()},
                            {"metadata", std::move(keys)},
                            {"tensors", std::move(tensors)},
                            {"keys_compared", found.keys_compared},
                            {"tensors_compared", found.tensors_compared},
                            {"bytes_compared", found.bytes_compared}};
  print("{}\n", json_text(result));
}

Result<bool> run_diff(const DiffFlags& flags) {
  CAIRN_TRY(const std::string path_a, find_model_file(flags.a));
  CAIRN_TRY(const std::string path_b, find_model_file(flags.b));
  CAIRN_TRY(const gguf::Reader a, gguf::Reader::open(path_a));
  CAIRN_TRY(const gguf::Reader b, gguf::Reader::open(path_b));
  convert::Comparison found;
  {
    CopyLine line;
    found = convert::compare(a, b, line.on_copy());
  }
  flags.json ? print_json_report(found, flags) : print_text_report(found, flags);
  return found.same();
}

}  // namespace

void add_gguf_diff(CLI::App& gguf, int& exit_code) {
  auto flags = std::make_shared<DiffFlags>();
  auto* command = gguf.add_subcommand(
      "diff",
      "Compare the metadata and every tensor of two model files. It exits with 1 if they differ, and with 2 if "
      "they cannot be compared");
  set_help(*command, "cairn gguf diff before.gguf after.gguf");
  command->add_option("A", flags->a, kModelHelp)->required();
  command->add_option("B", flags->b, kModelHelp)->required();
  command->add_flag("--json", flags->json, "Print one line of JSON");
  command->add_flag("--full", flags->full, "Print long values in full");
  command->callback([flags, &exit_code] {
    const auto same = run_diff(*flags);
    if (!same) {
      exit_code = report(same.error(), kExitTrouble);
    } else if (!*same) {
      exit_code = kExitDifferent;
    }
  });
}

}  // namespace cairn
