// Fuzzes what hubs answer, the state of unfinished downloads, lists of checksums, and models' names: any bytes give an
// error with a message, or a result whose paths stay within the models folder.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "gguf/model_folder.h"
#include "gguf/split.h"
#include "hub/checksums.h"
#include "hub/download.h"
#include "hub/model_name.h"
#include "hub/remote_files.h"

namespace {

template <class T>
bool usable(const cairn::Result<T>& result) {
  if (!result && result.error().message.empty()) __builtin_trap();
  return result.has_value();
}

void check_name(std::string_view text) {
  const auto name = cairn::hub::parse_model_name(text);
  if (!usable(name)) return;
  const std::string file = (name->folder() / (name->file.empty() ? name->tag + ".gguf" : name->file)).string();
  if (file.starts_with('/') || file.find("/../") != std::string::npos) __builtin_trap();
  const auto again = cairn::hub::parse_model_name(name->text());
  if (!again || again->text() != name->text()) __builtin_trap();
}

void check_list(std::string_view text) {
  const auto files = cairn::hub::read_file_list(text);
  if (!usable(files)) return;
  for (const auto& file : *files)
    if (!cairn::hub::is_safe_path(file.path) || file.bytes < 0) __builtin_trap();
  for (const char* tag : {"", "q4_k_m"}) {
    const cairn::hub::ModelName name{.owner = "org", .model = "repo", .tag = tag, .file = {}};
    const auto choice = cairn::hub::choose_files(name, *files, int64_t{1} << 33);
    if (usable(choice) && choice->files.empty()) __builtin_trap();
  }
  (void)cairn::hub::projector_of(*files);
}

/// A list of checksums is read again as it is written, but for names with line ends, which no line can have.
void check_checksums(std::string_view text) {
  const auto list = cairn::hub::parse_checksums(text, "this.gguf");
  if (!usable(list)) return;
  for (const auto& checksum : *list) {
    if (checksum.sha256.size() != 64) __builtin_trap();
    const auto again = cairn::hub::parse_checksums(checksum.text(), "other.gguf");
    const bool has_name = checksum.name.find_first_not_of(" \t") != std::string::npos;
    if (has_name && (!again || again->size() != 1 || again->front().sha256 != checksum.sha256)) __builtin_trap();
  }
  (void)cairn::hub::compare_checksums(*list, *list);
}

/// A part of a split set names the others, and each of them the set.
void check_split(const std::string& name) {
  const auto split = cairn::gguf::split_name(name);
  if (!split) return;
  if (!cairn::gguf::is_gguf_name(name) || cairn::gguf::split_file_name(*split, split->part) != name) __builtin_trap();
  const auto last = cairn::gguf::split_name(cairn::gguf::split_file_name(*split, split->parts));
  if (!last || last->stem != split->stem || last->part != split->parts || last->ending != split->ending)
    __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check_name(text);
  check_list(text);
  check_checksums(text);
  const auto manifest = cairn::hub::read_manifest(text);
  if (usable(manifest) && manifest->model.sha256.size() != 64) __builtin_trap();
  if (const auto state = cairn::hub::read_state(text)) {
    if (state->loaded.bytes() > state->bytes) __builtin_trap();
    const auto again = cairn::hub::read_state(cairn::hub::write_state(*state));
    if (!again || again->loaded.bytes() != state->loaded.bytes()) __builtin_trap();
  }
  check_split(std::string(text));
  const std::string label = cairn::gguf::quantisation_label(text);
  if (!label.empty() && !cairn::gguf::is_quantisation_label(label)) __builtin_trap();
  (void)cairn::gguf::pulled_name(text);
  return 0;
}
