// `cairn gguf split` and `merge`: a model in one file or in several.
#include "convert/split.h"

#include <fmt/format.h>

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/text/bytes_text.h"
#include "commands.h"
#include "gguf_tools/gguf_tools.h"
#include "help/help_format.h"
#include "help/value_checks.h"
#include "model_argument.h"
#include "output.h"

namespace cairn {
namespace {

// Tensors of a part where no limit is given, as in llama-gguf-split.
constexpr int64_t kTensorsOfPart = 128;

struct SplitFlags {
  std::string in;
  std::string out;
  convert::SplitOptions options;
};

Result<void> run_split(SplitFlags flags) {
  if (flags.options.bytes_max == 0 && flags.options.tensors_max == 0) flags.options.tensors_max = kTensorsOfPart;
  CAIRN_TRY(const std::string in, find_model_file(flags.in));
  std::vector<convert::SplitPart> parts;
  {
    CopyLine line;
    flags.options.on_copy = line.on_copy();
    CAIRN_TRY(parts, convert::split_file(in, flags.out, flags.options));
  }
  for (const convert::SplitPart& part : parts) {
    print("{}: {} tensor{}, {}{}\n", part.path.string(), part.tensors, part.tensors == 1 ? "" : "s",
          bytes_text(part.bytes), flags.options.dry_run ? " (not written)" : "");
  }
  return {};
}

Result<void> run_merge(const SplitFlags& flags) {
  CAIRN_TRY(const std::string in, find_model_file(flags.in));
  int64_t bytes = 0;
  {
    CopyLine line;
    CAIRN_TRY(bytes, convert::merge_files(in, flags.out, line.on_copy()));
  }
  print("{}: {}\n", flags.out, bytes_text(bytes));
  return {};
}

}  // namespace

void add_gguf_split(CLI::App& gguf, int& exit_code) {
  auto flags = std::make_shared<SplitFlags>();
  auto* split = gguf.add_subcommand("split", "Split a model file into parts PREFIX-00001-of-00003.gguf");
  set_help(*split, "cairn gguf split model.gguf model --max-size 4GiB");
  split->add_option("INPUT", flags->in, kModelHelp)->required();
  split
      ->add_option("PREFIX", flags->out,
                   "What the names of the parts begin with; all parts appear when they are complete")
      ->required();
  split
      ->add_option("--max-size,--split-max-size", flags->options.bytes_max,
                   "Maximum size of a part (default: no limit)")
      ->transform(byte_size(1));
  split
      ->add_option("--max-tensors,--split-max-tensors", flags->options.tensors_max,
                   fmt::format("Maximum tensors of a part (default: {}, or no limit with --max-size)", kTensorsOfPart))
      ->check(whole_number(1, std::numeric_limits<int32_t>::max()));
  split->add_flag("--no-tensor-first-split", flags->options.first_part_empty,
                  "Keep the first part small: it has the metadata and no tensors");
  split->add_flag("--dry-run", flags->options.dry_run, "Only print what would be written");
  split->callback([flags, &exit_code] {
    if (const auto done = run_split(*flags); !done) exit_code = report(done.error());
  });

  auto* merge = gguf.add_subcommand("merge", "Join the parts of a split model into one file");
  set_help(*merge, "cairn gguf merge model-00001-of-00003.gguf model.gguf");
  merge->add_option("PART", flags->in, "Any part; the others are found beside it")->required();
  merge->add_option("OUTPUT", flags->out, kNewFileHelp)->required();
  merge->callback([flags, &exit_code] {
    if (const auto done = run_merge(*flags); !done) exit_code = report(done.error());
  });
}

void add_gguf(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("gguf", "Edit, split, merge, compare and check model files");
  set_help(*command, "cairn gguf set in.gguf out.gguf general.name=\"My model\"");
  for (const auto& add : {add_gguf_edit, add_gguf_splice, add_gguf_split, add_gguf_diff, add_gguf_verify})
    add(*command, exit_code);
}

}  // namespace cairn
