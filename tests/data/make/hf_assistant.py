"""A fixture of an assistant of Gemma 4, which drafts for the model of hf_fixture.py's row "gemma4".

usage: hf_assistant.py OUTDIR      needs: as hf_fixture.py

Writes OUTDIR/gemma4-assistant.gguf, by the field's converter, and OUTDIR/gemma4-assistant.ref.json: {"runs": [{"tokens", "drafts":
[{"token", "logits"}]}]}, where the model has seen `tokens`, and each draft's token follows (the first one is drawn, the others are the
assistant's choices). transformers lets an assistant see one position more than the model's window has for the drafted position, and one
more because it counts from the position before; llama.cpp and Cairn do not, so its window here is two less.
"""

import json
import pathlib
import sys
import tempfile

import numpy as np
import torch
import transformers
from transformers import Gemma4AssistantConfig, Gemma4AssistantForCausalLM, Gemma4TextConfig

from hf_families import FAMILIES, V
from hf_fixture import CTX, check_levels, convert, fill, make_model, rounded
from hf_vocabularies import save_tokenizer

NAME, DRAFTS = "gemma4-assistant", 4


# transformers 5.23 looks for layers with keys and values among an assistant's own, which has none.
Gemma4TextConfig.kv_sharing_modes = property(
    lambda self, of_models=Gemma4TextConfig.kv_sharing_modes.fget: (
        ["reuse"] * self.num_hidden_layers if self.num_kv_shared_layers == self.num_hidden_layers else of_models(self)
    )
)


def make_assistant(target):
    text = target.config.to_dict()
    text.pop("per_layer_config", None)
    for key in ("vocab_size_per_layer_input", "hidden_size_per_layer_input"):
        text[key] = 0
    text |= dict(
        global_head_dim=32,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=3,
        num_kv_shared_layers=3,
        layer_types=["sliding_attention", "sliding_attention", "full_attention"],
        use_double_wide_mlp=False,
        enable_moe_block=False,
    )
    config = Gemma4AssistantConfig(text_config=Gemma4TextConfig(**text), backbone_hidden_size=target.config.hidden_size)
    config._attn_implementation = "eager"
    config.text_config._attn_implementation = "eager"
    return fill(Gemma4AssistantForCausalLM(config).float().eval(), FAMILIES["gemma4"], 3)


@torch.inference_mode()
def run(target, assistant, n, seed):
    tokens = np.random.Generator(np.random.PCG64(seed)).integers(8, V - 16, n + 1).tolist()
    pending = torch.tensor([tokens[n:]])
    tokens = tokens[:n]
    seen = target(input_ids=torch.tensor([tokens]), use_cache=False, output_hidden_states=True, return_shared_kv_states=True)
    row, drafts = seen.hidden_states[-1][:, -1:], []
    for _ in range(DRAFTS):
        out = assistant(
            inputs_embeds=torch.cat([target.get_input_embeddings()(pending), row], dim=-1),
            attention_mask=torch.ones(1, n + 1, dtype=torch.long),
            position_ids=torch.tensor([[n]]),
            shared_kv_states=seen.shared_kv_states,
            use_cache=False,
        )
        drafts.append(dict(token=int(pending[0, 0]), logits=rounded(out.logits[0, -1].float())))
        pending, row = out.logits[:, -1].argmax(-1, keepdim=True), out.last_hidden_state
    return dict(tokens=tokens, drafts=drafts)


def main():
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    out = pathlib.Path(sys.argv[1])
    target = make_model(FAMILIES["gemma4"])
    assistant = make_assistant(target)
    with tempfile.TemporaryDirectory() as tmp:
        folder = pathlib.Path(tmp)
        assistant.save_pretrained(folder)
        save_tokenizer("gemma4", folder, V)
        config = json.loads((folder / "config.json").read_text())
        config["text_config"]["global_head_dim"] = 32  # published repositories have it, save_pretrained does not write it
        (folder / "config.json").write_text(json.dumps(config))
        note = convert(folder, out / f"{NAME}.gguf", FAMILIES["gemma4"]["pre"], True)
    check_levels(out / f"{NAME}.gguf")
    assistant.config.get_text_config().sliding_window -= 2
    runs = [run(target, assistant, n, seed) for n, seed in ((40, 1), (90, 2))]
    ref = dict(n_vocab=V, n_ctx=CTX, kind="assistant", of="gemma4", set_vocab=note, runs=runs)
    (out / f"{NAME}.ref.json").write_text(json.dumps(ref))


main()
