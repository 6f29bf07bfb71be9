#!/usr/bin/env python3
"""Losses of 20 steps on tokens of which some are not trained, in PyTorch: prints the numbers of masked_losses_test.cpp.

Tokens, mask and config are those of that test; the initial values are Trivium's: a run whose learning rate is 0 saves them.
Needs torch, numpy, h5py.    masked_losses.py PATH/TO/trivium
Made with torch 2.15.0 on a CPU, f64.
"""
import pathlib, subprocess, sys, tempfile
import h5py, numpy as np, torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
SEQ, SAMPLES, HEADS, KV, HEAD, EPS = 16, 12, 10, 5, 4, 1e-5


def store():
    ids, trained, document = [], [], []
    d = 0
    while len(ids) < SEQ * SAMPLES + 1:
        n = 5 + 7 * d % 23
        begin, end = [(n // 2, n), (n - 1, n), (1, n - 2)][d % 3]
        ids += [(31 * d + 17 * i) % 256 for i in range(n)]
        trained += [begin <= i < end for i in range(n)]
        document += [d] * n
        d += 1
    return ids, trained, document


ids, trained, document = store()
rows = [range(s * SEQ, s * SEQ + SEQ) for s in range(SAMPLES)]
tokens = torch.tensor([[ids[i] for i in row] for row in rows])
same = torch.tensor([[[document[i] == document[j] and j <= i for j in row] for i in row] for row in rows])
position = torch.tensor([[i - max(row[0], document.index(document[i])) for i in row] for row in rows])
# the first token of a document is no target: attention = "document"
targets = torch.tensor([[ids[i + 1] if trained[i + 1] and document[i] == document[i + 1] else -1 for i in row] for row in rows])

OPTIONS = ("model.family=llama model.layers=5 model.heads=10 model.kv_heads=5 model.dim=40 model.ffn_dim=13 model.vocab=261 model.seq=16 "
           "model.tied_embeddings=false data.train=t.h5 train.steps=1 train.global_batch=12 train.lr=0 train.precision=f64 checkpoint.dir=saved").split()
with tempfile.TemporaryDirectory() as folder:
    home = pathlib.Path(folder)
    (home / "run.toml").write_text("")
    (home / "t.txt").write_text("some text " * 100)
    for command in (["data", "tokenize", "t.txt", "--tokenizer", "bytes", "-o", "t.h5"], ["train", "run.toml", *OPTIONS]):
        subprocess.run([str(pathlib.Path(sys.argv[1]).resolve()), *command], cwd=home, check=True, stdout=subprocess.DEVNULL)
    p = {}
    with h5py.File(home / "saved/step-00000001/index.h5") as file:
        file["param"].visititems(lambda k, v: p.update({k: torch.tensor(np.array(v), requires_grad=True)}) if hasattr(v, "shape") else None)


def norm(x, w):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + EPS) * w


def rotated(x):  # b s h e; halves, base 10000
    e = x.shape[-1]
    angle = position[:, :, None, None] * 10000.0 ** (-torch.arange(0, e, 2) / e)
    a, b = x[..., : e // 2], x[..., e // 2:]
    return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1)


def loss():
    x = p["embed.weight"][tokens]
    for i in range(5):
        n = norm(x, p[f"layers.{i}.attn_norm.weight"])
        q = torch.einsum("bsd,dgre->bsgre", n, p[f"layers.{i}.attn.q.weight"]).flatten(2, 3)
        k = torch.einsum("bsd,dge->bsge", n, p[f"layers.{i}.attn.k.weight"])
        v = torch.einsum("bsd,dge->bsge", n, p[f"layers.{i}.attn.v.weight"])
        q, k = rotated(q), rotated(k)
        k, v = (t.repeat_interleave(HEADS // KV, 2) for t in (k, v))
        a = torch.einsum("bshe,bthe->bhst", q, k) / HEAD ** 0.5
        a = a.masked_fill(~same[:, None], float("-inf")).softmax(-1)
        x = x + torch.einsum("bhst,bthe->bshe", a, v).flatten(2) @ p[f"layers.{i}.attn.o.weight"].reshape(HEADS * HEAD, 40)
        n = norm(x, p[f"layers.{i}.ffn_norm.weight"])
        x = x + (F.silu(n @ p[f"layers.{i}.ffn.gate.weight"]) * (n @ p[f"layers.{i}.ffn.up.weight"])) @ p[f"layers.{i}.ffn.down.weight"]
    logits = norm(x, p["final_norm.weight"]) @ p["head.weight"].T
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)


decays = [v for k, v in p.items() if "norm" not in k]
plain = [v for k, v in p.items() if "norm" in k]
adamw = torch.optim.AdamW([dict(params=decays, weight_decay=0.1), dict(params=plain, weight_decay=0.0)], lr=3e-3, betas=(0.9, 0.95), eps=1e-8)
for step in range(20):
    adamw.zero_grad()
    value = loss()
    value.backward()
    torch.nn.utils.clip_grad_norm_(list(p.values()), 1.0)
    adamw.step()
    print(f"{value.item():.10f},")
