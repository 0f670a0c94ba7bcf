// An answer as it comes in: the chunks of a stream, put together to a message.
import type { Message, TokenProbability } from './tree';

interface Delta {
  content?: string | null;
  reasoning_content?: string | null;
  tool_calls?: { index?: number; id?: string; function?: { name?: string; arguments?: string } }[];
}

interface Logprob {
  token: string;
  logprob: number;
  top_logprobs?: { token: string; logprob: number }[];
}

/** Of the server's `timings`, what is shown. */
interface ServerTimings {
  queue_ms?: number;
  prompt_n?: number;
  prompt_ms?: number;
  predicted_ms?: number;
  predicted_per_second?: number;
}

interface Chunk {
  choices?: { delta?: Delta; finish_reason?: string | null; logprobs?: { content?: Logprob[] | null } | null }[];
  usage?: {
    prompt_tokens?: number;
    completion_tokens?: number;
    prompt_tokens_details?: { cached_tokens?: number };
  } | null;
  timings?: ServerTimings;
  prompt_progress?: { total?: number; processed?: number };
  error?: { message?: string };
}

const kRateAfterMs = 250;

/** Builds one message. Times are those of `now`, in milliseconds. */
export class Answer {
  private readonly begun: number;
  private firstToken?: number;
  private lastToken?: number;
  private pieces = 0;
  private over = false;
  /** How far the server has read the prompt. */
  read?: { total?: number; processed?: number };

  constructor(
    readonly message: Message,
    private readonly now: () => number,
  ) {
    this.begun = now();
  }

  /** Takes the data of an event. Throws an Error with the server's words if it tells of one. */
  take(data: string) {
    if (data === '[DONE]') {
      this.over = true;
      return;
    }
    const chunk = JSON.parse(data) as Chunk;
    if (chunk.error) throw new Error(chunk.error.message ?? 'The server tells of an error without words.');
    if (chunk.prompt_progress) this.read = chunk.prompt_progress;
    const choice = chunk.choices?.[0];
    if (choice?.delta) this.takeDelta(choice.delta);
    for (const each of choice?.logprobs?.content ?? []) this.takeProbability(each);
    if (choice?.finish_reason) this.message.finish = choice.finish_reason;
    const stats = (this.message.stats ??= {});
    if (chunk.usage) {
      stats.promptTokens = chunk.usage.prompt_tokens;
      stats.cachedTokens = chunk.usage.prompt_tokens_details?.cached_tokens;
      stats.tokens = chunk.usage.completion_tokens;
      stats.seenPerSecond = this.rate(chunk.usage.completion_tokens);
      stats.tokensPerSecond ??= stats.seenPerSecond;
    }
    if (chunk.timings) this.takeTimings(chunk.timings);
  }

  /** Whether the server has said that this was all. */
  get whole() {
    return this.over;
  }

  /** Tokens per second so far, about: one piece of text is taken for a token. Nothing while it is too early to say. */
  get rateNow(): number | undefined {
    return (this.lastToken ?? 0) - (this.firstToken ?? 0) >= kRateAfterMs ? this.rate(this.pieces) : undefined;
  }

  private rate(tokens: number | undefined): number | undefined {
    const ms = (this.lastToken ?? 0) - (this.firstToken ?? 0);
    return tokens !== undefined && tokens > 1 && ms > 0 ? ((tokens - 1) / ms) * 1000 : undefined;
  }

  private takeTimings({ queue_ms = 0, prompt_n, prompt_ms, predicted_ms, predicted_per_second }: ServerTimings) {
    const stats = (this.message.stats ??= {});
    if (predicted_per_second) stats.tokensPerSecond = predicted_per_second;
    if (prompt_ms !== undefined) stats.server = { queueMs: queue_ms, promptMs: prompt_ms, promptTokens: prompt_n, answerMs: predicted_ms };
  }

  private takeDelta(delta: Delta) {
    const { message } = this;
    if (!delta.content && !delta.reasoning_content && !delta.tool_calls?.length) return;
    ++this.pieces;
    this.lastToken = this.now();
    if (this.firstToken === undefined) {
      this.firstToken = this.lastToken;
      message.stats = { ...message.stats, firstTokenMs: this.firstToken - this.begun };
    }
    if (delta.reasoning_content) {
      message.thinking = (message.thinking ?? '') + delta.reasoning_content;
      message.thinkingMs = this.lastToken - this.firstToken;
    }
    if (delta.content) message.content += delta.content;
    for (const part of delta.tool_calls ?? []) {
      const calls = (message.calls ??= []);
      const at = part.index ?? calls.length;
      while (calls.length <= at) calls.push({ id: '', name: '', arguments: '' });
      const call = calls[at]!;
      if (part.id) call.id = part.id;
      if (part.function?.name) call.name = part.function.name;
      call.arguments += part.function?.arguments ?? '';
    }
  }

  private takeProbability(each: Logprob) {
    const probability: TokenProbability = {
      text: each.token,
      logprob: each.logprob,
      top: (each.top_logprobs ?? []).map(({ token, logprob }) => ({ text: token, logprob })),
    };
    (this.message.probabilities ??= []).push(probability);
  }
}
