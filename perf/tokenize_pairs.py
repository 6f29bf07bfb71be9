#!/usr/bin/env python3
"""Compares `trivium data tokenize` with Hugging Face's `tokenizers`: speed with as many threads, and ids.

  perf/tokenize_pairs.py [--trivium build/trivium] [--mb 200] [--threads 1,2] [--families gpt2,llama3,qwen,o200k] [--work FOLDER]

The text is what this machine has: documentation and sources, as JSON lines. The tokenizers are trained on a part of it with the
families' own patterns (no network); --tokenizer FILE… compares others. Each pair runs one after the other, and seconds of CPU are
printed next to those of the clock, because a busy machine disturbs the latter. Ids are compared on all of the text and on 3,000
tricky documents. Needs the Python packages tokenizers, numpy and h5py. Exit status 1: ids differ.
"""
import argparse
import gzip
import json
import os
import pathlib
import random
import resource
import subprocess
import sys
import time

import h5py
import numpy
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "io" / "tokens"))
import byte_bpe_check as checks  # noqa: E402

SOURCES = ["/usr/share/doc", "/usr/lib/python3", "/usr/lib/python3.11", "/usr/include", "/usr/share/perl", "/usr/lib/gcc", str(ROOT)]
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def pre_tokenizer(family):
    if family == "gpt2":
        return checks.byte_level(regex=True)
    pattern = {"llama3": checks.LLAMA3, "qwen": checks.QWEN, "o200k": O200K}[family]
    return checks.sequence(checks.split(pattern), checks.byte_level())


def documents(size):
    """About `size` bytes of text of this machine; files again, from another line on, if it has less."""
    draw = random.Random(1)
    paths = [p for root in SOURCES for p in sorted(pathlib.Path(root).rglob("*")) if p.is_file() and not p.is_symlink()]
    draw.shuffle(paths)
    found, total = [], 0
    for again in range(100):
        for path in paths:
            if total >= size:
                return found
            try:
                data = path.read_bytes()[:2_000_000]
                text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
            except (OSError, EOFError, UnicodeDecodeError):
                continue
            lines = text.split("\n")
            at = again * 7 % len(lines)
            text = "\n".join(lines[at:] + lines[:at])
            if text.strip() and "\0" not in text:
                found.append(text)
                total += len(text.encode())
    return found


def write_lines(path, texts):
    with open(path, "w", encoding="utf-8") as file:
        for text in texts:
            file.write(json.dumps({"text": text}, ensure_ascii=False) + "\n")


def train(family, texts, path):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer(family)
    tokenizer.decoder = decoders.ByteLevel()
    if family == "qwen":
        tokenizer.normalizer = normalizers.NFC()
    trainer = trainers.BpeTrainer(vocab_size=50256, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_special_tokens(["<|endoftext|>"])
    file = json.loads(tokenizer.to_str())
    file["model"]["ignore_merges"] = family == "llama3"
    path.write_text(json.dumps(file, ensure_ascii=False), encoding="utf-8")


def run_theirs(tokenizer_path, lines, out):
    """In a process of its own, with RAYON_NUM_THREADS set: prints seconds of clock and CPU; writes ids and begins."""
    tokenizer = Tokenizer.from_file(tokenizer_path)
    tokenizer.encode_special_tokens = True
    with open(lines, encoding="utf-8", newline="\n") as file:
        texts = [json.loads(line)["text"] for line in file]
    ids, counts = [], []
    clock, cpu = time.perf_counter(), time.process_time()
    batches = [tokenizer.encode_batch_fast(texts[at:at + 500], add_special_tokens=False) for at in range(0, len(texts), 500)]
    clock, cpu = time.perf_counter() - clock, time.process_time() - cpu
    for batch in batches:
        for encoding in batch:
            ids.append(numpy.array(encoding.ids, dtype=numpy.int64))
            counts.append(len(encoding.ids))
    numpy.savez(out, ids=numpy.concatenate(ids), counts=numpy.array(counts))
    print(json.dumps({"clock": clock, "cpu": cpu}))


def theirs(tokenizer, lines, out, threads):
    environment = {**os.environ, "RAYON_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "true" if threads > 1 else "false"}
    done = subprocess.run([sys.executable, __file__, "--theirs", tokenizer, lines, out], env=environment, check=True, capture_output=True, text=True)
    times = json.loads(done.stdout)
    return times["clock"], times["cpu"]


def ours(program, tokenizer, lines, out, threads):
    """Of the whole process: reading the text and writing the store included."""
    before, clock = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([program, "data", "tokenize", lines, "--tokenizer", tokenizer, "-o", out, "--force", "--threads", str(threads)],
                   check=True, capture_output=True)
    clock, after = time.perf_counter() - clock, resource.getrusage(resource.RUSAGE_CHILDREN)
    return clock, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def differing(store, reference):
    """Number of documents whose ids differ."""
    with h5py.File(store, "r") as file:
        tokens, offsets = file["tokens"][:].astype(numpy.int64), file["document_offsets"][:]
    saved = numpy.load(reference)
    ids, counts = saved["ids"], saved["counts"]
    if len(offsets) - 1 != len(counts):
        return abs(len(offsets) - 1 - len(counts))
    begins = numpy.concatenate([[0], numpy.cumsum(counts)])
    return sum(not numpy.array_equal(tokens[offsets[d]:offsets[d + 1] - 1], ids[begins[d]:begins[d + 1]]) for d in range(len(counts)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trivium", default=str(ROOT / "build" / "trivium"))
    parser.add_argument("--mb", type=float, default=200)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--families", default="gpt2,llama3,qwen,o200k")
    parser.add_argument("--tokenizer", nargs="*", default=[])
    parser.add_argument("--tricky", type=int, default=3000)
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("/tmp/tokenize_pairs"))
    parser.add_argument("--theirs", nargs=3, help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.theirs:
        run_theirs(*a.theirs)
        return 0
    a.work.mkdir(parents=True, exist_ok=True)
    texts = documents(a.mb * 1e6)
    size = sum(len(text.encode()) for text in texts)
    lines, tricky = a.work / "text.jsonl", a.work / "tricky.jsonl"
    write_lines(lines, texts)
    draw, every = random.Random(2), checks.characters(False)
    write_lines(tricky, [text for text in (checks.random_text(draw, every) for _ in range(a.tricky)) if text])
    print(f"{len(texts)} documents, {size / 1e6:.1f} MB of text, {lines.stat().st_size / 1e6:.1f} MB of JSON lines")
    tokenizers = [pathlib.Path(path) for path in a.tokenizer]
    for family in [] if tokenizers else a.families.split(","):
        path = a.work / f"{family}.json"
        if not path.exists():
            train(family, texts[:: max(1, round(size / 20e6))], path)
        tokenizers.append(path)
    bad = 0
    for path in tokenizers:
        for threads in map(int, a.threads.split(",")):
            store, reference = str(a.work / "ours.h5"), str(a.work / "theirs.npz")
            our_clock, our_cpu = ours(a.trivium, path, lines, store, threads)
            their_clock, their_cpu = theirs(path, lines, reference, threads)
            wrong = differing(store, reference)
            print(f"{path.stem}, {threads} threads: {size / our_clock / 1e6:.1f} MB/s of clock, {size / our_cpu / 1e6:.1f} of CPU; tokenizers "
                  f"{size / their_clock / 1e6:.2f} and {size / their_cpu / 1e6:.2f}; ratio {their_clock / our_clock:.1f} and "
                  f"{their_cpu / our_cpu:.1f}; {wrong} documents differ", flush=True)
            bad += wrong
        ours(a.trivium, path, tricky, store, 2)
        theirs(path, tricky, reference, 2)
        wrong = differing(store, reference)
        print(f"{path.stem}: {a.tricky} tricky documents, {wrong} differ", flush=True)
        bad += wrong
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
