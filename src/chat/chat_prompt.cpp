#include "chat/chat_prompt.h"

#include <algorithm>
#include <charconv>
#include <ctime>
#include <optional>
#include <set>
#include <span>

#include "base/log.h"
#include "base/system/random_id.h"
#include "chat/completion_prompt.h"
#include "chat/output/reasoning.h"

namespace cairn::chat {
namespace {

using nlohmann::ordered_json;

// A placeholder for a known turn's text, or its thinking, while the template renders. It does not occur by chance; a
// client that writes it on purpose only gets a prompt that is rendered without known turns.
std::string mark(std::string_view what, size_t message) {
  static const uint64_t secret = secure_random();
  return fmt::format("@@{:016x}{}-{}@@", secret, what, message);
}

/// Whether a turn's placeholder occurs twice in a rendering, found for all turns in one pass.
bool stands_twice(std::string_view rendering) {
  std::string begin = mark("text", 0);
  begin.erase(begin.find("text-0") + 5);
  std::set<size_t> seen;
  for (size_t at = rendering.find(begin); at != std::string_view::npos; at = rendering.find(begin, at)) {
    at += begin.size();
    size_t message = 0;
    std::from_chars(rendering.data() + at, rendering.data() + rendering.size(), message);
    if (!seen.insert(message).second) return true;
  }
  return false;
}

struct KnownTurn {
  size_t message;
  std::shared_ptr<const SampledTurn> sampled;
  TurnSource source = TurnSource::kMemory;
};

int32_t turns_of_assistant(const ordered_json& messages) {
  return static_cast<int32_t>(
      std::ranges::count_if(messages, [](const ordered_json& message) { return message["role"] == "assistant"; }));
}

ReplayedTurns replayed_turns(const ordered_json& messages, std::span<const KnownTurn> known) {
  ReplayedTurns turns;
  for (const KnownTurn& turn : known) ++(turn.source == TurnSource::kMemory ? turns.memory : turns.store);
  turns.rendered = turns_of_assistant(messages) - turns.all();
  return turns;
}

std::vector<KnownTurn> known_turns(const PromptContext& context, const ordered_json& messages, SampledTurnCache& turns,
                                   const CacheScope& scope) {
  std::vector<KnownTurn> known;
  for (size_t i = 0; i < messages.size(); ++i) {
    if (messages[i]["role"] != "assistant") continue;
    TurnSource source = TurnSource::kMemory;
    auto turn = turns.find(scope, messages[i], &source);
    if (turn == nullptr) continue;
    if (std::ranges::all_of(turn->tokens, [&](TokenId id) { return index(id) < context.tokenizer.size(); })) {
      known.push_back({i, std::move(turn), source});
    } else {
      log_warning("a stored turn has tokens that {} does not have, and is left out", context.model_name);
    }
  }
  return known;
}

/// Tokens, followed by bytes of the rendering.
struct Piece {
  std::span<const TokenId> tokens;
  ByteRange text;
};

std::string_view drop_space_at_end(std::string_view text) {
  while (!text.empty() && (text.back() == ' ' || text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

/// Where a turn's tokens begin if its text is at `end`: after the generation prompt, with nothing but the start of the
/// thinking between. Empty if the template writes something else there, so that the tokens would not fit.
std::optional<size_t> begin_of_turn(std::string_view text, size_t end, std::string_view generation_prompt,
                                    std::string_view think_open) {
  std::string_view before = text.substr(0, end);
  if (before.ends_with(generation_prompt) && !generation_prompt.empty()) return end;
  before = drop_space_at_end(before);
  if (!think_open.empty() && before.ends_with(think_open)) before.remove_suffix(think_open.size());
  const std::string_view bare = drop_space_at_end(generation_prompt);
  if (drop_space_at_end(before).ends_with(bare)) {
    const size_t begin = drop_space_at_end(before).size() - bare.size() + generation_prompt.size();
    if (begin <= end && text.substr(begin - generation_prompt.size(), generation_prompt.size()) == generation_prompt)
      return begin;
  }
  return std::nullopt;
}

/// What the rendering with a generation prompt has more than that without one. Some templates end a conversation that
/// is not continued with a token of their own.
Result<std::string> added_prompt(const PromptContext& context, ChatInput input, std::string_view with) {
  input.add_generation_prompt = false;
  CAIRN_TRY(const jinja::Rendering without, context.chat_template.render(input, std::time(nullptr)));
  const auto differs = std::ranges::mismatch(with, without.text);
  return std::string(differs.in1, with.end());
}

/// The text that the template appends for the model to continue: that of the last message alone, if the rendering ends
/// with it, because a whole conversation takes long to render again.
Result<std::string> generation_prompt_of(const PromptContext& context, const ChatInput& input, std::string_view with) {
  ChatInput last;
  last.messages.push_back(input.messages.back());
  last.variables = input.variables;
  if (const auto alone = context.chat_template.render(last, std::time(nullptr))) {
    const auto added = added_prompt(context, std::move(last), alone->text);
    if (added && !added->empty() && with.ends_with(*added)) return *added;
  }
  return added_prompt(context, input, with);
}

/// Cuts the rendering at known turns; nullopt if the template does something unexpected with them.
std::optional<std::vector<Piece>> cut(std::string_view text, const std::vector<KnownTurn>& known,
                                      std::string_view generation_prompt, std::string_view think_open) {
  if (stands_twice(text)) return std::nullopt;
  std::vector<Piece> pieces = {{}};
  size_t written = 0;
  for (const KnownTurn& turn : known) {
    const std::string content = mark("text", turn.message);
    const std::string thinking = mark("thinking", turn.message);
    const size_t at = text.find(content, written);
    if (at == std::string_view::npos) return std::nullopt;
    const size_t thinks_at = text.substr(0, at).find(thinking, written);
    const SampledTurn& sampled = *turn.sampled;
    const bool shows_thinking = thinks_at != std::string_view::npos;
    std::optional<size_t> begin;
    if (shows_thinking || sampled.turn.reasoning.empty())
      begin = begin_of_turn(text, std::min(at, thinks_at), generation_prompt, think_open);
    if (begin && *begin >= written) {
      pieces.back().text = {written, *begin};
      pieces.push_back({sampled.tokens, {}});
    } else if (!shows_thinking && sampled.thinking_end <= sampled.tokens.size()) {
      pieces.back().text = {written, at};
      pieces.push_back({std::span(sampled.tokens).subspan(sampled.thinking_end), {}});
    } else {
      return std::nullopt;
    }
    written = at + content.size();
  }
  pieces.back().text = {written, text.size()};
  return pieces;
}

/// Encodes the pieces. Control tokens that the template wrote become tokens; text that came with the request stays
/// text, whatever it looks like.
Result<ChatPrompt> encode(const PromptContext& context, const jinja::Rendering& rendering,
                          std::span<const Piece> pieces) {
  ChatPrompt prompt;
  std::vector<TokenId>& tokens = prompt.tokens;
  for (const Piece& piece : pieces) {
    tokens.insert(tokens.end(), piece.tokens.begin(), piece.tokens.end());
    const auto [begin, end] = piece.text;
    const std::string_view text = std::string_view(rendering.text).substr(begin, end - begin);
    const std::vector<ByteRange> foreign = ranges_within(rendering.foreign, begin, end);
    CAIRN_TRY_VOID(append_text(context.tokenizer, text, {.parse_special = true, .foreign = foreign}, tokens));
    prompt.text += text;
  }
  const tokenizer::SpecialTokens& special = context.tokenizer.special();
  const bool has_bos = !tokens.empty() && tokens.front() == special.bos;
  if (special.add_bos && special.bos != kNoToken && !has_bos) tokens.insert(tokens.begin(), special.bos);
  if (tokens.empty())
    return fail_at("messages", Code::kInvalidArgument, "the chat template renders these messages to nothing");
  return prompt;
}

/// Whether the rendering of the turns' own texts has the same text around them as that of their placeholders.
bool same_around(std::string_view plain, std::string_view marked, std::span<const Piece> pieces) {
  const auto text_of = [&](const Piece& piece) {
    return marked.substr(piece.text.begin, piece.text.end - piece.text.begin);
  };
  const std::string_view first = text_of(pieces.front()), last = text_of(pieces.back());
  if (!plain.starts_with(first) || plain.size() < first.size() + last.size() || !plain.ends_with(last)) return false;
  size_t at = first.size();
  for (const Piece& piece : pieces.subspan(1, pieces.size() - 2)) {
    const std::string_view text = text_of(piece);
    at = plain.find(text, at);
    if (at == std::string_view::npos) return false;
    at += text.size();
  }
  return at <= plain.size() - last.size();
}

/// The prompt with known turns in it; nullopt: render as usual.
Result<std::optional<ChatPrompt>> prompt_with_known(const PromptContext& context, const ChatInput& input,
                                                    const std::vector<KnownTurn>& known) {
  ChatInput marked = input;
  for (const KnownTurn& turn : known) {
    auto& message = marked.messages[turn.message];
    message["content"] = mark("text", turn.message);
    marked.sampled.push_back(turn.message);
    message.erase("reasoning_content");
    if (!turn.sampled->turn.reasoning.empty()) message["reasoning_content"] = mark("thinking", turn.message);
  }
  const auto rendering = context.chat_template.render(marked, std::time(nullptr));
  if (!rendering) return std::nullopt;  // such a turn cannot be rendered without its calls
  CAIRN_TRY(const std::string generation_prompt, generation_prompt_of(context, marked, rendering->text));
  // A template may look into old answers: for </think>, for a word. Then it decides by the placeholder.
  for (const KnownTurn& turn : known) {
    auto& content = marked.messages[turn.message]["content"];
    const ordered_json& own = input.messages[turn.message]["content"];
    if (own.is_array() ||
        (own.is_string() && own.get_ref<const std::string&>().find_first_not_of(" \t\r\n") != std::string::npos))
      content = own;
  }
  const auto plain = context.chat_template.render(marked, std::time(nullptr));
  const ReasoningStyle* style = find_style(context.output_format.reasoning);
  const auto pieces =
      cut(rendering->text, known, generation_prompt, style == nullptr ? std::string_view() : style->open);
  if (!pieces || !plain || !same_around(plain->text, rendering->text, *pieces)) return std::nullopt;
  CAIRN_TRY(ChatPrompt prompt, encode(context, *rendering, *pieces));
  return prompt;
}

}  // namespace

Result<ChatPrompt> chat_prompt(const PromptContext& context, const ChatInput& input, SampledTurnCache* turns,
                               const CacheScope& scope) {
  if (turns != nullptr && input.add_generation_prompt) {
    if (const auto known = known_turns(context, input.messages, *turns, scope); !known.empty()) {
      CAIRN_TRY(auto prompt, prompt_with_known(context, input, known));
      if (prompt) {
        prompt->replayed = replayed_turns(input.messages, known);
        return std::move(*prompt);
      }
    }
  }
  CAIRN_TRY(const jinja::Rendering rendering, context.chat_template.render(input, std::time(nullptr)));
  CAIRN_TRY_VOID(check_length(context, rendering.text, "messages"));
  const Piece whole{{}, {0, rendering.text.size()}};
  CAIRN_TRY(ChatPrompt prompt, encode(context, rendering, {&whole, 1}));
  prompt.replayed = replayed_turns(input.messages, {});
  return prompt;
}

}  // namespace cairn::chat
