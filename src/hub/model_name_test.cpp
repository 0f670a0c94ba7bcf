#include "hub/model_name.h"

#include <gtest/gtest.h>

namespace cairn::hub {
namespace {

std::string read(std::string_view name) {
  const auto parsed = parse_model_name(name);
  return parsed ? parsed->text() : "error: " + parsed.error().message;
}

TEST(ModelName, NamesOfOnePartAreOllamas) {
  EXPECT_EQ(read("qwen3:4b"), "qwen3:4b");
  EXPECT_EQ(read("qwen3"), "qwen3:latest");
  EXPECT_EQ(parse_model_name("qwen3:4b")->folder(), "registry.ollama.ai/library/qwen3");
}

TEST(ModelName, NamesOfTwoPartsAreHuggingFacesUnlessTheirTagIsNoQuantisation) {
  EXPECT_EQ(read("org/repo"), "hf.co/org/repo");
  EXPECT_EQ(read("org/repo:q4_k_m"), "hf.co/org/repo:q4_k_m");
  EXPECT_EQ(read("org/repo:UD-Q2_K_XL"), "hf.co/org/repo:UD-Q2_K_XL");
  EXPECT_EQ(read("someone/model:8b"), "registry.ollama.ai/someone/model:8b");
  EXPECT_EQ(read("someone/model:latest"), "registry.ollama.ai/someone/model:latest");
  EXPECT_EQ(parse_model_name("org/repo")->folder(), "huggingface.co/org/repo");
}

TEST(ModelName, AHostSettlesWhichHubIsMeant) {
  EXPECT_EQ(read("ollama.com/org/repo"), "registry.ollama.ai/org/repo:latest");
  EXPECT_EQ(read("registry.ollama.ai/library/qwen3:4b"), "qwen3:4b");
  EXPECT_EQ(read("https://ollama.com/library/qwen3"), "qwen3:latest");
  EXPECT_EQ(read("hf.co/org/repo:latest"), "hf.co/org/repo");
  EXPECT_EQ(read("huggingface.co/org/repo:Q8_0"), "hf.co/org/repo:Q8_0");
  EXPECT_EQ(read("https://huggingface.co/org/repo"), "hf.co/org/repo");
}

TEST(ModelName, AFileIsNamedByItsPathOrItsPagesAddress) {
  EXPECT_EQ(read("org/repo/m.gguf"), "hf.co/org/repo/m.gguf");
  EXPECT_EQ(read("org/repo/sub/m.gguf"), "hf.co/org/repo/sub/m.gguf");
  EXPECT_EQ(read("https://huggingface.co/org/repo/resolve/main/m.gguf?download=true"), "hf.co/org/repo/m.gguf");
  EXPECT_EQ(read("https://hf.co/org/repo/blob/main/sub/m.gguf"), "hf.co/org/repo/sub/m.gguf");
  EXPECT_EQ(read("hf.co/org/repo:M-IQ3_M.gguf"), "hf.co/org/repo/M-IQ3_M.gguf");
  EXPECT_EQ(read("org/repo:sub/M a+b.gguf"), "hf.co/org/repo/sub/M a+b.gguf");
  EXPECT_EQ(read("https://huggingface.co/org/repo/tree/main/#files"), "hf.co/org/repo");
  EXPECT_EQ(read("https://huggingface.co/org/repo/"), "hf.co/org/repo");
  EXPECT_EQ(read("org/repo/m.GGUF"), "hf.co/org/repo/m.GGUF");
  EXPECT_EQ(read("https://huggingface.co/org/repo/tree/main"), "hf.co/org/repo");
  EXPECT_EQ(read("hf.co/org/repo:i1-Q4_K_M"), "hf.co/org/repo:i1-Q4_K_M");
  // A page that shows one of the files is that file, not whichever fits.
  EXPECT_EQ(read("https://huggingface.co/org/repo?show_file_info=m-IQ3_M.gguf"), "hf.co/org/repo/m-IQ3_M.gguf");
  EXPECT_EQ(read("https://huggingface.co/org/repo?a=b&show_file_info=UD%2Fm.gguf&c=d"), "hf.co/org/repo/UD/m.gguf");
  EXPECT_EQ(read("https://huggingface.co/org/repo/tree/main/UD-Q4_K_XL"), "hf.co/org/repo:UD-Q4_K_XL");
  EXPECT_EQ(read("hf://org/repo/m.gguf"), "hf.co/org/repo/m.gguf");
  EXPECT_EQ(read("HF.co/org/repo:Q8_0"), "hf.co/org/repo:Q8_0");
  EXPECT_EQ(read("https://www.HuggingFace.co/org/repo/"), "hf.co/org/repo");
  EXPECT_EQ(read("hf.co/org/repo/"), "hf.co/org/repo");
}

TEST(ModelName, WhatLeavesTheFolderOrIsNoNameIsRefusedWithTheForms) {
  for (const char* name : {"",
                           "..",
                           "../..",
                           "a/..",
                           "../b",
                           "a/b/../c.gguf",
                           "a/b//c.gguf",
                           "/etc/passwd",
                           "a b",
                           "a/b/c",
                           "a/b/.c.gguf",
                           "-x",
                           "qwen3:",
                           "qwen3:a/b",
                           "qwen3:..",
                           "hf.co/a",
                           "hf.co/",
                           "ollama.com/a/b/c",
                           "https://example.org/a/b",
                           "http://127.0.0.1/a",
                           "a/b/c.gguf:Q4_0",
                           "a/b/resolve/v2/c.gguf",
                           "a/b\\c",
                           "a/b/c\n.gguf",
                           "a/b:.c.gguf",
                           "a/b:../c.gguf",
                           "a/b:c/../d.gguf",
                           "hf.co/a/b?show_file_info=..%2Fc.gguf",
                           "hf.co/a/b?show_file_info=c.bin",
                           "https://huggingface.co/a/b/tree/main/folder",
                           "qwen3:4b/c/.d.gguf",
                           "a/b/c\\..\\d.gguf"})
    EXPECT_NE(read(name).find("ORG/REPO[:QUANTISATION]"), std::string::npos) << name << " is " << read(name);
  EXPECT_NE(read(std::string(600, 'a')).find("too long"), std::string::npos);
}

}  // namespace
}  // namespace cairn::hub
