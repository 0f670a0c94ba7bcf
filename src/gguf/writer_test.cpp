#include "gguf/writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <array>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <numeric>

#include "base/testing/test_data.h"
#include "gguf/test_bytes.h"
#include "gguf/walk.h"

namespace cairn::gguf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::byte> counting(size_t size) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + 1);
  return bytes;
}

size_t files_in(const std::filesystem::path& folder) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

// The error of write() or finish() after the invalid calls in `use`.
template <class Use>
Error error_after(Use&& use) {
  auto writer = Writer::create(test_folder() / "wrong.gguf");
  use(*writer);
  const auto finished = writer->finish();
  EXPECT_FALSE(finished.has_value());
  return finished ? Error{} : finished.error();
}

TEST(Writer, EveryTensorTypeReadsBackTheSame) {
  const auto path = test_folder() / "all.gguf";
  auto writer = Writer::create(path);
  ASSERT_TRUE(writer.has_value()) << writer.error().text();
  std::vector<std::byte> all;
  for (const auto& info : tensor_types()) {
    const std::array<int64_t, 2> shape = {info.block_elements * 3, 5};
    writer->declare(info.name, info.type, shape);
    const auto bytes = counting(static_cast<size_t>(info.block_bytes) * 15);
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  // Writes in pieces that do not match the tensors' borders.
  const auto view = std::span<const std::byte>(all);
  for (size_t offset = 0; offset < view.size(); offset += 101) {
    ASSERT_TRUE(writer->write(view.subspan(offset, std::min<size_t>(101, view.size() - offset))).has_value());
  }
  ASSERT_TRUE(writer->finish().has_value());

  const auto reader = Reader::open(path);
  ASSERT_TRUE(reader.has_value()) << reader.error().text();
  EXPECT_EQ(reader->version(), 3u);
  EXPECT_EQ(reader->file_bytes() % 32, 0);
  ASSERT_EQ(reader->tensors().size(), tensor_types().size());
  size_t i = 0;
  for (const auto& info : tensor_types()) {
    const Tensor& tensor = reader->tensors()[i++];
    EXPECT_EQ(tensor.name, info.name);
    EXPECT_EQ(tensor.type, info.type);
    EXPECT_THAT(tensor.shape, ElementsAre(info.block_elements * 3, 5));
    EXPECT_TRUE(std::ranges::equal(tensor.bytes, counting(static_cast<size_t>(info.block_bytes) * 15))) << info.name;
  }
}

TEST(Writer, EveryValueTypeReadsBackTheSame) {
  const auto path = test_folder() / "values.gguf";
  auto writer = Writer::create(path);
  writer->set("text", std::string_view("first"));
  writer->set("text", std::string_view("häuser"));
  writer->set_integer("u8", ValueType::kU8, 255);
  writer->set_integer("i8", ValueType::kI8, -128);
  writer->set_integer("u16", ValueType::kU16, 65535);
  writer->set_integer("i16", ValueType::kI16, -32768);
  writer->set_integer("u32", ValueType::kU32, 4294967295);
  writer->set_integer("i32", ValueType::kI32, INT32_MIN);
  writer->set_integer("u64", ValueType::kU64, INT64_MAX);
  writer->set_integer("i64", ValueType::kI64, INT64_MIN);
  writer->set_number("f32", ValueType::kF32, 0.5);
  writer->set_number("f64", ValueType::kF64, 0.1);
  writer->set_boolean("yes", true);
  writer->set_boolean("no", false);
  writer->set("u64.max", Value{ValueType::kU64, UINT64_MAX});
  ASSERT_TRUE(writer->finish().has_value());

  const auto reader = Reader::open(path);
  ASSERT_TRUE(reader.has_value()) << reader.error().text();
  const Metadata& metadata = reader->metadata();
  EXPECT_EQ(metadata.values().size(), 14u);
  EXPECT_EQ(*metadata.string("text"), "häuser");
  EXPECT_EQ(*metadata.integer("u8"), 255);
  EXPECT_EQ(*metadata.integer("i8"), -128);
  EXPECT_EQ(*metadata.integer("u16"), 65535);
  EXPECT_EQ(*metadata.integer("i16"), -32768);
  EXPECT_EQ(*metadata.integer("u32"), 4294967295);
  EXPECT_EQ(*metadata.integer("i32"), INT32_MIN);
  EXPECT_EQ(*metadata.integer("u64"), INT64_MAX);
  EXPECT_EQ(*metadata.integer("i64"), INT64_MIN);
  EXPECT_EQ(*metadata.number("f32"), 0.5);
  EXPECT_EQ(*metadata.number("f64"), 0.1);
  EXPECT_EQ(*metadata.boolean("yes"), true);
  EXPECT_EQ(*metadata.boolean("no"), false);
  EXPECT_EQ(std::get<uint64_t>(metadata.find("u64.max")->data), UINT64_MAX);
  EXPECT_EQ(metadata.find("i8")->type, ValueType::kI8);
}

TEST(Writer, NestedArraysReadBackTheSame) {
  TestBytes file;
  file.header(0, 3);
  file.key("nested", ValueType::kArray).array(ValueType::kArray, 2);
  file.array(ValueType::kI16, 2).number<int16_t>(1).number<int16_t>(-2);
  file.array(ValueType::kArray, 1).array(ValueType::kString, 2).string("x").string("");
  file.key("flags", ValueType::kArray).array(ValueType::kBool, 2).number<uint8_t>(1).number<uint8_t>(0);
  file.key("tokenizer.ggml.tokens", ValueType::kArray).array(ValueType::kString, 1).string("\xff");
  const auto bytes = file.bytes();
  const auto original = Reader::from_bytes(bytes);
  ASSERT_TRUE(original.has_value()) << original.error().text();
  const auto path = test_folder() / "nested.gguf";
  auto writer = Writer::create(path);
  for (const auto& [key, value] : original->metadata().values()) writer->set(key, value);
  const auto finished = writer->finish();
  ASSERT_TRUE(finished.has_value()) << finished.error().text();
  const auto copy = Reader::open(path);
  ASSERT_TRUE(copy.has_value()) << copy.error().text();
  EXPECT_EQ(walk(*copy), walk(*original));
}

TEST(Writer, ACopyOfAFixtureReadsTheSame) {
  const auto original = Reader::open(std::filesystem::path(test_data()) / "models" / "quant-gpt-oss-mxfp4.gguf");
  ASSERT_TRUE(original.has_value()) << original.error().text();
  const auto path = test_folder() / "copy.gguf";
  auto writer = Writer::create(path);
  for (const auto& [key, value] : original->metadata().values()) writer->set(key, value);
  for (const Tensor& tensor : original->tensors()) writer->declare(tensor.name, tensor.type, tensor.shape);
  for (const Tensor& tensor : original->tensors()) ASSERT_TRUE(writer->write(tensor.bytes).has_value());
  ASSERT_TRUE(writer->finish().has_value());
  const auto copy = Reader::open(path);
  ASSERT_TRUE(copy.has_value()) << copy.error().text();
  EXPECT_EQ(walk(*copy), walk(*original));
  EXPECT_EQ(copy->file_bytes(), original->file_bytes());
}

TEST(Writer, AlignsTensorsAsSet) {
  const auto folder = test_folder();
  const std::array<int64_t, 1> shape = {3};
  for (const bool by_key : {false, true}) {
    auto writer = Writer::create(folder / "aligned.gguf", by_key ? 32 : 4096);
    if (by_key) writer->set_integer("general.alignment", ValueType::kU32, 4096);
    writer->declare("one", TensorType::kF32, shape);
    writer->declare("two", TensorType::kF32, shape);
    ASSERT_TRUE(writer->write(counting(24)).has_value());
    ASSERT_TRUE(writer->finish().has_value());
    const auto reader = Reader::open(folder / "aligned.gguf");
    ASSERT_TRUE(reader.has_value()) << reader.error().text();
    EXPECT_EQ(reader->file_bytes(), 3 * 4096);
    EXPECT_EQ(*reader->metadata().integer("general.alignment"), 4096);
  }
  EXPECT_EQ(Writer::create(folder / "odd.gguf", 33).error().code, Code::kInvalidArgument);
}

TEST(Writer, TheFileAppearsOnlyAtFinishAndIsRemovedWithoutIt) {
  const auto folder = test_folder();
  const auto path = folder / "model.gguf";
  std::ofstream(path) << "old";
  {
    auto writer = Writer::create(path);
    writer->declare("one", TensorType::kF32, std::array<int64_t, 1>{8});
    ASSERT_TRUE(writer->write(counting(16)).has_value());
    EXPECT_EQ(files_in(folder), 2u);
    EXPECT_EQ(read_all(path).size(), 3u);
    const auto early = writer->finish();
    ASSERT_FALSE(early.has_value());
    EXPECT_THAT(early.error().text(), HasSubstr("only 16 of the tensor's 32 bytes were written (tensor one)"));
  }
  EXPECT_EQ(files_in(folder), 1u);
  EXPECT_EQ(read_all(path).size(), 3u);

  auto writer = Writer::create(path);
  ASSERT_TRUE(writer->finish().has_value());
  EXPECT_FALSE(writer->finish().has_value());
  EXPECT_EQ(files_in(folder), 1u);
  EXPECT_TRUE(Reader::open(path).has_value());
}

TEST(Writer, SeveralWritersOfOnePathDoNotInterfere) {
  const auto folder = test_folder();
  auto first = Writer::create(folder / "model.gguf");
  auto second = Writer::create(folder / "model.gguf");
  ASSERT_TRUE(second.has_value()) << second.error().text();
  EXPECT_TRUE(first->finish().has_value());
  EXPECT_TRUE(second->finish().has_value());
  EXPECT_EQ(files_in(folder), 1u);
}

TEST(Writer, SkippedTensorsAreZero) {
  const auto folder = test_folder();
  if (!has_holes(folder)) GTEST_SKIP() << folder << ": a file system without holes, of which 4 GiB would be filled";
  const auto path = folder / "hollow.gguf";
  auto writer = Writer::create(path);
  ASSERT_TRUE(writer.has_value());
  const int64_t shape[] = {5}, large[] = {1 << 20, 1 << 10};
  for (const char* name : {"first", "second"}) writer->declare(name, TensorType::kF32, shape);
  writer->declare("third", TensorType::kF32, large);
  const std::vector<float> values(7, 1.5f);
  ASSERT_TRUE(writer->write(std::as_bytes(std::span(values))).has_value());
  ASSERT_TRUE(writer->skip_rest().has_value());
  EXPECT_FALSE(writer->write(std::as_bytes(std::span(values))).has_value());
  ASSERT_FALSE(writer->finish().has_value()) << "the write that failed";

  auto whole = Writer::create(path);
  whole->declare("second", TensorType::kF32, shape);
  whole->declare("third", TensorType::kF32, large);
  ASSERT_TRUE(whole->write(std::as_bytes(std::span(values).first(2))).has_value());
  ASSERT_TRUE(whole->skip_rest().has_value());
  ASSERT_TRUE(whole->finish().has_value());
  const auto reader = Reader::open(path);
  ASSERT_TRUE(reader.has_value()) << reader.error().text();
  const auto second = reader->find_tensor("second")->bytes;
  float read[5];
  std::memcpy(read, second.data(), sizeof read);
  EXPECT_EQ(std::vector<float>(read, read + 5), (std::vector<float>{1.5f, 1.5f, 0, 0, 0}));
  EXPECT_EQ(std::ssize(reader->find_tensor("third")->bytes), int64_t{4} << 30);
  struct stat status{};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_LT(status.st_blocks * 512, 1 << 20) << "it takes no room";
  std::filesystem::remove(path);
}

TEST(Writer, RefusesMoreBytesThanDeclared) {
  auto writer = Writer::create(test_folder() / "more.gguf");
  writer->declare("one", TensorType::kF32, std::array<int64_t, 1>{1});
  const auto written = writer->write(counting(5));
  ASSERT_FALSE(written.has_value());
  EXPECT_THAT(written.error().message, HasSubstr("1 bytes more"));
  EXPECT_FALSE(writer->finish().has_value());
}

TEST(Writer, FinishReportsTheFirstInvalidCall) {
  const std::array<int64_t, 1> row = {8};
  EXPECT_THAT(error_after([](Writer& w) { w.set_integer("k", ValueType::kU8, 256); }).text(), HasSubstr("(key k)"));
  EXPECT_THAT(error_after([](Writer& w) { w.set_integer("k", ValueType::kU64, -1); }).text(), HasSubstr("type u64"));
  EXPECT_THAT(error_after([](Writer& w) { w.set_integer("k", ValueType::kF32, 1); }).text(), HasSubstr("type f32"));
  EXPECT_THAT(error_after([](Writer& w) { w.set_number("k", ValueType::kI32, 1); }).text(), HasSubstr("type i32"));
  EXPECT_THAT(error_after([](Writer& w) { w.set_number("k", ValueType::kF32, 1e300); }).text(), HasSubstr("type f32"));
  EXPECT_THAT(error_after([](Writer& w) { w.set("k", std::string_view("\xff")); }).text(), HasSubstr("not UTF-8"));
  EXPECT_THAT(error_after([](Writer& w) { w.set("\xff", std::string_view("v")); }).text(), HasSubstr("key \\xff"));
  EXPECT_THAT(error_after([](Writer& w) { w.set_integer("general.alignment", ValueType::kU32, 12); }).text(),
              HasSubstr("general.alignment"));
  EXPECT_THAT(error_after([&](Writer& w) { w.declare("t", TensorType::kQ4_0, row); }).text(), HasSubstr("tensor t"));
  EXPECT_THAT(error_after([&](Writer& w) { w.declare("t", TensorType::kF32, {}); }).text(), HasSubstr("0 dimensions"));
  EXPECT_THAT(error_after([](Writer& w) { w.declare("t", TensorType::kF32, std::array<int64_t, 1>{0}); }).text(),
              HasSubstr("a dimension is 0"));
  EXPECT_THAT(error_after([&](Writer& w) {
                w.declare("t", TensorType::kF32, row);
                w.declare("t", TensorType::kF32, row);
              }).text(),
              HasSubstr("declared twice"));
  EXPECT_THAT(error_after([&](Writer& w) {
                w.declare("t", TensorType::kF32, row);
                ASSERT_TRUE(w.write(counting(32)).has_value());
                w.set_boolean("late", true);
              }).text(),
              HasSubstr("after a tensor's bytes"));
  EXPECT_THAT(error_after([&](Writer& w) {
                w.declare("t", TensorType::kF32, row);
                ASSERT_TRUE(w.write(counting(32)).has_value());
                w.declare("late", TensorType::kF32, row);
              }).text(),
              HasSubstr("tensor late"));
}

TEST(Writer, RefusesArraysThatContradictThemselves) {
  Array array;
  array.type = ValueType::kU32;
  array.size = 2;
  EXPECT_THAT(error_after([&](Writer& w) { w.set("k", Value{ValueType::kArray, array}); }).text(), HasSubstr("2 elem"));
  array = {ValueType::kArray, 1, {}, {}, {Value{ValueType::kU8, uint64_t{1}}}};
  EXPECT_THAT(error_after([&](Writer& w) { w.set("k", Value{ValueType::kArray, array}); }).text(),
              HasSubstr("is none"));
  Array deep{ValueType::kU8, 0, {}, {}, {}};
  for (int i = 0; i < kArrayDepthMax; ++i) deep = Array{ValueType::kArray, 1, {}, {}, {Value{ValueType::kArray, deep}}};
  EXPECT_THAT(error_after([&](Writer& w) { w.set("k", Value{ValueType::kArray, deep}); }).text(), HasSubstr("deep in"));
}

TEST(Writer, AMissingFolderOrAFullDiskIsAnError) {
  const auto folder = test_folder();
  EXPECT_EQ(Writer::create(folder / "none" / "model.gguf").error().code, Code::kIo);

  std::filesystem::create_directory(folder / "taken.gguf");
  EXPECT_EQ(Writer::create(folder / "taken.gguf").error().code, Code::kInvalidArgument);

  // A file size limit stands in for a full disk.
  auto writer = Writer::create(folder / "large.gguf");
  writer->declare("one", TensorType::kI8, std::array<int64_t, 1>{1 << 20});
  auto* const was_handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit was{};
  getrlimit(RLIMIT_FSIZE, &was);
  const rlimit small{4096, was.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const auto written = writer->write(counting(1 << 20));
  setrlimit(RLIMIT_FSIZE, &was);
  std::signal(SIGXFSZ, was_handler);
  ASSERT_FALSE(written.has_value());
  EXPECT_EQ(written.error().code, Code::kIo);
  EXPECT_EQ(writer->finish().error().code, Code::kIo);
}

}  // namespace
}  // namespace cairn::gguf
