#include "api/params/choices.h"

#include <utility>

namespace cairn::api {

std::vector<engine::GenerateRequest> choice_requests(const engine::GenerateRequest& common, std::string_view id,
                                                     std::vector<std::vector<TokenId>> prompts,
                                                     int choices_per_prompt) {
  std::vector<engine::GenerateRequest> requests;
  requests.reserve(prompts.size() * static_cast<size_t>(choices_per_prompt));
  for (auto& prompt : prompts) {
    for (int i = 0; i < choices_per_prompt; ++i) {
      engine::GenerateRequest& request = requests.emplace_back(common);
      request.prompt = i + 1 == choices_per_prompt ? std::move(prompt) : prompt;
      request.id = requests.size() == 1 ? std::string(id) : fmt::format("{}-{}", id, requests.size() - 1);
      request.sampling.seed += static_cast<uint64_t>(i);
    }
  }
  return requests;
}

}  // namespace cairn::api
