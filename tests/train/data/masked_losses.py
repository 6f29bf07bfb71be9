#!/usr/bin/env python3
"""Losses of 20 steps on tokens of which some are not trained, in PyTorch: prints the numbers of masked_losses_test.cpp.

Tokens, mask and config are those of that test; the initial values are Trivium's: a run whose learning rate is 0 saves them.
Needs torch, numpy, h5py.    masked_losses.py FOLDER     (the test leaves index.h5 of that run there, with TRIVIUM_KEEP=FOLDER)
Made with torch 2.15.0 on a CPU, f64.
"""
import sys
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

with h5py.File(sys.argv[1] + "/index.h5") as file:
    p = {k: torch.tensor(np.array(v), dtype=torch.float64, requires_grad=True) for k, v in file["param"].items()}
if len(sys.argv) > 2:
    for k, v in p.items():
        print(k, tuple(v.shape))


def norm(x, w):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + EPS) * w


def rotated(x):  # b s h e; halves, base 10000
    e = x.shape[-1]
    angle = position[:, :, None, None] * 10000.0 ** (-torch.arange(0, e, 2) / e)
    a, b = x[..., : e // 2], x[..., e // 2:]
    return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1)


def loss():
    x = p["embedding"][tokens]
    for i in range(5):
        n = norm(x, p[f"block{i}.norm1"])
        q = torch.einsum("bsd,dgre->bsgre", n, p[f"block{i}.wq"].reshape(40, KV, HEADS // KV, HEAD)).flatten(2, 3)
        k = torch.einsum("bsd,dge->bsge", n, p[f"block{i}.wk"].reshape(40, KV, HEAD))
        v = torch.einsum("bsd,dge->bsge", n, p[f"block{i}.wv"].reshape(40, KV, HEAD))
        q, k = rotated(q), rotated(k)
        k, v = (t.repeat_interleave(HEADS // KV, 2) for t in (k, v))
        a = torch.einsum("bshe,bthe->bhst", q, k) / HEAD ** 0.5
        a = a.masked_fill(~same[:, None], float("-inf")).softmax(-1)
        x = x + torch.einsum("bhst,bthe->bshe", a, v).flatten(2) @ p[f"block{i}.wo"].reshape(HEADS * HEAD, 40)
        n = norm(x, p[f"block{i}.norm2"])
        x = x + (F.silu(n @ p[f"block{i}.gate"]) * (n @ p[f"block{i}.up"])) @ p[f"block{i}.down"]
    logits = norm(x, p["final_norm"]) @ p["head"]
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
