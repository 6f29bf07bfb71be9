#!/usr/bin/env python3
"""Balance of a small mixture of experts: perf/expert_balance.py TRAIN.h5 VALID.h5 [--svg FILE] [--out FOLDER]

Trains the model of jobs/quickstart.toml for 300 steps of 16 sequences on its token stores three times, on one rank: dense, and with 8
experts, of which a token has one of half the dense width and a shared block of the other half, so that as many parameters are active;
balanced by the bias and by the loss. Prints validation losses and the load of the fullest expert over the mean.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

here = os.path.dirname(os.path.abspath(__file__))
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("train")
parser.add_argument("valid")
parser.add_argument("--trivium", default=os.path.join(here, "..", "build", "trivium"))
parser.add_argument("--steps", type=int, default=300)
parser.add_argument("--svg", help="file for the curves")
parser.add_argument("--out", help="folder for logs, kept; runs that it has are not repeated")
arguments = parser.parse_args()
folder = arguments.out or tempfile.mkdtemp()
experts = ["model.experts=8", "model.expert_slots=1", "model.expert_dim=256", "model.shared_dim=256", "model.router_normalised=false"]
runs = {"dense": [],
        "bias": experts + ["model.balance_bias=true", "train.balance_rate=0.003"],
        "loss": experts + ["train.balance_loss=0.03"]}


def metrics_of(name, keys):
    log = os.path.join(folder, "log-" + name)
    if not os.path.exists(os.path.join(log, "metrics.jsonl")):
        done = subprocess.run([arguments.trivium, "train", os.path.join(here, "..", "jobs", "quickstart.toml"),
                               "data.train=" + os.path.abspath(arguments.train), "data.valid=" + os.path.abspath(arguments.valid),
                               "data.tokenizer=", "parallel.data=1", "parallel.pipeline=1", "parallel.tensor=1", "parallel.zero=0",
                               f"train.steps={arguments.steps}", "train.global_batch=16", "train.micro_batch=8", "train.eval_every=50",
                               "train.eval_batches=3", "log.every=1", "checkpoint.every=0", "log.dir=" + log,
                               "checkpoint.dir=" + os.path.join(folder, "checkpoints-" + name), *keys], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(done.stdout + done.stderr)
    with open(os.path.join(log, "metrics.jsonl")) as file:
        return [json.loads(line) for line in file]


curves, loads = {}, {}
for name, keys in runs.items():
    lines = metrics_of(name, keys)
    curves[name] = [(line["step"], line["valid_loss"]) for line in lines if "valid_loss" in line]
    loads[name] = [(line["step"], line["expert_load"]) for line in lines if "expert_load" in line]
print("| balanced by | validation loss | fullest expert over the mean, last step | the same, mean of the last 50 |\n|---|---|---|---|")
for name in runs:
    late = [load for _, load in loads[name][-50:]]
    load = f"{late[-1]:.2f} | {sum(late) / len(late):.2f}" if late else "- | -"
    print(f"| {'(dense)' if name == 'dense' else name} | {curves[name][-1][1]:.4f} | {load} |")
if arguments.svg:
    colours = {"dense": "#555", "bias": "#1f77b4", "loss": "#d62728"}
    parts = ['<svg xmlns="http://www.w3.org/2000/svg" width="820" height="300" font-family="sans-serif" font-size="12">'
             '<rect width="820" height="300" fill="white"/>']
    for left, title, data, low, high in ((50, "validation loss", curves, 3.4, 6.0), (460, "fullest expert over the mean", loads, 1.0, 4.0)):
        top, width, height = 20, 320, 220
        at = lambda step, value: (left + width * step / arguments.steps, top + height * (1 - (min(value, high) - low) / (high - low)))
        for i in range(5):
            value = low + (high - low) * i / 4
            parts.append(f'<path d="M{left} {at(0, value)[1]:.0f}h{width}" stroke="#ddd"/>'
                         f'<text x="{left - 6}" y="{at(0, value)[1] + 4:.0f}" text-anchor="end">{value:.2f}</text>')
        for name, points in data.items():
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(*point) for point in points))
            parts.append(f'<polyline points="{path}" fill="none" stroke="{colours[name]}" stroke-width="1.5"/>')
        parts.append(f'<text x="{left + width / 2}" y="{top + height + 40}" text-anchor="middle">{title}, by step</text>')
        parts += [f'<text x="{at(step, low)[0]:.0f}" y="{top + height + 18}" text-anchor="middle">{step}</text>'
                  for step in range(0, arguments.steps + 1, 100)]
    parts += [f'<text x="300" y="{60 + 18 * i}" fill="{colours[name]}">{name}</text>' for i, name in enumerate(runs)]
    with open(arguments.svg, "w") as file:
        file.write("\n".join(parts) + "</svg>\n")
