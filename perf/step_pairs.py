#!/usr/bin/env python3
"""The training step of this build beside that of another build and of PyTorch, on the host, interleaved.

    perf/step_pairs.py --other ../before/build --torch venv/bin/python --pairs 5 --threads 2 [KEY=VALUE ...]

GPT-2 124M, batch 4 x 256, f32 and bf16; other keys replace those of the builds. Per program: the median over the pairs of each run's median step, with least and most,
and how many times as fast this build is (the median of the ratios of each pair). MFU is relative to the best product of the same
run.
"""
import argparse
import json
import pathlib
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent


def last_json(command):
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.strip().splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build", type=pathlib.Path)
    parser.add_argument("--other", type=pathlib.Path, help="the build folder of another commit")
    parser.add_argument("--torch", help="a Python with PyTorch")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--precision", nargs="+", default=["f32", "bf16"])
    parser.add_argument("keys", nargs="*", metavar="KEY=VALUE", help="of the config, such as model.family=llama; not for PyTorch")
    c = parser.parse_args()

    def step(build, precision):
        return last_json([build / "perf/step_bench/perf_step", "--json", "--threads", str(c.threads), "--steps", str(c.steps),
                          "train.precision=" + precision, *c.keys])

    def torch(precision):
        return last_json([c.torch, ROOT / "perf/compare_torch.py", "--device", "cpu", "--precision", precision, "--threads", str(c.threads),
                          "--vocab", "50257", "--seq", "256", "--micro-batch", "4", "--global-batch", "4", "--steps", str(c.steps), "--json"])

    programs = {"this": lambda p: step(c.build, p)}
    if c.other:
        programs["other"] = lambda p: step(c.other, p)
    if c.torch:
        programs["torch"] = torch
    print("precision  program    step: median (least, most)   this is    MFU")
    for precision in c.precision:
        runs = {name: [] for name in programs}
        for _ in range(c.pairs):
            for name, run in programs.items():
                runs[name].append(run(precision))
        own = [r["step_seconds"] for r in runs["this"]]
        for name, all_runs in runs.items():
            seconds = [r["step_seconds"] for r in all_runs]
            ratio = statistics.median(theirs / mine for theirs, mine in zip(seconds, own))
            mfu = "" if name == "torch" else f"{100 * statistics.median(r['mfu'] for r in all_runs):.0f} %"
            print(f"{precision:9}  {name:9}  {statistics.median(seconds):7.3f} s ({min(seconds):.3f}, {max(seconds):.3f})   {ratio:5.2f} x   {mfu}", flush=True)


if __name__ == "__main__":
    main()
