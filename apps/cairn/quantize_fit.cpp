#include "quantize_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <memory>
#include <utility>

#include "base/log.h"
#include "base/system/machine.h"
#include "base/system/thread_pool.h"
#include "base/text/printable.h"
#include "calibrate/fit.h"
#include "calibrate/harm.h"
#include "calibration.h"
#include "help/value_checks.h"
#include "kernels/backend.h"
#include "kernels/cpu/cpu_backend.h"
#include "model/embedder.h"
#include "output.h"
#include "progress_line.h"
#include "table_text.h"
#include "tokenizer/tokenizer.h"

namespace cairn {
namespace {

using std::chrono::steady_clock;

constexpr int32_t kWindowTokens = 512;  // of the text that importance is measured on
constexpr double kBitsMax = 64;
constexpr int64_t kAddedBytes = 1024;  // of metadata about the importance matrix, at most

std::optional<double> bits_per_weight(std::string_view text) {
  constexpr std::string_view kUnit = "bpw";
  if (!text.ends_with(kUnit)) return std::nullopt;
  text.remove_suffix(kUnit.size());
  double bits = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), bits);
  if (error != std::errc() || rest != text.data() + text.size() || !(bits > 0 && bits <= kBitsMax)) return std::nullopt;
  return bits;
}

// Bytes of tensors in a file of that size.
Result<int64_t> tensor_budget(const std::string& size, const gguf::Reader& file) {
  int64_t elements = 0, bytes = 0;
  for (const gguf::Tensor& tensor : file.tensors()) {
    elements += tensor.elements();
    bytes += std::ssize(tensor.bytes);
  }
  if (const auto bits = bits_per_weight(size)) return static_cast<int64_t>(*bits * static_cast<double>(elements) / 8);
  std::string text = size;
  CLI::Validator check = byte_size(1);
  if (const std::string problem = check(text); !problem.empty())
    return fail(Code::kInvalidArgument, "--fit {}", problem);
  const int64_t wanted = std::stoll(text);
  // Besides its tensors a file has metadata and their directory, which stay as large.
  return wanted - (file.file_bytes() - bytes) - kAddedBytes;
}

// Says how far a part of the work is, and how long the rest of it takes.
class Progress {
 public:
  explicit Progress(std::string what) : what_(std::move(what)) {}
  void show(int64_t done, int64_t total) {
    const double seconds = std::chrono::duration<double>(steady_clock::now() - begin_).count();
    const auto left = static_cast<int64_t>(seconds * static_cast<double>(total - done) / static_cast<double>(done));
    line_.show(fmt::format("{} {}/{}, {}:{:02} left", what_, done, total, left / 60, left % 60));
  }

 private:
  std::string what_;
  steady_clock::time_point begin_ = steady_clock::now();
  ProgressLine line_;
};

std::string types_text(const calibrate::FittedGroup& group) {
  std::string text;
  for (const auto& [type, count] : group.types) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", tensor_type_name(type));
    if (group.types.size() > 1 || group.tensors > 1) text += fmt::format(" x{}", count);
  }
  return text;
}

void print_plan(const calibrate::FitPlan& plan) {
  double sensitivity = 0;
  for (const calibrate::FittedGroup& group : plan.groups) sensitivity += group.probe_harm;
  std::vector<std::vector<std::string>> rows = {{"tensors", "sensitivity", "types", "size", "share of harm"}};
  for (const calibrate::FittedGroup& group : plan.groups) {
    rows.push_back({printable(group.kind),
                    fmt::format("{:.1f} %", 100 * group.probe_harm / std::max(sensitivity, 1e-30)), types_text(group),
                    size_text(group.bytes), fmt::format("{:.1f} %", 100 * group.harm / std::max(plan.harm, 1e-30))});
  }
  for (const std::string& line : table_lines(rows)) print("{}\n", line);
  print(
      "Expected KL divergence from the input: {:.4f} nats. Sensitivity is the share of the divergence that there would "
      "be if all were {}: types with more bits went where a byte saves most of it\n",
      plan.harm, tensor_type_name(calibrate::kProbeType));
}

}  // namespace

std::string check_fit(const std::string& text) {
  std::string bytes = text;
  CLI::Validator check = byte_size(1);
  if (bits_per_weight(text).has_value() || check(bytes).empty()) return {};
  return fmt::format("takes a size such as 4GiB, or bits per weight such as 3.5bpw, not {}", printable(text));
}

Result<void> fit_types(const std::string& in, const std::string& size, const std::vector<std::string>& texts,
                       std::optional<convert::ImportanceMatrix>& importance, convert::QuantizeOptions& options) {
  CAIRN_TRY(const gguf::Reader file, gguf::Reader::open(in));
  CAIRN_TRY(const int64_t budget, tensor_budget(size, file));
  if (model::is_encoder(file)) {
    return fail_at(in, Code::kUnsupported,
                   "--fit compares predictions of text, which an encoder does not make; name a "
                   "type");
  }
  CAIRN_TRY(const auto tokenizer, tokenizer::Tokenizer::load(file.metadata()));
  CAIRN_TRY(CalibrationText text, read_calibration(texts, *tokenizer, kWindowTokens));
  const int threads = options.threads == 0 ? usable_cores() : options.threads;
  CAIRN_TRY(std::shared_ptr<kernels::Backend> backend, kernels::make_cpu_backend({.threads = threads, .isa = {}}));
  if (!importance.has_value()) {
    Progress progress("importance: window");
    text.reading.logits = true;
    text.reading.progress = [&](int32_t done) { progress.show(done, text.reading.count); };
    CAIRN_TRY(importance, calibrate::collect_importance(file, backend, text.tokens, text.reading));
    importance->datasets = text.names;
    options.importance_file = "made by --fit";
  }
  set_log_level(LogLevel::kError);  // the model is loaded once for each tensor
  ThreadPool pool(threads);
  std::vector<calibrate::TensorHarm> harms;
  {
    Progress progress("harm: tensor");
    auto measured = calibrate::measure_harm(file, *backend, pool, *importance, text.tokens,
                                            {.first = text.reading.windows.first,
                                             .progress = [&](int64_t done, int64_t all) { progress.show(done, all); }});
    set_log_level(LogLevel::kInfo);
    CAIRN_TRY(harms, std::move(measured));
  }
  CAIRN_TRY(const calibrate::FitPlan plan, calibrate::fit(file.tensors(), harms, budget));
  print_plan(plan);
  options.chosen = plan.types;
  options.mix = plan.nearest;
  return {};
}

}  // namespace cairn
