// Writes the text on which bench/quality/run.mjs measures: paragraphs of The Debian Administrator's Handbook (GPL-2+ or
// CC-BY-SA-3.0) in seven languages, in turns, so that the first few windows have them all; and another one of the same
// kind for importance matrices. Both come from Debian 12's package, of one version, so everybody gets the same bytes.
// usage: node bench/quality/text.mjs FOLDER     writes FOLDER/text.txt and FOLDER/calibration.txt
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';

const version = '11.20220922';
const languages = ['en-US', 'fr-FR', 'de-DE', 'es-ES', 'ru-RU', 'zh-CN', 'ja-JP'];
const rounds = 8;
// Characters of a language in each round: about as many tokens of each.
const share = (language) => (/zh|ja/.test(language) ? 300 : language === 'ru-RU' ? 600 : 1200);

const folder = process.argv[2];
if (!folder) throw new Error('where to? node bench/quality/text.mjs FOLDER');
fs.mkdirSync(folder, { recursive: true });
const work = fs.mkdtempSync(path.join(os.tmpdir(), 'cairn-handbook-'));
try {
  execFileSync('apt-get', ['download', `debian-handbook=${version}`], { cwd: work, stdio: ['ignore', 'ignore', 'inherit'] });
  execFileSync('dpkg-deb', ['-x', fs.readdirSync(work).find((name) => name.endsWith('.deb')), 'files'], { cwd: work });
  const html = path.join(work, 'files/usr/share/doc/debian-handbook/html');

  const entities = { amp: '&', lt: '<', gt: '>', quot: '"', nbsp: ' ', '#160': ' ' };
  const plain = (text) => text.replace(/<[^>]*>/g, '').replace(/&(#?\w+);/g, (all, name) => entities[name] ?? all).replace(/\s+/g, ' ').trim();
  // Paragraphs without lists and tables in them, in the order of the pages' names.
  const paragraphs = (language) => fs.readdirSync(path.join(html, language)).filter((name) => /^sect\..*\.html$/.test(name)).sort()
    .flatMap((name) => [...fs.readFileSync(path.join(html, language, name), 'utf8').matchAll(/<div class="para">((?:(?!<\/?div)[\s\S])*)<\/div>/g)])
    .map(([, text]) => plain(text)).filter((text) => text.length >= share(language) / 6);
  const english = new Set(paragraphs('en-US'));

  const texts = { text: '', calibration: '' };
  const sources = languages.map((language) => ({
    language,
    // What nobody has translated stands in English.
    list: paragraphs(language).filter((text) => language === 'en-US' || !english.has(text)),
  }));
  for (const name of Object.keys(texts)) {
    for (let round = 0; round < rounds; ++round) {
      for (const { language, list } of sources) {
        for (let characters = 0; characters < share(language) && list.length > 0;) {
          const paragraph = list.shift();
          texts[name] += `${paragraph}\n\n`;
          characters += paragraph.length;
        }
      }
    }
    fs.writeFileSync(path.join(folder, `${name}.txt`), texts[name]);
    console.log(`${path.join(folder, `${name}.txt`)}: ${texts[name].length} characters`);
  }
} finally {
  fs.rmSync(work, { recursive: true });
}
