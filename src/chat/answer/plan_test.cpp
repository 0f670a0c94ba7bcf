// Plans of answers, with the chat templates of real models: what the model goes on from, and what it is held to.
#include "chat/answer/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/testing/test_data.h"
#include "chat/answer/form.h"
#include "chat/tool_calls/format.h"

namespace cairn::chat {
namespace {

using grammar::GrammarSource;
using nlohmann::ordered_json;
using testing::EndsWith;
using testing::HasSubstr;

class PlanAnswerTest : public testing::Test {
 protected:
  void SetUp() override {
    auto file = gguf::Reader::open(test_data("/models/llama.gguf"));
    ASSERT_TRUE(file.has_value()) << file.error().text();
    tokenizer_ = tokenizer::Tokenizer::load(file->metadata()).value();
    load_source("");
  }
  void load(const std::string& name) {
    std::ifstream file(test_data("/chat-templates/") + name + ".jinja", std::ios::binary);
    load_source({std::istreambuf_iterator<char>(file), {}});
    ASSERT_FALSE(source_.empty()) << name;
  }
  void load_source(std::string source) {
    source_ = std::move(source);
    template_ = ChatTemplate::create(source_, "<s>", "</s>").value();
    format_ = detect_output_format(source_);
    constraints_.emplace(*tokenizer_, format_.tools);
  }
  ChatModel model() { return {{"m", *tokenizer_, template_, format_, 4'096}, source_, defaults_, *constraints_, 1}; }
  AnswerRequest request(bool with_tools = false) {
    AnswerRequest request;
    request.input.messages = ordered_json::parse(R"([{"role": "user", "content": "What is 2 and 2?"}])");
    if (with_tools) {
      request.input.tools = ordered_json::parse(R"([{"type": "function", "function": {"name": "add", "description": "",
        "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}}])");
    }
    return request;
  }
  AnswerPlan plan(AnswerRequest& request) {
    auto made = plan_answer(model(), request, {.grammars = &grammars_});
    EXPECT_TRUE(made.has_value()) << made.error().text();
    return made ? std::move(*made) : AnswerPlan{};
  }
  Error refusal(AnswerRequest request) {
    const auto made = plan_answer(model(), request, {.grammars = &grammars_});
    EXPECT_FALSE(made.has_value());
    return made ? Error{} : made.error();
  }
  /// The prompt as the model gets it.
  std::string text_of(const AnswerPlan& plan) { return tokenizer_->decode(plan.prompt.tokens, true); }
  /// Whether the rules let an answer begin so.
  bool allows(const AnswerPlan& plan, std::string_view text) {
    grammar::Matcher matcher(plan.rules.grammar->grammar);
    matcher.push(plan.rules.grammar->begun);
    const std::string spelled = plan.rules.grammar->vocabulary->spell(text, true);
    return matcher.push(spelled) == spelled.size();
  }

  std::unique_ptr<tokenizer::Tokenizer> tokenizer_;
  std::string source_;
  ChatTemplate template_ = ChatTemplate::create("", "", "").value();
  OutputFormat format_;
  TemplateDefaults defaults_;
  std::optional<ConstraintTables> constraints_;
  grammar::GrammarCache grammars_;
};

TEST_F(PlanAnswerTest, TheTemplateIsToldOfTheThinking) {
  load("Qwen-Qwen3-0.6B");
  AnswerRequest asked = request();
  EXPECT_THAT(text_of(plan(asked)), EndsWith("<|im_start|>assistant\n"));
  EXPECT_EQ(asked.input.variables["enable_thinking"], true);
  asked = request();
  asked.reasoning.enabled = false;
  const AnswerPlan off = plan(asked);
  EXPECT_THAT(text_of(off), EndsWith("<think>\n\n</think>\n\n"));
  EXPECT_EQ(off.rules.reasoning_tokens_max, 0);
  defaults_.reasoning = false;
  asked = request();
  EXPECT_THAT(text_of(plan(asked)), EndsWith("<think>\n\n</think>\n\n"));
  asked = request();
  asked.reasoning = {.enabled = true, .tokens_max = 7};
  const AnswerPlan bounded = plan(asked);
  EXPECT_THAT(text_of(bounded), EndsWith("<|im_start|>assistant\n"));
  EXPECT_EQ(bounded.rules.reasoning_tokens_max, 7);
}

TEST_F(PlanAnswerTest, TheRequestGetsWhatTheEngineNeeds) {
  AnswerRequest asked = request();
  asked.generate.stop = {"END"};
  const AnswerPlan made = plan(asked);
  EXPECT_EQ(asked.generate.prompt, made.prompt.tokens);
  // A template that is none of the model's has an end of turn that its vocabulary need not have.
  EXPECT_THAT(asked.generate.stop, testing::ElementsAre("END", "<|im_end|>"));
  EXPECT_TRUE(asked.generate.render_special);
  EXPECT_TRUE(asked.generate.text_at_start);
  EXPECT_TRUE(made.rules.stops_on_loop);
  EXPECT_NE(make_constraint(model(), made), nullptr);
  EXPECT_EQ(asked.generate.constraint, nullptr) << "each choice has its own";
  asked = request();
  asked.generate.max_tokens = 5;
  EXPECT_FALSE(plan(asked).rules.stops_on_loop);
}

TEST_F(PlanAnswerTest, AnInstructionAsksForTheJsonThatTheAnswerIsHeldTo) {
  const auto text = [&](const std::string& messages, const AnswerForm& form) {
    AnswerRequest asked = request();
    if (!messages.empty()) asked.input.messages = ordered_json::parse(messages);
    asked.form = form;
    return text_of(plan(asked));
  };
  const AnswerForm object = GrammarSource{.kind = GrammarSource::Kind::kJsonObject, .field = "response_format"};
  const AnswerForm schema = GrammarSource{.kind = GrammarSource::Kind::kJsonSchema,
                                          .field = "response_format",
                                          .schema = {{"type", "object"}, {"required", {"year"}}}};
  const AnswerForm regex = GrammarSource{.kind = GrammarSource::Kind::kRegex, .field = "regex", .text = "yes"};
  const std::string instruction = "Answer with JSON alone, without any text around it.";
  EXPECT_THAT(text("", object), testing::Not(HasSubstr("JSON")));  // off unless it is asked for
  defaults_.json_instruction = true;
  EXPECT_THAT(text("", object), HasSubstr("<|im_start|>system\n" + instruction + "<|im_end|>\n<|im_start|>user"));
  EXPECT_THAT(text("", schema), HasSubstr(instruction + " It must match this JSON schema:\n{\"type\":\"object\","
                                                        "\"required\":[\"year\"]}<|im_end|>"));
  EXPECT_THAT(text(R"([{"role": "system", "content": "Be kind."}, {"role": "user", "content": "x"}])", object),
              HasSubstr("<|im_start|>system\nBe kind.\n\n" + instruction + "<|im_end|>"));
  EXPECT_THAT(text("", regex), testing::Not(HasSubstr("JSON")));
  EXPECT_THAT(text("", std::nullopt), testing::Not(HasSubstr("JSON")));
}

TEST_F(PlanAnswerTest, AFormIsFramedInHarmonysMessages) {
  load("openai-gpt-oss-120b");
  AnswerRequest asked = request();
  asked.form = GrammarSource{.kind = GrammarSource::Kind::kRegex, .field = "regex", .text = "yes"};
  const AnswerPlan thinking = plan(asked);
  EXPECT_TRUE(allows(thinking, "<|channel|>final<|message|>yes"));
  EXPECT_TRUE(allows(thinking, "<|channel|>analysis<|message|>Hm"));
  EXPECT_FALSE(allows(thinking, "yes"));
  EXPECT_FALSE(allows(thinking, "<|channel|>final<|message|>no"));
  AnswerRequest quiet = request();
  quiet.form = asked.form;
  quiet.reasoning.enabled = false;
  EXPECT_FALSE(allows(plan(quiet), "<|channel|>analysis<|message|>Hm"));
  // Other models begin with it, or think first.
  load("Qwen-Qwen3-0.6B");
  AnswerRequest plain = request();
  plain.form = asked.form;
  EXPECT_TRUE(allows(plan(plain), "yes"));
}

TEST_F(PlanAnswerTest, AFormThatCannotBeHeldToIsRefusedAtItsField) {
  load("Qwen-Qwen3-0.6B");
  AnswerRequest asked = request();
  asked.form = GrammarSource{.kind = GrammarSource::Kind::kRegex, .field = "guided_regex", .text = "(a"};
  EXPECT_EQ(refusal(asked).at, "guided_regex");
  EXPECT_THAT(refusal(asked).message, testing::StartsWith("guided_regex "));
  EXPECT_EQ(refusal(asked).code, Code::kInvalidArgument);
  asked.form->text = "[a-z]+";
  asked.prefill = "Four";
  EXPECT_EQ(refusal(asked).message, "guided_regex does not fit how the last message has begun the answer");
  AnswerRequest beside_tools = request(/*with_tools=*/true);
  beside_tools.form =
      GrammarSource{.kind = GrammarSource::Kind::kRegex, .field = "regex", .text = "a", .triggers = {"a"}};
  EXPECT_EQ(refusal(beside_tools).at, "grammar_lazy");
  AnswerRequest lazy = request();
  lazy.form = GrammarSource{.kind = GrammarSource::Kind::kRegex, .field = "regex", .text = "ab", .triggers = {"b"}};
  EXPECT_EQ(refusal(lazy).at, "grammar_triggers");
}

TEST_F(PlanAnswerTest, AFormHasNothingToHoldWhereACallIsRequired) {
  load("Qwen-Qwen3-0.6B");
  AnswerRequest asked = request(/*with_tools=*/true);
  asked.form = GrammarSource{.kind = GrammarSource::Kind::kRegex, .field = "regex", .text = "yes"};
  asked.tool_use = ToolUse::kRequired;
  const AnswerPlan made = plan(asked);
  EXPECT_FALSE(made.rules.grammar.has_value());
  EXPECT_TRUE(made.rules.calls.has_value());
  asked.form->text = "(";
  EXPECT_EQ(refusal(asked).at, "regex");
}

TEST_F(PlanAnswerTest, AnAnswerIsACallOrFollowsTheFormInEveryFormatOfCalls) {
  size_t together = 0;
  for (const auto& entry : std::filesystem::directory_iterator(test_data("/chat-templates"))) {
    if (entry.path().extension() != ".jinja") continue;
    load(entry.path().stem().string());
    const auto* style = tool_call::find_style(format_.tools);
    if (style == nullptr) continue;
    AnswerRequest asked = request(/*with_tools=*/true);
    asked.form = GrammarSource{.kind = GrammarSource::Kind::kRegex, .field = "regex", .text = "yes"};
    const auto made = plan_answer(model(), asked, {.grammars = &grammars_});
    if (!made) {
      EXPECT_NE(made.error().at, "regex") << entry.path() << made.error().text();
      continue;
    }
    if (!made->rules.grammar || format_.reasoning == ReasoningFormat::kHarmony) continue;
    SCOPED_TRACE(entry.path().string());
    EXPECT_TRUE(allows(*made, std::string(style->text_recipient) + "yes"));
    EXPECT_FALSE(allows(*made, "no"));
    if (made->rules.grammar->call_open != kNoToken) continue;
    ++together;
    const std::string id(style->id_bytes == 0 ? 4 : style->id_bytes, 'a');
    const std::string call = tool_call::forced_opening(*style, "add", 0, id);
    EXPECT_TRUE(allows(*made, std::string_view(call).substr(made->rules.grammar->begun.size()))) << call;
  }
  EXPECT_GT(together, 4u);
}

TEST_F(PlanAnswerTest, ARequiredCallIsHeldToItsSchemaWithoutStrict) {
  load("Qwen-Qwen3-0.6B");
  AnswerRequest asked = request(/*with_tools=*/true);
  asked.tool_use = ToolUse::kRequired;
  const auto takes = [&](AnswerRequest& one, std::string_view arguments) {
    const AnswerPlan made = plan(one);
    grammar::Matcher matcher(made.rules.calls->grammar);
    const std::string text = made.rules.calls->begun + std::string(arguments);
    return matcher.push(text) == text.size();
  };
  EXPECT_TRUE(takes(asked, R"( {"a": 5})"));
  EXPECT_FALSE(takes(asked, R"( {"a": "x)"));
  EXPECT_FALSE(takes(asked, R"( {"b)"));
  // What cannot be held to is left to the model where nobody has demanded it.
  asked = request(/*with_tools=*/true);
  asked.tool_use = ToolUse::kRequired;
  asked.input.tools[0]["function"]["parameters"]["properties"]["a"] = {{"pattern", "(a)\\1"}};
  EXPECT_TRUE(takes(asked, R"( {"a": "x"})"));
  asked.input.tools[0]["function"]["strict"] = true;
  EXPECT_THAT(refusal(asked).message, HasSubstr("add: parameters"));
}

TEST_F(PlanAnswerTest, ARequiredCallIsBegunForTheModel) {
  load("Qwen-Qwen3-0.6B");
  AnswerRequest asked = request(/*with_tools=*/true);
  asked.tool_use = ToolUse::kRequired;
  const AnswerPlan made = plan(asked);
  const OutputContext& output = made.prompt.output;
  EXPECT_EQ(output.forced_prefix, "<tool_call>\n{\"name\": \"add\", \"arguments\":");
  EXPECT_THAT(text_of(made), EndsWith(output.forced_prefix));
  EXPECT_EQ(tokenizer_->decode(output.forced_tokens, true), output.forced_prefix);
  EXPECT_FALSE(asked.generate.text_at_start);
  ASSERT_TRUE(made.rules.calls.has_value());
  AnswerReader reader(output);
  const auto parts = reader.begin();
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts[0].kind, PartKind::kCallBegin);
  EXPECT_EQ(parts[0].text, "add");
  EXPECT_THAT(parts[0].id, testing::StartsWith("call_"));
}

TEST_F(PlanAnswerTest, ToolsThatMayNotBeCalledAreForbidden) {
  load("Qwen-Qwen3-0.6B");
  AnswerRequest asked = request(/*with_tools=*/true);
  EXPECT_EQ(plan(asked).rules.ban, nullptr);
  asked = request(/*with_tools=*/true);
  asked.tool_use = ToolUse::kNone;
  const AnswerPlan none = plan(asked);
  EXPECT_NE(none.rules.ban, nullptr);
  EXPECT_EQ(none.prompt.output.format.tools, ToolFormat::kNone);
  EXPECT_THAT(text_of(none), HasSubstr("\"add\""));
  asked = request(/*with_tools=*/true);
  asked.parallel_calls = false;
  EXPECT_TRUE(plan(asked).rules.one_call);
}

TEST_F(PlanAnswerTest, APrefillStandsBehindWhatMustComeBeforeAnAnswer) {
  load("openai-gpt-oss-120b");
  AnswerRequest asked = request();
  asked.prefill = "\n It is";
  const AnswerPlan harmony = plan(asked);
  EXPECT_THAT(text_of(harmony), EndsWith("<|start|>assistant<|channel|>final<|message|>It is"));
  EXPECT_EQ(harmony.prompt.output.prefill, "It is");
  EXPECT_FALSE(asked.generate.text_at_start);
  load("deepseek-ai-DeepSeek-R1-Distill-Qwen-32B");
  asked = request();
  asked.prefill = "It is";
  EXPECT_THAT(text_of(plan(asked)), EndsWith("</think>\n\nIt is"));
  asked = request();
  asked.prefill = "It is";
  EXPECT_THAT(answer_prompt_text(model(), asked).value(), EndsWith("</think>\n\nIt is"));
}

TEST_F(PlanAnswerTest, ACompletionIsHeldToItsFormFromItsFirstToken) {
  engine::GenerateRequest completion;
  EXPECT_TRUE(hold_to_form(model(), std::nullopt, nullptr, {&completion, 1}).has_value());
  EXPECT_EQ(completion.constraint, nullptr);
  const AnswerForm form = GrammarSource{.kind = GrammarSource::Kind::kRegex, .field = "regex", .text = "yes"};
  EXPECT_TRUE(hold_to_form(model(), form, nullptr, {&completion, 1}).has_value());
  ASSERT_NE(completion.constraint, nullptr);
  engine::NextTokenRule next;
  completion.constraint->begin(next);
  if (next.unfinished) completion.constraint->finish(next);
  const auto letter = [&](std::string_view text) {
    return static_cast<size_t>(index(tokenizer_->encode(text, {}).value().back()));
  };
  const auto may = [&](size_t token) { return (next.allowed[token / 64] >> (token % 64) & 1) != 0; };
  EXPECT_TRUE(may(letter("y")));
  EXPECT_FALSE(may(letter("n")));
}

}  // namespace
}  // namespace cairn::chat
