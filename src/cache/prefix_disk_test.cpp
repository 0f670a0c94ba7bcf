// The prefix cache and its disk tier: whatever kinds of pages a model has, a later process resumes with the right ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "cache/disk/testing/memory_files.h"
#include "cache/testing/prefix_cache_fixture.h"

namespace cairn::cache {
namespace {

struct Layout {
  const char* name;
  std::vector<KvGroup> groups;
};
void PrintTo(const Layout& layout, std::ostream* out) { *out << layout.name; }

/// One process: a cache and its disk tier, whose work is done by hand.
struct Process {
  Process(disk::MemoryDisk& files, const std::vector<KvGroup>& groups, int32_t pages = 64)
      : cache(groups, std::vector<int32_t>(groups.size(), pages)) {
    auto layer = std::make_unique<disk::MemoryFiles>(files);
    auto store = disk::PageStore::open(*layer, "/kv", {}).value();
    worker = std::make_shared<disk::DiskWorker>(std::move(layer), std::move(store));
    tier = disk::DiskTier::create(worker, cache.pool().layout(), "a model", "{}").value();
    EXPECT_TRUE(cache.cache().use_disk(*tier).has_value());
  }
  void write() {
    while (worker->write_step()) continue;
  }
  void save_all() {
    cache.cache().save_all([] { return true; });
    write();
  }
  LabSequence sequence(std::vector<TokenId> tokens, uint64_t salt = 0) {
    LabSequence made = cache.sequence(std::move(tokens), salt);
    made.cursor.keeps_on_disk = true;
    made.cursor.owner = salt;
    return made;
  }
  /// Computes and leaves; returns how many tokens were found in memory.
  int32_t run(std::vector<TokenId> tokens, uint64_t salt = 0) {
    LabSequence made = sequence(std::move(tokens), salt);
    const int32_t found = cache.run(made, 48).tokens;
    cache.cache().leave(made.cursor, made.tokens, made.computed, made.table);
    return found;
  }
  /// Finds what memory has, loads what the disk has beyond, and checks every row; returns the position reached.
  int32_t load(LabSequence& made) {
    const int32_t all = static_cast<int32_t>(made.tokens.size());
    cache.resume(made, all - 1);
    disk::DiskMatch match = cache.cache().find_on_disk(made.cursor, made.tokens, all - 1);
    if (match.tokens <= made.computed) return made.computed;
    EXPECT_TRUE(cache.cache().make_places(made.cursor, match, made.table));
    const int32_t tokens = match.tokens;
    const auto load = tier->load(std::move(match));
    while (worker->read_step()) {
      while (const auto page = worker->take(*load)) {
        cache.pool().write(page->group, page->bytes.data(), made.table.groups[page->group].at(page->place));
      }
    }
    EXPECT_TRUE(worker->is_done(*load));
    made.computed = tokens;
    cache.advance(made);
    return tokens;
  }
  int32_t load(std::vector<TokenId> tokens, uint64_t salt = 0) {
    LabSequence made = sequence(std::move(tokens), salt);
    const int32_t found = load(made);
    EXPECT_TRUE(cache.reserve(made, 1));
    cache.compute(made, 1);
    cache.verify(made);
    cache.cache().leave(made.cursor, made.tokens, made.computed, made.table);
    cache.verify_references({});
    return found;
  }

  PrefixCacheFixture cache;
  std::shared_ptr<disk::DiskWorker> worker;
  std::unique_ptr<disk::DiskTier> tier;
};

class PrefixDisk : public testing::TestWithParam<Layout> {
 protected:
  bool has(KvKind kind) const {
    return std::ranges::any_of(GetParam().groups, [=](const KvGroup& g) { return g.kind == kind; });
  }
  disk::MemoryDisk files_;
};

TEST_P(PrefixDisk, AConversationGoesOnWhereTheLastProcessEnded) {
  const std::vector<TokenId> first = counting(1, 300);
  {
    Process process(files_, GetParam().groups);
    process.run(first);
    process.save_all();
  }
  Process next(files_, GetParam().groups);
  const std::vector<TokenId> second = first + counting(1'000, 40);
  EXPECT_EQ(next.load(second), 300) << "the end of the conversation, in the middle of a page";
  EXPECT_EQ(next.worker->store().counts().damaged, 0);
  // What was loaded is in memory for others.
  LabSequence again = next.sequence(second);
  EXPECT_GE(next.cache.resume(again, 339).tokens, 300);
  next.cache.cache().leave(again.cursor, again.tokens, again.computed, again.table);
}

TEST_P(PrefixDisk, PagesAreWrittenOnce) {
  Process process(files_, GetParam().groups);
  LabSequence made = process.sequence(counting(1, 320));
  process.cache.run(made);
  EXPECT_EQ(process.cache.cache().save(made.cursor, 0, 256), 256);
  process.write();
  const disk::StoreCounts once = process.worker->store().counts();
  EXPECT_EQ(once.pages, 8 * std::ranges::count_if(GetParam().groups, [](const KvGroup& g) {
                          return g.kind == KvKind::kFull || g.kind == KvKind::kLatent;
                        }));
  process.cache.cache().save(made.cursor, 0, 256);
  process.write();
  EXPECT_EQ(process.worker->store().counts().bytes_written, once.bytes_written);
  process.cache.cache().leave(made.cursor, made.tokens, made.computed, made.table);
}

TEST_P(PrefixDisk, ARequestThatKeepsNothingOnDiskLeavesNothingThere) {
  {
    Process process(files_, GetParam().groups);
    LabSequence secret = process.cache.sequence(counting(1, 320));
    process.cache.run(secret);
    process.cache.cache().save(secret.cursor, 0, 320);
    process.cache.cache().save_boundary(secret.cursor, 320, true);
    process.cache.cache().leave(secret.cursor, secret.tokens, secret.computed, secret.table);
    process.save_all();
    EXPECT_EQ(process.worker->store().counts().bytes_written, 0);
  }
  Process next(files_, GetParam().groups);
  EXPECT_EQ(next.load(counting(1, 330)), 0);
}

TEST_P(PrefixDisk, AKilledProcessLeavesWhatWasSaved) {
  {
    Process process(files_, GetParam().groups);
    LabSequence made = process.sequence(counting(1, 400));
    process.cache.run(made, 64);
    process.cache.cache().save(made.cursor, 0, 384);
    process.cache.cache().save_boundary(made.cursor, 320, true);
    process.write();
    process.cache.cache().leave(made.cursor, made.tokens, made.computed, made.table);
  }
  Process next(files_, GetParam().groups);
  const int32_t expected = has(KvKind::kWindow) || has(KvKind::kState) ? 320 : 384;
  EXPECT_EQ(next.load(counting(1, 400)), expected);
}

TEST_P(PrefixDisk, EvictedPagesComeBack) {
  Process process(files_, GetParam().groups, 16);
  for (int32_t round = 0; round < 3; ++round) {
    for (int32_t i = 0; i < 5; ++i) {
      LabSequence made = process.sequence(counting(1 + i * 1'000, 200 + round * 30));
      const int32_t found = process.load(made);
      if (round > 0) {
        EXPECT_GE(found, 200 + (round - 1) * 30 - 40) << round << " " << i;
      }
      while (made.computed < static_cast<int32_t>(made.tokens.size())) {
        const int32_t rows = std::min(32, static_cast<int32_t>(made.tokens.size()) - made.computed);
        ASSERT_TRUE(process.cache.reserve(made, rows));
        process.cache.compute(made, rows);
        process.cache.advance(made);
        process.write();
      }
      process.cache.cache().leave(made.cursor, made.tokens, made.computed, made.table);
      process.write();
    }
  }
  process.cache.verify_references({});
  EXPECT_GT(process.worker->store().counts().bytes_read, 0);
}

TEST_P(PrefixDisk, TenantsNeverShareAPrefix) {
  {
    Process process(files_, GetParam().groups, 64);
    for (int32_t i = 0; i < 1'000; ++i) process.run(counting(1 + i, 64), 1);
    process.save_all();
  }
  Process next(files_, GetParam().groups, 64);
  int32_t own = 0;
  for (int32_t i = 0; i < 1'000; ++i) {
    LabSequence theirs = next.sequence(counting(1 + i, 80), 2);
    const disk::DiskMatch match = next.cache.cache().find_on_disk(theirs.cursor, theirs.tokens, 79);
    ASSERT_EQ(match.tokens, 0) << i;
    ASSERT_EQ(match.tokens_with_pages, has(KvKind::kFull) || has(KvKind::kLatent) ? 0 : 64);
    LabSequence ours = next.sequence(counting(1 + i, 80), 1);
    own += next.cache.cache().find_on_disk(ours.cursor, ours.tokens, 79).tokens == 64 ? 1 : 0;
  }
  EXPECT_GT(own, 900);
}

TEST_P(PrefixDisk, RandomConversationsOfManyProcessesReadOnlyWhatIsRight) {
  std::mt19937 random(44);
  const auto pick = [&](int32_t low, int32_t high) {
    return std::uniform_int_distribution<int32_t>(low, high)(random);
  };
  std::vector<std::vector<TokenId>> talks(6);
  int64_t found = 0;
  for (int process_number = 0; process_number < 12; ++process_number) {
    Process process(files_, GetParam().groups, pick(20, 40));
    for (int turn = 0; turn < 20; ++turn) {
      std::vector<TokenId>& talk = talks[static_cast<size_t>(pick(0, 5))];
      if (pick(0, 5) == 0) talk.resize(talk.size() / 2);
      if (talk.size() > 350) talk.clear();
      talk = talk + counting(pick(1, 5) * 10'000, pick(1, 90));
      LabSequence made = process.sequence(talk, static_cast<uint64_t>(pick(0, 1)));
      found += process.load(made);
      while (made.computed < static_cast<int32_t>(made.tokens.size())) {
        const int32_t rows = std::min(pick(1, 64), static_cast<int32_t>(made.tokens.size()) - made.computed);
        ASSERT_TRUE(process.cache.reserve(made, rows));
        process.cache.compute(made, rows);
        process.cache.advance(made, pick(0, 1) == 0);
      }
      process.cache.cache().save(made.cursor, 0, made.cursor.tokens);
      process.cache.cache().save_boundary(made.cursor, made.cursor.tokens, true);
      if (pick(0, 1) == 0) process.write();
      process.cache.cache().leave(made.cursor, made.tokens, made.computed, made.table);
      process.cache.verify_references({});
    }
    if (process_number % 2 == 0) process.save_all();
    EXPECT_EQ(process.worker->store().counts().damaged, 0);
  }
  EXPECT_GT(found, 2'000);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, PrefixDisk,
    testing::Values(Layout{"Full", {full_group()}}, Layout{"Latent", {latent_group()}},
                    Layout{"Windows", {full_group(), window_group(40)}}, Layout{"WindowsOnly", {window_group(70)}},
                    Layout{"States", {full_group(), state_group()}}, Layout{"StatesOnly", {state_group()}},
                    Layout{"All", {full_group(), latent_group(), window_group(40), window_group(5), state_group()}}),
    [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace cairn::cache
