"""Writes geometry3k.parquet: three rows in the layout of hiyouga/geometry3k on Hugging Face (images, problem, answer), with our own pictures and words.

Run: python3 worlds/geometry3k/golden/make-geometry3k.py   (needs pyarrow and Pillow)
"""

import io
import pathlib

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image, ImageDraw


def picture(kind, size):
    image = Image.new("RGB", size, "white")
    width, height = size
    ImageDraw.Draw(image).polygon([(4, height - 4), (width - 4, height - 4), (width // 2, 4)], outline="black")
    data = io.BytesIO()
    image.save(data, kind)
    return {"bytes": data.getvalue(), "path": None}


rows = [
    {"images": [picture("PNG", (40, 30))], "problem": "<image>Find x.", "answer": "5 \\sqrt { 3 }"},
    {"images": [picture("JPEG", (48, 36))], "problem": "<image>What is the area?", "answer": "12"},
    {"images": [picture("PNG", (32, 32))], "problem": "<image>Find y to the nearest tenth.", "answer": "7.5"},
]
image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
schema = pa.schema([("images", pa.list_(image)), ("problem", pa.string()), ("answer", pa.string())])
pq.write_table(pa.Table.from_pylist(rows, schema), pathlib.Path(__file__).parent / "geometry3k.parquet")
