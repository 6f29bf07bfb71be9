#!/usr/bin/env python3
"""Plans of drawn configurations beside their measured steps, on this machine: perf/plan_runs.py [--count N] [--seed S] [--trivium PATH]

The arena that is planned must be the arena that is used, to the byte. Measures the machine with `trivium check -o`, once with one rank and once with two. Then plans, trains, and prints planned over measured.
Nothing else should run meanwhile.
"""
import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile

here = os.path.dirname(os.path.abspath(__file__))
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--trivium", default=os.path.join(here, "..", "build", "trivium"))
parser.add_argument("--count", type=int, default=30)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--launcher", default="mpirun -n 2", help="starts two ranks")
arguments = parser.parse_args()
trivium = os.path.abspath(arguments.trivium)
launch = {1: [], 2: arguments.launcher.split()}
draw = random.Random(arguments.seed)


def run(command, folder):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def drawn():
    """A number of ranks, and overrides."""
    dim = draw.choice([128, 192, 256, 384, 512, 768])
    ranks, micro, count = draw.choice([1, 2, 2]), draw.choice([1, 2, 4]), draw.choice([1, 2, 4])
    keys = {"model.family": draw.choice(["llama", "gpt2"]), "model.dim": dim, "model.heads": dim // 64,
            "model.layers": draw.choice([2, 3, 4, 6, 8]), "model.seq": draw.choice([128, 256, 512]),
            "model.vocab": draw.choice([512, 2048, 8192, 16384]), "train.micro_batch": micro,
            "train.global_batch": micro * count, "train.precision": draw.choice(["f32", "bf16"]),
            "parallel.recompute": draw.choice(["none", "none", "selective", "full"])}
    if ranks == 2:
        axis = draw.choice(["data", "data", "pipeline", "tensor"])
        keys["parallel." + axis] = 2
        if axis == "data":
            keys["parallel.zero"] = draw.choice([0, 1, 2, 3])
        if axis == "pipeline":
            keys["parallel.schedule"] = draw.choice(["1f1b", "zb-h1", "gpipe"])
        if axis != "tensor":
            keys["train.global_batch"] *= 2
    return ranks, [f"{key}={value}" for key, value in keys.items()]


with tempfile.TemporaryDirectory() as folder:
    with open(os.path.join(folder, "text.txt"), "w") as text:
        text.write("".join(chr(97 + draw.randrange(26)) for _ in range(2_000_000)))
    run([trivium, "data", "tokenize", "text.txt", "-o", "text.h5", "--tokenizer", "bytes"], folder)
    for ranks in (1, 2):
        run([*launch[ranks], trivium, "check", "--only", "environment,rates", "-o", f"{ranks}.toml"], folder)
    ratios = []
    for _ in range(arguments.count):
        ranks, keys = drawn()
        plan = json.loads(run([trivium, "plan", "/dev/null", "--machine", f"{ranks}.toml", *keys, "--json"], folder))
        planned, arena = plan["estimated_step_seconds"], max(rank["arena_bytes"] for rank in plan["per_rank"])
        shutil.rmtree(os.path.join(folder, "logs"), ignore_errors=True)
        shutil.rmtree(os.path.join(folder, "ck"), ignore_errors=True)
        steps = max(8, min(60, int(2.5 / planned)))
        run([*launch[ranks], trivium, "train", "/dev/null", "data.train=text.h5", f"train.steps={steps}", "log.dir=logs",
             "checkpoint.dir=ck", "checkpoint.every=0", *keys], folder)
        with open(os.path.join(folder, "logs", "metrics.jsonl")) as lines:
            records = [json.loads(line) for line in lines]
        seconds = sorted(record["step_seconds"] for record in records[2:])
        used = {records[-1]["planned_bytes"], records[-1]["memory_bytes"]}
        if used != {arena}:
            sys.exit(f"planned an arena of {arena} bytes, the run: {used}: {keys}")
        measured = statistics.median(seconds)
        spread = (seconds[3 * len(seconds) // 4] - seconds[len(seconds) // 4]) / measured
        ratios.append(planned / measured)
        print(f"{ratios[-1]:.3f}  planned {1e3 * planned:8.1f} ms  measured {1e3 * measured:8.1f} ms  spread "
              f"{100 * spread:4.1f} %  {ranks}: {' '.join(key.split('.')[1] for key in keys)}", flush=True)
    within = sum(abs(ratio - 1) <= 0.1 for ratio in ratios)
    print(f"planned / measured: median {statistics.median(ratios):.3f}, {min(ratios):.3f} to {max(ratios):.3f}, "
          f"{within} of {len(ratios)} within 10 %")
