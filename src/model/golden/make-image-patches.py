"""Records image-patches.json from transformers' PIL image processor. Run: python3 src/model/golden/make-image-patches.py"""

import hashlib
import json
from pathlib import Path

import numpy as np
import PIL
import transformers
from PIL import Image
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

CASES = [
    # width, height, fewest pixels, most pixels
    (64, 32, 1024, 262144),  # no resize
    (96, 96, 1024, 262144),
    (225, 225, 1024, 262144),  # shrunk to whole tokens
    (80, 48, 1024, 262144),  # both sides lie half way: 2.5 and 1.5 tokens
    (112, 144, 1024, 262144),  # 3.5 and 4.5: Pillow 13 shrinks the columns first
    (150, 420, 1024, 65536),
    (20, 9, 1024, 262144),  # grown
    (300, 11, 4096, 262144),
    (500, 333, 1024, 16384),  # shrunk to fit
]


def picture(width, height):
    y, x, c = np.meshgrid(np.arange(height), np.arange(width), np.arange(3), indexing="ij")
    return ((x * 7 + y * 13 + c * 29 + x * y) % 256).astype(np.uint8)


def main():
    cases = []
    for width, height, fewest, most in CASES:
        processor = Qwen2VLImageProcessorPil(
            patch_size=16,
            merge_size=2,
            temporal_patch_size=2,
            image_mean=[0.5, 0.5, 0.5],
            image_std=[0.5, 0.5, 0.5],
            size={"shortest_edge": fewest, "longest_edge": most},
        )
        out = processor(Image.fromarray(picture(width, height)))
        patches = np.ascontiguousarray(out["pixel_values"], dtype="<f4")
        _, rows, columns = (int(n) for n in out["image_grid_thw"][0])
        flat = patches.reshape(-1)
        cases.append(
            {
                "width": width,
                "height": height,
                "minPixels": fewest,
                "maxPixels": most,
                "gridH": rows,
                "gridW": columns,
                "sha256": hashlib.sha256(patches.tobytes()).hexdigest(),
                "values": {str(i): float(flat[i]) for i in (0, 1, 300, 777, len(flat) - 1)},
            }
        )
    target = Path(__file__).with_name("image-patches.json")
    target.write_text(json.dumps({"transformers": transformers.__version__, "pillow": PIL.__version__, "cases": cases}, indent=1) + "\n")


main()
