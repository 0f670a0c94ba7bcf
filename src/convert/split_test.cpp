#include "convert/split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "convert/compare.h"
#include "convert/test_files.h"
#include "gguf/split.h"

namespace cairn::convert {
namespace {

using gguf::ValueType;
using ::testing::HasSubstr;

class Split : public ModelFiles {
 protected:
  std::vector<SplitPart> split(const std::filesystem::path& in, const SplitOptions& options,
                               const std::string& prefix = "part") {
    auto parts = split_file(in, path(prefix), options);
    EXPECT_TRUE(parts.has_value()) << parts.error().text();
    return parts ? *parts : std::vector<SplitPart>();
  }
};

TEST_F(Split, PartsAndBackAreTheSameBytes) {
  const auto in = fixture("quant-gpt-oss-mxfp4");
  const int64_t whole = std::ssize(bytes_of(in));
  for (const SplitOptions& options :
       {SplitOptions{.tensors_max = 1}, SplitOptions{.tensors_max = 3}, SplitOptions{.bytes_max = whole * 2 / 3},
        SplitOptions{.tensors_max = 4, .first_part_empty = true}}) {
    const auto parts = split(in, options);
    ASSERT_GT(parts.size(), 1u);
    for (const SplitPart& part : parts) {
      EXPECT_EQ(std::ssize(bytes_of(part.path)), part.bytes) << part.path;
      EXPECT_TRUE(options.bytes_max == 0 || part.bytes <= options.bytes_max) << part.bytes;
      EXPECT_TRUE(options.tensors_max == 0 || part.tensors <= options.tensors_max) << part.tensors;
    }
    const auto merged = merge_files(parts.back().path, path("merged.gguf"));
    ASSERT_TRUE(merged.has_value()) << merged.error().text();
    EXPECT_EQ(*merged, whole);
    EXPECT_EQ(bytes_of(path("merged.gguf")), bytes_of(in));
    for (const SplitPart& part : parts) std::filesystem::remove(part.path);
  }
}

TEST_F(Split, PartsSayWhatTheFieldsToolSays) {
  const auto parts = split(written("in.gguf"), {.tensors_max = 2}, "out.gguf");
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[1].path.filename(), "out-00002-of-00002.gguf");
  const auto bytes = bytes_of(parts[1].path);
  // Read by itself: what a part says, and of which types.
  const auto second = gguf::Reader::from_bytes(std::as_bytes(std::span(bytes)));
  ASSERT_TRUE(second.has_value()) << second.error().text();
  const gguf::Metadata& said = second->metadata();
  EXPECT_EQ(said.values().size(), 3u);
  EXPECT_EQ(said.find("split.no")->type, ValueType::kU16);
  EXPECT_EQ(*said.integer("split.no"), 1);
  EXPECT_EQ(said.find("split.count")->type, ValueType::kU16);
  EXPECT_EQ(*said.integer("split.count"), 2);
  EXPECT_EQ(said.find("split.tensors.count")->type, ValueType::kI32);
  EXPECT_EQ(*said.integer("split.tensors.count"), 3);
  EXPECT_EQ(*opened(parts[0].path).metadata().string("general.name"), "A name");
}

TEST_F(Split, ASplitModelIsSplitAgain) {
  const auto in = written("in.gguf");
  const auto ones = split(in, {.tensors_max = 1}, "ones");
  const auto twos = split(ones[0].path, {.tensors_max = 2}, "twos");
  ASSERT_EQ(twos.size(), 2u);
  ASSERT_TRUE(merge_files(twos[0].path, path("merged.gguf")));
  EXPECT_EQ(bytes_of(path("merged.gguf")), bytes_of(in));
  EXPECT_TRUE(compare(opened(ones[0].path), opened(twos[0].path)).same());
}

TEST_F(Split, EveryPartHasTheAlignment) {
  auto writer = gguf::Writer::create(path("in.gguf"), 4096);
  for (const char* name : {"a", "b"}) writer->declare(name, TensorType::kF32, std::array<int64_t, 1>{8});
  ASSERT_TRUE(writer->write(std::vector<std::byte>(64)) && writer->finish());
  const auto parts = split(path("in.gguf"), {.tensors_max = 1});
  ASSERT_TRUE(merge_files(parts[0].path, path("merged.gguf")));
  EXPECT_EQ(bytes_of(path("merged.gguf")), bytes_of(path("in.gguf")));
  EXPECT_EQ(parts[1].bytes, 2 * 4096);
}

TEST_F(Split, ADryRunWritesNothing) {
  const auto in = written("in.gguf");
  const auto planned = split(in, {.tensors_max = 1, .dry_run = true});
  EXPECT_EQ(files(), 1u);
  const auto parts = split(in, {.tensors_max = 1});
  ASSERT_EQ(parts.size(), planned.size());
  for (size_t i = 0; i < parts.size(); ++i) EXPECT_EQ(parts[i].bytes, planned[i].bytes);
}

TEST_F(Split, PartsAppearTogether) {
  const auto in = written("in.gguf");
  size_t seen = 0;
  const OnCopy look = [&](const CopyProgress& now) {
    ++seen;
    EXPECT_FALSE(std::filesystem::exists(path("part-00001-of-00003.gguf"))) << now.tensor;
    EXPECT_LE(now.bytes_done, now.bytes_total);
  };
  EXPECT_EQ(split(in, {.tensors_max = 1, .on_copy = look}).size(), 3u);
  EXPECT_EQ(seen, 3u);
}

TEST_F(Split, AnErrorLeavesNoParts) {
  const auto in = written("in.gguf");
  const OnCopy change = [&](const CopyProgress&) { std::filesystem::resize_file(in, 1 << 20); };
  const auto parts = split_file(in, path("part"), {.tensors_max = 1, .on_copy = change});
  ASSERT_FALSE(parts.has_value());
  EXPECT_THAT(parts.error().text(), HasSubstr("was changed while it was read"));
  EXPECT_EQ(files(), 1u);
}

TEST_F(Split, SaysWhyItCannot) {
  const auto in = written("in.gguf");
  const auto error = [&](const SplitOptions& options) {
    const auto parts = split_file(in, path("part"), options);
    EXPECT_FALSE(parts.has_value());
    return parts ? "" : parts.error().text();
  };
  EXPECT_THAT(error({}), HasSubstr("neither the size"));
  EXPECT_THAT(error({.bytes_max = 300}), AllOf(HasSubstr("a part with this tensor takes"), HasSubstr("first.weight")));
  EXPECT_THAT(error({.bytes_max = 100}), HasSubstr("the metadata alone takes"));
  EXPECT_THAT(merge_files(in, path("out.gguf")).error().text(), HasSubstr("is not a part of a split model"));
  const auto parts = split(in, {.tensors_max = 1});
  EXPECT_THAT(merge_files(parts[1].path, parts[2].path).error().text(), HasSubstr("would replace the input"));
  EXPECT_THAT(split_file(parts[0].path, path("part"), {.tensors_max = 1}).error().text(),
              HasSubstr("would replace the input"));
  std::filesystem::remove(parts[2].path);
  EXPECT_THAT(merge_files(parts[0].path, path("out.gguf")).error().text(), HasSubstr("part 3 of 3"));
}

TEST_F(Split, ThereIsALimitOfParts) {
  auto writer = gguf::Writer::create(path("in.gguf"));
  for (uint32_t i = 0; i <= gguf::kSplitsMax; ++i)
    writer->declare(std::to_string(i), TensorType::kI8, std::array<int64_t, 1>{1});
  ASSERT_TRUE(writer->skip_rest() && writer->finish());
  const auto parts = split_file(path("in.gguf"), path("part"), {.tensors_max = 1});
  EXPECT_THAT(parts.error().text(), HasSubstr("1025 parts, the limit is 1024"));
}

}  // namespace
}  // namespace cairn::convert
