"""A model bundle: one folder or zip with everything that turns an exam into a summary.

    bundle.json      name, taxonomy, encoder reference, profiles of settings, digests of the other files
    weights.npz      heads of the selector and the diagnoser
    encoder.onnx     optional: the frozen encoder, if it is not one of the registered ones
    diagnoser.onnx   optional: a second network that sees candidate frames only, as in the paper
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
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from dice_ce.errors import BundleError, UsageError
from dice_ce.features.encoder import ENCODERS, Encoder, OnnxEncoder, load_encoder, on_device
from dice_ce.files import DAMAGED_ARRAY, DAMAGED_ZIP, atomic_folder, is_same, write_atomically
from dice_ce.method.beyond.familiar import Familiarity
from dice_ce.method.diagnoser import HeadDiagnoser, HeadedEncoder, NetworkDiagnoser
from dice_ce.method.reliability import Reliability
from dice_ce.method.selector import Head, score_vectors
from dice_ce.method.settings import Settings
from dice_ce.settings import Value, declarations, values_of, with_values
from dice_ce.taxonomy import Taxonomy

FORMAT = "dice-ce/bundle/2"
SHIPPED = Path(__file__).parents[1] / "bundles"
MANIFEST, RELIABILITY = "bundle.json", "reliability.json"
DIAGNOSER = "diagnoser.onnx"
KINDS = {
    "head": "head on features",
    "network": "network on candidate frames",
    "both": "networks on candidate frames, one a head on the encoder",
}
"""What a diagnoser may be."""
FAST = "@fast"
"""Behind the name of a bundle: see all frames smaller."""
SIDES = range(16, 4097)
"""Of such frames."""
DEFAULT_BUNDLE = "default"
DEFAULT_PROFILE = "default"


@dataclass(frozen=True)
class Profile:
    """Settings that were chosen on validation data and are kept with the weights."""

    settings: Settings
    about: str
    """What it is for, and what was measured with it."""


@dataclass(frozen=True, eq=False)
class Fast:
    """A Selector for frames that are smaller than the encoder's own; the diagnoser looks at few in full size anyway."""

    side: int
    selector: Head


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
    profiles: Mapping[str, Profile]
    """By name; `default` is always there, and what is published is run with it."""
    card: str
    tuned: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    """Settings of the benchmark's other methods, tuned beside DiCE on the same exams and in as many trials."""
    familiarity: Familiarity | None = None
    """What cases that were learnt from look like, if that is known."""
    fast: Fast | None = None
    """How to see all frames smaller, if that was trained for."""
    reliability: Mapping[str, Reliability] = field(default_factory=dict)
    """How well labels are recognised on validation cases; empty where that was not measured."""

    def settings(self, profile: str = DEFAULT_PROFILE) -> Settings:
        """Return the settings of a profile."""
        if profile not in self.profiles:
            raise UsageError(f"bundle '{self.name}' has no profile '{profile}'; it has {', '.join(self.profiles)}")
        return self.profiles[profile].settings


def made_fast(bundle: Bundle) -> Bundle:
    """Let the Selector see all frames smaller."""
    if bundle.fast is None or isinstance(bundle.diagnoser, HeadDiagnoser):
        raise UsageError(f"bundle '{bundle.name}' cannot be made fast; train one with --fast-side and a network")
    assert isinstance(bundle.encoder, OnnxEncoder), "see _build"
    name, digest = f"{bundle.name}{FAST}", hashlib.sha256(f"{bundle.digest}{FAST}".encode()).hexdigest()
    encoder = bundle.encoder.at(bundle.fast.side)
    return replace(bundle, name=name, digest=digest, encoder=encoder, selector=bundle.fast.selector)


def bundle_on_device(bundle: Bundle, wanted: str) -> Bundle:
    """Let all networks of a bundle compute on `cpu`, `cuda`, `tensorrt` or, with `auto`, on what works here."""
    moved, diagnoser = replace(bundle, encoder=on_device(bundle.encoder, wanted)), bundle.diagnoser
    if not isinstance(diagnoser, NetworkDiagnoser):
        return moved
    networks = (
        replace(one, encoder=on_device(one.encoder, wanted))
        if isinstance(one, HeadedEncoder)
        else on_device(one, wanted)
        for one in diagnoser.networks
    )
    return replace(moved, diagnoser=replace(diagnoser, networks=tuple(networks)))


def bundle_facts(bundle: Bundle) -> dict[str, Any]:
    """Sum up a bundle."""
    return {
        "name": bundle.name,
        "digest": bundle.digest,
        "taxonomy": f"{bundle.taxonomy.name} ({len(bundle.taxonomy)} labels)",
        "encoder": f"{bundle.encoder.name}, {bundle.encoder.dim}-d at {bundle.encoder.input_size}",
        "diagnoser": KINDS[diagnoser_kind(bundle.diagnoser)],
        "temperature": bundle.diagnoser.temperature,
        "profiles": _profile_facts(bundle.profiles),
    }


def make_diagnoser(
    head: Head | None, network: Encoder | None, encoder: Encoder, temperature: float
) -> HeadDiagnoser | NetworkDiagnoser:
    """Put together what there is: a head, a network, or both.

    A head alone is asked about the features that there are. Beside a network it sees frames in full size, so it looks
    again where those features are of smaller ones.
    """
    if network is None:
        assert head is not None, "a diagnoser is a head, a network, or both"
        return HeadDiagnoser(head, temperature)
    headed = () if head is None else (HeadedEncoder(in_full_size(encoder), head),)
    return NetworkDiagnoser((*headed, network), temperature)


def in_full_size(encoder: Encoder) -> Encoder:
    """Return an encoder for frames of the size that it was made for."""
    return encoder.at(encoder.own_size) if isinstance(encoder, OnnxEncoder) else encoder


def diagnoser_kind(diagnoser: HeadDiagnoser | NetworkDiagnoser) -> str:
    """Name what a diagnoser is made of."""
    if isinstance(diagnoser, HeadDiagnoser):
        return "head"
    return "network" if diagnoser.headed is None else "both"


def diagnoser_head(diagnoser: HeadDiagnoser | NetworkDiagnoser) -> Head | None:
    """Return the head of a diagnoser, if it has one."""
    if isinstance(diagnoser, HeadDiagnoser):
        return diagnoser.head
    return diagnoser.headed.head if diagnoser.headed else None


def try_bundle(bundle: Bundle) -> None:
    """Run encoder, Selector and diagnoser once; say which of them does not work."""
    size = bundle.encoder.input_size
    vectors = bundle.encoder.encode(np.full((2, size, size, 3), 128, np.uint8))
    score = score_vectors(vectors, bundle.selector)
    if isinstance(bundle.diagnoser, NetworkDiagnoser):
        sizes = [(network, network.input_size) for network in bundle.diagnoser.networks]
        said = [network.encode(np.full((1, size, size, 3), 128, np.uint8)) for network, size in sizes]
        distributions = bundle.diagnoser.diagnose(np.sum(said, axis=0))
    else:
        distributions = bundle.diagnoser.diagnose(vectors)
    for part, values in (("encoder", vectors), ("Selector", score), ("diagnoser", distributions)):
        if not np.isfinite(values).all():
            raise BundleError(f"bundle '{bundle.name}': the {part} gives values that are not finite; train it again")


def shipped_bundles() -> list[str]:
    """Names of the bundles inside the package."""
    return sorted(path.parent.name for path in SHIPPED.glob("*/bundle.json"))


def load_bundle(spec: str | Path | None = None) -> Bundle:
    """Load a bundle by the name of a shipped one, or from a folder or zip; without a name, the default.

    With `@fast` behind the name, the Selector sees all frames smaller.
    """
    if spec is not None and str(spec).endswith(FAST):
        return made_fast(load_bundle(str(spec).removesuffix(FAST)))
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
    except (LookupError, TypeError, AttributeError, RecursionError, msgspec.MsgspecError, *DAMAGED_ARRAY) as error:
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
    fast = None
    if "fast" in facts:
        side = facts["fast"]["side"]
        if not isinstance(side, int) or side not in SIDES or not isinstance(encoder, OnnxEncoder):
            raise ValueError(f"the side of fast frames is {side}")
        fast = Fast(side, Head.from_arrays(arrays, "fast"))
    temperature = float(facts["diagnoser"]["temperature"])
    if not 0 < temperature < 10**6:
        raise ValueError(f"the temperature is {temperature}")
    kind = facts["diagnoser"]["kind"]
    if kind not in KINDS:
        raise ValueError(f"the kind of diagnoser is '{kind}'")
    head = None if kind == "network" else Head.from_arrays(arrays, "diagnoser")
    network = None if kind == "head" else _network(facts["diagnoser"], files, path)
    for outputs in (len(head.bias2) if head else None, network.dim if network else None):
        if outputs not in (None, len(taxonomy)):
            raise BundleError(
                f"{path}: the diagnoser has {outputs} outputs for {len(taxonomy)} labels; export it again"
            )
    return Bundle(
        name=facts["name"],
        digest=hashlib.sha256(stated).hexdigest(),
        taxonomy=taxonomy,
        encoder=encoder,
        selector=Head.from_arrays(arrays, "selector"),
        diagnoser=make_diagnoser(head, network, encoder, temperature),
        profiles=_read_profiles(facts["profiles"]),
        card=files.get("MODEL_CARD.md", b"").decode(),
        tuned=msgspec.convert(facts["tuned"], dict[str, dict[str, Value]]),
        familiarity=Familiarity.from_arrays(arrays),
        fast=fast,
        reliability=msgspec.json.decode(files.get(RELIABILITY, b"{}"), type=dict[str, Reliability]),
    )


def _read_profiles(stored: Mapping[str, Any]) -> dict[str, Profile]:
    """Read profiles; all settings must be there, so that another default cannot change what a bundle does.

    A rule beyond the paper that a bundle does not know yet is off in it.
    """
    known = declarations(Settings)
    off = {name: one.off for name, one in known.items() if one.rule}
    profiles = {}
    for name, profile in stored.items():
        values = {**off, **profile["settings"]}
        if missing := known.keys() - values.keys():
            raise ValueError(f"profile '{name}' has no value for '{min(missing)}'")
        profiles[name] = Profile(with_values(Settings(), values), profile["about"])
    if DEFAULT_PROFILE not in profiles:
        raise ValueError(f"there is no profile '{DEFAULT_PROFILE}'")
    return profiles


def _profile_facts(profiles: Mapping[str, Profile]) -> dict[str, Any]:
    return {name: {"about": one.about, "settings": values_of(one.settings)} for name, one in profiles.items()}


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
    diagnoser: HeadDiagnoser | NetworkDiagnoser,
    profiles: Mapping[str, Profile],
    card: str,
    reliability: Mapping[str, Reliability] | None = None,
    familiarity: Familiarity | None = None,
    fast: Fast | None = None,
    attachments: Mapping[str, bytes] | None = None,
) -> None:
    """Write a bundle, whole or not at all. Encoders that are not registered go into it as ONNX files.

    Attachments are what the card refers to, such as the training log and its curves.
    """
    files = {"MODEL_CARD.md": card.encode(), **(attachments or {})}
    if reliability:
        files[RELIABILITY] = _reliability_json(reliability)
    heads = selector.arrays("selector")
    diagnoser_facts: dict[str, Any] = {"temperature": diagnoser.temperature, "kind": diagnoser_kind(diagnoser)}
    if (head := diagnoser_head(diagnoser)) is not None:
        heads |= head.arrays("diagnoser")
    if isinstance(diagnoser, NetworkDiagnoser):
        network = diagnoser.networks[-1]
        assert isinstance(network, OnnxEncoder), "only ONNX goes into a bundle"
        files[DIAGNOSER] = network.content
        diagnoser_facts["file"] = DIAGNOSER
    if familiarity is not None:
        heads |= familiarity.arrays()
    if fast is not None:
        heads |= fast.selector.arrays("fast")
    files["weights.npz"] = _arrays_file({key: value.astype(np.float16) for key, value in heads.items()})
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
        **({"fast": {"side": fast.side}} if fast else {}),
        "profiles": _profile_facts(profiles),
        "tuned": {},
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


def _reliability_json(reliability: Mapping[str, Reliability]) -> bytes:
    return msgspec.json.format(msgspec.json.encode(reliability), indent=1) + b"\n"


def _arrays_file(arrays: Mapping[str, npt.NDArray[np.floating]]) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def _as_json(facts: Mapping[str, Any]) -> bytes:
    return (json.dumps(facts, indent=1) + "\n").encode()


def export_bundle(
    spec: str | Path | None,
    target: Path,
    *,
    profiles: Mapping[str, Profile] | None = None,
    tuned: Mapping[str, Mapping[str, Value]] | None = None,
    reliability: Mapping[str, Reliability] | None = None,
    card: str | None = None,
) -> Bundle:
    """Copy a bundle to a folder, or to a zip if the name says so; with other profiles, if some are given.

    `reliability` and `card` replace those of the bundle; its networks stay as they are.

    The copy is loaded back before it counts. The same bundle always gives the same bytes.
    """
    check_export(spec, target)
    bundle = load_bundle(spec)
    files = _read_files(_bundle_path(spec))
    facts = json.loads(files.pop(MANIFEST))
    files = {name: files[name] for name in facts["files"]}
    if profiles is not None:
        facts["profiles"] = _profile_facts({**bundle.profiles, **profiles})
    if tuned is not None:
        facts["tuned"] = dict(tuned)
    if reliability is not None:
        files[RELIABILITY] = _reliability_json(reliability)
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
