#include "model/rope_options.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "model/arch/table.h"
#include "model/config.h"
#include "model/encoder/encoder_config.h"
#include "model/metadata_reader.h"

namespace cairn::model {
namespace {

constexpr const char* kTypeKey = "rope.scaling.type";
constexpr const char* kFactorKey = "rope.scaling.factor";
constexpr const char* kOldFactorKey = "rope.scale_linear";
constexpr const char* kOriginalKey = "rope.scaling.original_context_length";
constexpr const char* kContextKey = "context_length";

std::string_view name_of(RopeScaling scaling) {
  return scaling == RopeScaling::kYarn ? "yarn" : scaling == RopeScaling::kLinear ? "linear" : "none";
}

std::unexpected<Error> cannot(const Architecture& architecture, std::string_view why) {
  return fail(Code::kUnsupported, "the --rope and --yarn flags do not work with this model: architecture \"{}\" {}",
              architecture.name, why);
}

/// Errors: kUnsupported if the model has no main rope that keys describe.
Result<void> check_ropes(const gguf::Reader& file, const Architecture& architecture) {
  constexpr std::string_view kDoesNotRotate = "has no rotary positions";
  constexpr std::string_view kLongRope = "turns by LongRoPE's factors, which its file has for each pair";
  std::span<const RopeConfig> ropes;
  bool rotates = false;
  EncoderConfig encoder;
  DecoderConfig decoder;
  if (architecture.kind == ArchitectureKind::kEncoder) {
    CAIRN_TRY(encoder, read_encoder_config(file, architecture.name, architecture.read_encoder, 0));
    ropes = encoder.ropes;
    rotates =
        std::ranges::any_of(encoder.layers, [](const EncoderLayerConfig& layer) { return layer.rope != kNoRope; });
  } else {
    CAIRN_TRY(decoder, read_decoder_config(file, architecture.decoder_reader(), 0));
    if (decoder.compressed) return cannot(architecture, "has two ropes, for windows and for compressed rows");
    ropes = decoder.ropes;
    rotates = std::ranges::any_of(decoder.layers,
                                  [](const LayerConfig& layer) { return layer.attends() && layer.rope != kNoRope; });
  }
  if (ropes.empty() || !rotates) return cannot(architecture, kDoesNotRotate);
  const bool is_long = std::ranges::any_of(ropes, [](const RopeConfig& rope) { return rope.short_context > 0; });
  return is_long ? cannot(architecture, kLongRope) : Result<void>();
}

/// The same file with other keys.
class RopeKeys {
 public:
  RopeKeys(gguf::Reader& file, std::string_view architecture) : file_(file), keys_(file, architecture) {}

  const MetadataReader& keys() const { return keys_; }
  void set(std::string_view key, double value) {
    file_.set_metadata(keys_.full(key), {.type = gguf::ValueType::kF64, .data = value});
  }
  void set(std::string_view key, std::optional<double> value) {
    if (value) set(key, *value);
  }
  void set_count(std::string_view key, int64_t value) {
    file_.set_metadata(keys_.full(key), {.type = gguf::ValueType::kU64, .data = static_cast<uint64_t>(value)});
  }
  void set_type(RopeScaling scaling) {
    file_.set_metadata(keys_.full(kTypeKey), {.type = gguf::ValueType::kString, .data = name_of(scaling)});
  }

 private:
  gguf::Reader& file_;
  MetadataReader keys_;
};

bool has_yarn_numbers(const RopeOptions& options) {
  return options.extrapolation || options.attention_factor || options.beta_fast || options.beta_slow;
}

/// The type that holds: a scale without a type is linear, as in a file.
Result<RopeScaling> scaling_of(const MetadataReader& keys, const RopeOptions& options, double file_factor) {
  if (options.scaling) return *options.scaling;
  CAIRN_TRY(const std::string_view name, keys.string_or(kTypeKey, ""));
  if (name == "yarn") return RopeScaling::kYarn;
  const bool scales = options.scale || (name != "none" && file_factor != 1);
  return scales ? RopeScaling::kLinear : RopeScaling::kNone;
}

}  // namespace

Result<void> set_rope_options(gguf::Reader& file, const RopeOptions& options, int32_t context_tokens) {
  if (!options.any()) return {};
  CAIRN_TRY(const Architecture* architecture, architecture_of(file));
  CAIRN_TRY_VOID(check_ropes(file, *architecture));
  RopeKeys changed(file, architecture->name);
  const MetadataReader& keys = changed.keys();
  CAIRN_TRY(const int64_t trained, keys.integer(kContextKey, 1, kContextMax));
  CAIRN_TRY(int64_t original, keys.integer_or(kOriginalKey, trained, 1, kContextMax));
  if (options.original_context) original = *options.original_context;
  CAIRN_TRY(double factor, keys.number_or(keys.contains(kFactorKey) ? kFactorKey : kOldFactorKey, 1));
  if (!(factor > 0)) factor = 1;
  CAIRN_TRY(const RopeScaling scaling, scaling_of(keys, options, factor));
  if (has_yarn_numbers(options) && scaling != RopeScaling::kYarn) {
    return fail(
        Code::kInvalidArgument,
        "--yarn-ext-factor, --yarn-attn-factor, --yarn-beta-fast and --yarn-beta-slow need --rope-scaling yarn, "
        "as the positions of this model are scaled by {}",
        scaling == RopeScaling::kLinear ? "\"linear\"" : "nothing");
  }
  if (options.scale && scaling == RopeScaling::kNone)
    return fail(Code::kInvalidArgument, "--rope-scale has no effect with --rope-scaling none; leave one of them out");
  if (options.scale) factor = *options.scale;
  if (scaling == RopeScaling::kNone) factor = 1;

  double context = std::floor(static_cast<double>(original) * factor);
  if (options.freq_base) context = std::max(context, static_cast<double>(context_tokens));
  if (!(context >= 1 && context <= static_cast<double>(kContextMax))) {
    return fail(Code::kInvalidArgument,
                "{} positions times a scale of {:g} are {:.0f}, but a context has from 1 to {} tokens", original,
                factor, context, kContextMax);
  }
  changed.set_type(scaling);
  changed.set(kFactorKey, factor);
  changed.set_count(kOriginalKey, original);
  changed.set_count(kContextKey, static_cast<int64_t>(context));
  changed.set("rope.freq_base", options.freq_base);
  changed.set("rope.scaling.yarn_ext_factor", options.extrapolation);
  changed.set("rope.scaling.yarn_beta_fast", options.beta_fast);
  changed.set("rope.scaling.yarn_beta_slow", options.beta_slow);
  changed.set("rope.scaling.attn_factor", options.attention_factor);
  return {};
}

}  // namespace cairn::model
