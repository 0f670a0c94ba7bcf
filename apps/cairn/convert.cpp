// `cairn convert`: makes a model file of a folder in Hugging Face's form.
#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <string>

#include <algorithm>

#include "base/text/printable.h"
#include "commands.h"
#include "convert/huggingface/convert.h"
#include "help/help_format.h"
#include "help/value_checks.h"
#include "output.h"
#include "progress_line.h"

namespace cairn {
namespace {

struct ConvertFlags {
  std::string folder;
  std::string out;
  std::string type = "auto";
  std::string name;
  std::string pre;
  std::string base;
  int64_t split_bytes = 0;
  int threads = 0;
};

std::string convert_type_list() {
  std::string list = "Types:\n  auto     that of the folder's weights; nothing is lost\n";
  for (const convert::QuantizeMixInfo& mix : convert::quantize_mixes())
    list += fmt::format("  {:<8} {}\n", mix.name, mix.summary);
  return list + "Weights in MXFP4 stay as they are. A folder with a LoRA adapter (adapter_config.json) needs --base.";
}

std::string check_convert_type(const std::string& name) {
  if (name == "auto" || convert::quantize_mix_named(name).has_value()) return {};
  std::string names = "auto";
  for (const convert::QuantizeMixInfo& mix : convert::quantize_mixes()) names += fmt::format(", {}", mix.name);
  return fmt::format("takes {}, not {}", names, printable(name));
}

// Shows how far the conversion is, and the time that is left at the speed so far.
class ConvertLine {
 public:
  void show(const convert::ConvertProgress& now) {
    if (now.bytes_total == 0) return;
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    const auto left = static_cast<int64_t>(seconds * static_cast<double>(now.bytes_total - now.bytes_done) /
                                           static_cast<double>(std::max<int64_t>(1, now.bytes_done)));
    line_.show(fmt::format("{:3}%  {} of {}  {}:{:02} left  {}", 100 * now.bytes_done / now.bytes_total,
                           size_text(now.bytes_done), size_text(now.bytes_total), left / 60, left % 60, now.tensor));
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  ProgressLine line_;
};

Result<convert::ConvertReport> convert_with_line(const ConvertFlags& flags) {
  ConvertLine line;
  convert::ConvertOptions options{.mix = convert::quantize_mix_named(flags.type),
                                  .name = flags.name,
                                  .pre_tokenizer = flags.pre,
                                  .split_bytes = flags.split_bytes,
                                  .threads = flags.threads,
                                  .progress = [&](const convert::ConvertProgress& now) { line.show(now); }};
  if (convert::is_adapter_folder(flags.folder)) {
    if (flags.base.empty()) {
      return fail(
          Code::kInvalidArgument,
          "{} has a LoRA adapter; --base names the folder of the model that it changes (its config.json is enough)",
          flags.folder);
    }
    return convert::convert_adapter(flags.folder, flags.base, flags.out, options);
  }
  if (!flags.base.empty()) {
    return fail(Code::kInvalidArgument, "--base is for LoRA adapters, but {} has no adapter_config.json", flags.folder);
  }
  return convert::convert_folder(flags.folder, flags.out, options);
}

Result<void> run_convert(const ConvertFlags& flags) {
  const auto start = std::chrono::steady_clock::now();
  CAIRN_TRY(const convert::ConvertReport done, convert_with_line(flags));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  for (const auto& file : done.files) print("{}\n", file.string());
  print("{} {}, {}, {:.2f} bits per weight, {} tensors in {:.1f} s\n", done.architecture,
        convert::quantize_mix_info(done.mix).name, size_text(done.bytes), done.bits_per_weight(), done.tensors,
        seconds);
  if (done.left_out > 0) {
    print("{} tensors for images or sound were left out: the file is the text model\n", done.left_out);
  }
  return {};
}

}  // namespace

void add_convert(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<ConvertFlags>();
  CLI::App* command = app.add_subcommand("convert", "Make a model file of a folder from Hugging Face");
  set_help(*command,
           "cairn convert Qwen3-4B qwen3-4b.gguf --type Q4_K_M\n"
           "cairn convert gpt-oss-120b gpt-oss-120b.gguf --split-size 40g\n"
           "cairn convert my-adapter my-adapter.gguf --base Qwen3-4B");
  command->add_option("FOLDER", flags->folder, "Folder with config.json, safetensors and tokenizer files")->required();
  command->add_option("OUTPUT", flags->out, "File to write; it appears when it is complete")->required();
  command->add_option("--type", flags->type, "Type of the weights, see below (default: auto)")
      ->check(CLI::Validator([](std::string& name) { return check_convert_type(name); }, ""));
  command->add_option("--name", flags->name, "Name of the model in the file (default: the folder's)");
  command
      ->add_option("--split-size", flags->split_bytes, "Write several files with at most so many bytes of weights each")
      ->transform(byte_size(1));
  command->add_option("--pre", flags->pre, "Name of the pre-tokenizer, if it is not found out");
  command->add_option("--base", flags->base, "For a LoRA adapter: folder of the model that it changes");
  command->add_option("--threads", flags->threads, "CPU threads (default: one per core)")
      ->check(whole_number(1, convert::kQuantizeThreadsMax));
  command->footer(convert_type_list());
  command->callback([flags, &exit_code] {
    if (const auto done = run_convert(*flags); !done.has_value()) exit_code = report(done.error());
  });
}

}  // namespace cairn
