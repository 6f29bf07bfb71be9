#!/usr/bin/env python3
"""Convolutions, pools and instance norms with their gradients, in this build and in PyTorch on the same cores, in turns.

    perf/convolutions.py --torch venv/bin/python --threads 1 2

Prints a table: milliseconds of this build, and in brackets how many times as long PyTorch takes. Both are the least of the rounds,
because other programs only add to a time.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
# name, type, samples, channels, outputs, side, spatial dimensions, kernel, stride, padding, groups, gaps between elements of x
CONVOLUTIONS = [
    ("2-D 3→384, 16×16/16, 224², batch 8", "f32", 8, 3, 384, 224, 2, 16, 16, 0, 1, 1),
    ("2-D 64→64, 3×3, 56², batch 8", "f32", 8, 64, 64, 56, 2, 3, 1, 1, 1, 1),
    ("the same in bf16", "bf16", 8, 64, 64, 56, 2, 3, 1, 1, 1, 1),
    ("2-D 64 in 64 groups, 3×3, 56², batch 8", "f32", 8, 64, 64, 56, 2, 3, 1, 1, 64, 1),
    ("3-D 16→16, 3×3×3, 32³, batch 2", "f32", 2, 16, 16, 32, 3, 3, 1, 1, 1, 1),
    ("3-D 32→32, 3×3×3, 32³, batch 2", "f32", 2, 32, 32, 32, 3, 3, 1, 1, 1, 1),
    ("3-D 32→16, transposed 2×2×2/2, 16³, batch 2", "f32", 2, 32, 16, 16, 3, 2, 1, 1, 1, 2),
]
# name, extents of x, spatial dimensions, window, stride, padding
POOLS = [
    ("max pool 2×2/2, 64×56², batch 8", (8, 64, 56, 56), 2, 2, 2, 0),
    ("max pool 3×3/2, 64×112², batch 8", (8, 64, 112, 112), 2, 3, 2, 1),
    ("max pool 2×2×2/2, 32×32³, batch 2", (2, 32, 32, 32, 32), 3, 2, 2, 0),
]
NORMS = [("instance norm, 32×32³, batch 2", (2, 32, 32, 32, 32)), ("instance norm, 32×64³", (1, 32, 64, 64, 64))]


def words(numbers):
    return " ".join(str(n) for n in numbers)


def shape_text(dtype, shape):
    return f"{dtype}[{','.join(str(n) for n in shape)}]"


def graph(given, lines, result, rank):
    """The text of a graph whose output is one element of `result`."""
    text = ["graph bench"] + [f"parameter %{name} : {form} init normal(std=1.0)" for name, form in given] + lines
    text.append(f'%one = slice({result[0]}) {{start="{words([0] * rank)}", limit="{words([1] * rank)}"}} : '
                + shape_text(result[1], [1] * rank))
    return "\n".join(text + ["output %one"]) + "\n"


def convolution_graphs(c):
    _, dtype, b, channels, o, side, spatial, k, stride, pad, groups, base = c
    out = ((side - 1) * base + 1 + 2 * pad - k) // stride + 1
    x, w, y = [b, channels] + [side] * spatial, [o, channels // groups] + [k] * spatial, [b, o] + [out] * spatial
    attributes = "".join(f', {name}="{words([n] * spatial)}"' for name, n in
                         (("stride", stride), ("low", pad), ("high", pad), ("base", base))) + f", groups={groups}"
    forms = {name: shape_text(dtype, shape) for name, shape in (("x", x), ("w", w), ("y", y))}

    def make(op, first, second, to, shape):
        own = attributes if op == "convolution" else f', shape="{words(shape)}"' + attributes
        return graph([(first, forms[first]), (second, forms[second])], [f"%r = {op}(%{first}, %{second}) {{{own[2:]}}} : {forms[to]}"],
                     ("%r", dtype), spatial + 2)

    return [make("convolution", "x", "w", "y", y), make("convolution_grad_x", "y", "w", "x", x), make("convolution_grad_w", "y", "x", "w", w)]


def pool_graphs(p):
    _, x, spatial, window, stride, pad = p
    y = list(x[:2]) + [(n + 2 * pad - window) // stride + 1 for n in x[2:]]
    attributes = ", ".join(f'{name}="{words([one, one] + [n] * spatial)}"' for name, one, n in
                           (("window", 1, window), ("stride", 1, stride), ("low", 0, pad), ("high", 0, pad)))
    given = [("x", shape_text("f32", x)), ("y", shape_text("f32", y))]
    return [graph(given[:1], [f'%r = pool(%x) {{combine="max", {attributes}}} : {given[1][1]}'], ("%r", "f32"), spatial + 2),
            graph(given, [f'%r = pool_grad(%y, %x) {{combine="max", {attributes}}} : {given[0][1]}'], ("%r", "f32"), spatial + 2)]


def norm_graphs(n):
    """The norm with scale and shift, and ReLU."""
    x, count = n[1], n[1][2] * n[1][3] * n[1][4]
    form, small, per = shape_text("f32", x), shape_text("f32", x[:2]), shape_text("f32", x[1:2])

    def spread(value, dims="0 1"):
        return f'broadcast({value}) {{dims="{dims}", shape="{words(x)}"}} : {form}'

    lines = [f'%s = reduce(%x) {{dims="2 3 4", combine="sum"}} : {small}', f"%mean = affine(%s) {{alpha={1 / count!r}}} : {small}",
             "%mb = " + spread("%mean"), f"%d = subtract(%x, %mb) : {form}", f"%q = multiply(%d, %d) : {form}",
             f'%v = reduce(%q) {{dims="2 3 4", combine="sum"}} : {small}',
             f"%va = affine(%v) {{alpha={1 / count!r}, beta=1e-5}} : {small}", f"%r = rsqrt(%va) : {small}", "%rb = " + spread("%r"),
             f"%n = multiply(%d, %rb) : {form}", "%gb = " + spread("%g", "1"), f"%m = multiply(%n, %gb) : {form}",
             "%bb = " + spread("%b", "1"), f"%a = add(%m, %bb) : {form}",
             f'%z = constant() {{dtype="f32", value=0.0, shape="{words(x)}"}} : {form}', f"%y = maximum(%a, %z) : {form}"]
    return [graph([("x", form), ("g", per), ("b", per)], lines, ("%y", "f32"), 5)]


def seconds(build, path, repeats, clock):
    """Of a run: elapsed, or of all cores that it took."""
    begin = time.perf_counter()
    child = subprocess.Popen([build / "trivium", "explain", path, "--run", "--repeat", str(repeats)], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    if status != 0:
        sys.exit(pathlib.Path(path).read_text() + f"trivium explain ended with status {status}")
    return time.perf_counter() - begin if clock == "elapsed" else usage.ru_utime + usage.ru_stime


def milliseconds(build, text, clock):
    """Of one repetition: the difference of runs with more and fewer of them."""
    with tempfile.NamedTemporaryFile("w", suffix=".graph") as file:
        file.write(text)
        file.flush()
        few = seconds(build, file.name, 1, clock)
        more = 10
        while (spent := seconds(build, file.name, 1 + more, clock) - few) < 0.3 and more < 1000:
            more *= 3
        return spent / more * 1e3


def torch_worker(threads, clock):
    """Answers each line, a case in JSON, with the medians of its calls in milliseconds."""
    import torch
    import torch.nn.functional as F
    torch.set_num_threads(threads)

    now = time.perf_counter if clock == "elapsed" else time.process_time

    def median(call):
        call()
        times, end = [], time.perf_counter() + 0.5
        while len(times) < 5 or time.perf_counter() < end:
            begin = now()
            call()
            times.append(now() - begin)
        return statistics.median(times) * 1e3

    def calls(kind, c):
        if kind == "convolution":
            _, dtype, b, channels, o, side, spatial, k, stride, pad, groups, base = c
            transposed, dtype = base > 1, {"f32": torch.float32, "bf16": torch.bfloat16}[dtype]
            x = torch.randn([b, channels] + [side] * spatial).to(dtype)
            w = torch.randn(([channels, o // groups] if transposed else [o, channels // groups]) + [k] * spatial).to(dtype)
            # Gaps in x are the strides of the convolution whose gradient a transposed one is.
            options = [[base if transposed else stride] * spatial, [k - 1 - pad if transposed else pad] * spatial, [1] * spatial,
                       transposed, [0] * spatial, groups]
            dy = torch.randn_like(torch.ops.aten.convolution(x, w, None, *options))
            back = torch.ops.aten.convolution_backward
            return [lambda: torch.ops.aten.convolution(x, w, None, *options),
                    lambda: back(dy, x, w, [0], *options, [True, False, False]), lambda: back(dy, x, w, [0], *options, [False, True, False])]
        if kind == "pool":
            _, extents, spatial, window, stride, pad = c
            x = torch.randn(extents, requires_grad=True)
            pool = F.max_pool2d if spatial == 2 else F.max_pool3d
            y = pool(x, window, stride, pad)
            dy = torch.randn_like(y)
            return [lambda: pool(x.detach(), window, stride, pad), lambda: torch.autograd.grad(y, x, dy, retain_graph=True)]
        x, g, b = torch.randn(c[1]), torch.ones(c[1][1]), torch.zeros(c[1][1])
        return [lambda: F.relu(F.instance_norm(x, None, None, g, b))]

    for line in sys.stdin:
        print(json.dumps([median(call) for call in calls(*json.loads(line))]), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build", type=pathlib.Path)
    parser.add_argument("--torch", required=True, help="a Python with PyTorch")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clock", choices=["elapsed", "cpu"], default="elapsed", help="cpu: of all threads, for busy machines")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    c = parser.parse_args()
    if c.worker:
        return torch_worker(c.threads[0], c.clock)
    cores = sorted(os.sched_getaffinity(0))
    cases = ([("convolution", case, convolution_graphs(case)) for case in CONVOLUTIONS] + [("pool", case, pool_graphs(case)) for case in POOLS]
             + [("norm", case, norm_graphs(case)) for case in NORMS])
    print("| threads | what | forward | gradient of data | of weights |\n|---|---|---|---|---|")
    for threads in c.threads:
        os.sched_setaffinity(0, cores[:threads])
        worker = subprocess.Popen([c.torch, __file__, "--torch", "", "--worker", "--threads", str(threads), "--clock", c.clock],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for kind, case, graphs in cases:
            own, theirs = [], []
            for _ in range(c.rounds):
                own.append([milliseconds(c.build, text, c.clock) for text in graphs])
                worker.stdin.write(json.dumps([kind, case]) + "\n")
                worker.stdin.flush()
                theirs.append(json.loads(worker.stdout.readline()))
            cells = [f"{min(a):.3g} ({min(b) / min(a):.2g})" for a, b in zip(zip(*own), zip(*theirs))]
            print(f"| {threads} | {case[0]} | {' | '.join(cells + [''] * (3 - len(cells)))} |", flush=True)
        worker.stdin.close()
        worker.wait()


if __name__ == "__main__":
    main()
