#include "loader/fit.h"

#include <algorithm>
#include <array>
#include <string>

#include "kernels/cpu/cpu_backend.h"
#include "loader/load_options.h"
#include "loader/memory_plan.h"
#include "model/model.h"

namespace cairn::loader {
namespace {

/// More than any plan takes.
constexpr int64_t kEnough = int64_t{1} << 60;
/// Tables of which a token has one row.
constexpr std::array<std::string_view, 4> kTables = {"token_embd", "per_layer_token_embd", "position_embd",
                                                     "engram_embd"};
/// Parts that some files hold beside the model that writes: what reads images, and drafting heads.
constexpr std::array<std::string_view, 3> kOtherParts = {"v.", "mm.", "mtp."};

std::string key_of(const gguf::Metadata& metadata, std::string_view name) {
  const auto architecture = metadata.string("general.architecture");
  return architecture ? std::string(*architecture) + "." + std::string(name) : std::string(name);
}

bool is_table(const gguf::Reader& file, std::string_view name) {
  const bool table = std::ranges::any_of(kTables, [&](std::string_view each) { return name.contains(each); });
  // Without a matrix of its own the output is the embedding of tokens.
  return table && (name != "token_embd.weight" || file.find_tensor("output.weight") != nullptr);
}

}  // namespace

std::string_view fit_name(Fit fit) {
  switch (fit) {
    case Fit::kYes:
      return "yes";
    case Fit::kTight:
      return "tight";
    case Fit::kNo:
      return "no";
  }
  return "";
}

Fit fit_of(int64_t model_bytes, int64_t available_bytes) {
  if (missing_bytes(model_bytes, available_bytes) > 0) return Fit::kNo;
  return model_bytes + kComfortBytes <= available_bytes ? Fit::kYes : Fit::kTight;
}

int64_t missing_bytes(int64_t model_bytes, int64_t available_bytes) {
  return std::max<int64_t>(0, model_bytes + kReservedBytes - available_bytes);
}

Result<int64_t> conversation_bytes(const gguf::Reader& file) {
  const int64_t trained = file.metadata().integer_or(key_of(file.metadata(), "context_length"), 0).value_or(0);
  CAIRN_TRY(const auto backend, kernels::make_cpu_backend({.threads = 1, .isa = ""}));
  model::ModelOptions options = LoadOptions{}.model;
  options.context_tokens = static_cast<int32_t>(trained > 0 ? std::min<int64_t>(trained, kComparedTokens) : 0);
  CAIRN_TRY(const model::ModelMemory memory, model::model_memory(file, *backend, options));
  const MemoryRequest request{.context_tokens = memory.context_tokens, .sequences = 1, .sequences_running = 1};
  CAIRN_TRY(const MemoryPlan plan, plan_memory(memory, request, kEnough));
  return plan.bytes();
}

int64_t bytes_read_per_token(const gguf::Reader& file) {
  const auto number = [&](std::string_view name) {
    return file.metadata().integer_or(key_of(file.metadata(), name), 0).value_or(0);
  };
  const int64_t experts = number("expert_count"), used = number("expert_used_count");
  const double share =
      experts > 0 && used > 0 ? std::min(1.0, static_cast<double>(used) / static_cast<double>(experts)) : 1;
  double bytes = 0;
  for (const gguf::Tensor& tensor : file.tensors()) {
    const std::string_view name = tensor.name;
    if (is_table(file, name)) continue;
    if (std::ranges::any_of(kOtherParts, [&](std::string_view part) { return name.starts_with(part); })) continue;
    bytes += static_cast<double>(tensor.bytes.size()) * (name.contains("_exps") ? share : 1);
  }
  return static_cast<int64_t>(bytes);
}

double tokens_per_second(int64_t bandwidth, int64_t bytes_per_token) {
  if (bandwidth <= 0 || bytes_per_token <= 0) return 0;
  return static_cast<double>(bandwidth) / static_cast<double>(bytes_per_token);
}

}  // namespace cairn::loader
