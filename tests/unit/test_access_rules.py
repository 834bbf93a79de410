"""Nothing can be called that says not by whom, and no refusal comes without its code."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import grpc
import pytest
from florin.v1 import access_pb2, errors_pb2
from florin_gateway.errors import refusal_of
from florin_gateway.rpc import CallError
from florin_server.boot.servers.grpc_server import OPERATOR, PUBLIC
from florin_server.domain.errors import REGISTRY, Code, FlorinError, Issue
from florin_server.rpc.server.errors import status_of
from florin_server.rpc.server.interceptors import methods_of
from google.api import annotations_pb2
from google.protobuf import descriptor_pb2, descriptor_pool
from google.rpc import error_details_pb2
from grpc_status import rpc_status

SERVICES = (*PUBLIC, *OPERATOR)
RPCS = [method for service in SERVICES for method in service.methods]
DEPLOYED_ONLY = {
    Code.NOT_FOUND,
    Code.MISSING_IDEMPOTENCY_KEY,
    Code.SETTLEMENT_ASSET_CONFLICT,
    Code.VERSION_CONFLICT,
    Code.BAD_GATEWAY,
}

PROTOS = Path(__file__).resolve().parents[2] / "protos"
READS = access_pb2.AccessRule(
    family=access_pb2.CALLER_FAMILY_PAYMENTS,
    scope=access_pb2.KEY_SCOPE_READ,
    outage=access_pb2.OUTAGE_RULE_UNAVAILABLE,
)
OPERATES = access_pb2.AccessRule(family=access_pb2.CALLER_FAMILY_OPERATOR)


def rule_of(method) -> access_pb2.AccessRule:
    return method.GetOptions().Extensions[access_pb2.access]


def ruled(rule: access_pb2.AccessRule, **changes: int) -> access_pb2.AccessRule:
    """A rule that differs from another one."""
    changed = access_pb2.AccessRule.FromString(rule.SerializeToString())
    for name, value in changes.items():
        setattr(changed, name, value)
    return changed


def service_of(*rules: access_pb2.AccessRule | None, names=("Call", "Ask")):
    """A service with one RPC for each rule."""
    file = descriptor_pb2.FileDescriptorProto(
        name="one.proto", package="one", syntax="proto3", dependency=["florin/v1/access.proto"]
    )
    file.message_type.add(name="Nothing")
    service = file.service.add(name="Service")
    for name, rule in zip(names, rules, strict=False):
        method = service.method.add(
            name=name, input_type=".one.Nothing", output_type=".one.Nothing"
        )
        if rule is not None:
            method.options.Extensions[access_pb2.access].CopyFrom(rule)
    pool = descriptor_pool.DescriptorPool()
    descriptor_pb2.DESCRIPTOR.CopyToProto(known := descriptor_pb2.FileDescriptorProto())
    pool.Add(known)
    access_pb2.DESCRIPTOR.CopyToProto(known := descriptor_pb2.FileDescriptorProto())
    pool.Add(known)
    pool.Add(file)
    return pool.FindServiceByName("one.Service")


def test_each_listener_has_services_of_its_own():
    names = [service.name for service in PUBLIC]
    assert names == ["GatewayService", "MerchantService", "AdminService", "WebhookService"]
    assert [service.name for service in OPERATOR] == ["OperatorService"]
    assert len(methods_of(SERVICES)) == len(RPCS)


@pytest.mark.parametrize("method", RPCS, ids=lambda method: method.full_name)
def test_every_rpc_says_who_may_call_it(method):
    rule = rule_of(method)
    families = {
        "GatewayService": {access_pb2.CALLER_FAMILY_GATEWAY},
        "MerchantService": {access_pb2.CALLER_FAMILY_PAYMENTS, access_pb2.CALLER_FAMILY_ACCOUNT},
        "AdminService": {access_pb2.CALLER_FAMILY_ACCOUNT, access_pb2.CALLER_FAMILY_SANDBOX},
        "WebhookService": {access_pb2.CALLER_FAMILY_ACCOUNT},
        "OperatorService": {access_pb2.CALLER_FAMILY_OPERATOR},
    }
    assert rule.family in families[method.containing_service.name]
    # a key of a caller needs a right; the operator has them all, and one profile
    is_operators = rule.family == access_pb2.CALLER_FAMILY_OPERATOR
    assert bool(rule.scope) is bool(rule.outage) is not is_operators


@pytest.mark.parametrize("rule", [None, access_pb2.AccessRule(scope=access_pb2.KEY_SCOPE_READ)])
def test_an_rpc_without_a_rule_fails_the_start(rule):
    with pytest.raises(ValueError, match="one.Service.Call has no access rule"):
        methods_of([service_of(rule)])


def test_a_service_for_the_operator_and_for_others_fails_the_start():
    for rule in (READS, OPERATES):
        assert len(methods_of([service_of(rule, rule)])) == 2
    with pytest.raises(ValueError, match="one.Service is for the operator and for others"):
        methods_of([service_of(READS, OPERATES)])


def test_an_rpc_that_leaves_outages_open_fails_the_start():
    with pytest.raises(ValueError, match="one.Service.Call does not say what an outage is told as"):
        methods_of([service_of(ruled(READS, outage=access_pb2.OUTAGE_RULE_UNSPECIFIED))])


@pytest.mark.parametrize("name", ["Call", "ListThings", "CreateRefund"])
@pytest.mark.parametrize("family", [access_pb2.CALLER_FAMILY_ACCOUNT, READS.family])
@pytest.mark.parametrize("outage", ["UNAVAILABLE", "BAD_GATEWAY"])
def test_what_an_outage_is_told_as_does_not_hang_on_names_or_callers(name, family, outage):
    rule = ruled(READS, family=family, outage=access_pb2.OutageRule.Value(f"OUTAGE_RULE_{outage}"))
    (method,) = methods_of([service_of(rule, names=(name,))]).values()
    assert method.relays is (outage == "BAD_GATEWAY")


def image_of(*rules: access_pb2.AccessRule | None, path: str = "") -> bytes:
    service_of(*rules).file.CopyToProto(file := descriptor_pb2.FileDescriptorProto())
    if path:
        file.service[0].method[0].options.Extensions[annotations_pb2.http].get = path
    return descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()


@pytest.mark.parametrize(
    ("rule", "path", "fault"),
    [
        (None, "", "does not say who may call it"),
        (ruled(READS, scope=access_pb2.KEY_SCOPE_UNSPECIFIED), "/v1", "which scope a key needs"),
        (ruled(READS, outage=access_pb2.OUTAGE_RULE_UNSPECIFIED), "", "what an outage is told as"),
        (ruled(OPERATES, scope=access_pb2.KEY_SCOPE_READ), "", "operator's and says more"),
        (OPERATES, "/v1/payouts", "operator's and has a route"),
    ],
)
def test_the_linter_names_rpcs_whose_rule_leaves_something_open(rule, path, fault):
    spec = importlib.util.spec_from_file_location("lint", PROTOS / "lint.py")
    lint = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(lint)
    (told,) = lint.unsaid(image_of(rule, READS, path=path))
    assert told.startswith("one.Service.Call ")
    assert fault in told
    assert lint.unsaid(image_of(READS, path="/v1")) == lint.unsaid(image_of(OPERATES)) == []


def test_no_rpc_of_the_operator_has_a_route():
    for service in OPERATOR:
        for method in service.methods:
            assert not method.GetOptions().HasExtension(annotations_pb2.http), method.full_name


def test_what_changes_something_needs_more_than_reading():
    for method in RPCS:
        changes = not method.name.startswith(("Get", "List", "Watch", "Fetch"))
        rule = rule_of(method)
        if rule.family != access_pb2.CALLER_FAMILY_OPERATOR:
            assert (rule.scope != access_pb2.KEY_SCOPE_READ) is changes, method.full_name


@pytest.mark.parametrize("code", Code)
def test_every_code_is_told_with_its_facts(code):
    error = FlorinError(
        code, issues=(Issue("a.b", "is wrong"),), details={"reason": "why"}, retry_after_s=3
    )
    status = status_of(error)
    info, bad, retry = (
        error_details_pb2.ErrorInfo(),
        error_details_pb2.BadRequest(),
        error_details_pb2.RetryInfo(),
    )
    for found, packed in zip((info, bad, retry), status.details, strict=True):
        assert packed.Unpack(found)
    assert (info.reason, info.domain) == (code.upper(), "florin")
    assert dict(info.metadata) == {
        "code": code,
        "http_status": str(REGISTRY[code].http),
        "reason": "why",
    }
    assert [(v.field, v.description) for v in bad.field_violations] == [("a.b", "is wrong")]
    assert retry.retry_delay.seconds == 3
    assert grpc.StatusCode[REGISTRY[code].grpc].value[0] == status.code


@pytest.mark.parametrize("code", Code)
def test_the_gateway_reads_every_code_back(code):
    error = FlorinError(code, issues=(Issue("a", "b"),), details={"c": "d"}, retry_after_s=2)
    converted = rpc_status.to_status(status_of(error))
    failure = CallError(converted.code, converted.details, tuple(converted.trailing_metadata))
    refused = refusal_of(failure)
    assert (refused.status, refused.code, refused.message) == (
        error.http,
        error.code,
        error.message,
    )
    assert [tuple(issue) for issue in refused.issues] == [("a", "b")]
    assert dict(refused.details) == {"c": "d"}
    assert refused.headers == ((b"retry-after", b"2"),)


def test_a_dependency_that_is_down():
    status = status_of(FlorinError(Code.INTERNAL_ERROR, unavailable=True, retry_after_s=1))
    converted = rpc_status.to_status(status)
    assert converted.code is grpc.StatusCode.UNAVAILABLE
    failure = CallError(converted.code, converted.details, tuple(converted.trailing_metadata))
    assert (refusal_of(failure).status, refusal_of(failure).code) == (503, "internal_error")


def test_no_fact_of_a_refusal_replaces_its_code():
    details = {"code": "x", "http_status": "200", "reason": "why"}
    status = status_of(FlorinError(Code.INVALID_STATE, details=details))
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    assert dict(info.metadata) == {
        "code": "invalid_state",
        "http_status": "400",
        "reason": "why",
    }


def test_the_protos_name_the_same_codes():
    named = {
        name.removeprefix("ERROR_CODE_").lower()
        for name, number in errors_pb2.ErrorCode.items()
        if number
    }
    assert named == {str(code) for code in Code if code not in DEPLOYED_ONLY} | (
        named & {str(code) for code in DEPLOYED_ONLY}
    )
