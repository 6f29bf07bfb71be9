"""Reads the output of `trivium metrics export` with TensorBoard.

  event_files.py TRIVIUM

Exit status 77: the Python package tensorboard is not installed.
"""
import csv
import json
import math
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

try:
    from tensorboard.backend.event_processing.event_accumulator import SCALARS, EventAccumulator
    from tensorboard.backend.event_processing.event_multiplexer import EventMultiplexer
except ImportError:
    print("skipped: the Python package tensorboard is not installed")
    sys.exit(77)

TRIVIUM = os.path.abspath(sys.argv[1])


def write_run(path, steps, rng):
    """A metrics.jsonl with keys that come and go, and its records."""
    records = []
    for step in range(1, steps + 1):
        record = {"step": step * 7, "loss": rng.choice([None, rng.uniform(1, 9), 1e300]), "tokens": step * 16384, "time": 1.7e9 + step / 8}
        if rng.random() < 0.2:
            record["valid_loss"] = rng.gauss(0, 1e-3)
        if rng.random() < 0.1:
            record["skipped"] = True
        records.append(record)
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps(r) + "\n" for r in records) + '{"step": 99999, "lo')
    return records


def as_f32(value):
    if value is None:
        return math.nan
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.inf


def check_scalars(accumulator, records):
    keys = {key for record in records for key in record} - {"step", "time"}
    assert set(accumulator.Tags()[SCALARS]) == keys, accumulator.Tags()
    for key in keys:
        events = accumulator.Scalars(key)
        expected = [(r["step"], r["time"], as_f32(r[key])) for r in records if key in r]
        assert len(events) == len(expected), (key, len(events), len(expected))
        for event, (step, time, value) in zip(events, expected):
            same = event.value == value or (math.isnan(event.value) and math.isnan(value))
            assert event.step == step and event.wall_time == time and same, (key, event, step, time, value)


def check_csv(path, runs):
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    expected = [(name, record) for name, records in runs for record in records]
    assert len(rows) == len(expected)
    for row, (name, record) in zip(rows, expected):
        assert row.pop("run") == name
        for key, text in row.items():
            if key not in record:
                assert text == "", (key, text)
            elif record[key] is None:
                assert text == "nan", (key, text)
            else:
                assert float(text) == record[key], (key, text, record[key])


def main():
    rng = random.Random(5)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        runs = [(run, write_run(folder / run / "logs/metrics.jsonl", 400, rng)) for run in ("first", "second run")]

        def export(*arguments):
            subprocess.run([TRIVIUM, "metrics", "export", *arguments], cwd=folder, check=True, stderr=subprocess.DEVNULL)

        export("first/logs", "--format", "tensorboard", "--output", "one")
        accumulator = EventAccumulator(str(folder / "one"), size_guidance={SCALARS: 0})
        accumulator.Reload()
        check_scalars(accumulator, runs[0][1])
        for _ in range(2):  # a second export replaces the first
            export("first/logs", "second run/logs/metrics.jsonl", "--format", "tensorboard", "--output", "both")
        multiplexer = EventMultiplexer(size_guidance={SCALARS: 0}).AddRunsFromDirectory(str(folder / "both"))
        multiplexer.Reload()
        assert set(multiplexer.Runs()) == {"first", "second run"}, multiplexer.Runs()
        for run, records in runs:
            check_scalars(multiplexer.GetAccumulator(run), records)
        export("first/logs", "second run/logs", "--format", "csv", "--output", "both.csv")
        check_csv(folder / "both.csv", runs)
        # TensorBoard verifies the checksums: it stops at a flipped bit.
        path = next((folder / "one").iterdir())
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
        broken = EventAccumulator(str(folder / "one"), size_guidance={SCALARS: 0})
        broken.Reload()
        assert len(broken.Scalars("tokens")) < len(runs[0][1])
    print("TensorBoard files and CSV contain what was written")


main()
