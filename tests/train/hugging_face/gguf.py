"""GGUF files of two small models of each family, against llama.cpp, if the package llama_cpp has it.

    gguf.py TRIVIUM LOGITS_PROGRAM IDS_PROGRAM [FIRST LETTERS OF A MODEL]

The models are those of hugging_face_families.json, without the options that llama.cpp does not have, by which an
export is refused.
"""

import array
import ctypes
import json
import pathlib
import sys
import tempfile

from hugging_face_helpers import largest_difference, logits_in_bytes, our_ids, run, trivium, write_folder

try:
    import llama_cpp
except Exception as reason:  # not only ImportError: a broken package may raise anything
    print(f"skipped: no llama.cpp here ({reason})")
    sys.exit(77)

@llama_cpp.llama_log_callback
def silence(level, text, data):
    pass


llama_cpp.llama_log_set(silence, ctypes.c_void_p(0))
models = json.loads(pathlib.Path(__file__).with_name("hugging_face_families.json").read_text())
only = sys.argv[4:]
prompt = [(7 * i * i + 3 * i) % 251 for i in range(60)]
full, sliding = "full_attention", "sliding_attention"
# By model: the key by which the export of it as it is is refused, and the changes of config.json that remove the reason.
no_window = dict(sliding_window=None, use_sliding_window=False, layer_types=None)
changes = {
    "llama-on": ("activation", dict(hidden_act="silu")),
    "mistral-on": ("window", no_window),
    "qwen2": ("rope_scaling", dict(rope_parameters=dict(rope_type="default", rope_theta=1e4))),
    "qwen2-on": ("window", {**no_window, "rope_parameters": dict(rope_type="yarn", rope_theta=5e5, factor=2.0, original_max_position_embeddings=32,
                                                                mscale=0.7, mscale_all_dim=1.1)}),
    "qwen3-on": ("qkv_bias", {**no_window, "attention_bias": False}),
    "olmo2-on": ("qkv_bias", dict(attention_bias=False)),
    "olmo3-on": ("qkv_bias", dict(attention_bias=False, layer_types=[sliding, sliding, full, sliding, sliding],
                                  rope_parameters={full: dict(rope_type="yarn", rope_theta=5e5, factor=8.0, original_max_position_embeddings=16),
                                                   sliding: dict(rope_type="default", rope_theta=5e5)})),
    "gemma2": ("attention_scale", dict(attn_logit_softcapping=50.0, final_logit_softcapping=30.0, query_pre_attn_scalar=8, tie_word_embeddings=True)),
    "gemma2-on": ("qkv_bias", dict(attention_bias=False, query_pre_attn_scalar=10, tie_word_embeddings=True)),
    "gemma3": ("attention_scale", dict(query_pre_attn_scalar=8)),
    "gemma3-on": ("qkv_bias", dict(attention_bias=False, query_pre_attn_scalar=10, final_logit_softcapping=None, hidden_activation="gelu_pytorch_tanh",
                                   layer_types=[sliding, sliding, full, sliding, sliding])),
    "phi3-on": ("window", dict(sliding_window=None)),
    "neox-on": ("qkv_bias", dict(attention_bias=True)),
    "starcoder2": ("qkv_bias", dict(use_bias=True)),
    "starcoder2-on": ("window", dict(sliding_window=None)),
    "smollm3-on": ("qkv_bias", {**no_window, "attention_bias": False, "mlp_bias": False, "no_rope_layers": [1, 1, 1]}),
    "gpt2-on": ("attention_scale", dict(scale_attn_weights=True, activation_function="gelu_new")),
    "mixtral-on": ("activation", dict(hidden_act="silu", sliding_window=None)),
    "qwen3_moe-on": ("qkv_bias", {**no_window, "attention_bias": False, "mlp_only_layers": [], "norm_topk_prob": True}),
    "olmoe-on": ("qkv_bias", dict(attention_bias=False, norm_topk_prob=False, num_key_value_heads=6,
                                  rope_parameters=dict(rope_type="linear", rope_theta=1e4, factor=2.0))),
    **{name: ("family", None) for name in ("gpt_oss", "gpt_oss-on", "deepseek2", "deepseek2-on", "deepseek3", "deepseek3-on")},  # refused, whatever it says
}
# llama.cpp computes gelu by a table of f16.
of_tables = ("gemma", "neox", "starcoder2", "gpt2")
# Of 60 greedy tokens. llama.cpp rounds activations where weights are not f32, and these weights are random and large; tests/io/gguf has
# the values themselves.
fewest_equal = {"f32": 60, "f16": 57, "bf16": 40, "q8_0": 40}
texts = ["", "a", "the light of the moving house", "I'm sure you'll say it's DON'T, we've 1234567 3.14 x2\n\n\n  and\ttabs   \n end ",
         "caf\u00e9 \u4e2d\u6587 \u0394\u03b5\u03bd \U0001f600 e\u0301 \u00a0 \u2028x", "def f(x):\r\n    return {'a': [x] * 10}  # !!! ...", "HTTPServer camelCase ABC_def"]


def changed_shapes(name, config, shapes):
    """The tensors of the changed config."""
    shapes = {key: value for key, value in shapes.items() if not key.endswith("proj.bias") or config.get("attention_bias", True) is not False}
    if config.get("mlp_bias") is False:
        shapes = {key: value for key, value in shapes.items() if "mlp" not in key or not key.endswith("bias")}
    if config.get("tie_word_embeddings"):
        shapes.pop("lm_head.weight", None)
    if name in ("neox-on", "starcoder2"):
        layers = [key for key, value in shapes.items() if len(value) == 2 and ".layers." in key]
        shapes.update({key.removesuffix("weight") + "bias": [shapes[key][0]] for key in layers})
    if name == "qwen3_moe-on":  # no dense layer
        shapes = {key: value for key, value in shapes.items() if ".0.mlp." not in key}
        shapes.update({key.replace("layers.1.", "layers.0."): value for key, value in shapes.items() if ".1.mlp." in key})
    if name == "olmoe-on":  # a key-value head per head
        shapes.update({key: shapes[key.replace(f".{kind}_", ".q_")] for key in shapes for kind in "kv" if f".{kind}_" in key})
    return shapes


class Model:
    """A file, loaded by llama.cpp: in f32 where it is f32, on one thread."""

    def __init__(self, path, capacity):
        parameters = llama_cpp.llama_model_default_params()
        parameters.n_gpu_layers = 0
        parameters.use_mmap = False
        self.model = llama_cpp.llama_model_load_from_file(str(path).encode(), parameters)
        assert self.model, f"llama.cpp does not load {path}"
        self.vocab = llama_cpp.llama_model_get_vocab(self.model)
        context = llama_cpp.llama_context_default_params()
        context.n_ctx = context.n_batch = context.n_ubatch = capacity
        context.n_threads = context.n_threads_batch = 1
        context.type_k = context.type_v = 0  # f32
        context.swa_full = True
        if hasattr(context, "flash_attn_type"):
            context.flash_attn_type = 0
        self.context = llama_cpp.llama_init_from_model(self.model, context)
        assert self.context, f"llama.cpp makes no context of {path}"

    def logits(self, ids):
        batch = llama_cpp.llama_batch_init(len(ids), 0, 1)
        batch.n_tokens = len(ids)
        for at, token in enumerate(ids):
            batch.token[at], batch.pos[at], batch.n_seq_id[at], batch.logits[at] = token, at, 1, 1
            batch.seq_id[at][0] = 0
        assert llama_cpp.llama_decode(self.context, batch) == 0
        width = llama_cpp.llama_vocab_n_tokens(self.vocab)
        rows = array.array("f")
        for at in range(len(ids)):
            rows.extend(llama_cpp.llama_get_logits_ith(self.context, at)[:width])
        llama_cpp.llama_batch_free(batch)
        return rows

    def tokens(self, text, special=False):
        data = text.encode()
        ids = (llama_cpp.llama_token * (len(data) + 8))()
        count = llama_cpp.llama_tokenize(self.vocab, data, len(data), ids, len(ids), special, False)
        assert count >= 0
        return list(ids[:count])

    def text(self, ids):
        pieces, buffer = b"", ctypes.create_string_buffer(256)
        for token in ids:
            length = llama_cpp.llama_token_to_piece(self.vocab, token, buffer, len(buffer), 0, False)
            pieces += buffer.raw[:length]
        return pieces.decode()

    def close(self):
        llama_cpp.llama_free(self.context)
        llama_cpp.llama_model_free(self.model)


def check(name, place):
    home = place / name
    kept = models[name]
    config, shapes, class_name = kept["config"], kept["shapes"], kept["config"]["architectures"][0]
    if name in changes:
        key, change = changes[name]
        write_folder(home / "refused", config, shapes, class_name)
        run(trivium, "checkpoint", "import", home / "refused", home / "of-refused")
        said = run(trivium, "checkpoint", "export", home / "of-refused", home / "refused.gguf", "--tokenizer", "none", status=2)
        assert f"model.{key}: is" in said, said
        if change is None:
            return
        config = {key: value for key, value in {**config, **change}.items() if value is not None or key in config}
        config = {key: value for key, value in config.items() if not (key == "layer_types" and value is None)}
        shapes = changed_shapes(name, config, shapes)
    write_folder(home / "theirs", config, shapes, class_name)
    run(trivium, "checkpoint", "import", home / "theirs", home / "ours")
    ours = array.array("f", logits_in_bytes(home / "ours/model.toml", home / "ours", home, prompt))
    vocab = len(ours) // len(prompt)
    line = f"{name}:"
    for kind, fewest in fewest_equal.items():
        run(trivium, "checkpoint", "export", home / "ours", home / f"{kind}.gguf", "--type", kind, "--tokenizer", "none")
        model = Model(home / f"{kind}.gguf", len(prompt))
        theirs = model.logits(prompt)
        model.close()
        error = largest_difference(ours, theirs)
        best = [max(range(vocab), key=rows[at * vocab:(at + 1) * vocab].__getitem__) for rows in (ours, theirs) for at in range(len(prompt))]
        equal = sum(a == b for a, b in zip(best[:len(prompt)], best[len(prompt):]))
        line += f" {kind} {error:.1e} {equal}/{len(prompt)}"
        allowed = float("inf") if kind != "f32" else 5e-3 if name.startswith(of_tables) else 1e-4
        assert error < allowed and equal >= fewest, f"{line}: logits"
    print(line, flush=True)


def check_tokenizers(place):
    """llama.cpp's ids of text."""
    words = " ".join(texts) * 40
    (place / "text.txt").write_text(words)
    run(trivium, "data", "tokenizer", place / "text.txt", "--vocab", "340", "-o", place / "trained.model")
    config, shapes = {**models["llama"]["config"], "vocab_size": 900}, dict(models["llama"]["shapes"])
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        shapes[name] = [900, shapes[name][1]]
    write_folder(place / "theirs", config, shapes, "Llama")
    run(trivium, "checkpoint", "import", place / "theirs", place / "ours")
    data = pathlib.Path(__file__).parents[2] / "io/data/byte_bpe"
    for tokenizer in ["bytes", place / "trained.model", *(data / f"{name}.json" for name in ("gpt2", "llama3", "digits", "llama2", "gemma"))]:
        file = place / "tokens.gguf"
        file.unlink(missing_ok=True)
        run(trivium, "checkpoint", "export", place / "ours", file, "--type", "q8_0", "--tokenizer", tokenizer)
        model = Model(file, 8)
        ids, decoded = our_ids(tokenizer, texts)
        for text, expected, back in zip(texts, ids, decoded, strict=True):
            found = model.tokens(text)
            assert found == expected, f"{tokenizer}: {text!r} is {found}, not {expected}"
            said = model.text(found)
            assert said.removeprefix(" ") == back.removeprefix(" "), f"{tokenizer}: {said!r}, not {back!r}"
        model.close()
        print(f"{pathlib.Path(tokenizer).name}: {sum(map(len, ids))} ids", flush=True)


failures = []
with tempfile.TemporaryDirectory() as place_name:
    for model_name in models:
        if model_name != "versions" and (not only or model_name.startswith(only[0])):
            try:
                check(model_name, pathlib.Path(place_name))
            except AssertionError as failure:
                failures.append(f"{model_name}: {failure}")
                print(failures[-1], flush=True)
    if not only or "tokenizers".startswith(only[0]):
        check_tokenizers(pathlib.Path(place_name))
assert not failures, "\n".join(failures)
print("all is well")
