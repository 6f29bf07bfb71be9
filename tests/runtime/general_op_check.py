"""Compares general ops with NumPy, and with JAX (the reference of StableHLO's ops) if it is installed.

  general_op_check.py TEST_GENERAL_OP

The program writes the operands, attributes and results of its cases. Exit status 77: NumPy is not installed.
"""
import json
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print("skipped: the Python package numpy is not installed")
    sys.exit(77)
try:
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    import jax

    jax.config.update("jax_enable_x64", True)
    from jax import lax
except ImportError:
    lax = None

TYPES = {"f64": np.float64, "f32": np.float32, "i32": np.int32}
UNARY = {"negate": np.negative, "abs": np.abs, "sign": np.sign, "exp": np.exp, "expm1": np.expm1, "log": np.log, "log1p": np.log1p,
         "sqrt": np.sqrt, "tanh": np.tanh, "sin": np.sin, "cos": np.cos, "floor": np.floor, "ceil": np.ceil}
BINARY = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide, "maximum": np.maximum,
          "minimum": np.minimum, "power": np.power, "remainder": np.fmod}
COMPARE = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}
REDUCE = {"sum": np.add, "product": np.multiply, "max": np.maximum, "min": np.minimum}
IDENTITY = {"sum": 0.0, "product": 1.0, "max": -np.inf, "min": np.inf}


def by_numpy(case, x):
    """The results, or None if NumPy has no such op."""
    op, dims = case["op"], tuple(case.get("dims", ()))
    if op in UNARY:
        return UNARY[op](x[0])
    if op in BINARY:
        return BINARY[op](x[0], x[1])
    if op == "compare":
        return COMPARE[case["direction"]](x[0], x[1])
    if op == "select":
        return np.where(x[0] != 0, x[1], x[2])
    if op == "reduce":
        return REDUCE[case["combine"]].reduce(x[0], axis=dims, initial=IDENTITY[case["combine"]])
    if op == "transpose":
        return np.transpose(x[0], dims)
    if op == "reshape":
        return x[0].reshape(case["shape"])
    if op == "reverse":
        return np.flip(x[0], dims)
    if op == "concatenate":
        return np.concatenate(x, dims[0])
    if op == "slice":
        strides = case.get("stride", [1] * x[0].ndim)
        return x[0][tuple(slice(*three) for three in zip(case["start"], case["limit"], strides))]
    if op == "cumsum":
        flip = (lambda a: np.flip(a, dims[0])) if case.get("backwards") else (lambda a: a)
        return flip(np.cumsum(flip(x[0]), dims[0]))
    if op == "sort":
        order = np.argsort(-x[0] if case.get("descending") else x[0], axis=dims[0], kind="stable")
        return [np.take_along_axis(a, order, dims[0]) for a in x]
    if op == "top_k":
        order = np.argsort(-x[0], axis=-1, kind="stable")[..., : case["count"][0]]
        return [np.take_along_axis(x[0], order, -1), order]
    return None


def windows(case, n):
    ones, zeros = [1] * n, [0] * n
    return dict(window_strides=case.get("stride", ones), padding=list(zip(case.get("low", zeros), case.get("high", zeros))))


def by_jax(case, x):
    op = case["op"]
    if op == "erf":
        return lax.erf(x[0])
    if op == "rsqrt":
        return lax.rsqrt(x[0])
    if op == "sigmoid":
        return lax.logistic(x[0])
    if op == "broadcast" and case["dims"] == sorted(case["dims"]):  # others are transposed, too
        return lax.broadcast_in_dim(x[0], case["shape"], case["dims"])
    if op == "pad":
        n = x[0].ndim
        return lax.pad(x[0], float(case["value"]), list(zip(case["low"], case["high"], case.get("interior", [0] * n))))
    if op == "dynamic_slice":
        return lax.dynamic_slice(x[0], [np.maximum(i, 0) for i in x[1:]], case["shape"])
    if op == "dynamic_update_slice":
        return lax.dynamic_update_slice(x[0], x[1], [np.maximum(i, 0) for i in x[2:]])  # JAX counts negative ones from the end
    if op == "convolution":
        n = x[0].ndim - 2
        return lax.conv_general_dilated(x[0], x[1], lhs_dilation=case.get("base", [1] * n), rhs_dilation=case.get("dilation", [1] * n),
                                        feature_group_count=case.get("groups", [1])[0], **windows(case, n))
    if op == "pool":
        n = x[0].ndim
        combine = {"sum": lax.add, "product": lax.mul, "max": lax.max, "min": lax.min}[case["combine"]]
        return lax.reduce_window(x[0], IDENTITY[case["combine"]], combine, case["window"], base_dilation=case.get("base", [1] * n),
                                 window_dilation=case.get("dilation", [1] * n), **windows(case, n))
    if op in ("gather", "scatter"):
        # JAX has the index vector in the last dimension.
        indices, at = x[1], case.get("index_dim", [x[1].ndim])[0]
        indices = indices[..., None] if at == indices.ndim else np.moveaxis(indices, at, -1)
        index_batch = [d - (d > at) for d in case.get("index_batch_dims", [])]
        mode = case.get("clamp", [op == "gather"])[0]
        if indices.size == 0:
            return None  # JAX then does nothing
    if op == "gather":
        numbers = lax.GatherDimensionNumbers(
            tuple(case.get("offset_dims", [])), tuple(case.get("collapsed_dims", [])), tuple(case["index_map"]),
            operand_batching_dims=tuple(case.get("batch_dims", [])), start_indices_batching_dims=tuple(index_batch))
        if not mode:
            return None  # JAX fills whole windows
        return lax.gather(x[0], indices, numbers, case["sizes"], mode="clip")
    if op == "scatter":
        numbers = lax.ScatterDimensionNumbers(
            tuple(case.get("offset_dims", [])), tuple(case.get("collapsed_dims", [])), tuple(case["index_map"]),
            operand_batching_dims=tuple(case.get("batch_dims", [])), scatter_indices_batching_dims=tuple(index_batch))
        function = {"sum": lax.scatter_add, "product": lax.scatter_mul, "max": lax.scatter_max, "min": lax.scatter_min}
        if not mode or "combine" not in case:
            return None  # JAX drops whole windows; the order of updates that overwrite is not defined
        return function[case["combine"]](x[0], indices, x[2], numbers, mode="clip")
    return None


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "cases")
        subprocess.run([sys.argv[1], "--filenames-as-tags", "[#general_op_test],[#general_window_test]"], env=dict(os.environ, TRIVIUM_GENERAL_OPS=path), check=True, stdout=subprocess.DEVNULL)
        with open(path, encoding="utf-8") as file:
            cases = [json.loads(line) for line in file]
    compared, failed = {}, 0
    for case in cases:
        arrays = {}
        for side in ("operands", "results"):
            arrays[side] = [np.array(a["cells"], np.float64).astype(TYPES.get(a["type"], np.float64)).reshape(a["shape"]) for a in case[side]]
        if any(a["type"] == "bf16" for side in ("operands", "results") for a in case[side]):
            continue
        with np.errstate(all="ignore"):
            expected = by_numpy(case, arrays["operands"])
            if expected is None and lax:
                expected = by_jax(case, arrays["operands"])
        if expected is None:
            continue
        expected = expected if isinstance(expected, list) else [expected]
        compared[case["op"]] = compared.get(case["op"], 0) + 1
        for made, wanted in zip(arrays["results"], expected):
            wanted = np.asarray(wanted)
            if made.shape != wanted.shape or not np.allclose(made, wanted, rtol=1e-6, atol=1e-6, equal_nan=True):
                failed += 1
                print(f"{case}\nhas {made}\nexpected {wanted}")
                break
    print(" ".join(f"{op}:{count}" for op, count in sorted(compared.items())))
    return 1 if failed or not compared else 0


sys.exit(main())
