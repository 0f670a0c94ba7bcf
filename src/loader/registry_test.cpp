#include "loader/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "base/testing/test_data.h"
#include "loader/model_load.h"
#include "loader/unloader.h"

namespace cairn::loader {
namespace {

using namespace std::chrono_literals;

constexpr int32_t kAnswerTokens = 40;

std::unique_ptr<LoadedModel> load_llama(std::string name) {
  LoadOptions options;
  options.name = std::move(name);
  options.model.context_tokens = 64;
  options.device.cpu.threads = 1;
  auto model = load_model_file(test_data("/models/llama.gguf"), options);
  EXPECT_TRUE(model.has_value()) << model.error().text();
  return std::move(*model);
}

engine::GenerateRequest request_of_tokens() {
  engine::GenerateRequest request;
  request.prompt = {TokenId{5}, TokenId{6}, TokenId{7}};
  request.max_tokens = kAnswerTokens;
  request.ignore_eos = true;
  return request;
}

std::unique_ptr<engine::GenerateStream> begin_answer(engine::Engine& engine) {
  auto stream = engine.submit(request_of_tokens());
  EXPECT_TRUE(stream.has_value()) << stream.error().text();
  return std::move(*stream);
}

struct Ended {
  std::string text;
  int tokens = 0;
  engine::FinishReason reason = engine::FinishReason::kError;
};
Ended read_answer(engine::GenerateStream& stream) {
  Ended ended;
  for (auto until = std::chrono::steady_clock::now() + 60s; std::chrono::steady_clock::now() < until;) {
    engine::Events events = stream.wait(1'000ms);
    for (const engine::TokenEvent& token : events.tokens) {
      ended.text += token.text;
      ++ended.tokens;
    }
    if (!events.finished) continue;
    ended.reason = events.finish.reason;
    break;
  }
  return ended;
}

bool comes_true(const std::function<bool()>& condition) {
  for (int i = 0; i < 6'000 && !condition(); ++i) std::this_thread::sleep_for(10ms);
  return condition();
}

TEST(Registry, AModelThatIsRemovedWhileItAnswersEndsItsAnswerAndIsDestroyedThen) {
  Registry registry;
  ASSERT_TRUE(registry.add(load_llama("llama")).has_value());
  const Ended alone = read_answer(*begin_answer(*(*registry.find("llama", kEveryModel))->engine));
  ASSERT_EQ(alone.tokens, kAnswerTokens);

  std::shared_ptr<engine::Engine> engine = shared_engine(*registry.find("llama", kEveryModel));
  const std::weak_ptr<const LoadedModel> model = *registry.find("llama", kEveryModel);
  auto stream = begin_answer(*engine);
  ASSERT_TRUE(registry.remove(model.lock()));
  EXPECT_FALSE(registry.remove(model.lock()));
  EXPECT_TRUE(registry.list(kEveryModel).empty());
  EXPECT_EQ(registry.find("llama", kEveryModel).error().code, Code::kUnavailable);
  // One of the same name has its place at once.
  ASSERT_TRUE(registry.add(load_llama("llama")).has_value());
  EXPECT_NE(*registry.find("llama", kEveryModel), model.lock());

  const Ended ended = read_answer(*stream);
  EXPECT_EQ(ended.reason, engine::FinishReason::kLength);
  EXPECT_EQ(ended.text, alone.text);
  EXPECT_FALSE(model.expired());
  stream.reset();
  engine.reset();
  EXPECT_TRUE(model.expired());
}

TEST(Registry, TheEndCutsOffWhatRemovedModelsStillAnswer) {
  Registry registry;
  ASSERT_TRUE(registry.add(load_llama("llama")).has_value());
  const std::shared_ptr<engine::Engine> engine = shared_engine(*registry.find("llama", kEveryModel));
  ASSERT_TRUE(registry.remove(*registry.find("llama", kEveryModel)));
  registry.clear();
  EXPECT_EQ(engine->submit(request_of_tokens()).error().code, Code::kUnavailable);
}

TEST(Unloader, DestroysOnItsOwnThreadAndCountsWhatIsAlive) {
  const auto unloader = std::make_shared<Unloader>();
  SharedModel first = unloader->share(load_llama("first"));
  SharedModel second = unloader->share(load_llama("second"));
  EXPECT_EQ(unloader->alive(), 2U);
  std::thread([gone = std::move(first)] {}).join();
  EXPECT_TRUE(comes_true([&] { return unloader->alive() == 1; }));
  second.reset();
  EXPECT_TRUE(comes_true([&] { return unloader->alive() == 0; }));
}

}  // namespace
}  // namespace cairn::loader
