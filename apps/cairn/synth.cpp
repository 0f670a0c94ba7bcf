// `cairn synth`: writes a model file with random weights.
#include "synth/synth.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "commands.h"
#include "convert/quantize.h"
#include "help/help_format.h"
#include "help/value_checks.h"
#include "output.h"
#include "progress_line.h"

namespace cairn {
namespace {

// Flags for the keys that are changed most often.
struct KeyFlag {
  const char* flag;
  const char* key;
  const char* help;
};
constexpr std::array kKeyFlags = {
    KeyFlag{"--layers", "block_count", "Number of layers"},
    KeyFlag{"--width", "embedding_length", "Width of the hidden states"},
    KeyFlag{"--heads", "attention.head_count", "Attention heads"},
    KeyFlag{"--kv-heads", "attention.head_count_kv", "Heads of keys and values"},
    KeyFlag{"--head-dim", "attention.key_length", "Width of a head"},
    KeyFlag{"--ffn", "feed_forward_length", "Inner width of a dense feed-forward block"},
    KeyFlag{"--experts", "expert_count", "Routed experts; with --arch llama, makes it a mixture of experts"},
    KeyFlag{"--experts-used", "expert_used_count", "Experts per token"},
    KeyFlag{"--expert-ffn", "expert_feed_forward_length", "Inner width of an expert"},
    KeyFlag{"--vocab", "vocab_size", "Tokens in the vocabulary, at least 263"},
    KeyFlag{"--context", "context_length", "Maximum context in tokens"},
    KeyFlag{"--ratios", "attention.compress_ratios",
            "With --arch deepseek4: 0, 4 or 128 for each layer, such as 0,0,4,128 (deepseek41: 0, 1 or 2); also sets "
            "the number of "
            "layers"},
};

struct SynthFlags {
  std::string out;
  std::string architecture;
  std::string preset;
  std::string type;
  std::vector<std::string> tensor_types;
  std::vector<std::string> keys;
  std::array<std::string, kKeyFlags.size()> values;
  bool tied = false;
  bool untied = false;
  bool flat_output = false;
  bool dry_run = false;
  bool hollow = false;
  uint64_t seed = 1;
  int threads = 0;
};

std::string footer() {
  std::string text = "Architectures (small unless you change them):\n ";
  for (const std::string_view name : synth::architectures()) text += fmt::format(" {}", name);
  text += " moe (qwen3moe)\nPresets:\n";
  for (const synth::PresetInfo& preset : synth::presets()) {
    text += fmt::format("  {:<15} {:<14} {}\n", preset.name, preset.architecture, preset.summary);
  }
  text += "Types: those of cairn quantize, and any tensor type, such as IQ2_XXS or MXFP4 (default: F16)";
  return text;
}

Result<std::pair<std::string, std::string>> parted(const std::string& text, const char* flag) {
  const size_t equals = text.rfind('=');
  if (equals != std::string::npos && equals > 0) return std::pair(text.substr(0, equals), text.substr(equals + 1));
  return fail(Code::kInvalidArgument, "{} takes NAME=VALUE, not '{}'", flag, text);
}

Result<synth::Shape> shape_of(const SynthFlags& flags) {
  if (flags.architecture.empty() && flags.preset.empty()) {
    return fail(Code::kInvalidArgument, "what should be made? Give --arch or --preset; cairn synth --help lists them");
  }
  CAIRN_TRY(synth::Shape shape, flags.preset.empty() ? synth::Shape::of_architecture(flags.architecture)
                                                     : synth::Shape::of_preset(flags.preset));
  if (!flags.preset.empty() && !flags.architecture.empty()) {
    CAIRN_TRY(const synth::Shape wanted, synth::Shape::of_architecture(flags.architecture));
    if (wanted.architecture() != shape.architecture()) {
      return fail(Code::kInvalidArgument, "the preset {} is a {}, not a {}; leave --arch out", flags.preset,
                  shape.architecture(), wanted.architecture());
    }
  }
  for (size_t i = 0; i < kKeyFlags.size(); ++i) {
    if (!flags.values[i].empty()) CAIRN_TRY_VOID(shape.set(kKeyFlags[i].key, flags.values[i]));
  }
  for (const std::string& text : flags.keys) {
    CAIRN_TRY(const auto parts, parted(text, "--set"));
    CAIRN_TRY_VOID(shape.set(parts.first, parts.second));
  }
  if (flags.tied || flags.untied) shape.tied_output = flags.tied;
  shape.flat_output_a = flags.flat_output;
  return shape;
}

std::string shape_text(const synth::TensorPlan& tensor) {
  std::string text;
  for (const int64_t size : tensor.shape) text += fmt::format("{}{}", text.empty() ? "" : " x ", size);
  return text;
}

void print_plan(const synth::Plan& plan) {
  for (const synth::TensorPlan& tensor : plan.tensors) {
    print("{:<36} {:<8} {:<20} {:>14}\n", tensor.name, tensor_type_name(tensor.type), shape_text(tensor), tensor.bytes);
  }
}

void print_sum(const synth::Plan& plan) {
  const double bits = 8.0 * static_cast<double>(plan.bytes) / static_cast<double>(plan.elements);
  print("{} tensors, {} parameters, {} bytes ({}), {:.2f} bits per weight\n", plan.tensors.size(), plan.elements,
        plan.bytes, size_text(plan.bytes), bits);
  if (plan.misfits > 0) {
    print("{} matrices have rows that blocks of this type do not divide; they became Q8_0 or 16-bit floats\n",
          plan.misfits);
  }
}

void show_written(ProgressLine& line, const synth::Progress& now) {
  line.show(fmt::format("{:3}%  {}/{}  {}  {}", 100 * (now.bytes_done / 1'024) / (now.bytes_total / 1'024 + 1),
                        now.tensor_index + 1, now.tensors, now.tensor, tensor_type_name(now.type)));
}

Result<void> run_synth(const SynthFlags& flags) {
  set_log_level(LogLevel::kWarning);
  CAIRN_TRY(synth::Shape shape, shape_of(flags));
  synth::Options options{
      .type = flags.type, .type_rules = {}, .seed = flags.seed, .threads = flags.threads, .hollow = flags.hollow};
  for (const std::string& text : flags.tensor_types) {
    CAIRN_TRY(auto parts, parted(text, "--tensor-type"));
    options.type_rules.push_back({std::move(parts.first), std::move(parts.second)});
  }
  CAIRN_TRY(const synth::Plan plan, synth::plan(std::move(shape), options));
  if (flags.dry_run) {
    print_plan(plan);
    print_sum(plan);
    return {};
  }
  if (flags.out.empty()) return fail(Code::kInvalidArgument, "name the file to write, or give --dry-run");
  const auto start = std::chrono::steady_clock::now();
  {
    ProgressLine line;
    options.progress = [&line](const synth::Progress& now) { show_written(line, now); };
    CAIRN_TRY_VOID(synth::write(plan, options, flags.out));
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  print("{}: ", flags.out);
  print_sum(plan);
  if (!flags.hollow) print("{:.1f} s, {:.0f} MB/s\n", seconds, static_cast<double>(plan.bytes) / 1e6 / seconds);
  return {};
}

}  // namespace

void add_synth(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<SynthFlags>();
  CLI::App* command = app.add_subcommand("synth", "Write a model file with random weights, for tests and benchmarks");
  set_help(*command, "cairn synth flash6.gguf --preset flash --ratios 0,0,4,128,4,128",
           {"--help", "--arch", "--preset", "--layers", "--width", "--vocab", "--experts", "--ratios", "--set",
            "--type", "--seed", "--dry-run", "--hollow"});
  command->add_option("OUTPUT", flags->out, "File to write; it appears when it is complete");
  command->add_option("--arch", flags->architecture, "Architecture, see below")->type_name("NAME");
  command->add_option("--preset", flags->preset, "Shape of a real model, see below; other flags change it")
      ->type_name("NAME");
  for (size_t i = 0; i < kKeyFlags.size(); ++i) {
    command->add_option(kKeyFlags[i].flag, flags->values[i], kKeyFlags[i].help)->type_name("N");
  }
  command->add_option("--set", flags->keys, "Any other metadata key, such as attention.sliding_window=64; repeatable")
      ->type_name("KEY=VALUE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  CLI::Option* tied = command->add_flag("--tied", flags->tied, "Use the token embedding as the output matrix");
  command->add_flag("--untied", flags->untied, "Give the output a matrix of its own")->excludes(tied);
  command->add_flag("--flat-output-a", flags->flat_output,
                    "With --arch deepseek4: attn_output_a with two dimensions, as in DeepSeek V4's first files");
  command->add_option("--type", flags->type, "Type of the matrices, see below")->type_name("TYPE");
  command
      ->add_option("--tensor-type", flags->tensor_types,
                   "Type of the matrices whose names match a regular expression; repeatable, the last match counts")
      ->type_name("REGEX=TYPE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_option("--seed", flags->seed, "Seed of the random weights")
      ->check(whole_number(0, std::numeric_limits<uint64_t>::max()))
      ->capture_default_str();
  command->add_option("--threads", flags->threads, "CPU threads (default: one per core)")
      ->check(whole_number(1, synth::kThreadsMax));
  command->add_flag("--dry-run", flags->dry_run, "Print the tensors and their sizes, and write nothing");
  command->add_flag("--hollow", flags->hollow,
                    "Leave the weights out: a file of the full size that takes no space, for cairn inspect");
  command->footer(footer());
  command->callback([flags, &exit_code] {
    if (const auto done = run_synth(*flags); !done.has_value()) exit_code = report(done.error());
  });
}

}  // namespace cairn
