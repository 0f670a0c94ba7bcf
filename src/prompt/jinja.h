/// Jinja templates as chat models ship them: parsed once, rendered many times, never trusted.
///
/// Follows Jinja2 3.1 as model libraries run it: sandboxed, trim_blocks and lstrip_blocks, loop controls, a pass-through
/// `generation` tag, `tojson` without escaping.
#pragma once

#include <cstdint>
#include <ctime>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/error.h"

namespace cairn {

/// Bounds of one rendering; over them it fails with kTooLarge.
struct JinjaLimits {
  int64_t steps_max = 20'000'000;          ///< evaluated expressions and statements
  int32_t depth_max = 200;                 ///< nesting of expressions, blocks, macro calls
  int64_t output_bytes_max = 64ll << 20;   ///< of the result and of any string on the way
};

/// Immutable once parsed; thread-safe.
class JinjaTemplate {
 public:
  /// Errors: kInvalidArgument with the line number.
  static Result<JinjaTemplate> parse(std::string_view source);

  JinjaTemplate(JinjaTemplate&&) noexcept;
  JinjaTemplate& operator=(JinjaTemplate&&) noexcept;
  ~JinjaTemplate();

  /// `variables` is a JSON object, insertion order kept. `now` is what strftime_now sees (local time). Errors:
  /// kInvalidArgument with raise_exception's text or the failing operation and its line, kTooLarge.
  Result<std::string> render(const nlohmann::ordered_json& variables, std::time_t now, const JinjaLimits& limits = {}) const;

  struct Program;

 private:
  explicit JinjaTemplate(std::unique_ptr<Program> program);
  std::unique_ptr<Program> program_;
};

}  // namespace cairn
