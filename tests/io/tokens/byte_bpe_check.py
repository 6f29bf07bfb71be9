"""Compares tokenizer.json files with the package `tokenizers`, the reference.

  byte_bpe_check.py make DIR              trains small tokenizers; writes them, and golden.json with texts and ids
  byte_bpe_check.py check DIR PROGRAM [--texts N] [--seed N] [--whole-unicode]
                                          compares the ids of random texts from PROGRAM (byte_bpe_ids) and the package
Exit status 77: the package is not installed.
"""
import argparse
import base64
import io
import itertools
import json
import pathlib
import random
import subprocess
import sys
import unicodedata

try:
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
except ImportError:
    print("skipped: the Python package `tokenizers` is not installed")
    sys.exit(77)

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
GPT4 = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+")
CASED = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")

# Syntax that is specific to Oniguruma.
SYNTAX = {
    "classes": [r"[[:alpha:]&&[^aeiou]]+", r"\h{2}?|\H\b", r"[^\p{Greek}\p{Cyrillic}[:space:]]{,3}"],
    "groups": [r"(?<one>\w)\k<one>|(?m:\n.)", r"(?i:strasse|fi|ss)|(?y{w})\X\y", r"(?W:\w)+|(?~\s)"],
}

SENTENCES = [
    "The king's men didn't say what they'll do, and WE'VE heard THEY'RE 1234567 strong; I'm sure it's 3.14159.\n",
    "In the beginning God created the heaven and the earth. And the earth was without form, and void.\r\n",
    "    for (int i = 0; i < 10; ++i) {\n\t\tsum += x[i] * 0x1F; // a comment\n    }\n\n\n",
    "Größe, façade, naïve, Ærø, İstanbul, ﬁne ſtone; e\u0301 o\u0308 n\u0303.\n",
    "Привет, мир! Как дела? Всё хорошо.\n", "Γειά σου Κόσμε, ὁ ἄνθρωπος.\n", "שלום עולם، مرحبا بالعالم ١٢٣٤٥.\n",
    "नमस्ते दुनिया १२३, สวัสดีชาวโลก ๑๒๓.\n", "你好,世界。今天天气很好。こんにちは世界、カタカナ。안녕하세요 세계.\n",
    "😀😃👨‍👩‍👧‍👦🏳️‍🌈👍🏽🇩🇪🇫🇷 ❤️ ½ ² ③ Ⅳ ㊗ ﹩ € £.\n",
]

NASTY = [
    "", " ", "  ", "   ", "\n", "\r\n", "\r\n\r\n \n", "\t", " \t \t", "a", " a", "a ", "  a", "a  b   c    d", "a\n b\r\n  c \r d",
    "I'm you're he's IT'S we'LL They'Ve 'sup 'S'T'RE don''t ' 's", "l’été aujourd’hui", "ſ'ſ x'ſ K K",
    "1 12 123 1234 12345 3.14 1,000,000 ½² Ⅳ ④ ١٢٣٤ १२३४", "x1y22z333", "snake_case CamelCase HTTPServer kebab-case a.b.c",
    "!!! ??? ... --- ((( ))) [{<>}] $100 +1 =2 ^3 `x` ~y| \\ / @# %&*", "....\n\n....\r\n/path/to//file\n",
    "e\u0301e\u0301 o\u0308\u0323 \u0301alone \u200dx\u200cy", "👨‍👩‍👧‍👦 🏳️‍🌈👍🏽 🇩🇪🇫🇷 ❤️\ufe0f", "नमस्ते क्षत्रिय สวัสดี", "你好,世界。今天 天气", "こんにちはカタカナ한국어",
    "שלום مرحبا \u202eabc\u202c", "\u00a0a\u00a0 \u2003b \u3000c\u2028d\u2029e\u0085f\u180eg\ufeffh\u200bi\u1680j\u205fk\u202fl",
    "\x00\x01\x02\x7f\x1b[0m \x1c\x1d\x1e\x1f \x0b\x0c", "\ufffd\ufffe\U0010ffff\ue000", "Σίσυφος ΣΊΣΥΦΟΣ ǅ ǆ ʰ ª º", "x" * 300, " " * 300 + "x", "\n" * 100,
    "ab" * 200 + " " * 50 + "\n" * 3, "<|endoftext|>", "<|begin_of_text|>a<|end_of_text|> <|eot_id|>", "<|endoftext|", "</s><s><unk>",
    "<think>yes</think> a<think>b ▁▁x <tool><tool_call>", "the the the The THE", "\u0130\u0131 ß SS ss ﬁ", "a\u0300\u0301\u0302b", "\U0001d400\U0001d7d8 𠀀𠀁",
    "Ġ Ċ č ġ Ń", "'" * 20 + "s" * 20,
]


def train(pre_tokenizer, vocab):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=vocab, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    texts = [t for s in SENTENCES for t in (s, s, s.upper(), s.lower(), s.replace(" ", "  "), " " + s)]
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Split(Regex(pattern), behavior, invert=invert)


def byte_level(prefix=False, regex=False):
    return pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=regex)


def sequence(*steps):
    return pre_tokenizers.Sequence(list(steps))


def without_type(text):
    """As in GPT-2's own file: the model has no type, and merges are strings."""
    file = json.loads(text)
    del file["model"]["type"], file["model"]["ignore_merges"], file["model"]["byte_fallback"]
    file["model"]["merges"] = [" ".join(pair) for pair in file["model"]["merges"]]
    return file


def fewer_merges(text):
    """Some tokens that no merge yields: only ignore_merges finds them."""
    file = json.loads(text)
    merges = file["model"]["merges"]
    used = {part for pair in merges for part in pair}
    file["model"]["merges"] = [pair for i, pair in enumerate(merges) if i % 3 or "".join(pair) in used]
    file["model"]["ignore_merges"] = True
    return file


# Of a charsmap: characters, clusters, prefixes of others, which count, and clusters of 6 bytes, which do not.
RULES = {"ﬁ": "fi", "½": "1/2", "q": "Q", "q\u0301": "x", "e\u0301": "é", "ſ": "s", "ſ\u0307": "ṡ", "\r": " ", "\n": "↵", "\u200b": "", "\ufeff": "",
         "か\u3099": "が", "\u3099": "~", "👍": "+1", "☃\ufe0f": "snow", "İ": "i\u0307", "\u0345": "ι", "g\u0308\u0301": "G"}


def charsmap(rules):
    """Rules as SentencePiece compiles them: a double-array trie, as Darts-clone makes it, and the replacements."""
    values, tree = b"", {}
    for what, by in rules.items():
        node = tree
        for byte in what.encode():
            node = node.setdefault(byte, {})
        node[0] = len(values)
        values += by.encode() + b"\0"
    units, offsets = {0: 0}, set()

    def place(node, at):
        offset = next(o for o in itertools.count(1) if o not in offsets and not any(o ^ byte in units for byte in node))
        offsets.add(offset)
        units[at] |= (at ^ offset) << 10 | (0 in node) << 8
        units.update({offset ^ byte: byte for byte in node})
        for byte, child in node.items():
            if byte == 0:
                units[offset] = child | 1 << 31
            else:
                place(child, offset ^ byte)

    place(tree, 0)
    trie = b"".join(units.get(at, 0).to_bytes(4, "little") for at in range((max(units) | 255) + 1))
    return base64.b64encode(len(trie).to_bytes(4, "little") + trie + values).decode()


def fields(message):
    """The numbers and contents of a message's fields (Protocol Buffers)."""
    at = 0

    def varint():
        nonlocal at
        number = shift = 0
        while True:
            byte = message[at]
            at, number, shift = at + 1, number | (byte & 127) << shift, shift + 7
            if byte < 128:
                return number

    while at < len(message):
        key = varint()
        size = {0: None, 1: 8, 2: -1, 5: 4}[key & 7]
        if size is None:
            yield key >> 3, varint()
            continue
        size = varint() if size < 0 else size
        at += size
        yield key >> 3, message[at - size:at]


def own_charsmap(rules):
    """The charsmap of SentencePiece's own rules of this name; None where its package is not installed."""
    try:
        import sentencepiece
    except ImportError:
        print(f"{rules}: skipped, the Python package `sentencepiece` is not installed")
        return None
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(SENTENCES), model_writer=model, model_type="char", vocab_size=200,
                                             hard_vocab_limit=False, normalization_rule_name=rules, minloglevel=2)
    [normalizer] = [content for number, content in fields(model.getvalue()) if number == 3]
    [made] = [content for number, content in fields(normalizer) if number == 2]
    return base64.b64encode(made).decode()


def precompiled(base64_map):
    return {"type": "Precompiled", "precompiled_charsmap": base64_map}


def other_normalizers():
    yield "charsmap", precompiled(charsmap(RULES))
    yield "nmt", {"type": "Nmt"}
    yield "accents", {"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "StripAccents"}, {"type": "Lowercase"}]}


CHARACTERS = ["llama2", "gemma", "unigram"]
TO_MARK = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}


def of_characters():
    """As converted from SentencePiece: BPE of characters with byte fallback, and a unigram model."""
    texts = [t for s in SENTENCES for t in (s, s, s.upper(), s.lower(), s.replace(" ", "  "), " " + s)]
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    bpe = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    bpe.normalizer = normalizers.Replace(" ", "▁")
    bpe.pre_tokenizer = split("(?<=[^▁])(?=▁)")
    bpe.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=650, special_tokens=["<unk>", "<s>", "</s>"] + bytes_,
                                                       limit_alphabet=90, show_progress=False))
    shared = json.loads(bpe.to_str())
    shared["added_tokens"] = [token for token in shared["added_tokens"] if token["id"] < 3]
    shared["pre_tokenizer"] = None
    decoder = [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]
    llama2, gemma = json.loads(json.dumps(shared)), json.loads(json.dumps(shared))
    llama2["normalizer"] = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, TO_MARK]}
    llama2["decoder"] = {"type": "Sequence", "decoders": decoder + [{"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    gemma["normalizer"] = TO_MARK
    gemma["decoder"] = {"type": "Sequence", "decoders": decoder}
    gemma["added_tokens"] += [added(gemma, "\n\n", 0), added(gemma, "<tool>", 0), added(gemma, "the", 0)]

    unigram = Tokenizer(models.Unigram())
    unigram.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase(), normalizers.Strip(),
                                               normalizers.Replace(Regex(" {2,}"), " ")])
    unigram.pre_tokenizer = pre_tokenizers.Metaspace()
    unigram.decoder = decoders.Metaspace()
    unigram.train_from_iterator(texts, trainers.UnigramTrainer(vocab_size=400, special_tokens=["<|unknown|>", "<eos>"],
                                                               unk_token="<|unknown|>", show_progress=False))
    return {"llama2": llama2, "gemma": gemma, "unigram": json.loads(unigram.to_str())}


def added(file, content, n, **flags):
    """An added token: of the vocabulary, or the new one number n."""
    vocabulary = file["model"]["vocab"]
    token = {"id": vocabulary.get(content, max(vocabulary.values()) + 1 + n), "content": content, "single_word": False, "lstrip": False, "rstrip": False,
             "normalized": False, "special": False}
    return {**token, **flags}


def other_characters(folder):
    """Metaspace as in Mistral, a split as in Gemma 3, white space around added tokens as in Phi-3, and characters without tokens."""
    file = json.loads((folder / "llama2.json").read_text(encoding="utf-8"))
    metaspace = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False}
    split_before = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}
    around = [added(file, "<tool>", 0, rstrip=True), added(file, "<think>", 1, lstrip=True), added(file, "<norm>", 2, normalized=True)]
    unknown = {**file["model"], "byte_fallback": False}
    yield "mistral", {**file, "normalizer": None, "pre_tokenizer": metaspace}
    yield "mistral words", {**file, "normalizer": None, "pre_tokenizer": {**metaspace, "prepend_scheme": "always", "split": True}}
    yield "gemma 3", {**file, "normalizer": TO_MARK, "pre_tokenizer": split_before}
    yield "phi 3", {**file, "added_tokens": file["added_tokens"] + around}
    yield "unknown", {**file, "model": unknown}
    yield "apart", {**file, "model": {**unknown, "fuse_unk": False}}
    yield "dropped", {**file, "model": {**unknown, "unk_token": None}}


def make(folder):
    folder.mkdir(parents=True, exist_ok=True)
    made = {}
    gpt2 = train(byte_level(regex=True), 700)
    gpt2.add_special_tokens(["<|endoftext|>"])
    gpt2.post_processor = processors.ByteLevel(trim_offsets=False)
    made["gpt2"] = without_type(gpt2.to_str())

    llama3 = train(sequence(split(LLAMA3), byte_level()), 800)
    llama3.add_special_tokens(["<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>", "<|eot_id|>"])
    bos = llama3.token_to_id("<|begin_of_text|>")
    llama3.post_processor = processors.TemplateProcessing(single="<|begin_of_text|> $A", special_tokens=[("<|begin_of_text|>", bos)])
    made["llama3"] = fewer_merges(llama3.to_str())

    digits = train(sequence(pre_tokenizers.Digits(individual_digits=True), byte_level(regex=True)), 500)
    digits.add_special_tokens(["<s>", "</s>", "<unk>"])
    digits.add_tokens([AddedToken("<think>", normalized=False), AddedToken("</think>", normalized=False), "▁▁", "<tool>", "<tool_call>", "the"])
    made["digits"] = json.loads(digits.to_str())

    variants = {
        "gpt4": sequence(split(GPT4, "removed", True), byte_level()),
        "cased": sequence(split(CASED, "removed", True), byte_level()),
        "prefix": byte_level(prefix=True, regex=True),
        "punctuation": sequence(pre_tokenizers.Punctuation("contiguous"), byte_level(regex=True), ),
        "previous": sequence(split(r"[\s,.]", "merged_with_previous"), pre_tokenizers.Digits(False), byte_level(prefix=True)),
        "next": sequence(split(r"\s|'(?=[a-z])|(?<=\p{Han})", "merged_with_next"), byte_level()),
        "removed": sequence(split(r"\S+", "contiguous", True), pre_tokenizers.Split("an", "removed"), split("[0-9][0-9][0-9]"), byte_level()),
        "empty": sequence(split(r"(?=\p{Lu})|x*?"), split(r"[^\S\n]{2,}\d?"), byte_level()),
    }
    shared = json.loads(digits.to_str())
    shared["added_tokens"] = [token for token in shared["added_tokens"] if token["special"]]
    for name, pre_tokenizer in variants.items():
        shared["pre_tokenizer"] = json.loads(pre_tokenizer.__getstate__())
        made[name] = json.loads(json.dumps(shared))

    normalizers_of = dict(other_normalizers())
    shared["pre_tokenizer"] = made["digits"]["pre_tokenizer"]
    for name, normalizer in normalizers_of.items():
        made[name] = {**json.loads(json.dumps(shared)), "normalizer": normalizer}

    made.update(of_characters())

    golden = {"texts": NASTY + SENTENCES, "ids": {}, "decoded": {}}
    pre_tokenizers_of = {name: made[name]["pre_tokenizer"] for name in variants}
    for name, file in made.items():
        text = json.dumps(file, ensure_ascii=False, separators=(",", ":"))
        if name not in variants and name not in normalizers_of:
            (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")
        golden["ids"][name] = [ids_of(load(text), t) for t in golden["texts"]]
        if name in CHARACTERS or name in normalizers_of:
            golden["decoded"][name] = [load(text).decode(ids, skip_special_tokens=True) for ids in golden["ids"][name]]
    (folder / "golden.json").write_text(json.dumps({**golden, "pre_tokenizers": pre_tokenizers_of, "normalizers": normalizers_of}, separators=(",", ":")) + "\n")


def load(text):
    tokenizer = Tokenizer.from_str(text)
    tokenizer.encode_special_tokens = True  # text that spells a special token stays text
    return tokenizer


def ids_of(tokenizer, text):
    return tokenizer.encode(text, add_special_tokens=False).ids


def files(folder):
    """Name and text of each tokenizer: the files, and digits.json with the other pre-tokenizers."""
    for path in sorted(folder.glob("*.json")):
        if path.name != "golden.json":
            yield path.stem, path.read_text(encoding="utf-8")
    shared = json.loads((folder / "digits.json").read_text(encoding="utf-8"))
    shared["added_tokens"] = [token for token in shared["added_tokens"] if token["special"]]
    for name, pre_tokenizer in json.loads((folder / "golden.json").read_text())["pre_tokenizers"].items():
        yield name, json.dumps({**shared, "pre_tokenizer": pre_tokenizer}, ensure_ascii=False)
    yield "qwen", json.dumps(qwen(folder), ensure_ascii=False)
    yield from with_normalizers(folder, shared)
    for name, file in other_characters(folder):
        yield name, json.dumps(file, ensure_ascii=False)
    for name, steps in SYNTAX.items():
        yield name, json.dumps({**shared, "pre_tokenizer": json.loads(sequence(*map(split, steps), byte_level()).__getstate__())},
                               ensure_ascii=False)


def with_normalizers(folder, shared):
    """Other normalizers before bytes, which show each difference; and as in T5."""
    for name, normalizer in other_normalizers():
        yield name, json.dumps({**shared, "normalizer": normalizer})
    for rules in ("nmt_nfkc", "nmt_nfkc_cf"):
        if own := own_charsmap(rules):
            yield rules, json.dumps({**shared, "normalizer": precompiled(own)})
            spaces = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}
            unigram = json.loads((folder / "unigram.json").read_text(encoding="utf-8"))
            yield "t5 " + rules, json.dumps({**unigram, "normalizer": {"type": "Sequence", "normalizers": [precompiled(own), spaces]}})


def qwen(folder):
    """NFC, as in Qwen; added tokens that are searched before and after it, one of them decomposed."""
    file = json.loads((folder / "digits.json").read_text(encoding="utf-8"))
    file["normalizer"] = json.loads(normalizers.NFC().__getstate__())
    file["pre_tokenizer"] = json.loads(sequence(split(QWEN), byte_level()).__getstate__())
    file["added_tokens"] += [
        {"id": 1 + max(t["id"] for t in file["added_tokens"]) + n, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
         "normalized": normalized, "special": False} for n, (content, normalized) in enumerate([("\u1e0b\u0323!", True), ("\u1e0b\u0323?", False)])]
    return file


def characters(whole):
    """Characters that are the same in every Unicode version, or all that Python knows."""
    known = unicodedata if whole else unicodedata.ucd_3_2_0
    every = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000 and known.category(chr(c)) != "Cn"]
    return every + [chr(c) for c in range(0x1F600, 0x1F640)]


def random_text(draw, every):
    common = "aeinstAEST   '''\n\r\t.,;:!?-_/()0123456789éßſ"
    pieces = NASTY + SENTENCES + ["▁", "<tool>", " <think> ", " <norm>", "'s", "'LL", " \n", "\r\n", "  ", "<think>", "the", "</s>", "\u1e0b\u0323!", "\u1e0d\u0307!", "\u1e0b\u0323?", "\u1e0d\u0307?"]
    text = ""
    for _ in range(draw.randrange(1, 12)):
        kind = draw.randrange(7)
        if kind == 0:
            text += draw.choice(every) * draw.choice([1, 1, 1, 5])
        elif kind == 1:
            at = draw.randrange(len(every))
            text += "".join(draw.choice(every[at:at + 60]) for _ in range(8))
        elif kind == 2:
            piece = draw.choice(pieces)
            at = draw.randrange(len(piece) + 1)
            text += piece[at:at + 20]
        elif kind == 6:  # decomposed, with marks in any order
            text += unicodedata.normalize("NFD", "".join(draw.choice("éÅṩḍ̇각뮁ệǖΐがபொ") for _ in range(3)))
            text += draw.choice("aeouq") + "".join(draw.choice("\u0301\u0308\u0323\u0307\u0338\u031b\u0345") for _ in range(draw.randrange(1, 4)))
        elif kind == 3:
            text += draw.choice(" \n\t\r\u00a0\u3000\u0085") * draw.randrange(1, 6)
        else:
            text += "".join(draw.choice(common) for _ in range(draw.randrange(1, 12)))
    return text


def check(folder, program, texts, seed, whole):
    draw = random.Random(seed)
    every = characters(whole)
    print(f"seed {seed}, Unicode {unicodedata.unidata_version if whole else '3.2 and emoji'}")
    bad = 0
    for name, file in files(folder):
        tokenizer = load(file)
        drawn = [random_text(draw, every) for _ in range(texts)]
        path = pathlib.Path(program).parent / f"byte_bpe_check.{name}.json"
        path.write_text(file, encoding="utf-8")
        lines = "".join(text.encode().hex() + "\n" for text in drawn)
        out = subprocess.run([program, path], input=lines, capture_output=True, text=True, check=True).stdout.split("\n")
        path.unlink()
        wrong = 0
        for text, line in zip(drawn, out[:texts], strict=True):
            ids, _, decoded = line.partition("|")
            ours = [int(number) for number in ids.split()]
            expected = ids_of(tokenizer, text)
            back = bytes.fromhex(decoded).decode(errors="replace")
            # What `tokenizers` puts in front of a normalized added token, it decodes, too.
            same = name == "phi 3" or back == tokenizer.decode(ours, skip_special_tokens=True)
            if ours != expected or (ours and not same):
                wrong += 1
                if wrong <= 3:
                    print(f"{name}: {text!r}\n  ours     {ours}\n  expected {expected}\n  {back!r}")
        print(f"{name}: {texts} texts, {wrong} differ")
        bad += wrong
    return 1 if bad else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["make", "check"])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("program", nargs="?")
    parser.add_argument("--texts", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--whole-unicode", action="store_true")
    a = parser.parse_args()
    if a.action == "make":
        make(a.folder)
        return 0
    return check(a.folder, a.program, a.texts, a.seed, a.whole_unicode)


if __name__ == "__main__":
    sys.exit(main())
