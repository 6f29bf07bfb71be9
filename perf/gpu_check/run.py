"""perf/gpu-check run DIR: unpacks what was carried, checks everything on a device, and prints one table.
See docs/gpu-check.md.

A plan is a list of groups; the tasks of a group run at the same time. A task is a function that takes a Run and the
seconds that it has, and gives rows (table.py says what is in one). A task that fails is a row; the others run all the
same. After each group the rows so far are in table.json.
"""
import argparse
import concurrent.futures
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import build_there
import losses
import machine
import table

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Run:
    """Folders, and commands with a log and a time limit."""

    def __init__(self, options):
        self.options = options
        self.prefix = os.path.join(options.build, "carried")
        self.programs = os.path.join(self.prefix, "programs")
        self.out = options.out
        self.device, self.memory = machine.device()
        self.env = machine.environment(self.prefix)
        os.makedirs(self.out, exist_ok=True)
        self.log = os.path.join(self.out, "log")
        self.lock = threading.Lock()
        self.steps = {}  # results of perf_step, by name
        self.said = {}  # the output of each call
        with open(self.log, "w", encoding="utf-8"):
            pass

    def program(self, name, *arguments):
        return [os.path.join(self.programs, name), *arguments]

    def call(self, name, command, seconds, **environment):
        """Runs `command` for at most `seconds`. Returns its status (None: the time was up), its output and its time."""
        begin = time.monotonic()
        env = self.env if command[0].startswith(self.prefix) else dict(os.environ)
        with tempfile.TemporaryFile() as output:
            with subprocess.Popen(
                command, cwd=ROOT, env={**env, **environment}, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            ) as process:
                try:
                    status = process.wait(timeout=max(1, seconds))
                except subprocess.TimeoutExpired:
                    status = None
                    os.killpg(process.pid, signal.SIGTERM)
                    try:
                        process.wait(timeout=3)
                    except subprocess.TimeoutExpired:
                        pass
                    try:  # child processes may outlive the program
                        os.killpg(process.pid, signal.SIGKILL)
                    except ProcessLookupError:
                        pass
            output.seek(0)
            text = output.read().decode("utf-8", "replace")
        took = time.monotonic() - begin
        with self.lock:
            self.said[name] = text
            with open(self.log, "a", encoding="utf-8") as log:
                log.write(f"\n== {name}: status {status}, {took:.1f} s\n$ {' '.join(command)}\n{text}")
            if status != 0:
                print(f"   {name}: {'time is up' if status is None else f'status {status}'}; the end of its output:")
                print("\n".join("   | " + line[:240] for line in text.splitlines()[-15:]), flush=True)
        return status, text, took

    def row(self, stage, name, command, seconds, again=True, **environment):
        """One row for a command, and the rows that it printed. What crashed on a device runs once more, with launches
        that wait, so that its error names the kernel; not with several ranks, which would wait for each other."""
        status, text, took = self.call(f"{stage}: {name}", command, seconds, **environment)
        rows = [dict(row, stage=stage) for row in table.rows_of(text.splitlines())]
        skipped = re.search(r"^skipped: (.*)$", text, re.MULTILINE)
        row = {"stage": stage, "name": name, "seconds": took, "verdict": "passed" if status == 0 else "failed"}
        if status is None:
            row["note"] = f"time was up after {took:.0f} s"
        elif status != 0:
            row["note"] = f"status {status}"
            if again and self.device and re.search(r"CUDA|cuda|illegal|launch", text):
                self.call(f"{stage}: {name}, again", command, min(30, seconds - took), CUDA_LAUNCH_BLOCKING="1", **environment)
        elif skipped:
            row.update(verdict="skipped", note=skipped[1])
        return rows + [row]


class Task:
    """Some work of a stage: work(run, seconds) gives rows, within about `seconds`."""

    def __init__(self, stage, name, seconds, work):
        self.stage, self.name, self.seconds, self.work = stage, name, seconds, work

    def row(self, verdict, note, **more):
        return {"stage": self.stage, "name": self.name, "verdict": verdict, "note": note, **more}

    def rows(self, run, left):
        if left < 3:
            return [self.row("skipped", "no time was left")]
        if run.device is None and not run.options.tiny and self.stage not in SAY_THEMSELVES:
            return [self.row("skipped", run.memory)]
        try:
            return self.work(run, min(self.seconds, left))
        except Exception as error:  # pylint: disable=broad-except  # a failed task does not end the others
            return [self.row("failed", f"{type(error).__name__}: {error}")]


SAY_THEMSELVES = ("tests", "nccl", "grid", "kernels")  # these programs skip by themselves where there is no device


def tests(seconds, program, *choice):
    """A program of Catch2; the log has the duration of each of its cases, so that one which hangs is known."""
    name = " ".join([program, *choice])
    command = [program, *choice, "--durations", "yes"]
    return Task("tests", name, seconds, lambda run, left: run.row("tests", name, run.program(*command), left))


def ranks(stage, seconds, program, count):
    """A program under the carried launcher, or the system's."""
    name = f"{program}, {count} ranks"

    def work(run, left):
        own = os.path.join(run.prefix, "usr", "bin", "mpirun")
        command = [own if os.path.exists(own) else "mpirun", "-n", str(count), *run.program(program)]
        return run.row(stage, name, command, left, again=False, NCCL_DEBUG="WARN", NCCL_RAS_ENABLE="0")

    return Task(stage, name, seconds, work)


def train(seconds, name):
    """Losses and gradient norms of the 124 M model against a CPU's in losses.json, or its speed."""
    config = losses.SPEED if name == "speed" else losses.config_in(name)
    title = losses.title(config)

    def work(run, left):
        end = time.monotonic() + left
        program = run.program("trivium")[0]
        kept, reason = losses.load()
        if not kept and name != "speed":
            return [{"stage": "train", "name": title, "verdict": "failed", "note": reason}]
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else run.options.build  # 1.5 GB of checkpoint
        with tempfile.TemporaryDirectory(dir=memory) as folder:
            made = run.row("train", "token store", losses.tokenize_command(program, folder), end - time.monotonic())
            if made[-1]["verdict"] == "failed":
                return made
            command = losses.train_command(program, folder, name, config)
            row = run.row("train", name, command, end - time.monotonic())[-1]
            found = losses.metrics(folder, name)
            if found:
                shutil.copyfile(losses.metrics_file(folder, name), os.path.join(run.out, f"train-{name}.jsonl"))
            if row["verdict"] == "passed":
                row.update(losses.speed(found) if name == "speed" else losses.compare(kept["steps"], found, name))
            elif found:
                row["note"] += f" after step {found[-1]['step']}"
            return [dict(row, name=title)]

    return Task("train", title, seconds, work)


# Models of step and torch: the keys of perf_step, the options of perf/compare_torch.py.
BATCH = ["train.precision=bf16", "train.global_batch=16", "train.micro_batch=16", "model.vocab=50304", "model.seq=1024"]
TORCH_BATCH = "--micro-batch 16 --global-batch 16 --vocab 50304 --seq 1024"
LAYERS = 8  # of the 8B shape: fits 80 GB in both programs
MODELS = {
    "gpt2-124m": (["model.preset=gpt2-124m", *BATCH], "--layers 12 --dim 768 --heads 12 " + TORCH_BATCH),
    "gpt2-1.5b": (["model.preset=gpt2-1.5b", *BATCH], "--layers 48 --dim 1600 --heads 25 " + TORCH_BATCH),
    "llama3-8b": (
        ["model.preset=llama3-8b", f"model.layers={LAYERS}", "model.seq=8192", "train.precision=bf16"]
        + ["train.global_batch=2", "train.micro_batch=1"],
        f"--family llama --layers {LAYERS} --dim 4096 --heads 32 --kv-heads 8 --ffn 14336 --vocab 128256 --seq 8192 "
        "--micro-batch 1 --global-batch 2",
    ),
}
TINY = ["model.layers=1", "model.dim=64", "model.heads=2", "model.kv_heads=2", "model.ffn_dim=128", "model.vocab=256"]
TINY += ["model.seq=64", "train.global_batch=2", "train.micro_batch=1"]


def figures(text):
    """The object that a program with --json prints, or None."""
    lines = [line for line in text.splitlines() if line.startswith("{")]
    return json.loads(lines[-1]) if lines else None


def speed(found):
    return f"{found['tokens_per_second']:.0f} tokens/s, {100 * found['mfu']:.1f} % of the data sheet"


def ops(found, most=16):
    """Lines of the table of ops: kernels by share of time."""
    total = sum(op["seconds"] for op in found["ops"])
    for op in found["ops"][:most]:
        rate = f", {op['flops'] / op['seconds'] / 1e12:.0f} TFLOP/s" if op["flops"] and op["seconds"] else ""
        yield f"      {100 * op['seconds'] / total:5.1f} %  {1e3 * op['seconds']:8.2f} ms  {op['op']}{rate}"


def step(seconds, model, label="", *keys):
    """Training steps on the device, and their memory."""
    name = model + (f", {label}" if label else "")

    def work(run, left):
        threads = ["--threads", "1"] if run.options.tiny else []
        options = [*threads, "--json", "--shapes", "--steps", "5", "--peak-seconds", "0.1", *MODELS[model][0]]
        command = run.program("perf_step", *options, *(TINY if run.options.tiny else []), *keys)
        row = run.row("step", name, command, left)[-1]
        found = figures(run.said.get(f"step: {name}", "")) if row["verdict"] == "passed" else None
        if found is None:
            return [dict(row, verdict="failed")]
        run.steps[name] = found
        with run.lock:
            print(f"   {name}: {found['step_seconds']:.4f} s, {speed(found)} ({row['seconds']:.0f} s)")
            print("\n".join(ops(found)), flush=True)
        share = found["mfu"] * found["peak_flops_per_second"] / found["measured_product_flops_per_second"]
        loss = found["loss"]  # null: not a number
        row.update(seconds=found["step_seconds"], share=share, note=speed(found))
        row["verdict"] = "passed" if loss is not None and math.isfinite(loss) else "failed"
        beside, stated, arena = (found[key] for key in ("device_bytes_beside_arena", "stated_bytes", "arena_bytes"))
        fits = beside <= stated and found["used_bytes"] <= arena
        note = f"arena {arena / 1e9:.2f} GB, in addition {beside / 1e6:.0f} MB of the {stated / 1e6:.0f} MB in the plan"
        return [row, {"stage": "step", "name": f"{name}, memory", "verdict": "passed" if fits else "failed", "note": note}]

    return Task("step", name, seconds, work)


def torch(seconds, model, attention="default", warm=False):
    """The same in PyTorch. If it does not run, the row is skipped, because Trivium is not at fault. `warm`: one layer, to
    fill the cache of its compiler."""
    name = f"{model}, {attention} attention" + (", one layer to warm up" if warm else "")

    def work(run, left):
        command = [sys.executable, "perf/compare_torch.py", "--json", "--steps", "0" if warm else "5"]
        command += ["--attention", attention, *MODELS[model][1].split()] + (["--layers", "1"] if warm else [])
        status, text, took = run.call(f"torch: {name}", command, left)
        row = {"stage": "torch", "name": name, "seconds": took, "verdict": "skipped"}
        found = figures(text) if status == 0 else None
        if found is None:
            reason = "out of memory" if "OutOfMemoryError" in text else f"status {status}"
            return [dict(row, note="time was up" if status is None else reason)]
        if warm:
            return [dict(row, verdict="passed", note="")]
        note = speed(found)
        ours = [(other["step_seconds"], label) for label, other in run.steps.items() if label.split(",")[0] == model]
        if ours:
            least, label = min(ours)
            note += f"; Trivium ({label}) {found['step_seconds'] / least:.2f} times as fast"
        with run.lock:
            print(f"   torch, {name}: {found['step_seconds']:.4f} s, {note} ({took:.0f} s)", flush=True)
        return [dict(row, seconds=found["step_seconds"], verdict="passed", note=note)]

    return Task("torch", name, seconds, work)


def kernels(seconds, *choice):
    """The results of perf_device, also if it did not finish."""
    name = " ".join(["perf_device", *choice])

    def work(run, left):
        tiny = ["--tiny"] if run.options.tiny else []
        return run.row("kernels", name, run.program("perf_device", "--json", *tiny, *choice), left)

    return Task("kernels", name, seconds, work)


def with_tool(stage, name, seconds, tool, options, program):
    """A program of ours under a tool of the CUDA toolkit; what the tool prints is in the log."""

    def work(run, left):
        found = shutil.which(tool) or os.path.join("/usr/local/cuda/bin", tool)
        if not os.path.exists(found):
            return [{"stage": stage, "name": name, "verdict": "skipped", "note": f"there is no {tool}"}]
        command = [found, *options, *run.program(*program)]
        return run.row(stage, name, command, left, **{key: run.env[key] for key in ("LD_LIBRARY_PATH", "OPAL_PREFIX")})

    return Task(stage, name, seconds, work)


def profile(seconds, model, *keys):
    """Nsight Compute on launches of the kernels that are ours."""
    options = "--clock-control none --section SpeedOfLight --section WarpStateStats --section LaunchStats".split()
    options += "--section Occupancy --print-summary per-kernel --launch-count 100 --kernel-name-base demangled".split()
    options += ["--kernel-name", "regex:trivium(?!.*(Nothing|Fill))"]  # memory is filled at the start
    program = ["perf_step", "--json", "--steps", "1", "--peak-seconds", "0.02", *MODELS[model][0], *keys]
    return with_tool("profile", model, seconds, "ncu", options, program)


def sanitizer(seconds, tool, program, choice):
    options = ["--tool", tool, "--error-exitcode", "9"]
    return with_tool("sanitizer", f"{tool}: {choice}", seconds, "compute-sanitizer", options, [program, choice])


OWN, ANY_ORDER = "parallel.cudnn=false", "parallel.deterministic=false"
SMALLEST_ATTENTION = "attention on tensor cores has the same bits from a graph"

# Groups of tasks with their maximum seconds, the most important first. The tasks of a group run at the same time.
PLANS = {
    "first": [
        [
            tests(90, "test_device", "~*the sizes of training"),
            tests(75, "test_device", "*the sizes of training"),
            tests(110, "test_kernels_on_device"),
            train(75, "f32"),
            train(75, "bf16"),
            ranks("nccl", 75, "nccl_ranks", 2),
        ],
        # PyTorch's compilers take all cores, so they run after the tests, which compare with the host.
        [
            ranks("grid", 75, "grid_ranks_on_device", 1),
            ranks("grid", 75, "grid_ranks_on_device", 2),
            *[torch(75, model, warm=True) for model in MODELS],
        ],
        [step(30, "gpt2-124m")],
        [train(30, "speed")],
        [step(40, "gpt2-1.5b")],
        [step(45, "llama3-8b")],
        [torch(60, "gpt2-1.5b")],
        [torch(80, "llama3-8b")],
        [torch(50, "gpt2-124m")],
        [step(30, "gpt2-1.5b", "any order", ANY_ORDER)],
        [step(45, "llama3-8b", "any order", ANY_ORDER)],
        [step(40, "gpt2-1.5b", "own attention", OWN)],
        [step(45, "llama3-8b", "own attention", OWN)],
        [step(20, "gpt2-124m", "graphs", "--graphs")],
        [profile(45, "gpt2-1.5b", "model.layers=1", OWN)],
    ],
    "second": [
        [
            tests(100, "test_device", "~*the sizes of training"),
            tests(100, "test_kernels_on_device"),
            ranks("nccl", 100, "nccl_ranks", 2),
        ],
        [step(40, "gpt2-1.5b")],
        [step(45, "llama3-8b")],
        [torch(90, "llama3-8b")],
        [torch(50, "gpt2-124m")],
        [profile(45, "gpt2-1.5b", "model.layers=1", OWN)],
        [kernels(60)],
        [kernels(70, "--only", "algorithms")],
        [sanitizer(40, tool, "test_device", SMALLEST_ATTENTION) for tool in ("memcheck", "racecheck")],
    ],
    "tiny": [[step(60, "gpt2-124m")], [kernels(60)]],
}


def is_broken(rows):
    """Whether nothing that trains has passed: the rest would tell nothing more, and the device's time is dear."""
    trained = [row for row in rows if row["stage"] in ("train", "step") and row["verdict"] != "skipped"]
    return len(trained) > 2 and all(map(table.failed, trained))


def parse(arguments):
    parser = argparse.ArgumentParser(prog="perf/gpu-check run")
    parser.add_argument("folder", metavar="DIR", help="folder that prepare made")
    parser.add_argument("--out", metavar="DIR2", help="folder for the log and table.json (default: DIR3/out)")
    parser.add_argument("--minutes", type=float, default=8, help="time limit for everything")
    parser.add_argument("--plan", choices=PLANS, default="first", help="which tasks (first); tiny: CPU programs, at sizes of seconds")
    parser.add_argument("--only", default="", metavar="STAGE,…", help="tests, train, nccl, grid, step, torch, kernels, …")
    parser.add_argument("--build", metavar="DIR3", default="build-gpu", help="folder to unpack and build in")
    parser.add_argument("--arch", default="HOPPER90", help="the GPU's name in Kokkos, to build there")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="concurrent compilers")
    options = parser.parse_args(arguments)
    options.folder = os.path.abspath(options.folder)
    options.build = os.path.abspath(options.build)
    options.out = os.path.abspath(options.out or os.path.join(options.build, "out"))
    options.tiny = options.plan == "tiny"
    options.only = [name for name in options.only.split(",") if name]
    stages = {task.stage for group in PLANS[options.plan] for task in group}
    if unknown := set(options.only) - stages:
        parser.error(f"--only: no stage '{unknown.pop()}' in the plan '{options.plan}'; it has {', '.join(sorted(stages))}")
    options.archive = machine.archive_in(options.folder)
    if not options.archive and not machine.is_unpacked(options.build):
        parser.error(f"{options.folder} does not contain {' or '.join(machine.ARCHIVES)}: perf/gpu-check prepare makes it")
    return options


def main(arguments):
    options = parse(arguments)
    begin = time.monotonic()
    end = begin + 60 * options.minutes - 5  # the last seconds are for the table
    prefix = os.path.join(options.build, "carried")
    if options.archive:
        machine.unpack(options.archive, prefix)
    machine.bring_up_loopback()
    run = Run(options)
    rows, times = [], []

    def keep():
        with open(os.path.join(options.out, "table.json"), "w", encoding="utf-8") as file:
            found = {"device": run.device, "rows": rows, "seconds": times, "steps": run.steps}
            json.dump(found, file, indent=1)

    print(f"device  {run.device or run.memory}" + (f", {run.memory / 2**30:.1f} GiB" if run.device else ""))
    print(f"{time.monotonic() - begin:5.0f} s  unpacked; NVIDIA's libraries: {' '.join(machine.nvidia_folders())}", flush=True)
    if os.path.exists(os.path.join(prefix, "kokkos")):  # the sources were carried
        rows += build_there.build(run, end - time.monotonic())
    for group in PLANS[options.plan]:
        tasks = [task for task in group if not options.only or task.stage in options.only]
        if is_broken(rows):
            rows += [task.row("skipped", "nothing trains") for task in tasks]
            continue
        started = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(max(1, len(tasks))) as pool:
            for found in pool.map(lambda task: task.rows(run, end - time.monotonic()), tasks):
                rows += found
        if tasks:
            times.append((", ".join(sorted({task.stage for task in tasks})), time.monotonic() - started))
            print(f"{time.monotonic() - begin:5.0f} s  {' | '.join(task.name for task in tasks)}", flush=True)
        keep()
    keep()
    print("\n" + table.table(rows))
    print(f"total {time.monotonic() - begin:.0f} s; log and table.json: {options.out}")
    return 1 if not rows or any(map(table.failed, rows)) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
