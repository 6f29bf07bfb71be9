#!/usr/bin/env python3
"""Random programs with random annotations, and the shardings that Shardy's propagation pipeline gives them, as cases
(needs jax): random_cases.py FIRST COUNT > random.cases. Kept are those in which a basic strategy before the aggressive
one would decide otherwise, and every 20th."""

import random
import re
import sys

from jax._src.interpreters import mlir
from jaxlib.mlir import ir
from jaxlib.mlir.passmanager import PassManager

MESH = {"x": 2, "y": 2, "z": 2}
SIZES = [8, 16, 24, 32]


class Value:
    """`annotation`: per dimension its axes and whether it is open, or None. `detail`: of the op, see generate()."""

    def __init__(self, name, shape, annotation, op, args, detail):
        self.name, self.shape, self.annotation = name, shape, annotation
        self.op, self.args, self.detail = op, args, detail


def annotation(rng, axes, shape, likely):
    if rng.random() > likely:
        return None
    free, dims = axes[:], []
    for _ in shape:
        mine = []
        while free and rng.random() < 0.45:
            mine.append(free.pop(free.index(rng.choice(free))))
        dims.append((mine, rng.random() < 0.2))
    return dims


def generate(rng):
    axes, values = list(MESH)[: rng.choice([2, 2, 3])], []

    def add(shape, op, args, detail=None):
        note = annotation(rng, axes, shape, 0.25 if args else 0.7)
        values.append(Value(f"v{len(values)}", shape, note, op, args, detail))

    for _ in range(rng.randint(2, 4)):
        add([rng.choice(SIZES) for _ in range(rng.choice([2, 2, 3]))], "input", [])
    for _ in range(rng.randint(2, 7)):
        a = rng.choice(values)
        s, op = a.shape, rng.choice(["matmul"] * 3 + ["add", "tanh", "transpose", "reduce", "broadcast"])
        if op == "tanh":
            add(s, op, [a])
        elif op == "add":
            add(s, op, [a, rng.choice([b for b in values if b.shape == s])])
        elif op == "transpose":  # detail: the order
            order = rng.sample(range(len(s)), len(s))
            add([s[i] for i in order], op, [a], order)
        elif op == "reduce" and len(s) > 1:  # the dimension
            dim = rng.randrange(len(s))
            add(s[:dim] + s[dim + 1 :], op, [a], dim)
        elif op == "broadcast" and len(s) < 3:  # the new dimension
            dim = rng.randrange(len(s) + 1)
            add(s[:dim] + [rng.choice(SIZES)] + s[dim:], op, [a], dim)
        elif op == "matmul":  # the contracted dimensions
            pairs = [
                (b, i, j)
                for b in values
                if 2 < len(s) + len(b.shape) <= 6
                for i in range(len(s))
                for j in range(len(b.shape))
                if b.shape[j] == s[i]
            ]
            if pairs:
                b, i, j = rng.choice(pairs)
                add(s[:i] + s[i + 1 :] + b.shape[:j] + b.shape[j + 1 :], op, [a, b], (i, j))
    used = {arg for v in values for arg in v.args}
    values = [v for v in values if v.args or v in used]
    return axes, values, [v for v in values if v.args and v not in used]


def in_our_text(axes, values, outputs):
    yield "graph t"
    yield "mesh " + " ".join(f"{axis}={MESH[axis]}" for axis in axes)
    for v in values:
        note = ",".join(("+".join(a) or "-") + "?" * is_open for a, is_open in v.annotation or [])
        shape, d = " ".join(map(str, v.shape)), v.detail
        attributes = ""
        if v.op == "transpose":
            attributes = f' {{dims="{" ".join(map(str, d))}"}}'
        elif v.op == "reduce":
            attributes = f' {{combine="sum", dims="{d}"}}'
        elif v.op == "broadcast":
            dims = " ".join(str(i) for i in range(len(v.shape)) if i != d)
            attributes = f' {{dims="{dims}", shape="{shape}"}}'
        elif v.op == "matmul":
            left, right = (list(letters[: len(a.shape)]) for letters, a in zip(("abcd", "efgh"), v.args))
            left[d[0]] = right[d[1]] = "k"
            made = [c for c in left + right if c != "k"]
            attributes = f' {{rule="{" ".join(left)}, {" ".join(right)} -> {" ".join(made)}"}}'
        args = ", ".join("%" + arg.name for arg in v.args)
        begins = f"%{v.name} = {v.op}({args}){attributes}" if v.args else f"input %{v.name}"
        yield f"{begins} : f32[{shape.replace(' ', ',')}]" + (f" <{note}>" if v.annotation else "")
    yield from (f"output %{v.name}" for v in outputs)


def in_stablehlo(axes, values, outputs):
    def of_type(v):
        return "tensor<" + "".join(f"{extent}x" for extent in v.shape) + "f32>"

    def sharding(v):
        dims = [[f'"{a}"' for a in names] + ["?"] * is_open for names, is_open in v.annotation]
        return "<@mesh, [" + ", ".join("{" + ", ".join(dim) + "}" for dim in dims) + "]>"

    inputs, body = [], []
    for v in values:
        d, args = v.detail, ", ".join("%" + arg.name for arg in v.args)
        if not v.args:
            note = f" {{sdy.sharding = #sdy.sharding{sharding(v)}}}" if v.annotation else ""
            inputs.append(f"%{v.name}: {of_type(v)}{note}")
            continue
        note = f" {{sdy.sharding = #sdy.sharding_per_value<[{sharding(v)}]>}}" if v.annotation else ""
        types = [of_type(arg) for arg in v.args]
        if v.op in ("tanh", "add"):
            text = f'"stablehlo.{v.op}"({args})'
        elif v.op == "transpose":
            text = f"stablehlo.transpose {args}, dims = {d}"
        elif v.op == "reduce":
            body.append(f"%zero_{v.name} = stablehlo.constant dense<0.0> : tensor<f32>")
            text = f"stablehlo.reduce({args} init: %zero_{v.name}) applies stablehlo.add across dimensions = [{d}]"
            types.append("tensor<f32>")
        elif v.op == "broadcast":
            text = f"stablehlo.broadcast_in_dim {args}, dims = {[i for i in range(len(v.shape)) if i != d]}"
        else:
            text = f"stablehlo.dot_general {args}, contracting_dims = [{d[0]}] x [{d[1]}]"
        body.append(f"%{v.name} = {text}{note} : ({', '.join(types)}) -> {of_type(v)}")
    names, types = ", ".join("%" + v.name for v in outputs), ", ".join(of_type(v) for v in outputs)
    mesh = ", ".join(f'"{axis}"={MESH[axis]}' for axis in axes)
    lines = "\n".join(body)
    return (
        f"sdy.mesh @mesh = <[{mesh}]>\nfunc.func @main({', '.join(inputs)}) -> ({types}) {{\n"
        f"{lines}\nreturn {names} : {types}\n}}\n"
    )


def propagated(text, values, passes="sdy-propagation-pipeline"):
    """The sharding of each value, in our text."""
    with mlir.make_ir_context():
        module = ir.Module.parse(text)
        PassManager.parse(f"builtin.module({passes})").run(module.operation)
        main = next(op for op in module.body.operations if op.operation.name == "func.func")
        skipped = ("stablehlo.constant", "sdy.constant", "sdy.reshard", "func.return")
        ops = [op for op in main.regions[0].blocks[0].operations if op.operation.name not in skipped]
        inputs = main.arg_attrs if "arg_attrs" in main.attributes else [{}] * (len(values) - len(ops))
        shardings = []
        for v, attributes in zip(values, [*inputs, *(op.attributes for op in ops)]):
            note = str(attributes["sdy.sharding"]) if "sdy.sharding" in attributes else "{}" * len(v.shape)
            dims = re.findall(r"\{([^}]*)\}", note)
            shardings.append("<" + ",".join("+".join(re.findall(r'"(\w+)"', dim)) or "-" for dim in dims) + ">")
        return shardings


def main():
    first, count = map(int, sys.argv[1:])
    for seed in range(first, first + count):
        axes, values, outputs = generate(random.Random(seed))
        if not outputs or not any(v.annotation for v in values):
            continue
        values.sort(key=lambda v: bool(v.args))  # inputs first, as Shardy lists them
        text = in_stablehlo(axes, values, outputs)
        found = propagated(text, values)
        strategies = [
            propagated(text, values, f"sdy-user-priority-propagate{{propagation-strategy={name}}}")
            for name in ("aggressive", "basic-then-aggressive")
        ]
        if strategies[0] == strategies[1] and seed % 20:
            continue
        print(f"### case random-{seed}", *in_our_text(axes, values, outputs), sep="\n")
        for v, sharding in zip(values, found):
            print(f"#= %{v.name} {sharding}")
        print()


if __name__ == "__main__":
    main()
