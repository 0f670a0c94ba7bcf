// Makes a reranker of an encoder's GGUF file: the same file with cls.output.weight, of one row, behind its tensors.
import fs from 'node:fs';

const stringType = 8, arrayType = 9;
const sizes = { 0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8 };

export function addRankHead(from, to, width) {
  const file = fs.readFileSync(from);
  let at = 24;
  const count = (offset) => Number(file.readBigUInt64LE(offset));
  const skipString = () => { at += 8 + count(at); };
  const text = () => { const begin = at + 8; skipString(); return file.toString('utf8', begin, at); };
  const skipValue = (type) => {
    if (type === stringType) return skipString();
    if (type !== arrayType) { at += sizes[type]; return; }
    const of = file.readUInt32LE(at), length = count(at + 4);
    at += 12;
    for (let i = 0; i < length; ++i) skipValue(of);
  };
  for (let i = 0; i < count(16); ++i) {
    const key = text(), type = file.readUInt32LE(at);
    at += 4;
    if (key.endsWith('.pooling_type')) file.writeUInt32LE(4, at);  // rank
    skipValue(type);
  }
  for (let i = 0; i < count(8); ++i) {
    skipString();
    at += 4 + 8 * file.readUInt32LE(at) + 4 + 8;
  }
  const alignment = 32, padded = (n) => Math.ceil(n / alignment) * alignment;
  const data = file.subarray(padded(at));
  const name = Buffer.from('cls.output.weight');
  const entry = Buffer.alloc(8 + name.length + 4 + 16 + 4 + 8);
  entry.writeBigUInt64LE(BigInt(name.length), 0);
  name.copy(entry, 8);
  let place = 8 + name.length;
  entry.writeUInt32LE(2, place);
  entry.writeBigUInt64LE(BigInt(width), place + 4);
  entry.writeBigUInt64LE(1n, place + 12);
  entry.writeUInt32LE(0, place + 20);  // F32
  entry.writeBigUInt64LE(BigInt(padded(data.length)), place + 24);
  const head = Buffer.concat([file.subarray(0, at), entry]);
  head.writeBigUInt64LE(BigInt(count(8) + 1), 8);
  const weights = Buffer.alloc(4 * width);
  for (let i = 0; i < width; ++i) weights.writeFloatLE(Math.sin(i + 1) / 4, 4 * i);
  const fill = (buffer) => Buffer.concat([buffer, Buffer.alloc(padded(buffer.length) - buffer.length)]);
  fs.writeFileSync(to, Buffer.concat([fill(head), fill(data), weights]));
}
