#include "loader/model_files.h"
#include "base/testing/test_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>

namespace cairn::loader {
namespace {

using testing::HasSubstr;

class ModelFilesTest : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::copy_file(std::filesystem::path(test_data()) / "models/llama.gguf", path_,
                               std::filesystem::copy_options::overwrite_existing);
    reader_.emplace(gguf::Reader::open(path_).value());
  }
  void TearDown() override { std::filesystem::remove(path_); }

  static void expect_named(const Result<void>& checked) {
    ASSERT_FALSE(checked.has_value());
    EXPECT_EQ(checked.error().code, Code::kIo);
    EXPECT_THAT(checked.error().message, HasSubstr("model_files_test.gguf has changed on disk since it was loaded"));
    EXPECT_EQ(checked.error().message.find('/'), std::string::npos);  // clients need not know the folder
  }

  const std::filesystem::path path_ = std::filesystem::path(testing::TempDir()) / "model_files_test.gguf";
  std::optional<gguf::Reader> reader_;
};

TEST_F(ModelFilesTest, AFileThatIsOnlyTouchedReplacedOrDeletedIsTheSame) {
  reader_->use_in_place();
  ModelFiles files;
  files.watch(*reader_);
  std::filesystem::last_write_time(path_, std::filesystem::last_write_time(path_) + std::chrono::seconds(5));
  EXPECT_TRUE(files.check().has_value());
  const auto other = path_.string() + "2";
  std::ofstream(other) << "another";
  std::filesystem::rename(other, path_);
  ModelFiles again;
  again.watch(*reader_);
  EXPECT_TRUE(again.check().has_value());
  std::filesystem::remove(path_);
  EXPECT_TRUE(again.check().has_value());
}

TEST_F(ModelFilesTest, OtherWeightsInPlaceAreNamed) {
  reader_->use_in_place();
  ModelFiles files;
  files.watch(*reader_);
  const auto size = static_cast<std::streamoff>(std::filesystem::file_size(path_));
  {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(size / 2);
    file << std::string(static_cast<size_t>(size - size / 2), 'Z');
  }
  std::filesystem::last_write_time(path_, std::filesystem::last_write_time(path_) + std::chrono::seconds(5));
  expect_named(files.check());
  expect_named(files.check());
  // Copies of weights do not change with the file.
  reader_.emplace(gguf::Reader::open(path_).value());
  ModelFiles copied;
  copied.watch(*reader_);
  std::ofstream(path_, std::ios::in | std::ios::out | std::ios::binary).seekp(size / 2) << "YYYYYYYY";
  EXPECT_TRUE(copied.check().has_value());
}

TEST_F(ModelFilesTest, AFileThatIsCutShortIsNamedAndItsNamesStayWhatTheyWere) {
  reader_->use_in_place();
  ModelFiles files;
  files.watch(*reader_);
  const std::string architecture(reader_->metadata().string("general.architecture").value());
  const std::string first(reader_->tensors()[0].name);
  std::filesystem::resize_file(path_, 0);
  EXPECT_EQ(reader_->metadata().string("general.architecture").value(), architecture);
  EXPECT_EQ(reader_->tensors()[0].name, first);
  EXPECT_EQ(reader_->tensors()[0].bytes[0], std::byte{0});
  expect_named(files.check());
  // The next look before its time has come costs no system call, but a cut is known at once.
  expect_named(files.check());
}

}  // namespace
}  // namespace cairn::loader
