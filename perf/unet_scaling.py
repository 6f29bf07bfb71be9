#!/usr/bin/env python3
"""A simulated 3-D U-Net on 16 to 1,024 ranks: perf/unet_scaling.py [--machine h100] [--svg FILE]

docs/examples/unet3d.graph with 32 channels and 4 levels in bf16, planned with `trivium plan`. Weak scaling from 16 ranks that share
a field of 256³ points: with more samples, and with larger fields, of which each rank keeps 64 x 64 x 256 points. Next to them, runs
that are only data parallel.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

here = os.path.dirname(os.path.abspath(__file__))
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--trivium", default=os.path.join(here, "..", "build", "trivium"))
parser.add_argument("--machine", default="h100")
parser.add_argument("--svg", help="file for the curves")
arguments = parser.parse_args()
folder = tempfile.TemporaryDirectory()
config, trace_file = (os.path.join(folder.name, name) for name in ("unet.toml", "trace.json"))
with open(config, "w") as file:
    file.write(f'model.family = "graph"\nmodel.file = "{here}/../docs/examples/unet3d.graph"\n'
               'model.sizes = {z0 = 256, c0 = 32, levels = 4}\ntrain.precision = "bf16"\n')


def covered(spans):
    """Disjoint intervals, in order, that cover the spans."""
    made = []
    for begin, end in sorted(spans):
        if made and begin <= made[-1][1]:
            made[-1][1] = max(made[-1][1], end)
        else:
            made.append([begin, end])
    return made


def plan(x, y, data, extent_x, extent_y):
    """Seconds of a step, share of it in halos, share in halos while nothing is computed, GiB that a rank needs, and has."""
    keys = [f"parallel.axes.x={x}", f"parallel.axes.y={y}", f"parallel.data={data}", f"train.global_batch={data}",
            f"model.sizes.x0={extent_x}", f"model.sizes.y0={extent_y}"]
    done = subprocess.run([arguments.trivium, "plan", config, "--machine", arguments.machine, "--trace", trace_file, *keys, "--get",
                           "estimated_step_seconds,memory_bytes_needed,memory_bytes_available"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)
    seconds, needed, available = map(float, done.stdout.split()[:3])
    events = json.load(open(trace_file))
    events = events["traceEvents"] if isinstance(events, dict) else events
    rows = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e.get("name") == "thread_name"}
    spans = [(rows[e["pid"], e["tid"]], e["name"], e["ts"], e["ts"] + e["dur"]) for e in events if e.get("ph") == "X"]
    halos = covered([span[2:] for span in spans if span[1] == "halo"])
    busy = covered([span[2:] for span in spans if span[0] == "compute"])
    total = sum(end - begin for begin, end in halos)
    hidden = sum(max(0, min(end, e) - max(begin, b)) for begin, end in halos for b, e in busy)
    return seconds, 1e-6 * total / seconds, 1e-6 * (total - hidden) / seconds, needed / 2**30, available / 2**30


curves = {"more samples": {}, "larger fields": {}}
print("| ranks | grows | field | x × y × data | step | efficiency | halos | exposed | memory per rank |\n|---|---|---|---|---|---|---|---|---|")
for ranks in (16, 32, 64, 128, 256, 512, 1024):
    wide = 4 * 2 ** ((ranks // 16).bit_length() // 2)
    for name, x, y, data in (("more samples", 4, 4, ranks // 16), ("larger fields", wide, ranks // wide, 1)):
        seconds, halos, exposed, needed, available = plan(x, y, data, 64 * x, 64 * y)
        curves[name][ranks] = seconds
        print(f"| {ranks:,} | {name} | {64 * x} × {64 * y} × 256 | {x} × {y} × {data} | {1e3 * seconds:.1f} ms | "
              f"{100 * curves[name][16] / seconds:.1f} % | {100 * halos:.2f} % | {100 * exposed:.2f} % | {needed:.1f} GiB |", flush=True)
for extent in (256, 512):
    seconds, _, _, needed, available = plan(1, 1, 16, extent, extent)
    print(f"| 16 | data parallel alone | {extent} × {extent} × 256 | 1 × 1 × 16 | {1e3 * seconds:.1f} ms | | | | {needed:.1f} GiB"
          f"{'' if needed <= available else f': more than {available:.1f} GiB'} |", flush=True)

if arguments.svg:
    left, top, width, height = 60, 20, 480, 220
    at = lambda ranks, share: (left + width * ((ranks // 16).bit_length() - 1) / 6, top + height * (1 - share))
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="600" height="300" font-family="sans-serif" font-size="12">'
             f'<rect width="600" height="300" fill="white"/>']
    for share in (0, 0.25, 0.5, 0.75, 1):
        x, y = at(16, share)
        lines.append(f'<path d="M{x:.0f} {y:.0f}h{width}" stroke="#ddd"/><text x="{x - 8:.0f}" y="{y + 4:.0f}" text-anchor="end">{100 * share:.0f} %</text>')
    for (name, points), colour in zip(curves.items(), ("#1f77b4", "#d62728")):
        path = [at(ranks, points[16] / seconds) for ranks, seconds in points.items()]
        lines.append(f'<polyline points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in path)}" fill="none" stroke="{colour}" stroke-width="2"/>')
        lines.append(f'<text x="{left + 10}" y="{top + height - 12 - 18 * (colour == "#1f77b4")}" fill="{colour}">{name}</text>')
    lines += [f'<text x="{at(ranks, 0)[0]:.0f}" y="{top + height + 18}" text-anchor="middle">{ranks:,}</text>' for ranks in curves["more samples"]]
    lines.append(f'<text x="{left + width / 2}" y="{top + height + 40}" text-anchor="middle">ranks; step of 16 ranks over step, simulated ({arguments.machine})</text></svg>')
    with open(arguments.svg, "w") as file:
        file.write("\n".join(lines) + "\n")
