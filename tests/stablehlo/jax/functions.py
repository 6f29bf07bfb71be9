"""The functions that make_cases.py exports: name, function, arguments, and the meshes on which it is annotated."""
import numpy as np
import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

CASES = {}  # by file
FILE = None
RNG = np.random.default_rng(0)


def normal(*shape):
    """Normal numbers that are short as text."""
    return np.round(RNG.standard_normal(shape), 3).astype(np.float32)


def begin(name):
    """The cases that follow are in a file of this name."""
    global FILE
    FILE = name
    CASES[name] = []


def case(*arguments, name=None, jit=None):
    """Registers a function of these arguments; `jit`: how it is jitted, a function of it."""
    def add(function):
        CASES[FILE].append((name or function.__name__, jit(function) if jit else jax.jit(function), arguments))
        return function
    return add


def gradients_of(function, arguments):
    """With the function, also its gradients by all arguments, exported as a function: the StableHLO of a gradient."""
    def add(*arguments):
        return jax.grad(function, tuple(range(len(arguments))))(*arguments)
    CASES[FILE].append(("grad_" + function.__name__, jax.jit(add), arguments))


# ---- dense layers and losses

begin("dense")

PARAMS = {"w1": normal(6, 8), "b1": normal(8), "w2": normal(8, 4), "b2": normal(4)}
X, LABELS = normal(4, 6), np.array([1, 0, 3, 2], np.int32)


def mlp(params, x):
    return jax.nn.gelu(x @ params["w1"] + params["b1"]) @ params["w2"] + params["b2"]


@case(PARAMS, X, LABELS)
def mlp_one_hot_loss(params, x, labels):
    return -jnp.mean(jnp.sum(jax.nn.log_softmax(mlp(params, x)) * jax.nn.one_hot(labels, 4), -1))


@case(PARAMS, X, LABELS)
def mlp_take_loss(params, x, labels):
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(mlp(params, x)), labels[:, None], axis=1))


@case(PARAMS, X, LABELS)
def mlp_gradients(params, x, labels):
    return jax.grad(mlp_take_loss)(params, x, labels)


@case(PARAMS, X)
def mlp_sgd_step(params, x):
    loss, gradient = jax.value_and_grad(lambda p: jnp.sum(mlp(p, x) ** 2))(params)
    return loss, jax.tree.map(lambda p, g: p - 0.1 * g, params, gradient)


@case(normal(4, 8), normal(8), normal(8))
def layer_norm(x, scale, shift):
    mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return jnp.sum(jnp.sin((x - mean) * lax.rsqrt(var + 1e-5) * scale + shift))


@case(normal(4, 8), normal(8))
def rms_norm(x, scale):
    return x / jnp.sqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * scale


@case(normal(4, 3, 2, 4), normal(3), normal(3))
def batch_norm(x, scale, shift):
    mean, var = jnp.mean(x, (0, 2, 3)), jnp.var(x, (0, 2, 3))
    y = (x - mean[:, None, None]) * lax.rsqrt(var + 1e-5)[:, None, None]
    return y * scale[:, None, None] + shift[:, None, None], mean, var


@case(normal(2, 4))
def activations(x):
    return (jax.nn.gelu(x), jax.nn.gelu(x, approximate=False), jax.nn.silu(x), jax.nn.softplus(x), jax.nn.elu(x),
            jax.nn.leaky_relu(x), jax.nn.relu6(x), jax.nn.hard_tanh(x), jax.nn.selu(x), jax.nn.mish(x))


@case(normal(4, 8))
def softmax_family(x):
    return jax.nn.softmax(x), jax.nn.log_softmax(x, axis=0), jax.nn.logsumexp(x, axis=1), jnp.linalg.norm(x, axis=1)


@case(normal(2, 4))
def pointwise(x):
    y = jnp.abs(x) + 0.5
    return (jnp.round(x * 3), jnp.floor(x), jnp.ceil(x), jnp.sign(x), jnp.cbrt(x), jnp.tan(x), jnp.sinh(x), jnp.cosh(x),
            jnp.log1p(y), jnp.expm1(x), y ** 1.5, x ** 3, jnp.mod(x, 0.7), lax.rem(x, y), jnp.isnan(x), jnp.isfinite(x),
            lax.erf(x), jnp.square(x), jnp.maximum(x, 0), jnp.clip(x, -0.5, 0.5), jnp.logaddexp(x, y), jnp.hypot(x, y),
            lax.rsqrt(y), jnp.trunc(x), jnp.exp2(x), x.astype(jnp.int32), (x > 0).astype(jnp.float32))


# ---- attention

begin("attention")

QKV = [normal(2, 5, 2, 4) for _ in range(3)]


@case(*QKV)
def attention(q, k, v):
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / 2
    causal = jnp.arange(5)[:, None] >= jnp.arange(5)[None, :]
    weights = jax.nn.softmax(jnp.where(causal, scores, -1e30))
    return jnp.sum(jnp.einsum("bhqk,bkhd->bqhd", weights, v) ** 2)


gradients_of(attention, QKV)


@case(*QKV)
def attention_with_infinity(q, k, v):
    scores = jnp.where(jnp.tril(jnp.ones((5, 5), bool)), jnp.einsum("bqhd,bkhd->bhqk", q, k), -jnp.inf)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)


@case(*QKV)
def dot_product_attention(q, k, v):
    return jax.nn.dot_product_attention(q, k, v, is_causal=True)


@case(normal(10, 4), np.array([[1, 2, 9], [0, 3, 3]], np.int32))
def embedding_lookup(table, tokens):
    return table[tokens], jnp.take(table, tokens, axis=0), jnp.take(table, tokens, axis=0, mode="clip")


@case(normal(10, 4), np.array([[1, 2, 9], [0, 3, 3]], np.int32))
def embedding_loss(table, tokens):
    return jnp.sum(jnp.tanh(table[tokens]) ** 2)


# ---- convolutions and pooling

begin("windows")

IMAGE, KERNEL = normal(2, 3, 6, 6), normal(4, 3, 3, 3)


@case(IMAGE, KERNEL)
def conv_nchw(x, w):
    return jnp.sum(jnp.tanh(lax.conv(x, w, (1, 1), "SAME")) ** 2)


gradients_of(conv_nchw, [IMAGE, KERNEL])


@case(normal(1, 7, 7, 3), normal(3, 3, 3, 4))
def conv_nhwc(x, w):
    dims = ("NHWC", "HWIO", "NHWC")
    return (lax.conv_general_dilated(x, w, (2, 2), "SAME", dimension_numbers=dims),
            lax.conv_general_dilated(x, w, (1, 1), "VALID", rhs_dilation=(2, 2), dimension_numbers=dims),
            lax.conv_general_dilated(x, w, (1, 2), [(1, 0), (2, 1)], lhs_dilation=(2, 1), dimension_numbers=dims))


@case(normal(1, 4, 6, 5), normal(6, 2, 3, 3))
def conv_grouped(x, w):
    return jnp.sum(lax.conv_general_dilated(x, w, (1, 1), "SAME", feature_group_count=2) ** 2)


gradients_of(conv_grouped, [normal(1, 4, 6, 5), normal(6, 2, 3, 3)])


@case(normal(2, 4, 5, 5), normal(4, 1, 3, 3))
def conv_depthwise(x, w):
    return lax.conv_general_dilated(x, w, (1, 1), "SAME", feature_group_count=4)


@case(normal(2, 4, 4, 3), normal(3, 3, 3, 2))
def conv_transposed(x, w):
    return jnp.sum(jnp.cos(lax.conv_transpose(x, w, (2, 2), "SAME")))


gradients_of(conv_transposed, [normal(2, 4, 4, 3), normal(3, 3, 3, 2)])


@case(normal(1, 2, 4, 5, 6), normal(3, 2, 2, 3, 3))
def conv_3d(x, w):
    return lax.conv_general_dilated(x, w, (1, 2, 1), "SAME")


@case(normal(2, 3, 9), normal(4, 3, 3))
def conv_1d(x, w):
    return lax.conv_general_dilated(x, w, (2,), [(1, 1)]), jnp.convolve(x[0, 0], w[0, 0], "same")


@case(normal(1, 2, 7, 8))
def max_pool(x):
    y = lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 3, 3), (1, 1, 2, 2), "SAME")
    return jnp.sum(y * y)


gradients_of(max_pool, [normal(1, 2, 7, 8)])


@case(normal(1, 2, 7, 8))
def avg_pool(x):
    ones = jnp.ones_like(x)
    y, n = (lax.reduce_window(a, 0., lax.add, (1, 1, 3, 3), (1, 1, 2, 2), "SAME") for a in (x, ones))
    return jnp.sum(jnp.cos(y / n))


gradients_of(avg_pool, [normal(1, 2, 7, 8)])

CNN = {"conv1": normal(4, 1, 3, 3), "conv2": normal(4, 4, 3, 3), "dense": normal(16, 3)}


@case(CNN, normal(4, 1, 8, 8))
def small_cnn_loss(params, x):
    for name in ("conv1", "conv2"):
        x = jax.nn.relu(lax.conv(x, params[name], (1, 1), "SAME"))
        x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
    return jnp.mean(jax.nn.logsumexp(x.reshape(4, -1) @ params["dense"], axis=1))


# ---- orders and scans

begin("orders")

@case(normal(4, 8))
def orders(x):
    return (jnp.sort(x), -jnp.sort(-x, axis=0), jnp.argsort(x, axis=1), jnp.argmax(x, 1), jnp.argmin(x, 0), jnp.max(x, 0),
            jnp.min(x), jnp.sort(x.astype(jnp.int32), axis=1, descending=True))


@case(normal(4, 8))
def top_k(x):
    values, indices = lax.top_k(x, 3)
    return values, indices, jnp.median(x, axis=1)


@case(normal(6), np.array([2, 0, 1, 0, 2, 1], np.int32))
def sorts_of_several(x, groups):
    order = jnp.lexsort((x, groups))
    return order, lax.sort(((groups - 1).astype(jnp.uint32), x), num_keys=2), jnp.searchsorted(jnp.sort(x), jnp.array([-.5, .5]))


@case(normal(4, 8))
def top_k_loss(x):
    return jnp.sum(lax.top_k(x, 3)[0] ** 2) + jnp.sum(jnp.sort(x, axis=1) * jnp.arange(8.0))


@case(normal(4, 6))
def cumulative(x):
    return jnp.cumsum(x, 1), jnp.cumsum(x, 0), lax.cummax(x, 1), jnp.cumprod(x, 1), lax.cumsum(x, 1, reverse=True)


@case(normal(4, 6))
def cumsum_loss(x):
    return jnp.sum(jnp.cumsum(x, 1) ** 2)


RNN = [normal(4, 4) / 2, normal(3, 4), normal(5, 2, 3)]


@case(*RNN)
def rnn_scan(w, u, xs):
    def step(h, x):
        h = jnp.tanh(h @ w + x @ u)
        return h, h
    h, ys = lax.scan(step, jnp.zeros((2, 4)), xs)
    return jnp.sum(h) + jnp.sum(ys ** 2)


gradients_of(rnn_scan, RNN)


@case(normal(4, 4), normal(4))
def power_iteration(a, x):
    return lax.fori_loop(0, 6, lambda i, y: (a @ y) / (1 + jnp.linalg.norm(y)) + i, x)


@case(normal(3, 5), np.float32(0.5))
def branches(x, t):
    return (lax.cond(t > 0, jnp.sin, jnp.cos, x), lax.switch(1, [jnp.sin, jnp.tanh, jnp.cos], x),
            lax.switch(jnp.int32(t * 4), [jnp.sin, jnp.tanh, jnp.exp], x))


# ---- indices

begin("indices")

@case(normal(6, 8), np.int32(3), np.array([4, 1, 5], np.int32))
def indexing(x, i, rows):
    return (lax.dynamic_slice(x, (i, 2), (2, 3)), lax.dynamic_slice(x, (5, 7), (2, 3)), x[i], x[rows], x[rows, 2],
            x[:, rows], lax.dynamic_update_slice(x, jnp.ones((2, 2)), (i, i)), x[1:5:2, ::-1], x[-1], x[jnp.arange(3), rows])


@case(normal(6, 8), normal(3, 8), np.array([4, 1, 4], np.int32))
def updates(x, y, rows):
    return (x.at[rows].add(y), x.at[rows[:2]].set(y[:2]), x.at[2, 3].set(7.0), x.at[:, 1].mul(2), x.at[rows].max(y),
            jax.ops.segment_sum(y, rows, 6))


@case(normal(6, 8), normal(3, 8), np.array([4, 1, 4], np.int32))
def update_loss(x, y, rows):
    return jnp.sum(x.at[rows].add(y) ** 2) + jnp.sum(lax.dynamic_slice(x, (1, 2), (3, 3)) ** 3) + jnp.sum(y[:, rows] ** 2)


@case(normal(6, 8), normal(3, 8), np.array([4, 1, 4], np.int32))
def set_loss(x, y, rows):
    return jnp.sum(x.at[rows].set(y) ** 2) + jnp.sum(x.at[1, 2:5].set(y[0, :3]) ** 3)


@case(np.arange(-3, 5, dtype=np.int32), np.array([1, 2, 3, 4, 5, -2, 7, 8], np.int32))
def bits(a, b):
    return (a & b, a | b, a ^ b, ~a, a << 3, a >> 1, lax.shift_right_logical(a, jnp.int32(28)), a // b, a % b, lax.rem(a, b),
            jnp.bincount(jnp.abs(a), length=6), a.astype(jnp.uint32) // 7, a.astype(jnp.uint32) > 3, jnp.maximum(a, b), abs(a))


@case(normal(3, 4))
def random_numbers(x):
    key = jax.random.key(7)
    return x * jax.random.bernoulli(key, 0.5, x.shape), jax.random.normal(key, (5,))


@case(normal(4, 6), normal(2, 6))
def shapes(x, y):
    return (jnp.concatenate([x, y]), jnp.pad(x, ((1, 0), (2, 3))), jnp.pad(x, 1, constant_values=2.5), jnp.roll(x, 2, axis=1),
            jnp.roll(x, 5), jnp.flip(x, 0), jnp.tile(y, (2, 2)), jnp.repeat(y, 3, axis=0), x.T, x.reshape(3, 8), jnp.stack([y, y], 1),
            jnp.split(x, 3, axis=1)[1], jnp.where(x > 0, x, 0.1 * x), jnp.tril(x), jnp.eye(3), jnp.arange(5), jnp.linspace(0., 1., 5),
            jnp.array([3, 1, 4, 1, 5]), jnp.outer(x[0], y[0]), jnp.trace(x[:, :4]), jnp.diff(x, axis=1), jnp.pad(y, 1, mode="edge"),
            jnp.all(x > -9, axis=0), jnp.any(x > 1), jnp.prod(x, 1), jnp.var(x), jnp.vdot(x[0], y[1]), jnp.kron(y, y))


@case(normal(4, 6), normal(2, 6))
def shapes_loss(x, y):
    z = jnp.concatenate([x, y])[1:5:2] * jnp.roll(y, 1, axis=1)
    return jnp.sum(jnp.pad(z, ((0, 1), (1, 2))) ** 2) + jnp.sum(jnp.flip(x, 1)[:, :2].T @ y[:, :1].repeat(2, 0)[:4, :]) \
        + jnp.prod(x[0]) + jnp.sum(jnp.max(x, 1) * jnp.min(x, 1))


@case(normal(3, 4, 5), normal(3, 5, 2), normal(4))
def vmapped(a, b, c):
    product = jax.vmap(lambda x, y: x @ y)(a, b)
    return product, jax.vmap(jax.grad(lambda x: jnp.sum(jnp.sin(x @ c))))(jnp.swapaxes(a, 1, 2)), jax.vmap(jnp.dot, (2, None), 1)(a[0][None], c)


@case(normal(4, 6).astype(jnp.bfloat16), normal(6, 4).astype(jnp.bfloat16), name="bf16_product")
def bf16_product(x, w):
    return lax.dot(x, w, preferred_element_type=jnp.float32), (x.astype(jnp.float32) * 2).astype(jnp.bfloat16)


@case(normal(8))
def constants(x):
    table = np.random.default_rng(1).standard_normal((8, 16)).astype(np.float32)
    return x @ table, x + np.array([1, 2, 3, 4, 5, 6, 7, 8], np.float32), x * np.array([1, 0, 0, 2, 0, 0, 0, 0.5], np.float32)


# ---- annotated functions

begin("annotated")

def mesh(*shape):
    return Mesh(np.array(jax.devices()[:int(np.prod(shape))]).reshape(shape), ("x", "y")[:len(shape)])


def sharded(shape, *specs, out=None):
    """jit with NamedShardings of the arguments on a mesh of this shape."""
    def jit(function):
        on = mesh(*shape)
        given = tuple(jax.tree.map(lambda s: NamedSharding(on, s), s, is_leaf=lambda s: isinstance(s, P)) for s in specs)
        extra = {"out_shardings": NamedSharding(on, out)} if out is not None else {}
        return jax.jit(function, in_shardings=given, **extra)
    return jit


SPECS = {"w1": P(None, "y"), "b1": P("y"), "w2": P("y", None), "b2": P(None)}


@case(PARAMS, X, LABELS, jit=sharded((2, 2), SPECS, P("x"), P("x")))
def megatron_mlp(params, x, labels):
    hidden = lax.with_sharding_constraint(jax.nn.gelu(x @ params["w1"] + params["b1"]), NamedSharding(mesh(2, 2), P("x", "y")))
    logits = hidden @ params["w2"] + params["b2"]
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=1))


@case(normal(4, 8), normal(8, 8), jit=sharded((4,), P("x"), P(None, "x"), out=P("x", None)))
def fully_sharded(x, w):
    return jnp.tanh(x @ w)


@case(IMAGE, KERNEL, jit=sharded((2, 2), P("x", None, "y"), P()))
def spatial_conv(x, w):
    y = jax.nn.relu(lax.conv(x, w, (1, 1), "SAME"))
    return jnp.sum(lax.reduce_window(y, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID") ** 2)


@case(*QKV, jit=sharded((2,), P(None, None, "x"), P(None, None, "x"), P(None, None, "x")))
def head_parallel_attention(q, k, v):
    return attention(q, k, v)


@case(normal(8, 6), normal(6, 4), jit=sharded((2, 2), P(("x", "y"), None), P(None, "y")))
def joint_axes(x, w):
    return lax.with_sharding_constraint(x @ w, NamedSharding(mesh(2, 2), P("y", "x"))) * 2


def mapped(*specs, out):
    """shard_map on a mesh x=2, y=2."""
    return lambda function: jax.jit(jax.shard_map(function, mesh=mesh(2, 2), in_specs=specs, out_specs=out))


@case(normal(4, 8), normal(8, 6), jit=mapped(P("x", "y"), P("y", None), out=P("x", None)))
def mapped_sums(a, b):
    s = lax.psum(a @ b, "y")
    return s + lax.pmax(s, "x") * lax.axis_index("x") + lax.psum(1.0, ("x", "y"))


@case(normal(4, 8), jit=mapped(P("x", "y"), out=(P("x", "y"), P(("x", "y")), P("x", "y"), P(None, ("x", "y")))))
def mapped_moves(a):
    gathered = lax.all_gather(a, "x", axis=0, tiled=True)
    return (lax.ppermute(a, "x", [(0, 1), (1, 0)]) + lax.psum_scatter(gathered, "x", scatter_dimension=0, tiled=True),
            lax.all_to_all(a, "y", 1, 0, tiled=True), lax.ppermute(a, "y", [(0, 1)]), lax.all_to_all(a, ("x", "y"), 1, 1, tiled=True))


# ---- tensors without elements, differences, small integers

begin("more")


@case(normal(5, 2))
def associative_loss(x):
    return jnp.sum(lax.associative_scan(jnp.add, x) ** 2)


@case(normal(3, 2))
def empty_parts(x):
    return jnp.concatenate([x[:0], x, x[:, :0].reshape(0, 2)]), jnp.pad(x[:0] * 2, ((2, 0), (0, 1)), constant_values=1.5)


@case(normal(4, 3), normal(3, 3), np.array([0, 2, 2], np.int32))
def subtract_loss(x, y, rows):
    return jnp.sum(x.at[rows].subtract(y) ** 2)


@case(normal(2, 3), np.array([300, -200, 5, -129, 128], np.int32))
def small_integers(x, i):
    scale = jnp.max(jnp.abs(x)) / 127
    return (jnp.round(x / scale).astype(jnp.int8).astype(jnp.float32) * scale, (x * 200).astype(jnp.int8).astype(jnp.int32),
            i.astype(jnp.int8).astype(jnp.int32), i.astype(jnp.uint8).astype(jnp.float32), i.astype(jnp.int16) > 100)


def with_older_annotations():
    """Annotated functions again, with mhlo.sharding in place of sdy.sharding."""
    jax.config.update("jax_use_shardy_partitioner", False)
    return [("mhlo_" + name, jit, arguments) for name, jit, arguments in
            [("megatron_mlp", sharded((2, 2), SPECS, P("x"), P("x"))(megatron_mlp), (PARAMS, X, LABELS)),
             ("spatial_conv", sharded((2, 2), P("x", None, "y"), P())(spatial_conv), (IMAGE, KERNEL)),
             ("joint_axes", sharded((2, 2), P(("x", "y"), None), P(None, "y"))(joint_axes), (normal(8, 6), normal(6, 4)))]]
