/// Tables of attention by products of int16 pairs, for an ISA's `Vector` that has add_pair_products.
#pragma once

#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/attention/int16_rows_body.h"
#include "kernels/cpu/attention/pair_pages.h"
#include "kernels/cpu/attention/pair_scores_body.h"
#include "kernels/cpu/attention/pair_values_body.h"

namespace cairn::kernels::cpu {
namespace {

template <class V, class Pages>
constexpr PairAttention make_pair_attention() {
  return {
      .pair_queries = Int16Rows<V>::template pair_queries<Pages>,
      .scores = PairScores<V, Pages>::scores,
      .sum_values = PairValues<V, Pages>::sum_values,
  };
}

template <class V>
constexpr Int16Attention make_int16_attention() {
  using Rows = Int16Rows<V>;
  return {
      .key_scale = Rows::key_scale,
      .value_scale = Rows::value_scale,
      .round = Rows::round,
      .int16 = make_pair_attention<V, Int16Pages<V>>(),
      .q8_0 = make_pair_attention<V, Q8Pages<V>>(),
  };
}

}  // namespace
}  // namespace cairn::kernels::cpu
