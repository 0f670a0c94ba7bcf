#include "synth/synth.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <system_error>
#include <utility>

#include "base/hash.h"
#include "base/system/machine.h"
#include "base/system/thread_pool.h"
#include "convert/quantize.h"
#include "gguf/parse.h"
#include "gguf/writer.h"
#include "synth/vocabulary.h"
#include "synth/weights.h"

namespace cairn::synth {
namespace {

constexpr std::string_view kTypeDefault = "F16";
// general.quantization_version of the block formats that quant/ knows.
constexpr int64_t kQuantizationVersion = 2;

// Elements that are generated from one seed: whole blocks of every type, small enough for a core's cache.
constexpr int64_t kPieceElements = 16'384;
// Elements between two writes: bounds memory (F32: 32 MiB) and keeps threads busy.
constexpr int64_t kSlabElements = 512 * kPieceElements;

struct Spread {
  float deviation;
  float mean;
};

Spread spread_of(const TensorPlan& tensor) {
  switch (tensor.role) {
    case Role::kNorm:
      return {.deviation = 0.05f, .mean = 1};
    case Role::kBias:
      return {.deviation = 0.1f, .mean = 0};
    case Role::kMixScale:
      return {.deviation = 0.05f, .mean = 0.5f};
    case Role::kRate:
      return {.deviation = 0.05f, .mean = -0.5f};
    case Role::kMatrix:
    case Role::kTable:
    case Role::kExpertIds:
    case Role::kRopeFactors:
      break;
  }
  return {.deviation = 1 / std::sqrt(static_cast<float>(tensor.shape[0])), .mean = 0};
}

void write_keys(const Shape& shape, std::string_view type, gguf::Writer& writer) {
  using gguf::ValueType;
  writer.set("general.architecture", shape.architecture());
  writer.set("general.type", "model");
  writer.set("general.name", shape.name());
  if (const auto mix = convert::quantize_mix_named(type)) {
    writer.set_integer("general.file_type", ValueType::kU32,
                       file_type_id(convert::quantize_mix_info(*mix).name).value());
  }
  writer.set_integer("general.quantization_version", ValueType::kU32, kQuantizationVersion);
  const ShapeMetadata metadata = shape.metadata();
  for (const auto& [key, value] : metadata.values) writer.set(key, value);
}

Result<void> check_space(const std::filesystem::path& path, int64_t bytes) {
  std::error_code unknown;  // ignored here, as writing will fail
  const auto folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  const auto space = std::filesystem::space(folder, unknown);
  if (unknown || space.available >= static_cast<uint64_t>(bytes)) return {};
  return fail(Code::kIo, "the model takes {} bytes, and {} has room for {}; choose another folder or fewer layers",
              bytes, folder.string(), space.available);
}

// State of write() while it generates the tensors.
class Job {
 public:
  Job(const Plan& plan, const Options& options, int threads, gguf::Writer& writer)
      : plan_(plan), options_(options), pool_(threads), writer_(writer) {}

  Result<void> run() {
    for (const TensorPlan& tensor : plan_.tensors) writer_.declare(tensor.name, tensor.type, tensor.shape);
    for (size_t i = 0; i < plan_.tensors.size(); ++i) {
      const bool is_factors = plan_.tensors[i].role == Role::kRopeFactors;
      if (options_.hollow && !is_factors) break;  // zeros are no factors, which are the first tensor
      CAIRN_TRY_VOID(is_factors ? write_rope_factors(i) : write_tensor(i));
    }
    if (options_.hollow) CAIRN_TRY_VOID(writer_.skip_rest());
    return writer_.finish();
  }

 private:
  Result<void> write_rope_factors(size_t index) {
    constexpr float kStill = 1e30f;
    std::vector<float> factors(static_cast<size_t>(plan_.tensors[index].elements()), kStill);
    std::fill_n(factors.begin(), factors.size() / 4, 1.0f);
    CAIRN_TRY_VOID(writer_.write(std::as_bytes(std::span(factors))));
    done_ += plan_.tensors[index].bytes;
    notify(index);
    return {};
  }

  Result<void> write_tensor(size_t index) {
    const TensorPlan& tensor = plan_.tensors[index];
    const uint64_t seed = hash64(tensor.name, options_.seed);
    const int64_t elements = tensor.elements();
    const Spread spread = spread_of(tensor);
    const bool is_ids = tensor.role == Role::kExpertIds, is_fp8 = tensor.type == TensorType::kI8;
    std::optional<WeightMaker> maker;
    if (!is_ids && !is_fp8) maker.emplace(tensor.type, spread.deviation, spread.mean);
    const int64_t row = tensor.shape[0];
    const int64_t rows_of_piece = kPieceElements / std::min(row, kPieceElements);
    const int64_t piece = is_ids || is_fp8 ? row * rows_of_piece : kPieceElements;
    const int64_t slab = piece * (kSlabElements / kPieceElements);
    for (int64_t begin = 0; begin < elements; begin += slab) {
      const int64_t end = std::min(begin + slab, elements);
      bytes_.resize(static_cast<size_t>(row_bytes(tensor.type, end - begin)));
      pool_.parallel_for(end - begin, piece, [&](int64_t from, int64_t until, int) {
        // Seeded by the piece's index within the tensor, so that slabs and threads do not matter.
        Random random(hash64(tensor.name, seed + static_cast<uint64_t>((begin + from) / piece)));
        const auto out = std::span(bytes_).subspan(static_cast<size_t>(row_bytes(tensor.type, from)),
                                                   static_cast<size_t>(row_bytes(tensor.type, until - from)));
        if (is_ids) return fill_expert_ids(out, row, plan_.shape.integer("expert_count"), random);
        if (is_fp8) return fill_fp8_rows(out, row, spread.deviation, random);
        maker->fill(out, random);
      });
      CAIRN_TRY_VOID(writer_.write(bytes_));
      done_ += static_cast<int64_t>(bytes_.size());
      notify(index);
    }
    return {};
  }

  void notify(size_t index) const {
    if (!options_.progress) return;
    const TensorPlan& tensor = plan_.tensors[index];
    options_.progress({tensor.name, tensor.type, static_cast<int64_t>(index),
                       static_cast<int64_t>(plan_.tensors.size()), done_, plan_.bytes});
  }

  const Plan& plan_;
  const Options& options_;
  ThreadPool pool_;
  std::vector<std::byte> bytes_;
  gguf::Writer& writer_;
  int64_t done_ = 0;
};

Result<int64_t> bytes_of(const TensorPlan& tensor) {
  const auto bytes = gguf::tensor_bytes(tensor.shape, tensor_type_info(tensor.type));
  if (bytes.has_value()) return static_cast<int64_t>(*bytes);
  return fail_at(fmt::format("tensor {}", tensor.name), bytes.error().code, "{}", bytes.error().message);
}

std::string_view type_of(const Shape& shape, const Options& options) {
  if (!options.type.empty()) return options.type;
  return shape.type().empty() ? kTypeDefault : std::string_view(shape.type());
}

}  // namespace

Result<Plan> plan(Shape shape, const Options& options) {
  CAIRN_TRY_VOID(make_vocabulary(shape.architecture(), shape.integer("vocab_size")));
  CAIRN_TRY_VOID(shape.complete());
  Plan made{.shape = std::move(shape), .tensors = {}};
  CAIRN_TRY(made.tensors, tensors_of(made.shape));
  std::vector<TypeRule> rules;
  if (options.type.empty()) rules.assign(made.shape.type_rules().begin(), made.shape.type_rules().end());
  rules.insert(rules.end(), options.type_rules.begin(), options.type_rules.end());
  for (const TensorPlan& tensor : made.tensors) CAIRN_TRY_VOID(bytes_of(tensor));
  CAIRN_TRY(made.misfits, assign_types(made.tensors, type_of(made.shape, options), rules));
  for (TensorPlan& tensor : made.tensors) {
    CAIRN_TRY(tensor.bytes, bytes_of(tensor));
    if (__builtin_add_overflow(made.bytes, tensor.bytes, &made.bytes)) {
      return fail(Code::kTooLarge, "the tensors together have more bytes than can be counted");
    }
    made.elements += tensor.elements();
  }
  return made;
}

Result<void> write(const Plan& plan, const Options& options, const std::filesystem::path& path) {
  if (options.threads < 0 || options.threads > kThreadsMax) {
    return fail(Code::kInvalidArgument, "{} threads were asked for; give 1 to {}, or 0 for one per core",
                options.threads, kThreadsMax);
  }
  if (!options.hollow) CAIRN_TRY_VOID(check_space(path, plan.bytes));
  CAIRN_TRY(const Vocabulary vocabulary, make_vocabulary(plan.shape.architecture(), plan.shape.integer("vocab_size")));
  CAIRN_TRY(gguf::Writer writer, gguf::Writer::create(path));
  write_keys(plan.shape, type_of(plan.shape, options), writer);
  write_vocabulary(vocabulary, writer);
  return Job(plan, options, options.threads == 0 ? usable_cores() : options.threads, writer).run();
}

}  // namespace cairn::synth
