#include "tokenizer/text/pre_tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <utf8proc.h>

#include <algorithm>
#include <utility>

#include "tokenizer/text/lenient_utf8.h"

namespace cairn::tokenizer {
namespace {

template <auto Free>
struct Freer {
  template <class T>
  void operator()(T* pointer) const {
    Free(pointer);
  }
};
using Code8 = std::unique_ptr<pcre2_code, Freer<pcre2_code_free_8>>;
using MatchData = std::unique_ptr<pcre2_match_data, Freer<pcre2_match_data_free_8>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Freer<pcre2_match_context_free_8>>;
using JitStack = std::unique_ptr<pcre2_jit_stack, Freer<pcre2_jit_stack_free_8>>;

// Unicode's White_Space property. PCRE2's own \s also includes U+180E.
constexpr std::string_view kWhiteSpace =
    R"(\x{9}-\x{D}\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";

constexpr size_t kJitStackBytesMin = 32 << 10;
constexpr size_t kJitStackBytesMax = 64 << 20;
// Minimum limit of backtracking steps of one match: well-behaved patterns need a few per byte.
constexpr uint64_t kMatchStepsMin = 10'000'000;
constexpr uint64_t kMatchStepsPerByte = 16;

std::string expand_white_space(std::string_view pattern) {
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char escaped = pattern[++i];
      if (escaped == 's') {
        out.append(in_class ? "" : "[").append(kWhiteSpace).append(in_class ? "" : "]");
      } else if (escaped == 'S') {
        out.append("[^").append(kWhiteSpace).append("]");
      } else {
        out.append({c, escaped});
      }
      continue;
    }
    if (c == '[') in_class = true;
    if (c == ']') in_class = false;
    out += c;
  }
  return out;
}

std::string pcre_message(int error) {
  PCRE2_UCHAR text[256] = {};
  pcre2_get_error_message(error, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

// Memory of one thread for matching: made for each call of split(), since a PreTokenizer is shared.
class Matcher {
 public:
  explicit Matcher(size_t text_bytes)
      : data_(pcre2_match_data_create(1, nullptr)), context_(pcre2_match_context_create(nullptr)) {
    const uint64_t steps = kMatchStepsMin + kMatchStepsPerByte * text_bytes;
    if (context_) pcre2_set_match_limit(context_.get(), static_cast<uint32_t>(std::min<uint64_t>(steps, UINT32_MAX)));
  }

  // The first match at or after `from`: its begin and end, or no value if there is none.
  Result<std::pair<size_t, size_t>> match(const pcre2_code* code, std::string_view subject, size_t from) {
    if (!data_ || !context_) return fail(Code::kOutOfMemory, "no memory to split a text into words");
    int found = run(code, subject, from);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT && !stack_) {
      stack_.reset(pcre2_jit_stack_create(kJitStackBytesMin, kJitStackBytesMax, nullptr));
      if (stack_) pcre2_jit_stack_assign(context_.get(), nullptr, stack_.get());
      found = run(code, subject, from);
    }
    if (found == PCRE2_ERROR_NOMATCH) return std::pair(subject.size(), subject.size());
    if (found < 0) {
      return fail(Code::kTooLarge, "the text cannot be split into words: {}; send it in smaller parts",
                  pcre_message(found));
    }
    const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(data_.get());
    return std::pair<size_t, size_t>(ends[0], ends[1]);
  }

 private:
  int run(const pcre2_code* code, std::string_view subject, size_t from) {
    // The caller normalised the text; surrogates, which a check would refuse, are well-formed characters to PCRE2.
    return pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(subject.data()), subject.size(), from, PCRE2_NO_UTF_CHECK,
                       data_.get(), context_.get());
  }

  MatchData data_;
  MatchContext context_;
  JitStack stack_;
};

utf8proc_category_t category_of(char32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }

// \d and \w of published patterns.
bool is_digit(char32_t c) { return category_of(c) == UTF8PROC_CATEGORY_ND; }
bool is_word_char(char32_t c) {
  const utf8proc_category_t category = category_of(c);
  return category >= UTF8PROC_CATEGORY_LU &&
         category <= UTF8PROC_CATEGORY_PC;  // letters, marks, numbers and connecting punctuation
}

// Appends to `ends` the offsets at which `word`, which begins at `base`, is cut. The last one is the word's own end.
void cut_in_threes(std::string_view word, uint32_t base, SplitRule::Kind kind, std::vector<uint32_t>& ends) {
  const auto cut_at = [&](size_t offset) {
    const auto end = base + static_cast<uint32_t>(offset);
    if (offset > 0 && (ends.empty() || ends.back() < end)) ends.push_back(end);
  };
  std::vector<size_t> digits;  // begins of the digits of a run
  for (size_t i = 0; i < word.size();) {
    const LenientChar c = lenient_decode(word, i);
    i += static_cast<size_t>(c.length);
    const bool digit = is_digit(c.value);
    if (digit) digits.push_back(i - static_cast<size_t>(c.length));
    if (digits.empty() || (digit && i < word.size())) continue;
    const size_t digits_end = digit ? i : i - static_cast<size_t>(c.length);
    if (digit || kind != SplitRule::Kind::kThreesBeforeBoundary || !is_word_char(c.value)) {
      const bool apart = kind != SplitRule::Kind::kBeforeThrees;
      if (apart) cut_at(digits.front());
      for (size_t cut = digits.size() % 3; cut < digits.size(); cut += 3) cut_at(digits[cut]);
      if (apart) cut_at(digits_end);
    }
    digits.clear();
  }
  cut_at(word.size());
}

Result<void> cut_by_pattern(Matcher& matcher, const pcre2_code* code, std::string_view word, uint32_t base,
                            std::vector<uint32_t>& ends) {
  size_t done = 0;
  while (done < word.size()) {
    CAIRN_TRY(const auto match, matcher.match(code, word, done));
    const auto [begin, end] = match;
    if (begin > done) ends.push_back(base + static_cast<uint32_t>(begin));
    if (end > begin) ends.push_back(base + static_cast<uint32_t>(end));
    if (end <= done) break;  // no pattern of the table matches the empty text
    done = end;
  }
  return {};
}

}  // namespace

struct PreTokenizer::Rule {
  SplitRule::Kind kind;
  Code8 code;
};

PreTokenizer::PreTokenizer(std::vector<Rule> rules) : rules_(std::move(rules)) {}
PreTokenizer::PreTokenizer(PreTokenizer&&) noexcept = default;
PreTokenizer& PreTokenizer::operator=(PreTokenizer&&) noexcept = default;
PreTokenizer::~PreTokenizer() = default;

Result<PreTokenizer> PreTokenizer::compile(std::span<const SplitRule> rules) {
  std::vector<Rule> compiled;
  for (const SplitRule& rule : rules) {
    Code8 code;
    if (rule.kind == SplitRule::Kind::kPattern) {
      const std::string pattern = expand_white_space(rule.pattern);
      int error = 0;
      PCRE2_SIZE offset = 0;
      code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), PCRE2_UTF | PCRE2_UCP,
                               &error, &offset, nullptr));
      if (!code) {
        return fail_at(fmt::format("character {} of {}", offset, pattern), Code::kInternal,
                       "a word pattern does not compile: {}", pcre_message(error));
      }
      // If the system forbids generated code, PCRE2 interprets the pattern: the same words, slower.
      pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);
    }
    compiled.push_back({rule.kind, std::move(code)});
  }
  return PreTokenizer(std::move(compiled));
}

Result<void> PreTokenizer::split(std::string_view text, std::vector<uint32_t>& ends) const {
  ends.clear();
  if (text.empty()) return {};
  ends.push_back(static_cast<uint32_t>(text.size()));
  Matcher matcher(text.size());
  std::vector<uint32_t> next;
  for (const Rule& rule : rules_) {
    next.clear();
    uint32_t begin = 0;
    for (const uint32_t end : ends) {
      const std::string_view word = text.substr(begin, end - begin);
      if (rule.kind == SplitRule::Kind::kPattern) {
        CAIRN_TRY_VOID(cut_by_pattern(matcher, rule.code.get(), word, begin, next));
      } else {
        cut_in_threes(word, begin, rule.kind, next);
      }
      begin = end;
    }
    ends.swap(next);
  }
  return {};
}

}  // namespace cairn::tokenizer
