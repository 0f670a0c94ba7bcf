#include "model/weights/weight_loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/log.h"
#include "quant/codec.h"

namespace cairn {

namespace {

/// "[64, 128]", as tools print shapes: row length first.
std::string shape_text(std::span<const int64_t> shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

/// Trailing ones say nothing: a matrix of one row may be stored as a vector.
std::span<const int64_t> without_trailing_ones(std::span<const int64_t> shape) {
  while (shape.size() > 1 && shape.back() == 1) shape = shape.first(shape.size() - 1);
  return shape;
}

}  // namespace

Result<const gguf::Tensor*> WeightLoader::find(const std::string& name, std::span<const int64_t> shape) {
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
  return matrix(name, 1, rows, cols, {0, rows});
}

Result<Weight> WeightLoader::lookup_table(std::string_view name, int64_t rows, int64_t cols) {
  CAIRN_TRY(const Linear table, linear(name, rows, cols));
  if (table.adapters.empty()) return table.weight;
  return fail_at(fmt::format("tensor {}.weight", name), Code::kUnsupported,
                 "a LoRA adapter changes {}.weight, whose rows are looked up; only matrices of products can be changed",
                 name);
}

Result<Linear> WeightLoader::linear_without_scale(std::string_view name, int64_t rows, int64_t cols) {
  const int64_t shape[] = {cols, rows};
  CAIRN_TRY(const gguf::Tensor* tensor, find(fmt::format("{}.weight", name), shape));
  return bind(name, *tensor, 1, rows, cols, {0, rows}, false);
}

Result<Linear> WeightLoader::linear_rows(std::string_view name, int64_t rows, int64_t cols, RowRange range) {
  return matrix(name, 1, rows, cols, range);
}

Result<Linear> WeightLoader::experts(std::string_view name, int64_t experts, int64_t rows, int64_t cols) {
  return matrix(name, experts, rows, cols, {0, rows});
}

Result<Linear> WeightLoader::expert_rows(std::string_view name, int64_t experts, int64_t rows, int64_t cols,
                                         RowRange range) {
  const std::string weight_name = fmt::format("{}.weight", name);
  const int64_t shape[] = {cols, rows, experts};
  CAIRN_TRY(const gguf::Tensor* tensor, find(weight_name, shape));
  CAIRN_TRY_VOID(check_supported(*tensor));
  if (const std::string bias = fmt::format("{}.bias", name); has(bias)) {
    return fail_at("tensor " + bias, Code::kUnsupported,
                   "tensor {} is not supported: experts with biases have them apart", bias);
  }
  HostMatrix host{tensor->type, range.rows, cols, experts, nullptr, options_.in_place, {}};
  CAIRN_TRY(host.scales, scales(name, experts));
  Linear linear;
  CAIRN_TRY(linear.adapters, low_rank(weight_name, experts, rows, cols, range));
  if (!wants(backend_.load_bytes(host))) {
    linear.weight = {.type = host.type, .rows = host.rows, .cols = cols, .experts = experts, .memory = {}};
    return linear;
  }
  const int64_t row = row_bytes(tensor->type, cols);
  std::vector<std::byte> bytes;
  bytes.reserve(experts * range.rows * row);
  for (int64_t e = 0; e < experts; ++e) {
    const auto part = tensor->bytes.subspan((e * rows + range.begin) * row, range.rows * row);
    bytes.insert(bytes.end(), part.begin(), part.end());
  }
  CAIRN_TRY(linear.weight, load_copy(host, bytes));
  file_.release(*tensor);
  return linear;
}

Result<Linear> WeightLoader::linear_picked(std::string_view name, int64_t rows, int64_t cols,
                                           std::span<const RowRange> ranges) {
  const std::string weight_name = fmt::format("{}.weight", name);
  const int64_t shape[] = {cols, rows};
  CAIRN_TRY(const gguf::Tensor* tensor, find(weight_name, shape));
  CAIRN_TRY_VOID(check_supported(*tensor));
  if (const std::string bias = fmt::format("{}.bias", name); has(bias)) {
    return fail_at("tensor " + bias, Code::kUnsupported, "tensor {} is not supported: its matrix is taken apart", bias);
  }
  HostMatrix host{tensor->type, 0, cols, 1, nullptr, options_.in_place, {}};
  for (const RowRange& range : ranges) host.rows += range.rows;
  CAIRN_TRY(host.scales, scales(name, 1));
  Linear linear;
  if (!wants(backend_.load_bytes(host))) {
    linear.weight = {.type = host.type, .rows = host.rows, .cols = cols, .experts = 1, .memory = {}};
    return linear;
  }
  const int64_t row = row_bytes(tensor->type, cols);
  std::vector<std::byte> bytes;
  bytes.reserve(host.rows * row);
  for (const RowRange& range : ranges) {
    const auto part = tensor->bytes.subspan(range.begin * row, range.rows * row);
    bytes.insert(bytes.end(), part.begin(), part.end());
  }
  CAIRN_TRY(linear.weight, load_copy(host, bytes));
  return linear;
}

Result<Linear> WeightLoader::stacked(std::string_view name, int64_t experts, int64_t rows, int64_t cols) {
  const std::string weight_name = fmt::format("{}.weight", name);
  const gguf::Tensor* tensor = file_.find_tensor(weight_name);
  if (tensor == nullptr || tensor->shape.size() != 2) return this->experts(name, experts, rows, cols);
  const int64_t shape[] = {cols, rows * experts};
  CAIRN_TRY(tensor, find(weight_name, shape));
  return bind(name, *tensor, experts, rows, cols, {0, rows});
}

Result<Linear> WeightLoader::matrix(std::string_view name, int64_t experts, int64_t rows, int64_t cols,
                                    RowRange range) {
  const int64_t shape[] = {cols, rows, experts};
  CAIRN_TRY(const gguf::Tensor* tensor, find(fmt::format("{}.weight", name), shape));
  return bind(name, *tensor, experts, rows, cols, range);
}

Result<Linear> WeightLoader::bind(std::string_view name, const gguf::Tensor& tensor, int64_t experts, int64_t rows,
                                  int64_t cols, RowRange range, bool has_scales) {
  const std::string weight_name = fmt::format("{}.weight", name);
  CAIRN_TRY_VOID(check_supported(tensor));
  HostMatrix host{tensor.type, range.rows, cols, experts, tensor.bytes.data(), options_.in_place, {}};
  host.data += range.begin * row_bytes(tensor.type, cols);
  // Parts of one tensor have names of their own.
  const std::string copy_name = range.rows == rows ? weight_name : fmt::format("{}@{}", weight_name, range.begin);
  if (options_.pack_cache != nullptr) host.copy = options_.pack_cache->find(copy_name);
  if (has_scales) {
    CAIRN_TRY(host.scales, scales(name, experts));
  }
  Linear linear;
  CAIRN_TRY(linear.adapters, low_rank(weight_name, experts, rows, cols, range));
  if (wants(backend_.load_bytes(host))) {
    CAIRN_TRY(linear.weight, backend_.load(host));
  } else {
    linear.weight = {.type = host.type, .rows = host.rows, .cols = host.cols, .experts = host.experts, .memory = {}};
  }
  if (linear.weight.memory == nullptr && !options_.counts_only) {
    const bool cached = !host.copy.empty() && linear.weight.data == host.copy.data();
    (cached ? *options_.pack_cache->file() : file_).use_in_place();
  }
  if (linear.weight.memory != nullptr) {
    file_.release(tensor);
    if (options_.pack_cache != nullptr) options_.pack_cache->add(copy_name, linear.weight.memory);
  }

  const std::string bias_name = fmt::format("{}.bias", name);
  if (!has(bias_name)) return linear;
  const int64_t bias_shape[] = {rows, experts};
  CAIRN_TRY(const gguf::Tensor* bias, find(bias_name, bias_shape));
  CAIRN_TRY(linear.bias, floats(*bias, {range.begin, range.rows * experts}));
  return linear;
}

Result<std::vector<LowRank>> WeightLoader::low_rank(std::string_view tensor, int64_t experts, int64_t rows,
                                                    int64_t cols, RowRange range) {
  std::vector<LowRank> found;
  for (size_t i = 0; i < options_.adapters.size(); ++i) {
    const LoraAdapter& adapter = options_.adapters[i];
    CAIRN_TRY(const LoraAdapter::Parts parts, adapter.find(tensor, cols, rows, experts));
    if (parts.a == nullptr) continue;
    used_.insert({parts.a, parts.b});
    const int64_t rank = parts.b->shape[0];
    LowRank& product = found.emplace_back();
    CAIRN_TRY(product.a, load_part(*parts.a, experts, rank, cols, {0, rank}));
    CAIRN_TRY(product.b, load_part(*parts.b, experts, rows, rank, range));
    product.adapter = static_cast<int32_t>(i);
    product.scale = adapter.alpha / static_cast<float>(rank);
    product.scratch = scratch_;
    rank_max_ = std::max(rank_max_, rank);
    adapted_rows_max_ = std::max(adapted_rows_max_, range.rows);
  }
  return found;
}

Result<Weight> WeightLoader::load_part(const gguf::Tensor& tensor, int64_t experts, int64_t rows, int64_t cols,
                                       RowRange range) {
  CAIRN_TRY_VOID(check_supported(tensor));
  const HostMatrix host{.type = tensor.type, .rows = range.rows, .cols = cols, .experts = experts};
  if (!wants(backend_.load_bytes(host)))
    return Weight{.type = host.type, .rows = host.rows, .cols = cols, .experts = experts, .memory = {}};
  const int64_t row = row_bytes(tensor.type, cols);
  std::vector<std::byte> bytes;
  bytes.reserve(experts * range.rows * row);
  for (int64_t e = 0; e < experts; ++e) {
    const auto part = tensor.bytes.subspan((e * rows + range.begin) * row, range.rows * row);
    bytes.insert(bytes.end(), part.begin(), part.end());
  }
  return load_copy(host, bytes);
}

Result<void> WeightLoader::check_adapters() const {
  for (const LoraAdapter& adapter : options_.adapters) {
    for (const gguf::Tensor& tensor : adapter.file.tensors()) {
      if (used_.contains(&tensor)) continue;
      return fail_at(fmt::format("tensor {}", tensor.name), Code::kUnsupported,
                     "{}: tensor {} belongs to no matrix of this model that an adapter can change", adapter.path,
                     tensor.name);
    }
  }
  return {};
}

Result<void> WeightLoader::allocate_adapters() {
  const int64_t row = options_.adapter_rows * static_cast<int64_t>(sizeof(float));
  if (rank_max_ == 0) return {};
  // What B multiplies may be longer than every input of the model's own products.
  WorkspaceSizes sizes;
  sizes.inputs.push_back({options_.adapter_rows, rank_max_});
  if (!wants(row * (rank_max_ + adapted_rows_max_) + backend_.workspace_bytes(sizes))) return {};
  CAIRN_TRY_VOID(backend_.reserve(sizes));
  CAIRN_TRY(scratch_->low, backend_.allocate(row * rank_max_));
  CAIRN_TRY(scratch_->added, backend_.allocate(row * adapted_rows_max_));
  std::vector<float> scales;
  for (const LoraAdapter& adapter : options_.adapters) scales.push_back(adapter.scale);
  scratch_->rows.reserve(scales, options_.adapter_rows);
  return {};
}

Result<std::vector<float>> WeightLoader::scales(std::string_view name, int64_t experts) {
  // For processors that multiply activations of four bits.
  mark_used(fmt::format("{}.input_scale", name));
  const std::string scale_name = fmt::format("{}.scale", name);
  if (!has(scale_name)) return std::vector<float>();
  const int64_t shape[] = {experts};
  CAIRN_TRY(const gguf::Tensor* tensor, find(scale_name, shape));
  return decoded(*tensor);
}

Result<Buffer> WeightLoader::vector(std::string_view tensor_name, int64_t size, float factor) {
  const int64_t shape[] = {size};
  CAIRN_TRY(const gguf::Tensor* tensor, find(std::string(tensor_name), shape));
  return floats(*tensor, {0, size}, factor);
}

Result<Norm> WeightLoader::norm(std::string_view name, int64_t cols, bool biased) {
  Norm norm;
  CAIRN_TRY(norm.weight, vector(fmt::format("{}.weight", name), cols));
  if (biased) {
    CAIRN_TRY(norm.bias, vector(fmt::format("{}.bias", name), cols));
  }
  return norm;
}

Result<Buffer> WeightLoader::table(std::string_view tensor_name, int64_t rows, int64_t cols) {
  const int64_t shape[] = {cols, rows};
  CAIRN_TRY(const gguf::Tensor* tensor, find(std::string(tensor_name), shape));
  return floats(*tensor, {0, rows * cols});
}

Result<Buffer> WeightLoader::turned_table(std::string_view tensor_name, int64_t rows, int64_t cols) {
  const std::string name(tensor_name);
  return turned_tables({&name, 1}, rows, cols);
}

Result<Buffer> WeightLoader::turned_tables(std::span<const std::string> tensors, int64_t rows, int64_t cols) {
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
  if (!wants(bytes)) return Buffer();
  std::vector<float> turned(width * cols);
  for (int64_t table = 0; table < std::ssize(found); ++table) {
    CAIRN_TRY(const std::vector<float> values, decoded(*found[table]));
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t col = 0; col < cols; ++col) turned[col * width + table * rows + row] = values[row * cols + col];
    }
  }
  CAIRN_TRY(Buffer buffer, backend_.allocate(bytes));
  backend_.write(turned.data(), bytes, buffer.data());
  return buffer;
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

Result<Linear> WeightLoader::made(int64_t experts, int64_t rows, int64_t cols,
                                  const std::function<void(std::span<float>)>& fill) {
  HostMatrix host{.type = TensorType::kF32, .rows = rows, .cols = cols, .experts = experts};
  Linear linear;
  if (!wants(backend_.load_bytes(host))) {
    linear.weight = {.type = host.type, .rows = rows, .cols = cols, .experts = experts, .memory = {}};
    return linear;
  }
  std::vector<float> values(experts * rows * cols);
  fill(values);
  CAIRN_TRY(linear.weight, load_copy(host, std::as_bytes(std::span(values))));
  return linear;
}

Result<Weight> WeightLoader::load_copy(HostMatrix host, std::span<const std::byte> bytes) {
  host.data = bytes.data();
  CAIRN_TRY(Weight weight, backend_.load(host));
  if (weight.memory != nullptr) return weight;
  // Used in place, so it needs one: only a backend whose memory is the host's does so.
  CAIRN_TRY(Buffer buffer, backend_.allocate(std::ssize(bytes)));
  backend_.write(bytes.data(), std::ssize(bytes), buffer.data());
  weight.memory = std::make_shared<Buffer>(std::move(buffer));
  host.data = static_cast<const std::byte*>(weight.memory->data());
  CAIRN_TRY(const Weight placed, backend_.load(host));
  weight.data = placed.data;
  return weight;
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
  if (can_decode(tensor.type)) return {};
  return fail_at(fmt::format("tensor {}", tensor.name), Code::kUnsupported,
                 "tensor {} is of type {}, but it should be F32", tensor.name, tensor_type_name(tensor.type));
}

Result<std::vector<float>> WeightLoader::decoded(const gguf::Tensor& tensor) {
  CAIRN_TRY_VOID(check_decodable(tensor));
  std::vector<float> values(tensor.elements());
  decode_row(tensor.type, tensor.bytes, values);
  return values;
}

Result<Buffer> WeightLoader::floats(const gguf::Tensor& tensor, RowRange range, float factor) {
  const int64_t bytes = range.rows * static_cast<int64_t>(sizeof(float));
  CAIRN_TRY_VOID(check_decodable(tensor));
  if (!wants(bytes)) return Buffer();
  CAIRN_TRY(std::vector<float> values, decoded(tensor));
  for (float& value : values) value *= factor;
  CAIRN_TRY(Buffer buffer, backend_.allocate(bytes));
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

}  // namespace cairn
