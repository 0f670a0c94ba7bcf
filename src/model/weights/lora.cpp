#include "model/weights/lora.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text/printable.h"

namespace cairn::model {
namespace {

Result<LoraAdapter> open_lora_adapter(const LoraFile& wanted, std::string_view architecture) {
  CAIRN_TRY(gguf::Reader file, gguf::Reader::open(wanted.path));
  const gguf::Metadata& keys = file.metadata();
  CAIRN_TRY(const std::string_view type, keys.string_or("general.type", "model"));
  if (type != "adapter") {
    return fail(Code::kInvalidArgument, "{} is no LoRA adapter: its general.type is \"{}\", not \"adapter\"",
                wanted.path, printable(type));
  }
  CAIRN_TRY(const std::string_view kind, keys.string("adapter.type"));
  if (kind != "lora" || keys.contains("adapter.alora.invocation_tokens")) {
    return fail(Code::kUnsupported, "{} is an adapter of kind \"{}\"; only plain LoRA adapters can be used",
                wanted.path, kind == "lora" ? "alora" : printable(kind));
  }
  CAIRN_TRY(const std::string_view other, keys.string("general.architecture"));
  if (other != architecture) {
    return fail(Code::kUnsupported, "{} is an adapter of architecture \"{}\", but the model's is \"{}\"", wanted.path,
                printable(other), architecture);
  }
  constexpr std::string_view kAlpha = "adapter.lora.alpha";
  double alpha = 0;
  if (keys.contains(kAlpha)) {
    CAIRN_TRY(alpha, keys.number(kAlpha));
  }
  if (!std::isfinite(alpha) || !std::isfinite(wanted.scale)) {
    return fail(Code::kInvalidArgument, "{}: alpha {} or the scale {} is no ordinary number", wanted.path, alpha,
                wanted.scale);
  }
  for (const gguf::Tensor& tensor : file.tensors()) {
    if (tensor.name.ends_with(".lora_a") || tensor.name.ends_with(".lora_b")) continue;
    return fail_at(fmt::format("tensor {}", printable(tensor.name)), Code::kUnsupported,
                   "{}: tensor {} is no part of a low-rank product (NAME.lora_a and NAME.lora_b)", wanted.path,
                   printable(tensor.name));
  }
  return LoraAdapter{wanted.path, wanted.scale, static_cast<float>(alpha), std::move(file)};
}

bool has_shape(const gguf::Tensor& tensor, int64_t cols, int64_t rows, int64_t experts) {
  const int64_t size[] = {cols, rows, experts, 1};
  for (size_t i = 0; i < std::size(size); ++i) {
    if ((i < tensor.shape.size() ? tensor.shape[i] : 1) != size[i]) return false;
  }
  return true;
}

}  // namespace

Result<LoraAdapter::Parts> LoraAdapter::find_parts(std::string_view tensor) const {
  const std::string name_a = fmt::format("{}.lora_a", tensor), name_b = fmt::format("{}.lora_b", tensor);
  const Parts parts{file.find_tensor(name_a), file.find_tensor(name_b)};
  if ((parts.a == nullptr) == (parts.b == nullptr)) return parts;
  const std::string& missing = parts.a == nullptr ? name_a : name_b;
  return fail_at("tensor " + missing, Code::kCorruptFile, "{}: tensor {} is missing", path, missing);
}

Result<LoraAdapter::Parts> LoraAdapter::find(std::string_view tensor, int64_t cols, int64_t rows,
                                             int64_t experts) const {
  CAIRN_TRY(const Parts parts, find_parts(tensor));
  if (parts.a == nullptr) return parts;
  const int64_t rank = parts.a->shape.size() < 2 ? 1 : parts.a->shape[1];
  const bool own_a = has_shape(*parts.a, cols, rank, experts), shared_a = has_shape(*parts.a, cols, rank, 1);
  const bool own_b = has_shape(*parts.b, rank, rows, experts), shared_b = has_shape(*parts.b, rank, rows, 1);
  const bool flat_b = has_shape(*parts.b, rank, rows * experts, 1);
  if ((own_a && (own_b || shared_b)) || (shared_a && (own_b || flat_b))) return parts;
  return fail_at(fmt::format("tensor {}", parts.a->name), Code::kCorruptFile,
                 "{}: tensors {} [{}] and {} [{}] are no product for a matrix of {} columns, {} rows{}", path,
                 parts.a->name, fmt::join(parts.a->shape, ", "), parts.b->name, fmt::join(parts.b->shape, ", "), cols,
                 rows, experts > 1 ? fmt::format(" and {} experts", experts) : "");
}

Result<LoraAdapter::Parts> LoraAdapter::find_of_table(std::string_view tensor, int64_t cols, int64_t rows) const {
  CAIRN_TRY(const Parts parts, find_parts(tensor));
  if (parts.a == nullptr) return parts;
  const int64_t rank = parts.b->shape[0];
  if (has_shape(*parts.a, rank, rows, 1) && has_shape(*parts.b, rank, cols, 1)) return parts;
  return fail_at(fmt::format("tensor {}", parts.a->name), Code::kCorruptFile,
                 "{}: tensors {} [{}] and {} [{}] are no product for a table of {} rows of {} elements, which has them "
                 "as [rank, rows] and [rank, elements]",
                 path, parts.a->name, fmt::join(parts.a->shape, ", "), parts.b->name, fmt::join(parts.b->shape, ", "),
                 rows, cols);
}

Result<std::vector<LoraAdapter>> open_lora_adapters(std::span<const LoraFile> files, std::string_view architecture) {
  if (std::ssize(files) > kLoraAdaptersMax) {
    return fail(Code::kInvalidArgument, "{} LoRA adapters are given; there may be {}", files.size(), kLoraAdaptersMax);
  }
  std::vector<LoraAdapter> adapters;
  for (const LoraFile& file : files) {
    CAIRN_TRY(LoraAdapter adapter, open_lora_adapter(file, architecture));
    adapters.push_back(std::move(adapter));
  }
  return adapters;
}

}  // namespace cairn::model
