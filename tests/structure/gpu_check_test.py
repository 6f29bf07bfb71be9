"""perf/gpu-check without a GPU: its help, its table, its time boxes. python3 gpu_check_test.py ROOT"""
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = sys.argv.pop(1)
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(ROOT, "perf", "gpu_check"))

import run  # noqa: E402
import table  # noqa: E402

PRINTED = """\
Linking …
{"name": "rms_norm 16384x4096", "error": 0.0031, "tolerance": 0.02, "seconds": 0.0000712, "share": 0.912, "verdict": "passed", "note": "3.9 TB/s"}
{"name": "attention", "error": 0.5, "tolerance": 0.02, "seconds": 0.0021, "share": 0.41, "verdict": "passed"}
{"no name": 1}
{"stage": "nccl", "name": "nccl_8", "seconds": 12.5, "verdict": "skipped", "note": "no device"}
{"name": "cut of"""

CTEST = """\
test 5
    Start 5: nccl_2

5: Test command: mpirun "-n" "2"
5: 2 ranks agree
5: {"name": "all_reduce", "verdict": "passed", "share": 0.5}
1/5 Test #5: nccl_2 ...........................   Passed    1.50 sec
test 6
    Start 6: nccl_4

6: skipped: no NVIDIA GPU (no driver)
2/5 Test #6: nccl_4 ...........................***Skipped   0.31 sec
    Start 7: nccl_6
7: got 1, want 2
3/5 Test #7: nccl_6 ...........................***Failed    0.31 sec
    Start 8: missing
4/5 Test #8: missing ..........................***Not Run   0.00 sec
    Start 9: nccl_8
9: waiting
"""

EXPECTED = """\
stage  what                   error  tolerance     time  ceiling  verdict
       rms_norm 16384x4096  3.1e-03      2e-02  71.2 us     91 %  passed   3.9 TB/s
       attention            5.0e-01      2e-02  2.10 ms     41 %  FAILED
nccl   nccl_8                                   12.50 s           skipped  no device
1 passed, 1 failed, 1 skipped"""


def gpu_check(*arguments):
    command = [os.path.join(ROOT, "perf", "gpu-check"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ, PYTHONDONTWRITEBYTECODE="1"))


class Table(unittest.TestCase):
    def test_rows_are_found_among_other_lines_and_printed(self):
        rows = list(table.rows_of(PRINTED.splitlines()))
        self.assertEqual(table.table(rows), EXPECTED)

    def test_what_is_no_pass(self):
        self.assertFalse(table.failed({"name": "a", "verdict": "passed", "error": 1, "tolerance": 2}))
        self.assertFalse(table.failed({"name": "a", "verdict": "skipped"}))
        self.assertTrue(table.failed({"name": "a", "verdict": "passed", "error": float("nan"), "tolerance": 2}))
        self.assertTrue(table.failed({"name": "a"}))


class CTest(unittest.TestCase):
    def test_each_test_is_a_row_also_where_time_was_up(self):
        rows = run.rows_of_ctest("nccl", CTEST)
        self.assertEqual(
            [(row["name"], row["verdict"], row.get("note", "")) for row in rows],
            [
                ("all_reduce", "passed", ""),
                ("nccl_2", "passed", ""),
                ("nccl_4", "skipped", "no NVIDIA GPU (no driver)"),
                ("nccl_6", "failed", "Failed"),
                ("missing", "failed", "Not Run"),
                ("nccl_8", "failed", "time was up"),
            ],
        )
        self.assertEqual({row["stage"] for row in rows}, {"nccl"})


class Command(unittest.TestCase):
    def test_help(self):
        for arguments in (["--help"], ["run", "--help"]):
            result = gpu_check(*arguments)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("--minutes", result.stdout)

    def test_mistakes_are_refused(self):
        for arguments, word in (([], "usage"), (["run", "/nowhere"], "carried"), (["prepare"], "where to"), (["prepare", "x"], "--kokkos")):
            result = gpu_check(*arguments)
            self.assertEqual(result.returncode, 2, arguments)
            self.assertIn(word, result.stderr)


class TimeBox(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.run = run.Run.__new__(run.Run)
        self.run.env = dict(os.environ)
        self.run.log = os.path.join(self.folder.name, "log")

    def tearDown(self):
        self.folder.cleanup()

    def test_a_command_gives_its_rows_and_one_of_its_own(self):
        rows = self.run.row("kernels", "bench", ["sh", "-c", """echo '{"name": "x", "verdict": "passed"}'; echo skipped: no device"""], 60)
        self.assertEqual([(row["stage"], row["name"], row["verdict"]) for row in rows], [("kernels", "x", "passed"), ("kernels", "bench", "skipped")])
        self.assertEqual(rows[1]["note"], "no device")

    def test_a_command_ends_with_its_time_and_keeps_what_it_printed(self):
        rows = self.run.row("kernels", "bench", ["sh", "-c", """echo '{"name": "x", "verdict": "passed"}'; sleep 60; echo late"""], 1)
        self.assertEqual([row["verdict"] for row in rows], ["passed", "failed"])
        self.assertIn("time was up", rows[1]["note"])
        self.assertLess(rows[1]["seconds"], 30)

    def test_a_command_that_fails_or_is_not_there(self):
        self.assertEqual(self.run.row("step", "a", ["false"], 60)[0]["note"], "status 1")
        with self.assertRaises(OSError):
            self.run.row("step", "a", ["/nowhere/perf_step"], 60)


unittest.main()
