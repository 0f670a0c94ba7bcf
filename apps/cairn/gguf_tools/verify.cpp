// `cairn gguf verify`: whether a model file is complete, its weights are numbers, and its bytes those that they should
// be.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/text/bytes_text.h"
#include "base/text/printable.h"
#include "base/text/text_file.h"
#include "commands.h"
#include "convert/check_weights.h"
#include "gguf/reader.h"
#include "gguf_tools/gguf_tools.h"
#include "help/help_format.h"
#include "help/value_checks.h"
#include "hub/checksums.h"
#include "hub/download.h"
#include "metadata_text.h"
#include "model_argument.h"
#include "output.h"
#include "table_text.h"
#include "values.h"

namespace cairn {
namespace {

constexpr int kVerifyThreadsMax = 512;
constexpr size_t kListBytesMax = 8 << 20;

struct VerifyFlags {
  std::string model;
  std::string list;
  int threads = 0;
  bool files = false;
  bool tensors = false;
};

/// Where expected checksums come from.
struct Expected {
  std::string source;  ///< "--check model.sha256"
  std::vector<hub::Checksum> list;
};

/// What is to be said besides the checksums that were asked for, which alone go to standard output.
class FileReport {
 public:
  explicit FileReport(bool sums_on_output) : sums_on_output_(sums_on_output) {}
  void say(const std::string& text) {
    if (sums_on_output_) {
      std::fprintf(stderr, "%s\n", text.c_str());
    } else {
      print("{}\n", text);
    }
  }
  void wrong(const std::string& text) {
    ++wrong_;
    say("WRONG  " + text);
  }
  Result<void> end(const std::string& model) const {
    if (wrong_ == 0) return {};
    return fail(Code::kCorruptFile, "{} is not as it should be: see the lines that begin with WRONG", model);
  }

 private:
  bool sums_on_output_;
  int wrong_ = 0;
};

std::vector<Expected> checksums_in_names(const std::vector<std::filesystem::path>& files) {
  Expected of_place{.source = "the name of its blob", .list = {}};
  for (const auto& file : files) {
    if (auto sum = hub::checksum_in_name(file)) of_place.list.push_back({*sum, file.filename().string()});
  }
  if (of_place.list.empty()) return {};
  return {std::move(of_place)};
}

Result<std::vector<Expected>> expected_checksums(const VerifyFlags& flags,
                                                 const std::vector<std::filesystem::path>& files) {
  std::vector<Expected> all = checksums_in_names(files);
  const auto add_list = [&](const std::string& path, const std::string& source,
                            const std::string& file_name) -> Result<void> {
    CAIRN_TRY(const std::string text, read_text_file(path, source, kListBytesMax));
    auto list = hub::parse_checksums(text, file_name);
    if (!list) return fail(list.error().code, "{}: {}", source, list.error().message);
    all.push_back({source, std::move(*list)});
    return {};
  };
  for (const auto& file : files) {
    const std::string beside = file.string() + ".sha256";
    std::error_code error;
    if (std::filesystem::is_regular_file(beside, error))
      CAIRN_TRY_VOID(add_list(beside, beside, file.filename().string()));
  }
  if (!flags.list.empty()) CAIRN_TRY_VOID(add_list(flags.list, "--check " + flags.list, files[0].filename().string()));
  return all;
}

void check_weights_of(const gguf::Reader& file, int threads, FileReport& file_report) {
  convert::WeightCheck found;
  {
    CopyLine line;
    found = convert::check_weights(file, threads, line.on_copy());
  }
  for (const convert::BadTensor& bad : found.bad) {
    file_report.wrong(fmt::format("{}: {} weight{} not finite; the first, in row {}, column {}, is {}",
                                  printable(bad.name), grouped(bad.weights), bad.weights == 1 ? " is" : "s are",
                                  bad.row, bad.column, bad.value));
  }
  if (found.bad.empty())
    file_report.say(fmt::format("weights    {} in {} tensors, all finite", grouped(found.weights), found.tensors));
}

/// The checksums of the files, of the tensors, or of both.
Result<std::vector<hub::Checksum>> compute_checksums(const gguf::Reader& file,
                                                     const std::vector<std::filesystem::path>& files, bool of_files,
                                                     bool of_tensors) {
  ProgressLine line;
  std::vector<hub::Checksum> sums;
  for (size_t i = 0; of_files && i < files.size(); ++i) {
    const std::string name = files[i].filename().string();
    const ProgressClock clock;
    const auto bytes = static_cast<int64_t>(std::filesystem::file_size(files[i]));
    CAIRN_TRY(const std::string sum, hub::sha256_of(files[i], [&](int64_t done) {
                line.show(fmt::format("{}  SHA-256 of {}", clock.text(done, bytes), name));
                return true;
              }));
    sums.push_back({sum, name});
  }
  if (!of_tensors) return sums;
  const ProgressClock clock;
  CAIRN_TRY(const auto tensors, hub::tensor_checksums(file, files[0].filename().string(), [&](int64_t done) {
              line.show(fmt::format("{}  SHA-256 of tensors", clock.text(done, file.file_bytes())));
              return true;
            }));
  sums.insert(sums.end(), tensors.begin(), tensors.end());
  return sums;
}

void compare_with(const Expected& expected, const std::vector<hub::Checksum>& sums, bool asked,
                  FileReport& file_report) {
  const auto wrong = hub::compare_checksums(expected.list, sums);
  if (!wrong) {
    if (asked) file_report.wrong(fmt::format("{}: {}", expected.source, wrong.error().message));
    return;
  }
  for (const hub::ChecksumMismatch& one : *wrong) {
    file_report.wrong(fmt::format("{}: SHA-256 is {}, not {} as {} says", printable(one.name),
                                  one.found.empty() ? "that of nothing in this model" : one.found, one.expected,
                                  expected.source));
  }
  if (wrong->empty()) file_report.say(fmt::format("SHA-256    as {} says", expected.source));
}

Result<void> run_verify(const VerifyFlags& flags) {
  CAIRN_TRY(const std::string path, find_model_file(flags.model));
  FileReport file_report(flags.files || flags.tensors);
  CAIRN_TRY(const gguf::Reader file, gguf::Reader::open(path));
  const auto files = hub::files_of_model(path);
  CAIRN_TRY(const std::vector<Expected> expected, expected_checksums(flags, files));
  file_report.say(fmt::format("structure  GGUF version {}, {} keys, {} tensors, {} in {} file{}", file.version(),
                              file.metadata().values().size(), file.tensors().size(), bytes_text(file.file_bytes()),
                              files.size(), files.size() == 1 ? "" : "s"));
  check_weights_of(file, flags.threads, file_report);
  bool names_files = false, names_tensors = false;
  for (const Expected& source : expected) {
    for (const hub::Checksum& sum : source.list) {
      (sum.name.find(".gguf:") == std::string::npos ? names_files : names_tensors) = true;
    }
  }
  CAIRN_TRY(const auto sums,
            compute_checksums(file, files, flags.files || names_files, flags.tensors || names_tensors));
  for (const hub::Checksum& sum : sums) {
    const bool of_tensor = sum.name.find(".gguf:") != std::string::npos;
    if (of_tensor ? flags.tensors : flags.files) print("{}\n", sum.text());
  }
  for (size_t i = 0; i < expected.size(); ++i)
    compare_with(expected[i], sums, !flags.list.empty() && i + 1 == expected.size(), file_report);
  if (file.find_rewritten() != nullptr) file_report.wrong("the file was changed while it was read");
  return file_report.end(path);
}

}  // namespace

void add_gguf_verify(CLI::App& gguf, int& exit_code) {
  auto flags = std::make_shared<VerifyFlags>();
  auto* command = gguf.add_subcommand(
      "verify",
      "Check a model file: whether it is complete, whether all weights are finite, and whether it has the SHA-256 that "
      "a list, a file MODEL.gguf.sha256 beside it, or the name of its blob in a hub's cache says");
  set_help(*command, "cairn gguf verify model.gguf");
  command->add_option("MODEL", flags->model, kModelHelp)->required();
  command->add_flag("--sha256", flags->files,
                    "Print the SHA-256 of the file, as sha256sum does; with a split model of each");
  command->add_flag("--sha256-tensors", flags->tensors, "Print the SHA-256 of each tensor");
  command
      ->add_option("--check", flags->list,
                   "List to compare with, as sha256sum, --sha256 or --sha256-tensors print it (default: none)")
      ->check(existing_file());
  command->add_option("--threads", flags->threads, "CPU threads (default: one per core)")
      ->check(whole_number(1, kVerifyThreadsMax));
  command->callback([flags, &exit_code] {
    if (const auto done = run_verify(*flags); !done) exit_code = report(done.error());
  });
}

}  // namespace cairn
