#!/usr/bin/env python3
"""Trains a program with the shardings that `explain CONFIG --search` finds, and with those that are the same for all ops,
in turns: perf/mixed_training.py [PROGRAM.graph] [--sizes "side=64, …"] [--ranks 4] [--rounds 5] [--trivium PATH]

The inputs are %image, f32[b,channels,side,side], and %label, i32[b], as those of docs/examples/vgg.graph, and are drawn. Links are
as slow as --latency and --bandwidth say, which uses no core. Prints for each strategy the simulated step, the median step of each round, and the
fastest uniform one over the found one, of the medians of all rounds and of the rounds one by one.
"""
import argparse
import json
import os
import random
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile

here = os.path.dirname(os.path.abspath(__file__))
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("program", nargs="?", default=os.path.join(here, "..", "docs", "examples", "vgg.graph"))
parser.add_argument("--trivium", default=os.path.join(here, "..", "build", "trivium"))
parser.add_argument("--sizes", default="side=64, c0=32, levels=3, hidden=4096, classes=200")
parser.add_argument("--batch", type=int, default=32)
parser.add_argument("--ranks", type=int, default=4)
parser.add_argument("--rounds", type=int, default=5)
parser.add_argument("--steps", type=int, default=8)
parser.add_argument("--uniform", type=int, default=3, help="of the uniform strategies, the fastest by simulation")
parser.add_argument("--tries", type=int, default=300)
parser.add_argument("--zero", type=int, default=1)
parser.add_argument("--latency", default="1e-4")
parser.add_argument("--bandwidth", default="2e8")
parser.add_argument("--machine", default="cpu", help="a name, or the file that `trivium check -o` wrote")
parser.add_argument("--launcher", default="mpirun --oversubscribe --bind-to none -n")
arguments = parser.parse_args()
trivium = os.path.abspath(arguments.trivium)
sizes = dict(channels=3, side=224, classes=1000)
sizes.update((name.strip(), int(number)) for name, number in (size.split("=") for size in arguments.sizes.split(",")))


def run(command, folder):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def write_npy(path, kind, shape, content):
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {tuple(shape)}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + content)


with tempfile.TemporaryDirectory() as folder:
    draw = random.Random(1)
    count, shape = 2 * arguments.batch, (sizes["channels"], sizes["side"], sizes["side"])
    noise = struct.pack("<65536f", *(draw.gauss(0, 1) for _ in range(65536)))
    elements = count * shape[0] * shape[1] * shape[2]
    write_npy(os.path.join(folder, "image.npy"), "<f4", (count, *shape), (noise * (elements // 65536 + 1))[:4 * elements])
    write_npy(os.path.join(folder, "label.npy"), "<i4", (count,),
              struct.pack(f"<{count}i", *(draw.randrange(sizes["classes"]) for _ in range(count))))
    run([trivium, "data", "arrays", "image=image.npy", "label=label.npy", "-o", "data.h5"], folder)
    shutil.copy(arguments.program, os.path.join(folder, "program.graph"))
    with open(os.path.join(folder, "run.toml"), "w") as config:
        config.write(f"""[model]
family = "graph"
file = "program.graph"
sizes = {{{arguments.sizes}}}
[data]
train = "data.h5"
[train]
steps = {arguments.steps}
global_batch = {arguments.batch}
[parallel]
zero = {arguments.zero}
threads = 1
axes = {{x = {arguments.ranks}}}
delay_latency = {arguments.latency}
delay_bandwidth = {arguments.bandwidth}
[checkpoint]
every = 0
dir = "ck"
[log]
dir = "logs"
""")
    found = json.loads(run([trivium, "explain", "run.toml", "--search", "--json", "--tries", str(arguments.tries),
                            "--machine", arguments.machine], folder))
    strategies = [("found", found["seconds"], found["graph"])]
    strategies += [(u["strategy"], u["seconds"], u["graph"]) for u in found["uniform"][:arguments.uniform]]
    print(f"{found['simulated']} programs simulated; annotations: "
          + ", ".join(f"{name} {sharding}" for name, sharding in found["annotations"].items()), flush=True)
    steps = [[] for _ in strategies]
    for which, (_, _, text) in enumerate(strategies):
        with open(os.path.join(folder, f"{which}.graph"), "w") as file:
            file.write(text)
    for _ in range(arguments.rounds):
        for which in range(len(strategies)):
            for old in ("logs", "ck"):
                shutil.rmtree(os.path.join(folder, old), ignore_errors=True)
            run([*arguments.launcher.split(), str(arguments.ranks), trivium, "train", "run.toml", f"model.file={which}.graph"], folder)
            with open(os.path.join(folder, "logs", "metrics.jsonl")) as lines:
                records = [json.loads(line) for line in lines]
            steps[which].append(statistics.median(record["step_seconds"] for record in records[1:]))
            print(f"{strategies[which][0]}: {1e3 * steps[which][-1]:.0f} ms", flush=True)
    medians = [statistics.median(of) for of in steps]
    for (name, simulated, _), of, median in zip(strategies, steps, medians):
        print(f"{name:24} simulated {1e3 * simulated:8.1f} ms, measured {1e3 * median:8.1f} ms, rounds "
              + " ".join(f"{1e3 * one:.0f}" for one in of))
    ratios = [min(others) / own for own, *others in zip(*steps)]
    print(f"fastest uniform over found: {min(medians[1:]) / medians[0]:.2f}; round by round {min(ratios):.2f} to {max(ratios):.2f}; "
          f"simulated {min(s[1] for s in strategies[1:]) / strategies[0][1]:.2f}")
