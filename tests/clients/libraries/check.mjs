// What the programs for libraries share: each test prints a line of JSON, {test, problems, note}.
import assert from 'node:assert/strict';
import process from 'node:process';

export const URL_OF_CAIRN = process.env.CAIRN_URL;
export const MODEL = 'scripted';
export const HELLO = 'Hello from the scripted model, all is well.';
export const SUNNY = 'It is sunny in Oslo.';
export const JSON_ANSWER = { city: 'Oslo', degrees: 20, sunny: true };
// What tools print: a NUL and a control character; half of a face, as programs that cut texts at UTF-16 units leave it.
const ODD = { binary: 'a\0b \u001b[31m', 'half a face': 'x \ud83d y' };
// A test for each of them: tests of `oddTests('x: ', (odd) => ...)` are "x: binary" and "x: half a face".
export const oddTests = (prefix, body) => Object.fromEntries(Object.entries(ODD).map(([name, odd]) => [`${prefix}${name}`, () => body(odd)]));
export const DOT = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC';
// Bounded: where a call is required, a scripted model writes on in whatever may go on.
export const WEATHER_SCHEMA = { type: 'object', properties: { city: { type: 'string', maxLength: 20 } }, required: ['city'], additionalProperties: false };
// Longer than the context that the tests' server has.
export const tooLong = () => 'word '.repeat(300_000);

// A call that was cut must not have become a whole one.
export function assertCut(calls) {
  for (const text of calls) {
    let whole = true;
    try {
      JSON.parse(text);
    } catch {
      whole = false;
    }
    assert.ok(!whole, `the cut call has become a whole one: ${text}`);
  }
}

const SECONDS = 20;

export async function runTests(tests) {
  for (const [test, body] of Object.entries(tests)) {
    let timer;
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error(`no end within ${SECONDS} s`)), SECONDS * 1000);
    });
    let problems = [];
    try {
      await Promise.race([body(), late]);
    } catch (error) {
      const answer = error.responseBody ?? error.lastError?.responseBody ?? '';
      problems = [`${error.name}: ${error.message} ${answer}`.slice(0, 600)];
    }
    clearTimeout(timer);
    console.log(JSON.stringify({ test, problems }));
  }
  process.exit(0);
}
