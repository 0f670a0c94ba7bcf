// The flags of rotary positions, with the names that llama.cpp has for them.
#include "help/help_format.h"
#include "help/value_checks.h"
#include "load_flags.h"

namespace cairn {
namespace {

constexpr double kScaleMax = 1'024;
constexpr double kNumberMax = 1e12;
constexpr double kLeast = 1e-6;  ///< of what must be above zero

model::RopeScaling scaling_named(const std::string& name) {
  return name == "yarn"     ? model::RopeScaling::kYarn
         : name == "linear" ? model::RopeScaling::kLinear
                            : model::RopeScaling::kNone;
}

}  // namespace

void add_rope_flags(CLI::App& command, model::RopeOptions& rope) {
  const std::string group(kRopeHeading);
  command
      .add_option_function<std::string>(
          "--rope-scaling", [&rope](const std::string& name) { rope.scaling = scaling_named(name); },
          "How positions beyond those that the model was trained for are reached: none, linear or yarn (default: as "
          "the model's file says; linear with --rope-scale)")
      ->check(one_of({"none", "linear", "yarn"}))
      ->group(group);
  auto* scale = command.add_option("--rope-scale", rope.scale,
                                   "How many times longer the context becomes than it was trained for, as --ctx may "
                                   "then be, e.g. 4 (default: as the model's file says)");
  scale->check(real_number(1 / kScaleMax, kScaleMax))->group(group);
  command
      .add_option_function<double>(
          "--rope-freq-scale", [&rope](double freq_scale) { rope.scale = 1 / freq_scale; },
          "The same as a factor on the frequencies: 0.25 for --rope-scale 4")
      ->check(real_number(1 / kScaleMax, kScaleMax))
      ->excludes(scale)
      ->group(group);
  command
      .add_option("--rope-freq-base", rope.freq_base,
                  "Base of the frequencies; with another one than the file's, --ctx may be larger than the model was "
                  "trained for (default: the file's)")
      ->check(real_number(kLeast, kNumberMax))
      ->group(group);
  command
      .add_option("--yarn-orig-ctx", rope.original_context,
                  "Context that the model was trained for before it was scaled (default: the file's)")
      ->check(whole_number(1, 1 << 24))
      ->group(group);
  command
      .add_option("--yarn-ext-factor", rope.extrapolation,
                  "YaRN: how much fast pairs keep their frequency; 0: all are interpolated (default: the file's, or 1)")
      ->check(real_number(0, 1))
      ->group(group);
  command
      .add_option("--yarn-attn-factor", rope.attention_factor,
                  "YaRN: factor on the length of rotated vectors, besides YaRN's own (default: the file's, or 1)")
      ->check(real_number(kLeast, kNumberMax))
      ->group(group);
  command
      .add_option("--yarn-beta-fast", rope.beta_fast,
                  "YaRN: pairs that rotate more often than this over the original context stay as they are (default: "
                  "the file's, or 32)")
      ->check(real_number(kLeast, kNumberMax))
      ->group(group);
  command
      .add_option("--yarn-beta-slow", rope.beta_slow,
                  "YaRN: pairs that rotate less often than this are interpolated (default: the file's, or 1)")
      ->check(real_number(kLeast, kNumberMax))
      ->group(group);
}

}  // namespace cairn
