"""Adapters against PEFT itself: export, import, merged models.

    peft_adapters.py TRIVIUM LOGITS_PROGRAM IDS_PROGRAM

Exit status 77, with the reason, where torch, transformers or peft are missing: ctest then reports it as skipped.
"""

import json
import pathlib
import sys
import tempfile

from hugging_face_helpers import logits_in_bytes, require, run, tolerance, trivium

peft, torch, transformers = require("peft", "torch", "transformers")
ids = [(7 * i * i + 3 * i) % 251 for i in range(40)]
sizes = dict(vocab_size=261, hidden_size=32, intermediate_size=56, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=64, initializer_range=0.2)


def llama(**changes):
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**{**sizes, "tie_word_embeddings": False, **changes}))


def phi3():
    return transformers.Phi3ForCausalLM(transformers.Phi3Config(**sizes, pad_token_id=0, tie_word_embeddings=False))


def gpt2():
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=261, n_embd=32, n_layer=2, n_head=4, n_positions=64,
                                                                initializer_range=0.2))


def neox():
    return transformers.GPTNeoXForCausalLM(transformers.GPTNeoXConfig(
        vocab_size=261, hidden_size=32, intermediate_size=56, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=64,
        initializer_range=0.2))


def mixtral():
    return transformers.MixtralForCausalLM(transformers.MixtralConfig(**sizes, num_local_experts=4, num_experts_per_tok=2, tie_word_embeddings=False))


# Model, train.lora, modules of an adapter that PEFT makes; None: PEFT cannot adapt all of them.
cases = {
    "llama": (llama, "{rank = 8, alpha = 12}", dict(target_modules="all-linear")),
    "tables": (llama, '{rank = 4, rank_stable = true, targets = ["*"]}', dict(target_modules=["q_proj", "embed_tokens"], use_rslora=True)),
    "tied": (lambda: llama(tie_word_embeddings=True), '{rank = 4, targets = ["embed.*", "*.ffn.*"]}', dict(target_modules=["down_proj"])),
    "dora": (llama, '{rank = 4, magnitudes = true, train = ["head.*", "*_norm.*"]}', dict(target_modules=["k_proj"], use_dora=True)),
    "phi3": (phi3, "{rank = 4}", dict(target_modules=["qkv_proj", "down_proj"], rank_pattern={"down_proj": 2}, alpha_pattern={"down_proj": 7})),
    "gpt2": (gpt2, '{rank = 4, targets = ["*.attn.v.*", "*.attn.q.*", "*.ffn.*"]}',
             dict(target_modules=["c_attn", "c_fc"], fan_in_fan_out=True)),
    "mixtral": (mixtral, "{rank = 4, magnitudes = true, dropout = 0.1}", None),
    "neox": (neox, "{rank = 4}", dict(target_modules=["query_key_value"])),
}


def logits_of(model):
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0].float()


def ours(config, checkpoint, folder):
    return torch.frombuffer(bytearray(logits_in_bytes(config, checkpoint, folder, ids)), dtype=torch.float32).reshape(len(ids), -1)


def require_close(got, wanted, what):
    error = ((got - wanted).abs() / (1 + wanted.abs())).max().item()
    print(f"{what}: logits to {wanted.abs().max():.1f}, difference {error:.1e}")
    assert error < tolerance, what


def base_of(folder):
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


with tempfile.TemporaryDirectory() as name:
    home = pathlib.Path(name)
    (home / "text.txt").write_text("".join(chr(97 + (i * i + i // 7) % 26) for i in range(6000)))
    run(trivium, "data", "tokenize", home / "text.txt", "-o", home / "data.h5", "--tokenizer", "bytes")
    for case, (make, lora, made_by_peft) in cases.items():
        folder = home / case
        torch.manual_seed(3)
        model = make().eval()
        model.save_pretrained(folder / "base")
        before = logits_of(base_of(folder / "base"))
        run(trivium, "checkpoint", "import", folder / "base", folder / "start", *([] if case == "gpt2" else ["model.seq=32"]))
        config = folder / "run.toml"
        config.write_text((folder / "start" / "model.toml").read_text().replace(
            "[train]\n", f'[train]\nlora = {lora}\nsteps = 5\nglobal_batch = 8\nlr = 0.02\nwarmup = 0\n').replace(
            "[data]\n", f'[data]\ntrain = "{home / "data.h5"}"\n'))
        config.write_text("\n".join(line for line in config.read_text().splitlines() if not line.startswith("train = \"\"")) + "\n")
        run(trivium, "train", config)
        saved = sorted((folder / "start" / "checkpoints").glob("step-*"))[-1]
        trained = ours(config, saved, folder)
        assert (trained - before).abs().max() > 0.1, "the adapters change nothing"
        print(run(trivium, "checkpoint", "export", saved, "--adapter", folder / "adapter").strip())
        if made_by_peft:
            theirs = peft.PeftModel.from_pretrained(base_of(folder / "base"), folder / "adapter").eval()
            require_close(logits_of(theirs), trained, f"{case}: our adapter in PEFT")
        print(run(trivium, "checkpoint", "export", saved, folder / "merged").strip())
        require_close(logits_of(base_of(folder / "merged")), trained, f"{case}: the merged model in transformers")
        print(run(trivium, "checkpoint", "export", saved, folder / "rounded", "--type", "bf16").strip())
        # There and back: onto the folder of theirs, and onto a checkpoint.
        for onto in ("base", "start"):
            again = folder / f"again-{onto}"
            run(trivium, "checkpoint", "import", folder / onto, again, "--adapter", folder / "adapter")
            require_close(ours(again / "model.toml", again, folder), trained, f"{case}: imported onto {onto}")
        if not made_by_peft:
            continue
        # One that PEFT made.
        torch.manual_seed(4)
        theirs = peft.get_peft_model(base_of(folder / "base"), peft.LoraConfig(r=4, lora_alpha=6, task_type="CAUSAL_LM", **made_by_peft))
        with torch.no_grad():
            for parameter_name, parameter in theirs.named_parameters():
                if parameter.requires_grad:
                    parameter.add_(0.1 * torch.randn_like(parameter))
        theirs.save_pretrained(folder / "theirs")
        run(trivium, "checkpoint", "import", folder / "base", folder / "of-theirs", "--adapter", folder / "theirs")
        require_close(ours(folder / "of-theirs" / "model.toml", folder / "of-theirs", folder), logits_of(theirs.eval()), f"{case}: PEFT's adapter here")
        print([line for line in (folder / "of-theirs" / "model.toml").read_text().splitlines() if line.startswith("lora")])
