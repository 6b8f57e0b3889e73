"""OpenAPI is the contract: thousands of requests made from it find nothing, and the file in docs/ is up to date."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from dice_ce.reader.app import openapi_document
from tests.reader.conftest import Reader

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
EXAMPLES = 8
"""Per operation; DICE_CE_EXAMPLES asks for more."""
DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "reader-openapi.json"


def test_nothing_that_the_contract_allows_or_forbids_breaks_the_server(department: Reader) -> None:
    me = department.stranger().log_in("chief")
    exam, schema = me.exam(), load_schema(department)
    operations = [result.ok() for result in schema.get_all_operations()]
    assert len(operations) > 15
    cookie = "; ".join(f"{name}={value}" for name, value in me.cookies.items())
    answered: Counter[int] = Counter()
    for operation in operations:

        @settings(
            max_examples=int(os.environ.get("DICE_CE_EXAMPLES", EXAMPLES)),
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        )
        @schemathesis_given(operation)
        def send(case: schemathesis.Case) -> None:
            if case.operation.path == "/api/logout":
                return  # the session is still needed
            if "exam" in (case.path_parameters or {}):
                case.path_parameters["exam"] = exam
            if case.operation.path == "/api/users/{user}":
                case.path_parameters["user"] = "ben"
            answer = case.call_and_validate(
                headers={"Cookie": cookie, "X-CSRF-Token": me.headers["X-CSRF-Token"], "Host": "127.0.0.1"},
                checks=CHECKS,
            )
            answered[answer.status_code] += 1

        send()
    assert {200, 204, 404, 409, 422} <= answered.keys(), "they reached the routes"
    assert me.get(f"/api/exams/{exam}/review").status_code == 200


def load_schema(department: Reader) -> schemathesis.schemas.BaseSchema:
    """Ask the application for its contract."""
    return schemathesis.openapi.from_asgi("/api/openapi.json", department.app, headers={"Host": "127.0.0.1"})


def schemathesis_given(operation: schemathesis.APIOperation):  # type: ignore[no-untyped-def,type-arg]
    """Draw requests for one operation, valid and invalid."""
    from hypothesis import given
    from hypothesis import strategies as st
    from schemathesis import GenerationMode

    return given(
        st.one_of(
            operation.as_strategy(generation_mode=GenerationMode.POSITIVE),
            operation.as_strategy(generation_mode=GenerationMode.NEGATIVE),
        )
    )


def test_the_document_in_docs_is_this_contract(department: Reader) -> None:
    assert DOCUMENT.read_text() == openapi_document(), f"make it again: python -m dice_ce.reader.app > {DOCUMENT}"
    assert json.loads(DOCUMENT.read_text()) == department.app.openapi()
