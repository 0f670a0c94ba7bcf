// What a quantisation costs, by Cairn and by llama.cpp: KL divergence from the predictions of exact arithmetic, on the same
// files and the same text. Makes every file with llama.cpp's programs, measures both engines in turns, and puts a row for
// each into bench/results/quality-....csv, from which bench/quality/tables.mjs makes the tables of docs/quality.md.
// usage: node bench/quality/text.mjs TEXTS
//        node bench/quality/run.mjs --llama FOLDER --texts TEXTS --work FOLDER [--types Q8_0,Q4_K_M] [--chunks 12] [--base original,own] MODEL.gguf...
//   --llama   where llama-perplexity, llama-quantize and llama-imatrix are; LD_LIBRARY_PATH must have their libraries
//   --work    where files go: the model in F32 and one type at a time, and 2 bytes for every counted token and entry of the
//             vocabulary. What is there is not made again
//   --chunks  windows of 512 tokens
//   --base    original: the model's weights before they were made smaller, which shows what the type costs; own: the type's
//             weights, which shows what the engine's arithmetic costs
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { load, machine, program, quiet, resultsFile, today, updateCsv } from '../common.mjs';

const { values, positionals: models } = parseArgs({
  allowPositionals: true,
  options: {
    llama: { type: 'string' },
    texts: { type: 'string' },
    work: { type: 'string' },
    types: { type: 'string', default: 'Q8_0,Q6_K,Q5_K_M,Q4_K_M,Q4_0,Q3_K_M,IQ4_XS,IQ3_XXS,Q2_K' },
    chunks: { type: 'string', default: '12' },
    base: { type: 'string', default: 'original' },
    threads: { type: 'string', default: '2' },
  },
});
if (!values.llama || !values.texts || !values.work || models.length === 0) throw new Error('see the usage at the head of bench/quality/run.mjs');
const window = 512;
const withMatrix = ['IQ3_XXS', 'Q2_K'];  // types that llama-quantize wants an importance matrix for, or is poor without
const calibrationWindows = '16';
const text = path.join(values.texts, 'text.txt');
fs.accessSync(text);
fs.mkdirSync(values.work, { recursive: true });

const call = (command, args) => {
  const begin = process.hrtime.bigint();
  const stdout = execFileSync(command, args, { encoding: 'utf8', maxBuffer: 1 << 28, stdio: ['ignore', 'pipe', 'pipe'] });
  return { stdout, seconds: Number(process.hrtime.bigint() - begin) / 1e9 };
};
const peer = (name, args) => call(path.join(values.llama, name), args);
// Makes a file unless it is there; under another name until it is whole.
function make(file, maker) {
  if (fs.existsSync(file)) return file;
  const unfinished = file.replace(/(\.\w+)$/, '.unfinished$1');
  maker(unfinished);
  fs.renameSync(unfinished, file);
  return file;
}
const quantize = (from, to, type, more = []) => peer('llama-quantize', ['--allow-requantize', ...more, from, to, type, values.threads]);
// Exact as far as llama.cpp goes: weights, keys, values and attention in float32.
const exactLogits = (model, to) => peer('llama-perplexity', ['-m', model, '-f', text, '-c', String(window), '--chunks', values.chunks, '-t', values.threads, '-ctk', 'f32', '-ctv', 'f32', '-fa', 'off', '--kl-divergence-base', to]);

function cairn(model, base) {
  const { stdout, seconds } = call(program, ['perplexity', model, '--against', base, '--json', '--threads', values.threads]);
  const is = JSON.parse(stdout);
  return {
    isa: is.backend.match(/cpu (\w+)/)[1], seconds, kl_mean: is.kl_mean, kl_error: is.kl_mean_error, kl_median: is.kl_median, kl_p99: is.kl_p99, kl_max: is.kl_max,
    same_first_percent: 100 * is.same_first, rms_change_percent: 100 * is.probability_change_rms, perplexity: is.perplexity, base_perplexity: is.base_perplexity,
  };
}
function llamaCpp(model, base) {
  const { stdout, seconds } = peer('llama-perplexity', ['-m', model, '-c', String(window), '-t', values.threads, '--kl-divergence', '--kl-divergence-base', base]);
  const number = (name) => {
    const found = stdout.match(new RegExp(`${name} *: *(-?[\\d.]+)(?: ± *([\\d.]+))?`));
    if (!found) throw new Error(`llama-perplexity says no ${name}:\n${stdout}`);
    return found.slice(1).map(Number);
  };
  const [kl_mean, kl_error] = number('Mean +KLD');
  return {
    seconds, kl_mean, kl_error, kl_median: number('Median +KLD')[0], kl_p99: number('99.0% +KLD')[0], kl_max: number('Maximum KLD')[0],
    same_first_percent: number('Same top p')[0], rms_change_percent: number('RMS Δp')[0], perplexity: number('Mean PPL\\(Q\\)')[0], base_perplexity: number('Mean PPL\\(base\\)')[0],
  };
}

console.log(machine);
for (const file of models) {
  const model = path.basename(file, '.gguf');
  const at = (name) => path.join(values.work, `${model}-${name}`);
  const exact = make(at('F32.gguf'), (to) => quantize(file, to, 'F32'));
  for (const type of values.types.split(',')) {
    const matrix = withMatrix.includes(type)
      ? ['--imatrix', make(at('imatrix.gguf'), (to) => peer('llama-imatrix', ['-m', exact, '-f', path.join(values.texts, 'calibration.txt'), '-o', to, '-c', String(window), '--chunks', calibrationWindows, '-t', values.threads]))]
      : [];
    const quantised = make(at(`${type}.gguf`), (to) => quantize(exact, to, type, matrix));
    for (const base of values.base.split(',')) {
      const logits = base === 'own'
        ? make(at(`${type}-${values.chunks}.kld`), (to) => {
          const widened = at(`${type}-F32.gguf`);
          quantize(quantised, widened, 'F32');
          exactLogits(widened, to);
          fs.rmSync(widened);
        })
        : make(at(`F32-${values.chunks}.kld`), (to) => exactLogits(exact, to));
      const others = await quiet();
      const engines = [['cairn', cairn(quantised, logits)], ['llama.cpp', llamaCpp(quantised, logits)]];
      const isa = engines[0][1].isa;
      const rows = engines.map(([engine, is]) => ({
        model, type, base, engine, kl_mean: is.kl_mean.toFixed(6), kl_error: is.kl_error.toFixed(6), kl_median: is.kl_median.toFixed(6), kl_p99: is.kl_p99.toFixed(6),
        kl_max: is.kl_max.toFixed(6), same_first_percent: is.same_first_percent.toFixed(3), rms_change_percent: is.rms_change_percent.toFixed(3),
        perplexity: is.perplexity.toFixed(4), base_perplexity: is.base_perplexity.toFixed(4), windows: values.chunks,
        tokens_per_s: ((Number(values.chunks) * window) / is.seconds).toFixed(1),  // loading included
        file_bytes: fs.statSync(quantised).size, threads: values.threads, load: load(), others_percent: others, date: today(),
      }));
      updateCsv(resultsFile('quality', isa), ['model', 'type', 'base', 'engine'], rows);
      console.log(`  ${model} ${type}, from ${base}: mean KL ${rows.map((row) => `${row.engine} ${row.kl_mean} ± ${row.kl_error}`).join(', ')}; tokens/s ${rows.map((row) => row.tokens_per_s).join(' and ')}`);
      if (base === 'own') fs.rmSync(logits);
    }
    fs.rmSync(quantised);
  }
}
