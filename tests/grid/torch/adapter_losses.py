#!/usr/bin/env python3
"""Losses of a small Llama with adapters in PEFT (f32), 20 steps of AdamW: writes adapters.losses next to this file. Two cases
are mixtures of experts that are modules of their own, the one with the masks that dropout has in src/kernels/dropout.cpp.

Weights and tokens are the formulas of adapters_test.cpp. Needs torch, transformers, peft.
"""
import math, pathlib
import peft, torch, transformers

here = pathlib.Path(__file__).resolve().parent
torch.set_num_threads(1)
LAYERS, DIM, HEADS, KV, FFN, VOCAB, SEQ, ROWS, STEPS = 2, 16, 4, 2, 24, 29, 12, 8, 20
RANK, ALPHA, LR, DECAY = 4, 6.0, 0.001, 0.1

EXPERTS, SLOTS, SHARED, RATE, FIRST_SAMPLE = 6, 2, 13, 0.25, 2**33 + 24


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


def expert_values(name, theirs_shape):
    """Of a parameter that perhaps all experts of a layer share in ours."""
    name, expert = split(name)
    count = math.prod(theirs_shape)
    if ".experts." not in name:
        return ours(name, theirs_shape)
    flat = value(name, EXPERTS * count, 0.3)[expert * count :][:count]
    return flat.reshape(theirs_shape) if len(theirs_shape) == 1 else flat.reshape(theirs_shape[::-1]).T


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


class Experts(torch.nn.Module):
    """Each expert computes all tokens, and those that do not go to it count 0."""

    def __init__(self):
        super().__init__()
        make = lambda width: torch.nn.ModuleDict({"gate_proj": torch.nn.Linear(DIM, width), "up_proj": torch.nn.Linear(DIM, width),
                                                  "down_proj": torch.nn.Linear(width, DIM)})
        self.router = torch.nn.Linear(DIM, EXPERTS)
        self.experts = torch.nn.ModuleList(make(FFN) for _ in range(EXPERTS))
        self.shared = make(SHARED)
        for part in self.shared.values():
            part.bias = None

    def forward(self, x):
        block = lambda b: b["down_proj"](torch.nn.functional.silu(b["gate_proj"](x)) * b["up_proj"](x))
        top = torch.softmax(self.router(x), -1).topk(SLOTS, -1)
        weights = torch.zeros(*x.shape[:-1], EXPERTS).scatter(-1, top.indices, top.values / top.values.sum(-1, keepdim=True))
        return sum(weights[..., e : e + 1] * block(expert) for e, expert in enumerate(self.experts)) + block(self.shared)


def mix(x):
    x &= 2**64 - 1
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ x >> shift) * factor & 2**64 - 1
    return x ^ x >> 31


class Dropout(torch.nn.Module):
    """Philox4x32-10 by sample, token and column, with the key of the stream `name`."""

    def __init__(self, name, width):
        super().__init__()
        key = 0xCBF29CE484222325 ^ mix(0x9E3779B97F4A7C15)
        for c in name:
            key = (key ^ ord(c)) * 0x100000001B3 & 2**64 - 1
        key = mix(key)
        self.mask = torch.empty(ROWS, SEQ, width)
        for row in range(ROWS):
            for token in range(SEQ):
                for column in range(width):
                    sample = FIRST_SAMPLE + row
                    word = self.philox(key, (column // 4, token, sample & 0xFFFFFFFF, sample >> 32))[column % 4]
                    self.mask[row, token, column] = 0 if word < int(RATE * 2**32) else 1 / (1 - RATE)

    @staticmethod
    def philox(key, c):
        k0, k1 = key & 0xFFFFFFFF, key >> 32
        for _ in range(10):
            p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
            c = (p1 >> 32 ^ c[1] ^ k0, p1 & 0xFFFFFFFF, p0 >> 32 ^ c[3] ^ k1, p0 & 0xFFFFFFFF)
            k0, k1 = k0 + 0x9E3779B9 & 0xFFFFFFFF, k1 + 0xBB67AE85 & 0xFFFFFFFF
        return c

    def forward(self, x):
        return x * self.mask


def with_experts(model):
    model.config.rms_norm_eps = 0.1
    for layer in model.model.layers:
        layer.mlp = Experts()
        layer.input_layernorm.variance_epsilon = layer.post_attention_layernorm.variance_epsilon = 0.1
    model.model.norm.variance_epsilon = 0.1


def split(name):
    """Our name of a parameter, and the number of its expert."""
    words = name.split(".")
    expert = int(words.pop(words.index("experts") + 1)) if "experts" in words else 0
    return ".".join(words), expert


def losses(modules, experts=False, **options):
    config = transformers.LlamaConfig(vocab_size=VOCAB, hidden_size=DIM, intermediate_size=FFN, num_hidden_layers=LAYERS,
                                      num_attention_heads=HEADS, num_key_value_heads=KV, max_position_embeddings=SEQ,
                                      rms_norm_eps=1e-5, tie_word_embeddings=False, attn_implementation="eager",
                                      rope_parameters=dict(rope_type="default", rope_theta=1e6 if experts else 1e4))
    model = transformers.LlamaForCausalLM(config).float()
    if experts:
        with_experts(model)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            values = expert_values(our_name(name), parameter.shape)
            parameter.copy_(1 + 0.2 * values if "norm" in name else values)
    model = peft.get_peft_model(model, peft.LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=modules, **options))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not parameter.requires_grad:
                continue
            module = our_name(name[len("base_model.model."):name.index(".lora_")])
            part = "lora_a" if "_A" in name else "lora_b"
            if "lora_magnitude" in name:
                continue  # the lengths of the weights, as PEFT has initialised them with B = 0
            parameter.copy_(expert_values(f"{module}.{part}", parameter.shape))
    if options.get("lora_dropout"):
        streams = 2 * (LAYERS + 2)
        for layer in range(LAYERS):
            for module, width in (("gate", DIM), ("up", DIM), ("down", FFN)):
                dropout = Dropout(f"dropout {streams}", width)
                streams += 1
                for expert in model.base_model.model.model.layers[layer].mlp.experts:
                    expert[module + "_proj"].lora_dropout["default"] = dropout
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
    "experts": (r".*experts\..*_proj", dict(experts=True, lora_dropout=RATE)),
    "experts-dora": (r".*experts\..*_proj", dict(experts=True, use_dora=True)),
}
with open(here / "adapters.losses", "w") as file:
    file.write(f"# torch {torch.__version__}, transformers {transformers.__version__}, peft {peft.__version__}: adapter_losses.py\n")
    for name, (modules, options) in cases.items():
        file.write(name + "".join(f" {loss:.9g}" for loss in losses(modules, **options)) + "\n")
