// tidy: table
// The word patterns of published vocabularies, by the name that GGUF files have under tokenizer.ggml.pre.
// Source: the pre_tokenizer section of each model's tokenizer.json or, where a model has none, its tokenizer code, most
// of them as collected in ggml-org/llama.cpp; see NOTICE. Written for PCRE2: (?i:'s) is spelled out as '[sS], since
// that option would also match U+017F.
#include "tokenizer/text/pre_tokenizer.h"

namespace cairn::tokenizer {
namespace {

// Words of GPT-2: contractions, letters, numbers, the rest, white space that leaves one space to the next word.
constexpr std::string_view kGpt2Words = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))";

constexpr SplitRule kGpt2[] = {{.pattern = kGpt2Words}};

constexpr SplitRule kDefault[] = {
    {.pattern = R"([\p{P}\$\+<=>\^~\|]+)"},
    {.pattern = kGpt2Words},
    {.pattern = R"(\p{N}+)"},
    {.pattern = "[0-9][0-9][0-9]"},
};

constexpr SplitRule kFalcon[] = {
    {.pattern = R"([\p{P}\$\+<=>\^~\|`]+)"},
    {.pattern = kGpt2Words},
    {.pattern = "[0-9][0-9][0-9]"},
};

// The words of GPT-2, with every digit alone.
constexpr SplitRule kStarcoder[] = {{.pattern = R"(\p{N})"}, {.pattern = kGpt2Words}};

constexpr SplitRule kLlama3[] = {
    {.pattern = R"((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
                R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
};

constexpr SplitRule kMiniCpm5[] = {
    {.pattern = R"(\p{N}{1,3})"},
    {.pattern = R"((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+|)"
                R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
};

constexpr SplitRule kQwen2[] = {
    {.pattern = R"((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
                R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
};

constexpr SplitRule kQwen35[] = {
    {.pattern = R"((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|)"
                R"( ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
};

constexpr SplitRule kSeedCoder[] = {
    {.pattern = R"((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
                R"( ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)"},
};

constexpr SplitRule kBailing[] = {
    {.pattern = R"('(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
                R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)"},
};

// Letters with single spaces between letters of one word. The group is possessive, since nothing follows to which it
// could backtrack.
constexpr SplitRule kExaoneMoe[] = {
    {.pattern = R"((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|)"
                R"([^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*+(?: \p{L}\p{M}*+)*+)++|\p{N}|)"
                R"( ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+)"},
};

// Words of GPT-4o and its successors: upper and lower case parts of words are separated.
constexpr std::string_view kO200kWords =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr SplitRule kGpt4o[] = {{.pattern = kO200kWords}};

constexpr SplitRule kTinyAya[] = {
    {.kind = SplitRule::Kind::kThreesBeforeBoundary, .pattern = {}},
    {.pattern = kO200kWords},
};

constexpr SplitRule kTekken[] = {
    {.pattern = R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
                R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}|)"
                R"( ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
};

// The pattern of GPT-4o, with Han characters split off. The two negated classes are "Lu Lt Lm Lo M" and "Ll Lm Lo M"
// without Han.
constexpr SplitRule kKimiK2[] = {
    {.pattern = R"(\p{sc:Han}+|)"
                R"([^\r\n\p{L}\p{N}]?[^\p{Ll}\p{N}\p{P}\p{S}\p{Z}\p{C}\p{sc:Han}]*)"
                R"([^\p{Lu}\p{Lt}\p{N}\p{P}\p{S}\p{Z}\p{C}\p{sc:Han}]+)"
                R"((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|)"
                R"([^\r\n\p{L}\p{N}]?[^\p{Ll}\p{N}\p{P}\p{S}\p{Z}\p{C}\p{sc:Han}]+)"
                R"([^\p{Lu}\p{Lt}\p{N}\p{P}\p{S}\p{Z}\p{C}\p{sc:Han}]*)"
                R"((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|)"
                R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
};

// The pattern of GPT-4o with every digit alone; before it, runs of Korean, Chinese and Japanese and their punctuation
// are split off.
constexpr SplitRule kYoutu[] = {
    {.pattern = R"([\x{AC00}-\x{D7A3}\x{3131}-\x{318E}]+|)"
                R"([\x{FF01}\x{2026}\x{201C}\x{201D}\x{2018}\x{2019}\x{2014})"
                R"(\x{FF1A}\x{FF1B}\x{FF0C}\x{3001}-\x{303F}\x{FE30}-\x{FE4F}]+|)"
                R"([\x{3105}-\x{312F}]+|[\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)"},
    {.pattern = R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
                R"((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|)"
                R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
                R"((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|)"
                R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
};

// "\s+$" of the source, rewritten so that it is tried once per run of white space rather than at each of its
// characters.
constexpr std::string_view kTrailingSpace = R"((?<!\s)\s++\z)";

// The long class is the letters with case that the published file lists.
constexpr SplitRule kDeepseekLlm[] = {
    {.pattern = R"([\r\n])"},
    {.pattern = R"(\s?[)"
                R"(A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293})"
                R"(\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A})"
                R"(\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556})"
                R"(\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF})"
                R"(\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D})"
                R"(\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D})"
                R"(\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4})"
                R"(\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4})"
                R"(\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124})"
                R"(\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F})"
                R"(\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4})"
                R"(\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F})"
                R"(\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17})"
                R"(\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3})"
                R"(\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF})"
                R"(\x{1E900}-\x{1E943})"
                R"(]+)"},
    {.pattern = R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)"},
    {.pattern = kTrailingSpace},
    {.pattern = R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)"},
    {.pattern = R"(\p{N})"},
};

constexpr SplitRule kDeepseekCoder[] = {
    {.pattern = R"([\r\n])"},    {.pattern = R"(\s?\p{L}+)"},
    {.pattern = R"(\s?\p{P}+)"}, {.pattern = R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)"},
    {.pattern = R"(\p{N})"},
};

constexpr std::string_view kDeepseekV3Words =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr SplitRule kDeepseekV3[] = {
    {.pattern = R"(\p{N}{1,3})"},
    {.pattern = R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)"},
    {.pattern = kDeepseekV3Words},
};

constexpr SplitRule kAfmoe[] = {
    {.kind = SplitRule::Kind::kThrees, .pattern = {}},
    {.pattern =
         R"([\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{F900}-\x{FAFF}\x{3040}-\x{309F}\x{30A0}-\x{30FF}\x{FF65}-\x{FF9F})"
         R"(\x{2F00}-\x{2FDF}\x{E40}-\x{E7F}\x{E80}-\x{EFF}\x{1780}-\x{17FF})"
         R"(\x{1000}-\x{109F}\x{AA60}-\x{AA7F}\x{A9E0}-\x{A9FF})"
         R"(\x{AC00}-\x{D7AF}\x{1100}-\x{11FF}]+)"},
    {.pattern = kDeepseekV3Words},
};

constexpr SplitRule kSuperBpe[] = {{.pattern = R"(\p{N}+)"}, {.kind = SplitRule::Kind::kBeforeThrees, .pattern = {}}};

// Anything but spaces, brackets and sentence marks.
constexpr SplitRule kBloom[] = {{.pattern = R"( ?[^(\s|.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{964}\x{6D4}\x{60C})]+)"}};
constexpr SplitRule kViking[] = {{.pattern = R"( ?[^(\s|.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{964}\x{6D4}\x{60C})]+)"},
                                 {.pattern = R"(\p{N})"}};

// Lines, and runs of line ends.
constexpr SplitRule kGemma4[] = {{.pattern = R"([^\n]+|[\n]+)"}};

constexpr NamedPreTokenizer kTable[] = {
    {"a.x-4.0", {.rules = kGpt2}},
    {"afmoe", {.rules = kAfmoe}},
    {"bailingmoe", {.rules = kBailing}},
    {"bailingmoe2", {.rules = kBailing}},
    {"bloom", {.rules = kBloom}},
    {"chatglm-bpe", {.rules = kLlama3}},
    {"codeshell", {.rules = kStarcoder}},
    {"cohere2moe", {.rules = kTinyAya}},
    {"command-r", {.rules = kStarcoder, .nfc = true}},
    {"dbrx", {.rules = kLlama3}},
    {"deepseek-coder", {.rules = kDeepseekCoder}},
    {"deepseek-llm", {.rules = kDeepseekLlm}},
    {"deepseek-r1-qwen", {.rules = kQwen2}},
    {"deepseek-v3", {.rules = kDeepseekV3}},
    {"default", {.rules = kDefault}},
    {"exaone", {.rules = kStarcoder}},
    {"exaone-moe", {.rules = kExaoneMoe}},
    {"exaone4", {.rules = kGpt2}},
    {"f2llmv2", {.rules = kQwen2}},
    {"falcon", {.rules = kFalcon}},
    {"falcon-h1", {.rules = kLlama3, .ignore_merges = true, .add_bos = true}},
    {"falcon3", {.rules = kLlama3, .ignore_merges = true, .add_bos = true}},
    {"gemma4", {.rules = kGemma4, .add_bos = true}},
    {"gigachat", {.rules = kGpt2}},
    {"glm4", {.rules = kLlama3}},
    {"gpt-2", {.rules = kGpt2}},
    {"gpt-4o", {.rules = kGpt4o}},
    {"gpt3-finnish", {.rules = kBloom}},
    {"granite-docling", {.rules = kGpt2}},
    {"grok-2", {.rules = kQwen2}},
    {"hunyuan", {.rules = kQwen2}},
    {"hunyuan-dense", {.rules = kDeepseekV3}},
    {"jais", {.rules = kGpt2}},
    {"jina-de", {.rules = kGpt2}},
    {"jina-es", {.rules = kGpt2}},
    {"jina-v1-en", {.rules = kGpt2, .add_separator = true}},
    {"jina-v2-code", {.rules = kGpt2, .add_separator = true}},
    {"jina-v2-de", {.rules = kGpt2}},
    {"jina-v2-es", {.rules = kGpt2}},
    {"jina-v5-nano", {.rules = kLlama3, .ignore_merges = true, .add_bos = true}},
    {"joyai-llm", {.rules = kDeepseekV3}},
    {"kanana2", {.rules = kGpt4o}},
    {"kimi-k2", {.rules = kKimiK2}},
    {"kormo", {.rules = kQwen2}},
    {"lfm2", {.rules = kLlama3, .ignore_merges = true, .add_bos = true}},
    {"llada-moe", {.rules = kBailing}},
    {"llama-bpe", {.rules = kLlama3, .ignore_merges = true, .add_bos = true}},
    {"llama-v3", {.rules = kLlama3, .ignore_merges = true, .add_bos = true}},
    {"llama3", {.rules = kLlama3, .ignore_merges = true, .add_bos = true}},
    {"llama4", {.rules = kGpt4o}},
    {"megrez", {.rules = kQwen2}},
    {"mellum", {.rules = kGpt2}},
    {"midm-2.0", {.rules = kLlama3, .ignore_merges = true, .add_bos = true}},
    {"minerva-7b", {.rules = kStarcoder}},
    {"minicpm5", {.rules = kMiniCpm5, .ignore_merges = true}},
    {"minimax-m2", {.rules = kGpt4o}},
    {"modern-bert", {.rules = kGpt2, .nfc = true}},
    {"mpt", {.rules = kGpt2, .nfc = true}},
    {"o200k", {.rules = kGpt4o}},
    {"olmo", {.rules = kGpt2, .nfc = true}},
    {"phi-2", {.rules = kGpt2}},
    {"pixtral", {.rules = kLlama3, .ignore_merges = true, .add_bos = true}},
    {"poro-chat", {.rules = kBloom}},
    {"qwen2", {.rules = kQwen2, .nfc = true}},
    {"qwen35", {.rules = kQwen35, .nfc = true}},
    {"refact", {.rules = kStarcoder}},
    {"roberta-bpe", {.rules = kGpt2, .add_separator = true}},
    {"seed-coder", {.rules = kSeedCoder}},
    {"smaug-bpe", {.rules = kLlama3}},
    {"smollm", {.rules = kStarcoder}},
    {"solar-open", {.rules = kQwen2}},
    {"stablelm2", {.rules = kQwen2}},
    {"starcoder", {.rules = kStarcoder}},
    {"superbpe", {.rules = kSuperBpe}},
    {"tekken", {.rules = kTekken, .ignore_merges = true, .add_bos = true}},
    {"tiny_aya", {.rules = kTinyAya}},
    {"trillion", {.rules = kGpt2}},
    {"viking", {.rules = kViking}},
    {"youtu", {.rules = kYoutu, .ignore_merges = true}},
};

}  // namespace

std::span<const NamedPreTokenizer> pre_tokenizers() { return kTable; }

const PreTokenizerSpec* find_pre_tokenizer(std::string_view name) {
  for (const NamedPreTokenizer& named : kTable) {
    if (named.name == name) return &named.spec;
  }
  return nullptr;
}

std::string pre_tokenizer_names() {
  std::string out;
  for (const NamedPreTokenizer& named : kTable) out.append(out.empty() ? "" : ", ").append(named.name);
  return out;
}

}  // namespace cairn::tokenizer
