"""Rows of results as one table. A row is a dictionary; only `name` must be there:

stage, name     what was checked
error           the largest, and `tolerance`, what it may be
seconds         that it took
share           of the ceiling measured in the same call, 0 to 1
verdict         passed | failed | skipped
note            why not, or figures that have no column

perf/gpu_check/table.py FILE.jsonl prints the rows of a file.
"""
import json
import sys

KEYS = ("stage", "name", "error", "tolerance", "seconds", "share", "verdict", "note")


def rows_of(lines):
    """The rows among lines of text: those that are JSON objects with a `name`."""
    for line in lines:
        if not line.startswith("{"):
            continue
        try:
            row = json.loads(line)
        except ValueError:  # truncated when its program was stopped
            continue
        if isinstance(row, dict) and "name" in row:
            yield row


def failed(row):
    """An error above its tolerance, or one that is not a number, is a failure, whatever the row's verdict."""
    error, tolerance = row.get("error"), row.get("tolerance")
    off = error is not None and tolerance is not None and not float(error) <= float(tolerance)
    return off or row.get("verdict") not in ("passed", "skipped")


def duration(seconds):
    for unit, size in (("s", 1), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.2f} {unit}"
    return f"{seconds / 1e-6:.1f} us"


def cells(row):
    def shown(key, form):
        return form(float(row[key])) if row.get(key) is not None else ""

    return (
        str(row.get("stage", "")),
        str(row["name"]),
        shown("error", lambda x: f"{x:.1e}"),
        shown("tolerance", lambda x: f"{x:.0e}"),
        shown("seconds", duration),
        shown("share", lambda x: f"{100 * x:.0f} %"),
        "FAILED" if failed(row) else row["verdict"],
        str(row.get("note", "")),
    )


def table(rows):
    """The text of the table, with a summary as last line."""
    lines = [("stage", "what", "error", "tolerance", "time", "ceiling", "verdict", "")] + [cells(row) for row in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    right = {2, 3, 4, 5}

    def aligned(line):
        columns = enumerate(zip(line, widths))
        return "  ".join(cell.rjust(w) if i in right else cell.ljust(w) for i, (cell, w) in columns).rstrip()

    text = [aligned(line) for line in lines]
    bad = sum(failed(row) for row in rows)
    skipped = sum(not failed(row) and row["verdict"] == "skipped" for row in rows)
    text.append(f"{len(rows) - bad - skipped} passed, {bad} failed, {skipped} skipped")
    return "\n".join(text)


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        found = list(rows_of(file))
    print(table(found))
    sys.exit(1 if any(map(failed, found)) or not found else 0)
