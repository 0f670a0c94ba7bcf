#include "convert/edit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "convert/test_files.h"

namespace cairn::convert {
namespace {

using gguf::ValueType;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Assignment assigned(std::string_view typed) {
  const auto assignment = parse_assignment(typed);
  EXPECT_TRUE(assignment.has_value()) << assignment.error().text();
  return *assignment;
}

std::vector<Assignment> assignments(std::initializer_list<std::string_view> typed) {
  std::vector<Assignment> all;
  for (const std::string_view one : typed) all.push_back(assigned(one));
  return all;
}

class Edit : public ModelFiles {
 protected:
  // The file with the changes, opened.
  gguf::Reader edited(const MetadataEdit& edit) {
    const auto in = written("in.gguf");
    const auto done = edit_metadata(in, path("out.gguf"), edit);
    EXPECT_TRUE(done.has_value()) << done.error().text();
    return opened(path("out.gguf"));
  }
  std::string error_of(const MetadataEdit& edit) {
    const auto in = written("in.gguf");
    const auto done = edit_metadata(in, path("out.gguf"), edit);
    EXPECT_FALSE(done.has_value());
    EXPECT_EQ(files(), 1u) << "nothing but the input";
    return done ? "" : done.error().text();
  }
};

TEST_F(Edit, AssignmentsAreRead) {
  EXPECT_EQ(assigned("a.b=x=y").key, "a.b");
  EXPECT_EQ(assigned("a.b=x=y").text, "x=y");
  EXPECT_FALSE(assigned("a.b=").form.has_value());
  EXPECT_EQ(assigned("a:uint32=7").form->type, ValueType::kU32);
  EXPECT_EQ(assigned("a:i8[]=[7]").form->type, ValueType::kI8);
  EXPECT_TRUE(assigned("a:i8[]=[7]").form->array);
  EXPECT_EQ(assigned("a:string=http://x").text, "http://x");
  for (const auto& [typed, why] :
       std::initializer_list<std::pair<const char*, const char*>>{{"a", "there is no ="},
                                                                  {"=1", "the key is missing"},
                                                                  {":u8=1", "the key is missing"},
                                                                  {"a:u7=1", "no type u7"},
                                                                  {"a:array=1", "no type array"}})
    EXPECT_THAT(parse_assignment(typed).error().message, HasSubstr(why)) << typed;
}

TEST_F(Edit, ValuesKeepTheTypeOfTheFile) {
  const gguf::Reader file = edited({.set = assignments({"zebra=7", "general.name=12", "a.number=3", "flag=false"})});
  EXPECT_EQ(file.metadata().find("zebra")->type, ValueType::kI32);
  EXPECT_EQ(*file.metadata().integer("zebra"), 7);
  EXPECT_EQ(*file.metadata().string("general.name"), "12");
  EXPECT_EQ(file.metadata().find("a.number")->type, ValueType::kF32);
  EXPECT_FALSE(*file.metadata().boolean("flag"));
}

TEST_F(Edit, NewValuesHaveTheTypeThatTheyLookLike) {
  const gguf::Reader file =
      edited({.set = assignments({"n.bool=true", "n.u32=4294967295", "n.i32=-1", "n.u64=18446744073709551615",
                                  "n.i64=-2147483649", "n.f32=1e-5", "n.string=1.2.3", "n.words=[INST] x",
                                  "n.list=[1,-2]", "n.large=[1,3000000000]", "n.floats=[1,0.5]",
                                  "n.texts=[\"a\",\"\\u00e4\"]", "n.flags=[true,false]", "n.text:string=[1]"})});
  const gguf::Metadata& found = file.metadata();
  const auto type = [&](const char* key) { return found.find(key)->type; };
  const auto elements = [&](const char* key) { return std::get<gguf::Array>(found.find(key)->data).type; };
  EXPECT_EQ(type("n.bool"), ValueType::kBool);
  EXPECT_EQ(type("n.u32"), ValueType::kU32);
  EXPECT_EQ(type("n.i32"), ValueType::kI32);
  EXPECT_EQ(std::get<uint64_t>(found.find("n.u64")->data), UINT64_MAX);
  EXPECT_EQ(type("n.i64"), ValueType::kI64);
  EXPECT_EQ(type("n.f32"), ValueType::kF32);
  EXPECT_EQ(*found.string("n.string"), "1.2.3");
  EXPECT_EQ(*found.string("n.words"), "[INST] x");
  EXPECT_EQ(*found.string("n.text"), "[1]");
  EXPECT_EQ(elements("n.list"), ValueType::kI32);
  EXPECT_THAT(*found.integers("n.list"), ElementsAre(1, -2));
  EXPECT_EQ(elements("n.large"), ValueType::kI64);
  EXPECT_THAT(*found.floats("n.floats"), ElementsAre(1.0f, 0.5f));
  EXPECT_EQ((*found.strings("n.texts"))[1], "ä");
  EXPECT_THAT(*found.booleans("n.flags"), ElementsAre(true, false));
}

TEST_F(Edit, AGivenTypeIsTaken) {
  const gguf::Reader file = edited({.set = assignments({"zebra:string=7", "new:u8=255", "list:f64[]=[0.1]"})});
  EXPECT_EQ(*file.metadata().string("zebra"), "7");
  EXPECT_EQ(file.metadata().find("new")->type, ValueType::kU8);
  EXPECT_EQ(std::get<gguf::Array>(file.metadata().find("list")->data).type, ValueType::kF64);
}

TEST_F(Edit, KeysKeepTheirPlacesAndTensorsTheirBytes) {
  const auto in = written("in.gguf");
  const MetadataEdit there{.set = assignments({"general.name=Another name", "new.key=1"}), .remove = {"flag"}};
  ASSERT_TRUE(edit_metadata(in, path("there.gguf"), there));
  const Contents contents = Contents::of(opened(path("there.gguf")));
  std::vector<std::string> keys;
  const gguf::Reader file = opened(path("there.gguf"));
  for (const auto& [key, value] : Contents::of(file).metadata) keys.emplace_back(key);
  EXPECT_THAT(keys, ElementsAre("general.architecture", "zebra", "general.name", "a.number", "new.key"));
  const gguf::Reader before = opened(in);
  for (const gguf::Tensor& tensor : before.tensors())
    EXPECT_TRUE(std::ranges::equal(tensor.bytes, file.find_tensor(tensor.name)->bytes)) << tensor.name;
  // Taken back, it is the same file; what was removed is the last key now.
  const MetadataEdit back{.set = assignments({"general.name=A name"}), .remove = {"new.*"}};
  ASSERT_TRUE(edit_metadata(path("there.gguf"), path("back.gguf"), back));
  ASSERT_TRUE(edit_metadata(in, path("without.gguf"), {.set = {}, .remove = {"flag"}}));
  EXPECT_EQ(bytes_of(path("back.gguf")), bytes_of(path("without.gguf")));
}

TEST_F(Edit, ACopyOfEveryFixtureHasItsBytes) {
  for (const char* name : {"quant-gpt-oss-mxfp4", "bert", "cohere2", "deepseek4"}) {
    ASSERT_TRUE(edit_metadata(fixture(name), path("copy.gguf"), {}));
    EXPECT_EQ(bytes_of(path("copy.gguf")), bytes_of(fixture(name))) << name;
  }
}

TEST_F(Edit, SaysWhatIsWrongAndWritesNothing) {
  EXPECT_THAT(error_of({.set = assignments({"zebra=2147483648"})}),
              AllOf(HasSubstr("2147483648 is no i32 (-2147483648 to 2147483647)"), HasSubstr("key zebra")));
  EXPECT_THAT(error_of({.set = assignments({"flag=1"})}), HasSubstr("1 is no bool (true or false)"));
  EXPECT_THAT(error_of({.set = assignments({"a.number=1e39"})}), HasSubstr("is no f32"));
  EXPECT_THAT(error_of({.set = assignments({"a.number=nan"})}), HasSubstr("is no f32"));
  EXPECT_THAT(error_of({.set = assignments({"x=[1,true]"})}), HasSubstr("not all strings, all numbers or all bools"));
  EXPECT_THAT(error_of({.set = assignments({"x=[]"})}), HasSubstr("KEY:TYPE[]=VALUE gives their type"));
  EXPECT_THAT(error_of({.set = assignments({"x:u8[]=[1,256]"})}), HasSubstr("256 is no u8"));
  EXPECT_THAT(error_of({.set = assignments({"x:u8[]=1"})}), HasSubstr("1 is no JSON array"));
  EXPECT_THAT(error_of({.set = assignments({"x=1", "x=2"})}), HasSubstr("the key x is given two values"));
  EXPECT_THAT(error_of({.set = assignments({"split.count=2"})}), HasSubstr("cairn gguf split writes it"));
  EXPECT_THAT(error_of({.set = {}, .remove = {"split.*"}}), HasSubstr("cairn gguf split writes it"));
  EXPECT_THAT(error_of({.set = {}, .remove = {"general.nam"}}),
              AllOf(HasSubstr("no key general.nam"), HasSubstr("did you mean general.name")));
  EXPECT_THAT(error_of({.set = assignments({"general.alignment=12"})}), HasSubstr("must be"));
}

TEST_F(Edit, TheInputIsNeverTheOutput) {
  const auto in = written("in.gguf");
  const std::string before = bytes_of(in);
  std::filesystem::create_hard_link(in, path("link.gguf"));
  for (const auto& out : {in, path("link.gguf")}) {
    const auto done = edit_metadata(in, out, {.set = assignments({"zebra=1"})});
    ASSERT_FALSE(done.has_value());
    EXPECT_THAT(done.error().text(), HasSubstr("would replace the input"));
    EXPECT_EQ(bytes_of(in), before);
  }
}

TEST_F(Edit, AnotherAlignmentMovesTheTensors) {
  const gguf::Reader file = edited({.set = assignments({"general.alignment=4096"})});
  EXPECT_EQ(file.file_bytes(), 4 * 4096);
  EXPECT_EQ(file.tensors().size(), 3u);
}

TEST_F(Edit, SpliceTakesTensorsByteForByte) {
  const auto in = written("in.gguf", 0), from = written("from.gguf", 1000);
  const auto done = splice(in, from, "weight$", path("out.gguf"));
  ASSERT_TRUE(done.has_value()) << done.error().text();
  EXPECT_EQ(done->tensors_taken, 2);
  EXPECT_EQ(done->bytes_taken, 2 * 4 * 8 * 4);
  const gguf::Reader a = opened(in), b = opened(from), spliced = opened(path("out.gguf"));
  for (const gguf::Tensor& tensor : spliced.tensors()) {
    const gguf::Reader& source = tensor.name == "third.bias" ? a : b;
    EXPECT_TRUE(std::ranges::equal(tensor.bytes, source.find_tensor(tensor.name)->bytes)) << tensor.name;
  }
  EXPECT_EQ(*spliced.metadata().string("general.name"), "A name");
}

TEST_F(Edit, SpliceTakesTheTypeOfTheOtherFile) {
  const auto in = written("in.gguf");
  auto writer = gguf::Writer::create(path("f16.gguf"));
  writer->declare("second.weight", TensorType::kF16, std::array<int64_t, 2>{8, 4});
  ASSERT_TRUE(writer->write(std::vector<std::byte>(64, std::byte{0x3c})) && writer->finish());
  ASSERT_TRUE(splice(in, path("f16.gguf"), "second", path("out.gguf")));
  EXPECT_EQ(opened(path("out.gguf")).find_tensor("second.weight")->type, TensorType::kF16);
  EXPECT_EQ(opened(path("out.gguf")).find_tensor("third.bias")->type, TensorType::kF32);
}

TEST_F(Edit, SpliceSaysWhyItCannot) {
  const auto in = written("in.gguf");
  const auto error = [&](const std::filesystem::path& from, const char* tensors) {
    const auto done = splice(in, from, tensors, path("out.gguf"));
    EXPECT_FALSE(done.has_value());
    EXPECT_FALSE(std::filesystem::exists(path("out.gguf")));
    return done ? "" : done.error().text();
  };
  EXPECT_THAT(error(written("large.gguf", 0, 5), "first"), HasSubstr("its shape is 8 x 4 here and 8 x 5 in"));
  EXPECT_THAT(error(written("same.gguf"), "fourth"), HasSubstr("has a name that 'fourth' matches"));
  EXPECT_THAT(error(written("same.gguf"), "("), HasSubstr("is no regular expression"));
  auto writer = gguf::Writer::create(path("empty.gguf"));
  ASSERT_TRUE(writer->finish());
  EXPECT_THAT(error(path("empty.gguf"), "first"), AllOf(HasSubstr("has no such tensor"), HasSubstr("first.weight")));
  const auto over = splice(in, written("same.gguf"), "first", path("same.gguf"));
  EXPECT_THAT(over.error().text(), HasSubstr("would replace the input"));
}

}  // namespace
}  // namespace cairn::convert
