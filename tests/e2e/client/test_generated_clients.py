"""Clients that generators make from the OpenAPI document are complete, and work."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support import generated_clients
from tests.support.documents import ROOT
from tests.support.generated_clients import (
    DOCUMENT_FILE,
    prepare_node,
    prepare_python,
    run_python,
    run_tool,
)

# installs the generators from npm and PyPI
pytestmark = pytest.mark.slow

PROGRAMS = Path(generated_clients.__file__).with_name("generated_programs")
DOCUMENT: dict[str, Any] = json.loads(DOCUMENT_FILE.read_text())
OPERATION_IDS = {
    operation["operationId"]
    for operations in DOCUMENT["paths"].values()
    for operation in operations.values()
}
SCHEMAS = set(DOCUMENT["components"]["schemas"])
# what each program prints after it created, read and cancelled a payment, and was refused
COLLECTION = ROOT / "docs/reference/florin.postman_collection.json"
RESULT = ["https://shop.example/ok", "cancelled", "payment_not_succeeded"]
WARNING = re.compile(r"warn|unable|skip|error", re.IGNORECASE)


@pytest.fixture
def folder(tmp_path):
    shutil.copy(DOCUMENT_FILE, tmp_path / "openapi.json")
    return tmp_path


def run_strictly(folder, program, env):
    """Compile a program and its client with strict checks; return the words that it prints."""
    shutil.copy(PROGRAMS / program, folder)
    run_tool(folder, "npx", "--no-install", "tsc", "--project", ".")
    return run_tool(folder, "node", f"dist/{Path(program).stem}.js", env=env).split()


def test_openapi_typescript_client_creates_reads_and_cancels_a_payment(folder, up):
    prepare_node(folder)
    command = ("npx", "--no-install", "openapi-typescript", "openapi.json", "--output", "api.ts")
    assert not WARNING.search(run_tool(folder, *command))
    types = (folder / "api.ts").read_text()
    operations = types[types.index("export interface operations") :]
    assert set(re.findall(r"^    (\w+): \{$", operations, re.MULTILINE)) >= OPERATION_IDS
    assert set(re.findall(r"^        (\w+): ", types, re.MULTILINE)) >= SCHEMAS
    assert run_strictly(folder, "use_openapi_typescript.ts", up.env) == RESULT


def test_hey_api_client_creates_reads_and_cancels_a_payment(folder, up):
    prepare_node(folder)
    assert not WARNING.search(run_tool(folder, "npx", "--no-install", "openapi-ts"))
    calls = (folder / "hey/sdk.gen.ts").read_text()
    assert set(re.findall(r"^export const (\w+) =", calls, re.MULTILINE)) == OPERATION_IDS
    types = (folder / "hey/types.gen.ts").read_text()
    # the generator gives `Error` a name that is not global
    assert set(re.findall(r"^export type (\w+) =", types, re.MULTILINE)) >= SCHEMAS - {"Error"}
    assert run_strictly(folder, "use_hey_api.ts", up.env)[:3] == RESULT


def test_openapi_python_client_creates_reads_and_cancels_a_payment(folder, up):
    env = prepare_python()
    command = ("-m", "openapi_python_client", "generate", "--path", "openapi.json")
    out = run_python(folder, *command, "--output-path", "made", "--fail-on-warning", env=env)
    assert not WARNING.search(out)
    calls = {file.stem for file in (folder / "made/florin_client/api").rglob("*.py")}
    assert {name.replace("_", "") for name in calls} >= {name.lower() for name in OPERATION_IDS}
    models = (folder / "made/florin_client/models/__init__.py").read_text()
    names = {name.lower() for name in re.findall(r"\w+", models)}
    # a union has one model for each of its kinds
    assert {name for name in SCHEMAS if name.lower() not in names} == {"Action"}
    assert {"actiontype0", "actiontype1"} <= names
    shutil.copy(PROGRAMS / "use_python_client.py", folder / "made")
    env = {**env, **up.env}
    assert run_python(folder / "made", "use_python_client.py", env=env).split() == RESULT


def test_postman_collection_runs_and_each_request_uses_ids_of_those_before(folder, up):
    prepare_node(folder)
    values = {
        "baseUrl": up.env["FLORIN_BASE_URL"],
        "apiKey": up.env["FLORIN_PARTNER_KEY"],
        "merchantId": up.env["FLORIN_MERCHANT_ID"],
        "appId": up.env["FLORIN_APP_ID"],
    }
    variables = [part for name in values for part in ("--env-var", f"{name}={values[name]}")]
    folders = [part for name in ("Payments", "Wallets") for part in ("--folder", name)]
    report = ("--reporters", "json", "--reporter-json-export", "report.json")
    newman = ("npx", "--no-install", "newman", "run", str(COLLECTION))
    run_tool(folder, *newman, *folders, *variables, *report)
    executions = json.loads((folder / "report.json").read_text())["run"]["executions"]
    statuses = {run["item"]["name"]: run["response"]["code"] for run in executions}
    assert statuses["Creates a payment"] == 201
    # the payment has no claims
    assert {statuses.pop("Confirms a claim"), statuses.pop("Rejects a claim")} == {404}
    # nothing is refused for its credentials, its path or its form
    assert set(statuses.values()) <= {200, 201, 204, 400, 409, 410}
    reasons = {
        json.loads(bytes(run["response"]["stream"]["data"]))["code"]
        for run in executions
        if run["response"]["code"] >= 400
    }
    assert reasons <= {
        "invalid_state",
        "payment_not_succeeded",
        "invalid_params",
        "payment_expired",
    }
