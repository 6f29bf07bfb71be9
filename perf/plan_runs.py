#!/usr/bin/env python3
"""Plans beside measured steps, on this machine: perf/plan_runs.py [--count N] [--rounds R] [--choices M] [--trivium PATH]

Plans and trains N drawn configurations on 1 and 2 ranks in R rounds, of which each first measures the machine with `trivium check -o`,
once per number of ranks, so that other work on it slows down both alike. Prints for each configuration the medians over the rounds of what
is planned, of what is measured, and of their ratio, with its spread (half of what lies between the largest and the smallest). The arena
that is planned must be the arena that is used, to the byte.

--choices M: then, for M drawn models on 2 ranks, and on 4 whose links are delayed, the strategy that `plan --ranks` chooses against
the others of its table and drawn ones, in turns. Nothing else should run meanwhile.
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
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--choices", type=int, default=0)
parser.add_argument("--others", type=int, default=6, help="strategies beside each choice")
parser.add_argument("--seconds", type=float, default=2.5, help="of each run, about")
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--launcher", default="mpirun --oversubscribe -n", help="starts as many ranks as its last argument says")
arguments = parser.parse_args()
trivium = os.path.abspath(arguments.trivium)
draw = random.Random(arguments.seed)
folder = ""
# Links between nodes of one rank, on one machine.
delayed = {"parallel.delay_latency": "2e-4", "parallel.delay_bandwidth": "4e8"}


def run(command, ranks=1, tries=1):
    launch = [*arguments.launcher.split(), str(ranks)] if ranks > 1 else []
    for _ in range(tries):
        done = subprocess.run([*launch, trivium, *command], cwd=folder, capture_output=True, text=True)
        if done.returncode == 0:
            return done.stdout
    sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")


def text_of(keys):
    return [f"{key}={json.dumps(value) if isinstance(value, bool) else value}" for key, value in keys.items()]


def drawn_model():
    dim = draw.choice([128, 192, 256, 384, 512, 768])
    return {"model.family": draw.choice(["llama", "gpt2"]), "model.dim": dim, "model.heads": dim // 64,
            "model.layers": draw.choice([2, 3, 4, 6, 8]), "model.seq": draw.choice([128, 256, 512]),
            "model.vocab": draw.choice([512, 2048, 8192, 16384]), "train.precision": draw.choice(["f32", "bf16"])}


def drawn():
    """A number of ranks, and overrides."""
    keys = drawn_model()
    ranks, micro, count = draw.choice([1, 2, 2]), draw.choice([1, 2, 4]), draw.choice([1, 2, 4])
    keys.update({"train.micro_batch": micro, "train.global_batch": micro * count,
                 "parallel.recompute": draw.choice(["none", "none", "selective", "full"])})
    if ranks == 2:
        axis = draw.choice(["data", "data", "pipeline", "tensor"])
        keys["parallel." + axis] = 2
        if axis == "data":
            keys["parallel.zero"] = draw.choice([0, 1, 2, 3])
        if axis == "pipeline":
            keys["parallel.schedule"] = draw.choice(["1f1b", "zb-h1", "gpipe"])
        if axis != "tensor":
            keys["train.global_batch"] *= 2
    return ranks, keys


def measure_machine(ranks):
    # Other work on the machine can make one rank slow enough for the check to fail.
    run(["check", "--only", "environment,rates", "-o", f"{ranks}.toml"], ranks, tries=4)


def planned_step(ranks, keys):
    """Its seconds and its arena."""
    plan = json.loads(run(["plan", "/dev/null", "--machine", f"{ranks}.toml", *text_of(keys), "--json"]))
    return plan["estimated_step_seconds"], max(rank["arena_bytes"] for rank in plan["per_rank"])


def measured_step(ranks, keys, about, arena):
    """The median of its seconds."""
    for name in ("logs", "ck"):
        shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
    steps = max(8, min(60, int(arguments.seconds / about)))
    run(["train", "/dev/null", "data.train=text.h5", f"train.steps={steps}", "log.dir=logs", "checkpoint.dir=ck",
         "checkpoint.every=0", *text_of(keys)], ranks)
    with open(os.path.join(folder, "logs", "metrics.jsonl")) as lines:
        records = [json.loads(line) for line in lines]
    used = {records[-1]["planned_bytes"], records[-1]["memory_bytes"]}
    if used != {arena}:
        sys.exit(f"planned an arena of {arena} bytes, the run: {used}: {keys}")
    return statistics.median(record["step_seconds"] for record in records[2:])


def name_of(keys):
    return " ".join(f"{key.split('.')[1]}={value}" for key, value in keys.items())


def spread_of(numbers):
    return (max(numbers) - min(numbers)) / 2 / statistics.median(numbers)


def plans_beside_runs():
    configurations = [drawn() for _ in range(arguments.count)]
    planned, measured = [[] for _ in configurations], [[] for _ in configurations]
    for _ in range(arguments.rounds):
        for ranks in (1, 2):
            measure_machine(ranks)
        for i, (ranks, keys) in enumerate(configurations):
            seconds, arena = planned_step(ranks, keys)
            planned[i].append(seconds)
            measured[i].append(measured_step(ranks, keys, seconds, arena))
    within = within_spread = 0
    medians = []
    for i, (ranks, keys) in enumerate(configurations):
        ratios = [plan / run for plan, run in zip(planned[i], measured[i])]
        ratio, spread = statistics.median(ratios), spread_of(ratios)
        medians.append(ratio)
        within += abs(ratio - 1) <= 0.1
        within_spread += abs(ratio - 1) <= 0.1 + spread
        print(f"{ratio:.3f}  planned {1e3 * statistics.median(planned[i]):8.1f} ms  measured "
              f"{1e3 * statistics.median(measured[i]):8.1f} ms  spread {100 * spread:4.1f} %  {ranks}: {name_of(keys)}")
    print(f"planned / measured: median {statistics.median(medians):.3f}, {min(medians):.3f} to {max(medians):.3f}, "
          f"{within} of {len(medians)} within 10 %, {within_spread} within that and the spread", flush=True)


def drawn_strategy(ranks, model):
    """Keys of a strategy, or None."""
    left, keys = ranks, {}
    for axis in ("tensor", "pipeline"):
        degree = draw.choice([d for d in (1, 2, 4) if left % d == 0])
        keys["parallel." + axis] = degree
        left //= degree
    keys["parallel.data"] = left
    keys["parallel.zero"] = draw.choice([0, 1, 2, 3]) if left > 1 else 0
    if keys["parallel.pipeline"] > 1:
        keys["parallel.schedule"] = draw.choice(["1f1b", "zb-h1", "gpipe", "zb-v"])
    keys["train.micro_batch"] = draw.choice([1, 2, 4])
    keys["parallel.recompute"] = draw.choice(["none", "none", "selective"])
    fits = model["model.heads"] % keys["parallel.tensor"] == 0 and model["train.global_batch"] % (left * keys["train.micro_batch"]) == 0
    return keys if fits and 2 * keys["parallel.pipeline"] <= model["model.layers"] else None


def choices():
    for ranks in (2, 4):
        worst = 0
        for _ in range(arguments.choices):
            model = {**drawn_model(), "train.global_batch": 16, **(delayed if ranks > 2 else {})}
            model["model.layers"] = draw.choice([4, 8])
            measure_machine(ranks)
            table = json.loads(run(["plan", "/dev/null", "--machine", f"{ranks}.toml", "--ranks", str(ranks), *text_of(model), "--json"]))
            strategies = []
            for row in table["strategies"][:1 + arguments.others // 2]:
                keys = {f"parallel.{key}": value for key, value in row["parallel"].items()
                        if value != "" and not isinstance(value, (list, dict))}
                strategies.append({**keys, "train.micro_batch": row["train"]["micro_batch"], **model})
            while len(strategies) < 1 + arguments.others:
                keys = drawn_strategy(ranks, model)
                if keys:
                    strategies.append({**keys, **model})
            plans = [planned_step(ranks, keys) for keys in strategies]
            measured = [[] for _ in strategies]
            for _ in range(arguments.rounds):
                for i, keys in enumerate(strategies):
                    measured[i].append(measured_step(ranks, keys, plans[i][0], plans[i][1]))
            medians = [statistics.median(each) for each in measured]
            best = min(range(len(medians)), key=medians.__getitem__)
            over, spread = medians[0] / medians[best], spread_of(measured[0]) + spread_of(measured[best])
            worst = max(worst, over - spread)
            print(f"{ranks} ranks: {name_of(model)}", flush=True)
            for i, keys in enumerate(strategies):
                own = {key: value for key, value in keys.items() if key not in model}
                print(f"    planned {1e3 * plans[i][0]:8.1f} ms  measured {1e3 * medians[i]:8.1f} ms  {name_of(own)}")
            print(f"    the choice over the best: {over:.3f}, spread {100 * spread:.1f} %", flush=True)
        print(f"{ranks} ranks: choices over the best less their spread: at most {worst:.3f}", flush=True)


with tempfile.TemporaryDirectory() as folder:
    with open(os.path.join(folder, "text.txt"), "w") as text:
        text.write("".join(chr(97 + draw.randrange(26)) for _ in range(2_000_000)))
    run(["data", "tokenize", "text.txt", "-o", "text.h5", "--tokenizer", "bytes"])
    if arguments.count > 0:
        plans_beside_runs()
    if arguments.choices > 0:
        choices()
