#include "api/store/turn_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "api/store/file.h"
#include "api/store/response_store.h"
#include "base/hash.h"

namespace cairn::api {
namespace {

using nlohmann::ordered_json;

const chat::CacheScope kLargeScope{.id = 0xF000'0000'0000'0001, .tenant = "me"};

class TurnStoreTest : public testing::Test {
 protected:
  TurnStoreTest() {
    folder_ = std::filesystem::temp_directory_path() /
              fmt::format("cairn-turns-{}-{}", ::getpid(), testing::UnitTest::GetInstance()->random_seed());
    std::filesystem::create_directories(folder_);
  }
  ~TurnStoreTest() override { std::filesystem::remove_all(folder_); }

  std::string path() const { return folder_ / "store.db"; }
  std::shared_ptr<StoreFile> open_file() const {
    auto file = StoreFile::open(path());
    EXPECT_TRUE(file.has_value()) << file.error().text();
    return file ? *file : nullptr;
  }
  std::unique_ptr<chat::TurnStore> open(const TurnStoreLimits& limits = {}) const {
    auto store = open_turn_store(open_file(), limits);
    EXPECT_TRUE(store.has_value()) << store.error().text();
    return store ? std::move(*store) : nullptr;
  }
  /// What somebody else does with the file.
  void run(const std::string& sql) const {
    const auto database = open_database(path());
    ASSERT_TRUE(database.has_value());
    const auto done = execute(database->get(), path(), sql.c_str());
    ASSERT_TRUE(done.has_value()) << done.error().text();
  }
  std::filesystem::path folder_;
};

chat::SampledTurn calling_turn(const std::string& call, size_t tokens = 3) {
  return {{"Let me see.", "Hm.", {{call, "add", R"({"a":  1})"}, {call + "-2", "now", "{}"}}},
          std::vector<TokenId>(tokens, TokenId{500}),
          2};
}

ordered_json message_of(const chat::SampledTurn& turn) {
  ordered_json message = {{"role", "assistant"}, {"content", turn.turn.content}};
  for (const chat::ToolCall& call : turn.turn.calls) {
    const auto arguments = ordered_json::parse(call.arguments).dump(1);  // as a client writes it that has parsed it
    message["tool_calls"].push_back({{"id", call.id}, {"function", {{"name", call.name}, {"arguments", arguments}}}});
  }
  return message;
}

bool has(chat::TurnStore& store, const std::string& call, const chat::CacheScope& scope = kLargeScope) {
  const auto found = store.find(scope, call);
  EXPECT_TRUE(found.has_value()) << found.error().text();
  return found && found->has_value();
}

TEST_F(TurnStoreTest, KeepsTurnsAcrossReopening) {
  chat::SampledTurn kept = calling_turn("call_1");
  kept.tokens = {TokenId{7}, TokenId{0}, TokenId{151'000}};
  ASSERT_TRUE(open()->put(kLargeScope, kept));
  const auto found = open()->find(kLargeScope, "call_1");
  ASSERT_TRUE(found.has_value() && found->has_value());
  const chat::SampledTurn& turn = **found;
  EXPECT_EQ(turn.tokens, kept.tokens);
  EXPECT_EQ(turn.thinking_end, 2u);
  EXPECT_EQ(turn.turn.content, "Let me see.");
  EXPECT_EQ(turn.turn.reasoning, "Hm.");
  ASSERT_EQ(turn.turn.calls.size(), 2u);
  EXPECT_EQ(turn.turn.calls[0].id, "call_1");
  EXPECT_EQ(turn.turn.calls[0].name, "add");
  EXPECT_EQ(turn.turn.calls[0].arguments, R"({"a":  1})");
  kept.thinking_end = chat::kNoThinkingEnd;
  ASSERT_TRUE(open()->put(kLargeScope, kept)) << "the same call again takes the place of the first";
  EXPECT_EQ(open()->find(kLargeScope, "call_1").value()->thinking_end, chat::kNoThinkingEnd);
}

TEST_F(TurnStoreTest, NobodyElseFindsThem) {
  const auto store = open();
  ASSERT_TRUE(store->put(kLargeScope, calling_turn("call_1")));
  EXPECT_TRUE(has(*store, "call_1"));
  EXPECT_FALSE(has(*store, "call_1-2")) << "a turn is found by its first call";
  EXPECT_FALSE(has(*store, "call_1", {.id = kLargeScope.id, .tenant = ""}));
  EXPECT_FALSE(has(*store, "call_1", {.id = kLargeScope.id + 1, .tenant = "me"}));
}

TEST_F(TurnStoreTest, TheOldestGoWhenThereAreTooMany) {
  const auto store = open({.turns_max = 2});
  for (const char* call : {"a", "b", "a", "c"}) ASSERT_TRUE(store->put(kLargeScope, calling_turn(call)));
  EXPECT_FALSE(has(*store, "b"));
  EXPECT_TRUE(has(*store, "a"));
  EXPECT_TRUE(has(*store, "c"));
}

TEST_F(TurnStoreTest, TheOldestGoWhenTheyAreTooLarge) {
  const auto store = open({.bytes_max = 10'000});
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(store->put(kLargeScope, calling_turn(std::to_string(i), 1'000)));
  EXPECT_FALSE(has(*store, "7"));
  EXPECT_TRUE(has(*store, "8"));
  EXPECT_TRUE(has(*store, "9"));
  // The bound counts what is there, also after a restart; one that is over it alone stays until the next.
  ASSERT_TRUE(open({.bytes_max = 10'000})->put(kLargeScope, calling_turn("large", 10'000)));
  EXPECT_FALSE(has(*store, "9"));
  EXPECT_TRUE(has(*store, "large"));
}

TEST_F(TurnStoreTest, CountsThatAreNoneOnlyCostTheTurns) {
  const auto store = open();
  for (const char* count : {"9223372036854775807", "-9223372036854775807", "'many'"}) {
    run("DELETE FROM turns");
    ASSERT_TRUE(store->put(kLargeScope, calling_turn("old")));
    run(fmt::format("UPDATE turns SET bytes_before = {0}, bytes = {0}, number = -9223372036854775807", count));
    ASSERT_TRUE(store->put(kLargeScope, calling_turn("new")));
    EXPECT_FALSE(has(*store, "old"));
    EXPECT_TRUE(has(*store, "new"));
  }
}

TEST_F(TurnStoreTest, DamagedRowsAreLeftOut) {
  const std::string text =
      R"({"content":"","reasoning":"","calls":[{"id":"x","name":"add","arguments":"{}"}],"thinking_end":0})";
  const std::string whole = "05000000";
  const auto sums = [&](const std::string& row, const std::string& tokens) {
    std::vector<std::byte> bytes;
    for (size_t i = 0; i < tokens.size(); i += 2)
      bytes.push_back(static_cast<std::byte>(std::stoi(tokens.substr(i, 2), nullptr, 16)));
    return static_cast<int64_t>(hash64(bytes, hash64(row, kLargeScope.id)));
  };
  const auto written = [&](const std::string& row, const std::string& tokens, int64_t checksum) {
    (void)open()->put(kLargeScope, calling_turn("x"));
    run(fmt::format("UPDATE turns SET turn = '{}', tokens = x'{}', checksum = {}", row, tokens, checksum));
    return open()->find(kLargeScope, "x");
  };
  const auto sound = written(text, whole, sums(text, whole));
  ASSERT_TRUE(sound.has_value() && sound->has_value()) << "the rows below are only wrong in what they mean to be";
  EXPECT_EQ((**sound).tokens, std::vector{TokenId{5}});

  struct Row {
    std::string text, tokens;
  };
  const Row alien[] = {
      {"", whole},
      {"[1]", whole},
      {"{\"content\":5}", whole},
      {R"({"content":"","reasoning":"","calls":[5],"thinking_end":0})", whole},
      {R"({"content":"","reasoning":"","calls":[],"thinking_end":-1})", whole},
      {R"({"content":"","reasoning":"","calls":{},"thinking_end":0})", whole},
      {text, ""},
      {text, "050000"},
      {text, "FFFFFFFF"},
  };
  for (const Row& row : alien) {
    const auto found = written(row.text, row.tokens, sums(row.text, row.tokens));
    ASSERT_FALSE(found.has_value()) << row.text << row.tokens;
    EXPECT_EQ(found.error().code, Code::kCorruptFile);
    EXPECT_FALSE(has(*open(), "x")) << "it is forgotten";
  }
  EXPECT_FALSE(written(text, "06000000", sums(text, whole)).has_value()) << "the checksum is of other tokens";
}

/// What SampledTurnCache::keep leaves to be done.
void store(const std::function<void()>& work) {
  if (work) work();
}

TEST_F(TurnStoreTest, ATurnIsFoundAgainAfterARestart) {
  const chat::SampledTurn turn = calling_turn("call_1");
  const chat::SampledTurn private_turn = calling_turn("call_2");
  const chat::SampledTurn plain{{"Hello.", "", {}}, {TokenId{1}}, 0};
  {
    chat::SampledTurnCache turns;
    turns.set_store(open());
    store(turns.keep(kLargeScope, turn));
    store(turns.keep(kLargeScope, private_turn, false));
    store(turns.keep(kLargeScope, plain));
    EXPECT_NE(turns.find(kLargeScope, message_of(private_turn)), nullptr);
  }
  chat::SampledTurnCache turns;
  EXPECT_EQ(turns.find(kLargeScope, message_of(turn)), nullptr);
  turns.set_store(open());
  const auto found = turns.find(kLargeScope, message_of(turn));
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->tokens, turn.tokens);
  EXPECT_EQ(turns.size(), 1u);
  EXPECT_EQ(turns.find(kLargeScope, message_of(turn)), found) << "from memory";
  ordered_json changed = message_of(turn);
  changed["tool_calls"][0]["function"]["arguments"] = R"({"a": 2})";
  EXPECT_EQ(turns.find(kLargeScope, changed), nullptr);
  EXPECT_EQ(turns.find(kLargeScope, message_of(private_turn)), nullptr);
  chat::TurnSource source{};
  const auto text = turns.find(kLargeScope, message_of(plain), &source);
  ASSERT_NE(text, nullptr) << "by its text";
  EXPECT_EQ(text->tokens, plain.tokens);
  EXPECT_EQ(source, chat::TurnSource::kStore);
  turns.find(kLargeScope, message_of(plain), &source);
  EXPECT_EQ(source, chat::TurnSource::kMemory);
  ordered_json other = message_of(plain);
  other["content"] = "Hello!";
  EXPECT_EQ(turns.find(kLargeScope, other), nullptr);
}

TEST_F(TurnStoreTest, ADamagedFileOnlyForgets) {
  chat::SampledTurnCache turns;
  turns.set_store(open());
  store(turns.keep(kLargeScope, calling_turn("call_1")));
  run("UPDATE turns SET checksum = checksum + 1");
  chat::SampledTurnCache restarted;
  restarted.set_store(open());
  EXPECT_EQ(restarted.find(kLargeScope, message_of(calling_turn("call_1"))), nullptr);
  run("DROP TABLE turns");
  EXPECT_EQ(restarted.find(kLargeScope, message_of(calling_turn("call_1"))), nullptr);
  store(restarted.keep(kLargeScope, calling_turn("call_1")));
  EXPECT_NE(restarted.find(kLargeScope, message_of(calling_turn("call_1"))), nullptr) << "memory goes on";
}

TEST_F(TurnStoreTest, AnOlderFileHoldsTurnsToo) {
  {
    auto made = ResponseStore::open(open_file());
    ASSERT_TRUE(made.has_value());
    ASSERT_TRUE((*made)->put({"me", "", {{"id", "a"}, {"output", ordered_json::array()}}, ordered_json::array()}));
  }
  run("DROP TABLE turns");
  const auto file = open_file();
  auto turns = open_turn_store(file);
  auto responses = ResponseStore::open(file);
  ASSERT_TRUE(turns.has_value() && responses.has_value());
  EXPECT_TRUE((*turns)->put(kLargeScope, calling_turn("call_1")));
  EXPECT_TRUE(has(**turns, "call_1"));
  EXPECT_EQ((*responses)->response("me", "a").value()["id"], "a");
}

TEST_F(TurnStoreTest, ADeletedResponseTakesItsCallsWithIt) {
  const auto file = open_file();
  auto turns = open_turn_store(file);
  auto responses = ResponseStore::open(file);
  ASSERT_TRUE(turns.has_value() && responses.has_value());
  const chat::CacheScope other{.id = kLargeScope.id, .tenant = "you"};
  for (const char* call : {"call_1", "call_2"}) ASSERT_TRUE((*turns)->put(kLargeScope, calling_turn(call)));
  ASSERT_TRUE((*turns)->put(other, calling_turn("call_1")));
  const ordered_json item = {{"id", "fc_1"}, {"type", "function_call"}, {"call_id", "call_1"}};
  const StoredResponse response{
      "me", "", {{"id", "a"}, {"output", ordered_json::array({item})}}, ordered_json::array()};
  ASSERT_TRUE((*responses)->put(response));
  ASSERT_TRUE((*responses)->remove("me", "a"));
  EXPECT_FALSE(has(**turns, "call_1"));
  EXPECT_TRUE(has(**turns, "call_2"));
  EXPECT_TRUE(has(**turns, "call_1", other));
}

}  // namespace
}  // namespace cairn::api
