// --draft with real files: a smaller model drafts tokens, and no answer changes. A model that has an MTP module is
// always right when nothing is drawn, though it saves no time.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { cairn, fixtures, serve, story, tiny } from './server.mjs';

let plain, drafting;
before(async () => { [plain, drafting] = [await serve(story), await serve(story, ['--draft', story])]; });
after(async () => {
  for (const server of [plain, drafting]) {
    const end = await server.stop();
    assert.equal(end.code, 0, end.log);
  }
});

const words = 'Once upon a time there was a little dog who lived in a big house near the sea. ';
const tokens = 100;
const ask = async (server, more) => {
  const reply = await server.post('/v1/completions', { max_tokens: tokens, ignore_eos: true, ...more });
  assert.equal(reply.status, 200, await reply.clone().text());
  const { choices, timings, usage } = await reply.json();
  return { text: choices[0].text, timings, usage };
};

// Where a row more costs nearly a step more, as for one small model on a slow machine, drafts do not pay and none are
// made; among others a row costs little. What pays is found out by trying now and then, so one round may go without.
async function askUntilAccepted(more) {
  const sum = { drafted: 0, accepted: 0 };
  for (let round = 0; round < 20 && sum.accepted === 0; ++round) {
    const requests = Array.from({ length: 8 }, (_, i) => ({ ...more, seed: i, prompt: `Story ${8 * round + i}. ${words}` }));
    const expected = await Promise.all(requests.map((request) => ask(plain, request)));
    const answers = await Promise.all(requests.map((request) => ask(drafting, request)));
    assert.deepEqual(answers.map(({ text }) => text), expected.map(({ text }) => text));
    for (const { timings, usage } of answers) {
      assert.equal(usage.completion_tokens, tokens);
      sum.drafted += timings.draft_n;
      sum.accepted += timings.draft_n_accepted;
    }
    for (const { timings } of expected) assert.deepEqual([timings.draft_n, timings.draft_n_accepted], [0, 0]);
  }
  return sum;
}

const counted = async () => {
  const stats = await (await fetch(`${drafting.url}/stats`)).json();
  return { drafted: stats.draft_tokens, accepted: stats.draft_tokens_accepted };
};

test('greedy: the same texts, and every draft is right', async () => {
  const { drafted, accepted } = await askUntilAccepted({ temperature: 0 });
  assert.ok(accepted > 0, `${accepted} of ${drafted}`);
  assert.equal(accepted, drafted);
  assert.deepEqual(await counted(), { drafted, accepted });
  assert.match(drafting.log(), /draft model .*stories260K-f32\.gguf/);
});

test('drawn with a seed: the same texts', async () => {
  const before = await counted();
  const { drafted, accepted } = await askUntilAccepted({ temperature: 1 });
  assert.ok(accepted > 0, `${accepted} of ${drafted}`);
  assert.deepEqual(await counted(), { drafted: before.drafted + drafted, accepted: before.accepted + accepted });
});

test('alone: the same text', async () => {
  for (const temperature of [0, 1]) {
    const request = { prompt: words.repeat(6), temperature, seed: 7 };
    assert.equal((await ask(drafting, request)).text, (await ask(plain, request)).text);
  }
});

test('a draft model of another vocabulary, or none, is refused with what is wrong', () => {
  const refused = (draft, status, pattern) => {
    for (const command of [['serve', story, '--port', '0'], ['generate', story, '-p', 'x', '-n', '1']]) {
      const run = cairn([...command, '--draft', draft]);
      assert.equal(run.status, status, run.stderr);
      assert.match(run.stderr, pattern);
      assert.doesNotMatch(run.stderr, /serving/);
    }
  };
  refused(tiny, 1, /llama\.gguf cannot draft for this model: .*; both must have the same vocabulary/);
  refused(path.join(fixtures, 'nothing.gguf'), 1, /--draft: no such file: \S+nothing\.gguf/);
});

// Whether such small models draft at all depends on what a draft costs at that moment; mtp_test demands drafts.
const ownHeads = [
  ['the MTP module of DeepSeek V4', ['--arch', 'deepseek4', '--set', 'nextn_predict_layers=1']],
  ['the drafting head of DeepSeek V4.1', ['--arch', 'deepseek41', '--set', 'dspark.stage_count=2']],
];
for (const [what, shape] of ownHeads) {
  test(`${what}: the same texts`, async () => {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cairn-head-'));
    try {
      const model = path.join(folder, 'model.gguf');
      const made = cairn(['synth', model, ...shape]);
      assert.equal(made.status, 0, made.stderr);
      const [alone, drafting] = [await serve(model), await serve(model, ['--speculate', '4'])];
      assert.match(drafting.log(), /drafts with its own drafting head/);
      assert.doesNotMatch(alone.log(), /drafting head|not used/);
      for (const temperature of [0, 1]) {
        const request = { prompt: words, temperature, seed: 3 };
        assert.equal((await ask(drafting, request)).text, (await ask(alone, request)).text);
      }
      for (const server of [alone, drafting]) assert.equal((await server.stop()).code, 0);
    } finally {
      fs.rmSync(folder, { recursive: true, force: true });
    }
  });
}
