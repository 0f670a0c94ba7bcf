#include "convert/huggingface/convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <utility>

#include "base/text/printable.h"
#include "convert/huggingface/new_files.h"
#include "convert/huggingface/source_tensors.h"
#include "convert/huggingface/vocabulary.h"

namespace cairn::convert {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kQuantizationVersion = 2;  // of the block formats that quant/ writes

// Refuses weights in a form that is neither float nor FP8 nor MXFP4.
Result<void> check_quantization(const ModelConfig& config) {
  const ModelConfig quantization = config.object({"quantization_config"});
  const std::string method = quantization.text_or({"quant_method"}, "");
  constexpr std::string_view kKnown[] = {"", "fp8", "mxfp4", "compressed-tensors", "fbgemm_fp8", "modelopt"};
  if (std::ranges::find(kKnown, method) != std::end(kKnown)) return {};
  return fail(Code::kUnsupported,
              "the weights are quantised by the method {}; convert the original model, or one in FP8 "
              "or MXFP4",
              printable(method));
}

// The type in which nothing of the checkpoint's matrices is lost.
QuantizeMix lossless_mix(const Checkpoint& checkpoint) {
  std::array<int64_t, 3> bytes{};  // of F32, F16, BF16
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    if (tensor.shape.size() < 2) continue;
    const bool wide = tensor.type == StoredType::kF32 || tensor.type == StoredType::kF64;
    bytes[wide ? 0 : tensor.type == StoredType::kF16 ? 1 : 2] += static_cast<int64_t>(tensor.bytes.size());
  }
  const auto most = std::ranges::max_element(bytes) - bytes.begin();
  return most == 0 ? QuantizeMix::kF32 : most == 1 ? QuantizeMix::kF16 : QuantizeMix::kBF16;
}

// "meta-llama-3_8b" is "Meta Llama 3 8b".
std::string name_of(const fs::path& folder) {
  fs::path plain = folder.lexically_normal();
  if (!plain.has_filename()) plain = plain.parent_path();
  std::string name = plain.filename().string();
  bool begins = true;
  for (char& letter : name) {
    if (letter == '-' || letter == '_') letter = ' ';
    if (begins) letter = static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
    begins = letter == ' ';
  }
  return name.empty() || name == "." || name == ".." ? "Model" : name;
}

// "7B", "360M", or "8x7B" for experts: their number, and the parameters of all but experts with one of each.
std::string size_label(std::span<const PlannedTensor> tensors) {
  int64_t all = 0, of_experts = 0, experts = 0;
  for (const PlannedTensor& tensor : tensors) {
    const int64_t elements = tensor.rows->count() * tensor.rows->length();
    all += elements;
    if (!tensor.name.contains("_exps.") || tensor.shape.size() < 3) continue;
    of_experts += elements;
    experts = std::max(experts, tensor.shape.back());
  }
  const double counted = static_cast<double>(experts > 0 ? all - of_experts + of_experts / experts : all);
  constexpr std::pair<double, char> kUnits[] = {{1e12, 'T'}, {1e9, 'B'}, {1e6, 'M'}, {1e3, 'K'}};
  for (const auto& [size, letter] : kUnits) {
    if (counted < size && letter != 'K') continue;
    std::string number = fmt::format("{:.1f}", counted / size);
    if (counted / size >= 9.95 || number.ends_with(".0")) number = fmt::format("{:.0f}", counted / size);
    return experts > 0 ? fmt::format("{}x{}{}", experts, number, letter) : fmt::format("{}{}", number, letter);
  }
  return {};
}

void set_general_keys(Conversion& conversion, const fs::path& folder, const ConvertOptions& options, QuantizeMix mix) {
  NewMetadata& metadata = conversion.metadata();
  const bool packed = std::ranges::any_of(
      conversion.tensors(), [](const PlannedTensor& tensor) { return tensor.rows->blocks() == TensorType::kMXFP4; });
  const bool floats = mix == QuantizeMix::kF32 || mix == QuantizeMix::kF16 || mix == QuantizeMix::kBF16;
  metadata.set("general.type", "model");
  metadata.set("general.name", options.name.empty() ? name_of(folder) : options.name);
  metadata.set("general.size_label", size_label(conversion.tensors()));
  metadata.set("general.quantization_version", kQuantizationVersion);
  const std::string_view type = packed && floats ? "MXFP4" : quantize_mix_info(mix).name;
  metadata.set("general.file_type", static_cast<int64_t>(file_type_id(type).value()));
}

// Orders tensors as readers go through them: what all layers need, then layer by layer.
void sort_tensors(std::vector<PlannedTensor>& tensors) {
  const auto layer = [](const PlannedTensor& tensor) -> int64_t {
    return tensor.name.starts_with("blk.") ? std::atoll(tensor.name.c_str() + 4) : -1;
  };
  std::ranges::stable_sort(tensors, {}, layer);
}

Result<void> check_tensors(std::span<const PlannedTensor> tensors) {
  std::set<std::string_view> names;
  for (const PlannedTensor& tensor : tensors) {
    if (!names.insert(tensor.name).second) {
      return fail_at(fmt::format("tensor {}", tensor.name), Code::kCorruptFile,
                     "two tensors of the checkpoint become this one");
    }
    int64_t elements = 1;
    for (const int64_t size : tensor.shape) elements *= size;
    if (tensor.shape.size() > gguf::kDimensionsMax || elements != tensor.rows->count() * tensor.rows->length()) {
      return fail_at(fmt::format("tensor {}", tensor.name), Code::kCorruptFile,
                     "its shape [{}] does not fit the config", fmt::join(tensor.shape, ", "));
    }
  }
  return {};
}

// The types under a mix: blocks that a file can hold stay as they are, everything else counts as floats.
std::vector<TensorType> types_of(std::span<const PlannedTensor> tensors, QuantizeMix mix) {
  std::vector<gguf::Tensor> floats;
  for (const PlannedTensor& tensor : tensors) floats.push_back({tensor.name, TensorType::kF32, tensor.shape, {}});
  std::vector<TensorType> types = choose_types(floats, mix);
  for (size_t i = 0; i < types.size(); ++i) {
    if (const TensorType blocks = tensors[i].rows->blocks(); blocks != TensorType::kF32) types[i] = blocks;
  }
  return types;
}

Result<int64_t> vocabulary_size(const Conversion& conversion) {
  for (const PlannedTensor& tensor : conversion.tensors()) {
    if (tensor.name == "token_embd.weight") return tensor.rows->count();
  }
  return fail(Code::kCorruptFile, "the checkpoint has no table of tokens, such as model.embed_tokens.weight");
}

Result<void> check_out(const fs::path& folder, const fs::path& out, const ConvertOptions& options) {
  if (options.threads < 0 || options.threads > kQuantizeThreadsMax) {
    return fail(Code::kInvalidArgument, "{} threads were asked for; give 1 to {}, or 0 for one per core",
                options.threads, kQuantizeThreadsMax);
  }
  std::error_code missing;
  if (fs::is_directory(out, missing)) {
    return fail(Code::kInvalidArgument, "{} is a folder; give the name of a file, such as {}", out.string(),
                (out / fmt::format("{}.gguf", folder.filename().string())).string());
  }
  return {};
}

Result<ConvertReport> write_model(Conversion& conversion, const fs::path& folder, const fs::path& out,
                                  const ConvertOptions& options, QuantizeMix mix) {
  sort_tensors(conversion.tensors());
  CAIRN_TRY_VOID(check_tensors(conversion.tensors()));
  set_general_keys(conversion, folder, options, mix);
  CAIRN_TRY_VOID(conversion.config().status());
  const std::vector<TensorType> types = types_of(conversion.tensors(), mix);
  ConvertReport report;
  report.architecture = conversion.architecture();
  report.mix = mix;
  report.tensors = static_cast<int64_t>(types.size());
  for (size_t i = 0; i < types.size(); ++i) {
    const Rows& rows = *conversion.tensors()[i].rows;
    report.elements += rows.count() * rows.length();
    report.bytes += rows.count() * row_bytes(types[i], rows.length());
  }
  CAIRN_TRY(report.files, write_files(out, conversion, types, options));
  return report;
}

}  // namespace

Result<ConvertReport> convert_folder(const fs::path& folder, const fs::path& out, const ConvertOptions& options) {
  CAIRN_TRY_VOID(check_out(folder, out, options));
  CAIRN_TRY(nlohmann::json json, read_json_file(folder / "config.json", kJsonFileBytesMax));
  ModelConfig config(std::move(json), (folder / "config.json").string());
  CAIRN_TRY(const Family* family, family_of(config));
  CAIRN_TRY_VOID(check_quantization(config));
  CAIRN_TRY(const Checkpoint checkpoint, Checkpoint::open(folder));
  const std::string_view architecture = family->choose != nullptr ? family->choose(config) : family->architecture;
  Conversion conversion(std::move(config), checkpoint, std::string(architecture), folder);
  CAIRN_TRY_VOID(conversion.config().status());
  if (family->next_layers != nullptr) conversion.set_next_layers(family->next_layers(conversion));
  set_common_keys(conversion);
  if (family->keys != nullptr) family->keys(conversion);
  CAIRN_TRY_VOID(conversion.config().status());
  CAIRN_TRY(const SourceCounts counts, add_tensors(conversion, *family));
  CAIRN_TRY(const int64_t size, vocabulary_size(conversion));
  CAIRN_TRY(const TokenizerFiles files, TokenizerFiles::read(folder));
  CAIRN_TRY(const NewVocabulary vocabulary, read_vocabulary(files, *family, size, options.pre_tokenizer));
  CAIRN_TRY_VOID(set_vocabulary_keys(vocabulary, files, *family, conversion.config(), conversion.metadata()));
  CAIRN_TRY(ConvertReport report,
            write_model(conversion, folder, out, options, options.mix.value_or(lossless_mix(checkpoint))));
  report.left_out = counts.left_out;
  return report;
}

}  // namespace cairn::convert
