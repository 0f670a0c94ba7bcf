#include "gguf/reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/testing/test_data.h"
#include "gguf/test_bytes.h"
#include "gguf/walk.h"

namespace cairn::gguf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr uint32_t kF32Id = 0;
constexpr uint32_t kQ4_0Id = 2;

// Opens the bytes and expects an error with this code, and this text in its message.
void expect_error(const std::vector<std::byte>& bytes, Code code, const std::string& piece) {
  const auto reader = Reader::from_bytes(bytes);
  ASSERT_FALSE(reader.has_value()) << "expected an error with: " << piece;
  EXPECT_EQ(reader.error().code, code) << reader.error().text();
  EXPECT_THAT(reader.error().text(), HasSubstr(piece));
}

// One tensor's directory entry and 32 bytes of data.
TestBytes one_tensor(std::initializer_list<uint64_t> shape, uint32_t type, uint64_t offset = 0) {
  return TestBytes().header(1, 0).tensor("weight", shape, type, offset).pad().zeros(32);
}

TestBytes one_value(std::string_view key, ValueType type) { return TestBytes().header(0, 1).key(key, type); }

// Metadata of every kind and three tensors; ends with the last byte of the last tensor.
std::vector<std::byte> sample() {
  TestBytes file;
  file.header(3, 9);
  file.key("general.architecture", ValueType::kString).string("llama");
  file.key("general.alignment", ValueType::kU32).number<uint32_t>(16);
  file.key("a.flag", ValueType::kBool).number<uint8_t>(1);
  file.key("a.small", ValueType::kI8).number<int8_t>(-5);
  file.key("a.float", ValueType::kF64).number(0.25);
  file.key("a.list", ValueType::kArray).array(ValueType::kU16, 3);
  file.number<uint16_t>(1).number<uint16_t>(2).number<uint16_t>(3);
  file.key("a.flags", ValueType::kArray).array(ValueType::kBool, 2).number<uint8_t>(1).number<uint8_t>(0);
  file.key("tokenizer.ggml.tokens", ValueType::kArray).array(ValueType::kString, 2).string("a").string("\xff");
  file.key("a.nested", ValueType::kArray).array(ValueType::kArray, 2);
  file.array(ValueType::kString, 1).string("deep");
  file.array(ValueType::kArray, 1).array(ValueType::kI32, 1).number<int32_t>(-7);
  file.tensor("first", {2, 3}, kF32Id, 0).tensor("second", {32, 2}, kQ4_0Id, 32).tensor("third", {4}, kF32Id, 80);
  file.pad(16);
  for (int i = 0; i < 6; ++i) file.number(static_cast<float>(i));
  file.pad(16).zeros(36).pad(16).zeros(16);
  return file.bytes();
}

TEST(Reader, ReadsMetadataAndTensorsOfAFile) {
  const auto bytes = sample();
  const auto reader = Reader::from_bytes(bytes);
  ASSERT_TRUE(reader.has_value()) << reader.error().text();
  EXPECT_EQ(reader->version(), 3u);
  EXPECT_EQ(reader->file_bytes(), static_cast<int64_t>(bytes.size()));
  const Metadata& metadata = reader->metadata();
  EXPECT_EQ(metadata.values().size(), 9u);
  EXPECT_EQ(*metadata.string("general.architecture"), "llama");
  EXPECT_EQ(*metadata.boolean("a.flag"), true);
  EXPECT_EQ(*metadata.integer("a.small"), -5);
  EXPECT_EQ(*metadata.number("a.float"), 0.25);
  EXPECT_THAT(*metadata.integers("a.list"), ElementsAre(1, 2, 3));
  EXPECT_THAT(*metadata.booleans("a.flags"), ElementsAre(true, false));
  EXPECT_THAT(*metadata.strings("tokenizer.ggml.tokens"), ElementsAre("a", "\xff"));
  const auto& nested = std::get<Array>(metadata.find("a.nested")->data);
  ASSERT_EQ(nested.arrays.size(), 2u);
  EXPECT_THAT(std::get<Array>(nested.arrays[0].data).strings, ElementsAre("deep"));
  const auto& inner = std::get<Array>(std::get<Array>(nested.arrays[1].data).arrays[0].data);
  EXPECT_EQ(inner.type, ValueType::kI32);
  EXPECT_EQ(inner.numbers.size(), 4u);

  ASSERT_EQ(reader->tensors().size(), 3u);
  const Tensor* first = reader->find_tensor("first");
  ASSERT_NE(first, nullptr);
  EXPECT_THAT(first->shape, ElementsAre(2, 3));
  EXPECT_EQ(first->elements(), 6);
  EXPECT_EQ(first->bytes.size(), 24u);
  EXPECT_EQ(static_cast<int>(first->bytes[23]), 0x40);  // 5.0f ends with 0x40
  EXPECT_EQ(reader->tensors()[1].name, "second");
  EXPECT_EQ(reader->tensors()[1].bytes.size(), 36u);
  EXPECT_EQ(reader->find_tensor("fourth"), nullptr);
}

TEST(Reader, ReadsVersion2) {
  const auto bytes = TestBytes().header(1, 0, 2).tensor("weight", {8}, kF32Id, 0).pad().zeros(32).bytes();
  const auto reader = Reader::from_bytes(bytes);
  ASSERT_TRUE(reader.has_value()) << reader.error().text();
  EXPECT_EQ(reader->version(), 2u);
}

TEST(Reader, AScalarHasOneElement) {
  const auto bytes = TestBytes().header(1, 0).tensor("scale", {}, kF32Id, 0).pad().zeros(4).bytes();
  const auto reader = Reader::from_bytes(bytes);
  ASSERT_TRUE(reader.has_value()) << reader.error().text();
  EXPECT_THAT(reader->tensors()[0].shape, ElementsAre(1));
}

TEST(Reader, OfAPlannedFileFindsItsKeysAndTensors) {
  const Reader reader = Reader::planned(Metadata({{"general.name", {ValueType::kString, std::string_view("none")}}}),
                                        {{.name = "a", .type = TensorType::kF32, .shape = {3, 2}, .bytes = {}}});
  EXPECT_EQ(reader.metadata().string("general.name"), "none");
  ASSERT_NE(reader.find_tensor("a"), nullptr);
  EXPECT_EQ(reader.find_tensor("a")->elements(), 6);
  EXPECT_EQ(reader.find_tensor("b"), nullptr);
}

TEST(Reader, AcceptsAFileWithoutTensorsThatEndsUnaligned) {
  const auto bytes = one_value("a", ValueType::kU8).number<uint8_t>(1).bytes();
  EXPECT_TRUE(Reader::from_bytes(bytes).has_value());
}

TEST(Reader, AcceptsTensorsInAnyOrderWithGaps) {
  const auto bytes =
      TestBytes().header(2, 0).tensor("late", {8}, kF32Id, 64).tensor("early", {8}, kF32Id, 0).pad().zeros(96).bytes();
  EXPECT_TRUE(Reader::from_bytes(bytes).has_value());
}

// --- What a person may hand over instead of a model ---

TEST(Reader, NamesTheKindOfAFileThatIsNotAModel) {
  expect_error({}, Code::kCorruptFile, "the file is empty");
  expect_error(TestBytes::copy("<!DOCTYPE html>"), Code::kCorruptFile, "web page");
  expect_error(TestBytes::copy("version https://git-lfs.example/spec/v1"), Code::kCorruptFile, "git lfs pull");
  expect_error(TestBytes::copy("\x1f\x8b\x08 something"), Code::kCorruptFile, "gzip");
  expect_error(TestBytes::copy("PK\x03\x04 something"), Code::kCorruptFile, "zip");
  expect_error(TestBytes::copy("tjgg\x03\x01"), Code::kCorruptFile, "older than GGUF");
  expect_error(TestBytes().number<uint64_t>(90).raw("{\"a\":1}").bytes(), Code::kCorruptFile, "safetensors");
  expect_error(TestBytes::copy("hello, this is text"), Code::kCorruptFile, "does not begin with \"GGUF\"");
}

TEST(Reader, RefusesVersion1) {
  expect_error(TestBytes().header(0, 0, 1).bytes(), Code::kUnsupported, "GGUF version 1 is not supported");
}

TEST(Reader, RefusesUnknownVersions) {
  expect_error(TestBytes().header(0, 0, 4).bytes(), Code::kUnsupported, "GGUF version 4 is not supported");
  expect_error(TestBytes().header(0, 0, 0).bytes(), Code::kUnsupported, "GGUF version 0 is not supported");
}

TEST(Reader, RefusesBigEndianFiles) {
  expect_error(TestBytes().header(0, 0, 0x03000000).bytes(), Code::kUnsupported, "big-endian");
}

// --- Truncation and damage ---

TEST(Reader, RefusesAFileCutAtAnyByte) {
  const auto whole = sample();
  for (size_t length = 0; length < whole.size(); ++length) {
    const std::vector<std::byte> cut(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(length));
    const auto reader = Reader::from_bytes(cut);
    ASSERT_FALSE(reader.has_value()) << "cut at " << length;
    EXPECT_EQ(reader.error().code, Code::kCorruptFile);
    EXPECT_THAT(reader.error().message, HasSubstr("download it again")) << "cut at " << length;
  }
}

TEST(Reader, AnErrorNamesTheTensorAndItsMissingBytes) {
  auto bytes = sample();
  const size_t whole = bytes.size();
  bytes.pop_back();
  expect_error(bytes, Code::kCorruptFile,
               fmt::format("tensor third needs bytes up to {}, the file has {}", whole, whole - 1));
}

TEST(Reader, SurvivesEveryByteChanged) {
  const auto whole = sample();
  int opened = 0;
  for (size_t i = 0; i < whole.size(); ++i) {
    const auto was = std::to_integer<unsigned>(whole[i]);
    for (const unsigned value : {was ^ 1u, was ^ 0x80u, was + 1, was - 1, 0u, 0xffu, 0x7fu, 9u}) {
      auto changed = whole;
      changed[i] = static_cast<std::byte>(value);
      const auto reader = Reader::from_bytes(changed);
      if (reader) {
        opened += walk(*reader) != 0 ? 1 : 0;
      } else {
        EXPECT_FALSE(reader.error().message.empty());
      }
    }
  }
  EXPECT_GT(opened, 0);  // changes of names and tensor data are not noticed
}

// --- Counts and lengths ---

TEST(Reader, RefusesTooManyTensors) {
  expect_error(TestBytes().header(kTensorsMax + 1, 0).zeros(64).bytes(), Code::kTooLarge, "the number of tensors is");
  expect_error(TestBytes().header(UINT64_MAX, 0).zeros(64).bytes(), Code::kTooLarge, "the number of tensors is");
}

TEST(Reader, RefusesTooManyKeys) {
  expect_error(TestBytes().header(0, kMetadataMax + 1).zeros(64).bytes(), Code::kTooLarge, "number of metadata keys");
}

TEST(Reader, RefusesCountsForWhichTheFileIsTooShort) {
  expect_error(TestBytes().header(kTensorsMax, 0).zeros(64).bytes(), Code::kCorruptFile, "cut short");
  expect_error(TestBytes().header(0, kMetadataMax).zeros(64).bytes(), Code::kCorruptFile, "cut short");
}

TEST(Reader, RefusesStringsOverTheLimit) {
  expect_error(one_value("a", ValueType::kString).number(kStringBytesMax + 1).bytes(), Code::kTooLarge, "key a");
  expect_error(one_value("a", ValueType::kString).number(UINT64_MAX).bytes(), Code::kTooLarge, "a string is");
}

TEST(Reader, RefusesStringsBeyondTheEnd) {
  expect_error(one_value("a", ValueType::kString).number<uint64_t>(4).raw("abc").bytes(), Code::kCorruptFile,
               "a string needs bytes up to");
}

TEST(Reader, RefusesLongNames) {
  const std::string name(kNameBytesMax + 1, 'a');
  expect_error(one_value(name, ValueType::kU8).number<uint8_t>(1).bytes(), Code::kTooLarge, "a metadata key is");
  expect_error(TestBytes().header(1, 0).tensor(name, {8}, kF32Id, 0).pad().zeros(32).bytes(), Code::kTooLarge,
               "a tensor's name is");
}

TEST(Reader, RefusesArraysOverTheLimit) {
  expect_error(one_value("a", ValueType::kArray).array(ValueType::kU8, kArrayElementsMax + 1).bytes(), Code::kTooLarge,
               "an array has");
}

TEST(Reader, RefusesArraysBeyondTheEnd) {
  for (const auto type : {ValueType::kU8, ValueType::kF64, ValueType::kString, ValueType::kArray, ValueType::kBool}) {
    expect_error(one_value("a", ValueType::kArray).array(type, kArrayElementsMax).bytes(), Code::kCorruptFile,
                 "cut short");
  }
}

TEST(Reader, RefusesArraysNestedTooDeep) {
  auto file = one_value("a", ValueType::kArray);
  for (int depth = 0; depth < kArrayDepthMax; ++depth) file.array(ValueType::kArray, 1);
  expect_error(file.array(ValueType::kU8, 1).number<uint8_t>(1).bytes(), Code::kTooLarge, "deep in each other");
}

TEST(Reader, AcceptsArraysNestedUpToTheLimit) {
  auto file = one_value("a", ValueType::kArray);
  for (int depth = 1; depth < kArrayDepthMax; ++depth) file.array(ValueType::kArray, 1);
  const auto bytes = file.array(ValueType::kU8, 1).number<uint8_t>(1).bytes();
  EXPECT_TRUE(Reader::from_bytes(bytes).has_value());
}

// --- Values ---

TEST(Reader, RefusesUnknownValueTypes) {
  expect_error(one_value("a", static_cast<ValueType>(13)).zeros(8).bytes(), Code::kCorruptFile, "value type 13");
  expect_error(one_value("a", ValueType::kArray).array(static_cast<ValueType>(99), 1).zeros(8).bytes(),
               Code::kCorruptFile, "value type 99");
}

TEST(Reader, RefusesBoolsOtherThan0And1) {
  expect_error(one_value("a", ValueType::kBool).number<uint8_t>(2).bytes(), Code::kCorruptFile, "a bool is 2");
  expect_error(
      one_value("a", ValueType::kArray).array(ValueType::kBool, 2).number<uint8_t>(1).number<uint8_t>(255).bytes(),
      Code::kCorruptFile, "bool 1 of an array is 255");
}

TEST(Reader, RefusesKeysThatAreNotUtf8) {
  expect_error(one_value("a\xff", ValueType::kU8).number<uint8_t>(1).bytes(), Code::kCorruptFile, "a\\xff");
}

TEST(Reader, RefusesTensorNamesThatAreNotUtf8) {
  expect_error(TestBytes().header(1, 0).tensor("w\xc0", {8}, kF32Id, 0).pad().zeros(32).bytes(), Code::kCorruptFile,
               "a tensor's name is not UTF-8");
}

TEST(Reader, RefusesTextThatIsNotUtf8) {
  expect_error(one_value("a.text", ValueType::kString).string("ab\xe2\x82").bytes(), Code::kCorruptFile,
               "not UTF-8 from its byte 2 on (key a.text");
  expect_error(one_value("a.texts", ValueType::kArray).array(ValueType::kString, 1).string("\x80").bytes(),
               Code::kCorruptFile, "key a.texts");
}

TEST(Reader, AcceptsAnyBytesInTokensAndMerges) {
  for (const auto* key : {"tokenizer.ggml.tokens", "tokenizer.ggml.merges", "tokenizer.ggml.added_tokens"}) {
    const auto bytes = one_value(key, ValueType::kArray).array(ValueType::kString, 1).string("\xff\xfe").bytes();
    EXPECT_TRUE(Reader::from_bytes(bytes).has_value()) << key;
  }
}

TEST(Reader, RefusesDuplicateKeys) {
  expect_error(TestBytes()
                   .header(0, 2)
                   .key("same", ValueType::kU8)
                   .number<uint8_t>(1)
                   .key("same", ValueType::kU8)
                   .number<uint8_t>(1)
                   .bytes(),
               Code::kCorruptFile, "this key twice (key same, offset 41");
}

// --- Alignment ---

TEST(Reader, RefusesInvalidAlignments) {
  for (const uint32_t alignment : {0u, 4u, 33u, 48u, 0xffffffffu}) {
    expect_error(one_value("general.alignment", ValueType::kU32).number(alignment).bytes(), Code::kCorruptFile,
                 "key general.alignment");
  }
  expect_error(one_value("general.alignment", ValueType::kString).string("32").bytes(), Code::kCorruptFile,
               "general.alignment is the string");
}

TEST(Reader, RefusesTensorsThatAreNotAligned) {
  expect_error(TestBytes().header(1, 0).tensor("weight", {8}, kF32Id, 16).pad().zeros(64).bytes(), Code::kCorruptFile,
               "offset 16 is not a multiple of the alignment 32");
}

// --- Tensors ---

TEST(Reader, RefusesUnknownTensorTypesAndListsTheKnownOnes) {
  expect_error(one_tensor({8}, 31).bytes(), Code::kUnsupported, "tensor type 31 is not supported");
  expect_error(one_tensor({8}, 999).bytes(), Code::kUnsupported, "Q4_K");
}

TEST(Reader, RefusesInvalidDimensions) {
  expect_error(one_tensor({0}, kF32Id).bytes(), Code::kCorruptFile, "dimension 0 is 0");
  expect_error(one_tensor({1, UINT64_MAX}, kF32Id).bytes(), Code::kCorruptFile, "dimension 1 is");
}

TEST(Reader, RefusesTooManyDimensions) {
  expect_error(one_tensor({1, 1, 1, 1, 1}, kF32Id).bytes(), Code::kCorruptFile, "5 dimensions");
}

TEST(Reader, RefusesShapesThatOverflow) {
  expect_error(one_tensor({1ull << 32, 1ull << 32}, kF32Id).bytes(), Code::kCorruptFile, "more elements than");
  expect_error(one_tensor({1ull << 62}, kF32Id).bytes(), Code::kCorruptFile, "more bytes than");
}

TEST(Reader, RefusesRowsThatAreNotWholeBlocks) {
  expect_error(one_tensor({33}, kQ4_0Id).bytes(), Code::kCorruptFile, "rows of 33 elements cannot be Q4_0");
}

TEST(Reader, RefusesOffsetsOutsideTheFile) {
  expect_error(one_tensor({8}, kF32Id, 32).bytes(), Code::kCorruptFile, "tensor weight needs bytes up to");
  expect_error(one_tensor({8}, kF32Id, UINT64_MAX - 31).bytes(), Code::kCorruptFile, "beyond the end of any file");
}

TEST(Reader, RefusesOverlappingTensors) {
  expect_error(
      TestBytes().header(2, 0).tensor("one", {16}, kF32Id, 0).tensor("two", {8}, kF32Id, 32).pad().zeros(64).bytes(),
      Code::kCorruptFile, "inside tensor one (0 to 64)");
  expect_error(
      TestBytes().header(2, 0).tensor("one", {8}, kF32Id, 0).tensor("two", {8}, kF32Id, 0).pad().zeros(64).bytes(),
      Code::kCorruptFile, "inside tensor");
}

TEST(Reader, RefusesDuplicateTensors) {
  expect_error(
      TestBytes().header(2, 0).tensor("one", {8}, kF32Id, 0).tensor("one", {8}, kF32Id, 32).pad().zeros(64).bytes(),
      Code::kCorruptFile, "this tensor twice (tensor one");
}

TEST(Reader, EscapesNamesInErrors) {
  expect_error(TestBytes().header(1, 0).tensor("a\x1b[2J", {0}, kF32Id, 0).pad().bytes(), Code::kCorruptFile,
               "tensor a\\x1b[2J");
}

// --- Files ---

TEST(Reader, AnErrorNamesTheFile) {
  const auto folder = test_folder();
  EXPECT_EQ(Reader::open(folder / "none.gguf").error().code, Code::kNotFound);
  std::ofstream(folder / "short.gguf") << "GGUF";
  const auto error = Reader::open(folder / "short.gguf").error();
  EXPECT_EQ(error.code, Code::kCorruptFile);
  EXPECT_THAT(error.at, HasSubstr("short.gguf, offset 4"));
}

// For every fixture, the directory, the tensors and the padding between them make up the whole file.
TEST(Reader, OpensAllFixturesAndTheirSizesAddUp) {
  int files = 0;
  for (const auto* folder : {"models", "trained"}) {
    for (const auto& item : std::filesystem::directory_iterator(std::filesystem::path(test_data()) / folder)) {
      if (item.path().extension() != ".gguf") continue;
      const auto opened = Reader::open(item.path());
      ASSERT_TRUE(opened.has_value()) << opened.error().text();
      EXPECT_EQ(opened->file_bytes(), static_cast<int64_t>(item.file_size()));
      EXPECT_TRUE(opened->metadata().string("general.architecture").has_value()) << item.path();
      const auto file = MappedFile::open(item.path());
      const auto reader = Reader::from_bytes(file->bytes());
      ASSERT_TRUE(reader.has_value());
      EXPECT_EQ(walk(*reader), walk(*opened));
      uint64_t end = static_cast<uint64_t>(reader->tensors()[0].bytes.data() - file->bytes().data());
      for (const Tensor& tensor : reader->tensors()) {
        EXPECT_EQ(static_cast<uint64_t>(tensor.bytes.data() - file->bytes().data()), end) << tensor.name;
        end = (end + tensor.bytes.size() + 31) / 32 * 32;
      }
      EXPECT_EQ(end, item.file_size()) << item.path();
      ++files;
    }
  }
  EXPECT_GE(files, 70);
}

}  // namespace
}  // namespace cairn::gguf
