#include "model/decoder/dspark_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/metadata_reader.h"

namespace cairn::model {
namespace {

constexpr std::string_view kDflash = "dflash";
constexpr std::string_view kAlone = "deepseek4-dspark";
constexpr std::string_view kAlone41 = "deepseek41-dspark";
constexpr std::string_view kStreamsKey = "dflash.hyper_connection.count";  // other models' heads have no streams

std::string_view architecture_name(const gguf::Reader& file) {
  const auto name = file.metadata().string("general.architecture");
  return name.has_value() ? *name : std::string_view();
}

/// Where a file has the head: its numbers, and its tensors.
class Names {
 public:
  explicit Names(const gguf::Reader& file) : file_(file), dflash_(architecture_name(file) == kDflash) {
    while (stages_ <= kDsparkStagesMax && has(stage(stages_) + "attn_q_a.weight")) ++stages_;
  }

  bool is_dflash() const { return dflash_; }
  int32_t stages() const { return stages_; }
  /// What the keys of its numbers begin with.
  std::string_view keys() const {
    if (dflash_) return kDflash;
    for (const std::string_view prefix : {"deepseek41.dspark", "deepseek4.dspark"}) {
      if (file_.metadata().contains(fmt::format("{}.block_size", prefix))) return prefix;
    }
    return "dspark";
  }
  std::string stage(int32_t number) const { return fmt::format("{}.{}.", dflash_ ? "blk" : "mtp", number); }
  std::string main() const { return dflash_ ? "fc" : "mtp.0.main_proj"; }
  std::string main_norm() const { return dflash_ ? "enc.output_norm" : "mtp.0.main_norm"; }
  std::string output_norm() const { return dflash_ ? "output_norm" : last("norm"); }
  std::string output_streams() const { return dflash_ ? "output_hc" : last("hc_head"); }
  /// Converters have two names for each table of pairs.
  std::string markov_embedding() const { return dflash_ ? "markov_w1" : either("markov_w1", "embed"); }
  std::string markov_output() const { return dflash_ ? "markov_w2" : either("markov_w2", "head"); }
  std::string confidence() const { return dflash_ ? "conf_proj" : last("confidence_head.proj"); }

 private:
  bool has(const std::string& tensor) const { return file_.find_tensor(tensor) != nullptr; }
  std::string last(std::string_view name) const { return fmt::format("mtp.{}.{}", std::max(stages_ - 1, 0), name); }
  std::string either(std::string_view first, std::string_view second) const {
    std::string name = last(fmt::format("markov_head.{}", second));
    return has(name + ".weight") ? name : last(fmt::format("markov_head.{}", first));
  }

  const gguf::Reader& file_;
  bool dflash_ = false;
  int32_t stages_ = 0;
};

std::unexpected<Error> with_a_way_out(Error error, const gguf::Reader& file) {
  error.message += fmt::format("; the model loads without its drafting head: leave out {}",
                               is_dspark_file(file) ? "--draft" : "--speculate, or draft with --draft SMALL.gguf");
  return std::unexpected(std::move(error));
}

Result<const gguf::Tensor*> needed(const gguf::Reader& file, const std::string& name) {
  const gguf::Tensor* tensor = file.find_tensor(name);
  if (tensor != nullptr && tensor->shape.size() == 2) return tensor;
  return fail_at("tensor " + name, Code::kCorruptFile, "tensor {} is {}", name,
                 tensor == nullptr ? "missing" : "no matrix");
}

class DsparkReader {
 public:
  DsparkReader(const gguf::Reader& file, const DecoderConfig& model)
      : file_(file), model_(model), names_(file), keys_(file, names_.keys()) {}

  Result<DsparkConfig> read() {
    CAIRN_TRY_VOID(check_form());
    dspark_.stages = names_.stages();
    CAIRN_TRY(dspark_.block, keys_.integer("block_size", 1, kDsparkBlockMax));
    CAIRN_TRY_VOID(read_noise());
    CAIRN_TRY_VOID(read_targets());
    CAIRN_TRY(const gguf::Tensor* pairs, needed(file_, names_.markov_embedding() + ".weight"));
    dspark_.markov_rank = pairs->shape[0];
    if (dspark_.markov_rank < 1 || dspark_.markov_rank > kLowRankMax) {
      return fail_at("tensor " + std::string(pairs->name), Code::kCorruptFile, "tensor {} has rows of {}; 1 .. {} fit",
                     pairs->name, dspark_.markov_rank, kLowRankMax);
    }
    CAIRN_TRY_VOID(read_experts());
    return std::move(dspark_);
  }

 private:
  Result<void> check_form() const {
    const std::string_view architecture = architecture_name(file_);
    const bool other = model_.compressed->is_v41 ? architecture == kAlone : architecture == kAlone41;
    if (other) {
      return fail(Code::kInvalidArgument, "the draft file is of DeepSeek {}, but the model is {}",
                  model_.compressed->is_v41 ? "V4" : "V4.1", model_.compressed->is_v41 ? "V4.1" : "V4");
    }
    if (names_.stages() < 1 || names_.stages() > kDsparkStagesMax) {
      const std::string first = names_.stage(0) + "attn_q_a.weight";
      return fail_at("tensor " + first, Code::kCorruptFile, "the drafting head has {} layers ({}, ...); 1 .. {} fit",
                     names_.stages(), first, kDsparkStagesMax);
    }
    CAIRN_TRY(const bool from_last_token, keys_.boolean_or("sample_from_anchor", true));
    if (from_last_token) return {};
    return fail_at("key " + keys_.full("sample_from_anchor"), Code::kUnsupported,
                   "{} is false: a head whose first row drafts nothing is not supported",
                   keys_.full("sample_from_anchor"));
  }

  Result<void> read_noise() {
    if (!names_.is_dflash()) {
      CAIRN_TRY(const int64_t noise, keys_.integer("noise_token_id", 0, model_.vocabulary - 1));
      dspark_.noise = TokenId{static_cast<int32_t>(noise)};
      return {};
    }
    constexpr std::string_view kMask = "tokenizer.ggml.mask_token_id";
    CAIRN_TRY(const int64_t noise, file_.metadata().integer(kMask));
    if (noise < 0 || noise >= model_.vocabulary) {
      return fail_at(fmt::format("key {}", kMask), Code::kCorruptFile, "{} is {}, but there are {} tokens", kMask,
                     noise, model_.vocabulary);
    }
    dspark_.noise = TokenId{static_cast<int32_t>(noise)};
    return {};
  }

  // V4's head reads what its layers leave, V4.1's what they begin with; llama.cpp's files name the layer that begins
  // with it. Its converter adds one for V4.1 too, which the last layer tells: V4.1's head does not read behind it.
  Result<void> read_targets() {
    const auto layers = static_cast<int64_t>(model_.layers.size());
    const std::string_view key = keys_.contains("target_layers") ? "target_layers" : "target_layer_ids";
    const std::string full = keys_.full(key);
    CAIRN_TRY(std::vector<int64_t> targets, file_.metadata().integers(full));
    const int64_t most = names_.is_dflash() ? layers : layers - 1;
    if (targets.empty() || std::cmp_greater(targets.size(), kDsparkTargetsMax)) {
      return fail_at("key " + full, Code::kCorruptFile, "{} names {} layers; 1 .. {} fit", full, targets.size(),
                     kDsparkTargetsMax);
    }
    for (const int64_t target : targets) {
      if (target >= 0 && target <= most) continue;
      return fail_at("key " + full, Code::kCorruptFile, "{} names layer {}, but it must be in 0 .. {}", full, target,
                     most);
    }
    int64_t later = !names_.is_dflash() && !model_.compressed->is_v41 ? 1 : 0;
    if (names_.is_dflash() && model_.compressed->is_v41 && std::ranges::max(targets) == layers) later = -1;
    for (const int64_t target : targets) {
      if (target + later < 0) {
        return fail_at("key " + full, Code::kCorruptFile, "{} names layers {} and {}, which no head of V4.1 reads",
                       full, target, layers);
      }
      dspark_.targets.push_back(static_cast<int32_t>(target + later));
    }
    return {};
  }

  Result<void> read_experts() {
    const std::string router = names_.stage(0) + "ffn_gate_inp.weight";
    CAIRN_TRY(const gguf::Tensor* tensor, needed(file_, router));
    if (tensor->shape[1] > kExpertsMax) {
      return fail_at("tensor " + router, Code::kCorruptFile, "tensor {} has {} rows; at most {} experts fit", router,
                     tensor->shape[1], kExpertsMax);
    }
    const auto named = [this](std::string_view first, std::string_view second) {
      return keys_.contains(first) ? first : second;
    };
    constexpr int64_t kUsedOfV41 = 3;
    dspark_.experts = *model_.experts;
    kernels::RouteParams& route = dspark_.experts.route;
    CAIRN_TRY(route.experts,
              keys_.integer_or(named("n_routed_experts", "expert_count"), tensor->shape[1], 1, kExpertsMax));
    const int64_t missing =
        std::min<int64_t>(model_.compressed->is_v41 ? kUsedOfV41 : model_.experts->route.used, route.experts);
    CAIRN_TRY(route.used, keys_.integer_or(named("num_experts_per_tok", "expert_used_count"), missing, 1,
                                           std::min<int64_t>(route.experts, kExpertsUsedMax)));
    return {};
  }

  const gguf::Reader& file_;
  const DecoderConfig& model_;
  const Names names_;
  const MetadataReader keys_;
  DsparkConfig dspark_;
};

Result<void> load_head(WeightLoader& loader, const DecoderConfig& config, DecoderWeights& weights) {
  const DsparkConfig& dspark = *config.dspark;
  const HyperConnectionConfig& streams = *config.residual.hyper_connections;
  const Names names(loader.file());
  const int64_t width = config.embedding, rank = dspark.markov_rank;
  DsparkWeights& head = weights.dspark;
  CAIRN_TRY(head.main, loader.linear(names.main(), width, std::ssize(dspark.targets) * width));
  CAIRN_TRY(head.main_norm, Norm::load(loader, names.main_norm(), width, config.norm));
  for (int32_t stage = 0; stage < dspark.stages; ++stage) {
    const auto layer = static_cast<int32_t>(config.layers.size()) + stage;
    CAIRN_TRY(weights.layers.emplace_back(), load_layer(loader, config, layer, names.stage(stage)));
  }
  if (!streams.carried) {
    CAIRN_TRY(head.output_streams, StreamWeights::load_output(loader, names.output_streams(), streams));
  }
  CAIRN_TRY(head.output_norm, Norm::load(loader, names.output_norm(), width, config.norm));
  CAIRN_TRY(head.markov_embedding, loader.lookup_table(names.markov_embedding(), config.vocabulary, rank));
  CAIRN_TRY(head.markov_output, loader.linear(names.markov_output(), config.vocabulary, rank));
  head.has_confidence = loader.has(names.confidence() + ".weight");
  if (head.has_confidence) {
    CAIRN_TRY(head.confidence, loader.linear(names.confidence(), 1, width + rank));
  }
  return {};
}

}  // namespace

bool is_dspark_file(const gguf::Reader& file) {
  const std::string_view architecture = architecture_name(file);
  return architecture == kAlone || architecture == kAlone41 ||
         (architecture == kDflash && file.metadata().contains(kStreamsKey));
}

bool has_dspark(const gguf::Reader& file) {
  return is_dspark_file(file) || file.find_tensor("mtp.0.main_proj.weight") != nullptr;
}

Result<void> read_dspark_config(const gguf::Reader& file, DecoderConfig& config) {
  Result<DsparkConfig> read = DsparkReader(file, config).read();
  if (!read.has_value()) return with_a_way_out(std::move(read.error()), file);
  read->layer = config.window_layer();
  config.dspark = std::move(*read);
  // It reads the mean of the streams.
  config.residual.hyper_connections->averaged = true;
  return {};
}

Result<void> load_dspark_weights(WeightLoader& loader, const DecoderConfig& config, DecoderWeights& weights) {
  Result<void> loaded = load_head(loader, config, weights);
  if (!loaded.has_value()) return with_a_way_out(std::move(loaded.error()), loader.file());
  return {};
}

}  // namespace cairn::model
