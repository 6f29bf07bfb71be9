#!/usr/bin/env python3
"""What the programs of docs/examples send in a training step, next to the formulas of the GSPMD paper
(arXiv:2105.04663): perf/program_traffic.py [--trivium PATH]

Bytes that a rank sends, averaged over the ranks, as `trivium explain --json` lists them. Of models with equal layers: what one
more layer adds. Exits with 1 if anything is more than its formula.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter

here = os.path.dirname(os.path.abspath(__file__))
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--trivium", default=os.path.join(here, "..", "build", "trivium"))
arguments = parser.parse_args()
BYTES = 4  # f32


def sent(program, sizes, axes, batch):
    """Bytes by kind, axis and phase."""
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as config:
        config.write(f'model.family = "graph"\nmodel.file = "{here}/../docs/examples/{program}.graph"\n')
        config.flush()
        keys = [f"model.sizes.{name}={value}" for name, value in sizes.items()]
        keys += [f"parallel.{'' if axis == 'data' else 'axes.'}{axis}={ranks}" for axis, ranks in axes.items()]
        done = subprocess.run([arguments.trivium, "explain", config.name, "--json", "--only", "communication",
                               "parallel.bucket=none", f"train.global_batch={batch}", *keys], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)
    total = Counter()
    for c in json.loads(done.stdout)["communication"]:
        total[c["op"], c["axis"], c["phase"] if c["region"] == "microbatch" else c["region"]] += c["bytes_sent"]
    return total


def of_layer(program, sizes, axes, batch):
    few, more = (sent(program, {**sizes, "layers": layers}, axes, batch) for layers in (2, 3))
    return Counter({key: more[key] - few[key] for key in more})


worst = 0


def row(program, what, ours, kinds, paper, formula):
    """`kinds`: of the collectives that count, by (kind, axis); `paper`: elements, None: no formula."""
    global worst
    mine = sum(value for (kind, axis, _), value in ours.items() if (kind, axis) in kinds)
    if paper is None:
        print(f"| {program} | {what} | {mine / 1024:,.0f} | | |")
        return
    worst = max(worst, mine / (BYTES * paper))
    print(f"| {program} | {what} | {mine / 1024:,.0f} | {BYTES * paper / 1024:,.0f} | {formula} |")


print("| program, ranks | what | KiB | paper | elements by the paper |\n|---|---|---|---|---|")

B, S, M, Y = 8, 197, 1024, 4
layer = of_layer("vit", dict(side=224, patch=16, width=M, heads=16, classes=1000), dict(model=Y), B)
row(f"ViT-L/16, model={Y}, a layer", "activations summed over model", layer, {("all_reduce", "model")},
    8 * B * S * M * (Y - 1) / Y, "8 B S M (Y-1)/Y")

B, S, M, H, X, Y = 64, 1024, 8192, 65536, 8, 8
layer = of_layer("decoder", dict(seq=S, width=M, heads=128, head=64, hidden=H, vocab=32000), dict(x=X, y=Y), B)
name = f"decoder, x={X} y={Y}, a layer"
weights, activations = (4 * M * M + 2 * M * H) / Y * (X - 1) / X, B * S * M / X * (Y - 1) / Y
row(name, "weights gathered over x", layer, {("all_gather", "x")}, 2 * weights, "2 (4 M² + 2 M H)/Y (X-1)/X")
row(name, "their gradients scattered over x", layer, {("reduce_scatter", "x")}, weights, "(4 M² + 2 M H)/Y (X-1)/X")
row(name, "activations gathered over y", layer, {("all_gather", "y")}, 6 * activations, "6 B S M/X (Y-1)/Y")
row(name, "activations scattered over y", layer, {("reduce_scatter", "y")}, 4 * activations, "4 B S M/X (Y-1)/Y")
row(name, "sums of norms", layer, {("all_reduce", "x"), ("all_reduce", "y"), ("all_reduce", "world")}, None, "")

B, S, M, E, C, X, Y = 64, 1024, 8192, 64, 32, 8, 8
layer = of_layer("experts", dict(seq=S, width=M, heads=128, head=64, hidden=32768, experts=E, capacity=C, vocab=32000), dict(x=X, y=Y), B)
name = f"experts, x={X} y={Y}, a layer"
row(name, "tokens to experts and back over x", layer, {("all_to_all", "x")}, 4 * E * B * C * M / X * (X - 1) / X,
    "4 E B C M/X (X-1)/X")
row(name, "activations summed over y", layer, {("all_reduce", "y"), ("all_gather", "y"), ("reduce_scatter", "y")},
    4 * (B * S * M + E * B * C * M) / X * (Y - 1) / Y, "4 (B S M + E B C M)/X (Y-1)/Y")
row(name, "gradients of other weights over x", layer, {("all_reduce", "x")}, 2 * (4 * M * M / Y + M * E + 4 * M) * (X - 1) / X,
    "2 (4 M²/Y + M E + 4 M) (X-1)/X")

B, S, M, reach, Y = 8, 400, 512, 16, 8
layer = of_layer("conformer", dict(frames=S, width=M, heads=8, head=64, hidden=2048, reach=reach, bins=20), dict(y=Y), B)
name = f"Conformer L, y={Y}, a layer"
row(name, "halos over y", layer, {("halo", "y")}, 3 * 2 * reach * B * M * (Y - 1) / Y, "3 (k-1) B M (Y-1)/Y")
row(name, "keys, values and their gradients over y", layer, {("all_gather", "y"), ("reduce_scatter", "y")},
    6 * B * S * M * (Y - 1) / Y, "6 B S M (Y-1)/Y")


def unet(extent, channels, levels, X, Y):
    """Elements of the halos: forward of each convolution's input; backward of its result's gradient and again of its input."""
    def halo(n, channels, rows):
        return ((n + rows * (X - 1)) * (n + rows * (Y - 1)) - n * n) * n * channels / (X * Y)
    total, n, c = 2 * halo(extent, 1, 2), extent, channels  # the field needs no gradient
    for _ in range(levels):
        total += 3 * halo(n, c, 2)  # extent, then to half of it, where windows reach to one side only
        total += 2 * halo(n, c, 1) + halo(n // 2, 2 * c, 1)
        n, c = n // 2, 2 * c
    for _ in range(levels):
        n, c = 2 * n, c // 2
        total += 2 * halo(n, 2 * c, 2) + halo(n, c, 2) + 3 * halo(n, c, 2)
    return total


X, Y = 4, 4
all_of_it = sent("unet3d", dict(x0=256, y0=256, z0=256, c0=32, levels=4), dict(x=X, y=Y), 1)
name = f"U-Net 256³, x={X} y={Y}, the whole"
halos = {("halo", "x"), ("halo", "y"), ("halo", "x+y")}
row(name, "halos", all_of_it, halos, unet(256, 32, 4, X, Y), "a halo of a convolution's input, of its result's gradient, and of its input again")
row(name, "sums of norms, gradients", all_of_it, {key[:2] for key in all_of_it} - halos, None, "")
print(f"\nat most {worst:.4f} of the paper's", file=sys.stderr)
sys.exit(worst > 1 + 1e-6)
