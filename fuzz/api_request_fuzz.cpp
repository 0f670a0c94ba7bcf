// Fuzzes request bodies of the OpenAI endpoints and of reranking: parsing never crashes, and accepted requests are
// within the limits.
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "api/embedding/embedding_run.h"
#include "api/embedding/rerank.h"
#include "api/errors.h"
#include "api/openai/embeddings.h"
#include "api/openai/request.h"
#include "api/params/generation_params.h"
#include "api/serialization/json_text.h"

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

void check_generate(int choices, const engine::GenerateRequest& generate) {
  require(choices >= 1 && generate.stop.size() <= kStopsMax);
  require(generate.sampling.logit_bias.size() <= sampling::kLogitBiasMax);
  (void)generate.sampling.validate(1000);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  RequestContext context;
  const auto body = parse_object({reinterpret_cast<const char*>(data), size});
  if (!body) {
    check_error(body.error());
    return 0;
  }
  if (const auto chat = openai::parse_chat(context, *body)) {
    check_generate(chat->chat.choices, chat->chat.generate);
    require(chat->chat.input.messages.is_array() && !chat->chat.input.messages.empty());
    require(chat->chat.tool_name.empty() || chat->chat.input.tools.is_array());
  } else {
    check_error(chat.error());
  }
  if (const auto completion = openai::parse_completion(context, *body)) {
    check_generate(completion->common.choices, completion->common.generate);
    require(!completion->prompts.empty());
  } else {
    check_error(completion.error());
  }
  if (const auto embeddings = openai::parse_embeddings(context, *body)) {
    require(!embeddings->inputs.empty() && embeddings->inputs.size() <= kEmbedTextsMax);
    require(embeddings->dimensions >= 0);
  } else {
    check_error(embeddings.error());
  }
  if (const auto rerank = parse_rerank(context, *body)) {
    require(!rerank->query.empty() && !rerank->documents.empty() && rerank->documents.size() <= kEmbedTextsMax);
  } else {
    check_error(rerank.error());
  }
  return 0;
}
