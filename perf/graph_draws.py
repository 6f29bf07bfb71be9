#!/usr/bin/env python3
"""Random shardings against those of `trivium explain FILE.graph --search`, by the same simulator: perf/graph_draws.py FILE.graph … [--count N]

Annotates inputs, parameters and results at random: each axis of the mesh shards one dimension or none. Prints those that are faster
than what the search finds, and for each file how many drawn shardings are legal and the fastest of them over the search's.
"""
import argparse
import os
import random
import re
import subprocess
import sys
import tempfile

here = os.path.dirname(os.path.abspath(__file__))
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("files", nargs="+", metavar="FILE.graph")
parser.add_argument("--trivium", default=os.path.join(here, "..", "build", "trivium"))
parser.add_argument("--machine", default="cpu")
parser.add_argument("--count", type=int, default=200, help="drawn shardings that are legal")
parser.add_argument("--seed", type=int, default=1)
arguments = parser.parse_args()
trivium = os.path.abspath(arguments.trivium)


def simulated(path, *options):
    """Simulated times of the best and of the given shardings, in seconds; None if these are not legal."""
    done = subprocess.run([trivium, "explain", path, "--machine", arguments.machine, "--search", *options], capture_output=True, text=True)
    found = re.search(r": ([\d.e+-]+) (\S+) simulated, ([\d.e+-]+) (\S+) as given", done.stdout)
    if not found:
        return None
    unit = {"s": 1, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6}
    return float(found[1]) * unit[found[2]], float(found[3]) * unit[found[4]]


def annotated(text, draw):
    axes = [(name, int(size)) for name, size in re.findall(r"(\w+)=(\d+)", re.search(r"^mesh (.*)$", text, re.M)[1])]
    part = draw.random()
    lines = []
    for line in text.splitlines():
        shape = re.search(r": \w+\[([\d,]+)\]$", line)
        if shape and draw.random() < part:
            sizes = [int(size) for size in shape[1].split(",")]
            dims = ["-"] * len(sizes)
            for name, ranks in axes:
                free = [d for d, size in enumerate(sizes) if dims[d] == "-" and size >= ranks]
                if free and draw.random() < 0.75:
                    dims[draw.choice(free)] = name
            line += f"<{','.join(dims)}>"
        lines.append(line)
    return "\n".join(lines) + "\n"


with tempfile.TemporaryDirectory() as folder:
    for path in arguments.files:
        draw = random.Random(f"{arguments.seed} {os.path.basename(path)}")
        times = simulated(path)
        if times is None:
            sys.exit(f"{path}: the search finds nothing")
        with open(path) as file:
            text = file.read()
        best, legal, count = float("inf"), 0, 0
        while legal < arguments.count and count < 20 * arguments.count:
            count += 1
            drawn = os.path.join(folder, "drawn.graph")
            with open(drawn, "w") as file:
                file.write(annotated(text, draw))
            made = simulated(drawn, "--tries", "1")
            if made is None:
                continue
            legal += 1
            best = min(best, made[1])
            if made[1] < times[0] * (1 - 1e-3):
                with open(drawn) as file:
                    print(f"{made[1] / times[0]:.4f} of the search's:\n{file.read()}", flush=True)
        print(f"{path}: search {1e3 * times[0]:.4g} ms, {count} drawn, {legal} legal, the fastest {best / times[0]:.3f} of that", flush=True)
