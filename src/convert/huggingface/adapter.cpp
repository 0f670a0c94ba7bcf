// LoRA adapters in PEFT's form, as the files that src/model/weights/lora.h describes.
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <system_error>
#include <utility>

#include "base/text/printable.h"
#include "convert/huggingface/convert.h"
#include "convert/huggingface/new_files.h"
#include "convert/huggingface/source_tensors.h"

namespace cairn::convert {
namespace {

namespace fs = std::filesystem;

// The name of the weight that a part of a product changes, and whether it is the second part.
struct AdapterName {
  std::string weight;
  bool second = false;
};

// "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight" is part one for
// "model.layers.0.self_attn.q_proj.weight". Empty if it is no such name.
AdapterName adapter_name(std::string_view name) {
  constexpr std::string_view kPrefix = "base_model.model.";
  if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
  struct Mark {
    std::string_view text;
    bool second;
  };
  constexpr Mark kMarks[] = {
      {".lora_A", false}, {".lora_embedding_A", false}, {".lora_B", true}, {".lora_embedding_B", true}};
  for (const auto& [mark, second] : kMarks) {
    const size_t at = name.find(mark);
    if (at == std::string_view::npos) continue;
    const std::string_view after = name.substr(at + mark.size());
    if (after.empty() || after == ".weight" || after == ".default.weight" || after == ".default")
      return {fmt::format("{}.weight", name.substr(0, at)), second};
  }
  return {};
}

struct Product {
  const StoredTensor* first = nullptr;
  const StoredTensor* second = nullptr;
};

Result<std::map<std::string, Product>> find_products(const Checkpoint& checkpoint) {
  std::map<std::string, Product> products;
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    const AdapterName part = adapter_name(name);
    if (part.weight.empty() || tensor.shape.size() != 2) {
      return fail_at(fmt::format("tensor {}", printable(name)), Code::kUnsupported,
                     "the adapter is more than low-rank products (lora_A and lora_B, matrices); only these can be "
                     "converted");
    }
    (part.second ? products[part.weight].second : products[part.weight].first) = &tensor;
  }
  if (products.empty()) return fail(Code::kCorruptFile, "the adapter has no tensors");
  return products;
}

// Changes the second part as the weight's own rows are changed: a family's rules see a matrix of its shape.
Result<void> add_product(Conversion& conversion, const Family& family, const std::string& weight,
                         const Product& product) {
  const std::string place = fmt::format("tensor {}", printable(weight));
  if (product.first == nullptr || product.second == nullptr) {
    return fail_at(place, Code::kCorruptFile, "one of lora_A and lora_B is missing");
  }
  const StoredTensor &a = *product.first, &b = *product.second;
  if (a.shape[0] != b.shape[1] || a.elements() == 0 || b.elements() == 0) {
    return fail_at(place, Code::kCorruptFile, "lora_A of {} rows and lora_B of {} columns are no product", a.shape[0],
                   b.shape[1]);
  }
  SourceTensor source = parse_tensor_name(weight);
  source.name = weight;
  source.shape = b.shape;
  source.rows = stored_rows(conversion.checkpoint(), b, b.shape[1]);
  std::vector<PlannedTensor>& tensors = conversion.tensors();
  const size_t before = tensors.size();
  const bool added = family.tensor != nullptr && family.tensor(conversion, source);
  CAIRN_TRY_VOID(conversion.config().status());
  const bool same_columns = source.columns() == b.shape[1] && source.rows->length() == b.shape[1];
  const std::string name = new_tensor_name(source, family.names);
  if (added || tensors.size() != before || !same_columns || name.empty() || source.expert >= 0) {
    tensors.resize(before);
    return fail_at(place, Code::kUnsupported,
                   "adapters of this weight cannot be converted: it is split, stacked or turned for the file");
  }
  const std::string whole = source.layer < 0 ? name : fmt::format("blk.{}.{}", source.layer, name);
  RowsPtr first = stored_rows(conversion.checkpoint(), a, a.shape[1]), second = source.rows;
  if (name == "token_embd.weight") {  // a table is looked up by rows: its first part is turned
    if (a.shape[1] > a.shape[0]) first = transposed(first, a.shape[0]);
  }
  const auto shape_of = [](const Rows& rows) { return std::vector<int64_t>{rows.length(), rows.count()}; };
  conversion.add(whole + ".lora_a", shape_of(*first), first);
  conversion.add(whole + ".lora_b", shape_of(*second), second);
  return {};
}

// Scaling by alpha / rank; with rsLoRA by alpha / sqrt(rank), which is another alpha.
Result<double> alpha_of(const ModelConfig& adapter) {
  if (adapter.text_or({"peft_type"}, "LORA") != "LORA" || adapter.boolean_or({"use_dora"}, false)) {
    return fail(Code::kUnsupported, "adapter_config.json: only plain LoRA can be converted, not {}{}",
                printable(adapter.text_or({"peft_type"}, "")),
                adapter.boolean_or({"use_dora"}, false) ? " with DoRA" : "");
  }
  for (const char* pattern : {"rank_pattern", "alpha_pattern"}) {
    const auto* own = adapter.find({pattern});
    if (own != nullptr && own->is_object() && !own->empty()) {
      return fail(Code::kUnsupported,
                  "adapter_config.json: \"{}\" gives tensors their own scales, which a file has no "
                  "place for",
                  pattern);
    }
  }
  const double alpha = adapter.number({"lora_alpha"});
  if (!adapter.boolean_or({"use_rslora"}, false)) return alpha;
  return alpha * std::sqrt(adapter.number({"r"}));
}

}  // namespace

bool is_adapter_folder(const fs::path& folder) {
  std::error_code missing;
  return fs::exists(folder / "adapter_config.json", missing);
}

Result<ConvertReport> convert_adapter(const fs::path& folder, const fs::path& base, const fs::path& out,
                                      const ConvertOptions& options) {
  CAIRN_TRY(nlohmann::json adapter_json, read_json_file(folder / "adapter_config.json", kJsonFileBytesMax));
  const ModelConfig adapter(std::move(adapter_json), (folder / "adapter_config.json").string());
  CAIRN_TRY(const double alpha, alpha_of(adapter));
  CAIRN_TRY(nlohmann::json json, read_json_file(base / "config.json", kJsonFileBytesMax));
  ModelConfig config(std::move(json), (base / "config.json").string());
  CAIRN_TRY(const Family* family, family_of(config));
  CAIRN_TRY(const Checkpoint checkpoint, Checkpoint::open(folder, "adapter_model"));
  const std::string_view architecture = family->choose != nullptr ? family->choose(config) : family->architecture;
  Conversion conversion(std::move(config), checkpoint, std::string(architecture), folder);
  NewMetadata& metadata = conversion.metadata();
  metadata.set("general.type", "adapter");
  metadata.set("general.name", options.name.empty() ? folder.filename().string() : options.name);
  metadata.set("adapter.type", "lora");
  metadata.set("adapter.lora.alpha", alpha);
  CAIRN_TRY(const auto products, find_products(checkpoint));
  for (const auto& [weight, product] : products) CAIRN_TRY_VOID(add_product(conversion, *family, weight, product));
  CAIRN_TRY_VOID(adapter.status());
  CAIRN_TRY_VOID(conversion.config().status());

  ConvertReport report;
  const QuantizeMix mix = options.mix.value_or(QuantizeMix::kF32);
  report.mix = mix == QuantizeMix::kF16 || mix == QuantizeMix::kBF16 ? mix : QuantizeMix::kF32;
  const TensorType type = file_type_main(quantize_mix_info(report.mix).name).value();
  metadata.set("general.file_type", static_cast<int64_t>(file_type_id(quantize_mix_info(report.mix).name).value()));
  report.architecture = conversion.architecture();
  report.tensors = static_cast<int64_t>(conversion.tensors().size());
  for (const PlannedTensor& tensor : conversion.tensors())
    report.elements += tensor.rows->count() * tensor.rows->length();
  report.bytes = row_bytes(type, report.elements);
  const std::vector<TensorType> types(conversion.tensors().size(), type);
  CAIRN_TRY(report.files, write_files(out, conversion, types, options));
  return report;
}

}  // namespace cairn::convert
