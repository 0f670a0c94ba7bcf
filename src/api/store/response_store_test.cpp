#include "api/store/response_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "api/errors.h"
#include "api/serialization/json_text.h"
#include "api/store/file.h"
#include "base/hash.h"

namespace cairn::api {
namespace {

size_t bytes_read = 0;

using nlohmann::ordered_json;
using testing::HasSubstr;

class StoreTest : public testing::Test {
 protected:
  StoreTest() {
    folder_ = std::filesystem::temp_directory_path() /
              fmt::format("cairn-store-{}-{}", ::getpid(), testing::UnitTest::GetInstance()->random_seed());
    std::filesystem::create_directories(folder_);
  }
  ~StoreTest() override { std::filesystem::remove_all(folder_); }

  std::string path() const { return folder_ / "responses.db"; }
  static Result<std::unique_ptr<ResponseStore>> open(const std::string& path, const ResponseStoreLimits& limits = {}) {
    CAIRN_TRY(auto file, StoreFile::open(path));
    return ResponseStore::open(std::move(file), limits);
  }
  std::unique_ptr<ResponseStore> open(const ResponseStoreLimits& limits = {}) const {
    auto store = open(path(), limits);
    EXPECT_TRUE(store.has_value()) << store.error().text();
    return store ? std::move(*store) : nullptr;
  }
  Error open_error() const {
    auto store = open(path());
    EXPECT_FALSE(store.has_value());
    return store ? Error{} : store.error();
  }
  std::filesystem::path folder_;
};

ordered_json item(const std::string& id, const std::string& text) {
  return {{"type", "message"}, {"id", id}, {"role", "user"}, {"content", text}};
}

StoredResponse response(const std::string& id, const std::string& previous = "", const std::string& tenant = "me") {
  return {tenant,
          previous,
          {{"id", id}, {"status", "completed"}, {"output", ordered_json::array({item("out_" + id, "answer")})}},
          ordered_json::array({item("in_" + id, "question")})};
}

template <class T>
Code code_of(const Result<T>& result) {
  EXPECT_FALSE(result.has_value());
  return result ? Code::kInternal : result.error().code;
}

std::vector<std::string> ids(const Result<ordered_json>& items) {
  EXPECT_TRUE(items.has_value()) << items.error().text();
  std::vector<std::string> ids;
  if (items)
    for (const auto& one : *items) ids.push_back(one["id"]);
  return ids;
}

TEST_F(StoreTest, KeepsResponsesAcrossReopening) {
  const StoredResponse kept = response("a");
  ASSERT_TRUE(open()->put(kept));
  const auto store = open();
  EXPECT_EQ(store->response("me", "a").value(), kept.response);
  EXPECT_EQ(store->input("me", "a").value(), kept.input);
  EXPECT_EQ(store->item("me", "in_a", bytes_read).value(), kept.input[0]);
  EXPECT_EQ(store->item("me", "out_a", bytes_read).value(), kept.response["output"][0]);
}

TEST_F(StoreTest, NobodyElseFindsThem) {
  const auto store = open();
  ASSERT_TRUE(store->put(response("a")));
  ASSERT_TRUE(store->put(response("b", "", "")));
  EXPECT_EQ(code_of(store->response("you", "a")), Code::kNotFound);
  EXPECT_EQ(code_of(store->response("", "a")), Code::kNotFound);
  EXPECT_EQ(code_of(store->response("me", "b")), Code::kNotFound);
  EXPECT_EQ(code_of(store->input("you", "a")), Code::kNotFound);
  EXPECT_EQ(code_of(store->item("you", "in_a", bytes_read)), Code::kNotFound);
  EXPECT_EQ(code_of(store->history("you", "a")), Code::kNotFound);
  EXPECT_EQ(code_of(store->remove("you", "a")), Code::kNotFound);
  EXPECT_TRUE(store->response("me", "a"));
  EXPECT_TRUE(store->response("", "b"));
}

TEST_F(StoreTest, AChainIsToldFromItsBeginning) {
  const auto store = open();
  ASSERT_TRUE(store->put(response("a")));
  ASSERT_TRUE(store->put(response("b", "a")));
  ASSERT_TRUE(store->put(response("c", "b")));
  ASSERT_TRUE(store->put(response("other", "a")));
  EXPECT_THAT(ids(store->history("me", "c")), testing::ElementsAre("in_a", "out_a", "in_b", "out_b", "in_c", "out_c"));
  EXPECT_THAT(ids(store->history("me", "other")), testing::ElementsAre("in_a", "out_a", "in_other", "out_other"));
  ASSERT_TRUE(store->remove("me", "b"));
  const auto broken = store->history("me", "c");
  ASSERT_FALSE(broken.has_value());
  EXPECT_EQ(broken.error().code, Code::kNotFound);
  EXPECT_THAT(broken.error().message, HasSubstr("\"b\", which \"c\" goes on from"));
  EXPECT_EQ(code_of(store->item("me", "out_b", bytes_read)), Code::kNotFound);
  EXPECT_EQ(code_of(store->remove("me", "b")), Code::kNotFound);
}

TEST_F(StoreTest, AChainHasBounds) {
  const auto store = open({.chain_max = 3});
  std::string previous;
  for (const char* id : {"a", "b", "c", "d"}) {
    ASSERT_TRUE(store->put(response(id, previous)));
    previous = id;
  }
  EXPECT_EQ(ids(store->history("me", "c")).size(), 6u);
  EXPECT_EQ(code_of(store->history("me", "d")), Code::kTooLarge);
  EXPECT_EQ(code_of(open({.history_bytes_max = 300})->history("me", "c")), Code::kTooLarge);
}

TEST_F(StoreTest, AResponseHasABound) {
  const auto store = open({.response_bytes_max = 1'000});
  StoredResponse large = response("a");
  large.response["output"][0]["content"] = std::string(1'000, 'x');
  EXPECT_EQ(code_of(store->put(large)), Code::kTooLarge);
  EXPECT_TRUE(store->put(response("a")));
}

TEST_F(StoreTest, TheOldestGoWhenThereAreTooMany) {
  const auto store = open({.responses_max = 2});
  for (const char* id : {"a", "b", "c"}) ASSERT_TRUE(store->put(response(id)));
  EXPECT_EQ(code_of(store->response("me", "a")), Code::kNotFound);
  EXPECT_EQ(code_of(store->item("me", "in_a", bytes_read)), Code::kNotFound);
  EXPECT_TRUE(store->response("me", "b"));
  EXPECT_TRUE(store->response("me", "c"));
}

TEST_F(StoreTest, TheOldestGoWhenTheFileIsTooLarge) {
  constexpr int64_t kBytesMax = 1 << 20;
  const auto store = open({.file_bytes_max = kBytesMax});
  StoredResponse large = response("");
  large.response["output"][0]["content"] = std::string(200'000, 'x');
  for (int i = 0; i < 20; ++i) {
    large.response["id"] = std::to_string(i);
    ASSERT_TRUE(store->put(large));
  }
  EXPECT_EQ(code_of(store->response("me", "12")), Code::kNotFound);
  EXPECT_TRUE(store->response("me", "16"));
  EXPECT_TRUE(store->response("me", "19"));
  EXPECT_LT(std::filesystem::file_size(path()), 2 * kBytesMax);
}

TEST_F(StoreTest, IsWholeAfterAKill) {
  int written[2];
  ASSERT_EQ(::pipe(written), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    auto store = open(path());
    for (int i = 0; store.has_value(); ++i) {
      if (!(*store)->put(response(std::to_string(i), i == 0 ? "" : std::to_string(i - 1)))) break;
      if (::write(written[1], &i, sizeof i) != sizeof i) break;
    }
    ::_exit(1);
  }
  ::close(written[1]);
  int last = -1;
  while (last < 300 && ::read(written[0], &last, sizeof last) == sizeof last) {
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  while (::read(written[0], &last, sizeof last) == sizeof last) {
  }
  ::close(written[0]);
  ASSERT_GE(last, 300);
  const auto store = open();
  EXPECT_EQ(ids(store->history("me", std::to_string(last))).size(), 2u * (static_cast<size_t>(last) + 1));
  EXPECT_TRUE(store->put(response("after")));
}

TEST_F(StoreTest, SaysWhatIsWrongWithAFile) {
  std::ofstream(path()) << std::string(8'192, 'x');
  EXPECT_EQ(open_error().code, Code::kCorruptFile);
  EXPECT_THAT(open_error().message, HasSubstr(path()));
  std::filesystem::remove(path());

  {
    const auto database = open_database(path());
    ASSERT_TRUE(database.has_value());
    ASSERT_TRUE(execute(database->get(), path(), "CREATE TABLE photos(id)"));
  }
  EXPECT_EQ(open_error().code, Code::kInvalidArgument);
  EXPECT_THAT(open_error().message, HasSubstr("another program"));
  std::filesystem::remove(path());

  (void)open();
  {
    const auto database = open_database(path());
    ASSERT_TRUE(execute(database->get(), path(), "PRAGMA user_version = 3"));
  }
  EXPECT_THAT(open_error().message, HasSubstr("has version 3"));

  const auto nowhere = open(folder_ / "no" / "such.db");
  ASSERT_FALSE(nowhere.has_value());
  EXPECT_EQ(nowhere.error().code, Code::kIo);
  EXPECT_THAT(nowhere.error().message, HasSubstr("is its folder there"));
}

TEST_F(StoreTest, DamageIsAnErrorAndNoCrash) {
  {
    const auto store = open();
    for (int i = 0; i < 200; ++i) ASSERT_TRUE(store->put(response(std::to_string(i))));
  }
  const auto bytes = std::filesystem::file_size(path());
  std::fstream file(path(), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(4'096);  // all but the first page
  for (uintmax_t at = 4'096; at < bytes; ++at) file.put('\x5a');
  file.close();
  auto store = open(path());
  if (!store) {
    EXPECT_EQ(store.error().code, Code::kCorruptFile);
    return;
  }
  EXPECT_EQ(code_of((*store)->response("me", "100")), Code::kCorruptFile);
  EXPECT_EQ(code_of((*store)->put(response("new"))), Code::kCorruptFile);
}

TEST_F(StoreTest, ADamagedRowIsNamedAndCanBeRemoved) {
  const auto store = open();
  const auto database = open_database(path());
  ASSERT_TRUE(database.has_value());
  for (const char* damage : {"input = '[{}]'", "input = '[]'", "input = '{'", "input = 7", "response = '{}'",
                             "response = 'null'", "response = '[[[['", "response = x'00ff'", "previous = 'another'",
                             "response = replace(response, 'answer', 'answes')", "checksum = 0"}) {
    ASSERT_TRUE(store->put(response("a")));
    ASSERT_TRUE(store->put(response("b", "a")));
    const std::string sql = fmt::format("UPDATE responses SET {} WHERE id = 'a'", damage);
    ASSERT_TRUE(execute(database->get(), path(), sql.c_str()));
    for (const auto& read : {store->response("me", "a"), store->input("me", "a"), store->item("me", "in_a", bytes_read),
                             store->item("me", "out_a", bytes_read), store->history("me", "b")}) {
      ASSERT_FALSE(read.has_value()) << damage;
      EXPECT_EQ(read.error().code, Code::kCorruptFile) << damage;
      EXPECT_THAT(read.error().message, HasSubstr("holds a damaged response: \"a\"")) << damage;
    }
    EXPECT_TRUE(store->response("me", "b"));
    EXPECT_TRUE(store->remove("me", "a"));
    EXPECT_TRUE(store->remove("me", "b"));
  }
}

// A row with the checksum that it should have, and what put() never writes.
TEST_F(StoreTest, ARowOfAnotherShapeIsNamed) {
  const auto store = open();
  ASSERT_TRUE(store->put(response("a")));
  const auto database = open_database(path());
  ASSERT_TRUE(database.has_value());
  for (const std::string input : {"[{}]", "{}", "[1]", "[{\"id\":2}]"}) {
    const std::string text = dump(response("a").response);
    uint64_t hash = 0;
    for (const std::string_view part : {std::string_view("me"), std::string_view("a"), std::string_view(),
                                        std::string_view(text), std::string_view(input)})
      hash = hash64(part, hash);
    const std::string sql =
        fmt::format("UPDATE responses SET input = '{}', checksum = {}", input, static_cast<int64_t>(hash));
    ASSERT_TRUE(execute(database->get(), path(), sql.c_str()));
    EXPECT_EQ(code_of(store->input("me", "a")), Code::kCorruptFile) << input;
    EXPECT_EQ(code_of(store->history("me", "a")), Code::kCorruptFile) << input;
  }
}

TEST_F(StoreTest, OnlyTheOwnerCanReadWhatIsMade) {
  const mode_t before = ::umask(0);
  const auto store = open();
  ASSERT_TRUE(store->put(response("a")));
  ::umask(before);
  for (const char* suffix : {"", "-wal", "-shm"}) {
    const auto mode = std::filesystem::status(path() + suffix).permissions();
    EXPECT_EQ(mode, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write) << suffix;
  }
}

TEST_F(StoreTest, NamesThatSqliteTakesForNoFileAreRefused) {
  for (const char* name : {"", ":memory:", "file:x?mode=memory"}) {
    const auto store = open(std::string(name));
    ASSERT_FALSE(store.has_value()) << name;
    EXPECT_EQ(store.error().code, Code::kInvalidArgument);
    EXPECT_THAT(store.error().message, HasSubstr("names no file for --store"));
  }
}

TEST_F(StoreTest, NothingIsStoredInAFileThatWasDeletedOrReplaced) {
  for (const char* suffix : {"", "-wal"}) {
    const auto store = open();
    ASSERT_TRUE(store->put(response("a")));
    std::filesystem::remove(path() + suffix);
    const auto deleted = store->put(response("b"));
    ASSERT_FALSE(deleted.has_value()) << suffix;
    EXPECT_EQ(deleted.error().code, Code::kIo);
    EXPECT_THAT(deleted.error().message, HasSubstr("has been deleted or replaced"));
    std::ofstream(path() + suffix) << "another file";
    EXPECT_EQ(code_of(store->put(response("c"))), Code::kIo) << suffix;
    for (const char* made : {"", "-wal", "-shm"}) std::filesystem::remove(path() + made);
  }
}

}  // namespace
}  // namespace cairn::api
