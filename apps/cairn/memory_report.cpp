#include "memory_report.h"

#include <fmt/format.h>

#include <iterator>
#include <memory>

#include "base/text/printable.h"
#include "help/value_checks.h"
#include "kernels/cpu/cpu_backend.h"
#include "load_flags.h"
#include "loader/draft.h"
#include "loader/fit.h"
#include "model/model.h"
#include "model_argument.h"
#include "values.h"

namespace cairn {
namespace {

// Maximum bytes of the reason why there is no plan.
constexpr size_t kReasonBytesMax = 1'024;
// A memory size above that of any plan.
constexpr int64_t kEnough = int64_t{1} << 60;

Result<void> add_plans(const gguf::Reader& file, const MemoryFlags& flags, const gguf::Reader* mtp_file,
                       kernels::Backend& backend, int32_t context, MemoryReport& report) {
  model::ModelOptions options;
  options.context_tokens = context;
  options.load_mtp = flags.drafts > 0 || mtp_file != nullptr;
  options.mtp_file = mtp_file;
  options.kv_type = flags.kv_type;
  options.available_bytes = flags.memory_bytes;
  CAIRN_TRY(const model::ModelMemory model, model::model_memory(file, backend, options));
  const auto add = [&](int32_t sequences) -> Result<void> {
    const loader::MemoryRequest request{
        .context_tokens = model.context_tokens, .sequences = sequences, .sequences_running = flags.sequences_max};
    CAIRN_TRY(loader::MemoryPlan plan, loader::plan_memory(model, request, kEnough));
    report.entries.push_back({sequences, std::move(plan)});
    return {};
  };
  CAIRN_TRY_VOID(add(1));
  if (flags.sequences > 1 && !model.kv_layout.groups.empty()) return add(flags.sequences);
  return {};
}

Result<void> add_all_plans(const gguf::Reader& file, const MemoryFlags& flags, MemoryReport& report) {
  CAIRN_TRY(const auto backend, kernels::make_cpu_backend({flags.threads, ""}));
  std::unique_ptr<gguf::Reader> mtp_file;
  if (!flags.draft.empty()) {
    CAIRN_TRY(const std::string path, find_draft_file(flags.draft, {}));
    CAIRN_TRY(mtp_file, loader::open_mtp_file(path));
    if (mtp_file == nullptr) {
      return fail(Code::kInvalidArgument,
                  "{} is a model, not a drafting head or an assistant: inspect it separately, and add its memory",
                  flags.draft);
    }
  }
  std::vector<int32_t> contexts = flags.contexts;
  if (contexts.empty()) contexts.push_back(0);
  for (const int32_t context : contexts) {
    CAIRN_TRY_VOID(add_plans(file, flags, mtp_file.get(), *backend, context, report));
  }
  return {};
}

}  // namespace

void MemoryFlags::add_to(CLI::App& command) {
  command
      .add_option("--ctx", contexts,
                  "Context size in tokens to plan memory for; repeatable (default: what the model was trained for)")
      ->check(whole_number(1, 1 << 24))
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  add_kv_type_flag(command, kv_type);
  command.add_option("--parallel", sequences, "Number of full contexts to plan memory for, besides one")
      ->check(whole_number(1, 1024))
      ->capture_default_str();
  command.add_option("--parallel-max", sequences_max, "Requests that run at once")
      ->check(whole_number(1, 128))
      ->capture_default_str();
  command.add_option("-t,--threads", threads, "CPU threads (default: one per core)")->check(whole_number(1, 1024));
  command
      .add_option("--speculate", drafts,
                  "Tokens to draft per step; above 0, the plan includes the model's own drafting head")
      ->check(whole_number(0, 16))
      ->capture_default_str();
  command
      .add_option(
          "--draft", draft,
          "Drafting head of DeepSeek V4 or V4.1, or assistant model of Gemma 4, to include in the plan (default: "
          "none)")
      ->type_name("FILE");
  command
      .add_option(
          "--memory", memory_bytes,
          "Free memory to plan for, e.g. 128GiB, which decides whether weights are repacked for speed (default: "
          "what this machine has)")
      ->transform(byte_size(0));
}

MemoryReport report_memory(const gguf::Reader& file, const MemoryFlags& flags) {
  MemoryReport report;
  report.kv_type = kv_type_name(flags.kv_type);
  for (const gguf::Tensor& tensor : file.tensors()) report.file_weight_bytes += std::ssize(tensor.bytes);
  report.bytes_read_per_token = loader::bytes_read_per_token(file);
  if (const auto added = add_all_plans(file, flags, report); !added) {
    report.why_not = added.error().message;
    report.entries.clear();
  }
  return report;
}

std::string MemoryReport::text() const {
  std::string text = "\nMemory to run it\n";
  const auto out = std::back_inserter(text);
  if (entries.empty()) {
    fmt::format_to(out, "  weights       {}\n  all the rest  not known: {}\n", bytes_text(file_weight_bytes),
                   printable(why_not, kReasonBytesMax));
    return text;
  }
  const loader::StagePlan& first = entries.front().plan.stages.front();
  fmt::format_to(out, "  weights       {}{}\n", bytes_text(first.weight_bytes),
                 first.weights_in_place
                     ? ", those of two and three bits as the file has them: there is no room to keep them unpacked"
                     : "");
  if (first.file_table_bytes > 0) {
    fmt::format_to(out, "  tables        {}, read from the file by row: no memory\n",
                   bytes_text(first.file_table_bytes));
  }
  fmt::format_to(out, "  per token     {} of the weights are read\n", bytes_text(bytes_read_per_token));
  fmt::format_to(out, "  kept free     {}\n", bytes_text(loader::kReservedBytes));
  if (first.kv_pages.empty()) {
    fmt::format_to(out, "  scratch       {}\n  (an encoder: it keeps no keys and values between calls)\n",
                   bytes_text(first.scratch_bytes));
    return text;
  }
  fmt::format_to(out, "  {:>10}  {:>13}  {:>16}  {:>10}  {:>10}  {:>12}\n", "context", "conversations",
                 "keys, values " + kv_type, "index", "scratch", "all together");
  for (const auto& [sequences, plan] : entries) {
    const loader::StagePlan& stage = plan.stages.front();
    fmt::format_to(out, "  {:>10}  {:>13}  {:>16}  {:>10}  {:>10}  {:>12}\n", plan.context_tokens, sequences,
                   bytes_text(stage.kv_bytes), bytes_text(stage.index_bytes), bytes_text(stage.scratch_bytes),
                   bytes_text(stage.bytes() + loader::kReservedBytes));
  }
  return text;
}

nlohmann::ordered_json MemoryReport::json() const {
  nlohmann::ordered_json out;
  out["file_weight_bytes"] = file_weight_bytes;
  out["bytes_read_per_token"] = bytes_read_per_token;
  if (entries.empty()) out["why_not"] = why_not;
  out["plans"] = nlohmann::ordered_json::array();
  for (const auto& [sequences, plan] : entries) {
    const loader::StagePlan& stage = plan.stages.front();
    out["plans"].push_back({{"context_tokens", plan.context_tokens},
                            {"sequences", sequences},
                            {"kv_type", kv_type},
                            {"weight_bytes", stage.weight_bytes},
                            {"weights_in_place", stage.weights_in_place},
                            {"file_table_bytes", stage.file_table_bytes},
                            {"scratch_bytes", stage.scratch_bytes},
                            {"kv_tokens", plan.kv_tokens},
                            {"kv_pages", plan.kv_pages},
                            {"kv_bytes", stage.kv_bytes},
                            {"index_bytes", stage.index_bytes},
                            {"bytes", stage.bytes()}});
  }
  return out;
}

}  // namespace cairn
