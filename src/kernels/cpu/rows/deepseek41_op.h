/// DeepSeek V4.1's operations on the CPU: see kernels/deepseek41_operations.h.
#pragma once

#include <cstdint>

#include "kernels/cpu/thread_team.h"
#include "kernels/deepseek41_operations.h"

namespace cairn::kernels::cpu {

class Deepseek41Op final : public Deepseek41Operations {
 public:
  explicit Deepseek41Op(ThreadTeam& team) : team_(team) {}

  void add_engram(const EngramParams& params, const float* keys_value, int64_t rows, int64_t cols, float* x) override;
  void round_rows(SimulatedRounding rounding, float* x, int64_t rows, int32_t dims) override;

 private:
  ThreadTeam& team_;
};

}  // namespace cairn::kernels::cpu
