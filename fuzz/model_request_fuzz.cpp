// Fuzzes what is read of a request before its endpoint reads it, and the file in which the headers of models are kept.
#include <cstdlib>
#include <string_view>

#include "api/models/model_request.h"
#include "loader/catalog/description_cache.h"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const bool ollama : {false, true}) {
    const auto request = cairn::api::read_model_request(text, ollama);
    if (!request) require(request.error().at == "keep_alive");
    if (request && request->keep_alive && request->keep_alive->time) require(request->keep_alive->time->count() >= 0);
  }
  if (const auto keep = cairn::api::parse_keep_alive(text); keep && keep->time) require(keep->time->count() >= 0);
  require(cairn::loader::parse_descriptions(text).size() <= cairn::loader::kDescriptionsMax);
  return 0;
}
