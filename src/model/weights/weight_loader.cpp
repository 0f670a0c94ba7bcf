#include "model/weights/weight_loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/log.h"
#include "kernels/backend.h"
#include "model/weights/wanted_tensors.h"
#include "model/weights/weight_names.h"
#include "quant/codec.h"

namespace cairn::model {

namespace {

/// "[64, 128]", as tools print shapes: row length first.
std::string shape_text(std::span<const int64_t> shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

/// Trailing ones say nothing: a matrix of one row may be stored as a vector.
std::span<const int64_t> without_trailing_ones(std::span<const int64_t> shape) {
  while (shape.size() > 1 && shape.back() == 1) shape = shape.first(shape.size() - 1);
  return shape;
}

}  // namespace

Result<const gguf::Tensor*> WeightLoader::find(const std::string& name, TensorType wanted,
                                               std::span<const int64_t> shape) {
  if (options_.wanted != nullptr) return options_.wanted->add(name, wanted, shape);
  const gguf::Tensor* tensor = file_.find_tensor(name);
  const std::span<const int64_t> expected = without_trailing_ones(shape);
  if (tensor == nullptr) {
    return fail_at("tensor " + name, Code::kCorruptFile, "tensor {} of shape {} is missing", name,
                   shape_text(expected));
  }
  if (!std::ranges::equal(without_trailing_ones(tensor->shape), expected)) {
    return fail_at("tensor " + name, Code::kCorruptFile, "tensor {} has shape {}, but the metadata asks for {}", name,
                   shape_text(tensor->shape), shape_text(expected));
  }
  used_.insert(tensor);
  return tensor;
}

Result<Linear> WeightLoader::linear(std::string_view name, int64_t rows, int64_t cols) {
  return linear_rows(name, rows, cols, {0, rows});
}

Result<kernels::Weight> WeightLoader::lookup_table(std::string_view name, int64_t rows, int64_t cols) {
  CAIRN_TRY(const Linear table, linear(name, rows, cols));
  if (table.adapters.empty()) return table.weight;
  return fail_at(
      fmt::format("tensor {}.weight", name), Code::kUnsupported,
      "a LoRA adapter changes {}.weight, whose rows are looked up; of such tables token_embd.weight alone can "
      "be changed",
      name);
}

Result<Linear> WeightLoader::linear_without_scale(std::string_view name, int64_t rows, int64_t cols) {
  return matrix(name, {.rows = rows, .cols = cols}, {0, rows}, false);
}

Result<Linear> WeightLoader::linear_rows(std::string_view name, int64_t rows, int64_t cols, RowRange range) {
  return matrix(name, {.rows = rows, .cols = cols}, range);
}

Result<Linear> WeightLoader::experts(std::string_view name, int64_t experts, int64_t rows, int64_t cols) {
  const Shape shape{.rows = rows, .cols = cols, .experts = experts, .choices = options_.experts_used};
  return matrix(name, shape, {0, rows});
}

Result<Linear> WeightLoader::heads(std::string_view name, int64_t heads, int64_t rows, int64_t cols) {
  return matrix(name, {.rows = rows, .cols = cols, .experts = heads, .choices = heads}, {0, rows});
}

Result<Linear> WeightLoader::expert_rows(std::string_view name, int64_t experts, int64_t rows, int64_t cols,
                                         RowRange range) {
  const std::string weight_name = fmt::format("{}.weight", name);
  const int64_t sizes[] = {cols, rows, experts};
  CAIRN_TRY(const gguf::Tensor* tensor, find(weight_name, sizes));
  if (const std::string bias = fmt::format("{}.bias", name); has(bias)) {
    return fail_at("tensor " + bias, Code::kUnsupported,
                   "tensor {} is not supported: experts with biases have them apart", bias);
  }
  const Shape shape{.rows = rows, .cols = cols, .experts = experts, .choices = options_.experts_used};
  CAIRN_TRY(std::vector<float> factors, scales(name, experts));
  Linear linear;
  CAIRN_TRY(linear.adapters, low_rank(weight_name, shape, {&range, 1}));
  CAIRN_TRY(linear.weight, load_ranges(*tensor, shape, {&range, 1}, std::move(factors)));
  if (linear.weight.memory != nullptr) file_.release(*tensor);
  return linear;
}

Result<Linear> WeightLoader::linear_picked(std::string_view name, int64_t rows, int64_t cols,
                                           std::span<const RowRange> ranges) {
  const std::string weight_name = fmt::format("{}.weight", name);
  const int64_t sizes[] = {cols, rows};
  CAIRN_TRY(const gguf::Tensor* tensor, find(weight_name, sizes));
  if (const std::string bias = fmt::format("{}.bias", name); has(bias)) {
    return fail_at("tensor " + bias, Code::kUnsupported, "tensor {} is not supported: its matrix is taken apart", bias);
  }
  CAIRN_TRY(std::vector<float> factors, scales(name, 1));
  Linear linear;
  CAIRN_TRY(linear.adapters, low_rank(weight_name, {.rows = rows, .cols = cols}, ranges));
  CAIRN_TRY(linear.weight, load_ranges(*tensor, {.rows = rows, .cols = cols}, ranges, std::move(factors)));
  return linear;
}

Result<Linear> WeightLoader::stacked(std::string_view name, int64_t experts, int64_t rows, int64_t cols) {
  const std::string weight_name = fmt::format("{}.weight", name);
  const gguf::Tensor* tensor = file_.find_tensor(weight_name);
  if (tensor == nullptr || tensor->shape.size() != 2) return heads(name, experts, rows, cols);
  const int64_t sizes[] = {cols, rows * experts};
  CAIRN_TRY(tensor, find(weight_name, sizes));
  return bind_adapted(name, *tensor, {.rows = rows, .cols = cols, .experts = experts, .choices = experts}, {0, rows});
}

Result<Linear> WeightLoader::matrix(std::string_view name, const Shape& shape, RowRange range, bool has_scales) {
  const int64_t sizes[] = {shape.cols, shape.rows, shape.experts};
  const auto dimensions = std::span(sizes).first(shape.experts > 1 ? 3 : 2);
  CAIRN_TRY(const gguf::Tensor* tensor, find(fmt::format("{}.weight", name), dimensions));
  return bind_adapted(name, *tensor, shape, range, has_scales);
}

Result<Linear> WeightLoader::bind_adapted(std::string_view name, const gguf::Tensor& tensor, const Shape& shape,
                                          RowRange range, bool has_scales) {
  CAIRN_TRY(Linear linear, bind(name, tensor, shape, range, has_scales));
  CAIRN_TRY(linear.adapters, low_rank(fmt::format("{}.weight", name), shape, {&range, 1}));
  return linear;
}

Result<Linear> WeightLoader::bind(std::string_view name, const gguf::Tensor& tensor, const Shape& shape, RowRange range,
                                  bool has_scales) {
  const std::string weight_name = fmt::format("{}.weight", name);
  CAIRN_TRY_VOID(check_supported(tensor));
  kernels::HostMatrix host{tensor.type,         range.rows,        shape.cols, shape.experts,
                           tensor.bytes.data(), options_.in_place, {}};
  if (host.data != nullptr) host.data += range.begin * row_bytes(tensor.type, shape.cols);
  // Parts of one tensor have names of their own.
  const std::string copy_name = range.rows == shape.rows ? weight_name : fmt::format("{}@{}", weight_name, range.begin);
  if (options_.pack_cache != nullptr) host.copy = options_.pack_cache->find(copy_name);
  if (has_scales) {
    CAIRN_TRY(host.scales, scales(name, shape.experts));
  }
  Linear linear;
  if (wants(backend_.load_bytes(host))) {
    CAIRN_TRY(linear.weight, backend_.load(host));
    note_name(linear.weight, weight_name);
  } else {
    linear.weight = {.type = host.type, .rows = host.rows, .cols = host.cols, .experts = host.experts, .memory = {}};
  }
  if (linear.weight.memory == nullptr && !options_.counts_only) {
    const bool cached = !host.copy.empty() && linear.weight.data == host.copy.data();
    (cached ? *options_.pack_cache->file() : file_).use_in_place();
    if (options_.warm && !cached) file_.warm(tensor);  // all of a pack cache has been read, for its checksums
  }
  if (linear.weight.memory != nullptr) {
    file_.release(tensor);
    if (options_.pack_cache != nullptr) options_.pack_cache->add(copy_name, linear.weight.memory);
  }

  const std::string bias_name = fmt::format("{}.bias", name);
  if (!has(bias_name)) return linear;
  const int64_t bias_shape[] = {shape.rows, shape.experts};
  CAIRN_TRY(const gguf::Tensor* bias, find(bias_name, bias_shape));
  CAIRN_TRY(linear.bias, floats(*bias, {range.begin, range.rows * shape.experts}));
  return linear;
}

Result<kernels::Weight> WeightLoader::load_ranges(const gguf::Tensor& tensor, const Shape& shape,
                                                  std::span<const RowRange> ranges, std::vector<float> scales) {
  CAIRN_TRY_VOID(check_supported(tensor));
  kernels::HostMatrix host{
      .type = tensor.type, .cols = shape.cols, .experts = shape.experts, .in_place = options_.in_place};
  host.scales = std::move(scales);
  for (const RowRange& range : ranges) host.rows += range.rows;
  if (!wants(backend_.load_bytes(host)))
    return kernels::Weight{
        .type = host.type, .rows = host.rows, .cols = host.cols, .experts = host.experts, .memory = {}};
  const int64_t row = row_bytes(tensor.type, shape.cols);
  std::vector<std::byte> bytes;
  bytes.reserve(shape.experts * host.rows * row);
  for (int64_t e = 0; e < shape.experts; ++e) {
    for (const RowRange& range : ranges) {
      const auto part = tensor.bytes.subspan((e * shape.rows + range.begin) * row, range.rows * row);
      bytes.insert(bytes.end(), part.begin(), part.end());
    }
  }
  CAIRN_TRY(kernels::Weight weight, load_copy(std::move(host), bytes));
  note_name(weight, tensor.name);
  return weight;
}

Result<std::vector<float>> WeightLoader::scales(std::string_view name, int64_t experts) {
  // For processors that multiply activations of four bits.
  mark_used(fmt::format("{}.input_scale", name));
  const std::string scale_name = fmt::format("{}.scale", name);
  if (!has(scale_name)) return std::vector<float>();
  const int64_t shape[] = {experts};
  CAIRN_TRY(const gguf::Tensor* tensor, find(scale_name, shape));
  CAIRN_TRY_VOID(check_decodable(*tensor));
  if (options_.counts_only) return std::vector<float>(experts);
  return decoded(*tensor);
}

Result<kernels::Buffer> WeightLoader::vector(std::string_view tensor_name, int64_t size, float factor) {
  const int64_t shape[] = {size};
  CAIRN_TRY(const gguf::Tensor* tensor, find(std::string(tensor_name), shape));
  return floats(*tensor, {0, size}, factor);
}

Result<kernels::Buffer> WeightLoader::table(std::string_view tensor_name, int64_t rows, int64_t cols) {
  const int64_t shape[] = {cols, rows};
  CAIRN_TRY(const gguf::Tensor* tensor, find(std::string(tensor_name), shape));
  return floats(*tensor, {0, rows * cols});
}

Result<kernels::Buffer> WeightLoader::turned_table(std::string_view tensor_name, int64_t rows, int64_t cols) {
  const std::string name(tensor_name);
  return turned_tables({&name, 1}, rows, cols);
}

Result<kernels::Buffer> WeightLoader::turned_tables(std::span<const std::string> tensors, int64_t rows, int64_t cols) {
  std::vector<const gguf::Tensor*> found;
  for (const std::string& name : tensors) {
    const gguf::Tensor* tensor = file_.find_tensor(name);
    const bool is_convolution = tensor != nullptr && tensor->shape.size() > 2 && tensor->shape[1] == 1;
    const std::vector<int64_t> shape = is_convolution ? std::vector{cols, int64_t{1}, rows} : std::vector{cols, rows};
    CAIRN_TRY(tensor, find(name, shape));
    CAIRN_TRY_VOID(check_decodable(*tensor));
    found.push_back(tensor);
  }
  const int64_t width = std::ssize(found) * rows;
  const int64_t bytes = width * cols * static_cast<int64_t>(sizeof(float));
  if (!wants(bytes)) return kernels::Buffer();
  std::vector<float> turned(width * cols);
  for (int64_t table = 0; table < std::ssize(found); ++table) {
    CAIRN_TRY(const std::vector<float> values, decoded(*found[table]));
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t col = 0; col < cols; ++col) turned[col * width + table * rows + row] = values[row * cols + col];
    }
  }
  CAIRN_TRY(kernels::Buffer buffer, backend_.allocate(bytes));
  backend_.write(turned.data(), bytes, buffer.data());
  return buffer;
}

Result<std::vector<int32_t>> WeightLoader::numbers(const std::string& name, int64_t rows, int64_t cols) {
  const int64_t shape[] = {cols, rows};
  CAIRN_TRY(const gguf::Tensor* tensor, find(name, TensorType::kI32, shape));
  if (tensor->type != TensorType::kI32) {
    return fail_at("tensor " + name, Code::kCorruptFile, "tensor {} is of type {}, but it should be I32", name,
                   tensor_type_name(tensor->type));
  }
  std::vector<int32_t> numbers;
  if (!wants(rows * cols * static_cast<int64_t>(sizeof(int32_t)))) return numbers;
  numbers.resize(rows * cols);
  std::memcpy(numbers.data(), tensor->bytes.data(), tensor->bytes.size());
  return numbers;
}

Result<std::vector<float>> WeightLoader::values(std::string_view name, int64_t rows, int64_t cols) {
  const int64_t shape[] = {cols, rows};
  CAIRN_TRY(const gguf::Tensor* tensor, find(fmt::format("{}.weight", name), shape));
  CAIRN_TRY_VOID(check_decodable(*tensor));
  CAIRN_TRY(const std::vector<float> factors, scales(name, 1));
  if (options_.counts_only) return std::vector<float>();
  CAIRN_TRY(std::vector<float> values, decoded(*tensor));
  for (size_t i = 0; i < values.size() && !factors.empty(); ++i) values[i] *= factors[0];
  return values;
}

Result<RowTable> WeightLoader::row_table(std::string_view name, int64_t rows, int64_t cols) {
  const int64_t shape[] = {cols, rows};
  CAIRN_TRY(const gguf::Tensor* tensor, find(fmt::format("{}.weight", name), shape));
  CAIRN_TRY_VOID(check_decodable(*tensor));
  if (!options_.counts_only) file_.use_in_place();
  return RowTable(*tensor);
}

Result<Linear> WeightLoader::made_heads(std::string_view name, int64_t heads, int64_t rows, int64_t cols,
                                        const Fill& fill) {
  const Shape shape{.rows = rows, .cols = cols, .experts = heads, .choices = heads};
  const RowRange all{0, rows};
  Linear linear;
  CAIRN_TRY(linear.adapters, low_rank(fmt::format("{}.weight", name), shape, {&all, 1}));
  CAIRN_TRY(linear.weight, load_made(shape, fill));
  return linear;
}

Result<kernels::Weight> WeightLoader::load_made(const Shape& shape, const Fill& fill) {
  kernels::HostMatrix host{.type = TensorType::kF32, .rows = shape.rows, .cols = shape.cols, .experts = shape.experts};
  if (!wants(backend_.load_bytes(host)))
    return kernels::Weight{
        .type = host.type, .rows = host.rows, .cols = host.cols, .experts = host.experts, .memory = {}};
  std::vector<float> values(shape.experts * shape.rows * shape.cols);
  fill(values);
  return load_copy(std::move(host), std::as_bytes(std::span(values)));
}

Result<kernels::Weight> WeightLoader::load_copy(kernels::HostMatrix host, std::span<const std::byte> bytes) {
  host.data = bytes.data();
  CAIRN_TRY(kernels::Weight weight, backend_.load(host));
  if (weight.memory != nullptr) return weight;
  // Used in place, so it needs one: only a backend whose memory is the host's does so.
  CAIRN_TRY(kernels::Buffer buffer, backend_.allocate(std::ssize(bytes)));
  backend_.write(bytes.data(), std::ssize(bytes), buffer.data());
  weight.memory = std::make_shared<kernels::Buffer>(std::move(buffer));
  host.data = static_cast<const std::byte*>(weight.memory->data());
  CAIRN_TRY(const kernels::Weight placed, backend_.load(host));
  weight.data = placed.data;
  return weight;
}

void WeightLoader::note_name(const kernels::Weight& weight, std::string_view tensor) const {
  if (options_.weight_names != nullptr) options_.weight_names->add(weight, tensor);
}

Result<void> WeightLoader::check_supported(const gguf::Tensor& tensor) const {
  if (backend_.supports(tensor.type)) return {};
  std::string known;
  for (const TensorTypeInfo& info : tensor_types()) {
    if (backend_.supports(info.type)) known += fmt::format("{}{}", known.empty() ? "" : ", ", info.name);
  }
  return fail_at(fmt::format("tensor {}", tensor.name), Code::kUnsupported,
                 "tensor {} is of type {}, for which there is no matrix product here; there is for {}", tensor.name,
                 tensor_type_name(tensor.type), known);
}

Result<void> WeightLoader::check_decodable(const gguf::Tensor& tensor) {
  if (quant::can_decode(tensor.type)) return {};
  return fail_at(fmt::format("tensor {}", tensor.name), Code::kUnsupported,
                 "tensor {} is of type {}, but it should be F32", tensor.name, tensor_type_name(tensor.type));
}

Result<std::vector<float>> WeightLoader::decoded(const gguf::Tensor& tensor) {
  CAIRN_TRY_VOID(check_decodable(tensor));
  std::vector<float> values(tensor.elements());
  quant::decode_row(tensor.type, tensor.bytes, values);
  return values;
}

Result<kernels::Buffer> WeightLoader::floats(const gguf::Tensor& tensor, RowRange range, float factor) {
  const int64_t bytes = range.rows * static_cast<int64_t>(sizeof(float));
  CAIRN_TRY_VOID(check_decodable(tensor));
  if (!wants(bytes)) return kernels::Buffer();
  CAIRN_TRY(std::vector<float> values, decoded(tensor));
  for (float& value : values) value *= factor;
  CAIRN_TRY(kernels::Buffer buffer, backend_.allocate(bytes));
  backend_.write(values.data() + range.begin, bytes, buffer.data());
  return buffer;
}

void WeightLoader::mark_used(std::string_view name) {
  if (const gguf::Tensor* tensor = file_.find_tensor(name)) used_.insert(tensor);
}

void WeightLoader::mark_used(const WeightLoader& other) { used_.insert(other.used_.begin(), other.used_.end()); }

void WeightLoader::warn_of_unused() const {
  std::string names;
  size_t unused = 0;
  constexpr size_t kNamedMax = 4;
  for (const gguf::Tensor& tensor : file_.tensors()) {
    if (used_.contains(&tensor)) continue;
    if (++unused <= kNamedMax) names += fmt::format("{}{}", names.empty() ? "" : ", ", tensor.name);
  }
  if (unused == 0) return;
  log_warning("{} tensors of the file are not used: {}{}", unused, names, unused > kNamedMax ? ", ..." : "");
}

}  // namespace cairn::model
