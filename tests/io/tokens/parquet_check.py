"""Texts in Parquet files that pyarrow wrote: the token stores are those of the same texts in JSON lines.

  parquet_check.py PROGRAM LAUNCHER…      LAUNCHER…: what runs a number of ranks, which follows it
Exit status 77: this build of the program has no Parquet, or pyarrow is not installed.
"""
import json
import pathlib
import random
import subprocess
import sys
import tempfile

program, *launcher = sys.argv[1:]
if "Parquet" not in subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout:
    print("skipped: this build has no Parquet")
    sys.exit(77)
try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError:
    print("skipped: the Python package `pyarrow` is not installed")
    sys.exit(77)


def tokenize(inputs, output, *options, ranks=1):
    command = [*launcher, str(ranks)] if ranks > 1 else []
    command += [program, "data", "tokenize", *map(str, inputs), "--tokenizer", "bytes", "-o", str(output), "--force", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def store_of(inputs, folder, *options, **more):
    """The bytes of the token store, and what the program printed."""
    done = tokenize(inputs, folder / "out.h5", *options, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return (folder / "out.h5").read_bytes(), done.stdout


def refusal(inputs, folder, *options, **more):
    """The message of a mistake."""
    done = tokenize(inputs, folder / "refused.h5", *options, **more)
    assert done.returncode == 2 and "remedy: " in done.stderr, (done.returncode, done.stdout, done.stderr)
    return done.stderr


def texts(count, draw):
    words = "the and of a\\nb naïve 世界 😀 \x00 don't".split(" ") + ["", "\n\n", "x" * 300]
    made = [" ".join(draw.choice(words) for _ in range(draw.choice([0, 1, 5, 40]))) for _ in range(count)]
    made[count // 3] = "long " * 500_000  # of several blocks
    return made


def write(path, column, **options):
    """With columns of other types before and after it; in row groups of 300 rows."""
    rows = range(len(column))
    table = pa.table({"id": pa.array(rows), "list": pa.array([[str(i)] * (i % 3) for i in rows]), "text": column,
                      "pair": pa.array([{"text": "no", "n": i} for i in rows])})
    if options.pop("required", False):
        fields = [f if f.name != "text" else f.with_nullable(False) for f in table.schema]
        table = table.cast(pa.schema(fields))
    pq.write_table(table, path, row_group_size=options.pop("row_group_size", 300), **options)


def lines(path, column, field="text"):
    path.write_text("".join(json.dumps({field: text}) + "\n" for text in column), encoding="utf-8")
    return path


def test_stores_equal_those_of_json_lines(folder):
    draw = random.Random(3)
    few = [draw.choice(["one", "two", "three and four"]) for _ in range(900)]
    kinds = {
        "strings": (pa.string(), dict(compression="zstd", use_dictionary=False)),
        "large": (pa.large_string(), dict(compression="snappy", data_page_version="2.0")),
        "dictionary": (pa.dictionary(pa.int32(), pa.string()), dict(compression="gzip")),
        "required": (pa.string(), dict(compression="none", required=True, use_dictionary=False, column_encoding={"text": "DELTA_BYTE_ARRAY"})),
        "bytes": (pa.binary(), dict(compression="brotli", use_dictionary=False, write_page_checksum=True,
                                    column_encoding={"text": "DELTA_LENGTH_BYTE_ARRAY"})),
        "whole": (pa.string(), dict(compression="lz4", row_group_size=10_000)),
    }
    if hasattr(pa, "string_view"):
        kinds["view"] = (pa.string_view(), dict(compression="zstd"))
    parquet, records = folder / "parquet", folder / "records"
    parquet.mkdir()
    records.mkdir()
    for name, (kind, options) in kinds.items():
        column = few if name == "dictionary" else texts(1000, draw)
        write(parquet / f"{name}.parquet", pa.array(column, kind), **options)
        lines(records / f"{name}.jsonl", column)
        ours, printed = store_of([parquet / f"{name}.parquet"], folder, "--threads", "2")
        assert ours == store_of([records / f"{name}.jsonl"], folder)[0], name
        written = sum(text != "" for text in column)
        assert f"1 .parquet ({written} documents)" in printed.replace(",", ""), printed
    for options in ([], ["--valid", str(folder / "valid.h5"), "--valid-fraction", "0.1"]):
        expected, _ = store_of([records], folder, *options)
        for ranks in (1, 2, 4):
            ours, printed = store_of([parquet], folder, *options, "--threads", "2", ranks=ranks)
            assert ours == expected, f"{ranks} ranks {options}"
            assert f"{len(kinds)} .parquet (" in printed, printed


def test_nulls(folder):
    draw = random.Random(4)
    column = [None if draw.random() < 0.1 else text for text in texts(700, draw)]
    column[41] = None
    first = column.index(None) + 1
    lines(folder / "x.jsonl", column)
    expected, of_lines = store_of([folder / "x.jsonl"], folder, "--skip-bad")
    for name, kind in {"a": pa.string(), "b": pa.dictionary(pa.int16(), pa.large_string())}.items():
        path = folder / f"{name}.parquet"
        write(path, pa.array(column, kind), row_group_size=40)
        assert f"{name}.parquet, row {first}: its column \"text\" is null" in refusal([path], folder)
        for ranks in (1, 3):
            ours, printed = store_of([path], folder, "--skip-bad", ranks=ranks)
            assert ours == expected
            assert printed.split(" bad records")[0].split()[-1] == of_lines.split(" bad records")[0].split()[-1]
            assert f"{name}.parquet, row {first}" in printed, printed
    write(folder / "none.parquet", pa.array([None] * 5, pa.string()))
    assert "no text was found" in refusal([folder / "none.parquet"], folder, "--skip-bad")


def test_columns(folder):
    path = folder / "x.parquet"
    table = pa.table({"body": ["a", "b"], "n": [1, 2], "many": [["a"], ["b"]], "pair": [{"text": "a"}, {"text": "b"}],
                      "fixed": pa.array([b"ab", b"cd"], pa.binary(2)), "codes": pa.array([1, 2]).dictionary_encode(), "latin": [b"caf\xe9", b"x"]})
    pq.write_table(table, path)
    lines(folder / "x.jsonl", ["a", "b"], "body")
    assert store_of([path], folder, "--key", "body")[0] == store_of([folder / "x.jsonl"], folder, "--key", "body")[0]
    message = refusal([path], folder)
    assert all(part in message for part in ("x.parquet: has no column \"text\"", "\"body\", \"n\"", "--key")), message
    assert "x.parquet: has no column \"pair.text\"" in refusal([path], folder, "--key", "pair.text")
    for name, problem in {"n": "INT64", "many": "is nested", "pair": "is nested", "fixed": "FIXED_LEN_BYTE_ARRAY", "codes": "INT64"}.items():
        message = refusal([path], folder, "--key", name)
        assert f"its column \"{name}\"" in message and problem in message, message
    assert "x.parquet, row 1: is not UTF-8 at byte offset 3" in refusal([path], folder, "--key", "latin")
    assert "1 bad record," in store_of([path], folder, "--key", "latin", "--skip-bad")[1]
    good = folder / "good"
    good.mkdir()
    path.rename(good / "x.parquet")
    pq.write_table(pa.table({"text": ["c"]}), good / "y.parquet")
    assert "x.parquet: has no column" in refusal([good], folder)  # in a folder, too
    printed = store_of([good], folder, "--skip-bad")[1]
    assert "1 Parquet file that cannot be read" in printed and "1 .parquet" in printed, printed
    pq.write_table(pa.table({"text": pa.array([], pa.string())}), good / "x.parquet")
    assert "1 empty file," in store_of([good], folder)[1]


TEMPLATE = ("{% for m in messages %}<{{ m.role }}{% if m.content is none %} without{% endif %}>{% if m.content %}{{ m.content }}{% endif %}"
            "{% if m.tool_calls is defined %}{{ m.tool_calls | tojson }}{% endif %}</>{% endfor %}")


def chats(count, draw):
    """Rows by form. A structure has all fields; None: this row's record lacks it."""
    def said():
        return " ".join(draw.choice("the and naïve 世界 😀 \n don't".split(" ")) for _ in range(draw.choice([1, 5, 40])))

    def message(role):
        calls = [{"type": "function", "function": {"name": "f", "arguments": draw.choice([{"x": 1, "y": None}, {"x": None, "y": "z"}])}}]
        called = role == "assistant" and draw.random() < 0.3
        return {"role": role, "content": None if called else said(), "tool_calls": calls if called else None,
                "weight": draw.choice([None, 0, 1]) if role == "assistant" else None}

    turns = ["user", "assistant"]
    return {
        "messages": [{"messages": [message(role) for role in turns * draw.choice([1, 3])], "text": "no",
                      "tools": json.dumps([{"name": "f"}])} for _ in range(count)],
        "sharegpt": [{"id": i, "conversations": [{"from": who, "value": said()} for who in ("human", "gpt")], "system": said()}
                     for i in range(count)],
        "prompt": [{"prompt": said(), "completion": said(), "score": 0.5} for _ in range(count)],
        "prompts": [{"prompt": [message("user")], "completion": [message("assistant")]} for _ in range(count)],
        "alpaca": [{"instruction": said(), "input": draw.choice([None, said()]), "output": said()} for _ in range(count)],
        "mixed": [{"text": said(), "messages": None} if draw.random() < 0.5 else {"text": None, "messages": [message(role) for role in turns]}
                  for _ in range(count)],
    }


def record(row):
    """Without the fields that are None, but "content"."""
    if isinstance(row, dict):
        return {key: record(value) for key, value in row.items() if value is not None or key == "content"}
    return [record(value) for value in row] if isinstance(row, list) else row


def test_chats_are_those_of_json_lines(folder):
    draw = random.Random(6)
    (folder / "chat.jinja").write_text(TEMPLATE)
    options = ("--chat-template", str(folder / "chat.jinja"))
    parquet, records = folder / "parquet", folder / "records"
    parquet.mkdir()
    records.mkdir()
    for name, rows in chats(150, draw).items():
        table = pa.Table.from_pylist(rows)
        if name == "sharegpt":
            kind = pa.large_list(pa.struct([("from", pa.dictionary(pa.int32(), pa.string())), ("value", pa.large_string())]))
            table = table.set_column(1, "conversations", pa.array([row["conversations"] for row in rows], kind))
        pq.write_table(table, parquet / f"{name}.parquet", row_group_size=40)
        (records / f"{name}.jsonl").write_text("".join(json.dumps(record(row)) + "\n" for row in rows), encoding="utf-8")
        expected, _ = store_of([records / f"{name}.jsonl"], folder, *options)
        assert store_of([parquet / f"{name}.parquet"], folder, *options)[0] == expected, name
    expected, _ = store_of([records], folder, *options)
    for ranks in (1, 3):
        assert store_of([parquet], folder, *options, "--threads", "2", ranks=ranks)[0] == expected, ranks
    # The text of one column, as without chats.
    texts_of = [row["text"] for row in chats(10, draw)["messages"]]
    pq.write_table(pa.table({"text": texts_of, "messages": [[{"role": "user"}]] * 10}), folder / "x.parquet")
    assert store_of([folder / "x.parquet"], folder, "--key", "text")[0] == store_of([lines(folder / "x.jsonl", texts_of)], folder)[0]


def test_bad_chats(folder):
    (folder / "chat.jinja").write_text(TEMPLATE)
    options = ("--chat-template", str(folder / "chat.jinja"))
    path = folder / "x.parquet"
    good = {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}
    for bad, problem in (({"messages": None}, "is not a chat of a known form"), ({"messages": []}, "\"messages\" is empty"),
                         ({"messages": [{"role": None, "content": "x"}]}, "message 1 has no \"role\"")):
        pq.write_table(pa.Table.from_pylist([good, bad, good]), path)
        message = refusal([path], folder, *options)
        assert "x.parquet, row 2: " in message and problem in message, message
        assert "1 bad record," in store_of([path], folder, *options, "--skip-bad")[1]
    pq.write_table(pa.table({"messages": pa.array([[{"role": "user", "content": b"caf\xe9"}]])}), path)
    assert "x.parquet, row 1: is not UTF-8 at byte offset 3" in refusal([path], folder, *options)
    pq.write_table(pa.Table.from_pylist([good]), path)
    assert "needs a chat template" in refusal([path], folder)
    draw = random.Random(7)
    pq.write_table(pa.Table.from_pylist([good] * 100), path, row_group_size=40)
    whole = path.read_bytes()
    for _ in range(20):
        damaged = bytearray(whole)
        for _ in range(draw.choice([1, 1, 4])):
            damaged[draw.randrange(len(damaged))] = draw.randrange(256)
        path.write_bytes(damaged)
        done = tokenize([path], folder / "any.h5", *options)
        assert done.returncode in (0, 2), (done.returncode, done.stderr)


def test_damaged_files(folder):
    draw = random.Random(5)
    path = folder / "x.parquet"
    column = [str(i) + "".join(draw.choice("abcdefgh ") for _ in range(80)) for i in range(400)]
    pq.write_table(pa.table({"text": column}), path, row_group_size=100, write_page_checksum=True, use_dictionary=False)
    whole = path.read_bytes()
    for content in (b"", b"PAR1", b"{\"text\":\"a\"}\n" * 50, whole[:-1], whole[:2000]):
        path.write_bytes(content)
        assert "x.parquet: is not a Parquet file that can be read" in refusal([path], folder)
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 123456\n")
    assert "LFS" in refusal([path], folder)
    # In the second row group: all others are read.
    place = pq.ParquetFile(pa.BufferReader(whole)).metadata.row_group(1).column(0).data_page_offset + 200
    path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1:])
    assert "x.parquet: is damaged in row group 1" in refusal([path], folder)
    for ranks in (1, 2):
        ours, printed = store_of([path], folder, "--skip-bad", ranks=ranks)
        assert "1 damaged row group" in printed and "300 documents" in printed, printed
        assert ours == store_of([lines(folder / "x.jsonl", column[:100] + column[200:])], folder)[0]
    # Whatever is damaged, the program ends by itself.
    pq.write_table(pa.table({"text": column[:50] * 3}), path, row_group_size=40)
    whole = path.read_bytes()
    for _ in range(40):
        damaged = bytearray(whole)
        for _ in range(draw.choice([1, 1, 4])):
            damaged[draw.randrange(len(damaged))] = draw.randrange(256)
        path.write_bytes(damaged)
        done = tokenize([path], folder / "any.h5")
        assert done.returncode in (0, 2), (done.returncode, done.stderr)


def main():
    for test in (test_stores_equal_those_of_json_lines, test_nulls, test_columns, test_chats_are_those_of_json_lines, test_bad_chats, test_damaged_files):
        with tempfile.TemporaryDirectory() as folder:
            test(pathlib.Path(folder))
        print(test.__name__, "passed")


main()
