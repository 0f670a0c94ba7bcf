// Importance matrices and quantisation, as a person would use them.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { cairn, fixtures, program, story } from './server.mjs';

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cairn-quantising-'));
process.on('exit', () => fs.rmSync(folder, { recursive: true, force: true }));
const file = (name) => path.join(folder, name);

// Stories in the words of the model, of which the two halves share no sentence.
const sentences = ['Once upon a time there was a little girl who liked to play in the garden.', 'One day she found a big red ball and she was very happy.',
  'Her mom said that it was time to go home and eat.', 'The dog ran to the park and saw a bird in a tree.', 'Tom was sad because his toy car was broken.',
  'They all laughed and played until the sun went down.', 'Lily wanted to help her friend, so she gave him a cookie.', 'The cat was scared of the loud noise and hid under the bed.'];
const told = (from, count) => Array.from({ length: count }, (_, i) => sentences[from + ((i * 3 + (i >> 2)) % 4)]).join(' ');
const seen = file('seen.txt');
const unseen = file('unseen.txt');
fs.writeFileSync(seen, told(0, 160));
fs.writeFileSync(unseen, told(4, 80));

function done(args) {
  const run = cairn(args);
  assert.equal(run.status, 0, `${args.join(' ')}: ${run.stderr}`);
  return run.stdout;
}
function fails(args, pattern) {
  const run = cairn(args);
  assert.notEqual(run.status, 0, `${args.join(' ')} should fail`);
  assert.match(run.stderr, pattern);
}

test('imatrix measures a model, the same for any number of threads, and adds up', () => {
  const one = file('one.gguf');
  const two = file('two.gguf');
  assert.match(done(['imatrix', story, seen, '-c', '64', '-o', one, '-t', '1']), /one\.gguf: \d+ tensors, \d+ chunks of 64 tokens/);
  done(['imatrix', story, seen, '-c', '64', '-o', two, '-t', '2']);
  assert.ok(fs.readFileSync(one).equals(fs.readFileSync(two)));
  const whole = /(\d+) chunks/.exec(done(['imatrix', story, seen, '-c', '64', '-o', two, '--from', one]))[1];
  const half = /(\d+) chunks/.exec(done(['imatrix', story, seen, '-c', '64', '-o', one]))[1];
  assert.equal(Number(whole), 2 * Number(half));
  fails(['imatrix', story, seen, '-c', '64', '-o', two, '--from', story], /is no importance matrix/);
  fails(['imatrix', story, unseen, '-c', '60000', '-o', two], /give more text/);
  fails(['quantize', path.join(fixtures, 'models', 'quant-llama-f16.gguf'), file('x.gguf'), 'Q4_0', '--imatrix', one], /of another model/);
});

test('imatrix reads the text that comes with Cairn, and embedding models, too', () => {
  assert.match(done(['imatrix', story, '-c', '128', '--chunks', '2', '-o', file('own.gguf')]), /2 chunks of 128 tokens/);
  assert.match(done(['imatrix', path.join(fixtures, 'models', 'bert.gguf'), '-c', '16', '--chunks', '2', '-o', file('bert.gguf')]), /\d+ tensors, 2 chunks/);
});

test('quantize writes every type, and says what it refuses', () => {
  const source = path.join(fixtures, 'models', 'quant-llama-f16.gguf');
  const matrix = file('matrix.gguf');
  done(['imatrix', source, seen, '-c', '32', '--chunks', '4', '-o', matrix]);
  for (const type of ['Q2_K', 'Q3_K_M', 'Q5_K_S', 'IQ4_XS', 'IQ3_XXS', 'IQ2_XXS', 'IQ1_S', 'TQ2_0', 'MXFP4', 'Q5_1']) {
    const out = file(`${type}.gguf`);
    done(['quantize', source, out, type, '--imatrix', matrix]);
    assert.ok(fs.statSync(out).size < fs.statSync(source).size, type);
    assert.equal(cairn(['generate', out, '-p', 'a', '-n', '4', '-q']).status, 0, type);
    fs.rmSync(out);
  }
  fails(['quantize', source, file('x.gguf'), 'IQ2_XXS'], /importance matrix.*cairn imatrix.*--imatrix/);
  fails(['quantize', source, file('x.gguf')], /which type\?/);
  fails(['quantize', source, file('x.gguf'), 'Q8_0', '--tensor-type', 'ffn_('], /takes PATTERN=TYPE/);
  fails(['quantize', source, file('x.gguf'), 'Q8_0', '--tensor-type', 'no_such=Q4_K'], /no matrix .*no_such/);
  fails(['quantize', source, file('x.gguf'), '--fit', 'much'], /--fit takes a size such as 4GiB/);
  fails(['quantize', source, file('x.gguf'), '--fit', '1KiB'], /at least \d+ bytes/);
  const planned = done(['quantize', source, file('x.gguf'), 'Q4_K_M', '--dry-run', '--tensor-type', 'ffn_up=Q2_K']);
  assert.match(planned, /^Q2_K +2 /m);
  assert.match(planned, /nothing was written/);
  assert.ok(!fs.existsSync(file('x.gguf')));
});

test('quantize splits a model, and joins it again', () => {
  const out = done(['quantize', story, file('s.gguf'), 'F16', '--split-max-size', '200KiB']);
  const files = Number(/in (\d+) files/.exec(out)[1]);
  assert.ok(files > 1);
  const first = file(`s-00001-of-0000${files}.gguf`);
  assert.equal(cairn(['generate', first, '-p', 'Once', '-n', '4', '-q']).status, 0);
  done(['quantize', first, file('joined.gguf'), 'COPY']);
  done(['quantize', story, file('f16.gguf'), 'F16']);
  done(['quantize', file('f16.gguf'), file('whole.gguf'), 'COPY']);
  assert.ok(fs.readFileSync(file('joined.gguf')).equals(fs.readFileSync(file('whole.gguf'))));
});

test('a fitted file is as small as asked for, and closer to the model than a mixture of its size on other text', () => {
  const base = file('base.kld');
  done(['perplexity', story, unseen, '-c', '64', '--save-logits', base]);
  const distance = (model) => JSON.parse(done(['perplexity', model, '-c', '64', '--against', base, '--json'])).kl_mean;
  const mixture = file('q4.gguf');
  done(['quantize', story, mixture, 'Q4_0']);
  const fitted = file('fit.gguf');
  const size = fs.statSync(mixture).size;
  const out = done(['quantize', story, fitted, '--fit', `${size}`, '--fit-text', seen]);
  assert.match(out, /ffn_up/);
  assert.match(out, /Expected KL divergence/);
  assert.ok(fs.statSync(fitted).size <= size, `${fs.statSync(fitted).size} and ${size}`);
  const [ours, theirs] = [distance(fitted), distance(mixture)];
  assert.ok(ours < theirs, `${ours} and ${theirs}`);
});

test('a command that is killed leaves the old file', async () => {
  const kill = async (args, after) => {
    const run = spawn(program, args, { stdio: 'ignore' });
    await new Promise((resolve) => setTimeout(resolve, after));
    run.kill('SIGKILL');
    await new Promise((resolve) => run.on('exit', resolve));
  };
  const out = file('old.gguf');
  for (const after of [5, 40, 120]) {
    fs.writeFileSync(out, 'as it was');
    await kill(['imatrix', story, '-c', '512', '-o', out], after);
    assert.equal(fs.readFileSync(out, 'utf8'), 'as it was');
  }
});
