"""Compares the output of `trivium metrics report` with values that Python computes from the same files.

  run_report.py TRIVIUM
"""
import base64
import html.parser
import json
import math
import os
import pathlib
import random
import re
import statistics
import struct
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
import zlib

TRIVIUM = os.path.abspath(sys.argv[1])
HTML = "{http://www.w3.org/1999/xhtml}"
SVG = "{http://www.w3.org/2000/svg}"
LOSS = "Loss, nats per token"
NASTY = "</td><script>alert('1')</script> & \"<b>\" \x01\ud7ff\ufffe é 漢字 𝄞"


class Page:
    """A page, parsed as XML. An HTML parser must find the same elements."""

    def __init__(self, text):
        root = xml.etree.ElementTree.fromstring(text.split("\n", 1)[1])
        self.all = list(root.iter())
        self.tags = [element.tag.split("}")[1] for element in self.all]
        seen = []
        parser = html.parser.HTMLParser()
        parser.handle_starttag = lambda tag, attributes: seen.append(tag)
        parser.feed(text)
        parser.close()
        assert [tag.lower() for tag in self.tags] == [tag.lower() for tag in seen]

    def by_id(self, name):
        found = [element for element in self.all if element.get("id") == name]
        return found[0] if found else None

    def value(self, name):
        element = self.by_id(name)
        return None if element is None else float(element.get("value"))

    def rows(self, name):
        table = self.by_id(name)
        return [["".join(cell.itertext()) for cell in row] for row in table.find(HTML + "tbody")]

    def charts(self):
        return {svg.get("aria-label"): svg for svg in self.all if svg.tag == SVG + "svg"}

    def of_class(self, svg, tag, name):
        return [e for e in svg.iter(SVG + tag) if name in e.get("class", "").split()]


def report(folder, *arguments):
    out = subprocess.run([TRIVIUM, "metrics", "report", str(folder), "--output", str(folder / "out/report.html"), *arguments],
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert out.returncode == 0, out.stdout
    text = (folder / "out/report.html").read_text(encoding="utf-8")
    for word in ("<script", "javascript:", "http://", "https://", "url(", "@import", "src=", "href="):
        left = text.replace("http://www.w3.org/1999/xhtml", "").replace("http://www.w3.org/2000/svg", "").replace('src="data:', "")
        assert word not in left, word
    for word in ("nan", "inf"):
        assert not re.search(rf'[=",>\s]-?{word}[",<\s]', text), word
    return text, Page(text)


def lines(path, objects):
    path.write_text("".join(json.dumps(o) + "\n" for o in objects))


def make_records(count, rng, skipped=(), restarts=()):
    records = []
    for step in range(1, count + 1):
        loss = None if step in skipped else 2 + 8 / step + rng.random() / 10
        seconds = 5.0 if step == count // 2 else rng.uniform(0.2, 0.3)
        record = {"step": step, "loss": loss, "grad_norm": rng.uniform(0.1, 2), "lr": 1e-3 * min(1, step / 50), "tokens": step * 4096,
                  "tokens_per_second": 4096 / seconds, "step_seconds": seconds, "mfu": 0.1 / seconds, "memory_bytes": 3 << 30, "planned_bytes": 4 << 30,
                  "ranks": 8, "exposed_comm_seconds": seconds / 4, "time": 1_795_300_000 + step}
        if step % 50 == 0:
            record["valid_loss"] = 2.1 + 9 / step + (0.5 if step > count / 2 else 0)
        if step % 40 == 0:
            record.update(checkpoint_seconds=rng.uniform(1, 2), checkpoint_stall_seconds=0.125)
        if step in skipped:
            record["skipped"] = 1
        if step - 1 in restarts:
            record["restarted_at"] = step - 1
        records.append(record)
    return records


def close(a, b, rel=1e-9):
    assert a is not None and math.isclose(a, b, rel_tol=rel), (a, b)


def whole_run(folder, rng):
    records = make_records(400, rng, skipped=(77, 201), restarts=(120, 240))
    lines(folder / "metrics.jsonl", records)
    with open(folder / "metrics.jsonl", "a") as file:
        file.write('{"step":401,"lo')  # the run still writes
    side = make_records(130, rng)[120:]
    lines(folder / "metrics.superseded.jsonl", side)
    start = {"event": "start", "job": NASTY, "restart": 0, "ranks": 8, "nodes": 4, "grid": "data 2 x pipeline 2 x tensor 2"}
    lines(folder / "launches.jsonl", [
        {"launch": 1, "time": "2026-11-21T22:00:00Z", "step": 0, **start},
        {"launch": 2, "time": "2026-11-21T22:10:00Z", "step": 120, **start, "ranks": 6, "grid": NASTY},
        {"launch": 2, "event": "end", "time": "2026-11-21T22:12:05Z", "status": 75, "reason": "signal USR1 <&>", "step": 240},
        {"launch": 3, "time": "2026-11-21T22:13:00Z", "step": 240, **start},
    ])
    text, page = report(folder, "--title", "A run <i> & more")
    assert "<i>" not in text and "<b>" not in text
    assert "".join(page.by_id("state").itertext()).startswith("Running or killed")
    assert page.all[0].find(HTML + "body").find(f".//{HTML}h1").text == "A run <i> & more"

    losses = [r["loss"] for r in records if r["loss"] is not None]
    seconds = [r["step_seconds"] for r in records]
    close(page.value("steps"), 400)
    close(page.value("tokens"), 400 * 4096)
    close(page.value("loss"), losses[-1])
    close(page.value("recent_loss"), statistics.fmean(losses[-100:]))
    close(page.value("valid_loss"), records[-1]["valid_loss"])
    close(page.value("best_valid_loss"), min(r["valid_loss"] for r in records if "valid_loss" in r))
    close(page.value("tokens_per_second"), 400 * 4096 / sum(seconds))
    close(page.value("mfu"), 0.1 * 400 / sum(seconds))
    close(page.value("median_step"), sorted(seconds)[200])
    close(page.value("exposed_share"), 0.25)
    close(page.value("memory_used"), 3 << 30)
    close(page.value("memory_planned"), 4 << 30)
    close(page.value("training"), sum(seconds))
    close(page.value("elapsed"), records[-1]["time"] - 1_795_298_400)  # 2026-11-21T22:00:00Z
    close(page.value("saves"), 10)
    close(page.value("stalled"), 10 * 0.125)
    close(page.value("restarts"), 2)
    close(page.value("steps_lost"), 10)
    close(page.value("skipped"), 2)

    launches = page.rows("launches")
    assert [row[0] for row in launches] == ["1", "2", "3"]
    assert [row[7:9] for row in launches] == [["0", "–"], ["120", "240"], ["240", "400"]], launches
    cleaned = NASTY.replace("\x01", "\ufffd").replace("\ufffe", 3 * "\ufffd")
    assert launches[0][3] == cleaned and launches[1][6] == cleaned, launches
    assert launches[1][2] == "2:05" and launches[1][9] == "signal USR1 <&> (status 75)", launches
    assert "killed" in launches[0][9] and "running" in launches[2][9]
    assert [row[0] for row in page.rows("skipped-steps")] == ["77", "201"]
    assert page.rows("skipped-steps")[0][1] == "not finite"
    warnings = "".join(page.by_id("warnings").itertext())
    assert "1 step took more than 3 times" in warnings and "step 200 with 5.000 s" in warnings, warnings
    assert "2 steps were skipped" in warnings and "1 launch ended without a record" in warnings, warnings

    charts = page.charts()
    assert len(charts) == 9, charts.keys()
    for name, svg in charts.items():
        assert len(page.of_class(svg, "line", "restart")) == 2 + (name == LOSS), name  # which has one in its legend
        assert len(page.of_class(svg, "line", "skipped")) == 2 + (name == LOSS), name
    assert len(page.of_class(charts[LOSS], "circle", "dot")) == 8 + 1
    at = {float(e.get("x1")) for e in page.of_class(charts[LOSS], "line", "restart")}
    left, right = (float(page.of_class(charts[LOSS], "line", "grid")[0].get(key)) for key in ("x1", "x2"))
    for step in (120, 240):  # the axis goes from 0 to 400
        assert any(abs(x - (left + (right - left) * step / 400)) < 0.1 for x in at), (at, left, right)


def bare_runs(folder, rng):
    """Only metrics.jsonl: with few keys, without keys, empty."""
    lines(folder / "metrics.jsonl", [{k: v for k, v in r.items() if k in ("step", "loss", "restarted_at", "ranks")} for r in make_records(90, rng, restarts=(30,))])
    _, page = report(folder)
    assert list(page.charts()) == [LOSS]
    assert page.rows("launches") == [["1", "8", "0", "30"], ["2", "8", "30", "90"]], page.rows("launches")
    assert page.by_id("mfu") is None and page.value("restarts") == 1
    lines(folder / "metrics.jsonl", [{"step": 5, "lr": 1}, {"step": 7, "lr": 2}, {"step": 6, "lr": 3}])
    _, page = report(folder)
    points = page.of_class(page.charts()["Learning rate"], "path", "line")[0].get("d")[1:].split("L")
    assert all(0 < float(x) < 560 for x, _ in (p.split(",") for p in points)), points
    assert "are not consecutive" in "".join(page.by_id("warnings").itertext())
    for text in ("", '{"step":1,"lo', '{"step":1,"loss":null}\n'):
        (folder / "metrics.jsonl").write_text(text)
        _, page = report(folder)
        assert not page.charts() and page.by_id("loss") is None
    lines(folder / "launches.jsonl", [{"launch": i, "event": "start", "time": "2026-11-21T22:00:00Z", "job": "1", "restart": 0, "ranks": i, "nodes": 1, "grid": "", "step": 0}
                                      for i in (1, 2)])  # killed before its first step, then on two ranks
    for text in ("", '{"step":1,"lo'):
        (folder / "metrics.jsonl").write_text(text)
        _, page = report(folder)
        assert not page.charts() and [row[5] for row in page.rows("launches")] == ["1", "2"], page.rows("launches")
    (folder / "launches.jsonl").write_text('{"launch":1,"ev\n[]\n5\n{"launch":"x","event":"start"}\n')
    report(folder)
    bad = subprocess.run([TRIVIUM, "metrics", "report", str(folder / "none"), "--output", str(folder / "r.html")], stderr=subprocess.PIPE, text=True)
    assert bad.returncode == 2 and "remedy" in bad.stderr and not (folder / "r.html").exists()


def long_run(folder, rng):
    """Forty thousand steps: the page is small, and a spike of one step is visible."""
    records = make_records(500, rng) * 80
    for step, record in enumerate(records, 1):
        records[step - 1] = {**record, "step": step}
    records[26_665]["lr"] = 1.0
    lines(folder / "metrics.jsonl", records)
    lines(folder / "launches.jsonl", [{"launch": i, "event": "start", "time": "2026-11-21T22:00:00Z", "job": "1", "restart": i, "ranks": 1, "nodes": 1, "grid": "", "step": i * 13}
                                      for i in range(1, 3001)])
    text, page = report(folder)
    assert len(text) < 1_000_000, len(text)
    assert len(page.rows("launches")) == 200
    path = page.of_class(page.charts()["Learning rate"], "path", "line")[0].get("d")
    points = [tuple(map(float, p.split(","))) for p in path[1:].split("L")]
    top = min(points, key=lambda p: p[1])
    assert sum(p[1] < top[1] + 50 for p in points) == 1  # the others lie far below
    assert abs((top[0] - points[0][0]) / (points[-1][0] - points[0][0]) - 2 / 3) < 0.01


def pixels_of(image):
    """The rows of palette indices of a PNG, and its palette, with every checksum compared."""
    data = base64.b64decode(image.get("src").removeprefix("data:image/png;base64,"), validate=True)
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = {}, 8
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        content = data[at + 8:at + 8 + length]
        assert struct.unpack(">I", data[at + 8 + length:at + 12 + length])[0] == zlib.crc32(kind + content)
        chunks[kind], at = content, at + 12 + length
    assert list(chunks) == [b"IHDR", b"PLTE", b"IDAT", b"IEND"]
    width, height, *rest = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert rest == [8, 3, 0, 0, 0] and len(chunks[b"PLTE"]) == 768
    raw = zlib.decompress(chunks[b"IDAT"])
    assert len(raw) == height * (width + 1)
    rows = [raw[i * (width + 1):(i + 1) * (width + 1)] for i in range(height)]
    assert all(row[0] == 0 for row in rows)
    return [list(row[1:]) for row in rows]


def shown_samples(folder, rng):
    """Pictures have the values of the file, curves too; without a file there are none."""
    lines(folder / "metrics.jsonl", [{"step": s, "loss": 1, "valid_loss": 2 / s} for s in (1, 2, 3)])
    assert "Samples of the validation data" not in report(folder)[0]
    target = [rng.uniform(-3, 5) for _ in range(300 * 301)]
    guess = [None, 1e9, -1e9, *target[3:]]
    curve = [math.sin(i / 9) for i in range(100)]
    lines(folder / "metrics.samples.jsonl", [
        {"name": NASTY, "sample": 0, "shape": [1, 1], "values": [None]},
        {"name": "target", "sample": 0, "shape": [300, 301], "values": target},
        {"name": "target", "sample": 1, "shape": [1, 2], "values": [0, 1]},
        {"name": "wave", "sample": 1, "shape": [100], "values": curve[:50] + [None] + curve[51:]},
        {"name": "guess", "sample": 0, "step": 3, "scale": "target", "shape": [300, 301], "values": guess},
        {"name": "guess", "sample": 0, "step": 2, "shape": [1, 2], "values": [4, 4]},
    ])
    text, page = report(folder)
    first, second = (page.by_id(f"sample-{i}") for i in (0, 1))
    captions = ["".join(e.itertext()) for e in first.iter(HTML + "figcaption")]
    low, high = min(target), max(target)
    assert captions[1:] == [f"target{low:.3g} to {high:.3g}", "guess, step 24 to 4", "guess, step 3-1e+09 to 1e+09"], captions
    assert captions[0].endswith("no finite value"), captions
    images = [pixels_of(image) for image in first.iter(HTML + "img")]
    assert images[0] == [[0]] and images[2] == [[128, 128]]
    for row, pixels in enumerate(images[1]):
        for column, pixel in enumerate(pixels):
            assert abs(pixel - 1 - 254 * (target[301 * row + column] - low) / (high - low)) < 0.51
    assert images[3][0][:3] == [0, 255, 1]
    images[3][0][:3] = images[1][0][:3]
    assert images[3] == images[1]
    assert [pixels_of(image) for image in second.iter(HTML + "img")] == [[[1, 255]]]
    path = next(second.iter(SVG + "path")).get("d")
    parts = [[tuple(map(float, p.split(","))) for p in part.split("L")] for part in path[1:].split("M")]
    assert [len(part) for part in parts] == [50, 49]
    for x, y in parts[0]:
        assert abs(y - (50 - 48 * curve[round(x / 200 * 99)])) < 1, (x, y)
    assert "1.0000 at step 2, 0.6667 at step 3" in text
    for bad in ("{}", '{"name":"a","sample":0,"shape":[2],"values":[1]}', '{"name":"a","sample":0,"shape":[-1,-1],"values":[1]}', "[" * 100000):
        (folder / "metrics.samples.jsonl").write_text(bad + "\n")
        out = subprocess.run([TRIVIUM, "metrics", "report", str(folder), "--output", str(folder / "r.html")], stderr=subprocess.PIPE, text=True)
        assert out.returncode == 2 and "metrics.samples.jsonl:1" in out.stderr, out


def main():
    rng = random.Random(11)
    for check in (whole_run, bare_runs, long_run, shown_samples):
        with tempfile.TemporaryDirectory() as name:
            check(pathlib.Path(name), rng)
    print("the report matches the files")


main()
