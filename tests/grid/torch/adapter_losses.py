#!/usr/bin/env python3
"""Losses of a small Llama with adapters in PEFT (f32), 20 steps of AdamW: writes adapters.losses next to this file.

Weights and tokens are the formulas of adapters_test.cpp. Needs torch, transformers, peft.
"""
import math, pathlib
import peft, torch, transformers

here = pathlib.Path(__file__).resolve().parent
torch.set_num_threads(1)
LAYERS, DIM, HEADS, KV, FFN, VOCAB, SEQ, ROWS, STEPS = 2, 16, 4, 2, 24, 29, 12, 8, 20
RANK, ALPHA, LR, DECAY = 4, 6.0, 0.001, 0.1


def value(name, count, scale):
    index = torch.arange(count, dtype=torch.float64)
    code = sum((i + 1) * ord(c) for i, c in enumerate(name)) % 1000
    return (scale * torch.sin(12.9898 * (index + 1) + 0.618 * code)).float()


def ours(name, theirs_shape):
    """The formula's values in their layout: Linear has [out, in], ours [in, out]."""
    count = math.prod(theirs_shape)
    table = name in ("embed.weight", "head.weight")
    flat = value(name, count, 0.3)
    return flat.reshape(theirs_shape) if table or len(theirs_shape) == 1 else flat.reshape(theirs_shape[::-1]).T


def our_name(theirs):
    for a, b in (("model.embed_tokens", "embed"), ("lm_head", "head"), ("model.norm", "final_norm"), ("model.layers", "layers"),
                 ("input_layernorm", "attn_norm"), ("post_attention_layernorm", "ffn_norm"), ("self_attn", "attn"), ("mlp", "ffn"),
                 ("q_proj", "q"), ("k_proj", "k"), ("v_proj", "v"), ("o_proj", "o"), ("gate_proj", "gate"), ("up_proj", "up"),
                 ("down_proj", "down")):
        theirs = theirs.replace(a, b)
    return theirs


def tokens(step):
    n = torch.arange(ROWS * SEQ)
    ids = (7 * n * n + 3 * n + 11 * step) % VOCAB
    targets = (5 * n + ids * ids + step) % VOCAB
    targets[n % 6 == 4] = -100
    return ids.reshape(ROWS, SEQ), targets.reshape(ROWS, SEQ)


def losses(modules, **options):
    config = transformers.LlamaConfig(vocab_size=VOCAB, hidden_size=DIM, intermediate_size=FFN, num_hidden_layers=LAYERS,
                                      num_attention_heads=HEADS, num_key_value_heads=KV, max_position_embeddings=SEQ,
                                      rms_norm_eps=1e-5, tie_word_embeddings=False, attn_implementation="eager")
    model = transformers.LlamaForCausalLM(config).float()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(1 + 0.2 * ours(our_name(name), parameter.shape) if parameter.dim() == 1 else ours(our_name(name), parameter.shape))
    model = peft.get_peft_model(model, peft.LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=modules, **options))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not parameter.requires_grad:
                continue
            module = our_name(name[len("base_model.model."):name.index(".lora_")])
            part = "lora_a" if "_A" in name else "lora_b"
            if "lora_magnitude" in name:
                continue  # the lengths of the weights, as PEFT has initialised them with B = 0
            parameter.copy_(value(f"{module}.{part}", parameter.numel(), 0.3).reshape(tuple(parameter.shape)[::-1]).T)
    trained = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    matrices, vectors = [p for _, p in trained if p.dim() > 1], [p for _, p in trained if p.dim() == 1]
    optimizer = torch.optim.AdamW([dict(params=matrices, weight_decay=DECAY), dict(params=vectors, weight_decay=0.0)], lr=LR,
                                  betas=(0.9, 0.95), eps=1e-8)
    model.train()
    made = []
    for step in range(STEPS):
        ids, targets = tokens(step)
        logits = model(ids).logits.float()
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, VOCAB), targets.reshape(-1), ignore_index=-100)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_([p for _, p in trained], 1.0)
        optimizer.step()
        made.append(loss.item())
    return made


layers = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
cases = {
    "lora": (layers, {}),
    "stable": (layers + ["embed_tokens", "lm_head"], dict(use_rslora=True)),
    "dora": (layers, dict(use_dora=True)),
    "attention": (["q_proj", "v_proj"], {}),
}
with open(here / "adapters.losses", "w") as file:
    file.write(f"# torch {torch.__version__}, transformers {transformers.__version__}, peft {peft.__version__}: adapter_losses.py\n")
    for name, (modules, options) in cases.items():
        file.write(name + "".join(f" {loss:.9g}" for loss in losses(modules, **options)) + "\n")
