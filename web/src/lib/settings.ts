// What a conversation asks of the server beside its messages.
import { kParameters } from './parameters';
import type { Message } from './tree';

export interface ChatSettings {
  models: string[];
  system: string;
  /** By the names of the request's fields; what is not there is left to the server. */
  sampling: Record<string, number>;
  /** '', 'none', 'low', 'medium' or 'high': reasoning_effort. */
  thinking: string;
  /** JSON text; empty: any text. */
  schema: string;
  /** JSON text: an array of tools as the API has them; empty: none. */
  tools: string;
  probabilities: boolean;
}

export const kNoSettings: ChatSettings = {
  models: [],
  system: '',
  sampling: {},
  thinking: '',
  schema: '',
  tools: '',
  probabilities: false,
};

export interface NumberField {
  name: string;
  label: string;
  /** What it does. */
  text?: string;
  min?: number;
  max?: number;
  step: number;
}

/** All that the sampler takes. */
export const kSamplingFields: NumberField[] = kParameters.map(({ whole, ...field }) => {
  const { min = -Infinity, max = Infinity } = field;
  return { ...field, step: whole ? 1 : max - min > 1 ? 0.05 : 0.01 };
});
const kUsual = ['temperature', 'top_k', 'top_p', 'min_p', 'repeat_penalty'];

/** What is shown at once. */
export const kUsualFields: NumberField[] = [
  ...kSamplingFields.filter(({ name }) => kUsual.includes(name)),
  { name: 'max_tokens', label: 'Maximum tokens', min: 1, max: 1_000_000, step: 1 },
  { name: 'seed', label: 'Seed', min: 0, max: 4_294_967_295, step: 1 },
];
/** What is folded. */
export const kFurtherFields = kSamplingFields.filter(({ name }) => !kUsual.includes(name));

/** How many alternatives the heat map shows for a token. */
const kAlternatives = 5;

/** What is wrong with the text of a schema or of tools; '' if nothing. */
export function problemWith(kind: 'schema' | 'tools', source: string): string {
  if (source.trim() === '') return '';
  let value: unknown;
  try {
    value = JSON.parse(source);
  } catch (error) {
    return `This is not JSON: ${(error as Error).message}`;
  }
  if (kind === 'tools') return Array.isArray(value) ? '' : 'Tools are a JSON array, as in the API.';
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? '' : 'A schema is a JSON object.';
}

/** A user's message as the model sees it: attached files come before the text. */
export function fullText(message: Pick<Message, 'content' | 'files'>): string {
  const files = (message.files ?? []).map(({ name, text }) => {
    let fence = '```';
    while (text.includes(fence)) fence += '`';
    return `${name}:\n${fence}\n${text}${text.endsWith('\n') ? '' : '\n'}${fence}\n\n`;
  });
  return files.join('') + message.content;
}

/** The body of a request to v1/chat/completions. */
export function requestBody(settings: ChatSettings, model: string, path: Message[]): Record<string, unknown> {
  const messages: Record<string, unknown>[] = [];
  if (settings.system.trim() !== '') messages.push({ role: 'system', content: settings.system });
  for (const message of path) {
    if (message.role === 'user') {
      messages.push({ role: 'user', content: fullText(message) });
    } else if (message.role === 'tool') {
      messages.push({ role: 'tool', tool_call_id: message.callId ?? '', content: message.content });
    } else {
      const turn: Record<string, unknown> = { role: 'assistant', content: message.content };
      if (message.thinking) turn.reasoning_content = message.thinking;
      if (message.calls)
        turn.tool_calls = message.calls.map((call) => ({
          id: call.id,
          type: 'function',
          function: { name: call.name, arguments: call.arguments },
        }));
      messages.push(turn);
    }
  }
  const body: Record<string, unknown> = {
    model,
    messages,
    stream: true,
    stream_options: { include_usage: true },
    return_progress: true,
    ...settings.sampling,
  };
  if (settings.thinking !== '') body.reasoning_effort = settings.thinking;
  if (settings.probabilities) Object.assign(body, { logprobs: true, top_logprobs: kAlternatives });
  if (settings.tools.trim() !== '') body.tools = JSON.parse(settings.tools);
  if (settings.schema.trim() !== '')
    body.response_format = {
      type: 'json_schema',
      json_schema: { name: 'answer', strict: true, schema: JSON.parse(settings.schema) },
    };
  return body;
}
