"""A Postman collection of the API, from its OpenAPI document."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from florin_server.web.openapi import DOCUMENT_PATH

JsonObject = dict[str, Any]

_SCHEMA: Final = "https://schema.getpostman.com/json/collection/v2.1.0/collection.json"
_DESCRIPTION: Final = """\
Set the variables of the collection: `baseUrl`, `apiKey` and `merchantId`, and for the calls of
wallets `appId` and `clientId`. Requests that create something store its id in a variable, which
the requests after them use.
"""
_VARIABLES: Final[Mapping[str, str]] = {
    "baseUrl": "http://127.0.0.1:8080",
    "apiKey": "",
    "merchantId": "",
    "appId": "",
    "clientId": "postman",
    "paymentId": "",
    "settlementId": "",
    "endpointId": "",
}
_CREDENTIALS: Final = {"AppId": ("App-Id", "appId"), "ClientId": ("Client-Id", "clientId")}
_HEADERS: Final = {"Merchant-Id": "{{merchantId}}", "Idempotency-Key": "{{$guid}}"}
# variable that a request sets, and where the value is in its response
_STORED: Final = {
    "createPayment": ("paymentId", "paymentId"),
    "createCryptoSettlements": ("settlementId", "settlements[0].id"),
    "createWebhookEndpoint": ("endpointId", "endpoint.id"),
}
# members of examples that name something of this installation
_IDS: Final = {"paymentId": "{{paymentId}}", "merchantId": "{{merchantId}}"}


def render_postman() -> str:
    """Return the collection as text; deprecated operations are left out."""
    document = json.loads(DOCUMENT_PATH.read_text())
    described = [
        (path, verb.upper(), operation)
        for path, operations in document["paths"].items()
        for verb, operation in operations.items()
        if not operation.get("deprecated")
    ]
    # streams come last: one that is open holds up a run of the whole collection
    described.sort(key=lambda item: _is_stream(item[2]))
    folders: dict[str, list[JsonObject]] = {}
    for path, verb, operation in described:
        item = _make_item(document, verb, path, operation)
        folders.setdefault(operation["tags"][0], []).append(item)
    collection = {
        "info": {"name": "Florin", "description": _DESCRIPTION, "schema": _SCHEMA},
        "auth": {
            "type": "apikey",
            "apikey": [
                _make_pair("key", "Api-Key"),
                _make_pair("value", "{{apiKey}}"),
                _make_pair("in", "header"),
            ],
        },
        "variable": [_make_pair(name, value) for name, value in _VARIABLES.items()],
        "item": [
            {"name": tag["name"], "description": tag["description"], "item": folders[tag["name"]]}
            for tag in document["tags"]
            if tag["name"] in folders
        ],
    }
    return json.dumps(collection, indent=1, ensure_ascii=False) + "\n"


def _is_stream(operation: JsonObject) -> bool:
    return "text/event-stream" in operation["responses"].get("200", {}).get("content", {})


def _make_pair(key: str, value: str) -> JsonObject:
    return {"key": key, "value": value, "type": "string"}


def _make_item(document: JsonObject, verb: str, path: str, operation: JsonObject) -> JsonObject:
    parameters = [_resolve(document, part) for part in operation.get("parameters", [])]
    request: JsonObject = {
        "method": verb,
        "description": operation.get("description", operation["summary"]),
        "header": list(_list_headers(operation, parameters)),
        "url": _make_url(path, parameters),
    }
    # the first alternative of credentials is the one of the collection
    if not any("ApiKey" in schemes for schemes in operation["security"][:1]):
        request["auth"] = {"type": "noauth"}
    if "requestBody" in operation:
        request["header"].append({"key": "Content-Type", "value": "application/json"})
        content = operation["requestBody"]["content"]["application/json"]
        request["body"] = {
            "mode": "raw",
            "raw": json.dumps(_get_example(content), indent=2, ensure_ascii=False),
            "options": {"raw": {"language": "json"}},
        }
    item: JsonObject = {"name": operation["summary"], "request": request}
    if operation["operationId"] in _STORED:
        item["event"] = [_make_store_event(*_STORED[operation["operationId"]])]
    return item


def _resolve(document: JsonObject, part: JsonObject) -> JsonObject:
    if "$ref" not in part:
        return part
    name = part["$ref"].rpartition("/")[2]
    parameter: JsonObject = document["components"]["parameters"][name]
    return parameter


def _list_headers(operation: JsonObject, parameters: list[JsonObject]) -> Iterator[JsonObject]:
    for schemes in operation["security"][:1]:
        for name, variable in (_CREDENTIALS[each] for each in schemes if each in _CREDENTIALS):
            yield {"key": name, "value": f"{{{{{variable}}}}}"}
    for parameter in parameters:
        if parameter["in"] == "header" and parameter["name"] in _HEADERS:
            yield {"key": parameter["name"], "value": _HEADERS[parameter["name"]]}


def _make_url(path: str, parameters: list[JsonObject]) -> JsonObject:
    segments = path.strip("/").replace("{", ":").replace("}", "").split("/")
    url: JsonObject = {
        "raw": "{{baseUrl}}/" + "/".join(segments),
        "host": ["{{baseUrl}}"],
        "path": segments,
    }
    if queries := [
        {
            "key": parameter["name"],
            "value": str(parameter["schema"].get("default", "")),
            "description": parameter.get("description", ""),
            # none is required
            "disabled": True,
        }
        for parameter in parameters
        if parameter["in"] == "query"
    ]:
        url["query"] = queries
    if variables := [
        {"key": parameter["name"], "value": _get_path_value(parameter, path)}
        for parameter in parameters
        if parameter["in"] == "path"
    ]:
        url["variable"] = variables
    return url


def _get_path_value(parameter: JsonObject, path: str) -> str:
    if parameter["name"] in _IDS:
        return _IDS[parameter["name"]]
    if parameter["name"] == "id":
        return "{{endpointId}}" if "webhook-endpoints" in path else "{{settlementId}}"
    return str(parameter["example"])


def _get_example(content: JsonObject) -> Any:
    first: JsonObject = next(iter(content["examples"].values()))["value"]
    return {name: _IDS.get(name, value) for name, value in first.items()}


def _make_store_event(variable: str, place: str) -> JsonObject:
    return {
        "listen": "test",
        "script": {
            "type": "text/javascript",
            "exec": [
                "if (pm.response.code < 300) {",
                f'  pm.collectionVariables.set("{variable}", pm.response.json().{place});',
                "}",
            ],
        },
    }
