"""A summary as a Comprehensive SR after TID 1500, and back.

What the SR carries: every finding with its label, certainty, times, key frame and reasons, the facts of the exam, the
counts and the provenance. What it does not: single supporting frames, evidence per label, what was set aside, the
curve of the timeline and the figures of reliability (their grade is there, for people). `carried` is that, exactly.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from dice_ce.errors import InputError, require
from dice_ce.method.summary import Activity, Frame, Mark, Summary, SummaryItem
from dice_ce.outputs.dicom import codes
from dice_ce.outputs.dicom.codes import Coded, code_of

ALGORITHM = "DiCE-CE"
MANUFACTURER = "DiCE-CE developers"


class Shown(NamedTuple):
    """Where a key frame can be seen: a DICOM image, and the frame in it if it has several."""

    sop_class: str
    sop_instance: str
    frame: int | None


def carried(summary: Summary) -> Summary:
    """Return what is left of a summary after a way through the SR."""
    items = tuple(
        dataclasses.replace(item, support=(), dissent=(), evidence=(), evidence_before=()) for item in summary.items
    )
    activity = Activity(summary.activity.first_seconds, summary.activity.last_seconds, (), ())
    return dataclasses.replace(summary, items=items, dropped=(), activity=activity, reliability={})


# --- writing ------------------------------------------------------------------------------------------------------


def concept(code: Coded) -> Any:
    """Write a code as highdicom takes it."""
    from highdicom.sr import CodedConcept

    return CodedConcept(value=code.value, scheme_designator=code.scheme, meaning=code.meaning)


def measurement_report(summary: Summary, shown: Sequence[Shown], uids: Sequence[str], device_uid: str) -> Any:
    """Build the content of the SR; `uids` are the tracking ids of the findings."""
    from highdicom import sr
    from pydicom.sr.codedict import codes as standard

    observer = sr.ObserverContext(
        observer_type=standard.DCM.Device,
        observer_identifying_attributes=sr.DeviceObserverIdentifyingAttributes(
            uid=device_uid, name=ALGORITHM, manufacturer_name=MANUFACTURER, model_name=_model(summary)
        ),
    )
    groups = [_group(summary, *finding) for finding in zip(summary.items, shown, uids, strict=True)]
    placeholder = sr.MeasurementsAndQualitativeEvaluations(sr.TrackingIdentifier(uid=device_uid, identifier="none"))
    report = sr.MeasurementReport(
        observation_context=sr.ObservationContext(observer_device_context=observer),
        procedure_reported=concept(codes.PROCEDURE),
        imaging_measurements=groups or [placeholder],  # highdicom asks for one
        title=concept(codes.REPORT),
    )
    root = report[0]
    if not groups:
        del root.ContentSequence[-1]
    root.ContentSequence.append(_evaluations(summary))
    return report


def _model(summary: Summary) -> str:
    return f"{summary.provenance.bundle.name} {summary.provenance.bundle.digest[:12]}"


def _group(summary: Summary, item: SummaryItem, shown: Shown, uid: str) -> Any:
    from highdicom import sr

    group = sr.MeasurementsAndQualitativeEvaluations(
        tracking_identifier=sr.TrackingIdentifier(uid=uid, identifier=item.id),
        finding_type=concept(code_of(item.label)),
        algorithm_id=sr.AlgorithmIdentification(
            name=f"{ALGORITHM} (for research use only)", version=summary.provenance.version
        ),
        measurements=[
            sr.Measurement(name=concept(code), value=value, unit=concept(unit))
            for code, value, unit in _measured(summary, item)
        ],
        qualitative_evaluations=[
            sr.QualitativeEvaluation(name=concept(name), value=concept(value))
            for name, value in (
                (codes.RUNNER_UP, code_of(item.runner_up)),
                (codes.PROVISIONAL, code_of(item.provisional)),
                (codes.FELL_BACK, codes.YES if item.fell_back else codes.NO),
            )
        ],
        source_images=[
            sr.SourceImageForMeasurementGroup(
                shown.sop_class, shown.sop_instance, None if shown.frame is None else [shown.frame]
            )
        ],
    )
    reliability = summary.reliability_of(item.label)
    texts = [
        _text(codes.REASON, item.reason),
        _text(codes.RELIABILITY, f"{reliability.grade}: {reliability.explain()}"),
        *([_text(codes.KEYFRAME_FILE, item.keyframe.file)] if item.keyframe.file is not None else []),
        *([_text(codes.MARK, ", ".join(map(str, dataclasses.astuple(item.mark))))] if item.mark is not None else []),
    ]
    group[0].ContentSequence.extend(texts)
    return group


def _measured(summary: Summary, item: SummaryItem) -> Iterator[tuple[Coded, float, Coded]]:
    time = codes.EXAM_TIME if summary.exam.clock.is_exam_time else codes.PLAYBACK_TIME
    yield codes.CERTAINTY, _percent(item.confidence), codes.PERCENT
    yield time, item.keyframe.seconds, codes.SECOND
    yield codes.FIRST_TIME, item.first_seconds, codes.SECOND
    yield codes.LAST_TIME, item.last_seconds, codes.SECOND
    yield codes.FRAME, item.keyframe.frame, codes.UNITY
    yield codes.SUPPORT, len(item.support), codes.UNITY
    yield codes.ABNORMALITY, _percent(item.abnormality), codes.PERCENT
    yield codes.MARGIN, _percent(item.margin), codes.PERCENT
    yield codes.SCORE, _percent(item.keyframe.score), codes.PERCENT
    yield codes.PROBABILITY, _percent(item.keyframe.probability), codes.PERCENT


def _percent(share: float) -> float:
    return round(100 * share, 4)


def _text(name: Coded, value: str) -> Any:
    from highdicom import sr

    return sr.TextContentItem(name=concept(name), value=value or "-", relationship_type="CONTAINS")


def _evaluations(summary: Summary) -> Any:
    """Write what holds for the whole exam: the disclaimer, facts, counts, and what to repeat to get the same."""
    from highdicom import sr

    container = sr.ContainerContentItem(name=concept(codes.EVALUATIONS), relationship_type="CONTAINS")
    facts = msgspec.to_builtins(carried(summary))
    del facts["items"]
    container.ContentSequence = sr.ContentSequence(
        [_text(codes.COMMENT, summary.disclaimer)]
        + [
            _text(codes.PARAMETERS if path.startswith("provenance.") else codes.FACT, f"{path} = {value}")
            for path, value in _flat(facts, "")
        ]
    )
    return container


def _flat(value: object, path: str) -> Iterator[tuple[str, str]]:
    """Write nested facts as lines, lists whole."""
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from _flat(inner, f"{path}.{name}" if path else str(name))
    else:
        yield path, json.dumps(value, ensure_ascii=False)


# --- reading ------------------------------------------------------------------------------------------------------


def read_report(path: Path) -> Summary:
    """Read the summary out of an SR that this package has written; what it cannot carry is empty."""
    pydicom = require("pydicom", extra="hospital", purpose="reading DICOM")
    try:
        document = pydicom.dcmread(path)
        content = list(document.ContentSequence)
        lines = [
            (item.ConceptNameCodeSequence[0].CodeValue, str(item.TextValue))
            for container in _named(content, codes.EVALUATIONS)
            for item in container.ContentSequence
        ]
        facts = _nested([text for code, text in lines if code in (codes.FACT.value, codes.PARAMETERS.value)])
        labels = {(code_of(label).scheme, code_of(label).value): label for label in facts["taxonomy"]["labels"]}
        groups = [
            group
            for container in content
            if container.ConceptNameCodeSequence[0].CodeValue == "126010"
            for group in container.ContentSequence
        ]
        items = [msgspec.to_builtins(_item(group, labels)) for group in groups]
        return msgspec.convert({**facts, "items": items}, Summary)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check the path") from error
    except Exception as error:  # a parser that is fed noise raises nearly anything
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise InputError(f"{path}: no structured report of a summary ({reason}); export it again") from error


def _named(items: Sequence[Any], name: Coded) -> list[Any]:
    return [
        item
        for item in items
        if (item.ConceptNameCodeSequence[0].CodeValue, item.ConceptNameCodeSequence[0].CodingSchemeDesignator)
        == (name.value, name.scheme)
    ]


def _nested(lines: Sequence[str]) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    for line in lines:
        path, _, value = line.partition(" = ")
        *outer, last = path.split(".", 2) if path.startswith("provenance.") else path.split(".")
        place = facts
        for name in outer:
            place = place.setdefault(name, {})
        place[last] = json.loads(value)
    return facts


def _item(group: Any, labels: Mapping[tuple[str, str], str]) -> SummaryItem:
    inside = list(group.ContentSequence)

    def number(name: Coded) -> float:
        return float(_named(inside, name)[0].MeasuredValueSequence[0].NumericValue)

    def share(name: Coded) -> float:
        return round(number(name) / 100, 6)

    def coded(name: Coded) -> tuple[str, str]:
        value = _named(inside, name)[0].ConceptCodeSequence[0]
        return str(value.CodingSchemeDesignator), str(value.CodeValue)

    def text(name: Coded) -> str | None:
        found = _named(inside, name)
        return str(found[0].TextValue) if found else None

    tracking = Coded("112039", "DCM", "Tracking Identifier", "")
    time = next(name for name in (codes.EXAM_TIME, codes.PLAYBACK_TIME) if _named(inside, name))
    return SummaryItem(
        id=str(text(tracking)),
        label=labels[coded(codes.FINDING)],
        confidence=share(codes.CERTAINTY),
        abnormality=share(codes.ABNORMALITY),
        verdict="kept",
        reason=text(codes.REASON) or "",
        runner_up=labels[coded(codes.RUNNER_UP)],
        margin=share(codes.MARGIN),
        provisional=labels[coded(codes.PROVISIONAL)],
        fell_back=coded(codes.FELL_BACK)[1] == codes.YES.value,
        keyframe=Frame(
            frame=round(number(codes.FRAME)),
            seconds=number(time),
            score=share(codes.SCORE),
            probability=share(codes.PROBABILITY),
            file=text(codes.KEYFRAME_FILE),
        ),
        first_seconds=number(codes.FIRST_TIME),
        last_seconds=number(codes.LAST_TIME),
        support=(),
        dissent=(),
        evidence_before=(),
        evidence=(),
        mark=Mark(*map(float, mark.split(", "))) if (mark := text(codes.MARK)) else None,
    )
