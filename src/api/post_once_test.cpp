#include "api/post_once.h"

#include <gtest/gtest.h>

#include <functional>
#include <new>
#include <vector>

namespace cairn::api {
namespace {

struct Target {
  void post(std::function<void()> work) {
    if (full) throw std::bad_alloc();
    posted.push_back(std::move(work));
  }
  bool full = false;
  std::vector<std::function<void()>> posted{};
};

TEST(PostOnce, PostsOnceUntilTheWorkHasRun) {
  Target target;
  std::atomic<bool> posted = false;
  int runs = 0;
  const auto work = [&] {
    posted = false;
    ++runs;
  };
  for (int i = 0; i < 3; ++i) post_once(posted, target, work);
  ASSERT_EQ(target.posted.size(), 1u);
  target.posted.front()();
  post_once(posted, target, work);
  EXPECT_EQ(target.posted.size(), 2u);
  EXPECT_EQ(runs, 1);
}

TEST(PostOnce, WhatHadNoMemoryIsPostedWhenItIsAskedForAgain) {
  Target target{.full = true};
  std::atomic<bool> posted = false;
  EXPECT_THROW(post_once(posted, target, [] {}), std::bad_alloc);
  EXPECT_FALSE(posted);
  target.full = false;
  post_once(posted, target, [] {});
  EXPECT_EQ(target.posted.size(), 1u);
}

}  // namespace
}  // namespace cairn::api
