"""What the tests against other programs share: runs of ours, models, and comparisons."""

import array
import importlib
import json
import os
import pathlib
import struct
import subprocess
import sys
import zlib

trivium, logits_program, ids_program = sys.argv[1:4]
tolerance = 1e-4


def require(*packages):
    """The modules of these names, or exit status 77 with the reason, which ctest reports as skipped."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    try:
        modules = [importlib.import_module(package) for package in packages]
    except Exception as reason:  # not only ImportError: a broken package may raise anything
        print(f"skipped: {sys.executable} has not {', '.join(packages)}: {reason}")
        sys.exit(77)
    for module in modules:
        if module.__name__ == "transformers":
            module.utils.logging.set_verbosity_error()
            module.utils.logging.disable_progress_bar()
        elif module.__name__ == "torch":
            module.set_num_threads(1)
    return modules


def run(*arguments, status=0):
    done = subprocess.run([str(a) for a in arguments], capture_output=True, text=True, errors="replace")
    assert done.returncode == status, f"{arguments}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout if "--json" in arguments else done.stdout + done.stderr


def logits_in_bytes(config, checkpoint, folder, ids):
    """Our logits after each of the ids: f32 [ids, vocabulary]."""
    output = pathlib.Path(folder) / "logits"
    run(logits_program, config, checkpoint, output, *ids)
    return output.read_bytes()


def our_ids(tokenizer, all_texts):
    lines = "".join(text.encode().hex() + "\n" for text in all_texts)
    done = subprocess.run([ids_program, tokenizer], input=lines, capture_output=True, text=True, check=True)
    rows = [line.partition("|") for line in done.stdout.splitlines()]
    return [[int(i) for i in row[0].split()] for row in rows], [bytes.fromhex(row[2]).decode() for row in rows]


def values_of(name, shape, class_name):
    """Uniform, by a hash of name and index (the last steps of MurmurHash3)."""
    count, start, centre, width = 1, zlib.crc32(name.encode()), 0.0, 0.45
    for extent in shape:
        count *= extent
    if len(shape) == 1:
        width = 0.3
        if name.endswith("weight") and not class_name.startswith("Gemma"):
            centre = 1.0
    values = array.array("f")
    for i in range(count):
        x = (start + i * 0x9E3779B1) & 0xFFFFFFFF
        x = ((x ^ (x >> 16)) * 0x85EBCA6B) & 0xFFFFFFFF
        x = ((x ^ (x >> 13)) * 0xC2B2AE35) & 0xFFFFFFFF
        values.append(centre + width * ((x ^ (x >> 16)) / 2**31 - 1))
    return values


def write_folder(folder, config, shapes, class_name):
    """What save_pretrained writes, without its packages."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    header, data = {}, b""
    for name, shape in shapes.items():
        values = values_of(name, shape, class_name).tobytes()
        header[name] = dict(dtype="F32", shape=shape, data_offsets=[len(data), len(data) + len(values)])
        data += values
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(head)) + head + data)


def largest_difference(ours, theirs):
    return max(abs(a - b) / (1 + abs(b)) for a, b in zip(ours, theirs, strict=True))
