// Request bodies of the OpenAI endpoints: parsing never crashes, and what it accepts is within the limits.
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "api/errors.h"
#include "api/openai/request.h"

using namespace cairn;       // NOLINT: one small program
using namespace cairn::api;  // NOLINT

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

void check_error(const Error& error) {
  require(!error.message.empty());
  require(!dump(openai_error(error)).empty());
}

void check_common(const openai::CommonFields& common) {
  require(common.choices >= 1 && common.generate.stop.size() <= openai::kStopsMax);
  require(common.generate.sampling.logit_bias.size() <= kLogitBiasMax);
  (void)common.generate.sampling.validate(1000);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto body = parse_object({reinterpret_cast<const char*>(data), size});
  if (!body) {
    check_error(body.error());
    return 0;
  }
  if (const auto chat = openai::parse_chat(*body)) {
    check_common(chat->common);
    require(chat->input.messages.is_array() && !chat->input.messages.empty());
  } else {
    check_error(chat.error());
  }
  if (const auto completion = openai::parse_completion(*body)) {
    check_common(completion->common);
    require(!completion->prompts.empty());
  } else {
    check_error(completion.error());
  }
  return 0;
}
