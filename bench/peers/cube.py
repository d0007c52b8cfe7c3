"""How many frames a second matplotlib draws of what mental_rotation_3d_cube shows: two panels of 256 pixels, a figure of 14 cubes in each,
twelve triangles a cube. Prints the best of five seconds of processor time. Needs matplotlib."""

import time

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
from mpl_toolkits.mplot3d.art3d import Poly3DCollection  # noqa: E402

CELLS = [(i, 0, 0) for i in range(5)] + [(4, j, 0) for j in range(1, 5)] + [(4, 4, k) for k in range(1, 6)]
SIDES = ((0, 1, 3, 2), (4, 5, 7, 6), (0, 1, 5, 4), (2, 3, 7, 6), (0, 2, 6, 4), (1, 3, 7, 5))


def figure() -> np.ndarray:
    triangles = []
    for cell in CELLS:
        corners = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)]) + cell
        for a, b, c, d in SIDES:
            triangles += [corners[[a, b, c]], corners[[a, c, d]]]
    every = np.array(triangles, float)
    return every - every.mean((0, 1))


def panel(triangles: np.ndarray) -> np.ndarray:
    plot = plt.figure(figsize=(1.28, 1.28), dpi=200)
    axes = plot.add_subplot(111, projection="3d")
    axes.view_init(30, 45)
    axes.set_axis_off()
    normals = np.cross(triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0])
    up = normals[:, 2] / np.linalg.norm(normals, axis=1)
    grey = 0.8 - 0.8 * np.maximum(0, up)
    axes.add_collection3d(Poly3DCollection(triangles, facecolors=np.stack([grey] * 3, 1), edgecolors="k", linewidths=0.1))
    for limit in (axes.set_xlim, axes.set_ylim, axes.set_zlim):
        limit(triangles.min(), triangles.max())
    plot.canvas.draw()
    pixels = np.asarray(plot.canvas.buffer_rgba())[..., :3].copy()
    plt.close(plot)
    return pixels


def main() -> None:
    random = np.random.default_rng(0)
    shape = figure()
    best = 0.0
    for _ in range(5):
        frames, start = 0, time.process_time()
        while time.process_time() - start < 1:
            turn, _ = np.linalg.qr(random.normal(size=(3, 3)))
            np.hstack([panel(shape), panel(shape @ turn.T)])
            frames += 1
        best = max(best, frames / (time.process_time() - start))
    print(f"{best:.1f} frames/s")


if __name__ == "__main__":
    main()
