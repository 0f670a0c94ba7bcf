/// Helpers shared by the simulation's tests.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "base/testing/test_data.h"
#include "gguf/reader.h"
#include "tokenizer/tokenizer.h"

namespace cairn::sim {

class SimTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto file = gguf::Reader::open(test_data() + "/models/llama.gguf");
    ASSERT_TRUE(file.has_value()) << file.error().text();
    auto loaded = tokenizer::Tokenizer::load(file->metadata());
    ASSERT_TRUE(loaded.has_value()) << loaded.error().text();
    shared_tokenizer = std::move(*loaded);
  }
  static void TearDownTestSuite() { shared_tokenizer.reset(); }
  static const tokenizer::Tokenizer& tokenizer() { return *shared_tokenizer; }

  inline static std::unique_ptr<tokenizer::Tokenizer> shared_tokenizer;
};

}  // namespace cairn::sim
