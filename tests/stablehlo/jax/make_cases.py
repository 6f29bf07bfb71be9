"""Exports functions.py with JAX, and keeps texts, arguments and results for jax_functions_test.cpp.

    pip install jax==0.10.2 numpy
    python make_cases.py               # writes the .cases files of this folder

A file has several functions: a line "=== NAME", the StableHLO text, a line "---", then a line per tensor: what it is (in,
out, or grad: the gradient of a scalar result by a floating-point argument), its number, its element type, its elements.
"""
import os
import re

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import export  # noqa: E402

import functions  # noqa: E402


def short(text):
    """Without indentation and places in files, which take most of the text, but with the names of arguments."""
    names = dict(re.findall(r'^(#loc\d*) = loc\(("[^"/]*")\)$', text, re.M))
    lines = [line.strip() for line in text.split("\n") if not line.startswith("#loc") and line.strip()]
    text = "\n".join(lines) + "\n"

    def location(match):
        inside = match[1]
        return f" loc({inside})" if re.fullmatch(r'"[^"/]*"', inside) and match[2] else ""
    text = re.sub(r' loc\((#loc\d*)\)', lambda m: f" loc({names[m[1]]})" if m[1] in names else "", text)
    text = re.sub(r' loc\(((?:"[^"]*"|[^()]|\([^()]*\))*)\)(?=([,)]?))', location, text)
    return text


def tensor(kind, number, array):
    array = np.asarray(array)
    if array.dtype in (bool, np.uint32):  # i32 in a graph: 0 or 1, or the same bits
        array = array.astype(np.int32)
    kind_of = {"float32": "f32", "int32": "i32", "bfloat16": "bf16"}[array.dtype.name]
    numbers = array.astype(np.float64).ravel() if kind_of != "i32" else array.ravel()
    return f"{kind} {number} {kind_of} " + " ".join(f"{x:.6g}" if kind_of != "i32" else str(x) for x in numbers) + "\n"


def case(name, function, arguments):
    text = short(export.export(function)(*arguments).mlir_module())
    flat, tree = jax.tree.flatten(arguments)
    results = jax.tree.leaves(function(*arguments))
    values = "".join(tensor("in", i, a) for i, a in enumerate(flat))
    values += "".join(tensor("out", i, r) for i, r in enumerate(results))
    floats = [i for i, a in enumerate(flat) if np.asarray(a).dtype == np.float32]
    if len(results) == 1 and np.ndim(results[0]) == 0 and not name.startswith("mhlo"):
        def scalar(chosen):
            mixed = list(flat)
            for i, value in zip(floats, chosen):
                mixed[i] = value
            return function(*jax.tree.unflatten(tree, mixed))
        gradients = jax.grad(scalar)([jnp.asarray(flat[i]) for i in floats])
        values += "".join(tensor("grad", i, g) for i, g in zip(floats, gradients))
    return f"=== {name}\n{text}---\n{values}"


def main():
    texts = {file: "".join(case(*c) for c in cases) for file, cases in functions.CASES.items()}
    texts["annotated"] += "".join(case(*c) for c in functions.with_older_annotations())
    for file, text in texts.items():
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), file + ".cases")
        with open(path, "w", encoding="ascii") as out:
            out.write(text)


if __name__ == "__main__":
    main()
