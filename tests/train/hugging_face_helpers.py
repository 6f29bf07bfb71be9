"""What the tests against transformers share: runs of the programs, and comparisons."""

import pathlib
import subprocess
import sys

trivium, logits_program, ids_program = sys.argv[1:4]
tolerance = 1e-4


def run(*arguments, status=0):
    done = subprocess.run([str(a) for a in arguments], capture_output=True, text=True, errors="replace")
    assert done.returncode == status, f"{arguments}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout if "--json" in arguments else done.stdout + done.stderr


def logits_in_bytes(config, checkpoint, folder, ids):
    """Our logits after each of the ids: f32 [ids, vocabulary]."""
    output = pathlib.Path(folder) / "logits"
    run(logits_program, config, checkpoint, output, *ids)
    return output.read_bytes()
