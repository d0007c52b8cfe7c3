"""How many frames a second Python draws of what video_unshuffle shows, at the least: four and five tiles of 224 pixels side by side, each with its
slot's number on a box darkened by 60 %, OpenCV and numpy as VisGym has them. Prints the best of thirty windows of processor time. Needs opencv-python."""

import time

import cv2
import numpy as np

SIDE, PADDING = 224, 5
FONT, SCALE, STROKE = cv2.FONT_HERSHEY_SIMPLEX, 0.8, 2


def frame(tiles: list[np.ndarray]) -> np.ndarray:
    shown = []
    for slot, tile in enumerate(tiles, 1):
        tile = tile.copy()
        (width, height), _ = cv2.getTextSize(str(slot), FONT, SCALE, STROKE)
        x, y = SIDE - width - PADDING, SIDE - PADDING
        dark = tile.copy()
        cv2.rectangle(dark, (x - 5, y - height - 5), (x + width + 5, y + 5), (0, 0, 0), -1)
        cv2.addWeighted(dark, 0.6, tile, 0.4, 0, tile)
        cv2.putText(tile, str(slot), (x, y), FONT, SCALE, (255, 255, 255), STROKE)
        shown.append(tile)
    return np.hstack(shown)


cv2.setNumThreads(1)
for count in (4, 5):
    tiles = list(np.random.default_rng(0).integers(0, 256, (count, SIDE, SIDE, 3), np.uint8))
    best = 0.0
    for _ in range(30):
        start, done = time.process_time(), 0
        while (spent := time.process_time() - start) < 0.1:
            frame(tiles)
            done += 1
        best = max(best, done / spent)
    print(f"{count} tiles: {best:.0f} frames/s")
