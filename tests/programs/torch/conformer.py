"""docs/examples/conformer.graph in PyTorch: losses of 20 AdamW steps on one batch, from the initial values in a
checkpoint of a run with train.lr = 0.

    python conformer.py CHECKPOINT sound.npy label.npy     # needs torch, numpy and h5dump
"""
import subprocess
import sys
import tempfile

import numpy as np
import torch
import torch.nn.functional as F


def parameters(checkpoint):
    listing = subprocess.run(["h5dump", "-n", checkpoint + "/index.h5"], capture_output=True, text=True, check=True).stdout
    names = [line.split()[1][len("/param/"):] for line in listing.splitlines() if " /param/" in line]
    found = {}
    for name in names:
        header = subprocess.run(["h5dump", "-H", "-d", "/param/" + name, checkpoint + "/index.h5"], capture_output=True,
                                text=True, check=True).stdout
        shape = [int(n) for n in header.split("SIMPLE { (")[1].split(")")[0].split(",")]
        with tempfile.NamedTemporaryFile() as file:
            subprocess.run(["h5dump", "-d", "/param/" + name, "-b", "LE", "-o", file.name, checkpoint + "/index.h5"],
                           capture_output=True, check=True)
            found[name] = torch.tensor(np.fromfile(file.name, "<f4").reshape(shape), requires_grad=True)
    return found


def loss(p, sound, label, layers=2):
    width, (heads, head) = p["head"].shape[0], p["w_q.0"].shape[1:]

    def norm(x, n, i):
        return F.layer_norm(x, (width,), p[f"g{n}.{i}"], p[f"s{n}.{i}"], 1e-5)

    def feed(x, n, place, i):
        h = F.silu(norm(x, place, i) @ p[f"in{n}.{i}"] + p[f"in{n}.bias.{i}"])
        return x + 0.5 * (h @ p[f"out{n}.{i}"] + p[f"out{n}.bias.{i}"])

    x = F.silu(F.conv2d(F.pad(sound[:, None], (0, 1, 0, 1)), p["first"], stride=2))
    x = F.silu(F.conv2d(F.pad(x, (0, 1, 0, 1)), p["second"], stride=2))
    x = torch.einsum("bcsf,cfm->bsm", x, p["w_0"])
    frames = x.shape[1]
    apart = torch.arange(frames)[:, None] - torch.arange(frames)[None, :] + frames - 1
    for i in range(layers):
        x = feed(x, 1, 1, i)
        n = norm(x, 2, i)
        q, k, v = (torch.einsum("bsm,mhe->bhse", n, p[f"w_{w}.{i}"]) for w in "qkv")
        a = torch.softmax(q @ k.transpose(2, 3) * head ** -0.5 + p[f"distance.{i}"][:, apart], -1) @ v
        x = x + torch.einsum("bhse,hem->bsm", a, p[f"w_o.{i}"])
        left, right = torch.einsum("bsm,mpc->pbsc", norm(x, 3, i), p[f"pair.{i}"])
        kernel = p[f"kernel.{i}"]
        c = F.conv1d((left * torch.sigmoid(right)).transpose(1, 2), kernel, padding=kernel.shape[2] // 2, groups=width)
        x = x + F.silu(norm(c.transpose(1, 2), 4, i)) @ p[f"point.{i}"]
        x = norm(feed(x, 2, 5, i), 6, i)
    return F.cross_entropy((x @ p["head"]).flatten(0, 1), label.flatten())


def main():
    p = parameters(sys.argv[1])
    sound, label = torch.tensor(np.load(sys.argv[2])), torch.tensor(np.load(sys.argv[3])).long()
    whole = [t for name, t in p.items() if t.dim() == 1 or name.startswith("distance")]
    decayed = [t for name, t in p.items() if not (t.dim() == 1 or name.startswith("distance"))]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.1}, {"params": whole, "weight_decay": 0.0}],
                                  lr=1e-2, betas=(0.9, 0.95), eps=1e-8)
    for _ in range(20):
        optimizer.zero_grad()
        value = loss(p, sound, label)
        value.backward()
        torch.nn.utils.clip_grad_norm_(p.values(), 1.0)
        optimizer.step()
        print(f"{value.item():.7f}")


main()
