"""A diagnoser's own network: a vision transformer, fine-tuned from self-supervised weights.

It shares nothing with the encoder, so it errs elsewhere. Self-supervised backbones lose what small lesions need in
their last blocks, so the caller gives fewer; the first ones stay as they are. What it learns from is drawn and paced as
for the encoder (`finetune`), in bfloat16 where the processor knows it: that is twice as fast there, and elsewhere four
times as slow.
"""

from __future__ import annotations

import io
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dice_ce.errors import InputError, require
from dice_ce.features.backbones.hub import quiet
from dice_ce.files import write_atomically
from dice_ce.lab.training.examples import Examples
from dice_ce.lab.training.finetune import Recipe, course, fingerprint, pace
from dice_ce.lab.training.heads import SMALLEST_SHARE, single_threaded
from dice_ce.types import Floats, Ints, Progress

torch, cv2 = (require(package, extra="train", purpose="training") for package in ("torch", "cv2"))
nn, functional = torch.nn, torch.nn.functional

Weights = Mapping[str, npt.NDArray[np.float32]]
PATCH = 14
MEAN, STD = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
"""Of ImageNet's colours, in grey levels."""
EPSILON = 1e-6
PRIOR_REMOVED = 0.5
"""Share of the labels' frequencies that is taken out of the logits, as for the heads."""
RECIPE = replace(
    Recipe(),
    steps=1440,
    batch=32,
    sizes=((0.0, 112),),
    rate=1e-4,
    rate_of_first=0.75**3,
    head_rate=1e-3,
    average=0.99,
    false_candidates=0.5,
)
TRAINED = 4
"""Blocks that are trained: the last ones."""
LOOKED_AT = 32
"""Images at once when false candidates are looked for."""
BFLOAT16 = ("avx512_bf16", "amx_bf16", "bf16")
"""What torch calls it that a processor knows bfloat16."""


class Block(nn.Module):  # type: ignore[misc, name-defined]  # torch may be missing
    """Attention and two layers for every token, each scaled and added to what came in (LayerScale)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = (nn.LayerNorm(width, eps=EPSILON) for _ in range(2))
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.scale1, self.scale2 = (nn.Parameter(torch.ones(width)) for _ in range(2))

    def forward(self, x: Any) -> Any:
        """Transform tokens [n, tokens, width]."""
        n, tokens, width = x.shape
        parts = self.qkv(self.norm1(x)).view(n, tokens, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value).transpose(1, 2).reshape(n, tokens, width)
        x = x + self.scale1 * self.proj(seen)
        return x + self.scale2 * self.fc2(functional.gelu(self.fc1(self.norm2(x))))


class VisionTransformer(nn.Module):  # type: ignore[misc, name-defined]
    """Patches, a class token, blocks; the feature is the class token beside the maximum over patches."""

    def __init__(self, size: int, labels: int, *, depth: int, width: int, heads: int) -> None:
        super().__init__()
        self.size = size
        self.patch = nn.Conv2d(3, width, PATCH, PATCH)
        self.position = nn.Parameter(torch.zeros(1, (size // PATCH) ** 2, width))
        self.first = nn.Parameter(torch.zeros(1, 1, width))
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width, eps=EPSILON)
        self.classes, self.selector = nn.Linear(2 * width, labels), nn.Linear(2 * width, 1)
        for head in (self.classes, self.selector):
            nn.init.trunc_normal_(head.weight, std=0.02)
            nn.init.zeros_(head.bias)
        self.register_buffer("mean", torch.tensor(MEAN).view(1, 3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(STD).view(1, 3, 1, 1), persistent=False)

    def tokens(self, pixels: Any) -> Any:
        """Cut frames [n, size, size, 3] into patches with their places, behind the class token."""
        x = self.patch((pixels.permute(0, 3, 1, 2).float() - self.mean) / self.std)
        x = x.flatten(2).transpose(1, 2) + self.position
        return torch.cat([self.first.expand(x.shape[0], -1, -1), x], 1)

    def features(self, pixels: Any, frozen: int = 0) -> Any:
        """Return features; the first blocks keep no gradient."""
        with torch.set_grad_enabled(torch.is_grad_enabled() and frozen == 0):
            x = self.tokens(pixels)
            for block in self.blocks[:frozen]:
                x = block(x)
        for block in self.blocks[frozen:]:
            x = block(x)
        x = self.norm(x.float())
        return torch.cat([x[:, 0], x[:, 1:].amax(1)], 1)

    def forward(self, pixels: Any) -> Any:
        """Return the logits of the labels."""
        return self.classes(self.features(pixels))

    def start_from(self, weights: Weights) -> None:
        """Take pretrained weights by the names of this module; positions are stretched to this size."""
        own = [name for name in self.state_dict() if not name.startswith(("norm.", "classes.", "selector."))]
        if missing := set(own) - weights.keys():
            raise InputError(f"the pretrained weights have no '{min(missing)}'; give those of a DINOv2 transformer")
        given = {name: torch.from_numpy(np.array(weights[name], np.float32)) for name in own}
        side, width = round(given["position"].shape[1] ** 0.5), given["position"].shape[2]
        grid = given["position"].view(1, side, side, width).permute(0, 3, 1, 2)
        stretched = functional.interpolate(grid, (self.size // PATCH,) * 2, mode="bicubic", align_corners=False)
        given["position"] = stretched.flatten(2).transpose(1, 2)
        self.load_state_dict(given, strict=False)


def finetune_transformer(
    network: VisionTransformer,
    examples: Examples,
    recipe: Recipe = RECIPE,
    *,
    trained: int = TRAINED,
    checkpoint: Path | None = None,
    every: float = 300.0,
    progress: Progress | None = None,
) -> VisionTransformer:
    """Train the last blocks and the heads; the network that comes back has the averaged weights.

    With `checkpoint`, the state is written every so many seconds, and an earlier one is taken up.
    """
    state = _State(network, recipe, trained)
    mark = f"{fingerprint(recipe, examples)} {trained} {len(network.blocks)}"
    if checkpoint is not None and checkpoint.exists():
        state.load(checkpoint, mark)
    saved = time.monotonic()
    with single_threaded():
        for step, pixels, targets in course(examples, recipe, state.step, lambda: state.suspicion(examples)):
            state.train(pixels, targets, examples.normal)
            if progress is not None:
                progress(step + 1, recipe.steps)
            if checkpoint is not None and (time.monotonic() - saved > every or step + 1 == recipe.steps):
                state.save(checkpoint, mark)
                saved = time.monotonic()
    return state.finished()


class _State:
    """What a run knows at a step."""

    def __init__(self, network: VisionTransformer, recipe: Recipe, trained: int) -> None:
        self.network, self.recipe, self.frozen, self.step = network, recipe, len(network.blocks) - trained, 0
        self.drawn = np.zeros(network.classes.out_features)
        parts: list[tuple[Any, float, float]] = []
        for place, block in enumerate(network.blocks[self.frozen :]):
            rate = recipe.rate * recipe.rate_of_first ** (1 - place / max(1, trained - 1))
            parts.append((block, rate, recipe.decay))
        parts.append((network.norm, recipe.rate, 0.0))
        parts += [(head, recipe.head_rate, recipe.decay) for head in (network.classes, network.selector)]
        self.rates = [rate for _, rate, _ in parts]
        groups = [{"params": list(part.parameters()), "weight_decay": decay} for part, _, decay in parts]
        self.values = [value for part, _, _ in parts for value in part.parameters()]
        self.optimiser = torch.optim.AdamW(groups, lr=recipe.rate)
        self.mean = [value.detach().clone() for value in self.values]
        known = torch.cpu.get_capabilities()
        self.short = any(known.get(name) for name in BFLOAT16)
        self.suspected: Floats | None = None

    def train(self, pixels: npt.NDArray[np.uint8], targets: Floats, normal: int) -> None:
        recipe, network = self.recipe, self.network
        with torch.autocast("cpu", torch.bfloat16, enabled=self.short):
            vectors = network.features(torch.from_numpy(pixels), self.frozen)
        generator = torch.Generator().manual_seed(recipe.seed * 1_000_003 + self.step)
        kept = torch.rand(vectors.shape, generator=generator) >= recipe.dropout
        vectors = vectors.float() * kept / (1 - recipe.dropout)
        wanted = torch.from_numpy(targets)
        smooth = (1 - wanted[:, normal]) * (1 - recipe.smoothing) + recipe.smoothing / 2
        loss = functional.binary_cross_entropy_with_logits(network.selector(vectors)[:, 0], smooth)
        loss = loss + functional.cross_entropy(network.classes(vectors), wanted, label_smoothing=recipe.smoothing)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        for group, rate in zip(self.optimiser.param_groups, self.rates, strict=True):
            group["lr"] = rate * pace(self.step, recipe)
        torch.nn.utils.clip_grad_norm_(self.values, 5.0)
        self.optimiser.step()
        share = min(recipe.average, (1 + self.step) / (10 + self.step))
        with torch.no_grad():
            for mean, value in zip(self.mean, self.values, strict=True):
                mean.lerp_(value, 1 - share)
        self.drawn += targets.sum(axis=0)
        self.step += 1

    def suspicion(self, examples: Examples) -> Floats:
        """Tell how much every normal image looks like a lesion, to the averaged network as it is at half of the run."""
        if self.suspected is None:
            rows = np.flatnonzero((examples.targets[:, examples.normal] > 0.5) & (examples.weight > 0))
            suspected = np.zeros(len(examples.weight), np.float32)
            with self.averaged(), torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=self.short):
                for some in np.split(rows, range(LOOKED_AT, len(rows), LOOKED_AT)):
                    vectors = self.network.features(torch.from_numpy(_fitting(examples, some, self.network.size)))
                    suspected[some] = self.network.selector(vectors)[:, 0].float().numpy()
            self.suspected = suspected
        return self.suspected

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Put the averaged weights in for a while."""
        present = [value.detach().clone() for value in self.values]
        with torch.no_grad():
            for value, mean in zip(self.values, self.mean, strict=True):
                value.copy_(mean)
            yield
            for value, before in zip(self.values, present, strict=True):
                value.copy_(before)

    def finished(self) -> VisionTransformer:
        """Put the averages in, and take part of the labels' frequencies out: whoever reads wants rare ones found."""
        share = self.drawn / max(1.0, self.drawn.sum())
        rarity = np.where(share > 0, np.log(share + SMALLEST_SHARE), 0.0)
        with torch.no_grad():
            for mean, value in zip(self.mean, self.values, strict=True):
                value.copy_(mean)
            self.network.classes.bias -= torch.from_numpy(PRIOR_REMOVED * rarity).float()
        self.network.eval()
        return self.network

    def save(self, path: Path, mark: str) -> None:
        content = io.BytesIO()
        values = [value.detach() for value in self.values]
        facts = {"mark": mark, "step": self.step, "values": values, "mean": self.mean, "drawn": self.drawn.tolist()}
        facts["suspected"] = None if self.suspected is None else torch.from_numpy(self.suspected)
        torch.save({**facts, "optimiser": self.optimiser.state_dict()}, content)
        write_atomically(path, content.getvalue())

    def load(self, path: Path, mark: str) -> None:
        saved = torch.load(path, weights_only=True)
        if saved["mark"] != mark:
            raise InputError(f"{path}: belongs to a run with other settings or images; remove it to start afresh")
        with torch.no_grad():
            for value, before in zip(self.values, saved["values"], strict=True):
                value.copy_(before)
        self.mean, self.step, self.drawn = saved["mean"], saved["step"], np.array(saved["drawn"])
        self.suspected = None if saved["suspected"] is None else saved["suspected"].numpy()
        self.optimiser.load_state_dict(saved["optimiser"])


def _fitting(examples: Examples, rows: Ints, size: int) -> npt.NDArray[np.uint8]:
    """Show images to the network as it will see them."""
    images = examples.images.masked(rows)
    return np.stack([cv2.resize(image, (size, size), interpolation=cv2.INTER_AREA) for image in images])


def export_transformer(network: VisionTransformer, path: Path, *, name: str) -> None:
    """Write the network as ONNX that gives logits, for one frame at a time.

    Weights are stored and multiplied as integers of 7 bits, which no processor overflows with: a quarter of the size,
    and twice as fast. What comes in is scaled by its own range, so frames are asked about one by one: another frame
    beside it must not change what is said about a frame.
    """
    require("onnxscript", extra="hf", purpose="exporting a transformer")
    onnx, passes, quantization = (
        require(package, extra="train", purpose="exporting a transformer")
        for package in ("onnx", "onnx_ir.passes.common", "onnxruntime.quantization")
    )
    frames = torch.zeros((1, network.size, network.size, 3), dtype=torch.uint8)
    with quiet("torch.onnx", "onnxscript", "onnx_ir", "root"), torch.no_grad():
        program = torch.onnx.export(
            network.eval(), (frames,), dynamo=True, input_names=["frames"], output_names=["logits"], verbose=False
        )
        # The exporter notes at every node which line of which file on this computer it comes from.
        passes.ClearMetadataAndDocStringPass()(program.model)
        plain = program.model_proto
        del plain.graph.value_info[:]
        with tempfile.TemporaryDirectory() as folder:
            before, after = Path(folder) / "plain.onnx", Path(folder) / "small.onnx"
            before.write_bytes(plain.SerializeToString())
            quantization.quantize_dynamic(
                before, after, op_types_to_quantize=["MatMul", "Gemm"], per_channel=True, reduce_range=True
            )
            small = onnx.load(after)
    onnx.helper.set_model_props(small, {"dice_ce.name": name, "dice_ce.resize": "area"})
    onnx.checker.check_model(small)
    write_atomically(path, small.SerializeToString(deterministic=True))
