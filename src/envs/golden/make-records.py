"""Writes the Parquet files that records.test.ts and tickets.test.ts read, in SkyRL's shapes.

Run: python3 src/envs/golden/make-records.py   (needs pyarrow)
"""

import base64
import datetime
import pathlib
import struct
import zlib

import pyarrow as pa
import pyarrow.parquet as pq


def png(width, height, rgb):
    """A PNG of one colour."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + bytes(rgb) * width for _ in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def row(i):
    picture = png(i + 2, 2, (200, 10 * i, 0))
    uri = "data:image/png;base64," + base64.b64encode(picture).decode()
    return {
        "prompt": [
            {"role": "system", "content": [{"type": "text", "text": "Answer in one word."}]},
            {
                "role": "user",
                "content": [
                    {"type": "image_url", "image_url": {"url": uri}},
                    {"type": "text", "text": f"Which colour is picture {i}? 🎨"},
                ],
            },
        ],
        "env_class": "colours",
        "data_source": "golden" if i else None,
        "reward_spec": {"method": "rule", "ground_truth": "red"},
        "extra_info": {"split": "train", "index": i, "tags": ["a"] * i},
        "score": i / 4,
        "hard": i == 2,
        "counts": [1, 2**53 - 1, i],
        "made": datetime.datetime(2026, 1, 2, 3, 4, i),
        "raw": picture,
    }


table = pa.Table.from_pylist([row(i) for i in range(3)])
here = pathlib.Path(__file__).parent
pq.write_table(table, here / "records.parquet", row_group_size=2)
for codec in ("gzip", "brotli", "zstd"):
    pq.write_table(table.select(["prompt", "env_class"]), here / f"records.{codec}.parquet", compression=codec)

visgym = {"prompt": [{"role": "user", "content": "placeholder"}], "env_class": "visgym"}
tickets = [
    {**visgym, "visgym_env_id": "maze_2d/easy", "seed": 5, "visgym_kwargs": {"maze_width": 9, "moves": None}},
    {**visgym, "visgym_env_id": "sliding_block/easy", "seed": None, "visgym_kwargs": {"maze_width": None, "moves": 3}},
]
pq.write_table(pa.Table.from_pylist(tickets), here / "tickets.parquet")
for path in sorted(here.glob("*.parquet")):
    print(path.name, path.stat().st_size)
