#!/usr/bin/env python3
"""Messages and time of launches and steps on 2 to 64 ranks of this machine, counted by Open MPI's monitoring.

    perf/control_messages.py [build/trivium]

A tiny model, data-parallel with ZeRO 1. "launch" is everything but the steps. The peers of a launch are those with more
messages than a step sends to any rank. The last line fits a + b log2(ranks) to the launch.
"""
import collections
import glob
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time

CONFIG = """[model]
layers = 2
dim = 64
heads = 4
kv_heads = 4
ffn_dim = 128
seq = 16
vocab = 320
[data]
train = "train.h5"
[train]
global_batch = 64
micro_batch = 1
lr = 1e-3
[parallel]
zero = 1
threads = 1
[checkpoint]
dir = "ck"
[log]
dir = "log"
"""
FEW, MANY = 4, 12  # steps of two runs, whose difference is that of the steps


def launch(program, folder, ranks, steps):
    """Messages by (from, to), and seconds."""
    for old in glob.glob(f"{folder}/messages.*"):
        os.remove(old)
    subprocess.run(["rm", "-rf", "ck", "log"], cwd=folder, check=True)
    begin = time.monotonic()
    subprocess.run(
        ["mpirun", "-n", str(ranks), "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1", "--mca",
         "pml_monitoring_enable", "1", "--mca", "pml_monitoring_enable_output", "3", "--mca", "pml_monitoring_filename",
         f"{folder}/messages", program, "train", "run.toml", f"parallel.data={ranks}", f"train.steps={steps}"],
        cwd=folder, check=True, stdout=subprocess.DEVNULL)
    seconds = time.monotonic() - begin
    messages = collections.Counter()
    for path in glob.glob(f"{folder}/messages.*"):
        for line in open(path):
            words = line.split()
            if words and words[0] in "EI":  # messages between two ranks, also those of MPI's collectives
                messages[int(words[1]), int(words[2])] += int(words[5])
    return messages, seconds


def main():
    program = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build/trivium")
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMP_NUM_THREADS="1")
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "run.toml").write_text(CONFIG)
        pathlib.Path(folder, "text").write_text("the quick brown fox jumps over the lazy dog\n" * 2000)
        subprocess.run([program, "data", "tokenize", "text", "--tokenizer", "bytes", "--output", "train.h5"], cwd=folder,
                       check=True, stdout=subprocess.DEVNULL)
        print("ranks  launch: messages of a rank (most)  mean  peers (most)  seconds   step: messages (most)  mean  ms")
        rows = []
        for ranks in (2, 4, 8, 16, 32, 64):
            few, seconds = launch(program, folder, ranks, FEW)
            many, longer = launch(program, folder, ranks, MANY)
            step = {pair: (many[pair] - few[pair]) / (MANY - FEW) for pair in many}
            start = {pair: few[pair] - FEW * step[pair] for pair in many}
            by_rank = lambda counts: [sum(n for (rank, _), n in counts.items() if rank == r) for r in range(ranks)]
            peers = max(sum(1 for (rank, _), n in start.items() if rank == r and n >= 1) for r in range(ranks))
            launches, steps = by_rank(start), by_rank(step)
            of_a_step = (longer - seconds) / (MANY - FEW)
            print(f"{ranks:5}  {max(launches):34.0f}  {sum(launches) / ranks:4.0f}  {peers:12}  "
                  f"{seconds - FEW * of_a_step:7.1f}   {max(steps):21.0f}  {sum(steps) / ranks:4.0f}  "
                  f"{1e3 * of_a_step:.0f}", flush=True)
            rows.append((math.log2(ranks), max(launches)))
        n, x, y = len(rows), sum(r[0] for r in rows), sum(r[1] for r in rows)
        xx, xy = sum(r[0] ** 2 for r in rows), sum(r[0] * r[1] for r in rows)
        b = (n * xy - x * y) / (n * xx - x * x)
        a = (y - b * x) / n
        print(f"launch: {a:.0f} + {b:.0f} log2(ranks) messages; on 16,384 ranks {a + 14 * b:.0f}")


main()
