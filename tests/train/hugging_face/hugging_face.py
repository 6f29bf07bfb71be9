"""Import and export against transformers and safetensors themselves.

    hugging_face.py TRIVIUM LOGITS_PROGRAM IDS_PROGRAM [FIRST LETTERS OF A TEST]

Exit status 77, with the reason, where those packages are missing: ctest then reports it as skipped.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

from hugging_face_helpers import logits_in_bytes, our_ids, require, run, tolerance, trivium

torch, transformers, _ = require("torch", "transformers", "safetensors.torch")
import safetensors.torch
ids = [(7 * i * i + 3 * i) % 61 for i in range(120)]


def llama(**changes):
    sizes = dict(vocab_size=61, hidden_size=32, intermediate_size=56, num_hidden_layers=3, num_attention_heads=4,
                 num_key_value_heads=4, max_position_embeddings=128, rms_norm_eps=1e-6, tie_word_embeddings=False,
                 initializer_range=0.3)
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**{**sizes, **changes}))


def gpt2(**changes):
    sizes = dict(vocab_size=61, n_embd=32, n_layer=3, n_head=4, n_positions=128, initializer_range=0.3)
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**{**sizes, **changes}))


def llama3_scaling():
    # Of the four frequencies, one stays, one is interpolated and two are stretched.
    return dict(rope_parameters=dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0,
                                     high_freq_factor=4.0, original_max_position_embeddings=64))


def mistral(**changes):
    sizes = dict(vocab_size=61, hidden_size=32, intermediate_size=56, num_hidden_layers=3, num_attention_heads=4,
                 num_key_value_heads=2, max_position_embeddings=128, sliding_window=None, initializer_range=0.3)
    return transformers.MistralForCausalLM(transformers.MistralConfig(**{**sizes, **changes}))


models = {
    "llama2": llama,
    "llama2-tied": lambda: llama(tie_word_embeddings=True),
    "llama3": lambda: llama(num_key_value_heads=2, **llama3_scaling()),
    "llama3-tied": lambda: llama(num_key_value_heads=1, tie_word_embeddings=True, **llama3_scaling()),
    "mistral": mistral,
    "mistral-window": lambda: mistral(sliding_window=32),
    "gpt2": gpt2,
    "gpt2-untied": lambda: gpt2(tie_word_embeddings=False, n_inner=80),
}


def randomised(model):
    """Norms and biases also have values that reveal errors."""
    with torch.no_grad():
        for name, value in model.named_parameters():
            if value.dim() == 1:
                value.add_(torch.randn_like(value) * 0.3)
    return model.eval()


def logits_of(model):
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0].float()


def our_logits(config, checkpoint, folder):
    return torch.frombuffer(bytearray(logits_in_bytes(config, checkpoint, folder, ids)), dtype=torch.float32).reshape(len(ids), -1)


def require_close(ours, theirs, what):
    assert theirs.abs().max() > 0.5, f"{what}: logits are too small to tell"
    error = ((ours - theirs).abs() / (1 + theirs.abs())).max().item()
    print(f"{what}: logits to {theirs.abs().max():.1f}, difference {error:.1e}")
    assert error < tolerance, what


def tensors_of(folder):
    tensors = {}
    for file in sorted(folder.glob("*.safetensors")):
        tensors.update(safetensors.torch.load_file(file))
    return tensors


def require_same_tensors(a, b, what):
    assert a.keys() == b.keys(), f"{what}: {a.keys() ^ b.keys()}"
    for name in a:
        assert a[name].dtype == b[name].dtype and a[name].shape == b[name].shape, f"{what}: {name}"
        assert torch.equal(a[name], b[name]), f"{what}: {name}"


def loaded(folder, dtype=torch.float32):
    model, info = transformers.AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True, dtype=dtype)
    assert not any(info.get(key) for key in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs")), info
    return model.eval()


def require_same_parameters(a, b):
    """Two checkpoints: both exported, in one file and in several, both read by safetensors."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        run(trivium, "checkpoint", "export", a, folder / "a")
        run(trivium, "checkpoint", "export", b, folder / "b", "--shard-size", "20KB")
        require_same_tensors(tensors_of(folder / "a"), tensors_of(folder / "b"), f"{a} and {b}")


def test_import(folder):
    """Theirs -> ours: the same logits; -> theirs again: the same tensors and config."""
    for kind, make in models.items():
        for dtype, shards in ((torch.float32, "1GB"), (torch.bfloat16, "20KB")):
            what = f"{kind} {dtype}".replace("torch.", "")
            home = folder / what.replace(" ", "-")
            torch.manual_seed(1)
            model = randomised(make()).to(dtype)
            model.save_pretrained(home / "theirs", max_shard_size=shards)
            assert (len(list((home / "theirs").glob("*.safetensors"))) > 1) == (shards == "20KB")
            run(trivium, "checkpoint", "import", home / "theirs", home / "ours")
            run(trivium, "checkpoint", "verify", home / "ours")
            theirs = logits_of(loaded(home / "theirs"))  # not of `model`: .to(bfloat16) rounds the rotary frequencies too
            require_close(our_logits(home / "ours/model.toml", home / "ours", home), theirs, "import of " + what)
            kind_of_ours = "f32" if dtype == torch.float32 else "bf16"
            run(trivium, "checkpoint", "export", home / "ours", home / "again", "--type", kind_of_ours, "--shard-size", "30KB")
            require_same_tensors(tensors_of(home / "theirs"), tensors_of(home / "again"), what + " there and back")
            require_close(logits_of(loaded(home / "again")), theirs, "there and back of " + what)
            before, after = (transformers.AutoConfig.from_pretrained(home / f).to_dict() for f in ("theirs", "again"))
            free = {"_name_or_path"}
            changed = {k: (before.get(k), after.get(k)) for k in {*before, *after} - free if before.get(k) != after.get(k)}
            assert not changed, f"config.json of {what}: {changed}"


def test_base_names(folder):
    """GPT-2 as on the hub: without the prefix, with the buffers of attention."""
    torch.manual_seed(2)
    model = randomised(gpt2())
    model.save_pretrained(folder / "theirs")
    tensors = {name.removeprefix("transformer."): value for name, value in tensors_of(folder / "theirs").items()}
    tensors["h.0.attn.bias"] = torch.ones(1, 1, 128, 128, dtype=torch.uint8)
    tensors["h.1.attn.masked_bias"] = torch.tensor(-1e4)
    safetensors.torch.save_file(tensors, folder / "theirs/model.safetensors", metadata={"format": "pt"})
    run(trivium, "checkpoint", "import", folder / "theirs", folder / "ours")
    require_close(our_logits(folder / "ours/model.toml", folder / "ours", folder), logits_of(model), "bare names")


def test_half(folder):
    """F16 converts exactly."""
    torch.manual_seed(3)
    model = randomised(llama()).half()
    model.save_pretrained(folder / "theirs")
    run(trivium, "checkpoint", "import", folder / "theirs", folder / "ours")
    run(trivium, "checkpoint", "export", folder / "ours", folder / "again")
    wide = {name: value.float() for name, value in tensors_of(folder / "theirs").items()}
    require_same_tensors(wide, tensors_of(folder / "again"), "f16")


def test_old_config(folder):
    """config.json as before transformers 5: rope_theta and rope_scaling."""
    torch.manual_seed(4)
    model = randomised(llama(num_key_value_heads=2, **llama3_scaling()))
    model.save_pretrained(folder / "theirs")
    config = json.loads((folder / "theirs/config.json").read_text())
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    config["rope_scaling"] = rope
    (folder / "theirs/config.json").write_text(json.dumps(config))
    run(trivium, "checkpoint", "import", folder / "theirs", folder / "ours")
    require_close(our_logits(folder / "ours/model.toml", folder / "ours", folder), logits_of(model), "old config.json")


def test_refused(folder):
    """Settings that [model] cannot express are refused by name."""
    for changes, words in (
            (dict(hidden_act="relu"), "hidden_act"),
            (dict(use_mrope=True), "use_mrope"),
            (dict(rope_parameters=dict(rope_type="proportional", rope_theta=1e4)), "proportional"),
            (dict(rope_parameters=dict(rope_type="default", rope_theta=1e4, mrope_section=[2, 2])), "mrope_section")):
        home = folder / words
        llama(**changes).save_pretrained(home)
        assert words in run(trivium, "checkpoint", "import", home, folder / "ours", status=2), words
    for changes, words in ((dict(scale_attn_by_inverse_layer_idx=True), "scale_attn_by_inverse_layer_idx"),
                           (dict(activation_function="relu"), "activation_function")):
        home = folder / words
        gpt2(**changes).save_pretrained(home)
        assert words in run(trivium, "checkpoint", "import", home, folder / "ours", status=2), words
    assert not (folder / "ours").exists()


def test_export(folder):
    """Ours, trained -> theirs: loads without a missing or unexpected key, the same logits; -> ours: the same bits."""
    (folder / "text.txt").write_text("".join(f"{i} times {i} is {i * i}.\n" for i in range(600)))
    run(trivium, "data", "tokenize", folder / "text.txt", "--tokenizer", "bytes", "-o", folder / "train.h5")
    for kind in ("llama kv_heads=2 rope_scaling=[8,1,4,32]", "llama tied_embeddings=true", "gpt2 tied_embeddings=true", "gpt2 norm_eps=1e-6"):
        family, *keys = kind.split()
        home = folder / kind.replace(" ", "-").replace("/", "-")
        home.mkdir()
        config = home / "run.toml"
        rows = [f"data.train={folder}/train.h5", f"checkpoint.dir={home}/ours", f"log.dir={home}/logs", "train.steps=4", "train.lr=1e-2",
                "model.layers=2", "model.dim=32", "model.seq=128", f"model.family={family}", *("model." + key for key in keys)]
        config.write_text("[train]\nglobal_batch = 2\n")
        run(trivium, "train", config, *rows)
        for dtype, type_name in ((torch.float32, "f32"), (torch.bfloat16, "bf16")):
            run(trivium, "checkpoint", "export", home / "ours", home / type_name, "--type", type_name, "--shard-size", "40KB")
            model = loaded(home / type_name, dtype)
            assert model.dtype == dtype
            run(trivium, "checkpoint", "import", home / type_name, home / ("again-" + type_name))
        theirs = logits_of(loaded(home / "f32"))
        require_close(our_logits(home / "again-f32/model.toml", home / "again-f32", home), theirs, "again, " + kind)
        resolved = home / "resolved.toml"
        shown = json.loads(run(trivium, "checkpoint", "show", home / "ours", "--json"))
        resolved.write_text(shown["config"])
        require_close(our_logits(resolved, home / "ours", home), theirs, "export of " + kind)
        require_same_parameters(home / "ours", home / "again-f32")


def test_tokenizer(folder):
    """tokenizer.json is imported and exported with the model, and the training text has its ids."""
    import tokenizers
    text = "".join(f"{i} times {i} is {i * i}, as was said.\n" for i in range(600))
    (folder / "text.txt").write_text(text)
    bpe = tokenizers.Tokenizer(tokenizers.models.BPE())
    bpe.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = tokenizers.decoders.ByteLevel()
    bpe.train_from_iterator([text], tokenizers.trainers.BpeTrainer(
        vocab_size=300, special_tokens=["<|endoftext|>"], initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    torch.manual_seed(5)
    gpt2(vocab_size=300).save_pretrained(folder / "theirs")
    bpe.save(str(folder / "theirs/tokenizer.json"))
    run(trivium, "checkpoint", "import", folder / "theirs", folder / "ours")
    run(trivium, "data", "tokenize", folder / "text.txt", "--tokenizer", folder / "ours/tokenizer.json", "-o", folder / "train.h5")
    run(trivium, "train", folder / "ours/model.toml", f"train.init_from={folder}/ours", f"data.train={folder}/train.h5", "train.steps=2",
        "train.global_batch=2", f"checkpoint.dir={folder}/further", f"log.dir={folder}/logs")
    run(trivium, "generate", folder / "ours/model.toml", "--checkpoint", folder / "further", "--prompt", "7 times", "--tokens", "5")
    said = json.loads(run(trivium, "eval", folder / "ours/model.toml", "--checkpoint", folder / "ours", "--data", folder / "train.h5", "--json"))
    ids = bpe.encode(text).ids + [bpe.token_to_id("<|endoftext|>")]
    model, losses = loaded(folder / "theirs"), []
    for begin in range(0, said["tokens"], 128):
        window = torch.tensor([ids[begin:begin + 129]])
        with torch.no_grad():
            logits = model(window[:, :-1]).logits[0]
        losses.append(torch.nn.functional.cross_entropy(logits, window[0, 1:], reduction="sum").item())
    theirs = sum(losses) / said["tokens"]
    print(f"loss over {said['tokens']} tokens: {said['loss']:.6f} and {theirs:.6f}")
    assert said["tokens"] > 1000 and abs(said["loss"] - theirs) < tolerance
    run(trivium, "checkpoint", "export", folder / "further", folder / "again")
    assert (folder / "again/tokenizer.json").read_bytes() == (folder / "theirs/tokenizer.json").read_bytes()
    assert transformers.AutoTokenizer.from_pretrained(folder / "again").eos_token == "<|endoftext|>"
    check_scores(folder, text)


def check_scores(folder, text):
    """`eval --score` of the trained model and its export in transformers, tokenised as lm-evaluation-harness does."""
    pairs = [(text[i * 97:i * 97 + 5 + 40 * (i % 7)], text[i * 97 + 5 + 40 * (i % 7):i * 97 + 20 + 40 * (i % 7)]) for i in range(12)]
    pairs += [("7 times ", "7 is 49"), ("7 times\n \n", " 7"), ("", "3 times"), (text[:2000], " is")]
    (folder / "pairs.jsonl").write_text("".join(json.dumps({"context": c, "continuation": t}) + "\n" for c, t in pairs))
    run(trivium, "eval", folder / "ours/model.toml", "--checkpoint", folder / "further", "--score", folder / "pairs.jsonl", "-o", folder / "scores.jsonl")
    said = (folder / "scores.jsonl").read_text()
    tokenizer, model = transformers.AutoTokenizer.from_pretrained(folder / "again"), loaded(folder / "again")
    largest = 0
    for (context, continuation), line in zip(pairs, said.splitlines(), strict=True):
        ours = json.loads(line)
        spaces = len(context) - len(context.rstrip())
        if context == "":
            ids, begin = [tokenizer.eos_token_id] + tokenizer.encode(continuation), 1
        else:
            if spaces > 0:
                continuation, context = context[-spaces:] + continuation, context[:-spaces]
            ids, begin = tokenizer.encode(context + continuation), len(tokenizer.encode(context))
        count = len(ids) - begin
        ids = ids[-(model.config.n_positions + 1):]
        with torch.no_grad():
            logprobs = torch.log_softmax(model(torch.tensor([ids[:-1]])).logits[0, -count:].double(), -1)
        targets = torch.tensor(ids[-count:])
        theirs = logprobs.gather(-1, targets[:, None]).sum().item()
        largest = max(largest, abs(theirs - ours["logprob"]))
        assert ours["tokens"] == count and ours["is_greedy"] == bool((logprobs.argmax(-1) == targets).all()), (line, theirs)
    print(f"scores of {len(pairs)} continuations: largest difference {largest:.2e}")
    assert largest < 1e-4


texts = ["", " ", "  ", "a", " a", "a ", "import os", "  import os\n\tprint( 'x' )  \n", "\n", "\n\n\n", "\t\t", "a\u2581b", "\u2581", "\u2581 \u2581",
         "</s>", "<s>a</s> b", "x<|endoftext|>y", "<unk>", "<0x0A>", "\u00a0\u3000\u200b\ufeff", "\u00e9 e\u0301 \ufb01 \u2126", "\U0001f600 \u4e2d\u6587",
         "aaaaaaaaa", "        deep", "-----====-----", "12345 6789", "the times that was said\r\nwas   said", "\x00\x01\x7f", "   \n   \n", "a" * 300 + " " * 70]


def random_texts(seed, count):
    """Text of letters that occur in many merges, and of others."""
    import random
    draw = random.Random(seed)
    letters = "    \n\tetaoinshrdlu" + "imes was aid, 0123456789.=-_a" * 2 + "\u2581\u00e9\u4e2d\U0001f600"
    return ["".join(draw.choices(letters, k=draw.randrange(1, 60))) for _ in range(count)]


def sample_of(folder):
    """Text with words, code, runs of spaces and punctuation, and other alphabets."""
    text = "".join(f"{i} times {i} is {i * i}, as was said.\n" for i in range(300))
    text += "".join(f"{'    ' * (i % 5)}import os  # {'-' * (i % 17)}{'=' * (i % 7)}\n{' ' * i}x_{i} = [{i}]\n\n" for i in range(60)) + "caf\u00e9 \u4e2d\u6587\n" * 9
    (folder / "text.txt").write_text(text)
    return folder / "text.txt"


def sentencepiece_model(text, path, **options):
    import sentencepiece
    sentencepiece.SentencePieceTrainer.train(input=str(text), model_prefix=str(path.with_suffix("")), model_type="bpe", byte_fallback=True, character_coverage=0.999,
                                             normalization_rule_name="identity", minloglevel=4, **options)


def require_same_ids(exported, tokenizer, what, count=400, **options):
    theirs = transformers.AutoTokenizer.from_pretrained(exported, **options)
    all_texts = texts + random_texts(7, count)
    for text, ids_of_text, back in zip(all_texts, *our_ids(tokenizer, all_texts)):
        got = theirs(text, add_special_tokens=False).input_ids
        assert got == ids_of_text, f"{what}: {text!r} is {got}, here {ids_of_text}"
        assert theirs.decode(got) == back, f"{what}: {theirs.decode(got)!r} and {back!r}"
    print(f"{what}: the same ids of {len(all_texts)} texts")
    return theirs


def test_tokenizers(folder):
    """Trained here from scratch -> theirs: AutoTokenizer gives the same ids, AutoModelForCausalLM the same logits."""
    text = sample_of(folder)
    run(trivium, "data", "tokenizer", text, "--vocab", "420", "-o", folder / "own.model")
    sentencepiece_model(text, folder / "llama2.model", vocab_size=420, remove_extra_whitespaces=False, allow_whitespace_only_pieces=True, split_digits=True)
    sentencepiece_model(text, folder / "default.model", vocab_size=420)
    for name in ("own.model", "llama2.model", "default.model", "bytes"):
        home, tokenizer = folder / name.partition(".")[0], name if name == "bytes" else folder / name
        home.mkdir()
        run(trivium, "data", "tokenize", text, "--tokenizer", tokenizer, "-o", home / "train.h5")
        (home / "run.toml").write_text("[train]\nglobal_batch = 2\n")
        rows = [f"data.train={home}/train.h5", f"data.tokenizer={tokenizer}", f"checkpoint.dir={home}/ours", f"log.dir={home}/logs", "train.steps=30", "train.lr=3e-2",
                "model.layers=2", "model.dim=32", "model.seq=128"]
        run(trivium, "train", home / "run.toml", *rows)
        run(trivium, "checkpoint", "export", home / "ours", home / "theirs")
        theirs = require_same_ids(home / "theirs", tokenizer, name)
        assert theirs("import os").input_ids == theirs("import os", add_special_tokens=False).input_ids
        model = loaded(home / "theirs")
        assert model.config.bos_token_id == theirs.bos_token_id == theirs.eos_token_id
        assert model.config.eos_token_id == theirs.eos_token_id is not None and model.generation_config.eos_token_id == theirs.eos_token_id
        resolved = home / "resolved.toml"
        resolved.write_text(json.loads(run(trivium, "checkpoint", "show", home / "ours", "--json"))["config"])
        require_close(our_logits(resolved, home / "ours", home), logits_of(model), "exported with " + name)
        run(trivium, "checkpoint", "import", home / "theirs", home / "again")
        assert ("bytes" if name == "bytes" else "tokenizer.model") in (home / "again/model.toml").read_text()


chat = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"


def test_round_trip(folder):
    """Files that were imported with a model are exported again, after training with other settings, and without the folder of the import."""
    import tokenizers
    text = sample_of(folder)
    for kind in ("byte-level", "sentencepiece"):
        home = folder / kind
        (home / "theirs").mkdir(parents=True)
        if kind == "byte-level":
            bpe = tokenizers.Tokenizer(tokenizers.models.BPE())
            bpe.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
            bpe.decoder = tokenizers.decoders.ByteLevel()
            bpe.train([str(text)], tokenizers.trainers.BpeTrainer(vocab_size=400, show_progress=False, initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
                                                                  special_tokens=["<|endoftext|>", "<|end|>", "<|user|>", "<|begin_of_text|>"]))
            wrapped = transformers.PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token="<|end|>", bos_token="<|begin_of_text|>", model_max_length=777, chat_template=chat)
            wrapped.save_pretrained(home / "theirs")
            name, ends = "tokenizer.json", [0, 1]
        else:
            sentencepiece_model(text, home / "theirs/tokenizer.model", vocab_size=400, remove_extra_whitespaces=False, user_defined_symbols=[])
            (home / "theirs/tokenizer_config.json").write_text(json.dumps(dict(tokenizer_class="LlamaTokenizer", add_bos_token=True, add_eos_token=False, legacy=False,
                                                                               bos_token="<s>", eos_token="</s>", unk_token="<unk>", model_max_length=777, chat_template=chat)))
            name, ends = "tokenizer.model", [2, 1]
        torch.manual_seed(6)
        model = llama(vocab_size=400, max_position_embeddings=512, bos_token_id=1, eos_token_id=ends, pad_token_id=0, initializer_range=0.3, attention_dropout=0.25)
        model.generation_config = transformers.GenerationConfig(eos_token_id=ends, do_sample=True, temperature=0.6, top_p=0.9)
        model.save_pretrained(home / "theirs")
        run(trivium, "checkpoint", "import", home / "theirs", home / "ours", "model.seq=64")
        run(trivium, "data", "tokenize", text, "--tokenizer", home / "ours" / name, "-o", home / "train.h5")
        (home / "ours" / name).rename(home / name)
        run(trivium, "train", home / "ours/model.toml", f"train.init_from={home}/ours", f"data.tokenizer={home / name}", f"data.train={home}/train.h5", "train.steps=1",
            "train.global_batch=2", f"checkpoint.dir={home}/further", f"log.dir={home}/logs")
        run(trivium, "train", home / "ours/model.toml", f"data.tokenizer={home / name}", f"data.train={home}/train.h5", "train.steps=2",  # resumed
            "train.global_batch=2", f"checkpoint.dir={home}/further", f"log.dir={home}/logs")
        import shutil
        shutil.rmtree(home / "ours")
        run(trivium, "checkpoint", "export", home / "further", home / "again")
        before, after = (json.loads((home / f / "config.json").read_text()) for f in ("theirs", "again"))
        assert before == after and after["eos_token_id"] == ends and after["max_position_embeddings"] == 512, (before, after)
        assert (home / "again/generation_config.json").read_bytes() == (home / "theirs/generation_config.json").read_bytes()
        old, new = (transformers.AutoTokenizer.from_pretrained(home / f) for f in ("theirs", "again"))
        require_same_ids(home / "again", home / name, "again, " + kind, 50, split_special_tokens=True)
        assert new.model_max_length == 777 and new.eos_token == old.eos_token and new.bos_token == old.bos_token
        messages = [dict(role="user", content="how many times?")]
        assert new.apply_chat_template(messages, tokenize=False) == old.apply_chat_template(messages, tokenize=False)
        if kind == "byte-level":
            assert new.apply_chat_template(messages) == old.apply_chat_template(messages)
            for file in (home / "theirs").glob("*token*"):
                assert file.read_bytes() == (home / "again" / file.name).read_bytes(), file
        else:
            assert new("import os").input_ids == [1, *new("import os", add_special_tokens=False).input_ids]
        loaded(home / "again")


tests = {name.removeprefix("test_"): call for name, call in list(globals().items()) if name.startswith("test_")}
for name, test in tests.items():
    if len(sys.argv) > 4 and not name.startswith(sys.argv[4]):
        continue
    with tempfile.TemporaryDirectory() as place:
        print(f"-- {name}", flush=True)
        test(pathlib.Path(place))
print("all is well")
