import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dice_ce.errors import BundleError, UsageError
from dice_ce.features.encoder import ENCODERS, EncoderEntry, OnnxEncoder
from dice_ce.method.bundle import Profile, bundle_facts, export_bundle, load_bundle, make_diagnoser, save_bundle
from dice_ce.method.converger import ConvergerSettings
from dice_ce.method.diagnoser import HeadDiagnoser, NetworkDiagnoser, softmax
from dice_ce.method.reliability import Reliability
from dice_ce.method.selector import SelectorSettings
from dice_ce.method.settings import Settings
from dice_ce.method.tokens import TokenSettings
from dice_ce.method.weaver import WeaverSettings
from dice_ce.taxonomy import Taxonomy
from tests.material import tiny_head, write_tiny_encoder

SETTINGS = Settings(
    SelectorSettings(tau_s=0.6),
    WeaverSettings(delta_fine=0.2, max_span=300.0, tokens=TokenSettings(token_unit=5.0)),
    converger=ConvergerSettings(tau_agree=0.25, tau_min=0.55),
)
SHORT = Profile(Settings(converger=ConvergerSettings(tau_min=0.9)), "sure findings only")

KNOWN = {
    "ulcer": Reliability.of_counts(310, 4, 12, 3, (0.0, 0.02), (0.1, 0.5)),
    "polyp": Reliability.of_counts(20, 1, 0, 0),
}


def save(
    folder: Path,
    encoder: OnnxEncoder,
    diagnoser: HeadDiagnoser | NetworkDiagnoser | None = None,
    labels: int = 12,
) -> Path:
    taxonomy = Taxonomy() if labels == 12 else Taxonomy("x", (*map(str, range(labels - 1)), "normal"))
    save_bundle(
        folder,
        name="tiny",
        taxonomy=taxonomy,
        encoder=encoder,
        selector=tiny_head(encoder.dim, 1),
        diagnoser=diagnoser or HeadDiagnoser(tiny_head(encoder.dim, labels), 1.5),
        profiles={"default": Profile(SETTINGS, "for tests"), "short": SHORT},
        card="# Card",
        reliability=KNOWN,
    )
    return folder


def test_a_bundle_reads_back_as_it_was_written(tmp_path: Path, tiny_encoder: OnnxEncoder) -> None:
    bundle = load_bundle(save(tmp_path / "b", tiny_encoder))
    assert (bundle.name, bundle.settings(), bundle.card) == ("tiny", SETTINGS, "# Card")
    assert bundle.profiles == {"default": Profile(SETTINGS, "for tests"), "short": SHORT}
    assert bundle.tuned == {}
    assert bundle.encoder.digest == tiny_encoder.digest
    assert bundle.reliability == KNOWN
    assert bundle.taxonomy == Taxonomy()
    assert isinstance(bundle.diagnoser, HeadDiagnoser)
    assert bundle.diagnoser.temperature == 1.5


def test_a_profile_is_asked_for_by_name(tmp_path: Path, tiny_encoder: OnnxEncoder) -> None:
    bundle = load_bundle(save(tmp_path / "b", tiny_encoder))
    assert bundle.settings("short") == SHORT.settings
    with pytest.raises(UsageError, match="bundle 'tiny' has no profile 'long'; it has default, short"):
        bundle.settings("long")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda profiles: profiles["short"]["settings"].pop("tau_min"), "profile 'short' has no value for 'tau_min'"),
        (lambda profiles: profiles["short"]["settings"].update(tau_mni=0.5), "there is no setting 'tau_mni'"),
        (lambda profiles: profiles["short"]["settings"].update(tau_min=1.5), r"tau_min: 1\.5 is not a number from 0"),
        (lambda profiles: profiles["short"].pop("about"), "KeyError: 'about'"),
        (lambda profiles: profiles.pop("default"), "there is no profile 'default'"),
    ],
)
def test_profiles_must_be_complete_and_usable(
    tmp_path: Path, tiny_encoder: OnnxEncoder, change: Callable[[Any], object], message: str
) -> None:
    """So that another default in a later version cannot change what a bundle does."""
    folder = save(tmp_path / "b", tiny_encoder)
    facts = json.loads((folder / "bundle.json").read_text())
    change(facts["profiles"])
    (folder / "bundle.json").write_text(json.dumps(facts))
    with pytest.raises(BundleError, match=rf"bundle\.json is damaged \(.*{message}"):
        load_bundle(folder)


def test_a_rule_that_a_bundle_does_not_know_yet_is_off_in_it(tmp_path: Path, tiny_encoder: OnnxEncoder) -> None:
    """So that a new rule needs no new bundle, and changes nothing that one does."""
    folder = save(tmp_path / "b", tiny_encoder)
    facts = json.loads((folder / "bundle.json").read_text())
    for name in ("prior_strength", "apart_seconds"):
        del facts["profiles"]["short"]["settings"][name]
    (folder / "bundle.json").write_text(json.dumps(facts))
    assert load_bundle(folder).settings("short") == SHORT.settings


@pytest.mark.parametrize("name", ["copy", "copy.zip"])
def test_a_copy_may_have_other_profiles_and_keeps_the_rest(
    tmp_path: Path, tiny_encoder: OnnxEncoder, name: str
) -> None:
    folder, target = save(tmp_path / "b", tiny_encoder), tmp_path / name
    assert export_bundle(folder, target).digest == load_bundle(folder).digest
    tuned = {"aks": {"tau_s": 0.7, "depth": 3}}
    changed = export_bundle(folder, target, profiles={"short": Profile(Settings(), "other")}, tuned=tuned)
    assert changed.profiles == {"default": Profile(SETTINGS, "for tests"), "short": Profile(Settings(), "other")}
    assert changed.tuned == tuned
    assert changed.digest == load_bundle(target).digest != load_bundle(folder).digest
    again = export_bundle(target, tmp_path / f"again-{name}")
    assert (again.digest, again.tuned, again.card) == (changed.digest, tuned, "# Card")


def test_the_same_bundle_is_zipped_to_the_same_bytes(tmp_path: Path, tiny_encoder: OnnxEncoder) -> None:
    folder = save(tmp_path / "b", tiny_encoder)
    for name in ("one.zip", "two.zip"):
        export_bundle(folder, tmp_path / name)
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()


def test_a_zip_is_the_same_bundle(tmp_path: Path, tiny_encoder: OnnxEncoder) -> None:
    folder = save(tmp_path / "b", tiny_encoder)
    shutil.make_archive(str(tmp_path / "b"), "zip", tmp_path, "b")
    assert load_bundle(tmp_path / "b.zip").digest == load_bundle(folder).digest


def test_what_a_bundle_says_about_itself_can_be_replaced_but_not_by_hand(
    tmp_path: Path, tiny_encoder: OnnxEncoder
) -> None:
    folder = save(tmp_path / "b", tiny_encoder)
    weights = (folder / "weights.npz").read_bytes()
    better = {"ulcer": Reliability.of_counts(310, 4, 300, 290)}
    copy = export_bundle(folder, tmp_path / "c", reliability=better, card="# Other card")
    assert (copy.reliability, copy.card) == (better, "# Other card")
    assert (tmp_path / "c" / "weights.npz").read_bytes() == weights
    shutil.copy(tmp_path / "c" / "reliability.json", folder / "reliability.json")
    with pytest.raises(BundleError, match=r"reliability.json is missing or was changed"):
        load_bundle(folder)


def test_files_that_no_digest_covers_are_not_believed(tmp_path: Path, tiny_encoder: OnnxEncoder) -> None:
    folder = save(tmp_path / "b", tiny_encoder)
    facts = json.loads((folder / "bundle.json").read_text())
    del facts["files"]["reliability.json"]
    (folder / "bundle.json").write_text(json.dumps(facts))
    assert load_bundle(folder).reliability == {}


def test_a_second_network_can_diagnose(tmp_path: Path, tiny_encoder: OnnxEncoder) -> None:
    network = OnnxEncoder.open(write_tiny_encoder(tmp_path / "d.onnx", scale=0.1))
    bundle = load_bundle(save(tmp_path / "b", tiny_encoder, NetworkDiagnoser((network,), 1.5), labels=network.dim))
    assert isinstance(bundle.diagnoser, NetworkDiagnoser)
    assert bundle.diagnoser.headed is None
    assert bundle_facts(bundle)["diagnoser"] == "network on candidate frames"
    with pytest.raises(BundleError, match="the diagnoser has 48 outputs for 12 labels"):
        load_bundle(save(tmp_path / "c", tiny_encoder, NetworkDiagnoser((network,))))


def test_a_network_and_a_head_can_diagnose_together(tmp_path: Path, tiny_encoder: OnnxEncoder) -> None:
    network = OnnxEncoder.open(write_tiny_encoder(tmp_path / "d.onnx", scale=0.1))
    head = tiny_head(tiny_encoder.dim, network.dim, seed=3)
    both = make_diagnoser(head, network, tiny_encoder, 1.5)
    bundle = load_bundle(save(tmp_path / "b", tiny_encoder, both, labels=network.dim))
    assert isinstance(bundle.diagnoser, NetworkDiagnoser)
    assert bundle.diagnoser.temperature == 1.5
    assert bundle_facts(bundle)["diagnoser"] == "networks on candidate frames, one a head on the encoder"
    frames = np.random.default_rng(0).integers(0, 256, (3, 32, 32, 3)).astype(np.uint8)
    headed, alone = bundle.diagnoser.networks
    np.testing.assert_allclose(headed.encode(frames), head(tiny_encoder.encode(frames)), atol=2e-2)
    np.testing.assert_array_equal(alone.encode(frames), network.encode(frames))
    wrong = make_diagnoser(tiny_head(tiny_encoder.dim, 11), network, tiny_encoder, 1.5)
    with pytest.raises(BundleError, match="the diagnoser has 11 outputs for 48 labels"):
        load_bundle(save(tmp_path / "c", tiny_encoder, wrong, labels=network.dim))
    facts = json.loads((tmp_path / "b" / "bundle.json").read_text())
    facts["diagnoser"]["kind"] = "oracle"
    (tmp_path / "b" / "bundle.json").write_text(json.dumps(facts))
    with pytest.raises(BundleError, match="the kind of diagnoser is 'oracle'"):
        load_bundle(tmp_path / "b")


@pytest.mark.parametrize("side", ["x", -32, 10**6])
def test_fast_frames_cannot_have_every_side(tmp_path: Path, tiny_encoder: OnnxEncoder, side: object) -> None:
    folder = save(tmp_path / "b", tiny_encoder)
    facts = json.loads((folder / "bundle.json").read_text())
    facts["fast"] = {"side": side}
    (folder / "bundle.json").write_text(json.dumps(facts))
    with pytest.raises(BundleError, match=f"the side of fast frames is {side}"):
        load_bundle(folder)


def test_a_bundle_that_cannot_be_fast_says_so(tmp_path: Path, tiny_encoder: OnnxEncoder) -> None:
    folder = save(tmp_path / "b", tiny_encoder)
    with pytest.raises(UsageError, match="cannot be made fast; train one with --fast-side"):
        load_bundle(f"{folder}@fast")


@pytest.mark.parametrize("name", ["weights.npz", "encoder.onnx", "MODEL_CARD.md"])
def test_a_changed_or_missing_file_is_noticed(tmp_path: Path, tiny_encoder: OnnxEncoder, name: str) -> None:
    folder = save(tmp_path / "b", tiny_encoder)
    (folder / name).write_bytes((folder / name).read_bytes() + b"x")
    with pytest.raises(BundleError, match=f"{name} is missing or was changed"):
        load_bundle(folder)
    (folder / name).unlink()
    with pytest.raises(BundleError, match=f"{name} is missing or was changed"):
        load_bundle(folder)


def test_another_encoder_under_the_same_name_is_refused(
    tmp_path: Path, tiny_encoder: OnnxEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = EncoderEntry(lambda: tiny_encoder, "means of cells", "none", "dev", ())
    monkeypatch.setitem(ENCODERS, tiny_encoder.name, entry)
    folder = save(tmp_path / "b", tiny_encoder)
    assert not (folder / "encoder.onnx").exists(), "a registered encoder is named, not copied"
    assert load_bundle(folder).encoder is tiny_encoder
    facts = json.loads((folder / "bundle.json").read_text())
    facts["encoder"]["digest"] = "0" * 64
    (folder / "bundle.json").write_text(json.dumps(facts))
    with pytest.raises(BundleError, match=f"was made with another {tiny_encoder.name}"):
        load_bundle(folder)


def test_what_is_no_bundle_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="no such bundle; give a folder or zip"):
        load_bundle(tmp_path / "nothing")
    with pytest.raises(BundleError, match=r"there is no bundle\.json"):
        load_bundle(tmp_path)
    (tmp_path / "bundle.json").write_text("{}")
    with pytest.raises(BundleError, match=r"bundle\.json is damaged"):
        load_bundle(tmp_path)
    (tmp_path / "bundle.json").write_text('{"format": "other/1"}')
    with pytest.raises(BundleError, match="bundle format 'other/1'"):
        load_bundle(tmp_path)


def test_weights_with_code_in_them_are_not_run(tmp_path: Path, tiny_encoder: OnnxEncoder) -> None:
    import hashlib

    class Attack:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return (tmp_path / "ran").touch, ()  # type: ignore[return-value]

    folder = save(tmp_path / "b", tiny_encoder)
    with zipfile.ZipFile(folder / "weights.npz", "w") as archive, archive.open("selector.scale.npy", "w") as file:
        np.save(file, np.array([Attack()], object))  # type: ignore[arg-type]
    facts = json.loads((folder / "bundle.json").read_text())
    facts["files"]["weights.npz"] = hashlib.sha256((folder / "weights.npz").read_bytes()).hexdigest()
    (folder / "bundle.json").write_text(json.dumps(facts))
    with pytest.raises(BundleError, match="damaged"):
        load_bundle(folder)
    assert not (tmp_path / "ran").exists()


def test_a_higher_temperature_is_less_sure() -> None:
    logits = np.float32([[2, 1, 0]])
    assert softmax(logits).sum() == pytest.approx(1)
    assert softmax(logits, 1.0)[0] == pytest.approx(np.exp([2, 1, 0]) / np.exp([2, 1, 0]).sum(), abs=1e-6)
    assert softmax(logits, 3.0).max() < softmax(logits, 1.0).max()
    assert np.isfinite(softmax(np.float32([[1e4, -1e4, 0]]))).all()
