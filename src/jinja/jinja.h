/// Jinja templates as chat models ship them: parsed once, rendered many times, never trusted.
///
/// Follows Jinja2 3.1 as model libraries run it: sandboxed with immutable lists and dicts, trim_blocks and
/// lstrip_blocks, loop controls, a pass-through `generation` tag, `tojson` without escaping, autoescape off. Not
/// supported: statements that need other templates (extends, include, import, block), `do`, `autoescape`, the filters
/// `random` and `urlize`. Integers have 128 bits; beyond them an operation is an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/function_ref.h"
#include "base/text/byte_range.h"

namespace cairn::jinja {

/// Bounds of parsing. Published templates have up to 20 KB and nest 12 deep.
inline constexpr size_t kJinjaSourceBytesMax = 4u << 20;
inline constexpr int32_t kJinjaParseDepthMax = 200;  ///< nesting of blocks and expressions in the source

/// Bounds of one rendering, beyond which it fails with kTooLarge.
struct JinjaLimits {
  int64_t steps_max = 20'000'000;          ///< evaluated expressions and statements; 64 bytes of text count as one
  int32_t depth_max = 200;                 ///< nesting of expressions, blocks, macro calls, and of lists and dicts
  int64_t output_bytes_max = 64ll << 20;   ///< of the result and of any intermediate string
  int64_t memory_bytes_max = 512ll << 20;  ///< of all values alive at the same time, including the variables
};

/// The result of a rendering, and which of its bytes came from the variables rather than from the template.
struct Rendering {
  std::string text;
  std::vector<ByteRange> foreign;  ///< ascending, not touching
};

/// Whether a string of the variables (identified by its address) is the caller's own and may spell control tokens as
/// the template's texts may.
using OwnString = FunctionRef<bool(const nlohmann::ordered_json& string)>;

/// No string of the variables is own.
inline constexpr auto kNothingOwn = [](const auto&) { return false; };

/// Immutable once parsed; thread-safe.
class JinjaTemplate {
 public:
  /// Errors: kInvalidArgument with the line number; kTooLarge.
  static Result<JinjaTemplate> parse(std::string_view source);

  JinjaTemplate(JinjaTemplate&&) noexcept;
  JinjaTemplate& operator=(JinjaTemplate&&) noexcept;
  ~JinjaTemplate();

  /// `variables` is a JSON object, in insertion order. All its strings, including keys, are foreign unless `own`
  /// returns true, and stay so whatever the template does with them (jinja/value/origin.h). strftime_now uses `now`
  /// (local time). Errors: kInvalidArgument with raise_exception's text or the failing operation, kTooLarge; `at` is
  /// the line.
  Result<Rendering> render(const nlohmann::ordered_json& variables, OwnString own, std::time_t now,
                           const JinjaLimits& limits = {}) const;

  struct Program;

 private:
  explicit JinjaTemplate(std::unique_ptr<Program> program);
  std::unique_ptr<Program> program_;
};

}  // namespace cairn::jinja
