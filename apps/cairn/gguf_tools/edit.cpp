// `cairn gguf set`, `remove` and `splice`: write a model file again with other metadata, or with tensors of another
// one.
#include "convert/edit.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/text/bytes_text.h"
#include "base/text/text_file.h"
#include "commands.h"
#include "gguf_tools/gguf_tools.h"
#include "help/help_format.h"
#include "jinja/jinja.h"
#include "model_argument.h"
#include "output.h"
#include "values.h"

namespace cairn {
namespace {

struct EditFlags {
  std::string in;
  std::string out;
  std::vector<std::string> keys;  ///< assignments, or keys to remove
  std::vector<std::string> remove;
  std::string chat_template;
  std::string from;
  std::string tensors;
};

std::string count_text(int64_t count, std::string_view thing) {
  return fmt::format("{} {}{}", count, thing, count == 1 ? "" : "s");
}

void print_written(const EditFlags& flags, const std::string& what) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(flags.out, error);
  print("{}: {}, {}\n", flags.out, what, bytes_text(error ? 0 : static_cast<int64_t>(bytes)));
}

/// The template of a file as the value of its key. A model with a template that cannot be read would not be usable for
/// conversations.
Result<convert::Assignment> template_assignment(const std::string& path) {
  CAIRN_TRY(std::string source, read_text_file(path, "--chat-template", jinja::kJinjaSourceBytesMax));
  if (const auto parsed = jinja::JinjaTemplate::parse(source); !parsed)
    return fail_at(parsed.error().at, parsed.error().code, "--chat-template {}: {}", path, parsed.error().message);
  return convert::Assignment{"tokenizer.chat_template", convert::ValueForm{gguf::ValueType::kString, false},
                             std::move(source)};
}

Result<void> run_edit(const EditFlags& flags, convert::MetadataEdit edit) {
  if (!flags.chat_template.empty()) {
    CAIRN_TRY(auto assignment, template_assignment(flags.chat_template));
    edit.set.push_back(std::move(assignment));
  }
  if (edit.set.empty() && edit.remove.empty())
    return fail(Code::kInvalidArgument, "nothing is to be changed; give KEY=VALUE, --remove or --chat-template");
  CAIRN_TRY(const std::string in, find_model_file(flags.in));
  convert::EditReport report;
  {
    CopyLine line;
    CAIRN_TRY(report, convert::edit_metadata(in, flags.out, edit, line.on_copy()));
  }
  std::string what;
  if (report.keys_set > 0) what = count_text(report.keys_set, "key") + " set";
  if (report.keys_removed > 0)
    what += fmt::format("{}{} removed", what.empty() ? "" : ", ", count_text(report.keys_removed, "key"));
  print_written(flags, what);
  return {};
}

Result<void> run_set(const EditFlags& flags) {
  convert::MetadataEdit edit{.set = {}, .remove = flags.remove};
  for (const std::string& typed : flags.keys) {
    CAIRN_TRY(auto assignment, convert::parse_assignment(typed));
    edit.set.push_back(std::move(assignment));
  }
  return run_edit(flags, std::move(edit));
}

Result<void> run_splice(const EditFlags& flags) {
  CAIRN_TRY(const std::string in, find_model_file(flags.in));
  CAIRN_TRY(const std::string from, find_model_file(flags.from));
  convert::EditReport report;
  {
    CopyLine line;
    CAIRN_TRY(report, convert::splice(in, from, flags.tensors, flags.out, line.on_copy()));
  }
  print_written(flags, fmt::format("{} ({}) of {}", count_text(report.tensors_taken, "tensor"),
                                   bytes_text(report.bytes_taken), flags.from));
  return {};
}

void add_in_and_out(CLI::App& command, EditFlags& flags) {
  command.add_option("INPUT", flags.in, kModelHelp)->required();
  command.add_option("OUTPUT", flags.out, kNewFileHelp)->required();
}

}  // namespace

void add_gguf_edit(CLI::App& gguf, int& exit_code) {
  auto flags = std::make_shared<EditFlags>();
  auto* set = gguf.add_subcommand("set", "Write a model file again with other metadata");
  set_help(*set, "cairn gguf set in.gguf out.gguf general.name=\"My model\" tokenizer.ggml.add_bos_token=false");
  add_in_and_out(*set, *flags);
  set->add_option(
         "CHANGE", flags->keys,
         "KEY=VALUE: the value has the type that it has in the file, or else that it looks like. KEY:TYPE=VALUE "
         "gives the type: u8, i8, u16, i16, u32, i32, u64, i64, f32, f64, bool or string; an array is "
         "KEY:i32[]=[1,2], in JSON")
      ->check(readable_by(convert::parse_assignment));
  set->add_option("--chat-template", flags->chat_template,
                  "Jinja file with the chat template to put in (default: none)")
      ->check(existing_file());
  add_list(*set, "--remove", flags->remove, "Keys to remove first; * stands for any characters (default: none)")
      ->type_name("KEYS");
  set->callback([flags, &exit_code] {
    if (const auto done = run_set(*flags); !done) exit_code = report(done.error());
  });

  auto* remove = gguf.add_subcommand("remove", "Write a model file again without some of its metadata");
  set_help(*remove, "cairn gguf remove in.gguf out.gguf tokenizer.chat_template 'general.base_model.*'");
  add_in_and_out(*remove, *flags);
  remove->add_option("KEY", flags->keys, "Keys to remove; * stands for any characters, ? for one")->required();
  remove->callback([flags, &exit_code] {
    if (const auto done = run_edit(*flags, {.set = {}, .remove = flags->keys}); !done) exit_code = report(done.error());
  });
}

void add_gguf_splice(CLI::App& gguf, int& exit_code) {
  auto flags = std::make_shared<EditFlags>();
  auto* command = gguf.add_subcommand("splice", "Write a model file again with tensors of another one, byte for byte");
  set_help(*command, "cairn gguf splice q4.gguf out.gguf --from q8.gguf --tensors 'ffn_(up|down)_exps'");
  add_in_and_out(*command, *flags);
  command->add_option("--from", flags->from, "File with the other tensors: GGUF file, or a name that cairn list shows")
      ->required()
      ->type_name("FILE");
  command
      ->add_option("--tensors", flags->tensors,
                   "Regular expression for the names of the tensors to take; it may match a part of a name. Their "
                   "types may differ, their shapes may not")
      ->required()
      ->type_name("REGEX");
  command->callback([flags, &exit_code] {
    if (const auto done = run_splice(*flags); !done) exit_code = report(done.error());
  });
}

}  // namespace cairn
