#!/usr/bin/env python3
"""Training steps of docs/examples/vit.graph and unet3d.graph, in this build and in PyTorch on the same cores, in turns.

    perf/compare_programs.py --torch venv/bin/python --pairs 5

Two ranks with one thread each: data = 2, and DDP over gloo. The same initial values (those of a run that learns nothing), data,
clipping and AdamW, in f32; so the losses of the first steps must agree, or the script ends. Prints for each model the median step
and the CPU time of a step (of all ranks, which wait by polling in MPI and asleep in gloo), and how many times as long PyTorch takes.
CPU time is what to compare where other programs use the cores. `--keep-memory` spares PyTorch most page faults, which a user would have
to know. The Python needs torch, numpy and h5py.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "docs" / "examples"
# sizes of the program, samples per rank
MODELS = {
    "vit": (dict(side=224, channels=3, patch=16, width=384, heads=6, layers=12, classes=1000), 8),
    "unet3d": (dict(levels=3, x0=48, y0=48, z0=48, c0=16), 2),
}
LR, WEIGHT_DECAY, CLIP = 1e-4, 0.1, 1.0


# PyTorch's side: `--worker FOLDER`, a rank each, which ends when its steps are done.

def make_data(model, sizes, samples, folder):
    import numpy as np
    draw = np.random.default_rng(1)
    if model == "vit":
        arrays = {"image": draw.standard_normal((samples, sizes["channels"], sizes["side"], sizes["side"])).astype("float32"),
                  "label": draw.integers(sizes["classes"], size=samples).astype("int32")}
    else:
        field = (samples, 1, sizes["x0"], sizes["y0"], sizes["z0"])
        arrays = {name: draw.standard_normal(field).astype("float32") for name in ("field", "target")}
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    print(" ".join(f"{name}={name}.npy" for name in arrays))


def vit_module(s):
    import torch
    from torch import nn
    import torch.nn.functional as F
    width, heads = s["width"], s["heads"]

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)
            self.qkv, self.o = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            q, k, v = self.qkv(self.norm1(x)).unflatten(2, (3, heads, width // heads)).permute(2, 0, 3, 1, 4)
            x = x + self.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
            return x + self.down(F.gelu(self.up(self.norm2(x))))

    class Vit(nn.Module):
        def __init__(self):
            super().__init__()
            self.patch = nn.Conv2d(s["channels"], width, s["patch"], s["patch"])
            self.first = nn.Parameter(torch.zeros(width))
            self.position = nn.Parameter(torch.zeros((s["side"] // s["patch"]) ** 2 + 1, width))
            self.blocks = nn.ModuleList(Block() for _ in range(s["layers"]))
            self.norm, self.head = nn.LayerNorm(width, eps=1e-6), nn.Linear(width, s["classes"])

        def forward(self, image, label):
            x = self.patch(image).flatten(2).transpose(1, 2)
            x = torch.cat([self.first.expand(len(x), 1, width), x], 1) + self.position
            for block in self.blocks:
                x = block(x)
            return F.cross_entropy(self.head(self.norm(x[:, 0])), label)

    def values(p):
        """Of the state, from Trivium's parameters."""
        state = {"patch.weight": p["patch.w"], "patch.bias": p["patch.b"], "first": p["class"], "position": p["position"],
                 "norm.weight": p["norm.w"], "norm.bias": p["norm.b"], "head.weight": p["head.w"].T, "head.bias": p["head.b"]}
        for i in range(s["layers"]):
            own = {"qkv.weight": torch.cat([p[f"{a}.w.{i}"].flatten(1).T for a in "qkv"]),
                   "qkv.bias": torch.cat([p[f"{a}.b.{i}"].flatten() for a in "qkv"]), "o.weight": p[f"o.w.{i}"].flatten(0, 1).T,
                   **{f"{a}.weight": p[f"{a}.w.{i}"].T for a in ("up", "down")}, **{f"{a}.bias": p[f"{a}.b.{i}"] for a in ("o", "up", "down")},
                   **{f"norm{k}.{to}": p[f"norm{k}.{of}.{i}"] for k in (1, 2) for to, of in (("weight", "w"), ("bias", "b"))}}
            state |= {f"blocks.{i}.{name}": value for name, value in own.items()}
        return state

    return Vit(), values


def unet3d_module(s):
    import torch
    from torch import nn
    import torch.nn.functional as F
    levels, c = s["levels"], [s["c0"] << i for i in range(s["levels"] + 1)]

    def layer(inputs, outputs, stride=1):
        return nn.Sequential(nn.Conv3d(inputs, outputs, 3, stride, 1, bias=False), nn.InstanceNorm3d(outputs, affine=True), nn.LeakyReLU(0.01))

    class Unet(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem, self.head = nn.Conv3d(1, c[0], 3, padding=1, bias=False), nn.Conv3d(c[0], 1, 1, bias=False)
            self.down = nn.ModuleList(nn.ModuleList([layer(c[i], c[i]), layer(c[i], c[i + 1], 2)]) for i in range(levels))
            self.wider = nn.ModuleList(nn.ConvTranspose3d(c[i + 1], c[i], 2, 2, bias=False) for i in reversed(range(levels)))
            self.up = nn.ModuleList(nn.ModuleList([layer(2 * c[i], c[i]), layer(c[i], c[i])]) for i in reversed(range(levels)))

        def forward(self, field, target):
            x, skips = self.stem(field), []
            for same, half in self.down:
                skips.append(same(x))
                x = half(skips[-1])
            for wider, (first, second) in zip(self.wider, self.up):
                x = second(first(torch.cat([wider(x), skips.pop()], 1)))
            return F.mse_loss(self.head(x), target)

    def values(p):
        state = {"stem.weight": p["stem.w"], "head.weight": p["head.w"]}
        for i in range(levels):
            # A convolution of the stretched field: PyTorch's weights are turned and have the inputs first.
            state[f"wider.{i}.weight"] = p[f"wider.w.{i}"].flip(2, 3, 4).transpose(0, 1)
            for way in ("down", "up"):
                for k in range(2):
                    state |= {f"{way}.{i}.{k}.{to}": p[f"{way}.{of}.{i}.{k}"] for to, of in (("0.weight", "w"), ("1.weight", "gain"), ("1.bias", "bias"))}
        return state

    return Unet(), values


def torch_worker(model, sizes, samples, folder, steps):
    import h5py
    import numpy as np
    import torch
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.set_num_threads(1)
    module, values = {"vit": vit_module, "unet3d": unet3d_module}[model](sizes)
    with h5py.File(folder / "initial" / "step-00000001" / "index.h5") as file:
        module.load_state_dict(values({name: torch.tensor(np.array(value)) for name, value in file["param"].items()}))
    groups = [{"params": [p for p in module.parameters() if (p.dim() > 1 and p is not getattr(module, "position", None)) is decay], "weight_decay": WEIGHT_DECAY * decay}
              for decay in (True, False)]
    optimizer = torch.optim.AdamW(groups, lr=LR, betas=(0.9, 0.95), eps=1e-8, fused=True)
    if ranks > 1:
        torch.distributed.init_process_group("gloo")
    trained = torch.nn.parallel.DistributedDataParallel(module, gradient_as_bucket_view=True) if ranks > 1 else module
    names = ("image", "label") if model == "vit" else ("field", "target")
    batch = [torch.tensor(np.load(folder / f"{name}.npy")[rank * samples:(rank + 1) * samples]) for name in names]
    batch = [x.long() if x.dtype == torch.int32 else x for x in batch]
    with open(folder / f"torch-{rank}.jsonl", "w", buffering=1) as log:
        for step in range(steps):
            begin = time.perf_counter()
            optimizer.zero_grad()
            loss = trained(*batch)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(module.parameters(), CLIP)
            optimizer.step()
            number = loss.item()
            log.write(json.dumps({"step": step + 1, "loss": number, "step_seconds": time.perf_counter() - begin}) + "\n")
    if ranks > 1:
        torch.distributed.destroy_process_group()


# Both programs, from outside.

def cpu_seconds(parents):
    """Of the processes and of all below them."""
    ticks, below = {}, {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue  # it ended
            ticks[int(entry.name)] = int(fields[11]) + int(fields[12])
            below.setdefault(int(fields[1]), []).append(int(entry.name))
    total, ahead = 0, list(parents)
    while ahead:
        pid = ahead.pop()
        total += ticks.get(pid, 0)
        ahead += below.get(pid, [])
    return total / os.sysconf("SC_CLK_TCK")


def lines_of(path):
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text[:text.rfind("\n") + 1].splitlines()]


def watched(commands, log, folder, first):
    """The lines of `log`, and CPU seconds per step after step `first`, while the programs run."""
    children = [subprocess.Popen(command, cwd=folder, env={**os.environ, **env}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
                for command, env in commands]
    taken = []  # (steps, CPU seconds)
    while any(child.poll() is None for child in children):
        steps = len(lines_of(log))
        if steps >= first and (not taken or steps > taken[-1][0]):
            taken.append((steps, cpu_seconds(child.pid for child in children)))
        time.sleep(0.005)
    for child in children:
        error = child.stderr.read().decode()
        if child.returncode:
            sys.exit(f"{' '.join(map(str, child.args))} ended with {child.returncode}\n{error}")
    (begin, before), (end, after) = taken[0], taken[-1]
    return lines_of(log), (after - before) / (end - begin)


def own(c, model, steps, folder, name, options=()):
    sizes, samples = MODELS[model]
    shutil.rmtree(folder / name, ignore_errors=True)
    (folder / name).mkdir()
    settings = ["model.family=graph", f"model.file={EXAMPLES / model}.graph", "data.train=data.h5", f"train.steps={steps}",
                f"train.global_batch={samples * c.ranks}", "train.schedule=constant", f"train.lr={LR}", f"train.weight_decay={WEIGHT_DECAY}",
                f"train.grad_clip={CLIP}", f"parallel.data={c.ranks}", "parallel.threads=1", f"checkpoint.dir={name}", f"log.dir={name}/logs",
                *(f"model.sizes.{k}={v}" for k, v in sizes.items()), *options, *c.options]
    launch = [] if c.ranks == 1 else ["mpirun", "-n", str(c.ranks)]
    command = [*launch, c.build / "trivium", "train", "run.toml", *settings]
    return watched([(command, {"OMP_NUM_THREADS": "1"})], folder / name / "logs" / "metrics.jsonl", folder, c.skip)


def theirs(c, model, steps, folder):
    sizes, samples = MODELS[model]
    for rank in range(c.ranks):
        (folder / f"torch-{rank}.jsonl").unlink(missing_ok=True)
    given = json.dumps([model, sizes, samples, str(folder), steps])
    settings = {"WORLD_SIZE": str(c.ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(c.port), "OMP_NUM_THREADS": "1"}
    if c.keep_memory:
        settings |= {"MALLOC_MMAP_THRESHOLD_": str(1 << 32), "MALLOC_TRIM_THRESHOLD_": str(1 << 33)}
    commands = [([c.torch, __file__, "--worker", given], {**settings, "RANK": str(rank)}) for rank in range(c.ranks)]
    lines, cpu = watched(commands, folder / "torch-0.jsonl", folder, c.skip)
    of_ranks = [[line["loss"] for line in lines_of(folder / f"torch-{rank}.jsonl")] for rank in range(c.ranks)]
    return [{**line, "loss": statistics.mean(losses)} for line, losses in zip(lines, zip(*of_ranks))], cpu


def compare(c, model, folder):
    sizes, samples = MODELS[model]
    (folder / "run.toml").write_text("")
    made = subprocess.run([c.torch, __file__, "--data", json.dumps([model, sizes, samples * c.ranks, str(folder)])], check=True, capture_output=True, text=True)
    subprocess.run([c.build / "trivium", "data", "arrays", *made.stdout.split(), "-o", "data.h5"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    skip, c.skip = c.skip, 0
    own(c, model, 1, folder, "initial", ["train.lr=0"])
    c.skip = skip
    step, cpu, losses = {}, {}, {}
    for _ in range(c.pairs):
        for name, run in (("own", lambda: own(c, model, c.steps, folder, "run")), ("torch", lambda: theirs(c, model, c.steps, folder))):
            lines, taken = run()
            step.setdefault(name, []).append(statistics.median(line["step_seconds"] for line in lines[c.skip:]))
            cpu.setdefault(name, []).append(taken)
            losses[name] = [line["loss"] for line in lines]
        apart = [abs(a - b) / abs(b) for a, b in zip(losses["own"], losses["torch"])]
        if max(apart[:3]) > 1e-4:
            sys.exit(f"{model}: the losses differ\nown    {losses['own']}\ntorch  {losses['torch']}")
    cells = [f"{statistics.median(t['own']):.3f} s, {statistics.median(t['torch']):.3f} s | {statistics.median(b / a for a, b in zip(t['own'], t['torch'])):.2f} "
             f"({min(b / a for a, b in zip(t['own'], t['torch'])):.2f}, {max(b / a for a, b in zip(t['own'], t['torch'])):.2f})" for t in (step, cpu)]
    print(f"| {model}, {samples} samples per rank | {' | '.join(cells)} | {losses['own'][-1]:.6f}, {losses['torch'][-1]:.6f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--torch", help="a Python with PyTorch")
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=8, help="of a run; its first two do not count")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--keep-memory", action="store_true", help="PyTorch's large tensors stay in the C library, not the kernel, when they are freed")
    parser.add_argument("--port", type=int, default=29517)
    parser.add_argument("--options", nargs="*", default=[], metavar="KEY=VALUE", help="further keys of Trivium's config")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--data", help=argparse.SUPPRESS)
    c = parser.parse_args()
    if c.data:
        model, sizes, samples, folder = json.loads(c.data)
        return make_data(model, sizes, samples, pathlib.Path(folder))
    if c.worker:
        model, sizes, samples, folder, steps = json.loads(c.worker)
        return torch_worker(model, sizes, samples, pathlib.Path(folder), steps)
    c.skip, c.torch = 2, str(pathlib.Path(c.torch).absolute())
    print("| model | step: own, PyTorch | PyTorch's is (least, most) times as long | CPU time | PyTorch's | last losses |\n|---|---|---|---|---|---|")
    for model in c.models:
        with tempfile.TemporaryDirectory() as folder:
            compare(c, model, pathlib.Path(folder))


if __name__ == "__main__":
    main()
