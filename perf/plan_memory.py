#!/usr/bin/env python3
"""Memory of drawn configurations by `trivium plan` and by `trivium train`: perf/plan_memory.py [--count N] [--seed S] [--trivium PATH]

Draws small models of all families on 1, 2, 4 and 8 ranks with settings of [parallel], precisions, optimizers, and parts that are trained. Plans each, trains it
for two steps, and ends with an error if the arena of any step is not that of the plan, to the byte. In a build of the preset `debug`
the run's bytes are those that it has written.
"""
import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

here = os.path.dirname(os.path.abspath(__file__))
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--trivium", default=os.path.join(here, "..", "build", "trivium"))
parser.add_argument("--count", type=int, default=200)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--launcher", default="mpirun --oversubscribe -n", help="what starts ranks; their number follows")
arguments = parser.parse_args()
trivium = os.path.abspath(arguments.trivium)
draw = random.Random(arguments.seed)
presets = ["toy", "toy-gpt2", "toy-gemma3", "toy-neox", "llama-1m", "toy-mixtral", "toy-deepseek3"]
parts = ["train.freeze=['embed.*', 'layers.0.*']", "train.freeze=['*norm*', '*.attn.*']", "train.lora={rank = 4}",
         "train.lora={rank = 6, magnitudes = true, dropout = 0.1}", "train.lora={rank = 4, targets = ['*.attn.*'], train = ['final_norm.*']}"]


def run(command, folder):
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def drawn():
    """A number of ranks, and overrides."""
    ranks = draw.choice([1, 2, 2, 4, 4, 8])
    data, pipeline, tensor = draw.choice([(d, p, t) for d in (1, 2, 4, 8) for p in (1, 2, 3, 4, 8) for t in (1, 2, 4)
                                          if d * p * t == ranks])
    micro = draw.choice([1, 1, 2, 3])
    keys = {"model.preset": draw.choice(presets), "model.layers": draw.choice([2, 3, 4, 6]), "model.vocab": draw.choice([258, 301]),
            "model.seq": draw.choice([16, 24, 32]), "train.precision": draw.choice(["f32", "bf16", "bf16", "f64"]),
            "train.micro_batch": micro, "train.global_batch": micro * data * draw.choice([1, 2, 3, 4]),
            "train.optimizer": draw.choice(["adamw", "adamw", "muon"]),
            "parallel.data": data, "parallel.pipeline": pipeline, "parallel.tensor": tensor,
            "parallel.recompute": draw.choice(["none", "none", "selective", "full"]),
            "parallel.recompute_layers": draw.choice([0, 0, 1]), "parallel.sequence": draw.choice(["true", "true", "false"]),
            "parallel.bucket": draw.choice(["auto", "none", "block", "greedy", "global"]),
            "parallel.overlap": draw.choice(["true", "true", "false"]),
            "parallel.accumulate": draw.choice(["f32", "f32", "bf16"]), "parallel.reduce": draw.choice(["f32", "f32", "bf16"])}
    if data > 1:
        keys["parallel.zero"] = draw.choice([0, 1, 2, 3])
        keys["parallel.shard"] = draw.choice([0, 0, data // 2]) if data > 2 else 0
        keys["parallel.gather_every"] = draw.choice(["auto", "microbatch", "pass", "step"])
        keys["parallel.reduce_every"] = draw.choice(["auto", "microbatch", "step"])
        if keys["parallel.zero"] == 3:
            keys["parallel.tile"] = draw.choice([0, 0, 4096])
    if pipeline > 1:
        keys["parallel.schedule"] = draw.choice(["1f1b", "gpipe", "interleaved", "breadth-first", "zb-h1", "zb-h2", "zb-v", "v-half",
                                                 "v-min", "dualpipe-v"])
        keys["parallel.update"] = draw.choice(["synchronous", "synchronous", "post-validated"])
    if draw.random() < 0.1:
        keys["parallel.offload"] = "optimizer"
    if keys["model.preset"] in ("toy-mixtral", "toy-deepseek3") and data % 2 == 0 and draw.random() < 0.5:
        keys["parallel.expert"] = 2
    if data % 2 == 0 and draw.random() < 0.2:
        keys["parallel.context"], keys["parallel.data"] = 2, data // 2
    if draw.random() < 0.3:
        keys["train.ema"] = 0.99
    part = [draw.choice(parts)] if draw.random() < 0.7 else []
    return ranks, [f"{key}={value}" for key, value in keys.items()] + part


with tempfile.TemporaryDirectory() as folder:
    with open(os.path.join(folder, "text.txt"), "w") as text:
        text.write("".join(chr(97 + draw.randrange(26)) for _ in range(20_000)))
    tokenized = run([trivium, "data", "tokenize", "text.txt", "-o", "text.h5", "--tokenizer", "bytes"], folder)
    if tokenized.returncode != 0:
        sys.exit(tokenized.stderr)
    done, refused, of_ranks = 0, 0, {}
    while done < arguments.count:
        ranks, keys = drawn()
        plan = run([trivium, "plan", "/dev/null", *keys, "--json"], folder)
        if plan.returncode == 2: # not legal
            refused += 1
            if refused > 50 + 20 * done:
                sys.exit(f"{refused} of {refused + done} are refused, the last one: {plan.stderr}")
            continue
        if plan.returncode != 0:
            sys.exit(f"plan {' '.join(keys)}\n{plan.stderr}")
        arena = max(rank["arena_bytes"] for rank in json.loads(plan.stdout)["per_rank"])
        for left in ("logs", "ck"):
            shutil.rmtree(os.path.join(folder, left), ignore_errors=True)
        launch = [*arguments.launcher.split(), str(ranks)] if ranks > 1 else []
        trained = run([*launch, trivium, "train", "/dev/null", *keys, "data.train=text.h5", "train.steps=2", "log.dir=logs",
                       "checkpoint.dir=ck", "checkpoint.every=0"], folder)
        if trained.returncode != 0:
            sys.exit(f"{ranks} ranks: {' '.join(keys)}\n{trained.stdout[-2000:]}{trained.stderr[-3000:]}")
        with open(os.path.join(folder, "logs", "metrics.jsonl")) as lines:
            used = {json.loads(line)[key] for line in lines for key in ("planned_bytes", "memory_bytes")}
        if used != {arena}:
            sys.exit(f"planned {arena} bytes, the run: {sorted(used)}: {ranks} ranks: {' '.join(keys)}")
        done += 1
        of_ranks[ranks] = of_ranks.get(ranks, 0) + 1
        if done % 20 == 0:
            print(f"{done} agree", flush=True)
    print(f"{done} configurations agree to the byte ({', '.join(f'{count} on {ranks}' for ranks, count in sorted(of_ranks.items()))} "
          f"ranks); {refused} draws were not legal")
