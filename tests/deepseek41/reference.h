/// DeepSeek V4.1, implemented plainly from its formulas: one token after the other, in double.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "gguf/reader.h"
#include "kernels/deepseek41_operations.h"

namespace cairn::deepseek41 {

using Vector = std::vector<double>;

/// What rows are rounded to: numbers of FP8 or FP4, so many with one scale.
Vector rounded(Vector x, kernels::SimulatedRounding rounding);

class Reference {
 public:
  /// `file` is a ModelFile of FileOptions without config_names. With `rounding` what is kept of earlier positions is
  /// rounded as in training.
  Reference(const gguf::Reader& file, bool rounding);

  /// Logits of the next position of the text.
  std::vector<float> next(TokenId token);

  struct Draft {
    std::vector<float> logits;
    TokenId token{};
    double confidence = 0;
  };
  /// What the drafting head beside the model drafts behind `last`, the token after the text.
  std::vector<Draft> drafts(TokenId last);

 private:
  /// What a layer has kept.
  struct Layer {
    int64_t ratio = 0;
    bool makes_rows = false;
    bool chooses = false;
    int64_t source = -1;
    std::vector<Vector> window;
    std::vector<Vector> values;  // of all positions
    std::vector<Vector> gates;
    std::vector<Vector> rows;
    std::vector<Vector> index;
  };
  struct Mix {
    Vector pre;
    Vector post;
    Vector comb;  // [from, to]
  };

  int64_t number(const std::string& key) const;
  const Vector& tensor(const std::string& name);
  bool has(const std::string& name) const { return file_.find_tensor(name) != nullptr; }
  Vector product(const std::string& name, const Vector& x, int64_t which = 0);
  void turn(Vector& head, int64_t position, bool compressed, double sign = 1) const;
  Vector angles(bool compressed) const;
  Mix mix(const std::string& part);
  Vector collapse(const Vector& shares) const;
  void expand(const Vector& y, const Mix& how);
  void add_engram(int64_t layer, int64_t number);
  Vector engram_rows(int64_t layer, int64_t number);
  Vector attention(int64_t layer, const Vector& x);
  Vector attend(const std::string& blk, const Vector& x, int64_t position, bool compressed,
                std::span<const Vector* const> seen);
  Vector key(const std::string& blk, const Vector& x, int64_t position, bool compressed);
  void draft_block(const std::string& blk, std::vector<Vector>& window, struct DraftRows& rows);
  void make_rows(Layer& layer, const std::string& blk, const Vector& x);
  void choose(int64_t layer, const Vector& low, const Vector& x);
  Vector gated(const std::string& blk, const std::string& suffix, const Vector& x, int64_t expert);
  Vector feed_forward(const std::string& blk, const Vector& x, int64_t used);

  const gguf::Reader& file_;
  const bool rounding_;
  std::map<std::string, Vector> tensors_;
  int64_t width_ = 0, streams_ = 0, heads_ = 0, head_ = 0, rope_ = 0;
  std::vector<Layer> layers_;
  std::vector<int64_t> classes_;  // of the text's tokens
  Vector streams_now_;
  Vector carried_;
  std::vector<std::vector<Vector>> stages_;  // windows of the drafting head's layers
  std::vector<size_t> chosen_;
  std::vector<size_t> candidates_;  // rows
};

}  // namespace cairn::deepseek41
