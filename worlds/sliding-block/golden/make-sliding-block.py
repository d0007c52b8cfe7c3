"""Writes sliding_block_targets.json: where numpy's own RandomState puts the ten blocks under VisGym's three phases of
shuffling. Seeds whose third phase had a choice are preferred, and the recorded episodes must come out as recorded.

    python worlds/sliding-block/golden/make-sliding-block.py      # numpy 2.x
"""

import json
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
SIZES = [(2, 2), (1, 2), (2, 1), (2, 1), (2, 1), (2, 1), (1, 1), (1, 1), (1, 1), (1, 1)]
START = [(0, 1), (2, 1), (0, 0), (0, 3), (2, 0), (2, 3), (4, 0), (4, 3), (3, 1), (3, 2)]
STEPS = [(-1, 0), (0, 1), (1, 0), (0, -1)]


def covered(block, at):
    rows, columns = SIZES[block]
    return {(at[0] + r, at[1] + c) for r in range(rows) for c in range(columns)}


def slide(places, block, direction):
    """The block's new place, or None where it is blocked."""
    to = (places[block][0] + STEPS[direction][0], places[block][1] + STEPS[direction][1])
    cells = covered(block, to)
    if any(not (0 <= r < 5 and 0 <= c < 4) for r, c in cells):
        return None
    if any(cells & covered(other, places[other]) for other in range(10) if other != block):
        return None
    return to


def target(seed, moves):
    """Places after the shuffle, and whether its third phase ever had more than one way to go."""
    random = np.random.RandomState(seed)
    places = list(START)
    chose = False

    def possible():
        return [(b, d) for b in range(10) for d in range(4) if slide(places, b, d)]

    for _ in range(moves // 3):
        to = slide(places, 0, random.randint(4))
        if to:
            places[0] = to
        else:
            block, direction = (options := possible())[random.randint(len(options))]
            places[block] = slide(places, block, direction)
    last = None
    for _ in range(2 * moves // 3):
        back = last and (last[0], (last[1] + 2) % 4)
        options = [move for move in possible() if move != back] or possible()
        last = options[random.randint(len(options))]
        places[last[0]] = slide(places, *last)
    budget = moves // 6
    for block in range(10):
        ways = [d for d in range(4) if slide(places, block, d)]
        if places[block] == START[block] and budget > 0 and ways:
            chose = chose or len(ways) > 1
            places[block] = slide(places, block, ways[0])
            budget -= 1
    return places, chose


recorded = json.loads((HERE / "sliding_block_easy.json").read_text())
for episode in recorded:
    blocks = episode["state"]["target_blocks"]
    assert [tuple(blocks[str(i + 1)]["position"]) for i in range(10)] == target(episode["seed"], 30)[0], episode["seed"]

rows = []
for moves in (30, 90):
    seeds = [seed for seed in range(400) if target(seed, moves)[1]][:10] + [399, 400, 2**31, 2**32 - 1]
    rows += [{"moves": moves, "seed": seed, "positions": target(seed, moves)[0]} for seed in seeds]
lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
(HERE / "sliding_block_targets.json").write_text(f"[\n{lines}\n]\n")
