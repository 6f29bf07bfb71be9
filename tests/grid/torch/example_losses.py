#!/usr/bin/env python3
"""Losses of docs/examples/*.graph in PyTorch (f64), 20 steps of AdamW in three sizes: writes EXAMPLE.losses next to this file.
Of batch norms also EXAMPLE.averages: their running means and variances, and the loss of an evaluation of the first batch.

The initial values are Trivium's: a run whose learning rate is 0 saves them. The data are the formulas of element_of and
integer_of in tests/grid/programs.cpp. Needs torch, numpy, h5py.    example_losses.py PATH/TO/trivium [EXAMPLE …]
"""
import pathlib, subprocess, sys, tempfile
import h5py, numpy as np, torch
import torch.nn.functional as F

here = pathlib.Path(__file__).resolve().parent
examples = here.parents[2] / "docs" / "examples"
torch.set_default_dtype(torch.float64)
BATCH, STEPS = 8, 20
CLASSES = {"label": "classes", "tokens": "vocab"}  # inputs that are integers: the size that says below which number


def elements(name, sample, shape, classes):
    index = np.arange(int(np.prod(shape, dtype=int)))
    if classes:
        return ((7 * sample + 3 * index) % classes).reshape(shape)
    return (2 * np.sin(12.9898 * index + 78.233 * sample + len(name))).reshape(shape)


def batch(name, step, shape, classes):
    return np.stack([elements(name, BATCH * step + i, shape, classes) for i in range(BATCH)])


def valid(step):
    return torch.tensor([float((BATCH * step + i) % 5 != 3) for i in range(BATCH)])


def initial_values(trivium, graph, sizes, inputs, folder):
    arrays = []
    for name, (shape, classes) in inputs.items():
        np.save(folder / f"{name}.npy", batch(name, 0, shape, classes).astype("int32" if classes else "float64"))
        arrays.append(f"{name}={name}.npy")
    options = [f"model.family=graph", f"model.file={examples / graph}", "data.train=data.h5", "train.steps=1",
               "train.lr=0", f"train.global_batch={BATCH}", "train.precision=f64", "train.seed=1", "checkpoint.dir=saved"]
    options += [f"model.sizes.{k}={v}" for k, v in sizes.items()]
    (folder / "run.toml").write_text("")
    for command in (["data", "arrays", *arrays, "-o", "data.h5"], ["train", "run.toml", *options]):
        subprocess.run([trivium, *command], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    with h5py.File(folder / "saved" / "step-00000001" / "index.h5") as file:
        return {k: torch.tensor(np.array(v), requires_grad=True) for k, v in file["param"].items()}


# For each example: its loss, from parameters, sizes, the inputs of a batch and which of its samples count.

def vit(p, s, image, label, counts):
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
    logits = F.linear(norm(x[:, 0], ("norm.w", "norm.b")), p["head.w"].T, p["head.b"])
    return (F.cross_entropy(logits, label, reduction="none") * counts).sum() / counts.sum()


def unet3d(p, s, field, target, counts):
    def norm(x, name):
        return F.leaky_relu(F.instance_norm(x, weight=p[name.replace("*", "gain")], bias=p[name.replace("*", "bias")]), 0.01)
    levels, skips = s["levels"], []
    x = F.conv3d(field, p["stem.w"], padding=1)
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
    error = (F.conv3d(x, p["head.w"]) - target).square().mean((1, 2, 3, 4))
    return (error * counts).sum() / counts.sum()


def turned(x):
    """Rotary positions: element i of the first half of a head turns with element i of the second half."""
    s, e = x.shape[1], x.shape[3]
    angles = torch.arange(s)[:, None, None] * 10000.0 ** (-torch.arange(e // 2) * 2.0 / e)
    a, b = x.chunk(2, -1)
    return torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], -1)


def gelu(x):
    return F.gelu(x, approximate="tanh")


def attended(p, i, n, turn=lambda x: x):
    q, k, v = (torch.einsum("bsm,mhe->bshe", n, p[f"w_{a}.{i}"].flatten(1, -2).unflatten(1, (-1,))) for a in "qkv")
    q, k, v = (x.transpose(1, 2) for x in (turn(q), turn(k), v))
    mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return torch.einsum("bhse,hem->bsm", mixed, p[f"w_o.{i}"].flatten(0, -3))


def decoder(p, s, tokens, counts):
    def norm(x, weight):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * p[weight]
    read, following = tokens[:, :-1], tokens[:, 1:]
    x = p["embedding"][read]
    for i in range(s["layers"]):
        x = x + attended(p, i, norm(x, f"attention.norm.{i}"), turned)
        x = x + gelu(norm(x, f"feed.norm.{i}") @ p[f"w_in.{i}"]) @ p[f"w_out.{i}"]
    return F.cross_entropy((norm(x, "head.norm") @ p["head"]).flatten(0, 1), following.flatten())


def experts(p, s, tokens, counts):
    def norm(x, name, i=""):
        return F.layer_norm(x, (s["width"],), p[f"{name}.norm{i}"], p[f"{name}.shift{i}"], 1e-5)
    read, following = tokens[:, :-1], tokens[:, 1:]
    seq, number, capacity = s["seq"], s["experts"], s["capacity"]
    x, uneven = p["embedding"][read] + p["places"], 0
    for i in range(s["layers"]):
        x = x + attended(p, i, norm(x, "attention", f".{i}"))
        t = norm(x, "expert", f".{i}")
        gates = torch.softmax(t @ p[f"w_gate.{i}"], -1)
        best = gates.detach().topk(3).values
        assert ((best[..., :2] - best[..., 1:]) / best[..., :2]).min() > 1e-6, "a near tie: f32 may choose other experts"
        first, second = (F.one_hot(c, number).to(gates) for c in gates.topk(2).indices.unbind(-1))
        uneven = uneven + (first.sum(1) * gates.sum(1)).sum(-1) * number / seq ** 2
        places = first.cumsum(1) - 1, second.cumsum(1) + first.sum(1, keepdim=True) - 1
        both = (gates * (first + second)).sum(-1, keepdim=True)
        combine = sum((gates * mask / both)[..., None] * (place[..., None] == torch.arange(capacity))
                      for mask, place in zip((first, second), places))
        sent = torch.einsum("bsec,bsm->ebcm", (combine > 0).to(t), t)
        done = torch.einsum("ebcf,efm->ebcm", gelu(torch.einsum("ebcm,emf->ebcf", sent, p[f"w_in.{i}"])), p[f"w_out.{i}"])
        x = x + torch.einsum("bsec,ebcm->bsm", combine, done)
    each = F.cross_entropy((norm(x, "head") @ p["head"]).transpose(1, 2), following, reduction="none")
    return (each.sum() + 0.01 * seq * uneven.sum()) / each.numel()


def conformer(p, s, sound, label, counts):
    width, head = s["width"], s["head"]

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
    for i in range(s["layers"]):
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
    each = F.cross_entropy((x @ p["head"]).transpose(1, 2), label, reduction="none")
    return (each.sum(1) * counts).sum() / (counts.sum() * frames)


def resnet(p, s, image, label, counts, training=True):
    def norm(x, n):
        averages = p[f"mean.{n}"], p[f"variance.{n}"]
        return F.gelu(F.batch_norm(x, *averages, p[f"gain.{n}"], p[f"bias.{n}"], training, momentum=0.1, eps=1e-5))
    x = F.conv2d(image, p["stem.w"], padding=1)
    for i in range(s["levels"]):
        y = norm(F.conv2d(x, p[f"w.{i}.0"], stride=2, padding=1), f"{i}.0")
        y = norm(F.conv2d(y, p[f"w.{i}.1"], padding=1), f"{i}.1")
        x = y + F.conv2d(x, p[f"short.w.{i}"], stride=2)
    logits = F.linear(x.mean((2, 3)), p["head.w"].T, p["head.b"])
    return (F.cross_entropy(logits, label, reduction="none") * counts).sum() / counts.sum()


def train(p, decays, loss_of):
    groups = [{"params": [v for k, v in p.items() if decays(k)], "weight_decay": 0.1},
              {"params": [v for k, v in p.items() if not decays(k)], "weight_decay": 0.0}]
    adamw = torch.optim.AdamW(groups, lr=0.01, betas=(0.9, 0.95), eps=1e-8)
    losses = []
    for step in range(STEPS):
        loss = loss_of(step)
        adamw.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(p.values(), 1.0)
        adamw.step()
        losses.append(loss.item())
    return losses


def matrices(p):  # vectors, places and distances do not decay
    return lambda name: p[name].dim() > 1 and not name.startswith(("places", "distance"))


def vit_inputs(s):
    return {"image": (s["channels"], s["side"], s["side"]), "label": ()}


def unet3d_inputs(s):
    return {name: (1, s["x0"], s["y0"], s["z0"]) for name in ("field", "target")}


def resnet_inputs(s):
    return {"image": (s["channels"], s["x0"], s["y0"]), "label": ()}


def decoder_inputs(s):
    return {"tokens": (s["seq"] + 1,)}


def conformer_inputs(s):
    return {"sound": (4 * s["frames"], 4 * s["bins"]), "label": (s["frames"],)}


# Toy, odd, larger.
models = {
    "vit": (vit, vit_inputs, lambda p: lambda k: k == "patch.w" or (".w" in k and "norm" not in k),
            [dict(channels=3, side=6, patch=2, width=12, heads=3, layers=2, classes=5),
             dict(channels=1, side=9, patch=3, width=10, heads=5, layers=3, classes=7),
             dict(channels=3, side=16, patch=4, width=48, heads=4, layers=4, classes=10)]),
    "unet3d": (unet3d, unet3d_inputs, lambda p: lambda k: ".w" in k,
               [dict(levels=1, x0=8, y0=4, z0=4, c0=2),
                dict(levels=2, x0=9, x1=5, x2=3, y0=13, y1=7, y2=4, z0=4, c0=2),
                dict(levels=2, x0=16, y0=16, z0=8, c0=4)]),
    "resnet": (resnet, resnet_inputs, lambda p: lambda k: ".w" in k or k.startswith("w."),
               [dict(channels=1, classes=5, levels=1, c0=4, x0=8, y0=6),
                dict(channels=3, classes=7, levels=2, c0=3, x0=9, x1=5, x2=3, y0=7, y1=4, y2=2),
                dict(channels=3, classes=10, levels=3, c0=8, x0=16, y0=16)]),
    "decoder": (decoder, decoder_inputs, matrices,
                [dict(seq=4, width=8, heads=2, head=4, hidden=16, vocab=16, layers=1),
                 dict(seq=5, width=11, heads=3, head=6, hidden=13, vocab=17, layers=3),
                 dict(seq=32, width=64, heads=4, head=16, hidden=256, vocab=128, layers=4)]),
    "experts": (experts, decoder_inputs, matrices,
                [dict(seq=6, width=8, heads=2, head=4, hidden=8, experts=4, capacity=4, vocab=16, layers=1),
                 dict(seq=7, width=9, heads=3, head=5, hidden=11, experts=5, capacity=3, vocab=13, layers=3),
                 dict(seq=12, width=32, heads=4, head=8, hidden=48, experts=8, capacity=5, vocab=64, layers=2)]),
    "conformer": (conformer, conformer_inputs, matrices,
                  [dict(frames=4, bins=2, channels=2, width=6, heads=2, head=3, hidden=8, reach=1, classes=5, layers=1),
                   dict(frames=7, bins=3, channels=3, width=9, heads=3, head=5, hidden=11, reach=2, classes=7, layers=3),
                   dict(frames=24, bins=5, channels=8, width=32, heads=4, head=8, hidden=64, reach=4, classes=10, layers=4)]),
}


def losses_of(trivium, example, s):
    loss, shapes, decays, _ = models[example]
    inputs = {name: (shape, s[CLASSES[name]] if name in CLASSES else 0) for name, shape in shapes(s).items()}
    with tempfile.TemporaryDirectory() as folder:
        p = initial_values(trivium, f"{example}.graph", s, inputs, pathlib.Path(folder))
    averages = {k: torch.full_like(v, float(k.startswith("variance")), requires_grad=False)
                for k, v in p.items() if k.startswith(("mean", "variance"))}
    p.update(averages)
    data = lambda step: [torch.tensor(batch(name, step, *what)) for name, what in inputs.items()]
    losses = train(p, decays(p), lambda step: loss(p, s, *data(step), valid(step)))
    if averages:
        averages["evaluation"] = loss(p, s, *data(0), valid(0), training=False).detach().reshape(1)
    return losses, averages


def main(trivium, chosen):
    for example in chosen or models:
        text = kept = ""
        for s in models[example][3]:
            losses, averages = losses_of(trivium, example, s)
            text += "".join(f"{k} {v} " for k, v in s.items()) + "\n"
            text += "".join(f"{loss:.17g}\n" for loss in losses)
            kept += "".join(f"{k} {v} " for k, v in s.items()) + "\n"
            kept += "".join(k + "".join(f" {x:.17g}" for x in v.tolist()) + "\n" for k, v in averages.items()) + "\n"
        (here / f"{example}.losses").write_text(text)
        if averages:
            (here / f"{example}.averages").write_text(kept)


main(str(pathlib.Path(sys.argv[1]).resolve()), sys.argv[2:])
