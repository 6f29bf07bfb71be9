"""Reads the index of a checkpoint with other programs: h5py, and h5dump and h5ls if they are installed.

  checkpoint_index.py TRIVIUM TENSOR_DUMP

Each tensor must be one dataset of index.h5, by its name, with the bytes that TENSOR_DUMP reads from the shards.
Exit status 77: h5py is not installed.
"""
import math
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

try:
    import h5py
    import numpy
except ImportError:
    print("skipped: the Python package h5py is not installed")
    sys.exit(77)

sys.dont_write_bytecode = True
import plain_reader

TRIVIUM, TENSOR_DUMP = (os.path.abspath(path) for path in sys.argv[1:3])
TYPES = {"f32": "<f4", "f64": "<f8"}


def run(*command, cwd=None):
    return subprocess.run(command, cwd=cwd, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout


def tensors_of(checkpoint):
    """By name: (array, number of pieces). Omits scalars, because HDF5 has no virtual scalars."""
    tensors = {}
    with tempfile.TemporaryDirectory() as folder:
        run(TENSOR_DUMP, "dump", str(checkpoint), folder)
        for line in pathlib.Path(folder, "list").read_text().splitlines():
            facts, name = line.split("\t")
            number, kind, pieces, *shape = facts.split()
            if not shape:
                continue
            content = pathlib.Path(folder, number).read_bytes()
            tensors[name] = numpy.frombuffer(content, TYPES[kind]).reshape([int(extent) for extent in shape]), int(pieces)
    return tensors


def tensors_in(index):
    """Names of the tensors' datasets: all except the index's own lists."""
    found = []
    index.visititems(lambda name, item: found.append(name) if isinstance(item, h5py.Dataset) and not name.startswith("index/") else None)
    return sorted(found)


def check_same(got, want, what):
    assert got.dtype == want.dtype and got.shape == want.shape, f"{what}: {got.dtype} {got.shape}, not {want.dtype} {want.shape}"
    assert got.tobytes() == want.tobytes(), f"{what}: other values"


def check_index(path, tensors, what):
    with h5py.File(path, "r") as index:
        assert tensors_in(index) == sorted(tensors), f"{what}: holds {tensors_in(index)}"
        for name, (want, _) in tensors.items():
            dataset = index[name]
            check_same(dataset[()], want, f"{what}: {name}")
            for _ in range(4 if want.size else 0):  # any part of it
                part = tuple(slice(*sorted(random.sample(range(extent + 1), 2))) for extent in want.shape)
                check_same(numpy.asarray(dataset[part]), numpy.asarray(want[part]), f"{what}: {name}{part}")


def check_tools(folder, tensors):
    """HDF5's own tools read whole tensors too."""
    if shutil.which("h5ls"):
        listed = run("h5ls", "-r", str(folder / "index.h5"))
        for name in tensors:
            assert f"/{name} " in listed, f"h5ls does not list {name}:\n{listed}"
    if shutil.which("h5dump"):
        for name, (want, _) in tensors.items():
            if want.size == 0:
                continue
            with tempfile.TemporaryDirectory() as other:
                run("h5dump", "-d", "/" + name, "-b", "LE", "-o", "raw", str(folder / "index.h5"), cwd=other)
                assert pathlib.Path(other, "raw").read_bytes() == want.tobytes(), f"h5dump: {name} has other bytes"


def check_values(tensors):
    """The formula of tests/io/tiled_model.hpp."""
    for name, (found, _) in tensors.items():
        for i, value in enumerate(found.ravel()):
            want = math.sin(1 + i * 0.37 + len(name) + ord(name[0]))
            assert abs(value - want) < 1e-6, f"{name}[{i}] is {value}, not {want}"


def check_plain_reader(folder, tensors):
    """docs/checkpoint.md is sufficient to write a reader."""
    read = plain_reader.Checkpoint(folder).tensors(numpy)
    for name, (want, _) in tensors.items():
        check_same(read[name], want, f"{folder}, read with plain_reader: {name}")


def check_checkpoint(folder, work, in_pieces):
    tensors = tensors_of(folder)
    assert tensors
    check_plain_reader(folder, tensors)
    assert any(pieces > 1 for _, pieces in tensors.values()) == in_pieces
    os.chdir("/")
    check_index(str(folder / "index.h5"), tensors, f"{folder}, from another folder")
    os.chdir(folder.parent)
    check_index(os.path.join(folder.name, "index.h5"), tensors, f"{folder}, from beside it")
    os.chdir(folder)
    check_index("index.h5", tensors, f"{folder}, from in it")
    check_tools(folder, tensors)
    os.chdir("/")
    moved = work / "moved elsewhere" / "a name"
    moved.parent.mkdir(exist_ok=True)
    shutil.move(folder, moved)
    check_index(str(moved / "index.h5"), tensors, f"{folder}, moved")
    shutil.move(moved, folder)
    run(TRIVIUM, "checkpoint", "verify", str(folder))  # the readers changed nothing
    return tensors


def check_missing_shard(folder, tensors):
    """Values of a missing shard are NaN."""
    shards = sorted(folder.glob("shard-*.h5"))
    assert len(shards) > 1
    away = folder.parent / "away"
    shutil.move(shards[1], away)
    missing = 0
    with h5py.File(folder / "index.h5", "r") as index:
        for name, (want, _) in tensors.items():
            if want.size == 0:
                continue
            try:
                found = numpy.asarray(index[name][()])
            except OSError:
                missing += 1
                continue
            there = ~numpy.isnan(found)
            assert (found[there] == want[there]).all(), f"{name}: other values where a shard is missing"
            missing += int((~there).sum())
    assert missing > 0
    shutil.move(away, shards[1])


def check_run(work):
    """A checkpoint that `trivium train` wrote."""
    text = "the light of a river and stone was over mountains bright in\n" * 60
    (work / "text.txt").write_text(text)
    (work / "run.toml").write_text(
        '[model]\nlayers = 2\ndim = 12\nheads = 3\nffn_dim = 7\nseq = 8\n[data]\ntrain = "train.h5"\n[train]\nsteps = 2\nglobal_batch = 2\n'
        '[parallel]\nthreads = 1\n[checkpoint]\ndir = "ck"\n[log]\ndir = "log"\n')
    run(TRIVIUM, "data", "tokenize", "text.txt", "--tokenizer", "bytes", "--output", "train.h5", cwd=work)
    run(TRIVIUM, "train", "run.toml", cwd=work)
    tensors = check_checkpoint(work / "ck/step-00000002", work, False)
    parameters = [name for name in tensors if name.startswith("param/")]
    assert any("layers.0." in name for name in parameters), parameters
    for name in parameters:
        for moment in ("adam_m/", "adam_v/"):
            assert tensors[moment + name[6:]][0].shape == tensors[name][0].shape


def main():
    random.seed(1)
    os.environ.pop("HDF5_VDS_PREFIX", None)
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        run(TENSOR_DUMP, "save", str(work / "tiled"))
        checkpoints = sorted((work / "tiled").glob("*/step-00000001"))
        assert len(checkpoints) > 5
        for checkpoint in checkpoints:
            tensors = check_checkpoint(checkpoint, work, checkpoint.parent.name != "0")
            check_values(tensors)
            if checkpoint.parent.name != "0":
                check_missing_shard(checkpoint, tensors)
        check_run(work)
    tools = ", ".join(tool for tool in ("h5ls", "h5dump") if shutil.which(tool))
    print(f"{len(checkpoints) + 1} checkpoints, h5py {h5py.__version__}{', ' if tools else ''}{tools}")


main()
