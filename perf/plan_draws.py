#!/usr/bin/env python3
"""Random strategies against the choice of `trivium plan --ranks`, by the same simulator: perf/plan_draws.py [MODEL:RANKS …] [--count N]

For each model and number of ranks, runs the search, then draws strategies (degrees, their order, ZeRO, its group, schedule, chunks,
microbatch, recomputation, sequence parallelism, buckets, gathers, reductions, updates), half of them (--near) as the choice with one to
three settings changed, and plans each. Counts those that are legal and fit. Prints those that are faster than the choice, and a table.
MODEL is a size of Llama 3, or one of the programs of docs/examples at a size of its paper.
"""
import argparse
import json
import os
import random
import resource
import subprocess
import sys
import time

here = os.path.dirname(os.path.abspath(__file__))
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("combinations", nargs="*", metavar="MODEL:RANKS", help="default: 8b, 70b and 405b on 8 to 16,384 ranks, programs on 8 and 64")
parser.add_argument("--trivium", default=os.path.join(here, "..", "build", "trivium"))
parser.add_argument("--machine", default="h100")
parser.add_argument("--count", type=int, default=200, help="strategies that are legal and fit")
parser.add_argument("--seconds", type=float, default=0, help="end the draws of a combination after this time; 0: never")
parser.add_argument("--cpu-limit", type=int, default=60, help="give up a plan after this many CPU seconds")
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--near", type=float, default=0.5, help="part that is drawn near the choice")
parser.add_argument("--batch", type=int, default=0, help="sequences per step; 0: by model and ranks")
arguments = parser.parse_args()
trivium = os.path.abspath(arguments.trivium)

# Heads per key-value head are 8 or 16, key-value heads 8: tensor degrees. Bytes: of all parameters, in two bytes each.
models = {"8b": dict(layers=32, dim=4096, bytes=16.1e9, batch=8, most=2048),
          "70b": dict(layers=80, dim=8192, bytes=141e9, batch=2, most=2048),
          "405b": dict(layers=126, dim=16384, bytes=812e9, batch=1, most=2048)}
# Programs: blocks, and samples per step.
programs = {"vit": dict(axes=["model"], layers=14, batch=1024,
                        sizes=dict(side=224, patch=16, width=768, heads=12, layers=12, classes=1000)),
            "unet3d": dict(axes=["x", "y"], layers=10, batch=16,
                           sizes=dict(x0=256, y0=256, z0=256, c0=32, levels=4)),
            "decoder": dict(axes=["x", "y"], layers=18, batch=256,
                            sizes=dict(width=4096, heads=64, head=64, hidden=32768, seq=1024, layers=16, vocab=32000))}
models.update(programs)
memory = 79.1 * 2**30
schedules = {"1f1b": (), "zb-h1": (), "zb-h2": (), "zb-v": (), "v-half": (), "v-min": (), "dualpipe-v": (), "gpipe": (),
             "interleaved": (2, 3, 4, 5, 6, 7, 8), "breadth-first": (2, 3, 4, 6, 8)}


def run(command, limit=0):
    """What `plan` with these arguments prints (None if it fails), its CPU seconds and its peak memory in MiB."""
    def limited():
        if limit:
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
    process = subprocess.Popen([trivium, "plan", "/dev/null", "--machine", arguments.machine, *command],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=limited)
    out = process.stdout.read()
    errors = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    made = out if process.returncode == 0 else None
    if process.returncode not in (0, 2, -9, -24):
        sys.exit(f"{' '.join(command)}\n{errors}")
    return made, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def base_keys(model, ranks):
    share = models[model]
    if model in programs:
        batch = arguments.batch or share["batch"]
        file = os.path.join(here, "..", "docs", "examples", model + ".graph")
        names = ["model.family=graph", f"model.file={file}"] + [
            f"model.sizes.{name}={size}" for name, size in share["sizes"].items()]
    else:
        batch = arguments.batch or min(share["most"], max(64, share["batch"] * ranks))
        names = [f"model.preset=llama3-{model}"]
    return batch, names + ["train.precision=bf16", f"train.global_batch={batch}"]


def redraw(key, s, draw, model, ranks, batch):
    """Draws one setting of the strategy `s`."""
    layers = models[model]["layers"]
    if key == "grid" and model in programs:
        left = ranks
        for axis in models[model]["axes"]:
            s["axes." + axis] = draw.choice([d for d in (1, 1, 2, 4, 8, 16) if left % d == 0])
            left //= s["axes." + axis]
        s["pipeline"] = draw.choice([p for p in (1, 1, 2, 4, 8, 16) if left % p == 0 and p <= layers])
        s["data"] = left // s["pipeline"]
    elif key == "grid":
        s["tensor"] = draw.choice([t for t in (1, 1, 2, 2, 4, 4, 8, 8, 16) if ranks % t == 0])
        s["context"] = draw.choice([c for c in (1, 1, 1, 1, 2, 4) if ranks // s["tensor"] % c == 0])
        most = ranks // s["tensor"] // s["context"]
        stages = [p for p in range(1, min(most, layers + 2) + 1) if most % p == 0 and batch % (most // p) == 0]
        if stages:
            s["pipeline"] = draw.choice(stages)
            s["data"] = most // s["pipeline"]
    elif key == "micro":
        share = max(1, batch // s["data"])
        s["micro"] = draw.choice([m for m in (1, 1, 2, 2, 4, 8, 16, 32, 64) if share % m == 0])
    elif key == "zero":
        s["zero"] = draw.choice([0, 1, 2, 3]) if s["data"] > 1 or model in programs else 0
        s["gather_every"] = draw.choice(["pass", "pass", "microbatch", "step"])
        s["reduce_every"] = draw.choice(["microbatch", "microbatch", "step"])
    elif key == "shard":
        s["shard"] = draw.choice([0, 0] + [d for d in (2, 4, 8, 16, 32, 64) if d < s["data"] and s["data"] % d == 0])
    elif key == "schedule":
        s["schedule"] = draw.choice(list(schedules)) if s["pipeline"] > 1 else "1f1b"
        s["chunks"] = draw.choice(schedules[s["schedule"]] or (0,))
    elif key == "recompute":
        s["recompute"] = draw.choice(["none", "selective", "full"])
        s["recompute_layers"] = draw.choice([0, draw.randrange(1, layers)]) if s["recompute"] != "none" else 0
    elif key == "sequence" and model not in programs:
        s["sequence"] = draw.random() < 0.75 or s["tensor"] == 1
    elif key == "order" and model not in programs: # stages of a pipeline on a node, or data ranks
        s["order"] = draw.choice(['["data", "pipeline", "tensor"]', '["pipeline", "data", "tensor"]'])
    elif key == "bucket":
        s["bucket"] = draw.choice(["auto", "auto", "greedy", "global", "block", "none"])
    elif key == "update":
        s["update"] = draw.choice(["synchronous", "synchronous", "post-validated"]) if s["pipeline"] > 1 else "synchronous"


settings = ["grid", "order", "micro", "zero", "shard", "schedule", "recompute", "sequence", "bucket", "update"]


def drawn(draw, model, ranks, batch, choice):
    """A strategy: all settings drawn, or some of those of the choice."""
    if choice and draw.random() < arguments.near:
        s = dict(choice)
        changed = set(draw.sample(settings, draw.randrange(1, 4)))
        if "grid" in changed:
            changed |= {"micro"}
        for key in settings:
            if key in changed:
                redraw(key, s, draw, model, ranks, batch)
        if s["pipeline"] == 1:
            s.update(schedule="1f1b", chunks=0, update="synchronous")
        return s
    s = dict(pipeline=1, data=ranks) if model in programs else dict(tensor=1, context=1, pipeline=1, data=ranks)
    for key in settings:
        redraw(key, s, draw, model, ranks, batch)
    return s


def is_too_large(model, s, batch):
    """By a bound of what a rank keeps: parameters, moments, copies and gradients; activations of the first stage, or logits."""
    layers, stages = models[model]["layers"], s["pipeline"]
    if model in programs:
        return stages * max(1, s["chunks"]) > layers
    if stages * max(1, s["chunks"]) > layers + 2:
        return True
    tokens = s["micro"] * 8192 / s["tensor"] / s["context"]
    of_layer = {"none": 30, "selective": 20, "full": 2}
    more = {"none": "none", "selective": "none", "full": "selective"}[s["recompute"]]
    part = (s["recompute_layers"] or layers) / layers
    microbatches = batch // s["data"] // s["micro"]
    held = {"v-half": stages / 2, "v-min": stages / 3, "zb-h2": 2 * stages - 1, "gpipe": microbatches, "breadth-first": microbatches,
            "interleaved": stages + (stages - 1) / max(1, s["chunks"])}.get(s["schedule"], stages)
    activations = tokens * models[model]["dim"] * layers * min(held, microbatches) / stages * (
        of_layer[s["recompute"]] * part + of_layer[more] * (1 - part))
    return kept_bytes(model, s) + max(0.9 * activations, 2 * 128256 * tokens) > memory


def kept_bytes(model, s):
    whole = models[model]["bytes"] / (s["tensor"] * s["pipeline"])
    part = 1 / (s["shard"] or s["data"] * s["context"]) if s["zero"] else 1
    return whole * (6 * part + (part if s["zero"] == 3 else 1) + 2 * (part if s["zero"] >= 2 else 1))


def keys_of(s):
    return [f"train.micro_batch={s['micro']}"] + [
        f"parallel.{key}={str(value).lower()}" for key, value in s.items() if key != "micro"]


def choice_of(model, plan):
    p = plan["config"]["parallel"]
    s = {key: p[key] for key in ("tensor", "context", "pipeline", "data", "order", "zero", "gather_every", "reduce_every", "shard", "schedule", "chunks",
                                 "recompute", "recompute_layers", "sequence", "bucket", "update")
         if model not in programs or key not in ("tensor", "context", "order", "sequence")}
    if "order" in s:
        s["order"] = json.dumps(s["order"])
    s.update({f"axes.{axis}": degree for axis, degree in p["axes"].items()})
    s["micro"] = plan["config"]["train"]["micro_batch"]
    return s


combinations = arguments.combinations or [f"{model}:{ranks}" for model in models
                                          for ranks in ((8, 64) if model in programs else (8, 64, 512, 2048, 16384))]
rows = ["| model | ranks | sequences or samples | choice | drawn | fit | fastest drawn / choice | search | memory |", "|---|---|---|---|---|---|---|---|---|"]
for combination in combinations:
    model, ranks = combination.split(":")[0], int(combination.split(":")[1])
    draw = random.Random(f"{arguments.seed} {combination}")
    batch, keys = base_keys(model, ranks)
    out, seconds, peak = run([*keys, "--ranks", str(ranks), "--json"])
    plan = json.loads(out) if out else None
    fits = plan is not None and plan["fits"]
    choice = plan["estimated_step_seconds"] if fits else float("inf")
    start = choice_of(model, plan) if fits else None
    print(f"{combination}: {choice:.4f} s, {seconds:.1f} CPU seconds, {peak:.0f} MiB: "
          f"{' '.join(keys_of(start)) if fits else 'nothing fits'}", flush=True)
    begin, count, fit, best, spent = time.time(), 0, 0, float("inf"), 0
    while fit < arguments.count and not (arguments.seconds and time.time() - begin > arguments.seconds):
        if not fits and count > 100 * arguments.count:
            break
        s = drawn(draw, model, ranks, batch, start)
        if is_too_large(model, s, batch):
            count += 1
            continue
        out, used, _ = run([*keys, *keys_of(s), "--get", "fits,estimated_step_seconds"], arguments.cpu_limit)
        spent += used
        count += 1
        if out is None or not out.startswith("true"):
            continue
        fit += 1
        step = float(out.split()[1])
        best = min(best, step)
        if step < choice * (1 - 1e-4):
            print(f"  {step / choice:.4f} of the choice: {' '.join(keys_of(s))}", flush=True)
    print(f"  {count} drawn, {fit} fit, {best / choice:.4f}; {spent:.0f} CPU seconds", flush=True)
    shown = f"{choice:.3f} s" if fits else "none fits"
    rows.append(f"| {model.upper()} | {ranks:,} | {batch:,} | {shown} | {count} | {fit} | "
                f"{f'{best / choice:.4f}' if fit else '-'} | {seconds:.1f} s | {peak:.0f} MiB |")
print("\n".join(rows))
