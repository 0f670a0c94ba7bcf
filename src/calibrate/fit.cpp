#include "calibrate/fit.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "calibrate/importance_collector.h"
#include "calibrate/watched_backend.h"
#include "model/embedder.h"
#include "model/model.h"

namespace cairn::calibrate {
namespace {

// "ffn_down" of "blk.7.ffn_down.weight".
std::string kind_of(std::string_view name) {
  if (name.ends_with(".weight")) name.remove_suffix(std::string_view(".weight").size());
  if (!name.starts_with("blk.")) return std::string(name);
  const size_t dot = name.find('.', 4);
  return std::string(dot == std::string_view::npos ? name : name.substr(dot + 1));
}

double bits_of(TensorType type) {
  const TensorTypeInfo& info = tensor_type_info(type);
  return 8.0 * info.block_bytes / info.block_elements;
}

std::vector<FittedGroup> groups_of(std::span<const gguf::Tensor> tensors, std::span<const TensorHarm> harms,
                                   std::span<const size_t> chosen) {
  std::map<std::string, FittedGroup> groups;
  for (size_t i = 0; i < harms.size(); ++i) {
    if (harms[i].options.size() < 2) continue;
    const TypeOption& option = harms[i].options[chosen[i]];
    FittedGroup& group = groups[kind_of(tensors[i].name)];
    ++group.tensors;
    group.bytes += option.bytes;
    group.probe_harm += harms[i].divergence;
    group.harm += option.harm;
    const auto found = std::ranges::find(group.types, option.type, &std::pair<TensorType, int64_t>::first);
    if (found != group.types.end()) {
      ++found->second;
    } else {
      group.types.emplace_back(option.type, 1);
    }
  }
  std::vector<FittedGroup> list;
  for (auto& [kind, group] : groups) {
    group.kind = kind;
    std::ranges::sort(group.types, std::greater<>(), [](const auto& each) { return bits_of(each.first); });
    list.push_back(std::move(group));
  }
  std::ranges::stable_sort(list, std::greater<>(), &FittedGroup::harm);
  return list;
}

// The mix whose main type most of the weights that were quantised have.
convert::QuantizeMix nearest_mix(std::span<const gguf::Tensor> tensors, std::span<const TensorHarm> harms,
                                 std::span<const TensorType> types) {
  std::map<TensorType, int64_t> elements;
  for (size_t i = 0; i < types.size(); ++i) {
    if (harms[i].options.size() > 1) elements[types[i]] += tensors[i].elements();
  }
  const auto most = std::ranges::max_element(elements, {}, [](const auto& each) { return each.second; });
  if (most == elements.end()) return convert::QuantizeMix::kCopy;
  const auto mixes = convert::quantize_mixes();
  const auto found = std::ranges::find(mixes, most->first, &convert::QuantizeMixInfo::base);
  return found == mixes.end() ? convert::QuantizeMix::kF16 : found->mix;
}

}  // namespace

Result<convert::ImportanceMatrix> collect_importance(const gguf::Reader& file,
                                                     std::shared_ptr<kernels::Backend> backend,
                                                     std::span<const TokenId> tokens, const ReadingOptions& options) {
  ImportanceCollector collector;
  WatchedBackend watched(std::move(backend), collector);
  const perplexity::Windows& windows = options.windows;
  model::ModelOptions sizes{.context_tokens = windows.tokens, .weight_names = &collector.names()};
  if (model::is_encoder(file)) {
    CAIRN_TRY(const auto embedder, model::load_embedder(file, watched, sizes));
    CAIRN_TRY_VOID(read_windows(*embedder, tokens, options));
  } else {
    CAIRN_TRY(const gguf::Tensor* table, [&]() -> Result<const gguf::Tensor*> {
      const gguf::Tensor* found = file.find_tensor("token_embd.weight");
      if (found == nullptr) return fail(Code::kCorruptFile, "tensor token_embd.weight is missing");
      return found;
    }());
    const perplexity::WindowBatch batch = plan_reading(windows, options.logits, table->elements() / table->shape[0]);
    sizes.batch_tokens_max = batch.batch_tokens_max;
    sizes.logits_max = batch.logits_max;
    CAIRN_TRY(const auto runner, model::load_model(file, watched, sizes));
    CAIRN_TRY(cache::PagePool pool,
              cache::PagePool::create(watched, runner->kv_layout(),
                                      perplexity::window_pages(runner->kv_layout(), windows, batch.windows)));
    CAIRN_TRY_VOID(read_windows(*runner, pool, tokens, batch.windows, options));
  }
  convert::ImportanceMatrix matrix = collector.matrix(file);
  matrix.chunks = options.count;
  matrix.chunk_tokens = windows.tokens;
  return matrix;
}

Result<FitPlan> fit(std::span<const gguf::Tensor> tensors, std::span<const TensorHarm> harms, int64_t bytes) {
  std::vector<std::vector<TypeOption>> options;
  for (const TensorHarm& harm : harms) options.push_back(harm.options);
  CAIRN_TRY(const std::vector<size_t> chosen, allocate(options, bytes));
  FitPlan plan{.types = {}};
  for (size_t i = 0; i < chosen.size(); ++i) {
    const TypeOption& option = options[i][chosen[i]];
    plan.types.push_back(option.type);
    plan.bytes += option.bytes;
    plan.harm += option.harm;
  }
  plan.groups = groups_of(tensors, harms, chosen);
  plan.nearest = nearest_mix(tensors, harms, plan.types);
  return plan;
}

}  // namespace cairn::calibrate
