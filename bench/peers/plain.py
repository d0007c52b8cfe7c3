"""A small language model written by hand in PyTorch, as a careful engineer would for speed, for bench/engine.bench.ts.

RMSNorm, rotary positions, grouped-query SDPA, SwiGLU, tied head, cross entropy, fused AdamW; one product for q, k and v and one for
gate and up. The language part of our folder gives the weights. `norms: false` leaves the norms of queries and keys out, which
is less work than ours.
"""

import json
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from lines import serve
from safetensors.torch import load_file

PREFIX = "model.language_model."
state = {}


class Layer(torch.nn.Module):
    def __init__(self, config, weights, norms):
        super().__init__()
        parameter = torch.nn.Parameter
        self.heads, self.kv_heads, self.dim = config["num_attention_heads"], config["num_key_value_heads"], config["head_dim"]
        self.qkv = parameter(torch.cat([weights[f"self_attn.{name}_proj.weight"] for name in "qkv"]))
        self.out = parameter(weights["self_attn.o_proj.weight"].clone())
        self.gate_up = parameter(torch.cat([weights["mlp.gate_proj.weight"], weights["mlp.up_proj.weight"]]))
        self.down = parameter(weights["mlp.down_proj.weight"].clone())
        self.before_attention = parameter(weights["input_layernorm.weight"].clone())
        self.before_mlp = parameter(weights["post_attention_layernorm.weight"].clone())
        self.q_norm = parameter(weights["self_attn.q_norm.weight"].clone()) if norms else None
        self.k_norm = parameter(weights["self_attn.k_norm.weight"].clone()) if norms else None

    def forward(self, x, cos, sin, eps):
        batch, length, width = x.shape
        normed = F.rms_norm(x, (width,), self.before_attention, eps)
        q, k, v = F.linear(normed, self.qkv).view(batch, length, -1, self.dim).split([self.heads, self.kv_heads, self.kv_heads], 2)
        if self.q_norm is not None:
            q, k = F.rms_norm(q, (self.dim,), self.q_norm, eps), F.rms_norm(k, (self.dim,), self.k_norm, eps)
        q, k, v = rotate(q.transpose(1, 2), cos, sin), rotate(k.transpose(1, 2), cos, sin), v.transpose(1, 2)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + F.linear(mixed.transpose(1, 2).reshape(batch, length, -1), self.out)
        gate, up = F.linear(F.rms_norm(x, (width,), self.before_mlp, eps), self.gate_up).chunk(2, -1)
        return x + F.linear(F.silu(gate) * up, self.down)


def rotate(x, cos, sin):
    first, second = x.chunk(2, -1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)


class Model(torch.nn.Module):
    def __init__(self, folder, norms):
        super().__init__()
        config = json.loads((Path(folder) / "config.json").read_text())["text_config"]
        weights = {k.removeprefix(PREFIX): v for k, v in load_file(Path(folder) / "model.safetensors").items() if k.startswith(PREFIX)}
        self.eps = config["rms_norm_eps"]
        self.embedding = torch.nn.Parameter(weights["embed_tokens.weight"].clone())
        self.norm = torch.nn.Parameter(weights["norm.weight"].clone())
        parts = [f"layers.{i}." for i in range(config["num_hidden_layers"])]
        self.layers = torch.nn.ModuleList(
            Layer(config, {k.removeprefix(p): v for k, v in weights.items() if k.startswith(p)}, norms) for p in parts
        )
        half = config["head_dim"] // 2
        self.frequencies = config["rope_parameters"]["rope_theta"] ** (-torch.arange(half) / half)

    def forward(self, ids):
        angles = torch.arange(ids.shape[1])[:, None] * self.frequencies
        cos, sin = angles.cos(), angles.sin()
        x = F.embedding(ids, self.embedding)
        for layer in self.layers:
            x = layer(x, cos, sin, self.eps)
        return F.linear(F.rms_norm(x, (x.shape[-1],), self.norm, self.eps), self.embedding)


def load(folder, norms):
    model = Model(folder, norms)
    state["model"] = model
    state["optimizer"] = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.0, fused=True)
    return {"parameters": sum(p.numel() for p in model.parameters())}


def batch(ids, targets):
    state["ids"], state["targets"] = torch.tensor(ids), torch.tensor(targets)
    return {"tokens": int((state["targets"] >= 0).sum())}


def loss_of(logits):
    return F.cross_entropy(logits.flatten(0, 1), state["targets"].flatten(), ignore_index=-1)


def check(masked):
    with torch.no_grad():
        logits = state["model"](state["ids"])
    logits[..., masked] = -torch.inf
    return {"loss": loss_of(logits).item()}


def train():
    model, optimizer = state["model"], state["optimizer"]
    start = time.perf_counter()
    loss = loss_of(model(state["ids"]))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return {"ms": (time.perf_counter() - start) * 1000, "loss": loss.item()}


def matmul(m, n, k, ms=60):
    """Best GFLOP/s of m·n·k over some milliseconds."""
    a, b, c = torch.randn(m, k), torch.randn(k, n), torch.empty(m, n)
    best, end = float("inf"), time.perf_counter() + ms / 1000
    while time.perf_counter() < end:
        start = time.perf_counter()
        torch.mm(a, b, out=c)
        best = min(best, time.perf_counter() - start)
    return {"gflops": 2 * m * n * k / best / 1e9}


serve({"load": load, "batch": batch, "check": check, "train": train, "matmul": matmul})
