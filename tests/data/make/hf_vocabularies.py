"""Tokenizers for hf_fixture.py's models, built from a few sentences with the tokenizers and sentencepiece libraries.

`save_tokenizer(kind, folder, size)` writes one into a model's folder, in the files that repositories with that kind of tokenizer have, and
returns the transformers tokenizer that reads it, or None for sentencepiece.
"""

import json

import transformers

from hf_families import CTX

TEXTS = [
    "Hello world, this is a test.",
    "The quick brown fox jumps over the lazy dog; 42 times!",
    "A river runs to the sea and the sea does not overflow.",
    "What is the capital of France?",
    "Paris is the capital and largest city of France.",
    "Bread is baked from flour, water, salt and yeast.",
]
CORPUS = [t for t in TEXTS * 4] + [
    "the cat sat on the mat and it was the best of times for all of them",
    "numbers 1 2 3 10 20 2024",
    "to be or not to be, that is the question",
    "she sells sea shells by the sea shore",
    "in the beginning there was nothing but water and wind over the water",
] * 3


def save_tokenizer(kind, folder, size):
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

    if kind == "spm":
        import sentencepiece

        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(CORPUS),
            model_prefix=str(folder / "tokenizer"),
            vocab_size=size - 8,
            model_type="bpe",
            byte_fallback=True,
            hard_vocab_limit=False,
            pad_id=0,
            bos_id=1,
            eos_id=2,
            unk_id=3,
            minloglevel=2,
            character_coverage=1.0,
            control_symbols=["<|endoftext|>"],
        )
        (folder / "tokenizer_config.json").write_text(
            json.dumps(
                dict(
                    tokenizer_class="LlamaTokenizer",
                    add_bos_token=True,
                    add_eos_token=False,
                    bos_token="<s>",
                    eos_token="</s>",
                    pad_token="<pad>",
                    unk_token="<unk>",
                    legacy=False,
                )
            )
        )
        return None
    phi4 = kind == "phi4"  # as bpe, but the converter asks for the class of the tokenizer
    kind = "bpe" if phi4 else kind
    specials = {
        "bpe": ["<pad>", "<s>", "</s>", "<mask>"],
        "roberta": ["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
        "yesno": ["<pad>", "<s>", "</s>", "<mask>"],
        "bpe-eos": ["<pad>", "<s>", "</s>", "<mask>"],
        "gemma4": ["<pad>", "<eos>", "<bos>", "<unk>"],
        "unigram": ["<s>", "<pad>", "</s>", "<unk>"],
        "wordpiece-cased": ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
        "wordpiece": ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
    }[kind]
    if kind.startswith("wordpiece"):
        norm = normalizers.BertNormalizer(lowercase=kind == "wordpiece")
        split = pre_tokenizers.BertPreTokenizer()  # no trainer: WordPiece's is not reproducible
        words = sorted({w for t in CORPUS for w, _ in split.pre_tokenize_str(norm.normalize_str(t))})
        letters = sorted(set("".join(words)) | set("abcdefghijklmnopqrstuvwxyz0123456789"))
        pieces = list(
            dict.fromkeys(
                specials + letters + ["##" + c for c in letters] + ["##" + w[-n:] for w in words for n in (2, 3) if len(w) > n + 1] + words
            )
        )[: size - 8]
        tok = Tokenizer(models.WordPiece({p: i for i, p in enumerate(pieces)}, unk_token="[UNK]"))
        tok.normalizer, tok.pre_tokenizer = norm, split
        trainer, names = (
            None,
            dict(cls_token="[CLS]", sep_token="[SEP]", pad_token="[PAD]", unk_token="[UNK]", mask_token="[MASK]"),
        )
        first, last, pair = "[CLS]", "[SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1"
    elif kind == "gemma4":  # byte fallback over words that begin with U+2581
        tok = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True))
        tok.normalizer = normalizers.Replace(" ", "\u2581")
        tok.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
        tok.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=size - 264, special_tokens=specials, show_progress=False))
        data = json.loads(tok.to_str())
        n = len(data["model"]["vocab"])
        data["model"]["vocab"].update({f"<0x{i:02X}>": n + i for i in range(256)})
        tok = Tokenizer.from_str(json.dumps(data))
        tok.add_special_tokens([f"<unused{i}>" for i in range(size - tok.get_vocab_size())])
        trainer, names, first, last, pair = (
            None,
            dict(bos_token="<bos>", eos_token="<eos>", pad_token="<pad>", unk_token="<unk>"),
            "<bos>",
            None,
            None,
        )
    elif kind == "unigram":  # as XLM-R repositories: a sentencepiece file, and a tokenizer.json that says the same with ids moved by one
        import sentencepiece
        from sentencepiece import sentencepiece_model_pb2

        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(CORPUS),
            model_prefix=str(folder / "sentencepiece.bpe"),
            vocab_size=150,
            model_type="unigram",
            hard_vocab_limit=False,
            unk_id=0,
            bos_id=1,
            eos_id=2,
            minloglevel=2,
        )
        proto = sentencepiece_model_pb2.ModelProto()
        proto.ParseFromString((folder / "sentencepiece.bpe.model").read_bytes())
        pieces = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)] + [(p.piece, p.score) for p in proto.pieces[3:]]
        tok = Tokenizer(models.Unigram(pieces, unk_id=3))
        tok.decoder = decoders.Metaspace()
        tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
        tok.normalizer = normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap)
        trainer, names = (
            None,
            dict(bos_token="<s>", eos_token="</s>", cls_token="<s>", sep_token="</s>", pad_token="<pad>", unk_token="<unk>"),
        )
        first, last, pair = "<s>", "</s>", "<s> $A </s> </s> $B </s>"
    else:
        tok = Tokenizer(models.BPE())
        tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tok.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=size - 8,
            special_tokens=specials,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        names = dict(bos_token="<s>", eos_token="</s>", pad_token="<pad>")
        if kind == "roberta":
            names.update(cls_token="<s>", sep_token="</s>", mask_token="<mask>", unk_token="<unk>")
        first, last, pair = (
            (None if kind in ("bpe-eos", "yesno") else "<s>"),
            (None if kind in ("bpe", "yesno") else "</s>"),
            ("<s> $A </s> </s> $B </s>" if kind == "roberta" else None),
        )
    if trainer:
        tok.train_from_iterator(CORPUS, trainer)
    ids = [(t, tok.token_to_id(t)) for t in (first, last) if t]
    if ids:
        tok.post_processor = processors.TemplateProcessing(
            single=" ".join(t for t in (first, "$A", last) if t), pair=pair, special_tokens=ids
        )
    if kind == "yesno":
        tok.add_tokens(["yes", "no"])
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tok, model_max_length=CTX, **names)
    fast.save_pretrained(folder)
    if phi4:
        config = json.loads((folder / "tokenizer_config.json").read_text())
        (folder / "tokenizer_config.json").write_text(json.dumps(config | {"tokenizer_class": "GPT2Tokenizer"}))
    return fast
