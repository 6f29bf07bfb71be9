#!/usr/bin/env python3
"""Losses of docs/examples/*.graph in PyTorch (f64): writes vit.losses and unet3d.losses beside this file.

The initial values are Trivium's: a run whose learning rate is 0 saves them. The data are the formula of element_of in
tests/grid/programs.cpp. Needs torch, numpy, h5py.    example_losses.py PATH/TO/trivium
"""
import pathlib, subprocess, sys, tempfile
import h5py, numpy as np, torch
import torch.nn.functional as F

here = pathlib.Path(__file__).resolve().parent
examples = here.parents[2] / "docs" / "examples"
torch.set_default_dtype(torch.float64)
BATCH, STEPS = 8, 20


def elements(name, sample, shape, classes=0):
    index = np.arange(int(np.prod(shape, dtype=int)))
    if classes:
        return ((7 * sample + 3 * index) % classes).reshape(shape)
    return (2 * np.sin(12.9898 * index + 78.233 * sample + len(name))).reshape(shape)


def batch(name, step, shape, classes=0):
    return torch.tensor(np.stack([elements(name, BATCH * step + i, shape, classes) for i in range(BATCH)]))


def initial_values(trivium, graph, sizes, inputs, folder):
    arrays = []
    for name, (shape, classes) in inputs.items():
        data = np.stack([elements(name, i, shape, classes) for i in range(BATCH)])
        np.save(folder / f"{name}.npy", data.astype("int32" if classes else "float64"))
        arrays.append(f"{name}={name}.npy")
    options = [f"model.family=graph", f"model.file={examples / graph}", "data.train=data.h5", "train.steps=1",
               "train.lr=0", f"train.global_batch={BATCH}", "train.precision=f64", "train.seed=1", "checkpoint.dir=saved"]
    options += [f"model.sizes.{k}={v}" for k, v in sizes.items()]
    (folder / "run.toml").write_text("")
    subprocess.run([trivium, "data", "arrays", *arrays, "-o", "data.h5"], cwd=folder, check=True)
    subprocess.run([trivium, "train", "run.toml", *options], cwd=folder, check=True)
    with h5py.File(folder / "saved" / "step-00000001" / "index.h5") as file:
        return {k: torch.tensor(np.array(v), requires_grad=True) for k, v in file["param"].items()}


def vit(p, s, image):
    width, heads, patch = s["width"], s["heads"], s["patch"]
    x = F.conv2d(image, p["patch.w"], p["patch.b"], stride=patch).flatten(2).transpose(1, 2)
    x = torch.cat([p["class"].expand(len(x), 1, width), x], 1) + p["position"]
    norm = lambda x, name: F.layer_norm(x, (width,), p[name[0]], p[name[1]], 1e-6)
    for i in range(s["layers"]):
        n = norm(x, (f"norm1.w.{i}", f"norm1.b.{i}"))
        q, k, v = (F.linear(n, p[f"{a}.w.{i}"].flatten(1).T, p[f"{a}.b.{i}"].flatten()).unflatten(2, (heads, -1)).transpose(1, 2)
                   for a in "qkv")
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = x + F.linear(mixed, p[f"o.w.{i}"].flatten(0, 1).T, p[f"o.b.{i}"])
        n = norm(x, (f"norm2.w.{i}", f"norm2.b.{i}"))
        x = x + F.linear(F.gelu(F.linear(n, p[f"up.w.{i}"].T, p[f"up.b.{i}"])), p[f"down.w.{i}"].T, p[f"down.b.{i}"])
    return F.linear(norm(x[:, 0], ("norm.w", "norm.b")), p["head.w"].T, p["head.b"])


def unet(p, s, x):
    def norm(x, name):
        return F.leaky_relu(F.instance_norm(x, weight=p[name.replace("*", "gain")], bias=p[name.replace("*", "bias")]), 0.01)
    levels, skips = s["levels"], []
    x = F.conv3d(x, p["stem.w"], padding=1)
    for i in range(levels):
        x = norm(F.conv3d(x, p[f"down.w.{i}.0"], padding=1), f"down.*.{i}.0")
        skips.append(x)
        x = norm(F.conv3d(x, p[f"down.w.{i}.1"], padding=1, stride=2), f"down.*.{i}.1")
    for i in range(levels):
        skip = skips.pop()
        # A convolution of the stretched field: PyTorch's weights are turned and have the inputs first.
        x = F.conv_transpose3d(x, p[f"wider.w.{i}"].flip(2, 3, 4).transpose(0, 1), stride=2)
        x = torch.cat([x[tuple(slice(n) for n in (None, None, *skip.shape[2:]))], skip], 1)
        for k in range(2):
            x = norm(F.conv3d(x, p[f"up.w.{i}.{k}"], padding=1), f"up.*.{i}.{k}")
    return F.conv3d(x, p["head.w"])


def train(p, decays, loss_of):
    groups = [{"params": [v for k, v in p.items() if decays(k)], "weight_decay": 0.1},
              {"params": [v for k, v in p.items() if not decays(k)], "weight_decay": 0.0}]
    adamw = torch.optim.AdamW(groups, lr=0.01, betas=(0.9, 0.95), eps=1e-8)
    losses = []
    for step in range(STEPS):
        valid = torch.tensor([float((BATCH * step + i) % 5 != 3) for i in range(BATCH)])
        loss = (loss_of(step) * valid).sum() / valid.sum()
        adamw.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(p.values(), 1.0)
        adamw.step()
        losses.append(loss.item())
    return losses


def keep(name, losses):
    (here / name).write_text("".join(f"{loss:.17g}\n" for loss in losses))


def main(trivium):
    with tempfile.TemporaryDirectory() as folder:
        s = {"channels": 3, "side": 6, "patch": 2, "width": 12, "heads": 3, "layers": 2, "classes": 5}
        image = (3, 6, 6)
        p = initial_values(trivium, "vit.graph", s, {"image": (image, 0), "label": ((), 5)}, pathlib.Path(folder))
        keep("vit.losses", train(p, lambda k: k == "patch.w" or (".w" in k and "norm" not in k),
                                 lambda step: F.cross_entropy(vit(p, s, batch("image", step, image)),
                                                              batch("label", step, (), 5), reduction="none")))
    with tempfile.TemporaryDirectory() as folder:
        s = {"levels": 2, "x0": 9, "x1": 5, "x2": 3, "y0": 13, "y1": 7, "y2": 4, "z0": 4, "c0": 2}
        field = (1, 9, 13, 4)
        p = initial_values(trivium, "unet3d.graph", s, {"field": (field, 0), "target": (field, 0)}, pathlib.Path(folder))
        keep("unet3d.losses", train(p, lambda k: ".w" in k,
                                    lambda step: (unet(p, s, batch("field", step, field)) - batch("target", step, field))
                                    .square().mean((1, 2, 3, 4))))


main(str(pathlib.Path(sys.argv[1]).resolve()))
