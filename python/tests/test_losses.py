"""Every loss gives the numbers of src/engine/losses.ts (golden/losses.json, written by golden/losses.ts)."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from saccade_torch.losses import LossInputs, policy_loss, value_loss

GOLDEN = json.loads((Path(__file__).parent / "golden" / "losses.json").read_text())


def column(name: str) -> torch.Tensor:
    return torch.tensor([value for sequence in GOLDEN["sequences"] for value in sequence[name]], dtype=torch.float64)


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda case: json.dumps(case["loss"]))
def test_loss_slopes_and_metrics_equal_the_typescript(case):
    lengths = [len(sequence["weights"]) for sequence in GOLDEN["sequences"]]
    owner = torch.tensor(np.repeat(np.arange(len(lengths)), lengths))
    names = ("advantages", "oldLogprobs", "referenceLogprobs", "returns", "oldValues")
    data = LossInputs(column("weights"), owner, len(lengths), *(column(name) for name in names))
    if case["loss"]["name"] == "value":
        terms = value_loss(case["loss"], data, column("values"))
    else:
        terms = policy_loss(case["loss"], data, column("logprobs"), column("entropy"))
    assert float(terms.loss) == pytest.approx(case["total"], rel=1e-9)
    assert int(terms.tokens) == case["tokens"]
    slopes = [value for sequence in case["found"] for value in sequence["slopes"]]
    # The TypeScript stores slopes in 32 bits.
    np.testing.assert_allclose(terms.slopes.numpy(), slopes, rtol=1e-6, atol=1e-30)
    found = {name: float(total) / float(count) for name, (total, count) in terms.metrics.items()}
    assert found == pytest.approx(case["metrics"], rel=1e-9)
    entropy = [sequence.get("entropySlopes") for sequence in case["found"]]
    if entropy[0] is None:
        assert terms.entropy_slopes is None
    else:
        np.testing.assert_allclose(terms.entropy_slopes.numpy(), [value for part in entropy for value in part], rtol=1e-6)


def test_a_weight_of_zero_looks_at_nothing():
    inputs = LossInputs(torch.tensor([0.0, 1.0]).double(), torch.tensor([0, 0]), 1, torch.tensor([float("nan"), 1.0]), torch.tensor([float("nan"), -1.0]))
    terms = policy_loss({"name": "importance-sampling"}, inputs, torch.tensor([float("-inf"), -1.0]), None)
    assert float(terms.loss) == -1
    assert terms.slopes.tolist() == [0, -1]
