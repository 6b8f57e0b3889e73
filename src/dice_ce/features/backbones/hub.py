"""Models in the format of Hugging Face transformers: found in a folder or on the hub, and loaded without surprises."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from dice_ce.errors import DiceError, EncoderError

CONFIG_FILES = ("config.json", "preprocessor_config.json", "processor_config.json")
WEIGHT_FILES = ("model.safetensors", "model.safetensors.index.json", "model-*-of-*.safetensors")


@contextmanager
def quiet(*loggers: str) -> Iterator[None]:
    """Keep advice and reports off the terminal: what matters is raised."""
    levels = {logging.getLogger(name): logging.getLogger(name).level for name in loggers}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for logger in levels:
            logger.setLevel(logging.CRITICAL)
        try:
            yield
        finally:
            for logger, level in levels.items():
                logger.setLevel(level)


@contextmanager
def without_progress_bars(transformers: ModuleType, hub: ModuleType) -> Iterator[None]:
    bars = transformers.utils.logging
    had_bars, had_hub_bars = bars.is_progress_bar_enabled(), not hub.utils.are_progress_bars_disabled()
    bars.disable_progress_bar()
    try:
        yield
    finally:
        (bars.enable_progress_bar if had_bars else bars.disable_progress_bar)()
        (hub.utils.enable_progress_bars if had_hub_bars else hub.utils.disable_progress_bars)()


def fetch(hub: ModuleType, spec: str, patterns: tuple[str, ...]) -> Path:
    """Return the model's folder, with these files in it if the hub or its cache on this machine has them.

    Loading from a folder even what the hub holds keeps to files of one revision, never touches pickled weights, and
    does not let transformers ask the hub to convert them.
    """
    if Path(spec).is_dir():
        return Path(spec)
    try:
        return Path(hub.snapshot_download(spec, allow_patterns=list(patterns)))
    except Exception as error:  # a broken connection raises whatever the HTTP library of the day does
        licence = f"accept its licence at https://huggingface.co/{spec} and run 'hf auth login', or "
        is_gated = isinstance(error, hub.errors.GatedRepoError)
        raise EncoderError(
            f"{spec}: the weights are not on this machine and cannot be downloaded ({reason(error)}); "
            f"{licence if is_gated else ''}where there is access run "
            f"'hf download {spec} --local-dir DIR' and give the folder DIR instead"
        ) from error


def reason(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object; a file that does not exist says nothing."""
    try:
        return dict(json.loads(path.read_bytes())) if path.is_file() else {}
    except (OSError, TypeError, ValueError) as error:
        raise EncoderError(f"{path}: not a JSON object ({reason(error)}); download it again") from error


def load_weights(
    model_class: Any,
    source: str,
    folder: Path,
    error_type: type[DiceError],
    is_optional: Callable[[str], bool] = lambda name: False,
    **options: Any,
) -> tuple[Any, set[str]]:
    """Load a network for inference, and refuse to make up weights that its files do not have.

    Returns also the names of optional weights that are not there.
    """
    if not any(folder.glob("model*.safetensors")):
        from_hub = f"run 'hf download {source} --local-dir DIR' and give the folder DIR"
        in_folder = "download the model again, or save it with save_pretrained()"
        raise error_type(
            f"{source}: there is no model.safetensors, and pickled weights are not read because they can run code; "
            f"{in_folder if Path(source).is_dir() else from_hub}"
        )
    try:
        network, report = model_class.from_pretrained(
            folder,
            trust_remote_code=False,
            use_safetensors=True,
            ignore_mismatched_sizes=True,  # into the report, instead of an exception that says nothing
            output_loading_info=True,
            **options,
        )
    except Exception as error:  # safetensors, transformers and the hub share no base but Exception
        raise error_type(f"{source}: damaged model ({reason(error)}); download it again") from error
    missing = set(report["missing_keys"])
    optional = set(filter(is_optional, missing))
    unfit = sorted(missing - optional | {name for name, *_ in report["mismatched_keys"]})
    if unfit:
        raise error_type(
            f"{source}: the weights do not fit config.json ({len(unfit)} missing or of another shape, "
            f"first '{unfit[0]}'); download the model again"
        )
    return network.eval().requires_grad_(False), optional


def read_preprocessor(folder: Path) -> dict[str, Any]:
    """Read what the checkpoint says about its images; newer ones nest it in another file."""
    nested = read_json(folder / "processor_config.json").get("image_processor")
    given = nested if isinstance(nested, dict) else read_json(folder / "preprocessor_config.json")
    return {key: value for key, value in given.items() if value is not None}
