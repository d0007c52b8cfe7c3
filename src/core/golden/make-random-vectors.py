"""Writes random-vectors.json: draws of numpy and CPython that random.test.ts must repeat, bit for bit.

Run: python3 src/core/golden/make-random-vectors.py
Each program below has a namesake in random.test.ts. For every seed it makes about 400 draws; kept are the first two and
16 hex digits of the SHA-256 over all of them, joined by commas: integers in decimal, floats as 64-bit hex.
"""

import hashlib
import json
import pathlib
import platform
import random
import struct

import numpy as np

DRAWS = 400
SEEDS = [0, 1, 2, 3, 7, 42, 123, 1234567, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**40 + 7, 2**52, 2**53 - 1]
SEEDS += random.Random(0).sample(range(2**20), 18) + random.Random(1).sample(range(2**53), 18)
RANGES = [1, 2, 3, 7, 100, 2**31, 2**31 + 1, 2**32 - 1, 2**32, 2**32 + 1, 2**40, 2**53 - 1]
LENGTHS = [0, 1, 2, 3, 10, 33, 64, 287]
WEIGHTS = [0.1, 0.0, 0.25, 0.05, 0.3, 0.2, 0.1]
LETTERS = [10, 20, 30, 40, 50, 60, 70]


def times(draw, count=DRAWS):
    return [draw() for _ in range(count)]


def flat(draw, count):
    return [x for _ in range(count) for x in draw()]


def numpy_shuffle(r):
    """Lists and arrays must shuffle alike; checked here on a twin."""
    out = []
    for n in LENGTHS:
        twin = np.random.default_rng(0)
        twin.bit_generator.state = r.bit_generator.state
        as_list, as_array = list(range(n)), np.arange(n)
        twin.shuffle(as_list)
        r.shuffle(as_array)
        assert as_list == as_array.tolist() and twin.bit_generator.state == r.bit_generator.state
        out += as_list
    return out


def numpy_mixed(r):
    out = []
    for _ in range(40):
        items = LETTERS[:5]
        out += [r.integers(0, 7), r.random(), r.integers(0, 100), r.integers(0, 2**32), r.integers(5, 6)]
        out += [r.integers(0, 2**40), r.choice(LETTERS), r.choice(LETTERS, p=WEIGHTS), r.uniform(-1, 1)]
        r.shuffle(items)
        out += items
    return out


def python_mixed(r):
    out = []
    for _ in range(40):
        items = LETTERS[:5]
        out += [r.randint(0, 6), r.random(), r.getrandbits(9), r.randrange(2**40), r.choice(LETTERS)]
        r.shuffle(items)
        out += items + r.sample(LETTERS, 3)
    return out


def python_shuffle(r):
    out = []
    for n in LENGTHS:
        items = list(range(n))
        r.shuffle(items)
        out += items
    return out


NUMPY = {
    "random": lambda r: times(r.random),
    "random(size)": lambda r: r.random(DRAWS),
    "uniform": lambda r: times(lambda: r.uniform(-3.5, 12.25)),
    **{f"integers {n}": lambda r, n=n: times(lambda: r.integers(n)) for n in RANGES},
    "integers from below zero": lambda r: times(lambda: r.integers(-(2**40), 13)),
    "integers over all": lambda r: times(lambda: r.integers(-(2**53 - 1), 2**53 - 1)),
    "integers(size)": lambda r: r.integers(-5, 2**31, DRAWS),
    "choice": lambda r: times(lambda: r.choice(LETTERS)),
    "choice n": lambda r: times(lambda: r.choice(1000)),
    "choice p": lambda r: times(lambda: r.choice(LETTERS, p=WEIGHTS)),
    "choice size": lambda r: flat(lambda: r.choice(LETTERS, 25), 16),
    "choice size p": lambda r: flat(lambda: r.choice(LETTERS, 25, p=WEIGHTS), 16),
    "choice without replacement": lambda r: flat(lambda: r.choice(20, 8, replace=False), 50),
    "choice of all": lambda r: flat(lambda: r.choice(LETTERS, 7, replace=False), 58),
    "choice of one": lambda r: times(lambda: r.choice(LETTERS, replace=False)),
    "choice of few of many": lambda r: flat(lambda: r.choice(10001, 200, replace=False), 2),
    "choice of more of many": lambda r: flat(lambda: r.choice(10001, 201, replace=False), 2),
    "choice of many at the limit": lambda r: flat(lambda: r.choice(10000, 400, replace=False), 1),
    "choice of 2^40": lambda r: flat(lambda: r.choice(2**40, 40, replace=False), 10),
    "choice p without replacement": lambda r: flat(lambda: r.choice(LETTERS, 5, replace=False, p=WEIGHTS), 80),
    "shuffle": numpy_shuffle,
    "permutation n": lambda r: [x for n in LENGTHS for x in r.permutation(n)],
    "permutation items": lambda r: flat(lambda: r.permutation(LETTERS), 58),
    "mixed": numpy_mixed,
}

PYTHON = {
    "random": lambda r: times(r.random),
    "getrandbits": lambda r: [r.getrandbits(i % 54) for i in range(DRAWS)],
    "randint": lambda r: times(lambda: r.randint(-3, 12)),
    "randint wide": lambda r: times(lambda: r.randint(-(2**51), 2**52)),
    **{f"randrange {n}": lambda r, n=n: times(lambda: r.randrange(n)) for n in RANGES},
    "randrange step": lambda r: times(lambda: r.randrange(5, 100, 7)),
    "randrange back": lambda r: times(lambda: r.randrange(50, -50, -3)),
    "choice": lambda r: times(lambda: r.choice(LETTERS)),
    "sample pool": lambda r: flat(lambda: r.sample(LETTERS, 4), 100),
    "sample at the limits": lambda r: [x for n in (21, 22) for _ in range(40) for x in r.sample(range(n), 5)],
    "sample table": lambda r: [x for n in (85, 86, 277, 278) for _ in range(5) for x in r.sample(range(n), 21)],
    "sample set": lambda r: flat(lambda: r.sample(range(2**31), 40), 10),
    "sample all": lambda r: r.sample(range(DRAWS), DRAWS),
    "shuffle": python_shuffle,
    "mixed": python_mixed,
}


def text(draw):
    return struct.pack(">d", draw).hex() if isinstance(draw, float) else str(int(draw))


def vectors(program, make):
    rows = []
    for seed in SEEDS:
        draws = [text(x) for x in program(make(seed))]
        digest = hashlib.sha256(",".join(draws).encode()).hexdigest()[:16]
        rows.append(",".join([digest, *draws[:2]]))
    return rows


out = {
    "made with": f"numpy {np.__version__}, CPython {platform.python_version()}",
    "seeds": SEEDS,
    "numpy": {name: vectors(program, np.random.default_rng) for name, program in NUMPY.items()},
    "python": {name: vectors(program, random.Random) for name, program in PYTHON.items()},
}
path = pathlib.Path(__file__).with_name("random-vectors.json")
path.write_text(json.dumps(out, indent=0) + "\n")
print(f"{path}: {path.stat().st_size} bytes, {len(SEEDS)} seeds")
