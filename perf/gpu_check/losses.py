#!/usr/bin/env python3
"""A short training run of the 124 M model: the losses on a GPU must be those on a CPU. See docs/gpu-check.md.

perf/gpu_check/losses.py PROGRAM [--threads N] [--output FILE] runs it in f32 with a CPU build and writes losses.json.
The stage `train` of run.py runs it with the GPU build, in f32 and in bf16, and compares.
"""
import argparse
import functools
import hashlib
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

KEPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "losses.json")

# The model at its own shape and sequence length. Two microbatches per step, so that gradients are accumulated.
CONFIG = {
    "model.preset": "gpt2-124m",
    "model.seq": 1024,
    "train.steps": 8,
    "train.global_batch": 2,
    "train.micro_batch": 1,
    "train.lr": 6e-4,
    "train.warmup": 4,
    "train.seed": 1,
}

# The largest allowed relative difference of any step from a CPU's in f32, by the precision on the GPU. Measured on CPUs
# with 64 tokens per sequence, loss and norm: another order of summation changes them by up to 2e-8 and 9e-8, bf16 by
# 8e-4 and 2.5e-3, an update without weight decay by 1.5e-4 and 2.4e-4. A device's exp has an error of up to 1e-6.
TOLERANCES = {
    "f32": {"loss": 2e-5, "grad_norm": 1e-4},
    "bf16": {"loss": 5e-3, "grad_norm": 2e-2},
}

# The run for the speed: the batch of the stages `step` and `torch`. It has no counterpart on a CPU.
SPEED = {
    "model.preset": "gpt2-124m",
    "model.seq": 1024,
    "model.vocab": 50304,
    "train.precision": "bf16",
    "train.steps": 20,
    "train.global_batch": 16,
    "train.micro_batch": 16,
    "train.lr": 6e-4,
    "train.warmup": 4,
    "train.seed": 1,
}
WARM_UP_STEPS = 5  # not counted in the speed


@functools.cache
def text(size=512 * 1024):
    """The text that the runs learn: words of 500, frequent ones first. The same bytes with every Python."""
    state = 1

    def draw(bound):
        nonlocal state
        state = (6364136223846793005 * state + 1442695040888963407) % 2**64
        return (state >> 33) % bound

    words = ["".join("bdfgklmnprst"[draw(12)] + "aeiou"[draw(5)] for _ in range(1 + draw(4))) for _ in range(500)]
    lines, length = [], 0
    while length < size:
        line = " ".join(words[min(draw(500), draw(500), draw(500))] for _ in range(6 + draw(10))) + ".\n"
        lines.append(line)
        length += len(line)
    return "".join(lines)[:size]


def config_in(precision):
    return {**CONFIG, "train.precision": precision}


def title(config):
    """The name of a run's row."""
    shape = f"{config['train.global_batch']} x {config['model.seq']}"
    return f"{config['model.preset']} {config['train.precision']}, {config['train.steps']} steps of {shape}"


def description():
    """What losses.json must match to be comparable."""
    return {"config": CONFIG, "text_sha256": hashlib.sha256(text().encode()).hexdigest()}


def tokenize_command(program, folder):
    """Writes the text into `folder`; the command makes the token store from it."""
    with open(os.path.join(folder, "text.txt"), "w", encoding="utf-8") as file:
        file.write(text())
    source, store = os.path.join(folder, "text.txt"), os.path.join(folder, "train.h5")
    return [program, "data", "tokenize", source, "--tokenizer", "bytes", "--output", store]


def train_command(program, folder, name, config):
    """Writes the config of the run `name` into `folder`; the command trains it."""
    own = {
        "data.train": os.path.join(folder, "train.h5"),
        "checkpoint.dir": os.path.join(folder, name, "checkpoints"),
        "checkpoint.resume": "never",
        "log.dir": os.path.join(folder, name, "logs"),
    }
    path = os.path.join(folder, name + ".toml")
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(f"{key} = {json.dumps(value)}\n" for key, value in {**config, **own}.items())
    return [program, "train", path]


def metrics_file(folder, name):
    return os.path.join(folder, name, "logs", "metrics.jsonl")


def metrics(folder, name):
    """The lines of a run's metrics.jsonl, in order of their steps; none if the file does not exist."""
    try:
        with open(metrics_file(folder, name), encoding="utf-8") as file:
            return [json.loads(line) for line in file]
    except FileNotFoundError:
        return []


def is_number(value):
    return isinstance(value, (int, float)) and math.isfinite(value)


def compare(kept, found, precision):
    """A row for the lines `found` (one per step) against `kept`: the largest difference, in units of its tolerance."""
    by_step = {line["step"]: line for line in found}
    row, over = {}, ""
    for want in kept:
        step = want["step"]
        if step not in by_step:
            return {"verdict": "failed", "note": f"step {step} is missing"}
        for key, limit in TOLERANCES[precision].items():
            value = by_step[step].get(key)
            if not is_number(value):
                return {"verdict": "failed", "note": f"{key} of step {step} is not a number"}
            error = abs(value - want[key]) / abs(want[key])
            if error > limit:
                over = over or f"; above the tolerance from step {step} ({key})"
            if not row or error / limit > row["error"] / row["tolerance"]:
                note = f"{key} of step {step}: {value:.6g}, CPU {want[key]:.6g}"
                row = {"error": error, "tolerance": limit, "note": note}
    if not row:
        return {"verdict": "failed", "note": "no step was kept"}
    return {**row, "verdict": "failed" if over else "passed", "note": row["note"] + over}


def speed(found):
    """A row for the lines of the run SPEED: medians of step time, tokens/s, MFU. The loss must be finite and fall."""
    losses = [line.get("loss") for line in found]
    counted, numbers, steps = found[WARM_UP_STEPS:], sum(map(is_number, losses)), SPEED["train.steps"]
    if numbers != steps:
        return {"verdict": "failed", "note": f"{numbers} of {steps} steps have a finite loss"}

    def median(key):
        return statistics.median(line[key] for line in counted)

    note = f"{median('tokens_per_second'):.0f} tokens/s, {100 * median('mfu'):.1f} % of the data sheet (MFU)"
    note += f"; loss {losses[0]:.3f} to {losses[-1]:.3f}"
    verdict = "passed" if losses[-1] < losses[0] else "failed"
    return {"verdict": verdict, "seconds": median("step_seconds"), "note": note}


def load():
    """(what was kept, None), or (None, why it cannot be compared)."""
    try:
        with open(KEPT, encoding="utf-8") as file:
            kept = json.load(file)
    except FileNotFoundError:
        return None, "losses.json is missing: perf/gpu_check/losses.py writes it with a CPU build"
    if {key: kept.get(key) for key in description()} != description():
        return None, "losses.json is of another config or text: run perf/gpu_check/losses.py again with a CPU build"
    return kept, None


def call(command, quiet=False):
    result = subprocess.run(command, check=False, stdout=subprocess.PIPE if quiet else None, text=True)
    if result.returncode != 0:
        sys.exit(f"losses.py: {' '.join(command)}: status {result.returncode}")
    return result.stdout


def main():
    parser = argparse.ArgumentParser(prog="perf/gpu_check/losses.py", description=__doc__.splitlines()[0])
    parser.add_argument("program", metavar="PROGRAM", help="`trivium` of a CPU build")
    parser.add_argument("--threads", type=int, default=0, help="CPU threads (default: all cores)")
    parser.add_argument("--output", default=KEPT, metavar="FILE", help="file to write (default: the repository's)")
    options = parser.parse_args()
    program = os.path.abspath(options.program)
    with tempfile.TemporaryDirectory() as folder:
        call(tokenize_command(program, folder))
        call(train_command(program, folder, "f32", {**config_in("f32"), "parallel.threads": options.threads}))
        steps = [{key: line[key] for key in ("step", "loss", "grad_norm")} for line in metrics(folder, "f32")]
    if sum(is_number(value) for line in steps for value in line.values()) != 3 * CONFIG["train.steps"]:
        sys.exit("losses.py: not every step has a finite loss and gradient norm")
    version = call([program, "--version"], quiet=True).splitlines()[0]
    kept = {"program": version, **description(), "steps": steps}
    with open(options.output, "w", encoding="utf-8") as file:
        json.dump(kept, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
