/// DeepSeek V4's MTP module, implemented plainly from its formulas: one token at a time, in double.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gguf/reader.h"

namespace cairn::mtp {

using Vector = std::vector<double>;

/// x over its root mean square, times the weight if there is one.
Vector norm(const Vector& x, const Vector& weight = {});

class Reference {
 public:
  /// `prefix` is that of the module's tensors: "blk.4.".
  Reference(const gguf::Reader& file, std::string prefix);

  /// The input streams of the module's layer, from the previous streams and the current token.
  Vector begin(const Vector& before, int32_t token) const;
  /// The row that is key and value of a position.
  Vector row(const Vector& x, int64_t position) const;
  /// The same of what the layer's attention reads.
  Vector key(const Vector& input, int64_t position) const;
  /// Applies the layer at the last position; rows[p] is row() of position p.
  Vector layer(const Vector& x, const std::vector<Vector>& rows) const;
  /// Applies it at any position, which sees these rows.
  Vector layer(const Vector& x, int64_t position, std::span<const Vector> seen) const;
  /// Logits; `name` is that of the head that reduces the streams to one row, `norm_name` that of the norm after it.
  Vector logits(const Vector& x, const std::string& name, const std::string& norm_name) const;

  Vector tensor(const std::string& name) const;
  /// The product of matrix `which` of the tensor and x.
  Vector product(const std::string& name, const Vector& x, int64_t which = 0) const;

  int64_t width = 0;
  int64_t streams = 0;

 private:
  struct Mix {
    Vector collapsed;
    Vector post;
    Vector comb;  // [from, to]
  };

  int64_t number(const std::string& key) const;
  /// Rotates the last dimensions by the position's angles.
  void turn(Vector& head, int64_t position) const;
  Mix mix(const Vector& x, const std::string& part) const;
  /// Divides each line's entries, `stride` apart, by their sum; lines are `line` apart.
  void divide(Vector& c, int64_t line, int64_t stride) const;
  Vector expand(const Vector& x, const Vector& y, const Mix& how) const;
  Vector attention(const Vector& input, int64_t position, std::span<const Vector> seen) const;
  Vector gated(const std::string& suffix, const Vector& x, int64_t expert) const;
  Vector feed_forward(const Vector& x) const;

  const gguf::Reader& file_;
  const std::string prefix_;
  int64_t heads_ = 0, head_ = 0, rope_ = 0, window_ = 0;
};

}  // namespace cairn::mtp
