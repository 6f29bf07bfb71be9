"""perf/gpu-check run DIR: unpacks what was carried, builds, checks, and prints one table. See docs/gpu-check.md.

A stage is a function that takes a Run and the seconds that it has, and gives rows (table.py says what is in one). A
stage that fails is a row; the later ones run all the same.
"""
import argparse
import hashlib
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import losses
import machine
import table

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Run:
    """Folders, and commands with a log and a time limit."""

    def __init__(self, options):
        self.options = options
        self.prefix = os.path.join(options.build, "carried")
        self.build = os.path.join(options.build, "trivium")
        self.out = options.out
        self.cuda = machine.toolkit()
        self.env = machine.environment(self.prefix, self.cuda)
        self.device, self.memory = machine.device()
        os.makedirs(self.out, exist_ok=True)
        self.log = os.path.join(self.out, "log")
        self.steps = {}  # results of perf_step, by model
        with open(self.log, "w", encoding="utf-8"):
            pass

    def call(self, name, command, seconds):
        """Runs `command` for at most `seconds`. Returns its status (None: the time was up), its output and its time."""
        begin = time.monotonic()
        with open(self.log, "a", encoding="utf-8") as log:
            log.write(f"\n== {name}\n$ " + " ".join(command) + "\n")
            log.flush()
            start = log.tell()
            with subprocess.Popen(
                command, cwd=ROOT, env=self.env, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            ) as process:
                try:
                    status = process.wait(timeout=max(1, seconds))
                except subprocess.TimeoutExpired:
                    status = None
                    os.killpg(process.pid, signal.SIGTERM)
                    try:
                        process.wait(timeout=5)
                    except subprocess.TimeoutExpired:
                        pass
                    try:  # child processes may outlive the program
                        os.killpg(process.pid, signal.SIGKILL)
                    except ProcessLookupError:
                        pass
        with open(self.log, "rb") as log:
            log.seek(start)
            text = log.read().decode("utf-8", "replace")
        if status != 0:
            print(f"   {name}: {'time is up' if status is None else f'status {status}'}; the end of its output:")
            print("\n".join("   | " + line[:200] for line in text.splitlines()[-15:]), flush=True)
        return status, text, time.monotonic() - begin

    def row(self, stage, name, command, seconds):
        """One row for a command, and the rows that it printed."""
        status, text, took = self.call(f"{stage}: {name}", command, seconds)
        rows = [dict(row, stage=stage) for row in table.rows_of(text.splitlines())]
        skipped = re.search(r"^skipped: (.*)$", text, re.MULTILINE)
        row = {"stage": stage, "name": name, "seconds": took, "verdict": "passed" if status == 0 else "failed"}
        if status is None:
            row["note"] = f"time was up after {took:.0f} s"
        elif status != 0:
            row["note"] = f"status {status}"
        elif skipped:
            row.update(verdict="skipped", note=skipped[1])
        return rows + [row]


def sources():
    """A hash of the sources of a build. Not of file times, because a copy of the repository may have new ones."""
    digest = hashlib.sha256()
    for top in ("CMakeLists.txt", "CMakePresets.json", "cmake", "src", "mpi", "io", "tests", "perf"):
        path = os.path.join(ROOT, top)
        walk = os.walk(path) if os.path.isdir(path) else [(ROOT, [], [top])]
        for folder, _, files in sorted(walk):
            for name in sorted(files):
                if not name.endswith((".py", ".pyc")):
                    with open(os.path.join(folder, name), "rb") as file:
                        digest.update(os.path.join(folder, name).encode() + b"\0" + file.read())
    return digest.hexdigest()


def build(run, seconds):
    """Builds Kokkos, the program, the tests on devices and the benchmarks, unless they are up to date."""
    end = time.monotonic() + seconds
    built, now = os.path.join(run.build, "gpu-check-built"), sources()
    if os.path.exists(built):
        with open(built, encoding="utf-8") as file:
            if file.read() == now:
                return [{"stage": "build", "name": "nothing has changed", "verdict": "passed", "note": run.build}]
    rows = []
    jobs = str(run.options.jobs)
    kokkos = os.path.join(run.prefix, "kokkos")
    kokkos_build = os.path.join(run.prefix, "kokkos-build")
    steps = [
        (
            "Kokkos: configure",
            ["cmake", "-S", kokkos, "-B", kokkos_build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release"]
            + ["-DKokkos_ENABLE_SERIAL=ON", "-DKokkos_ENABLE_CUDA=ON", f"-DKokkos_ARCH_{run.options.arch}=ON"]
            + ["-DCMAKE_CXX_STANDARD=20", f"-DCMAKE_CXX_COMPILER={kokkos}/bin/nvcc_wrapper"]
            + [f"-DCMAKE_INSTALL_PREFIX={run.prefix}/kokkos-cuda"],
        ),
        ("Kokkos: build", ["cmake", "--build", kokkos_build, "--target", "install", "--parallel", jobs]),
        (
            "configure",
            ["cmake", "--preset", "cuda", "-B", run.build]
            + machine.cmake_options(run.prefix, run.cuda, os.path.join(run.prefix, "links")),
        ),
        (
            "build",
            ["cmake", "--build", run.build, "--parallel", jobs, "--target", "trivium_program", "tests/device/all"]
            + ["perf/device_bench/all", "perf/step_bench/all", "--", "-k", "0"],
        ),
    ]
    if os.path.exists(os.path.join(run.prefix, "kokkos-cuda", "lib")):
        steps = steps[2:]
    for name, command in steps:
        rows += run.row("build", name, command, end - time.monotonic())
        if rows[-1]["verdict"] == "failed":
            break
    else:
        with open(built, "w", encoding="utf-8") as file:
            file.write(now)
    return rows


def rows_of_ctest(stage, text):
    """Rows from the output of `ctest --verbose`, also if it was stopped: those that a test printed, then its own."""
    names, said, rows = {}, {}, []
    for line in text.splitlines():
        if started := re.match(r" *Start +(\d+): (\S+)", line):
            names[started[1]] = started[2]
        elif printed := re.match(r"(\d+): (.*)", line):
            said.setdefault(printed[1], []).append(printed[2])
        elif ended := re.match(r" *\d+/\d+ Test +#(\d+): (\S+) \.*(.*?) +([\d.]+) sec", line):
            names.pop(ended[1], None)
            output = said.get(ended[1], [])
            row = {"stage": stage, "name": ended[2], "seconds": float(ended[4])}
            row.update(verdict="failed", note=ended[3].strip(" *"))
            reasons = [re.search(r"skipped: (.*)", word)[1] for word in output if "skipped: " in word]
            if row["note"] == "Passed":
                row.update(verdict="passed", note="")
            elif row["note"] == "Skipped" and reasons:
                row.update(verdict="skipped", note=reasons[0])
            rows += [dict(found, stage=stage) for found in table.rows_of(output)] + [row]
    late = {"stage": stage, "verdict": "failed", "note": "time was up"}
    return rows + [dict(late, name=name) for name in names.values()]


def ctest(run, stage, seconds, *choice):
    """A row for each test labelled `device` that `choice` (options of CTest) selects."""
    command = ["ctest", "--test-dir", run.build, "--verbose", "--label-regex", "^device$", *choice]
    status, text, took = run.call(stage, command, seconds)
    rows = rows_of_ctest(stage, text)
    if rows:
        return rows
    if status == 0:
        return [{"stage": stage, "name": "all", "verdict": "skipped", "note": "no such tests in this build"}]
    note = "CTest ran nothing; see the log"
    return [{"stage": stage, "name": "all", "seconds": took, "verdict": "failed", "note": note}]


def tests(run, seconds):
    return ctest(run, "tests", seconds, "--exclude-regex", "nccl|grid")


def nccl(run, seconds):
    return ctest(run, "nccl", seconds, "--tests-regex", "nccl")


def grid(run, seconds):
    return ctest(run, "grid", seconds, "--tests-regex", "grid")


def kernels(run, seconds):
    """The results of perf_device, also if it did not finish."""
    program = os.path.join(run.build, "perf", "device_bench", "perf_device")
    return run.row("kernels", "perf_device", [program, "--json"], seconds)


def train(run, seconds):
    """Training runs of the 124 M model: losses and gradient norms against a CPU's in losses.json, then the speed."""
    if run.device is None:
        return [{"stage": "train", "name": "all", "verdict": "skipped", "note": run.memory}]
    end = time.monotonic() + seconds
    program = os.path.join(run.build, "trivium")
    kept, reason = losses.load()
    models = {precision: losses.config_in(precision) for precision in losses.TOLERANCES} if kept else {}
    models["speed"] = losses.SPEED
    rows = [] if kept else [{"stage": "train", "name": "losses", "verdict": "failed", "note": reason}]
    with tempfile.TemporaryDirectory(dir=run.options.build) as folder:
        made = run.row("train", "token store", losses.tokenize_command(program, folder), end - time.monotonic())
        if made[-1]["verdict"] == "failed":
            return rows + made
        for i, (name, config) in enumerate(models.items()):
            command = losses.train_command(program, folder, name, config)
            row = run.row("train", name, command, (end - time.monotonic()) / (len(models) - i))[-1]
            found = losses.metrics(folder, name)
            if found:
                shutil.copyfile(losses.metrics_file(folder, name), os.path.join(run.out, f"train-{name}.jsonl"))
            shutil.rmtree(os.path.join(folder, name), ignore_errors=True)  # 1.5 GB of checkpoint
            if row["verdict"] == "passed":
                is_speed = name == "speed"
                row.update(losses.speed(found) if is_speed else losses.compare(kept["steps"], found, name))
            rows.append(dict(row, name=losses.title(config)))
    return rows


# The measurements of step and torch: the name, the options of perf_step, the same for perf/compare_torch.py.
BATCH = ["train.precision=bf16", "train.global_batch=16", "train.micro_batch=16", "model.vocab=50304"]
MODELS = [
    ("gpt2-124m", ["model.preset=gpt2-124m", "model.seq=1024", *BATCH], "--layers 12 --dim 768 --heads 12"),
    ("gpt2-124m, graphs", ["--graphs", "model.preset=gpt2-124m", "model.seq=1024", *BATCH], None),
    ("gpt2-1.5b", ["model.preset=gpt2-1.5b", "model.seq=1024", *BATCH], "--layers 48 --dim 1600 --heads 25"),
    (
        "llama3-8b",
        ["--fit-layers", "model.preset=llama3-8b", "train.precision=bf16"]
        + ["train.global_batch=2", "train.micro_batch=1"],
        "--family llama --dim 4096 --heads 32 --kv-heads 8 --ffn 14336 --vocab 128256 --seq 8192 "
        "--micro-batch 1 --global-batch 2",
    ),
]


def figures(text):
    """The object that a program with --json prints, or None."""
    lines = [line for line in text.splitlines() if line.startswith("{")]
    return json.loads(lines[-1]) if lines else None


def speed(found):
    layers, tokens, share = found["layers"], found["tokens_per_second"], 100 * found["mfu"]
    return f"{layers} layers, {tokens:.0f} tokens/s, {share:.1f} % of the data sheet"


def step(run, seconds):
    """Training steps on the device, and their memory."""
    if run.device is None:
        return [{"stage": "step", "name": "all", "verdict": "skipped", "note": run.memory}]
    end = time.monotonic() + seconds
    rows = []
    for i, (name, keys, _) in enumerate(MODELS):
        command = [os.path.join(run.build, "perf", "step_bench", "perf_step"), "--json", "--steps", "5", *keys]
        status, text, took = run.call("step: " + name, command, (end - time.monotonic()) / (len(MODELS) - i))
        found = figures(text) if status == 0 else None
        if found is None:
            note = f"time was up after {took:.0f} s" if status is None else f"status {status}"
            rows.append({"stage": "step", "name": name, "seconds": took, "verdict": "failed", "note": note})
            continue
        run.steps[name] = found
        share = found["mfu"] * found["peak_flops_per_second"] / found["measured_product_flops_per_second"]
        row = {"stage": "step", "name": name, "seconds": found["step_seconds"], "share": share, "note": speed(found)}
        loss = found["loss"]  # null: not a number
        rows.append(dict(row, verdict="passed" if loss is not None and math.isfinite(loss) else "failed"))
        beside, stated, arena = (found[key] for key in ("device_bytes_beside_arena", "stated_bytes", "arena_bytes"))
        fits = beside <= stated and found["used_bytes"] <= arena
        note = f"arena {arena / 1e9:.2f} GB, in addition {beside / 1e6:.0f} MB of the {stated / 1e6:.0f} MB in the plan"
        verdict = "passed" if fits else "failed"
        rows.append({"stage": "step", "name": f"{name}, memory", "verdict": verdict, "note": note})
    return rows


def torch(run, seconds):
    """The same models in PyTorch. If PyTorch does not run, the row is skipped, because Trivium is not at fault."""
    if run.device is None:
        return [{"stage": "torch", "name": "all", "verdict": "skipped", "note": run.memory}]
    end = time.monotonic() + seconds
    rows = []
    models = [model for model in MODELS if model[2] is not None]
    for i, (name, _, shape) in enumerate(models):
        ours = run.steps.get(name)
        command = [sys.executable, "perf/compare_torch.py", "--json", "--steps", "5", *shape.split()]
        if "--micro-batch" not in shape:
            command += "--micro-batch 16 --global-batch 16 --vocab 50304 --seq 1024".split()
        if "--layers" not in shape:
            command += ["--layers", str(ours["layers"] if ours else 8)]
        status, text, took = run.call("torch: " + name, command, (end - time.monotonic()) / (len(models) - i))
        found = figures(text) if status == 0 else None
        if found is None:
            reason = "out of memory" if "OutOfMemoryError" in text else f"status {status}"
            reason = "time was up" if status is None else reason
            rows.append({"stage": "torch", "name": name, "seconds": took, "verdict": "skipped", "note": reason})
            continue
        note = speed(found)
        if ours:
            note += f"; Trivium {ours['tokens_per_second'] / found['tokens_per_second']:.2f} times as many"
        row = {"stage": "torch", "name": name, "seconds": found["step_seconds"], "verdict": "passed"}
        rows.append(dict(row, note=note))
    return rows


# In this order, the most important first. A stage may use the time that remains in proportion to its weight: its own
# over the sum of its own and the later ones.
STAGES = {build: 42, tests: 3, train: 4, step: 4, torch: 5, nccl: 2, grid: 2, kernels: 2}


def parse(arguments):
    parser = argparse.ArgumentParser(prog="perf/gpu-check run", add_help=True)
    parser.add_argument("folder", metavar="DIR", help="folder that prepare made")
    parser.add_argument("--out", metavar="DIR2", help="folder for the log and table.json (default: DIR3/out)")
    parser.add_argument("--minutes", type=float, default=9, help="time limit for everything")
    parser.add_argument("--only", default="", metavar="STAGE,…", help=",".join(f.__name__ for f in STAGES))
    parser.add_argument("--build", metavar="DIR3", default="build-gpu", help="folder to unpack and build in")
    parser.add_argument("--arch", default="HOPPER90", help="the GPU's name in Kokkos")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="concurrent compilers")
    options = parser.parse_args(arguments)
    options.folder = os.path.abspath(options.folder)
    options.build = os.path.abspath(options.build)
    options.out = os.path.abspath(options.out or os.path.join(options.build, "out"))
    options.only = [name for name in options.only.split(",") if name]
    unknown = set(options.only) - {f.__name__ for f in STAGES}
    if unknown:
        parser.error(f"--only: no stage '{unknown.pop()}'")
    unpacked = os.path.exists(os.path.join(options.build, "carried", "complete"))
    if not unpacked and not os.path.exists(os.path.join(options.folder, "carried.tar.xz")):
        parser.error(f"{options.folder} does not contain carried.tar.xz: perf/gpu-check prepare makes it")
    return options


def main(arguments):
    options = parse(arguments)
    begin = time.monotonic()
    end = begin + 60 * options.minutes - 10  # the last ten seconds are for logs and the table
    run = Run(options)
    print(f"device  {run.device or run.memory}" + (f", {run.memory / 2**30:.1f} GiB" if run.device else ""))
    tools = [machine.version_of(tool) for tool in (f"{run.cuda}/bin/nvcc", "g++", "cmake", "ninja")]
    print("tools   " + " | ".join(tools), flush=True)
    machine.unpack(os.path.join(options.folder, "carried.tar.xz"), run.prefix)
    rows, times = [], []
    stages = [stage for stage in STAGES if not options.only or stage.__name__ in options.only]
    for i, stage in enumerate(stages):
        name = stage.__name__
        left = end - time.monotonic()
        box = left * STAGES[stage] / sum(STAGES[later] for later in stages[i:])
        started = time.monotonic()
        print(f"== {name}, at most {max(0, box):.0f} s", flush=True)
        if left < 5:
            rows.append({"stage": name, "name": "all", "verdict": "skipped", "note": "no time was left"})
            continue
        try:
            rows += stage(run, box)
        except Exception as error:  # pylint: disable=broad-except  # a failed stage does not end the others
            rows.append({"stage": name, "name": "all", "verdict": "failed", "note": f"{type(error).__name__}: {error}"})
        times.append((name, time.monotonic() - started))
        print(f"   {times[-1][1]:.0f} s", flush=True)
        with open(os.path.join(options.out, "table.json"), "w", encoding="utf-8") as file:
            json.dump({"device": run.device, "rows": rows, "seconds": dict(times)}, file, indent=1)
    print("\n" + table.table(rows))
    print(", ".join(f"{name} {seconds:.0f} s" for name, seconds in times) + f"; total {time.monotonic() - begin:.0f} s")
    print(f"log and table.json: {options.out}")
    return 1 if not rows or any(map(table.failed, rows)) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
