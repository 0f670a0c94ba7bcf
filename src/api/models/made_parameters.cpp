#include "api/models/made_parameters.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "api/params/generation_params.h"
#include "api/params/request_fields.h"
#include "sampling/parameters.h"

namespace cairn::api {
namespace {

void read_row(RequestFields& fields, const sampling::SamplingParameter& row, std::string_view name,
              GenerationDefaults& defaults) {
  const nlohmann::ordered_json* value = name.empty() ? nullptr : fields.get(name);
  if (value == nullptr) return;
  const bool number = row.whole() ? value->is_number_integer() : value->is_number();
  if (!number || !row.takes(value->get<double>()))
    return fields.reject(name, fmt::format("must be {} {}", row.whole() ? "an integer" : "a number", row.range_text()));
  defaults.sampling.set(row, value->get<double>());
}

}  // namespace

Result<MadeParameters> read_made_parameters(RequestContext& context, const nlohmann::ordered_json& parameters) {
  RequestFields fields(context, parameters, "parameters.");
  MadeParameters made;
  for (const sampling::SamplingParameter& row : sampling::sampling_parameters()) {
    read_row(fields, row, row.alias, made.defaults);
    read_row(fields, row, row.name, made.defaults);
  }
  made.defaults.seed =
      fields.optional_integer("seed", std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max());
  if (const auto limit = fields.optional_integer("num_predict", -2, kTokensMax))
    made.defaults.predict = *limit <= 0 ? -1 : static_cast<int32_t>(*limit);
  read_stop(fields, made.defaults.stop);
  made.context_tokens = static_cast<int32_t>(fields.integer("num_ctx", 0, 0, kTokensMax));
  fields.only("penalize_newline", true, "penalties look at every token; use logit_bias");
  fields.accept({"num_batch", "num_gpu", "main_gpu", "num_thread", "num_keep", "numa", "use_mmap", "use_mlock",
                 "low_vram", "f16_kv", "logits_all"});
  CAIRN_TRY_VOID(fields.finish());
  return made;
}

}  // namespace cairn::api
