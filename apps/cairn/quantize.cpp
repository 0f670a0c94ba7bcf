// `cairn quantize`: writes a model file again with other weight types.
#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <string>

#include "base/text/printable.h"
#include "commands.h"
#include "convert/quantize.h"
#include "help/help_format.h"
#include "help/value_checks.h"
#include "model_argument.h"
#include "output.h"
#include "progress_line.h"

namespace cairn {
namespace {

struct QuantizeFlags {
  std::string in;
  std::string out;
  std::string type;
  int threads = 0;
};

std::string type_list() {
  std::string list = "Types:\n";
  for (const convert::QuantizeMixInfo& mix : convert::quantize_mixes())
    list += fmt::format("  {:<8} {}\n", mix.name, mix.summary);
  list += "  Q4_K     the same as Q4_K_M";
  return list;
}

std::string names() {
  std::string list;
  for (const convert::QuantizeMixInfo& mix : convert::quantize_mixes())
    list += fmt::format("{}{}", list.empty() ? "" : ", ", mix.name);
  return list;
}

// CLI11's convention: an empty text for a valid value.
std::string check_type(const std::string& name) {
  if (convert::quantize_mix_named(name).has_value()) return {};
  return fmt::format("takes {}, not {}", names(), printable(name));
}

void show_quantized(ProgressLine& line, const convert::QuantizeProgress& now) {
  if (now.bytes_total == 0) return;
  line.show(fmt::format("{:3}%  {}/{}  {}  {} -> {}", 100 * now.bytes_done / now.bytes_total, now.tensor_index + 1,
                        now.tensors, now.tensor, tensor_type_name(now.from), tensor_type_name(now.to)));
}

Result<void> run_quantize(const QuantizeFlags& flags) {
  const auto mix = convert::quantize_mix_named(flags.type);
  if (!mix.has_value()) return fail(Code::kInvalidArgument, "TYPE {}", check_type(flags.type));
  CAIRN_TRY(const std::string in, find_model_file(flags.in));
  const auto start = std::chrono::steady_clock::now();
  convert::QuantizeReport done;
  {
    ProgressLine line;
    CAIRN_TRY(done, convert::quantize_file(
                        in, flags.out,
                        {.mix = *mix, .threads = flags.threads, .progress = [&](const convert::QuantizeProgress& now) {
                           show_quantized(line, now);
                         }}));
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  print("{}: {} -> {}, {:.2f} bits per weight, {} tensors in {:.1f} s\n", flags.out, size_text(done.bytes_in),
        size_text(done.bytes_out), done.bits_per_weight(), done.tensors, seconds);
  if (done.fallbacks > 0) {
    print("{} tensors have rows that blocks of this type do not divide; they became Q8_0 or 16-bit floats\n",
          done.fallbacks);
  }
  return {};
}

}  // namespace

void add_quantize(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<QuantizeFlags>();
  CLI::App* command = app.add_subcommand("quantize", "Convert a model file to another type of weights");
  set_help(*command, "cairn quantize qwen3-4b-f16.gguf qwen3-4b-q4_k_m.gguf Q4_K_M");
  command->add_option("INPUT", flags->in, kModelHelp)->required();
  command->add_option("OUTPUT", flags->out, "File to write; it appears when it is complete")->required();
  command->add_option("TYPE", flags->type, "Type of the weights, see below")
      ->required()
      ->check(CLI::Validator([](std::string& name) { return check_type(name); }, ""));
  command->add_option("--threads", flags->threads, "CPU threads (default: one per core)")
      ->check(whole_number(1, convert::kQuantizeThreadsMax));
  command->footer(type_list());
  command->callback([flags, &exit_code] {
    if (const auto done = run_quantize(*flags); !done.has_value()) exit_code = report(done.error());
  });
}

}  // namespace cairn
