#include "loader/model_manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <future>
#include <thread>
#include <tuple>
#include <utility>

#include "base/testing/test_data.h"
#include "loader/model_load.h"
#include "loader/registry.h"

namespace cairn::loader {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

ServedModel served(const std::string& name, const std::string& file = "llama") {
  ServedModel made;
  made.model = describe_file(std::string(test_data("/models/")) + file + ".gguf").value();
  made.model.name = name;
  made.options.model.context_tokens = 64;
  made.options.sequences = 1;
  made.options.device.cpu.threads = 1;
  return made;
}

class ModelManagerTest : public testing::Test {
 protected:
  void start(ModelManagerOptions options, std::vector<ServedModel> models) {
    manager_ = std::make_unique<ModelManager>(registry_, std::move(options));
    ASSERT_TRUE(manager_->set_models(std::move(models)).has_value());
  }
  /// What one of them takes.
  static int64_t bytes_of_one() {
    auto opened = ModelLoad::open(served("x").model.path, served("x").options).value();
    EXPECT_TRUE(opened.plan(std::numeric_limits<int64_t>::max()).has_value());
    return opened.host_bytes();
  }
  SharedModel loaded(const std::string& name) {
    auto model = manager_->load_and_wait(name);
    EXPECT_TRUE(model.has_value()) << model.error().text();
    return model ? *model : nullptr;
  }
  ModelState state(const std::string& name) { return manager_->find_exactly(name, kEveryModel)->state; }
  ModelState unload(const std::string& name) {
    std::promise<ModelState> left;
    EXPECT_TRUE(manager_->unload(name, kEveryModel, [&](ModelState state) { left.set_value(state); }).has_value());
    return left.get_future().get();
  }
  bool becomes(const std::string& name, ModelState wanted) {
    for (int i = 0; i < 3'000 && state(name) != wanted; ++i) std::this_thread::sleep_for(10ms);
    return state(name) == wanted;
  }

  Registry registry_;
  std::unique_ptr<ModelManager> manager_;
};

TEST_F(ModelManagerTest, TheLeastRecentlyUsedGivesWayAndNoMoreMemoryIsTakenThanThereIs) {
  const int64_t one = bytes_of_one();
  start({.memory_bytes = one * 2 + one / 2, .defaults = {}}, {served("a"), served("b"), served("c")});
  loaded("a");
  loaded("b");
  loaded("a");
  loaded("c");
  EXPECT_EQ(state("a"), ModelState::kLoaded);
  EXPECT_EQ(state("b"), ModelState::kUnloaded);
  EXPECT_EQ(state("c"), ModelState::kLoaded);
  EXPECT_LE(manager_->memory().used(), manager_->memory().bytes_max());
}

TEST_F(ModelManagerTest, WhatIsPinnedDoesNotGiveWayAndALoadThatCannotFitSaysSo) {
  const int64_t one = bytes_of_one();
  ServedModel pinned = served("a");
  pinned.pinned = true;
  start({.memory_bytes = one + one / 2, .defaults = {}}, {std::move(pinned), served("b")});
  loaded("a");
  const auto refused = manager_->load_and_wait("b");
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kOutOfMemory);
  EXPECT_THAT(refused.error().message, HasSubstr("--memory"));
  EXPECT_EQ(state("a"), ModelState::kLoaded);
  EXPECT_THAT(manager_->find_exactly("b", kEveryModel)->error, HasSubstr("--memory"));
}

TEST_F(ModelManagerTest, ABusyModelFinishesAndThenGivesWay) {
  const int64_t one = bytes_of_one();
  start({.memory_bytes = one + one / 2, .defaults = {}}, {served("a"), served("b")});
  SharedModel busy = loaded("a");
  auto other = std::async(std::launch::async, [&] { return manager_->load_and_wait("b"); });
  EXPECT_EQ(other.wait_for(300ms), std::future_status::timeout);
  EXPECT_EQ(state("a"), ModelState::kLoaded);
  busy.reset();
  EXPECT_TRUE(other.get().has_value());
  EXPECT_EQ(state("a"), ModelState::kUnloaded);
}

TEST_F(ModelManagerTest, AnIdleModelIsUnloadedAsItsTimeSays) {
  start({.idle_unload = {1h}, .defaults = {}}, {served("a"), served("b")});
  loaded("a");
  loaded("b");
  EXPECT_TRUE(manager_->find_exactly("a", kEveryModel)->expires.has_value());
  ModelManager::Waiter waiter{.gone = [] { return false; }, .tell = {}, .ready = [](auto) {}};
  EXPECT_NE(*manager_->use("a", KeepAlive{0ms}, std::move(waiter)), nullptr);
  EXPECT_TRUE(becomes("a", ModelState::kUnloaded));
  EXPECT_EQ(state("b"), ModelState::kLoaded);
}

TEST_F(ModelManagerTest, AModelThatIsUnloadedByNameIsLoadedAgainWhenItIsAsked) {
  start({.defaults = {}}, {served("a")});
  loaded("a");
  EXPECT_EQ(unload("a"), ModelState::kUnloaded);
  EXPECT_EQ(state("a"), ModelState::kUnloaded);
  EXPECT_TRUE(manager_->load("a", kEveryModel).has_value());
  EXPECT_TRUE(becomes("a", ModelState::kLoaded));
  EXPECT_EQ(manager_->unload("z", kEveryModel, [](ModelState) { ADD_FAILURE(); }).error().code, Code::kNotFound);
}

TEST_F(ModelManagerTest, UnloadingAModelThatIsBeingLoadedWaitsForTheLoadAndWhoeverWaitsForItHasIt) {
  const int64_t one = bytes_of_one();
  start({.memory_bytes = one + one / 2, .defaults = {}}, {served("a"), served("b")});
  SharedModel busy = loaded("a");  // b waits for it while it is being loaded
  std::promise<SharedModel> asked;
  const auto ready = [&](Result<SharedModel> model) { asked.set_value(model.value_or(nullptr)); };
  ASSERT_EQ(*manager_->use("b", std::nullopt, {.gone = [] { return false; }, .tell = {}, .ready = ready}), nullptr);
  ASSERT_TRUE(becomes("b", ModelState::kLoading));
  std::this_thread::sleep_for(50ms);  // the loader's thread has it
  auto unloaded = std::async(std::launch::async, [&] { return unload("b"); });
  EXPECT_EQ(unloaded.wait_for(200ms), std::future_status::timeout);
  busy.reset();
  EXPECT_EQ(unloaded.get(), ModelState::kUnloaded);
  EXPECT_NE(asked.get_future().get(), nullptr);
  EXPECT_EQ(state("b"), ModelState::kUnloaded);
}

TEST_F(ModelManagerTest, UnloadingAModelThatIsLoadedForNobodyStopsTheLoad) {
  const int64_t one = bytes_of_one();
  start({.memory_bytes = one + one / 2, .defaults = {}}, {served("a"), served("b")});
  const SharedModel busy = loaded("a");
  ASSERT_TRUE(manager_->load("b", kEveryModel).has_value());
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(unload("b"), ModelState::kUnloaded);
  EXPECT_EQ(state("a"), ModelState::kLoaded);
}

TEST_F(ModelManagerTest, TheFoldersAreLookedIntoAgainAtMostOnceInAnInterval) {
  start({.defaults = {}}, {served("a")});
  EXPECT_FALSE(manager_->look_again([] { ADD_FAILURE() << "there are no folders"; }));
  manager_->set_finder([this] { return manager_->set_models({served("a"), served("new")}); });
  std::promise<bool> there;
  ASSERT_TRUE(manager_->look_again([&] { there.set_value(manager_->find_exactly("new", kEveryModel).has_value()); }));
  EXPECT_TRUE(there.get_future().get());
  EXPECT_FALSE(manager_->look_again([] { ADD_FAILURE() << "it has just been looked"; }));
  std::this_thread::sleep_for(kLookAgainInterval + 50ms);
  std::promise<void> again;
  ASSERT_TRUE(manager_->look_again([&] { again.set_value(); }));
  again.get_future().get();
}

TEST_F(ModelManagerTest, AFileThatIsReplacedWhileItIsNotLoadedIsDescribedAnew) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(testing::TempDir()) / "model_manager_test";
  fs::create_directories(folder);
  const auto put = [&](const std::string& name) {
    fs::copy_file(std::string(test_data("/models/")) + name + ".gguf", folder / "new",
                  fs::copy_options::overwrite_existing);
    fs::rename(folder / "new", folder / "model.gguf");
  };
  const auto told = [&] {
    const ModelStatus status = *manager_->find_exactly("a", kEveryModel);
    return std::tuple(status.model().name, status.model().architecture, manager_->context_tokens(status),
                      (*manager_->facts(status))->vocabulary, manager_->list(kEveryModel)[0].model().context_tokens);
  };
  const auto expected = [](const std::string& name) {
    ServedModel other = served("a", name);
    other.options.model.context_tokens = 0;
    const CatalogModel described = other.model;
    const ModelFacts facts = *read_model_facts(described.path, other.options);
    return std::tuple(std::string("a"), described.architecture, described.context_tokens, facts.vocabulary,
                      described.context_tokens);
  };
  put("llama");
  ServedModel model = served("a");
  model.model = describe_file(folder / "model.gguf").value();
  model.model.name = "a";
  model.options.model.context_tokens = 0;
  start({.defaults = {}}, {std::move(model)});
  EXPECT_EQ(told(), expected("llama"));
  put("gemma2");
  EXPECT_EQ(told(), expected("gemma2"));
  put("llama");
  loaded("a");
  EXPECT_EQ(told(), expected("llama")) << "nothing was told between the replacing and the load";
  put("gemma2");
  EXPECT_EQ(told(), expected("llama")) << "it is loaded";
  EXPECT_EQ(unload("a"), ModelState::kUnloaded);
  EXPECT_EQ(told(), expected("gemma2"));
  fs::remove(folder / "model.gguf");
  EXPECT_EQ(told(), expected("gemma2")) << "there is nothing else to tell";
  fs::remove_all(folder);
}

TEST_F(ModelManagerTest, ErrorsOfALoadAreThoseOfWhoWaitsAndTheNextTryIsANewOne) {
  ServedModel broken = served("a");
  broken.model.path = "/nowhere/a.gguf";
  start({.defaults = {}}, {std::move(broken)});
  EXPECT_EQ(manager_->load_and_wait("a").error().code, Code::kNotFound);
  EXPECT_EQ(manager_->load_and_wait("a").error().code, Code::kNotFound);
}

TEST_F(ModelManagerTest, NobodyWaitsForAModelWhoseClientsHaveAllGone) {
  start({.defaults = {}}, {served("a")});
  ModelManager::Waiter gone{.gone = [] { return true; }, .tell = {}, .ready = [](auto) { ADD_FAILURE(); }};
  EXPECT_EQ(*manager_->use("a", std::nullopt, std::move(gone)), nullptr);
  EXPECT_TRUE(becomes("a", ModelState::kUnloaded));
}

TEST_F(ModelManagerTest, TheWaitingAreBounded) {
  const int64_t one = bytes_of_one();
  start({.memory_bytes = one + one / 2, .defaults = {}}, {served("a"), served("b")});
  const SharedModel busy = loaded("a");
  const auto wait = [&] {
    return manager_->use("b", std::nullopt, {.gone = [] { return false; }, .tell = {}, .ready = [](auto) {}});
  };
  for (size_t i = 0; i < kLoadWaitersMax; ++i) ASSERT_TRUE(wait().has_value());
  EXPECT_EQ(wait().error().code, Code::kQueueFull);
}

TEST_F(ModelManagerTest, ADefaultModelIsOfTheAskedKind) {
  start({.defaults = {}}, {served("first"), served("second"), served("vectors", "bert")});
  EXPECT_EQ(manager_->choose("", ModelKind::kChat, kEveryModel)->name, "first");
  EXPECT_EQ(manager_->choose("gpt-4o", ModelKind::kEmbedding, kEveryModel)->name, "vectors");
  EXPECT_TRUE(manager_->choose("gpt-4o", ModelKind::kEmbedding, kEveryModel)->is_default);
  loaded("second");
  EXPECT_EQ(manager_->choose("gpt-4o", ModelKind::kChat, kEveryModel)->name, "second") << "it is loaded already";
  EXPECT_EQ(manager_->choose("FIRST", ModelKind::kChat, kEveryModel)->name, "first");
  EXPECT_THAT(manager_->choose("", ModelKind::kReranking, kEveryModel).error().message,
              HasSubstr("first, second, vectors"));
}

TEST_F(ModelManagerTest, ADefaultForChatsIsTheLastUsedOrElseHasATemplate) {
  std::vector<ServedModel> models = {served("base"), served("told"), served("other")};
  models.front().model.kind = ModelKind::kText;
  start({.defaults = {}}, std::move(models));
  const auto chosen = [&] { return manager_->choose("gpt-4o", ModelKind::kChat, kEveryModel)->name; };
  EXPECT_EQ(chosen(), "told") << "the first one has no template";
  loaded("base");
  EXPECT_EQ(chosen(), "base");
  unload("base");
  EXPECT_EQ(chosen(), "base") << "it was still the last one";
  loaded("other");
  EXPECT_EQ(chosen(), "other");
}

TEST_F(ModelManagerTest, AModelThatCouldNotBeLoadedIsNotTheLastUsed) {
  std::vector<ServedModel> models = {served("first"), served("broken")};
  models[1].model.path = "none.gguf";
  start({.defaults = {}}, std::move(models));
  EXPECT_FALSE(manager_->load_and_wait("broken").has_value());
  EXPECT_EQ(manager_->choose("", ModelKind::kChat, kEveryModel)->name, "first");
}

TEST_F(ModelManagerTest, StrictModelsAreOnlyThoseOfTheName) {
  start({.strict = true, .defaults = {"second"}}, {served("first"), served("second")});
  const auto refused = manager_->choose("gpt-4o", ModelKind::kChat, kEveryModel);
  EXPECT_EQ(refused.error().code, Code::kNotFound);
  EXPECT_THAT(refused.error().message, HasSubstr("first, second"));
  EXPECT_EQ(manager_->choose("", ModelKind::kChat, kEveryModel)->name, "second");
}

TEST_F(ModelManagerTest, TwoModelsOfOneNameAreRefusedAndAModelThatLeavesTheListIsUnloaded) {
  start({.defaults = {}}, {served("a"), served("b")});
  EXPECT_FALSE(manager_->set_models({served("c"), served("c")}).has_value());
  loaded("a");
  loaded("b");
  ASSERT_TRUE(manager_->set_models({served("b"), served("d")}).has_value());
  EXPECT_EQ(registry_.list(kEveryModel).size(), 1U);
  EXPECT_EQ(state("b"), ModelState::kLoaded);
  EXPECT_EQ(manager_->find_exactly("a", kEveryModel).error().code, Code::kNotFound);
}

}  // namespace
}  // namespace cairn::loader
