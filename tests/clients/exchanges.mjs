// What is read from the exchanges that the proxy kept.

const events = (answer) => answer.split('\n').map((line) => line.replace(/^data: /, '')).filter((line) => line.startsWith('{'))
  .flatMap((line) => {
    try {
      return [JSON.parse(line)];
    } catch {
      return [];
    }
  });

// The arguments of each call in an answer, as texts: of chat, Messages, Responses and Ollama, streamed or not.
export function callArguments(answer) {
  const parts = new Map();
  const add = (key, text) => parts.set(key, (parts.get(key) ?? '') + (typeof text === 'string' ? text : JSON.stringify(text)));
  for (const event of events(answer ?? '')) {
    for (const choice of event.choices ?? []) {
      for (const [index, call] of ((choice.delta ?? choice.message)?.tool_calls ?? []).entries()) {
        add(`chat ${call.index ?? index}`, call.function?.arguments ?? '');
      }
    }
    if (event.delta?.type === 'input_json_delta') add(`block ${event.index}`, event.delta.partial_json);
    const blocks = [...(Array.isArray(event.content) ? event.content : []), ...(event.output ?? [])];
    if (event.type === 'response.output_item.done') blocks.push(event.item);
    for (const block of blocks) {
      if (block.type === 'tool_use') add(`block ${block.id}`, block.input);
      if (block.type === 'function_call') add(`item ${block.id}`, block.arguments);
    }
    for (const call of event.message?.tool_calls ?? []) add(`ollama ${parts.size}`, call.function.arguments);
  }
  return [...parts.values()];
}

const isJson = (text) => {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
};

// Problems of calls that were cut or are broken: `records` whose calls must not have become whole.
export const completedCalls = (records) => records.flatMap(({ n, answer }) =>
  callArguments(answer).filter(isJson).map((text) => `exchange ${n}: a call that the model did not end is given as a whole one: ...${text.slice(-60)}`));

// Problems of the exchanges: what the client sends by itself must not be refused, but for its probes of other servers.
export function refusals(records, probes = []) {
  const problems = [];
  for (const { n, method, url, status, answer, error, aborted } of records) {
    if (probes.includes(`${method} ${url}`)) continue;
    if (error && !aborted) problems.push(`exchange ${n}: ${method} ${url}: ${error}`);
    if (status >= 400) problems.push(`exchange ${n}: ${method} ${url} -> ${status} ${(answer ?? '').slice(0, 300)}`);
  }
  return problems;
}

// Whether a request has the word in it.
export const sent = (records, word) => records.some(({ request }) => JSON.stringify(request ?? '').includes(word));
