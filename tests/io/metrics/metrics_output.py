"""Outputs of `trivium metrics`: it never overwrites the run's own files, and can write to pipes.

  metrics_output.py TRIVIUM
"""
import os
import pathlib
import signal
import stat
import subprocess
import sys
import tempfile

TRIVIUM = os.path.abspath(sys.argv[1])
STDOUT = "/dev/fd/1"  # like /dev/stdout, in whose folder root could make files
FORMS = (["curve"], ["export", "--format", "csv"], ["report"])


def metrics(form, run, output, **more):
    return subprocess.run([TRIVIUM, "metrics", *form, str(run), "-o", str(output)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, **more)


def make_run(folder, steps=3):
    folder.mkdir()
    (folder / "metrics.jsonl").write_text("".join(f'{{"step":{i},"loss":{1 / i}}}\n' for i in range(1, steps + 1)))
    (folder / "metrics.superseded.jsonl").write_text('{"step":3,"loss":9}\n')
    (folder / "launches.jsonl").write_text('{"launch":1,"event":"start","time":"2026-11-22T00:10:00Z","ranks":1,"nodes":1,"grid":"","step":0}\n')
    return folder


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def own_files(folder):
    """Each file of the run is refused as an output, by every path to it."""
    run = make_run(folder / "run")
    before = contents(run)
    (folder / "sub").mkdir()
    (folder / "symbolic").symlink_to("run/metrics.jsonl")
    (folder / "other-folder").symlink_to("run")
    os.link(run / "metrics.jsonl", folder / "hard")
    outputs = [run / name for name in before]
    outputs += [folder / "sub/../run/metrics.jsonl", folder / "symbolic", folder / "other-folder/launches.jsonl", folder / "hard"]
    for form in FORMS:
        for given in (run, run / "metrics.jsonl", folder / "symbolic"):
            for output in outputs:
                done = metrics(form, given, output)
                assert done.returncode == 2 and b"own file" in done.stderr and b"remedy" in done.stderr, (form, given, output, done)
                assert contents(run) == before, (form, output)
    for file in ("metrics.superseded.jsonl", "launches.jsonl"):
        assert metrics(["export", "--format", "csv"], run / file if "metrics" in file else run, run / "metrics.jsonl").returncode == 2
    # A file that does not exist yet: the run would append to it.
    (run / "launches.jsonl").unlink()
    (folder / "to-be").symlink_to("run/launches.jsonl")
    for output in (run / "launches.jsonl", folder / "to-be"):
        assert metrics(["report"], run, output).returncode == 2
        assert not (run / "launches.jsonl").exists()
    # Files of a second run, or a folder of event files in their place; other files in the folder are allowed.
    second = make_run(folder / "second")
    assert metrics(["export", "--format", "csv", str(run)], second, run / "metrics.jsonl").returncode == 2
    assert metrics(["export", "--format", "tensorboard"], run, run / "metrics.jsonl").returncode == 2
    assert (run / "metrics.jsonl").read_bytes() == before["metrics.jsonl"]
    for form in FORMS:
        done = metrics(form, run, run / form[0])
        assert done.returncode == 0 and (run / form[0]).stat().st_size > 0, done


def other_kinds(folder):
    """A file of another kind is replaced only with --force, one of the same kind always."""
    run = make_run(folder / "run")
    config = folder / "run.toml"
    config.write_text("[model]\n")
    outputs = {form[0]: folder / form[0] for form in FORMS}
    for form in FORMS:
        assert all(metrics(form, run, outputs[form[0]]).returncode == 0 for again in range(2))
        for other in (config, *(path for name, path in outputs.items() if name != form[0])):
            before = other.read_bytes() if other.exists() else None
            if before is None:
                continue
            done = metrics(form, run, other)
            assert done.returncode == 2 and b"another kind" in done.stderr and b"--force" in done.stderr, (form, other, done)
            assert other.read_bytes() == before
    assert metrics(["report", "--force"], run, config).returncode == 0 and config.stat().st_size > 100


def pipes(folder):
    """A pipe receives the same bytes as a file; a closed pipe ends the program."""
    run = make_run(folder / "run", 20_000)
    for form in FORMS:
        (folder / "file").unlink(missing_ok=True)
        assert metrics(form, run, folder / "file").returncode == 0
        through = metrics(form, run, STDOUT)
        assert through.returncode == 0 and through.stdout == (folder / "file").read_bytes(), (form, through.stderr)
    os.mkfifo(folder / "pipe")
    with subprocess.Popen(["cat", str(folder / "pipe")], stdout=subprocess.PIPE) as reader:
        assert metrics(["report"], run, folder / "pipe").returncode == 0
        assert reader.communicate()[0] == (folder / "file").read_bytes()
    assert stat.S_ISFIFO((folder / "pipe").stat().st_mode)
    assert sorted(os.listdir(folder)) == ["file", "pipe", "run"]
    for ignored in (False, True):
        program = subprocess.Popen([TRIVIUM, "metrics", "export", "--format", "csv", str(run), "-o", STDOUT],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, restore_signals=not ignored)
        assert program.stdout.read(5) == b"step,"
        program.stdout.close()
        stderr = program.stderr.read().decode()
        program.stderr.close()
        assert program.wait(60) == (1 if ignored else -signal.SIGPIPE), stderr
        assert stderr == "" if not ignored else STDOUT in stderr and "Broken pipe" in stderr and "reads it" in stderr, stderr


def main():
    for check in (own_files, other_kinds, pipes):
        with tempfile.TemporaryDirectory() as name:
            check(pathlib.Path(name))
    print("all outputs have the right content, and no other files were written")


main()
