#include "vectors.h"

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "api/openai/embeddings.h"
#include "api/serialization/json_text.h"
#include "base/text/json.h"
#include "exchange.h"

namespace cairn::library {
namespace {

using nlohmann::ordered_json;
using namespace std::chrono_literals;

/// Appends the numbers of which api::openai::base64_of has made the text.
void append_floats(std::string_view text, std::vector<float>& values) {
  constexpr auto kValues = [] {
    std::array<uint8_t, 256> table{};
    constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < kDigits.size(); ++i) table[static_cast<unsigned char>(kDigits[i])] = static_cast<uint8_t>(i);
    return table;
  }();
  uint32_t bits = 0;
  int bit_count = 0, bytes = 0;
  uint32_t number = 0;
  for (const char digit : text) {
    if (digit == '=') break;
    bits = bits << 6 | kValues[static_cast<unsigned char>(digit)];
    bit_count += 6;
    if (bit_count < 8) continue;
    bit_count -= 8;
    number |= (bits >> bit_count & 0xFF) << (8 * bytes);
    if (++bytes < 4) continue;
    values.push_back(std::bit_cast<float>(number));
    number = 0;
    bytes = 0;
  }
}

}  // namespace

Result<Rows> embed(Model& model, const std::string& request) {
  CAIRN_TRY(ordered_json body, api::parse_object(request));
  body["encoding_format"] = "base64";  // which is exact, and short
  CAIRN_TRY(const std::string answer, call(model, api::openai::handle_embeddings, json_text(body)));
  const auto data = nlohmann::json::parse(answer)["data"];
  Rows rows;
  rows.rows = data.size();
  for (const auto& each : data) append_floats(each["embedding"].get_ref<const std::string&>(), rows.values);
  rows.columns = rows.rows == 0 ? 0 : rows.values.size() / rows.rows;
  return rows;
}

Result<Rows> logits(Model& model, std::vector<TokenId> tokens, bool last_only) {
  const loader::LoadedModel& loaded = *model.loaded();
  if (loaded.runner == nullptr)
    return fail_at("model", Code::kUnsupported, "{} is an encoder, which has no logits", loaded.name);
  engine::GenerateRequest request;
  request.prompt = std::move(tokens);
  request.max_tokens = 0;
  request.logits = last_only ? engine::LogitsKept::kLast : engine::LogitsKept::kAll;
  CAIRN_TRY(const auto stream, loaded.engine->submit(std::move(request)));
  while (true) {
    engine::Events events = stream->wait(1h);
    if (!events.finished) continue;
    if (events.finish.reason == engine::FinishReason::kError) return std::unexpected(std::move(events.finish.error));
    if (events.finish.reason == engine::FinishReason::kCancelled)
      return fail(Code::kUnavailable, "the model is being closed");
    Rows rows{.values = std::move(events.finish.logits)};
    rows.columns = static_cast<size_t>(loaded.tokenizer->size());
    rows.rows = rows.values.size() / rows.columns;
    return rows;
  }
}

}  // namespace cairn::library
