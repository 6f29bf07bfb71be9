"""A reader of checkpoints without HDF5, written from docs/checkpoint.md alone. Verifies hashes if xxhash is installed."""
import json
import pathlib
import struct

try:
    import xxhash
except ImportError:
    xxhash = None


def verify(content, expected, what):
    assert xxhash is None or f"{xxhash.xxh3_64_intdigest(content):016x}" == expected, f"{what}: another hash"


class Checkpoint:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        text = (self.folder / "manifest.json").read_bytes()
        self.manifest = json.loads(text)
        assert self.manifest["format"] == "trivium checkpoint" and self.manifest["version"] == 1
        body = text[: text.rindex(b',\n  "xxh3"')]
        verify(body, self.manifest["xxh3"], "the manifest")
        index = self.manifest["index"]
        content = (self.folder / index["file"]).read_bytes()
        assert len(content) == index["bytes"]
        size = self.manifest["block_bytes"]
        for i, expected in enumerate(index["blocks"]):
            verify(content[i * size : (i + 1) * size], expected, f"block {i} of the index")
        self.begins = struct.unpack_from(f"<{index['tensors']}Q", content, index["tensors_at"])
        self.words = struct.unpack_from(f"<{index['words']}Q", content, index["records_at"])
        self.shards = {shard["rank"]: shard for shard in self.manifest["shards"]}

    def record(self, begin):
        at = begin

        def take(count):
            nonlocal at
            at += count
            return list(self.words[at - count : at])

        (length,) = take(1)
        name = struct.pack(f"<{(length + 7) // 8}Q", *take((length + 7) // 8))[:length].decode()
        kind, dimensions = take(2)
        shape = take(dimensions)
        (pieces,) = take(1)
        return name, kind, shape, [(*take(3), take(dimensions), take(dimensions)) for _ in range(pieces)]

    def data(self, rank):
        """The data of a shard, each block verified."""
        shard = self.shards[rank]
        content = (self.folder / shard["file"]).read_bytes()
        assert len(content) == shard["bytes"]
        header, data = content[: shard["header"]], content[shard["header"] :]
        verify(header, shard["xxh3"], f"the header of {shard['file']}")
        size = self.manifest["block_bytes"]
        blocks = -(-len(data) // size)
        for i, expected in enumerate(struct.unpack(f"<{blocks}Q", header[len(header) - 8 * blocks :])):
            verify(data[i * size : (i + 1) * size], f"{expected:016x}", f"block {i} of {shard['file']}")
        return data

    def tensors(self, numpy):
        found = {}
        for begin in self.begins:
            name, kind, shape, pieces = self.record(begin)
            whole = numpy.full(shape, numpy.nan, ["<f4", "<f8"][kind])
            for rank, _, offset, start, extent in pieces:
                count = int(numpy.prod(extent))
                part = numpy.frombuffer(self.data(rank), whole.dtype, count, offset).reshape(extent)
                whole[tuple(slice(b, b + e) for b, e in zip(start, extent))] = part
            found[name] = whole
        assert sorted(found) == list(found)
        return found
