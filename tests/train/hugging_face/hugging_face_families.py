"""Two small models of each family of transformers: import, logits, greedy tokens, five steps of AdamW on one rank and on
eight, export.

    hugging_face_families.py TRIVIUM LOGITS_PROGRAM IDS_PROGRAM LAUNCH [--keep] [FIRST LETTERS OF A MODEL]

LAUNCH is a command that runs runs_program on eight ranks; "": no runs on eight, and one in eight models, with many options. Weights are a formula of name and index.
Without transformers, a checkout is compared with the numbers in hugging_face_families.json, which --keep writes.
"""

import array
import json
import os
import pathlib
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
from hugging_face_helpers import largest_difference, logits_in_bytes, run, tolerance, trivium, write_folder

try:
    import torch
    import transformers
    import safetensors.torch
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    missing = None
except Exception as reason:  # not only ImportError: a broken package may raise anything
    missing = reason

kept_file = pathlib.Path(__file__).with_suffix(".json")
launch, keeping, only = sys.argv[4].split(), "--keep" in sys.argv, [a for a in sys.argv[5:] if a != "--keep"]
seq, sequences, steps, rate, decay = 64, 4, 5, 2e-3, 0.1
prompt = [(7 * i * i + 3 * i) % 251 for i in range(44)]
drawn = 20  # greedy tokens
text = bytes(97 + i**3 // 11 % 26 for i in range(sequences * seq + 9))  # all windows of an epoch are in each step
kept_positions = (7, 40, 63)


def yarn(factor, original, **more):
    return dict(rope_type="yarn", rope_theta=5e5, factor=factor, original_max_position_embeddings=original, **more)


def rope(kind, theta=1e4, **more):
    return dict(rope_type=kind, rope_theta=theta, **more)


def sizes(**changes):
    return {**dict(vocab_size=259, hidden_size=32, intermediate_size=56, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=4,
                   max_position_embeddings=seq, rms_norm_eps=1e-5, tie_word_embeddings=False), **changes}


def other_sizes(**changes):
    return sizes(**{**dict(vocab_size=263, hidden_size=36, intermediate_size=50, num_attention_heads=6, num_key_value_heads=2, tie_word_embeddings=True), **changes})


def latents(keys):
    """All layers are dense, unless the keys say otherwise."""
    return {**dict(kv_lora_rank=12, qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=5, first_k_dense_replace=keys["num_hidden_layers"]), **keys}


def without(keys, *names):
    return {key: value for key, value in keys.items() if key not in names}


plain = rope("default")
full, sliding = "full_attention", "sliding_attention"
# Name: class, keys. The first of a family has few options, the second many.
models = {
    "llama": ("Llama", sizes(rope_parameters=plain)),
    "llama-on": ("Llama", other_sizes(head_dim=10, attention_bias=True, mlp_bias=True, hidden_act="gelu",
                                      rope_parameters=rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32))),
    "mistral": ("Mistral", sizes(sliding_window=None, num_key_value_heads=2, rope_parameters=rope("linear", factor=2.5))),
    "mistral-on": ("Mistral", other_sizes(sliding_window=7, head_dim=14, num_key_value_heads=1, rope_parameters=yarn(4.0, 16, beta_fast=16.0, beta_slow=2.0))),
    "qwen2": ("Qwen2", sizes(rope_parameters=rope("dynamic", factor=2.0))),
    "qwen2-on": ("Qwen2", other_sizes(num_key_value_heads=3, use_sliding_window=True, sliding_window=9, max_window_layers=1, rms_norm_eps=1e-6,
                                      rope_parameters=yarn(2.0, 32, mscale=0.7, mscale_all_dim=1.1, truncate=False))),
    "qwen3": ("Qwen3", sizes(head_dim=10, rope_parameters=plain)),
    "qwen3-on": ("Qwen3", other_sizes(head_dim=8, num_key_value_heads=1, attention_bias=True, use_sliding_window=True, sliding_window=6,
                                      layer_types=[sliding, full, sliding], rope_parameters=yarn(4.0, 16, attention_factor=1.3))),
    "olmo2": ("Olmo2", sizes(rope_parameters=plain)),
    "olmo2-on": ("Olmo2", other_sizes(attention_bias=True, rope_parameters=rope("linear", 5e5, factor=3.0))),
    "olmo3": ("Olmo3", sizes(num_hidden_layers=4, sliding_window=5, rope_parameters={full: yarn(8.0, 16), sliding: rope("default", 5e5)})),
    "olmo3-on": ("Olmo3", other_sizes(num_hidden_layers=5, attention_bias=True, sliding_window=11, layer_types=[full, sliding, sliding, full, sliding],
                                      rope_parameters={full: yarn(8.0, 16), sliding: {**yarn(8.0, 16), "rope_theta": 1e4}})),
    "gemma2": ("Gemma2", sizes(head_dim=8, sliding_window=4096, attn_logit_softcapping=None, final_logit_softcapping=None, rope_parameters=plain)),
    "gemma2-on": ("Gemma2", other_sizes(head_dim=10, query_pre_attn_scalar=24, sliding_window=6, attn_logit_softcapping=5.0, final_logit_softcapping=4.0,
                                        attention_bias=True, tie_word_embeddings=False, rope_parameters=plain)),
    "gemma3": ("Gemma3Text", sizes(head_dim=8, sliding_window=8, sliding_window_pattern=2, tie_word_embeddings=True,
                                   rope_parameters={full: rope("default", 1e6), sliding: plain})),
    "gemma3-on": ("Gemma3Text", other_sizes(head_dim=10, query_pre_attn_scalar=30, num_hidden_layers=5, sliding_window=9, final_logit_softcapping=4.0,
                                            attention_bias=True, hidden_activation="gelu", layer_types=[sliding, sliding, full, sliding, full],
                                            rope_parameters={full: rope("linear", 1e6, factor=8.0), sliding: plain})),
    "phi3": ("Phi3", sizes(rope_parameters=plain)),
    "phi3-on": ("Phi3", other_sizes(hidden_size=48, sliding_window=11, original_max_position_embeddings=32,
                                    rope_parameters=rope("longrope", partial_rotary_factor=0.75, short_factor=[1.0, 1.1, 1.3], long_factor=[1.2, 2.5, 4.0]))),
    "neox": ("GPTNeoX", without(sizes(rope_parameters=rope("default", partial_rotary_factor=0.25)), "num_key_value_heads", "rms_norm_eps")),
    "neox-on": ("GPTNeoX", without(other_sizes(hidden_size=48, num_attention_heads=4, layer_norm_eps=1e-6, use_parallel_residual=False, attention_bias=False,
                                               hidden_act="gelu_new", rope_parameters=rope("default", 2e4, partial_rotary_factor=0.5)),
                                   "num_key_value_heads", "rms_norm_eps")),
    "starcoder2": ("Starcoder2", without(sizes(use_bias=False, sliding_window=None, rope_parameters=plain), "rms_norm_eps")),
    "starcoder2-on": ("Starcoder2", without(other_sizes(sliding_window=10, norm_epsilon=1e-6, rope_parameters=rope("default", 1e5)), "rms_norm_eps")),
    "granite": ("Granite", sizes(rope_parameters=plain)),
    "granite-on": ("Granite", other_sizes(attention_bias=True, mlp_bias=True, embedding_multiplier=3.0, logits_scaling=2.5, residual_multiplier=0.3,
                                          attention_multiplier=0.2, rope_parameters=plain)),
    "smollm3": ("SmolLM3", sizes(num_hidden_layers=5, rope_parameters=rope("default", 2e6))),
    "smollm3-on": ("SmolLM3", other_sizes(attention_bias=True, mlp_bias=True, tie_word_embeddings=False, no_rope_layers=[0, 1, 1], use_sliding_window=True,
                                          sliding_window=7, rope_parameters=plain)),
    "mixtral": ("Mixtral", sizes(num_hidden_layers=2, intermediate_size=24, num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2,
                                 rope_parameters=rope("default", 1e6))),
    "mixtral-on": ("Mixtral", other_sizes(num_hidden_layers=2, intermediate_size=18, head_dim=14, num_key_value_heads=1, sliding_window=7, num_local_experts=6,
                                          num_experts_per_tok=3, hidden_act="gelu", rope_parameters=yarn(4.0, 16))),
    "qwen3_moe": ("Qwen3Moe", sizes(num_hidden_layers=2, head_dim=10, moe_intermediate_size=24, num_experts=4, num_experts_per_tok=2, norm_topk_prob=True,
                                    rope_parameters=plain)),
    "qwen3_moe-on": ("Qwen3Moe", other_sizes(head_dim=8, num_key_value_heads=1, moe_intermediate_size=22, num_experts=6, num_experts_per_tok=3, mlp_only_layers=[0],
                                             attention_bias=True, use_sliding_window=True, sliding_window=6, rope_parameters=rope("linear", 5e5, factor=3.0))),
    "olmoe": ("Olmoe", sizes(num_hidden_layers=2, intermediate_size=20, num_experts=8, num_experts_per_tok=3, rope_parameters=plain)),
    "olmoe-on": ("Olmoe", other_sizes(num_hidden_layers=2, intermediate_size=24, num_experts=4, num_experts_per_tok=2, norm_topk_prob=True, attention_bias=True,
                                      rope_parameters=rope("dynamic", factor=2.0))),
    "gpt_oss": ("GptOss", sizes(head_dim=8, intermediate_size=24, num_local_experts=4, num_experts_per_tok=2, sliding_window=8,
                                rope_parameters={**yarn(32.0, 16), "rope_theta": 150000.0, "truncate": False})),
    "gpt_oss-on": ("GptOss", other_sizes(head_dim=10, intermediate_size=18, num_local_experts=6, num_experts_per_tok=3, sliding_window=5, attention_bias=False,
                                         layer_types=[full, sliding, sliding], rope_parameters=plain)),
    "gpt2": ("GPT2", dict(vocab_size=259, n_embd=32, n_layer=3, n_head=4, n_positions=seq)),
    "gpt2-on": ("GPT2", dict(vocab_size=263, n_embd=36, n_layer=3, n_head=6, n_positions=seq, n_inner=80, layer_norm_epsilon=1e-6, tie_word_embeddings=False,
                             activation_function="gelu", scale_attn_weights=False)),
    "deepseek2": ("DeepseekV2", latents(sizes(q_lora_rank=None, rope_parameters=plain))),
    "deepseek2-on": ("DeepseekV2", latents(other_sizes(q_lora_rank=14, num_key_value_heads=6, v_head_dim=13, attention_bias=True, mlp_bias=True,
                                                       rope_parameters=yarn(4.0, 16, mscale=0.7, mscale_all_dim=1.1)))),
    "deepseek3": ("DeepseekV3", latents(sizes(q_lora_rank=16, rope_parameters=yarn(8.0, 16, mscale=1.0, mscale_all_dim=1.0)))),
    "deepseek3-on": ("DeepseekV3", latents(other_sizes(q_lora_rank=None, num_key_value_heads=6, qk_nope_head_dim=10, attention_bias=True, rope_interleave=False,
                                                       rope_parameters=yarn(4.0, 32, mscale_all_dim=0.8)))),
    "deepseek2-experts": ("DeepseekV2", latents(sizes(q_lora_rank=None, first_k_dense_replace=1, moe_intermediate_size=20, n_routed_experts=6, num_experts_per_tok=3,
                                                      n_shared_experts=2, topk_method="group_limited_greedy", n_group=3, topk_group=2,
                                                      routed_scaling_factor=1.5, rope_parameters=plain))),
    "deepseek3-experts": ("DeepseekV3", latents(sizes(q_lora_rank=16, first_k_dense_replace=1, moe_intermediate_size=18, n_routed_experts=8, num_experts_per_tok=3,
                                                      n_shared_experts=1, n_group=4, topk_group=2, rope_parameters=plain))),
}


def as_written_by_4(config):
    """The same config.json in the keys of transformers 4; None if these cannot say it."""
    old = {key: value for key, value in config.items() if key not in ("rope_parameters", "layer_types", "_sliding_window_pattern", "dtype")}
    old["torch_dtype"] = config["dtype"]
    if config["model_type"] == "qwen3_moe":
        old["num_experts"] = old.pop("num_local_experts")
    parameters = config.get("rope_parameters")
    if parameters is None:  # learned positions
        return old
    if config["model_type"] not in ("gemma2", "olmo3", "gemma3_text") and sliding in config.get("layer_types", []) and config.get("max_window_layers") != 1:
        old["layer_types"] = config["layer_types"]
    of_full, of_sliding = (parameters[full], parameters[sliding]) if full in parameters else (parameters, None)
    scaling = {key: value for key, value in of_full.items() if key not in ("rope_theta", "partial_rotary_factor")}
    if config["model_type"] == "phi3":
        scaling.pop("original_max_position_embeddings", None)
        scaling["type"] = scaling.pop("rope_type")
    old["rope_scaling"] = None if "default" in scaling.values() else scaling
    if config["model_type"] == "gpt_neox":
        old["rotary_emb_base"], old["rotary_pct"] = parameters["rope_theta"], parameters["partial_rotary_factor"]
        return old
    old["rope_theta"] = of_full["rope_theta"]
    if "partial_rotary_factor" in of_full:
        old["partial_rotary_factor"] = of_full["partial_rotary_factor"]
    if config["model_type"] == "gemma3_text":
        old["rope_local_base_freq"] = of_sliding["rope_theta"]
        old["sliding_window_pattern"] = config["_sliding_window_pattern"]
    if of_sliding and (of_sliding["rope_type"] != "default" or (config["model_type"] == "olmo3" and of_sliding["rope_theta"] != of_full["rope_theta"])):
        return None
    if config["model_type"] in ("gemma2", "olmo3", "gemma3_text"):
        pattern = dict(gemma2=2, olmo3=4).get(config["model_type"], config.get("_sliding_window_pattern"))
        if config["layer_types"] != [sliding if (i + 1) % pattern else full for i in range(config["num_hidden_layers"])]:
            old["layer_types"] = config["layer_types"]
    return old


def tables_of(home):
    return (home / "model.toml").read_text().split("[data]")[0]


def their_model(class_name, keys):
    config_class = getattr(transformers, class_name + "Config")
    name = class_name.removesuffix("Text") + ("LMHeadModel" if class_name == "GPT2" else "ForCausalLM")
    config = config_class(**keys, pad_token_id=None, bos_token_id=None, eos_token_id=None, attn_implementation="eager")
    return getattr(transformers, name)(config).eval()


def loaded(folder):
    model, info = transformers.AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True, dtype=torch.float32, attn_implementation="eager", experts_implementation="eager")
    assert not any(info.get(key) for key in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs")), info
    return model.eval()


def loss_of(model):
    windows = torch.tensor([list(text[i * seq:(i + 1) * seq + 1]) for i in range(sequences)])
    return torch.nn.functional.cross_entropy(model(windows[:, :-1]).logits.float().flatten(0, 1), windows[:, 1:].flatten())


def numbers_of(model, folder):
    """All that is compared, from transformers."""
    ids = list(prompt)
    with torch.no_grad():
        for _ in range(drawn):
            ids.append(model(torch.tensor([ids]), use_cache=False).logits[0, -1].argmax().item())
        logits = model(torch.tensor([ids])).logits[0].float()
    assert logits.abs().max() > 0.5, "logits are too small to tell"
    half = loaded(folder).to(torch.bfloat16)
    with torch.no_grad():
        in_bf16 = loss_of(half).item()
    of_products = [name for name, p in model.named_parameters() if p.dim() > 1 and not name.endswith("bias")]
    groups = [dict(params=[p for name, p in model.named_parameters() if (name in of_products) == decays], weight_decay=decay if decays else 0.0)
              for decays in (True, False)]
    optimizer = torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.95), eps=1e-8)
    losses = []
    for _ in range(steps):
        loss = loss_of(model)
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return dict(greedy=ids[len(prompt):], logits={str(at): logits[at, :12].tolist() for at in kept_positions}, losses=losses, bf16=in_bf16,
                trained=loss_of(model).item()), logits.flatten().tolist()


def settings(home, name, *rows):
    """Config and overrides of a run."""
    return [f"{home}/ours/model.toml", f"data.train={home.parent}/train.h5", f"checkpoint.dir={home}/{name}", f"log.dir={home}/logs-{name}",
            f"train.global_batch={sequences}", "train.balance_rate=0", f"train.lr={rate}", f"train.min_lr={rate}", f"train.weight_decay={decay}", "train.grad_clip=0", *rows]


def losses_of(home, name):
    return [json.loads(line)["loss"] for line in (home / f"logs-{name}" / "metrics.jsonl").read_text().splitlines() if '"loss"' in line]


def loss_error(home, name, expected):
    return max(abs(a - b) / b for a, b in zip(losses_of(home, name), expected, strict=True))


def train(home, name, *rows):
    run(trivium, "train", *settings(home, name, *rows))


def grid_of(number):
    """The settings of model `number` on eight ranks: all kinds of each, as evenly as they divide."""
    schedules = ("1f1b", "zb-v", "gpipe", "interleaved", "zb-h1", "dualpipe-v", "breadth-first", "zb-h2", "v-half", "v-min")
    shared = ["parallel.data=1", "parallel.context=2"] if number % 8 == 7 else ["parallel.data=2"]
    if any("expert" in key for key in list(models.values())[number][1]):
        shared.append("parallel.expert=2")
    return [*shared, "parallel.pipeline=2", "parallel.tensor=2", "train.micro_batch=1", f"parallel.zero={number % 4}",
            f"parallel.recompute={('none', 'selective', 'full')[number % 3]}", f"parallel.schedule={schedules[(number + number // 4) % 10]}",
            f"parallel.sequence={'true' if number // 2 % 2 else 'false'}", f"train.steps={steps}"]


def check_on_eight(expected, place):
    """Five steps of the models whose losses are given, in one launch, which takes longer than a run."""
    settings_of = {name: grid_of(list(models).index(name)) for name in expected}
    (place / "runs.txt").write_text("".join("\t".join(settings(place / name, "eight", *rows)) + "\n" for name, rows in settings_of.items()))
    run(*launch, place / "runs.txt")
    for name, losses in expected.items():
        error = loss_error(place / name, "eight", losses)
        print(f"{name}: losses on eight ranks {error:.1e}", flush=True)
        if not error < tolerance:
            failures.append(f"{name}: losses {losses_of(place / name, 'eight')} with {settings_of[name]}, expected {losses}")


def check(name, kept, place):
    class_name, keys = models[name]
    home = place / name
    model = all_logits = None
    if missing is None:
        model = their_model(class_name, keys)
        model.save_pretrained(home / "saved")
        shapes = {key: list(value.shape) for key, value in safetensors.torch.load_file(home / "saved/model.safetensors").items()}
        config = json.loads((home / "saved/config.json").read_text())
    else:
        shapes, config = kept["shapes"], kept["config"]
    write_folder(home / "theirs", config, shapes, class_name)
    numbers = kept
    if missing is None:
        model = loaded(home / "theirs")
        numbers, all_logits = numbers_of(model, home / "theirs")
        if keeping:
            old = {key: value for key, value in config.items() if not key.endswith("token_id") and key != "transformers_version"}
            kept.update(dict(config=old, shapes=shapes, **numbers))

    run(trivium, "checkpoint", "import", home / "theirs", home / "ours")
    if old := as_written_by_4(config):
        write_folder(home / "old", old, shapes, class_name)
        run(trivium, "checkpoint", "import", home / "old", home / "of-old")
        assert tables_of(home / "ours") == tables_of(home / "of-old"), f"{name}: both generations of config.json"

    ids = prompt + numbers["greedy"]
    data = array.array("f", logits_in_bytes(home / "ours/model.toml", home / "ours", home, ids))
    vocab = len(data) // len(ids)
    rows = [data[i * vocab:(i + 1) * vocab] for i in range(len(ids))]
    error = max(largest_difference(rows[int(at)][:12], values) for at, values in numbers["logits"].items())
    if all_logits:
        error = max(error, largest_difference(data, all_logits))
    greedy = [max(range(vocab), key=row.__getitem__) for row in rows[len(prompt) - 1:-1]]
    train(home, "run", f"train.steps={steps}")
    losses, of_losses = losses_of(home, "run"), loss_error(home, "run", numbers["losses"])
    train(home, "half", "train.steps=1", "train.precision=bf16")
    in_bf16 = losses_of(home, "half")[0]
    print(f"{name}: logits {error:.1e}, losses {losses[0]:.4f} to {losses[-1]:.4f} {of_losses:.1e}, bf16 {in_bf16 - numbers['bf16']:.1e}", flush=True)
    assert error < tolerance, f"{name}: logits"
    assert greedy == numbers["greedy"], f"{name}: greedy tokens {greedy} and {numbers['greedy']}"
    assert of_losses < tolerance, f"{name}: losses {losses} and {numbers['losses']}"
    assert abs(in_bf16 - numbers["bf16"]) < 5e-3 * max(1, numbers["bf16"]), f"{name}: loss in bf16 {in_bf16} and {numbers['bf16']}"

    run(trivium, "checkpoint", "export", home / "run", home / "trained")
    train(home, "own", "train.steps=1", 'train.init_from=""')  # not imported: its config.json is generated
    run(trivium, "checkpoint", "export", home / "own", home / "again")
    if missing is None:
        after = loss_of(loaded(home / "trained")).item()
        assert abs(after - numbers["trained"]) < tolerance * numbers["trained"], f"{name}: exported after training, {after} and {numbers['trained']}"
        with torch.no_grad():
            theirs = loaded(home / "again")(torch.tensor([ids])).logits[0].flatten().tolist()
        ours = array.array("f", logits_in_bytes(home / "ours/model.toml", home / "own", home, ids))
        assert largest_difference(ours, theirs) < 1e-5, f"{name}: exported as a new model, {largest_difference(ours, theirs)}"
    run(trivium, "checkpoint", "import", home / "again", home / "back")
    assert tables_of(home / "ours") == tables_of(home / "back"), f"{name}: [model] there and back"
    return numbers["losses"]


kept_models = json.loads(kept_file.read_text()) if kept_file.exists() else {}
if missing is not None:
    print(f"kept numbers of {kept_models['versions']}: no transformers here ({missing})")
elif keeping:
    kept_models["versions"] = f"torch {torch.__version__}, transformers {transformers.__version__}"
failures, expected = [], {}
with tempfile.TemporaryDirectory() as place_name:
    place = pathlib.Path(place_name)
    (place / "text.txt").write_bytes(text)  # the end of the document is in no window
    run(trivium, "data", "tokenize", place / "text.txt", "--tokenizer", "bytes", "-o", place / "train.h5")
    for number, model_name in enumerate(models):
        left_out = not launch and not keeping and not only and number % 8 != 5  # under sanitizers, which take their time
        if not left_out and (not only or model_name.startswith(only[0])):
            try:
                expected[model_name] = check(model_name, kept_models.setdefault(model_name, {}), place)
            except AssertionError as failure:
                failures.append(str(failure))
    if launch:
        check_on_eight(expected, place)
if keeping:
    kept_file.write_text(json.dumps(kept_models, separators=(",", ":")) + "\n")
assert not failures, "\n".join(failures)
print("all is well")
