"""A model bundle: one folder or zip with everything that turns an exam into a summary.

    bundle.json      name, taxonomy, encoder reference, thresholds, weaver settings, digests of the other files
    weights.npz      heads of the selector and the diagnoser
    encoder.onnx     optional: the frozen encoder, if it is not one of the registered ones
    diagnoser.onnx   optional: a second network that sees candidate frames only, as in the paper
    baselines.json   optional: settings of the baselines, tuned on the same exams
    reliability.json optional: how well each label is recognised on validation cases
    MODEL_CARD.md    what it was trained on, how well it works, where it fails

Every file is checked against its digest, and loading executes no pickled code.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from pathlib import Path
from typing import Any, Self, get_args, get_type_hints

import numpy as np

from dice_ce.condenser import CondenserConfig
from dice_ce.converger import ConvergerConfig
from dice_ce.diagnoser import HeadDiagnoser, NetworkDiagnoser
from dice_ce.encoder import ENCODERS, Encoder, OnnxEncoder, load_encoder
from dice_ce.errors import BundleError, UsageError
from dice_ce.files import DAMAGED_ARRAY, DAMAGED_ZIP, atomic_folder, is_same, write_atomically
from dice_ce.prior import PriorConfig
from dice_ce.reliability import Table, read_table, table_facts
from dice_ce.selector import Head, score_vectors
from dice_ce.taxonomy import Taxonomy
from dice_ce.tokens import TokenConfig
from dice_ce.weaver import WeaverConfig

FORMAT = "dice-ce/bundle/1"
SHIPPED = Path(__file__).parent / "bundles"
MANIFEST, BASELINES, RELIABILITY = "bundle.json", "baselines.json", "reliability.json"
SETTINGS_HEADING = "## Settings"
"""Of the last section of a card, written by tuning."""
DEFAULT_BUNDLE = "default"


@dataclass(frozen=True)
class Settings:
    """Thresholds and the weaver's granularity, chosen on validation data and kept with the weights."""

    tau_s: float = 0.5
    weaver: WeaverConfig = field(default_factory=WeaverConfig)
    converger: ConvergerConfig = field(default_factory=ConvergerConfig)
    condenser: CondenserConfig = field(default_factory=CondenserConfig)
    prior: PriorConfig = field(default_factory=PriorConfig)
    candidate_share: float = 1.0
    """Most candidates, as a share of the exam's frames."""

    def by_the_paper(self) -> Settings:
        """Return the same without what we added to the paper's rules, on the same candidates."""
        converger = replace(self.converger, least_support=1)
        return replace(self, converger=converger, condenser=CondenserConfig(), prior=PriorConfig())

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Self:
        """Read what `asdict` made of settings."""
        weaver = dict(stored["weaver"])
        weaver["tokens"] = TokenConfig(**weaver["tokens"])
        settings = cls(
            float(stored["tau_s"]),
            WeaverConfig(**weaver),
            ConvergerConfig(**stored["converger"]),
            CondenserConfig(**stored.get("condenser", {})),  # bundles from before these have none
            PriorConfig(**stored.get("prior", {})),
            float(stored.get("candidate_share", 1.0)),
        )
        _check_values(settings)
        return settings


POSITIVE = ("coarse_minutes", "unit", "base", "least_support", "coarse_count", "most_items", "max_span")
"""Settings that must not be zero; none may be negative."""


def _check_values(config: Any) -> None:
    """Refuse values that are not what a setting is declared to be: they would only be noticed after hours of work."""
    for name, hint in get_type_hints(type(config)).items():
        value = getattr(config, name)
        if is_dataclass(hint):
            _check_values(value)
        elif not any(_fits(value, kind) for kind in get_args(hint) or (hint,)) or (name in POSITIVE and value == 0):
            raise ValueError(f"the setting '{name}' is {value!r:.40}")


def _fits(value: Any, kind: Any) -> bool:
    if isinstance(kind, type) and issubclass(kind, float | int):
        is_number = isinstance(value, int) or (kind is float and isinstance(value, float))
        return is_number and not isinstance(value, bool) and 0 <= value <= 10**12
    return value is None if kind is type(None) else bool(value == kind)  # a word of a Literal


@dataclass(frozen=True, eq=False)
class Bundle:
    """A loaded bundle."""

    name: str
    digest: str
    """SHA-256 over bundle.json, which holds the digests of all other files."""
    taxonomy: Taxonomy
    encoder: Encoder
    selector: Head
    diagnoser: HeadDiagnoser | NetworkDiagnoser
    settings: Settings
    card: str
    baselines: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Settings of the baselines and of variants of DiCE, tuned beside it on the same exams and in as many trials."""
    reliability: Table = field(default_factory=dict)
    """How well labels are recognised on validation cases; empty where that was not measured."""

    @property
    def looks_at_features(self) -> bool:
        """Whether the diagnoser needs no pictures, only the features that the Selector has computed."""
        return isinstance(self.diagnoser, HeadDiagnoser)


def bundle_facts(bundle: Bundle) -> dict[str, Any]:
    """Sum up a bundle."""
    return {
        "name": bundle.name,
        "digest": bundle.digest,
        "taxonomy": f"{bundle.taxonomy.name} ({len(bundle.taxonomy)} labels)",
        "encoder": f"{bundle.encoder.name}, {bundle.encoder.dim}-d at {bundle.encoder.input_size}",
        "diagnoser": "head on features" if bundle.looks_at_features else "network on candidate frames",
        "temperature": bundle.diagnoser.temperature,
        "settings": asdict(bundle.settings),
    }


def try_bundle(bundle: Bundle) -> None:
    """Run encoder, Selector and diagnoser once; say which of them does not work."""
    size = bundle.encoder.input_size
    vectors = bundle.encoder.encode(np.full((2, size, size, 3), 128, np.uint8))
    score = score_vectors(vectors, bundle.selector)
    if isinstance(bundle.diagnoser, NetworkDiagnoser):
        side = bundle.diagnoser.network.input_size
        distributions = bundle.diagnoser.judge(np.full((2, side, side, 3), 128, np.uint8))
    else:
        distributions = bundle.diagnoser.judge(vectors)
    for part, values in (("encoder", vectors), ("Selector", score), ("diagnoser", distributions)):
        if not np.isfinite(values).all():
            raise BundleError(f"bundle '{bundle.name}': the {part} gives values that are not finite; train it again")


def shipped_bundles() -> list[str]:
    """Names of the bundles inside the package."""
    return sorted(path.parent.name for path in SHIPPED.glob("*/bundle.json"))


def load_bundle(spec: str | Path | None = None) -> Bundle:
    """Load a bundle by the name of a shipped one, or from a folder or zip; without a name, the default."""
    path = _bundle_path(spec)
    files = _read_files(path)
    try:
        facts = json.loads(files[MANIFEST])
        if facts["format"] != FORMAT:
            raise BundleError(f"{path}: bundle format '{facts['format']}' is not '{FORMAT}'; export the bundle again")
        for name, digest in facts["files"].items():
            if hashlib.sha256(files.get(name, b"")).hexdigest() != digest:
                raise BundleError(f"{path}: {name} is missing or was changed (digest differs); get the bundle again")
        return _build(facts, {name: files[name] for name in facts["files"]}, path, files[MANIFEST])
    except (LookupError, TypeError, AttributeError, RecursionError, *DAMAGED_ARRAY) as error:
        raise BundleError(f"{path}: bundle.json is damaged ({type(error).__name__}: {error}); get it again") from error


def _bundle_path(spec: str | Path | None) -> Path:
    spec = spec or DEFAULT_BUNDLE
    return SHIPPED / spec if str(spec) in shipped_bundles() else Path(spec)


def _read_files(path: Path) -> dict[str, bytes]:
    try:
        if path.is_dir():
            files = {file.name: file.read_bytes() for file in sorted(path.iterdir()) if file.is_file()}
        else:
            with zipfile.ZipFile(path) as archive:
                files = {Path(name).name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}
    except FileNotFoundError as error:
        raise BundleError(
            f"{path}: no such bundle; give a folder or zip with a bundle.json, or one of {', '.join(shipped_bundles())}"
        ) from error
    except (OSError, RuntimeError, *DAMAGED_ZIP) as error:
        raise BundleError(f"{path}: not a readable bundle ({error}); get the bundle again") from error
    if MANIFEST not in files:
        raise BundleError(f"{path}: not a bundle: there is no bundle.json in it")
    return files


def _build(facts: Mapping[str, Any], files: Mapping[str, bytes], path: Path, stated: bytes) -> Bundle:
    """Put a bundle together from the files that its digests cover."""
    with np.load(io.BytesIO(files["weights.npz"]), allow_pickle=False) as stored:
        arrays = {name: stored[name].astype(np.float32) for name in stored.files}
    labels = facts["taxonomy"]["labels"]
    if not all(isinstance(word, str) for word in (facts["name"], facts["taxonomy"]["name"], *labels)):
        raise TypeError("names and labels must be text")
    taxonomy = Taxonomy(facts["taxonomy"]["name"], tuple(labels))
    encoder = _network(facts["encoder"], files, path)
    temperature = float(facts["diagnoser"]["temperature"])
    if not 0 < temperature < 10**6:
        raise ValueError(f"the temperature is {temperature}")
    diagnoser: HeadDiagnoser | NetworkDiagnoser
    if facts["diagnoser"]["kind"] == "head":
        head = Head.from_arrays(arrays, "diagnoser")
        outputs, diagnoser = len(head.bias2), HeadDiagnoser(head, temperature)
    else:
        network = _network(facts["diagnoser"], files, path)
        outputs, diagnoser = network.dim, NetworkDiagnoser(network, temperature)
    baselines = json.loads(files.get(BASELINES, b"{}"))
    if not all(isinstance(settings, dict) for settings in dict(baselines).values()):
        raise TypeError(f"{BASELINES} does not hold settings by method")
    if outputs != len(taxonomy):
        raise BundleError(f"{path}: the diagnoser has {outputs} outputs for {len(taxonomy)} labels; export it again")
    return Bundle(
        name=facts["name"],
        digest=hashlib.sha256(stated).hexdigest(),
        taxonomy=taxonomy,
        encoder=encoder,
        selector=Head.from_arrays(arrays, "selector"),
        diagnoser=diagnoser,
        settings=Settings.of(facts["settings"]),
        card=files.get("MODEL_CARD.md", b"").decode(),
        baselines=baselines,
        reliability=read_table(json.loads(files.get(RELIABILITY, b"{}"))),
    )


def _network(reference: Mapping[str, str], files: Mapping[str, bytes], path: Path) -> Encoder:
    """Load a network that is in the bundle or registered by name, and refuse another one under its name."""
    if "file" in reference:
        return OnnxEncoder.from_bytes(files[reference["file"]], f"{path}/{reference['file']}")
    encoder = load_encoder(reference["name"])
    if encoder.digest != reference["digest"]:
        raise BundleError(
            f"{path}: was made with another {reference['name']} (digest {reference['digest'][:12]}) than the one "
            f"installed ({encoder.digest[:12]}); install the versions in constraints.txt or train the bundle again"
        )
    return encoder


def save_bundle(
    folder: Path,
    *,
    name: str,
    taxonomy: Taxonomy,
    encoder: Encoder,
    selector: Head,
    diagnoser: Head | OnnxEncoder,
    temperature: float,
    settings: Settings,
    card: str,
    reliability: Table | None = None,
    attachments: Mapping[str, bytes] | None = None,
) -> None:
    """Write a bundle, whole or not at all. Encoders that are not registered go into it as ONNX files.

    Attachments are what the card refers to, such as the training log and its curves.
    """
    files = {"MODEL_CARD.md": card.encode(), **(attachments or {})}
    if reliability:
        files[RELIABILITY] = _as_json(table_facts(reliability))
    heads = selector.arrays("selector")
    diagnoser_facts: dict[str, Any] = {"temperature": temperature}
    if isinstance(diagnoser, Head):
        heads |= diagnoser.arrays("diagnoser")
        diagnoser_facts["kind"] = "head"
    else:
        files["diagnoser.onnx"] = diagnoser.content
        diagnoser_facts |= {"kind": "network", "file": "diagnoser.onnx"}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **{key: value.astype(np.float16) for key, value in heads.items()})  # type: ignore[arg-type]
    files["weights.npz"] = buffer.getvalue()
    reference = {"name": encoder.name, "digest": encoder.digest}
    if not _is_registered(encoder):
        check_encoder(encoder)
        assert isinstance(encoder, OnnxEncoder)
        files["encoder.onnx"] = encoder.content
        reference = {"file": "encoder.onnx", "digest": encoder.digest}
    facts = {
        "format": FORMAT,
        "name": name,
        "taxonomy": {"name": taxonomy.name, "labels": list(taxonomy.labels)},
        "encoder": reference,
        "diagnoser": diagnoser_facts,
        "settings": asdict(settings),
        "files": {file: hashlib.sha256(content).hexdigest() for file, content in sorted(files.items())},
    }
    _write_folder(folder, {**files, MANIFEST: _as_json(facts)})


def check_encoder(encoder: Encoder) -> None:
    """Refuse an encoder that cannot go into a bundle."""
    if not isinstance(encoder, OnnxEncoder) and encoder.name not in ENCODERS:
        raise BundleError(f"{encoder.name}: export it to ONNX first: dice-ce encoder export NAME --out FILE.onnx")


def _write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Put the whole bundle in the place of an earlier one, of which nothing stays but what others put there."""
    try:
        owned = {MANIFEST, *json.loads((folder / MANIFEST).read_bytes())["files"]}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        owned = {MANIFEST}
    with atomic_folder(folder, owned) as draft:
        for name, content in files.items():
            write_atomically(draft / name, content)


def _is_registered(encoder: Encoder) -> bool:
    """Whether the registry gives this very encoder; a fine-tuned one may still carry the name it started with."""
    if encoder.name not in ENCODERS:
        return False
    return not isinstance(encoder, OnnxEncoder) or load_encoder(encoder.name).digest == encoder.digest


def _as_json(facts: Mapping[str, Any]) -> bytes:
    return (json.dumps(facts, indent=1) + "\n").encode()


def export_bundle(
    spec: str | Path | None,
    target: Path,
    *,
    settings: Settings | None = None,
    baselines: Mapping[str, Mapping[str, Any]] | None = None,
    note: str = "",
    reliability: Table | None = None,
    card: str | None = None,
) -> Bundle:
    """Copy a bundle to a folder, or to a zip if the name says so; with tuned settings, and a note on them in the card.

    `reliability` and `card` replace what the bundle says about itself; its weights stay as they are.

    The copy is loaded back before it counts. The same bundle always gives the same bytes.
    """
    check_export(spec, target)
    bundle = load_bundle(spec)
    files = _read_files(_bundle_path(spec))
    facts = json.loads(files.pop(MANIFEST))
    files = {name: files[name] for name in facts["files"]}
    if settings is not None:
        facts["settings"] = asdict(settings)
        before = (card or bundle.card).partition(SETTINGS_HEADING)[0].rstrip()
        card = f"{before}\n\n{SETTINGS_HEADING}\n\n{note.strip()}\n"
        files[BASELINES] = _as_json(baselines or {})
    if reliability is not None:
        files[RELIABILITY] = _as_json(table_facts(reliability))
    if card is not None:
        files["MODEL_CARD.md"] = card.encode()
    facts["files"] = {name: hashlib.sha256(content).hexdigest() for name, content in sorted(files.items())}
    files[MANIFEST] = _as_json(facts)
    if target.suffix == ".zip":
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in files.items():
                archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
        write_atomically(target, buffer.getvalue())
    else:
        _write_folder(target, files)
    return load_bundle(target)


def check_export(spec: str | Path | None, target: Path) -> None:
    """Refuse to write a bundle over the one it is made from."""
    if is_same(_bundle_path(spec), target):
        raise UsageError(f"--out {target}: would replace the bundle it is made from; give another name")
