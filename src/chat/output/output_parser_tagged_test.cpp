// Test cases of formats with tags around every argument.
#include "chat/testing/output_parser_cases.h"

namespace cairn::chat {
namespace {

OutputCase qwen(std::string output, std::vector<std::string> lines) {
  return as(ToolFormat::kQwenCoder, std::move(output), std::move(lines));
}

OutputCase dsml(std::string output, std::vector<std::string> lines) {
  return as(ToolFormat::kDsmlV4, std::move(output), std::move(lines));
}

const std::string kOpen = "<tool_call>\n<function=get_weather>\n";
const std::string kClose = "\n</function>\n</tool_call>";
const std::string kInvoke = "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"get_weather\">\n";
const std::string kInvoked = "</｜DSML｜invoke>\n</｜DSML｜tool_calls>";
const std::vector<OutputCase> kTaggedCases = {
    qwen(kOpen + "<parameter=city>\nZürich\n</parameter>\n<parameter=days>\n3\n</parameter>" + kClose,
         {"get_weather{\"city\": \"Zürich\", \"days\": 3}"}),
    qwen("Well.\n" + kOpen + kClose + "\n<tool_call>\n<function=now>\n</function>\n</tool_call>\nDone.",
         {"C Well.", "get_weather{}", "now{}", "C Done."}),
    // A value's type is the schema's, or else follows from what it looks like.
    qwen(kOpen + "<parameter=city>\n42\n</parameter>\n<parameter=days>\nmany\n</parameter>" + kClose,
         {"get_weather{\"city\": \"42\", \"days\": \"many\"}"}),
    qwen(kOpen + "<parameter=opts>\n{'a': True}\n</parameter>\n<parameter=x>\n{\"b\": [1]}\n</parameter>" + kClose,
         {"get_weather{\"opts\": {\"a\": true}, \"x\": {\"b\": [1]}}"}),
    qwen(kOpen + "<parameter=note>\nnull\n</parameter>\n<parameter=any>\nnull\n</parameter>" + kClose,
         {"get_weather{\"note\": null, \"any\": null}"}),
    qwen(kOpen + "<parameter=note>\nnullable\n</parameter>\n<parameter=any>\nNone\n</parameter>" + kClose,
         {"get_weather{\"note\": \"nullable\", \"any\": \"None\"}"}),
    qwen(kOpen + "<parameter=x>\n12 monkeys\n</parameter>\n<parameter=y>\n{not JSON\n</parameter>" + kClose,
         {"get_weather{\"x\": \"12 monkeys\", \"y\": \"{not JSON\"}"}),
    qwen(kOpen + "<parameter=city>\n\n  a\n\n</parameter>\n<parameter=note></parameter>" + kClose,
         {"get_weather{\"city\": \"\\n  a\\n\", \"note\": \"\"}"}),
    qwen(kOpen + "<parameter=city>\nif (a < b && c) { \"x\" }\n</parameter>" + kClose,
         {"get_weather{\"city\": \"if (a < b && c) { \\\"x\\\" }\"}"}),
    // Missing tags.
    qwen("<function=now>\n</function>\n</tool_call>Done.", {"now{}", "C Done."}),
    qwen(kOpen + "<parameter=city>\nBern\n<parameter=days>\n3\n</parameter>" + kClose,
         {"get_weather{\"city\": \"Bern\", \"days\": 3}"}),
    qwen(kOpen + "<parameter=city>\nBern" + kClose, {"get_weather{\"city\": \"Bern\"}"}),
    qwen(kOpen + "<parameter=days>3</parameter>\n</tool_call>", {"get_weather{\"days\": 3}"}),
    qwen("<tool_call><function=now></function>\n<function=now></function></tool_call>", {"now{}", "now{}"}),
    qwen("<function=get_weather>{\"city\": \"Bern\"}</function>", {"get_weather{\"city\": \"Bern\"}"}),
    qwen("<tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>", {"now{}"}),
    // Output that is cut off.
    qwen(kOpen + "<parameter=city>\nZür", {"get_weather{\"city\": \"Zür~"}),
    qwen(kOpen + "<parameter=opts>\n{\"a\": [1", {"get_weather{\"opts\": {\"a\": [1~"}),
    qwen(kOpen + "<parameter=city>\nBern\n</parameter>\n<parameter=da", {"get_weather{\"city\": \"Bern\"~"}),
    qwen(kOpen, {"get_weather{~"}),
    qwen("<tool_call>\n<function=get_wea", {"C <tool_call>\n<function=get_wea"}),
    // Malformed calls.
    qwen("<tool_call>\n<function=get weather>", {"C <tool_call>\n<function=get weather>"}),
    qwen("In C++, <function=x is no tag.", {"C In C++, <function=x is no tag."}),
    qwen(kOpen + "<parameter=city>Bern</parameter>oops" + kClose, {"get_weather{\"city\": \"Bern\"oops\n!"}),

    as(ToolFormat::kSeed,
       "<seed:tool_call>\n<function=get_weather>\n<parameter=city>Bern</parameter>\n<parameter=opts>{'a': None}"
       "</parameter>\n</function>\n</seed:tool_call>",
       {"get_weather{\"city\": \"Bern\", \"opts\": {\"a\": null}}"}),
    as(ToolFormat::kGlm,
       "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Bern</arg_value>\n<arg_key>days</arg_key>\n"
       "<arg_value>3</arg_value>\n</tool_call>\n<tool_call>now</tool_call>",
       {"get_weather{\"city\": \"Bern\", \"days\": 3}", "now{}"}),
    as(ToolFormat::kGlm, "<tool_call>get_weather<arg_key>city</arg_key><arg_value>Bern</tool_call>Done.",
       {"get_weather{\"city\": \"Bern\"}", "C Done."}),
    as(ToolFormat::kGlm, "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_val", {"get_weather{~"}),
    as(ToolFormat::kGlm, "The tag <tool_call> is a tag.", {"C The tag <tool_call> is a tag."}),
    as(ToolFormat::kHy,
       "<tool_calls:opensource>\n<tool_call:opensource>get_weather<tool_sep:opensource>\n<arg_key:opensource>city"
       "</arg_key:opensource>\n<arg_value:opensource>Bern</arg_value:opensource>\n</tool_call:opensource>\n"
       "</tool_calls:opensource>",
       {"get_weather{\"city\": \"Bern\"}"}),

    dsml(kInvoke +
             "<｜DSML｜parameter name=\"city\" string=\"true\">42</｜DSML｜parameter>\n<｜DSML｜parameter "
             "name=\"days\" "
             "string=\"false\">3</｜DSML｜parameter>\n" +
             kInvoked,
         {"get_weather{\"city\": \"42\", \"days\": 3}"}),
    dsml(kInvoke + "<｜DSML｜parameter name=\"x\">a &amp; <b></｜DSML｜parameter>" + kInvoked + "Done.",
         {"get_weather{\"x\": \"a &amp; <b>\"}", "C Done."}),
    dsml(kInvoke + "<｜DSML｜parameter name=\"city\" string=\"true\">Bern" + kInvoked,
         {"get_weather{\"city\": \"Bern\"}"}),
    dsml(kInvoke + "<｜DSML｜parameter name=\"city\" string=\"true\">Be", {"get_weather{\"city\": \"Be~"}),
    dsml("<｜DSML｜invoke name=\"now\">\n</｜DSML｜invoke>", {"now{}"}),
    as(ToolFormat::kDsmlV32,
       "Well.\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"now\">\n</｜DSML｜invoke>\n<｜DSML｜invoke "
       "name=\"now\">\n"
       "</｜DSML｜invoke>\n</｜DSML｜function_calls>",
       {"C Well.", "now{}", "now{}"}),
    // A mark that is incomplete or missing, and text that only resembles a tag in the block's spelling.
    dsml("<DSML｜tool_calls>\n<DSML｜invoke name=\"get_weather\">\n<DSML｜parameter name=\"city\" "
         "string=\"true\">a</parameter>"
         "</DSML｜parameter>\n</DSML｜invoke>\n</DSML｜tool_calls>",
         {"get_weather{\"city\": \"a</parameter>\"}"}),
    dsml("<tool_calls>\n<invoke name=\"get_weather\">\n<parameter name=\"days\" "
         "string=\"false\">3</parameter>\n</invoke>\n"
         "</tool_calls>Done.",
         {"get_weather{\"days\": 3}", "C Done."}),
    dsml("<tool_calls>\n<invoke name=\"unknown\">\n</invoke>\n</tool_calls>",
         {"C <tool_calls>\n<invoke name=\"unknown\">\n</invoke>\n</tool_calls>"}),
    dsml(kInvoke +
             "<｜DSML｜parameter name=\"a&quot;b\" string=\"true\">&lt;/｜DSML｜parameter> &lt;</｜DSML｜parameter>\n" +
             kInvoked,
         {"get_weather{\"a\\\"b\": \"</｜DSML｜parameter> &lt;\"}"}),
    // Parameters nested in a parameter are an object, closed or not.
    dsml(kInvoke +
             "<｜DSML｜parameter name=\"opts\" string=\"false\">\n<｜DSML｜parameter name=\"a\" "
             "string=\"true\">x</｜DSML｜parameter>\n"
             "<｜DSML｜parameter name=\"b\">\n<｜DSML｜parameter name=\"c\" "
             "string=\"false\">1</｜DSML｜parameter></｜DSML｜parameter>\n"
             "</｜DSML｜parameter>\n<｜DSML｜parameter name=\"city\" string=\"true\"> </｜DSML｜parameter>\n" +
             kInvoked,
         {"get_weather{\"opts\": {\"a\": \"x\", \"b\": {\"c\": 1}}, \"city\": \" \"}"}),
    dsml(kInvoke + "<｜DSML｜parameter name=\"opts\" string=\"false\"><｜DSML｜parameter name=\"a\" string=\"true\">x" +
             kInvoked,
         {"get_weather{\"opts\": {\"a\": \"x\"}}"}),
    dsml(kInvoke + "<｜DSML｜parameter name=\"opts\" string=\"false\"><｜DSML｜parameter name=\"a\" "
                   "string=\"true\">x</｜DSML｜para",
         {"get_weather{\"opts\": {\"a\": \"x~"}),
    dsml(kInvoke + "<｜DSML｜parameter name=\"opts\" string=\"false\"><｜DSML｜parameter name=\"a\"",
         {"get_weather{\"opts\": ~"}),
    {ToolFormat::kDsmlV4,
     ReasoningFormat::kThink,
     "<｜Assistant｜><think>",
     "Hm.\n\n" + kInvoke + kInvoked,
     {"R Hm.", "get_weather{}"}},

    as(ToolFormat::kMiniMaxM2,
       "<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter name=\"city\">Bern</parameter>\n</invoke>\n"
       "</minimax:tool_call>",
       {"get_weather{\"city\": \"Bern\"}"}),
    as(ToolFormat::kMiniCpm,
       "<function name=\"get_weather\"><param name=\"city\"><![CDATA[a < b]]></param><param name=\"note\"><b></param>"
       "<param name=\"days\">3</param></function>",
       {"get_weather{\"city\": \"a < b\", \"note\": \"<b>\", \"days\": 3}"}),
    as(ToolFormat::kKimiK3,
       "<|open|>tools<|sep|><|open|>call tool=\"f\" index=\"1\"<|sep|><|open|>argument key=\"a\" "
       "type=\"string\"<|sep|>7"
       "<|close|>argument<|sep|><|open|>argument key=\"b\" "
       "type=\"number\"<|sep|>7<|close|>argument<|sep|><|close|>call"
       "<|sep|><|close|>tools<|sep|>",
       {"f{\"a\": \"7\", \"b\": 7}"}),
    as(ToolFormat::kFunctionary, "<function=f>{\"a\": 1}</function><function=g>{}</function>", {"f{\"a\": 1}", "g{}"}),
    as(ToolFormat::kFunctionary, "<function=f>{\"a\": 1", {"f{\"a\": 1~"}),
    as(ToolFormat::kFunctionary, "<function=f>{\"a\": 1}", {"f{\"a\": 1}"}),
};

}  // namespace

std::vector<OutputCase> tagged_cases() { return kTaggedCases; }

}  // namespace cairn::chat
