// `cairn quantize`: writes a model file again with other weight types.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/text/printable.h"
#include "commands.h"
#include "convert/quantize.h"
#include "help/help_format.h"
#include "help/value_checks.h"
#include "model_argument.h"
#include "output.h"
#include "progress_line.h"
#include "quantize_fit.h"
#include "table_text.h"

namespace cairn {
namespace {

using std::chrono::steady_clock;

constexpr size_t kNamesMax = 6;  // of tensors that are listed

struct QuantizeFlags {
  std::string in;
  std::string out;
  std::string type;
  int threads = 0;
  std::string imatrix;
  std::vector<std::string> rules;
  std::string output_type;
  std::string embedding_type;
  bool leave_output = false;
  bool pure = false;
  int64_t split_bytes_max = 0;
  bool keep_split = false;
  bool dry_run = false;
  std::string fit;
  std::vector<std::string> fit_texts;
};

std::string type_list() {
  std::string list = "Types:\n";
  for (const convert::QuantizeMixInfo& mix : convert::quantize_mixes())
    list += fmt::format("  {:<8} {}\n", mix.name, mix.summary);
  list += "  Q3_K, Q4_K and Q5_K are the ones that end in _M";
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

std::string check_rule(const std::string& text) {
  const auto rule = convert::type_rule_of(text);
  return rule ? std::string() : rule.error().message;
}

void show_quantized(ProgressLine& line, steady_clock::time_point begin, const convert::QuantizeProgress& now) {
  if (now.bytes_total == 0) return;
  const double seconds = std::chrono::duration<double>(steady_clock::now() - begin).count();
  const auto rest = static_cast<double>(now.bytes_total - now.bytes_done);
  const auto left = static_cast<int64_t>(seconds * rest / static_cast<double>(std::max<int64_t>(now.bytes_done, 1)));
  line.show(fmt::format("{:3}%  {}:{:02} left  {}/{}  {}  {} -> {}", 100 * now.bytes_done / now.bytes_total, left / 60,
                        left % 60, now.tensor_index + 1, now.tensors, now.tensor, tensor_type_name(now.from),
                        tensor_type_name(now.to)));
}

std::string listed_names(const std::vector<std::string>& all) {
  std::string list;
  for (size_t i = 0; i < std::min(all.size(), kNamesMax); ++i) list += (i == 0 ? "" : ", ") + printable(all[i]);
  if (all.size() > kNamesMax) list += fmt::format(" and {} more", all.size() - kNamesMax);
  return list;
}

void print_sizes(const convert::QuantizeReport& report) {
  std::vector<std::vector<std::string>> rows = {{"type", "tensors", "size", "share"}};
  for (const auto& [type, size] : report.sizes) {
    const double share = 100.0 * static_cast<double>(size.bytes) / static_cast<double>(report.bytes_out);
    rows.push_back({std::string(tensor_type_name(type)), std::to_string(size.tensors), size_text(size.bytes),
                    fmt::format("{:.1f} %", share)});
  }
  for (const std::string& line : table_lines(rows)) print("{}\n", line);
}

void print_remarks(const convert::QuantizeReport& report) {
  if (report.fallbacks > 0) {
    print("{} tensors have rows that blocks of this type do not divide; they got a type with blocks of 32, or F16\n",
          report.fallbacks);
  }
  if (!report.unreached.empty()) {
    print("No calibration text reached some experts, which take the mean of the others: {}\n",
          listed_names(report.unreached));
  }
  if (!report.without_importance.empty()) {
    log_warning("the importance matrix has nothing for {}", listed_names(report.without_importance));
  }
}

Result<convert::QuantizeOptions> options_of(const QuantizeFlags& flags) {
  convert::QuantizeOptions options{.threads = flags.threads};
  if (!flags.type.empty()) {
    const auto mix = convert::quantize_mix_named(flags.type);
    if (!mix.has_value()) return fail(Code::kInvalidArgument, "TYPE {}", check_type(flags.type));
    options.mix = *mix;
  } else if (flags.fit.empty()) {
    return fail(Code::kInvalidArgument, "which type? Name one, such as Q4_K_M, or give a size with --fit");
  }
  convert::TypeRequest& types = options.types;
  for (const std::string& text : flags.rules) {
    CAIRN_TRY(types.rules.emplace_back(), convert::type_rule_of(text));
  }
  if (!flags.output_type.empty()) types.output = tensor_type_named(flags.output_type);
  if (!flags.embedding_type.empty()) types.embedding = tensor_type_named(flags.embedding_type);
  types.leave_output = flags.leave_output;
  types.pure = flags.pure;
  options.split_bytes_max = flags.split_bytes_max;
  options.keep_split = flags.keep_split;
  return options;
}

Result<void> run_quantize(const QuantizeFlags& flags) {
  CAIRN_TRY(convert::QuantizeOptions options, options_of(flags));
  CAIRN_TRY(const std::string in, find_model_file(flags.in));
  std::optional<convert::ImportanceMatrix> importance;
  if (!flags.imatrix.empty()) {
    CAIRN_TRY(importance, convert::ImportanceMatrix::open(flags.imatrix));
    options.importance_file = std::filesystem::path(flags.imatrix).filename().string();
  }
  const auto start = steady_clock::now();
  if (!flags.fit.empty()) {
    CAIRN_TRY_VOID(fit_types(in, flags.fit, flags.fit_texts, importance, options));
  }
  if (importance.has_value()) options.importance = &*importance;
  if (flags.dry_run) {
    CAIRN_TRY(const gguf::Reader file, gguf::Reader::open(in));
    CAIRN_TRY(const convert::QuantizeReport planned, convert::plan_quantize(file, options));
    print_sizes(planned);
    print("{} -> {}, {:.2f} bits per weight, {} tensors; nothing was written\n", size_text(planned.bytes_in),
          size_text(planned.bytes_out), planned.bits_per_weight(), planned.tensors);
    print_remarks(planned);
    return {};
  }
  convert::QuantizeReport done;
  {
    ProgressLine line;
    const auto begin = steady_clock::now();
    options.progress = [&](const convert::QuantizeProgress& now) { show_quantized(line, begin, now); };
    CAIRN_TRY(done, convert::quantize_file(in, flags.out, options));
  }
  const double seconds = std::chrono::duration<double>(steady_clock::now() - start).count();
  print("{}: {} -> {}, {:.2f} bits per weight, {} tensors{} in {:.1f} s\n", flags.out, size_text(done.bytes_in),
        size_text(done.bytes_out), done.bits_per_weight(), done.tensors,
        done.files > 1 ? fmt::format(" in {} files", done.files) : "", seconds);
  print_remarks(done);
  return {};
}

void add_type_flags(CLI::App& command, QuantizeFlags& flags) {
  std::vector<std::string> types;
  for (const TensorTypeInfo& info : tensor_types()) types.emplace_back(info.name);
  const auto rule = CLI::Validator([](std::string& text) { return check_rule(text); }, "");
  const auto one_type = CLI::Validator(
      [types](std::string& text) {
        const auto type = tensor_type_named(text);
        return type.has_value() ? std::string() : fmt::format("takes {}, not {}", listed(types), printable(text));
      },
      "");
  command
      .add_option("--imatrix", flags.imatrix,
                  "Importance matrix, of cairn imatrix or of llama.cpp in either format, for less loss with few bits "
                  "(default: none)")
      ->type_name("FILE");
  command
      .add_option("--tensor-type", flags.rules,
                  "Type for all matrices of whose name the regular expression matches a part; repeatable, the first "
                  "that matches counts (default: none)")
      ->type_name("REGEX=TYPE")
      ->allow_extra_args(false)
      ->check(rule);
  command.add_option("--output-tensor-type", flags.output_type, "Type of the output matrix (default: as TYPE has it)")
      ->type_name("TYPE")
      ->check(one_type);
  command
      .add_option("--token-embedding-type", flags.embedding_type,
                  "Type of the table of tokens (default: as TYPE has it)")
      ->type_name("TYPE")
      ->check(one_type);
  command.add_flag("--leave-output-tensor", flags.leave_output, "Leave the output matrix as it is");
  command.add_flag("--pure", flags.pure, "Give all matrices the same type");
}

void add_fit_flags(CLI::App& command, QuantizeFlags& flags) {
  command
      .add_option("--fit", flags.fit,
                  "Choose the types by what they harm, for a file of this size or of so many bits per weight, such as "
                  "4GiB or 3.5bpw, in place of TYPE (default: off)")
      ->type_name("SIZE")
      ->check(CLI::Validator([](std::string& text) { return check_fit(text); }, ""));
  command
      .add_option("--fit-text", flags.fit_texts,
                  "Text on which --fit measures harm, and importance without --imatrix; repeatable (default: a text "
                  "that comes with Cairn)")
      ->type_name("FILE")
      ->allow_extra_args(false);
  for (const char* name :
       {"--tensor-type", "--output-tensor-type", "--token-embedding-type", "--leave-output-tensor", "--pure"}) {
    command.get_option("--fit")->excludes(command.get_option(name));
  }
}

}  // namespace

void add_quantize(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<QuantizeFlags>();
  CLI::App* command = app.add_subcommand("quantize", "Convert a model file to another type of weights");
  set_help(*command, "cairn quantize qwen3-4b-f16.gguf qwen3-4b-q4_k_m.gguf Q4_K_M");
  command->add_option("INPUT", flags->in, kModelHelp)->required();
  command->add_option("OUTPUT", flags->out, "File to write; it appears when it is complete")->required();
  command->add_option("TYPE", flags->type, "Type of the weights, see below; not needed with --fit")
      ->check(CLI::Validator([](std::string& name) { return check_type(name); }, ""));
  add_type_flags(*command, *flags);
  add_fit_flags(*command, *flags);
  command
      ->add_option("--split-max-size", flags->split_bytes_max,
                   "Write files OUTPUT-00001-of-0000N.gguf of at most this size (default: one file)")
      ->transform(byte_size(1));
  command->add_flag("--keep-split", flags->keep_split, "Write as many files as the input has, with the same tensors");
  command->add_flag("--dry-run", flags->dry_run, "Print types and sizes, and write nothing");
  command->add_option("--threads", flags->threads, "CPU threads (default: one per core)")
      ->check(whole_number(1, convert::kQuantizeThreadsMax));
  command->footer(type_list());
  command->callback([flags, &exit_code] {
    if (const auto done = run_quantize(*flags); !done.has_value()) exit_code = report(done.error());
  });
}

}  // namespace cairn
