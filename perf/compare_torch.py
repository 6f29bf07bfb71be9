#!/usr/bin/env python3
"""The model that perf/step trains, in PyTorch: compiled block by block, fused attention, bf16 (or f32) products over f32
masters, fused AdamW.

    perf/compare_torch.py --family gpt2 --layers 48 --dim 1600 --heads 25 --vocab 50304 --seq 1024 \
        --micro-batch 16 --global-batch 64 --steps 10 --json

The same parameters, tokens per step, microbatches, clipping and update as Trivium's, on random tokens. Prints tokens/s,
MFU by the same count of flops (three times the forward pass, attention causal), and the memory that was taken.
"""
import argparse
import contextlib
import json
import math
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel


class RmsNorm(nn.Module):
    def __init__(self, dim, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x_bsd):
        wide = x_bsd.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)).to(x_bsd.dtype) * self.weight


def rotate(x_bhse, cos_se, sin_se):
    a, b = x_bhse.chunk(2, dim=-1)
    return torch.cat([a * cos_se - b * sin_se, b * cos_se + a * sin_se], dim=-1)


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        head, bias = c.dim // c.heads, c.family == "gpt2"
        norm = (lambda: nn.LayerNorm(c.dim, eps=1e-5)) if bias else (lambda: RmsNorm(c.dim, 1e-5))
        self.attn_norm, self.ffn_norm = norm(), norm()
        self.qkv = nn.Linear(c.dim, (c.heads + 2 * c.kv_heads) * head, bias=bias)
        self.out = nn.Linear(c.heads * head, c.dim, bias=bias)
        self.up = nn.Linear(c.dim, c.ffn if bias else 2 * c.ffn, bias=bias)
        self.down = nn.Linear(c.ffn, c.dim, bias=bias)

    def forward(self, x_bsd, cos_se, sin_se):
        c, (b, s, _) = self.c, x_bsd.shape
        head = c.dim // c.heads
        q, k, v = self.qkv(self.attn_norm(x_bsd)).split([c.heads * head, c.kv_heads * head, c.kv_heads * head], dim=-1)
        q = q.view(b, s, c.heads, head).transpose(1, 2)
        k = k.view(b, s, c.kv_heads, head).transpose(1, 2)
        v = v.view(b, s, c.kv_heads, head).transpose(1, 2)
        if c.family == "llama":
            q, k = rotate(q, cos_se, sin_se), rotate(k, cos_se, sin_se)
        grouped = {"enable_gqa": True} if c.kv_heads != c.heads else {}
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True, **grouped)
        x_bsd = x_bsd + self.out(o.transpose(1, 2).reshape(b, s, c.heads * head))
        h = self.up(self.ffn_norm(x_bsd))
        if c.family == "llama":
            gate, up = h.chunk(2, dim=-1)
            h = F.silu(gate) * up
        else:
            h = F.gelu(h, approximate="tanh")
        return x_bsd + self.down(h)


class Model(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.tokens = nn.Embedding(c.vocab, c.dim)
        self.positions = nn.Embedding(c.seq, c.dim) if c.family == "gpt2" else None
        self.blocks = nn.ModuleList(Block(c) for _ in range(c.layers))
        self.norm = nn.LayerNorm(c.dim, eps=1e-5) if c.family == "gpt2" else RmsNorm(c.dim, 1e-5)
        self.head = nn.Linear(c.dim, c.vocab, bias=False)
        if c.tied:
            self.head.weight = self.tokens.weight
        head = c.dim // c.heads
        angle = torch.outer(torch.arange(c.seq).float(), 10000.0 ** (-torch.arange(0, head, 2).float() / head))
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)
        for name, p in self.named_parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, token_bs, target_bs):
        x = self.tokens(token_bs)
        if self.positions is not None:
            x = x + self.positions.weight
        cos, sin = self.cos.to(self.c.dtype), self.sin.to(self.c.dtype)
        for block in self.blocks:
            x = block(x, cos, sin)
        return self.loss(x, target_bs)

    def loss(self, x_bsd, target_bs):
        logits = self.head(self.norm(x_bsd))
        return F.cross_entropy(logits.flatten(0, 1), target_bs.flatten(), reduction="sum")

    def compile_parts(self):
        """One compilation for all blocks, which share it, and one for the loss: seconds instead of minutes."""
        for block in self.blocks:
            block.compile()
        self.loss = torch.compile(self.loss)


def model_flops(c):
    """FLOPs of a step: three times the forward products and causal attention, counted as in perf/step."""
    head, tokens = c.dim // c.heads, c.global_batch * c.seq
    block = c.dim * (c.heads + 2 * c.kv_heads) * head + c.heads * head * c.dim + (2 if c.family == "gpt2" else 3) * c.dim * c.ffn
    products = 2 * tokens * (c.layers * block + c.dim * c.vocab)
    attention = c.layers * c.global_batch * 2 * c.heads * head * c.seq * (c.seq + 1)
    return 3 * (products + attention)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--family", choices=["gpt2", "llama"], default="gpt2")
    for name, default in dict(layers=12, dim=768, heads=12, kv_heads=0, ffn=0, vocab=50304, seq=1024, micro_batch=8, global_batch=32, steps=10).items():
        parser.add_argument("--" + name.replace("_", "-"), type=int, default=default)
    parser.add_argument("--tied", type=int, default=-1, help="1 or 0; default: tied for gpt2")
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--attention", choices=["default", "flash", "cudnn"], default="default")
    parser.add_argument("--peak", type=float, default=989e12, help="FLOP/s to which MFU is relative")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--precision", choices=["bf16", "f32"], default="bf16")
    parser.add_argument("--threads", type=int, default=0, help="on the host")
    parser.add_argument("--json", action="store_true")
    c = parser.parse_args()
    c.dtype = torch.bfloat16 if c.precision == "bf16" else torch.float32
    if c.threads:
        torch.set_num_threads(c.threads)
    c.kv_heads = c.kv_heads or c.heads
    c.ffn = c.ffn or 4 * c.dim
    c.tied = c.family == "gpt2" if c.tied < 0 else bool(c.tied)
    if c.global_batch % c.micro_batch:
        sys.exit("compare_torch.py: --global-batch is not a multiple of --micro-batch")
    if c.device == "cuda" and not torch.cuda.is_available():
        print("skipped: no device")
        return

    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    model = Model(c).to(c.device)
    decay = [p for p in model.parameters() if p.dim() > 1]
    rest = [p for p in model.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}], lr=1e-4, betas=(0.9, 0.95), eps=1e-8, fused=True)
    if not c.no_compile:
        model.compile_parts()
    backends = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}
    micro = c.global_batch // c.micro_batch
    tokens = torch.randint(c.vocab, (micro, c.micro_batch, c.seq + 1), device=c.device)

    def step():
        total = torch.zeros((), device=c.device)
        for i in range(micro):
            with torch.autocast(c.device, dtype=torch.bfloat16, enabled=c.precision == "bf16"):
                loss = model(tokens[i, :, :-1], tokens[i, :, 1:])
            (loss / (c.global_batch * c.seq)).backward()
            total += loss.detach()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return total.item() / (c.global_batch * c.seq)  # waits, like a loop that prints its loss

    seconds, loss = [], math.nan
    for i in range(c.steps + 3):
        begin = time.perf_counter()
        with sdpa_kernel(backends[c.attention]) if c.attention in backends else contextlib.nullcontext():
            loss = step()
        if i >= 3:
            seconds.append(time.perf_counter() - begin)
    seconds.sort()
    median, flops = seconds[len(seconds) // 2] if seconds else math.nan, model_flops(c)
    out = dict(program="torch " + torch.__version__, family=c.family, layers=c.layers, dim=c.dim, parameters=sum(p.numel() for p in model.parameters()),
               micro_batch=c.micro_batch, global_batch=c.global_batch, seq=c.seq, compiled=not c.no_compile, attention=c.attention, step_seconds=median,
               tokens_per_second=c.global_batch * c.seq / median, mfu=flops / median / c.peak, loss=loss,
               memory_bytes=torch.cuda.max_memory_allocated() if c.device == "cuda" else 0)
    if c.json:
        print(json.dumps(out))
        return
    print(f"torch {torch.__version__}: {c.family}, {c.layers} layers, dim {c.dim}, {out['parameters']:,} parameters, {c.global_batch} x {c.seq} tokens per step")
    print(f"  step      {median:.4f} s median of {len(seconds)}\n  tokens/s  {out['tokens_per_second']:.0f}\n  MFU       {100 * out['mfu']:.1f} %")
    print(f"  memory    {out['memory_bytes']:,} bytes at most\n  loss      {loss:.4f}")


if __name__ == "__main__":
    main()
