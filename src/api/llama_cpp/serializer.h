/// llama.cpp's answer to POST /completion, whole or as a stream, whose last event has what the whole answer has but the
/// text.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "api/serialization/json_text.h"
#include "api/serialization/usage.h"
#include "api/stream/generation.h"
#include "tokenizer/tokenizer.h"

namespace cairn::api::llama_cpp {

struct ResponseOptions {
  std::string model{};
  std::vector<std::string> prompts{};    ///< as text, one a choice
  std::vector<int32_t> prompt_tokens{};  ///< the same
  nlohmann::ordered_json settings{};     ///< generation_settings
  bool several = false;                  ///< the whole answer is an array
  bool stream = false;
  bool return_tokens = false;
  bool return_progress = false;
  bool timings_per_token = false;
  bool probabilities = false;
  bool filtered_probabilities = false;         ///< they are prob and top_probs, of what was sampled from
  std::vector<std::string> response_fields{};  ///< of the whole answer; empty: all
};

/// `tokenizer` outlives it.
class CompletionSerializer final : public ResponseSerializer {
 public:
  CompletionSerializer(ResponseOptions options, const tokenizer::Tokenizer& tokenizer);

  bool streams() const override { return options_.stream; }
  std::string begin() override { return {}; }
  std::string prefill(int choice, const engine::PrefillProgress& progress) override;
  std::string token(int choice, engine::TokenEvent&& event) override;
  std::string finish(int choice, engine::Finish&& finish) override;
  std::string done() override;
  std::string failure(const Error& error) override;

 private:
  struct Choice {
    // What no event has said yet.
    std::string text;
    nlohmann::ordered_json tokens = nlohmann::ordered_json::array();
    nlohmann::ordered_json probabilities = nlohmann::ordered_json::array();
    JsonList all_probabilities;  // of an answer that does not stream
    TimingsSoFar so_far;
    bool has_new_line = false;
    PrefillTold prefill;
    std::string full_body;  // as JSON text
  };
  nlohmann::ordered_json delta_json(int index, Choice& choice) const;
  nlohmann::ordered_json probability_json(const engine::TokenEvent& event) const;
  std::string prefill_event(int index, Choice& choice, const engine::PrefillProgress& progress) const;

  ResponseOptions options_;
  const tokenizer::Tokenizer& tokenizer_;
  std::vector<Choice> choices_;
};

/// LoRA adapters: [{"id", "scale"}, ...].
nlohmann::ordered_json lora_json(std::span<const engine::AdapterScale> adapters);
/// generation_settings, and the params of /props: what is asked for, in llama.cpp's words. `lora` has what the request
/// itself names.
nlohmann::ordered_json settings_json(const engine::GenerateRequest& generate, int32_t context_tokens);

}  // namespace cairn::api::llama_cpp
