#!/usr/bin/env python3
"""Whether one learning rate is good for models of all widths: final losses of short trainings by width and learning rate,
with and without model.base_dim, and how far the logits move (CompleteP, arXiv:2505.01618).

perf/coordinate_check.py --store train.h5 [--widths 32,64,128,256] [--layers 2] [--rates 5] [--steps 80]

Prints a table per rule. With base_dim, the best rate of the narrowest model should be the best of all."""
import argparse
import json
import math
import pathlib
import subprocess
import tempfile

home = pathlib.Path(__file__).resolve().parent.parent


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(home / "build" / "trivium"))
    parser.add_argument("--store", required=True, help="token store")
    parser.add_argument("--widths", default="32,64,128,256")
    parser.add_argument("--layers", default="2", help="of each width, or one number for all; the first is base_layers")
    parser.add_argument("--rates", type=int, default=6, help="learning rates, each four times the one before")
    parser.add_argument("--first", type=float, default=1e-3 / 4)
    parser.add_argument("--steps", type=int, default=80)
    return parser.parse_args()


def final_loss(a, folder, width, layers, rate, base):
    """Mean training loss of the last eighth of the steps; infinity if a step is not finite."""
    keys = dict(family='"llama"', dim=width, layers=layers, heads=width // 16, kv_heads=width // 16, ffn_dim=3 * width, seq=64)
    keys.update(base)
    config = "".join(f"{k} = {v}\n" for k, v in keys.items())
    (folder / "run.toml").write_text(
        f'[model]\n{config}[data]\ntrain = "{a.store}"\n[train]\nsteps = {a.steps}\nglobal_batch = 16\nlr = {rate}\nwarmup = 8\n'
        f'schedule = "constant"\ngrad_clip = 0\n[checkpoint]\ndir = "{folder}/ck"\nresume = "never"\n'
        f'[log]\ndir = "{folder}/log"\nevery = 1000\n')
    run = subprocess.run([a.program, "train", str(folder / "run.toml")], capture_output=True, text=True)
    if run.returncode != 0:
        return math.inf
    lines = [json.loads(line) for line in (folder / "log" / "metrics.jsonl").read_text().splitlines()]
    losses = [line["loss"] for line in lines[-a.steps // 8:]]
    return sum(losses) / len(losses) if all(isinstance(x, float) and math.isfinite(x) for x in losses) else math.inf


def main():
    a = arguments()
    widths = [int(w) for w in a.widths.split(",")]
    layers = [int(n) for n in a.layers.split(",")]
    layers = layers * len(widths) if len(layers) == 1 else layers
    rates = [a.first * 4 ** i for i in range(a.rates)]
    for rule in ("without base_dim", f"base_dim = {widths[0]}, base_layers = {layers[0]}"):
        base = {} if rule.startswith("without") else dict(base_dim=widths[0], base_layers=layers[0])
        print(f"\n{rule}: training loss after {a.steps} steps\n\n| width x layers |" + "".join(f" lr {r:.2g} |" for r in rates) + " best |")
        print("|---|" + "---|" * (len(rates) + 1))
        for width, depth in zip(widths, layers):
            losses = []
            for rate in rates:
                with tempfile.TemporaryDirectory() as folder:
                    losses.append(final_loss(a, pathlib.Path(folder), width, depth, rate, base))
            best = min(range(len(rates)), key=lambda i: losses[i])
            print(f"| {width} x {depth} |" + "".join(f" {x:.3f} |" for x in losses) + f" {rates[best]:.2g} |", flush=True)


if __name__ == "__main__":
    main()
