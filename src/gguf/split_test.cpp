#include "gguf/split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "gguf/test_bytes.h"
#include "gguf/writer.h"

namespace cairn::gguf {
namespace {

using testing::HasSubstr;

struct PartSpec {
  int64_t number = 0;
  int64_t parts = 3;
  int64_t tensors_total = 5;
  std::vector<std::string> tensors;
};

void write_part(const std::filesystem::path& path, const PartSpec& spec) {
  auto writer = Writer::create(path);
  ASSERT_TRUE(writer.has_value()) << writer.error().text();
  if (spec.number == 0) writer->set("general.architecture", std::string_view("llama"));
  writer->set_integer("split.no", ValueType::kU16, spec.number);
  writer->set_integer("split.count", ValueType::kU16, spec.parts);
  if (spec.tensors_total >= 0) writer->set_integer("split.tensors.count", ValueType::kI32, spec.tensors_total);
  const std::array<int64_t, 1> shape = {8};
  for (const auto& name : spec.tensors) writer->declare(name, TensorType::kF32, shape);
  for (const auto& name : spec.tensors) {
    const std::array<float, 8> values = {static_cast<float>(name[0])};
    ASSERT_TRUE(writer->write(std::as_bytes(std::span(values))).has_value());
  }
  ASSERT_TRUE(writer->finish().has_value());
}

std::filesystem::path part_path(const std::filesystem::path& folder, uint32_t part) {
  return folder / split_file_name({"model", part, 3}, part);
}

// Writes three parts with tensors a, b | c | d, e.
std::filesystem::path write_set(const std::filesystem::path& folder) {
  write_part(part_path(folder, 1), {.number = 0, .tensors = {"a", "b"}});
  write_part(part_path(folder, 2), {.number = 1, .tensors = {"c"}});
  write_part(part_path(folder, 3), {.number = 2, .tensors = {"d", "e"}});
  return folder;
}

void expect_error(const std::filesystem::path& path, Code code, const std::string& piece) {
  const auto reader = Reader::open(path);
  ASSERT_FALSE(reader.has_value()) << "expected an error with: " << piece;
  EXPECT_EQ(reader.error().code, code) << reader.error().text();
  EXPECT_THAT(reader.error().text(), HasSubstr(piece));
}

TEST(Split, ParsesTheNamesOfParts) {
  const auto found = split_name("some-model-Q4_K-00002-of-00012.gguf");
  EXPECT_TRUE(found.has_value());
  const SplitName name = found.value_or(SplitName{});
  EXPECT_EQ(name.stem, "some-model-Q4_K");
  EXPECT_EQ(name.part, 2u);
  EXPECT_EQ(name.parts, 12u);
  EXPECT_EQ(split_file_name(name, 12), "some-model-Q4_K-00012-of-00012.gguf");
  const SplitName capitals = split_name("M-00001-of-00002.GGUF").value_or(SplitName{});
  EXPECT_EQ(split_file_name(capitals, 2), "M-00002-of-00002.GGUF");
  for (const auto* other : {"model.gguf", "-00001-of-00002.gguf", "m-00003-of-00002.gguf", "m-00000-of-00002.gguf",
                            "m-0001-of-00002.gguf", "m-00001-of-00002.bin", "m-0000a-of-00002.gguf", ""}) {
    EXPECT_FALSE(split_name(other).has_value()) << other;
  }
}

TEST(Split, ASplitModelOpensByAnyOfItsParts) {
  const auto folder = write_set(test_folder());
  for (uint32_t part = 1; part <= 3; ++part) {
    const auto reader = Reader::open(part_path(folder, part));
    ASSERT_TRUE(reader.has_value()) << reader.error().text();
    EXPECT_EQ(*reader->metadata().string("general.architecture"), "llama");
    std::string names;
    for (const Tensor& tensor : reader->tensors()) names += tensor.name;
    EXPECT_EQ(names, "abcde");
    float value = 0;
    std::memcpy(&value, reader->find_tensor("d")->bytes.data(), sizeof(value));
    EXPECT_EQ(value, static_cast<float>('d'));
    int64_t bytes = 0;
    for (uint32_t i = 1; i <= 3; ++i) bytes += static_cast<int64_t>(std::filesystem::file_size(part_path(folder, i)));
    EXPECT_EQ(reader->file_bytes(), bytes);
  }
}

TEST(Split, PartsAreFoundInTheWorkingFolder) {
  const auto folder = write_set(test_folder());
  const auto was = std::filesystem::current_path();
  std::filesystem::current_path(folder);
  const auto reader = Reader::open(part_path(folder, 2).filename());
  std::filesystem::current_path(was);
  EXPECT_TRUE(reader.has_value()) << reader.error().text();
}

TEST(Split, AnErrorNamesTheMissingPart) {
  const auto folder = write_set(test_folder());
  std::filesystem::remove(part_path(folder, 3));
  expect_error(part_path(folder, 1), Code::kNotFound, "part 3 of 3 of the model is missing");
}

TEST(Split, RefusesARenamedPart) {
  const auto folder = write_set(test_folder());
  std::filesystem::rename(part_path(folder, 2), folder / "other.gguf");
  expect_error(folder / "other.gguf", Code::kCorruptFile, "not named like NAME-00002-of-00003.gguf");
}

TEST(Split, RefusesPartsInTheWrongPlace) {
  const auto folder = write_set(test_folder());
  std::filesystem::copy_file(part_path(folder, 1), part_path(folder, 2),
                             std::filesystem::copy_options::overwrite_existing);
  expect_error(part_path(folder, 1), Code::kCorruptFile, "the name says part 2 of 3, the file says part 1 of 3");
  expect_error(part_path(folder, 2), Code::kCorruptFile, "the name says part 2 of 3, the file says part 1 of 3");
}

TEST(Split, RefusesAPartOfAnotherModel) {
  const auto folder = write_set(test_folder());
  write_part(part_path(folder, 2), {.number = 0, .parts = 1, .tensors = {"c"}});
  expect_error(part_path(folder, 1), Code::kCorruptFile, "belongs to another model");
}

TEST(Split, RefusesAWrongTotal) {
  const auto folder = write_set(test_folder());
  write_part(part_path(folder, 2), {.number = 1, .tensors = {"c", "x"}});
  expect_error(part_path(folder, 1), Code::kCorruptFile, "all parts together have 6");
}

TEST(Split, RefusesAMissingTotal) {
  const auto folder = write_set(test_folder());
  write_part(part_path(folder, 1), {.number = 0, .tensors_total = -1, .tensors = {"a", "b"}});
  expect_error(part_path(folder, 1), Code::kCorruptFile, "no key split.tensors.count");
}

TEST(Split, RefusesATensorInTwoParts) {
  const auto folder = write_set(test_folder());
  write_part(part_path(folder, 2), {.number = 1, .tensors = {"a"}});
  expect_error(part_path(folder, 2), Code::kCorruptFile, "tensor a is in two parts");
}

TEST(Split, RefusesInvalidPartNumbers) {
  const auto folder = test_folder();
  write_part(part_path(folder, 1), {.number = 3, .parts = 3, .tensors = {"a"}});
  expect_error(part_path(folder, 1), Code::kCorruptFile, "part 3 (counted from 0) of 3");
  write_part(part_path(folder, 1), {.number = 0, .parts = kSplitsMax + 1, .tensors = {"a"}});
  expect_error(part_path(folder, 1), Code::kTooLarge, "split into 1025 files");
}

TEST(Split, ReportsADamagedPartByItsName) {
  const auto folder = write_set(test_folder());
  std::filesystem::resize_file(part_path(folder, 3), std::filesystem::file_size(part_path(folder, 3)) - 1);
  expect_error(part_path(folder, 1), Code::kCorruptFile, "model-00003-of-00003.gguf, tensor e");
}

}  // namespace
}  // namespace cairn::gguf
