/// Rotary positions that differ from what a model's file says: a longer context than it was trained for, or another
/// base.
///
/// They are written over the file's keys, so that a model is computed, planned and kept on disk exactly as one whose
/// file has these keys. parts/rope.h has the formulas and their sources.
#pragma once

#include <cstdint>
#include <optional>

#include "base/error.h"
#include "gguf/reader.h"
#include "model/parts/rope.h"

namespace cairn::model {

/// What is not set stays as the file has it.
struct RopeOptions {
  std::optional<RopeScaling> scaling{};  ///< kNone, kLinear or kYarn
  std::optional<double> scale{};         ///< the context becomes so many times longer; above 0
  std::optional<double> freq_base{};     ///< above 0
  std::optional<int32_t> original_context{};
  std::optional<double> extrapolation{};  ///< YaRN alone, as the following three: see RopeParams
  std::optional<double> attention_factor{};
  std::optional<double> beta_fast{};
  std::optional<double> beta_slow{};

  bool any() const { return *this != RopeOptions(); }
  bool operator==(const RopeOptions&) const = default;
};

/// Sets the keys of `file`. The model's context becomes the original one times the scale; with another base, it is
/// `context_tokens` if that is more. Errors: kInvalidArgument (a number of YaRN without YaRN; a context above
/// kContextMax), kUnsupported (a model whose positions do not rotate, or which has rotations of another kind), those of
/// reading the model's config.
Result<void> set_rope_options(gguf::Reader& file, const RopeOptions& options, int32_t context_tokens);

}  // namespace cairn::model
