"""perf/gpu-check without a GPU: its help, table, losses, time limits, packing. python3 gpu_check_test.py ROOT"""
import argparse
import copy
import json
import os
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

ROOT = sys.argv.pop(1)
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(ROOT, "perf", "gpu_check"))

import losses  # noqa: E402
import pack  # noqa: E402
import run  # noqa: E402
import table  # noqa: E402

PRINTED = """\
Linking …
{"name": "rms_norm 16384x4096", "error": 0.0031, "tolerance": 0.02, "seconds": 0.0000712, "share": 0.912, \
"verdict": "passed", "note": "3.9 TB/s"}
{"name": "attention", "error": 0.5, "tolerance": 0.02, "seconds": 0.0021, "share": 0.41, "verdict": "passed"}
{"no name": 1}
{"stage": "nccl", "name": "nccl_8", "seconds": 12.5, "verdict": "skipped", "note": "no device"}
{"name": "cut of"""

EXPECTED = """\
stage  what                   error  tolerance     time  ceiling  verdict
       rms_norm 16384x4096  3.1e-03      2e-02  71.2 us     91 %  passed   3.9 TB/s
       attention            5.0e-01      2e-02  2.10 ms     41 %  FAILED
nccl   nccl_8                                   12.50 s           skipped  no device
1 passed, 1 failed, 1 skipped"""


def gpu_check(*arguments):
    command = [os.path.join(ROOT, "perf", "gpu-check"), *arguments]
    env = dict(os.environ, PYTHONDONTWRITEBYTECODE="1")
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env)


class Table(unittest.TestCase):
    def test_rows_are_found_among_other_lines_and_printed(self):
        rows = list(table.rows_of(PRINTED.splitlines()))
        self.assertEqual(table.table(rows), EXPECTED)

    def test_what_is_no_pass(self):
        self.assertFalse(table.failed({"name": "a", "verdict": "passed", "error": 1, "tolerance": 2}))
        self.assertFalse(table.failed({"name": "a", "verdict": "skipped"}))
        self.assertTrue(table.failed({"name": "a", "verdict": "passed", "error": float("nan"), "tolerance": 2}))
        self.assertTrue(table.failed({"name": "a"}))


def kept_steps():
    return [{"step": i, "loss": 11 - i / 2, "grad_norm": 3 + i} for i in range(1, losses.CONFIG["train.steps"] + 1)]


class Losses(unittest.TestCase):
    def setUp(self):
        self.kept = kept_steps()
        self.found = copy.deepcopy(self.kept)

    def verdict(self, precision="f32"):
        row = losses.compare(self.kept, self.found, precision)
        return ("failed" if table.failed({"name": "train", **row}) else "passed"), row

    def test_equal_and_almost_equal_numbers_pass(self):
        self.assertEqual(self.verdict()[0], "passed")
        tolerance = losses.TOLERANCES["f32"]
        self.found[4]["loss"] *= 1 + tolerance["loss"] / 2
        self.found[6]["grad_norm"] *= 1 - tolerance["grad_norm"] / 4
        verdict, row = self.verdict()
        self.assertEqual((verdict, row["tolerance"]), ("passed", tolerance["loss"]))
        self.assertAlmostEqual(row["error"], tolerance["loss"] / 2, delta=1e-9)
        self.assertIn("loss of step 5", row["note"])

    def test_a_number_that_differs_too_much_fails_and_names_its_step(self):
        for key in ("loss", "grad_norm"):
            for sign in (-1, 1):
                self.setUp()
                self.found[2][key] *= 1 + sign * 1.5 * losses.TOLERANCES["f32"][key]
                self.found[5][key] *= 1 + sign * 3 * losses.TOLERANCES["f32"][key]
                verdict, row = self.verdict()
                self.assertEqual(verdict, "failed")
                self.assertIn(f"{key} of step 6: ", row["note"])
                self.assertIn(f"from step 3 ({key})", row["note"])
                self.assertEqual(self.verdict("bf16")[0], "passed")

    def test_a_missing_step_fails(self):
        del self.found[3]
        self.assertEqual(self.verdict(), ("failed", {"verdict": "failed", "note": "step 4 is missing"}))
        self.found = []
        self.assertEqual(self.verdict()[1]["note"], "step 1 is missing")
        self.kept = []
        self.assertEqual(self.verdict()[0], "failed")

    def test_what_is_not_a_number_fails(self):
        for value in (None, float("nan"), float("inf"), "1"):
            self.setUp()
            self.found[1]["loss"] = value
            verdict, row = self.verdict()
            self.assertEqual((verdict, row["note"]), ("failed", "loss of step 2 is not a number"))
        del self.found[0]["grad_norm"]
        self.assertEqual(self.verdict()[1]["note"], "grad_norm of step 1 is not a number")

    def test_the_speed_leaves_out_the_warm_up_and_needs_a_loss_that_falls(self):
        steps = losses.SPEED["train.steps"]
        found = [{"loss": 9 - i / 9, "step_seconds": 0.25, "tokens_per_second": 1e6, "mfu": 0.5} for i in range(steps)]
        for line in found[: losses.WARM_UP_STEPS]:
            line.update(step_seconds=9, tokens_per_second=1, mfu=0)
        row = losses.speed(found)
        self.assertEqual((row["verdict"], row["seconds"]), ("passed", 0.25))
        self.assertIn("1000000 tokens/s, 50.0 %", row["note"])
        self.assertEqual(losses.speed(found[1:])["verdict"], "failed")
        self.assertEqual(losses.speed(found[::-1])["verdict"], "failed")
        found[7]["loss"] = None
        self.assertEqual(losses.speed(found)["note"], f"{steps - 1} of {steps} steps have a finite loss")

    def test_the_kept_losses_are_those_of_the_run_that_is_described(self):
        kept, reason = losses.load()
        self.assertIsNone(reason)
        self.assertEqual([line["step"] for line in kept["steps"]], list(range(1, losses.CONFIG["train.steps"] + 1)))
        self.assertEqual(losses.compare(kept["steps"], kept["steps"], "f32")["verdict"], "passed")

    def test_the_text_is_the_same_with_every_python(self):
        digest = "03b979bef341cb997c63f9dc96f6573fc50a8891e2784775e849b8116f386bea"
        self.assertEqual(losses.description()["text_sha256"], digest)


# A program that makes an empty token store, and "trains" with the steps in the file STEPS, or all but the last in bf16.
PROGRAM = """#!{python}
import json, os, sys
if sys.argv[1] == "data":
    open(sys.argv[-1], "w").close()
    sys.exit(0)
config = dict(line.rstrip().split(" = ", 1) for line in open(sys.argv[2]))
config = {{key: json.loads(value) for key, value in config.items()}}
assert os.path.exists(config["data.train"])
os.makedirs(config["log.dir"])
with open(config["log.dir"] + "/metrics.jsonl", "w") as file:
    if config["train.global_batch"] == 16:
        for i in range(config["train.steps"]):
            line = dict(step=i + 1, loss=9 - i / 9, step_seconds=0.25, tokens_per_second=1e6, mfu=0.5)
            print(json.dumps(line), file=file)
    else:
        steps = json.load(open({steps!r}))
        for line in steps[:-1] if config["train.precision"] == "bf16" else steps:
            print(json.dumps(line), file=file)
"""


class Command(unittest.TestCase):
    def test_help(self):
        for arguments in (["--help"], ["run", "--help"]):
            result = gpu_check(*arguments)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("--plan", result.stdout)

    def test_mistakes_are_refused(self):
        commands = [([], "usage"), (["run", "/nowhere"], "programs.tar.xz"), (["run", "/x", "--only", "y"], "no stage 'y'")]
        commands += [(["prepare"], "DIR"), (["prepare", "x", "--kokkos", "/x"], "--kokkos")]
        commands += [(["prepare", "--sources"], "where to"), (["prepare", "--sources", "x"], "--kokkos")]
        for arguments, word in commands:
            result = gpu_check(*arguments)
            self.assertEqual(result.returncode, 2, arguments)
            self.assertIn(word, result.stderr)


class Tasks(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        options = argparse.Namespace(build=self.folder.name, out=os.path.join(self.folder.name, "out"), tiny=False)
        self.run = run.Run(options)
        self.run.device, self.run.memory = "a device", 1
        os.makedirs(self.run.programs)

    def tearDown(self):
        self.folder.cleanup()

    def train(self):
        steps = os.path.join(self.folder.name, "steps.json")
        with open(steps, "w", encoding="utf-8") as file:
            json.dump(kept_steps(), file)
        (program,) = self.run.program("trivium")
        with open(program, "w", encoding="utf-8") as file:
            file.write(PROGRAM.format(python=sys.executable, steps=steps))
        os.chmod(program, 0o755)
        rows = []
        with unittest.mock.patch.object(losses, "KEPT", os.path.join(self.folder.name, "losses.json")):
            for name in ("f32", "bf16", "speed"):
                rows += run.train(60, name).rows(self.run, 60)
        return [(row["name"], row["verdict"], row["note"]) for row in rows]

    def test_training_runs_are_compared(self):
        kept = {**losses.description(), "steps": kept_steps()}
        with open(os.path.join(self.folder.name, "losses.json"), "w", encoding="utf-8") as file:
            json.dump(kept, file)
        f32, bf16, speed = self.train()
        self.assertEqual(f32[:2], ("gpt2-124m f32, 8 steps of 2 x 1024", "passed"))
        self.assertEqual(bf16, ("gpt2-124m bf16, 8 steps of 2 x 1024", "failed", "step 8 is missing"))
        self.assertEqual(speed[:2], ("gpt2-124m bf16, 20 steps of 16 x 1024", "passed"))
        for name in ("f32", "bf16", "speed"):
            self.assertTrue(os.path.exists(os.path.join(self.run.out, f"train-{name}.jsonl")))

    def test_the_speed_is_measured_also_where_the_losses_are_of_another_config(self):
        self.assertIn("losses.json is missing", self.train()[0][2])
        self.assertEqual([row[1] for row in self.train()], ["failed", "failed", "passed"])
        with open(os.path.join(self.folder.name, "losses.json"), "w", encoding="utf-8") as file:
            json.dump({**losses.description(), "config": {}, "steps": []}, file)
        rows = self.train()
        self.assertEqual([row[1] for row in rows], ["failed", "failed", "passed"])
        self.assertIn("another config", rows[0][2])

    def test_a_command_gives_its_rows_and_one_of_its_own(self):
        script = """echo '{"name": "x", "verdict": "passed"}'; echo skipped: no device"""
        rows = self.run.row("kernels", "bench", ["sh", "-c", script], 60)
        found = [(row["stage"], row["name"], row["verdict"]) for row in rows]
        self.assertEqual(found, [("kernels", "x", "passed"), ("kernels", "bench", "skipped")])
        self.assertEqual(rows[1]["note"], "no device")

    def test_a_command_ends_with_its_time_and_keeps_what_it_printed(self):
        script = """echo '{"name": "x", "verdict": "passed"}'; sleep 60; echo late"""
        rows = self.run.row("kernels", "bench", ["sh", "-c", script], 1)
        self.assertEqual([row["verdict"] for row in rows], ["passed", "failed"])
        self.assertIn("time was up", rows[1]["note"])
        self.assertLess(rows[1]["seconds"], 30)

    def test_a_command_that_fails_or_is_not_there(self):
        self.assertEqual(self.run.row("step", "a", ["false"], 60)[0]["note"], "status 1")
        (row,) = run.step(60, "gpt2-124m").rows(self.run, 60)
        self.assertEqual(row["verdict"], "failed")
        self.assertIn("perf_step", row["note"])

    def test_a_program_that_crashes_on_the_device_runs_again_with_launches_that_wait(self):
        script = """echo "CUDA failed: $CUDA_LAUNCH_BLOCKING"; exit 1"""
        self.run.row("step", "a", ["sh", "-c", script], 60)
        self.assertEqual(self.run.said["step: a, again"], "CUDA failed: 1\n")

    def test_without_time_or_device_a_task_is_skipped_and_an_exception_is_a_row(self):
        task = run.Task("step", "a", 60, lambda run, left: 1 / 0)
        self.assertIn("ZeroDivisionError", task.rows(self.run, 60)[0]["note"])
        self.assertEqual(task.rows(self.run, 1)[0]["verdict"], "skipped")
        self.run.device, self.run.memory = None, "no driver"
        self.assertEqual(task.rows(self.run, 60)[0]["note"], "no driver")

    def test_where_nothing_trains_the_rest_is_left_out(self):
        row = {"stage": "train", "name": "f32", "verdict": "failed"}
        self.assertTrue(run.is_broken([row] * 3))
        self.assertFalse(run.is_broken([row] * 2))
        self.assertFalse(run.is_broken([row] * 3 + [dict(row, verdict="passed")]))

    def test_steps_and_their_operations_from_perf_step(self):
        found = dict(step_seconds=0.5, tokens_per_second=1e4, mfu=0.4, peak_flops_per_second=9e14, arena_bytes=1e9)
        found.update(measured_product_flops_per_second=6e14, loss=3, device_bytes_beside_arena=1, stated_bytes=2, used_bytes=1e9)
        found["ops"] = [{"op": "matmul", "seconds": 0.3, "flops": 3e13}, {"op": "add", "seconds": 0.1, "flops": 0}]
        (program,) = self.run.program("perf_step")
        with open(program, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\necho '{json.dumps(found)}'\n")
        os.chmod(program, 0o755)
        row, memory = run.step(60, "gpt2-124m", "own").rows(self.run, 60)
        self.assertEqual((row["name"], row["verdict"], row["seconds"]), ("gpt2-124m, own", "passed", 0.5))
        self.assertAlmostEqual(row["share"], 0.6)
        self.assertEqual(memory["verdict"], "passed")
        self.assertEqual(next(run.ops(found)), "       75.0 %    300.00 ms  matmul, 100 TFLOP/s")


class Packing(unittest.TestCase):
    def test_a_program_is_packed_with_its_libraries_but_not_the_system_s(self):
        with tempfile.TemporaryDirectory() as work:
            folder = pack.Folder(os.path.join(work, "packed"))
            folder.program(os.path.realpath(sys.executable), "programs", "python")
            folder.finish()
            self.assertTrue(os.access(os.path.join(folder.at, "programs", "python"), os.X_OK))
            packed = os.listdir(os.path.join(folder.at, "lib")) if folder.libraries else []
            self.assertEqual(sorted(packed), sorted(folder.libraries))
            self.assertFalse([name for name in packed if name.startswith(("libc.so", "libm.so", "ld-linux"))])
        for name in ("libc.so.6", "ld-linux-x86-64.so.2", "libstdc++.so.6", "libcublasLt.so.13", "libcudnn.so.9", "libcuda.so.1"):
            self.assertTrue(pack.NOT_CARRIED.match(name), name)
        for name in ("libcudart.so.13", "libcurl.so.4", "libmpi.so.40", "libgomp.so.1"):
            self.assertFalse(pack.NOT_CARRIED.match(name), name)


unittest.main()
