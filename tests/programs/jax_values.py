#!/usr/bin/env python3
"""What JAX computes for random programs, kept for tests/programs/jax_programs_test.cpp.

    jax_values.py TEST_RANDOM_PROGRAMS COUNT >tests/programs/jax.values

The test program writes the programs of COUNT seeds without shardings, with the tensors that they read. A line of the
output: seed, the sum of all elements of all outputs with weights, the sum of their magnitudes. Programs that JAX cannot
express (a scatter outside of its tensor, or one that overwrites) are left out; stderr counts them by reason.
"""
import collections
import json
import os
import re
import subprocess
import sys
import tempfile

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("XLA_FLAGS", "--xla_allow_excess_precision=false --xla_backend_optimization_level=0 "
                                   "--xla_llvm_disable_expensive_passes=true --xla_cpu_multi_thread_eigen=false")
import jax

jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp
import numpy as np
from jax import lax

TYPES = {"f64": jnp.float64, "f32": jnp.float32, "bf16": jnp.bfloat16, "i32": jnp.int32}
UNARY = {"negate": lax.neg, "abs": lax.abs, "sign": lax.sign, "exp": lax.exp, "expm1": lax.expm1, "log": lax.log, "log1p": lax.log1p,
         "sqrt": lax.sqrt, "rsqrt": lax.rsqrt, "tanh": lax.tanh, "sigmoid": lax.logistic, "sin": lax.sin, "cos": lax.cos, "erf": lax.erf,
         "floor": jnp.floor, "ceil": jnp.ceil}
BINARY = {"add": lax.add, "subtract": lax.sub, "multiply": lax.mul, "divide": lax.div, "maximum": lax.max, "minimum": lax.min,
          "power": lax.pow, "remainder": lax.rem}
LOGIC = {"logical_and": lax.bitwise_and, "logical_or": lax.bitwise_or, "logical_xor": lax.bitwise_xor}  # of integers
COMPARE = {"eq": lax.eq, "ne": lax.ne, "lt": lax.lt, "le": lax.le, "gt": lax.gt, "ge": lax.ge}
REDUCE = {"sum": jnp.sum, "product": jnp.prod, "max": jnp.max, "min": jnp.min}


class Unsupported(Exception):
    pass


def numbers(attributes, name, otherwise=None):
    text = attributes.get(name)
    return list(otherwise) if text is None else [int(n) for n in text.split()]


def extreme(dtype, least):
    if jnp.issubdtype(dtype, jnp.integer):
        return jnp.iinfo(dtype).min if least else jnp.iinfo(dtype).max
    return -jnp.inf if least else jnp.inf


def indices_of(op, x, ids, a):
    """Index vectors in the last dimension, and index_batch_dims without that dimension."""
    at = numbers(a, "index_dim", [ids.ndim])[0]
    ids = ids[..., None] if at == ids.ndim else jnp.moveaxis(ids, at, -1)
    if ids.size == 0:
        raise Unsupported(f"{op} without indices")
    return ids, tuple(d - (d > at) for d in numbers(a, "index_batch_dims", []))


def windowed(a, n):
    return dict(window_strides=numbers(a, "stride", [1] * n), padding=list(zip(numbers(a, "low", [0] * n), numbers(a, "high", [0] * n))))


def apply(op, x, a, shape, outside):
    """The results. Appends to `outside` whether a scatter leaves its tensor."""
    dims = tuple(numbers(a, "dims", []))
    if op in UNARY:
        return [UNARY[op](x[0]).astype(x[0].dtype)]
    if op in BINARY:
        return [BINARY[op](*x)]
    if op in LOGIC:
        return [LOGIC[op](*x)]
    if op == "logical_not":
        return [(x[0] == 0).astype(x[0].dtype)]
    if op == "cast":
        return [x[0].astype(TYPES[a["dtype"]])]
    if op in ("reshard", "identity", "copy"):
        return [x[0]]
    if op == "compare":
        return [COMPARE[a["direction"]](*x).astype(jnp.int32)]
    if op == "select":
        return [jnp.where(x[0] != 0, x[1], x[2])]
    if op == "constant":
        return [jnp.full(shape, float(a["value"]), TYPES[a["dtype"]])]
    if op == "iota":
        return [lax.broadcasted_iota(TYPES[a["dtype"]], shape, dims[0])]
    if op == "reduce":
        return [REDUCE[a["combine"]](x[0], axis=dims).astype(x[0].dtype)]
    if op == "matmul":
        letters = {}
        name = lambda word: letters.setdefault(word, chr(ord("a") + len(letters)))
        sides = [["".join(name(w) for w in term.split()) for term in side.split(",")] for side in a["rule"].split("->")]
        return [jnp.einsum(",".join(sides[0]) + "->" + sides[1][0], *x)]
    if op == "broadcast":
        return [lax.broadcast_in_dim(x[0], shape, dims)]
    if op == "transpose":
        return [jnp.transpose(x[0], dims)]
    if op == "reshape":
        return [x[0].reshape(shape)]
    if op == "slice":
        return [lax.slice(x[0], numbers(a, "start"), numbers(a, "limit"), numbers(a, "stride", [1] * x[0].ndim))]
    if op == "pad":
        value = jnp.asarray(float(a["value"])).astype(x[0].dtype)
        return [lax.pad(x[0], value, list(zip(numbers(a, "low"), numbers(a, "high"), numbers(a, "interior", [0] * x[0].ndim))))]
    if op == "concatenate":
        return [lax.concatenate(x, dims[0])]
    if op == "reverse":
        return [lax.rev(x[0], dims)]
    if op == "cumsum":
        return [lax.cumsum(x[0], dims[0], reverse=a.get("backwards") == "1")]
    if op == "sort":
        order = jnp.argsort(-x[0] if a.get("descending") == "1" else x[0], axis=dims[0], stable=True)
        return [jnp.take_along_axis(each, order, dims[0]) for each in x]
    if op == "top_k":
        order = jnp.argsort(-x[0], axis=-1, stable=True)[..., : int(a["count"])]
        return [jnp.take_along_axis(x[0], order, -1), order.astype(jnp.int32)]
    if op == "dynamic_slice":
        return [lax.dynamic_slice(x[0], [jnp.maximum(i, 0) for i in x[1:]], shape)]
    if op == "dynamic_update_slice":
        return [lax.dynamic_update_slice(x[0], x[1], [jnp.maximum(i, 0) for i in x[2:]])]
    if op == "convolution":
        n = x[0].ndim - 2
        return [lax.conv_general_dilated(x[0], x[1], lhs_dilation=numbers(a, "base", [1] * n), rhs_dilation=numbers(a, "dilation", [1] * n),
                                         feature_group_count=int(a.get("groups", "1")), **windowed(a, n))]
    if op == "pool":
        n = x[0].ndim
        start, combine = {"sum": (0, lax.add), "max": (extreme(x[0].dtype, True), lax.max),
                          "min": (extreme(x[0].dtype, False), lax.min)}[a["combine"]]
        return [lax.reduce_window(x[0], jnp.asarray(start, x[0].dtype), combine, numbers(a, "window"),
                                  base_dilation=numbers(a, "base", [1] * n), window_dilation=numbers(a, "dilation", [1] * n),
                                  **windowed(a, n))]
    if op in ("gather", "scatter"):
        ids, index_batch = indices_of(op, x[0], x[1], a)
        shared = (tuple(numbers(a, "offset_dims", [])), tuple(numbers(a, "collapsed_dims", [])), tuple(numbers(a, "index_map")))
    if op == "gather":
        if a.get("clamp", "1") != "1":
            raise Unsupported("gather that fills")
        return [lax.gather(x[0], ids, lax.GatherDimensionNumbers(*shared, operand_batching_dims=tuple(numbers(a, "batch_dims", [])),
                                                                 start_indices_batching_dims=index_batch), numbers(a, "sizes"), mode="clip")]
    if op == "scatter":
        if "combine" not in a:
            raise Unsupported("scatter that overwrites")
        # The window of an update, in the dimensions that indices move along.
        kept = [d for d in range(x[0].ndim) if d not in shared[1] and d not in numbers(a, "batch_dims", [])]
        window = {d: 1 for d in range(x[0].ndim)}
        for d, at in zip(kept, shared[0]):
            window[d] = x[2].shape[at]
        for place, d in enumerate(shared[2]):
            if a.get("clamp", "0") != "1":
                outside.append(((ids[..., place] < 0) | (ids[..., place] > x[0].shape[d] - window[d])).any())
        function = {"sum": lax.scatter_add, "product": lax.scatter_mul, "max": lax.scatter_max, "min": lax.scatter_min}[a["combine"]]
        return [function(x[0], ids, x[2], lax.ScatterDimensionNumbers(*shared, operand_batching_dims=tuple(numbers(a, "batch_dims", [])),
                                                                      scatter_indices_batching_dims=index_batch), mode="clip")]
    raise Unsupported(op)


VALUE = re.compile(r"^(input|parameter) %(\S+) : (\w+)\[([\d,]*)\]")
OP = re.compile(r"^(%\S+(?:, %\S+)*) = (\w+)\((.*?)\)(?: \{(.*?)\})? : (.*)$")
TYPE = re.compile(r"(\w+)\[([\d,]*)\]")


def shape_of(text):
    return [int(n) for n in text.split(",") if n]


def traced(text, given):
    """All outputs of the program, of f64, and whether a scatter left its tensor."""
    values, outputs, outside = dict(given), [], []
    for line in text.splitlines():
        line = line.strip()
        if VALUE.match(line):
            continue
        if line.startswith("output "):
            outputs += re.findall(r"%(\S+?)(?:,|\s|$)", line)
        elif found := OP.match(line):
            results, op, operands, attributes, types = found.groups()
            a = {k: v.strip('"') for k, v in re.findall(r'(\w+)=("[^"]*"|[^,\s]+)', attributes or "")}
            x = [values[name] for name in re.findall(r"%([^\s,]+)", operands)]
            shape = shape_of(TYPE.search(types).group(2))
            made = apply(op, x, a, shape, outside)
            for name, result, (dtype, wanted) in zip(re.findall(r"%([^\s,]+)", results), made, TYPE.findall(types)):
                if list(result.shape) != shape_of(wanted) or result.dtype != TYPES[dtype]:
                    raise SystemExit(f"{line}: JAX gives {result.dtype}{result.shape}")
                values[name] = result
    return [values[name].astype(jnp.float64).ravel() for name in outputs], outside


def run(program):
    given = {}
    for line in program["text"].splitlines():
        if found := VALUE.match(line.strip()):
            _, name, dtype, shape = found.groups()
            given[name] = jnp.asarray(np.array(program["given"][name], np.float64).reshape(shape_of(shape))).astype(TYPES[dtype])
    outputs, outside = jax.jit(lambda given: traced(program["text"], given))(given)
    if any(outside):
        raise Unsupported("scatter outside of its tensor")
    return [np.asarray(output) for output in outputs]


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "programs")
        subprocess.run([sys.argv[1], "programs for JAX"], check=True, stdout=subprocess.DEVNULL,
                       env=dict(os.environ, TRIVIUM_PROGRAMS=path, TRIVIUM_PROGRAM_COUNT=sys.argv[2]))
        left_out = collections.Counter()
        for line in open(path, encoding="utf-8"):
            program = json.loads(line)
            try:
                every = np.concatenate(run(program))
            except Unsupported as reason:
                left_out[str(reason)] += 1
                continue
            weights = ((np.arange(1, every.size + 1, dtype=np.float64) * 0.6180339887498949) % 1) - 0.5
            print(program["seed"], f"{np.sum(every * weights):.12g} {np.sum(np.abs(every)):.12g}", flush=True)
        print(dict(left_out), file=sys.stderr)


main()
