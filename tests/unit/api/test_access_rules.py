"""Test that every method declares its callers, and every refusal has a code."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import grpc
import pytest
from florin.v1 import access_pb2, errors_pb2
from florin_server.api.server.errors import to_grpc_status
from florin_server.api.server.interceptors import index_methods
from florin_server.app.servers.grpc_server import OPERATOR_SERVICES, PUBLIC_SERVICES
from florin_server.domain.errors import (
    ERROR_SPECS,
    ApiError,
    ErrorCode,
    FieldIssue,
)
from google.api import annotations_pb2
from google.protobuf import descriptor_pb2, descriptor_pool
from google.rpc import error_details_pb2
from grpc_rest_gateway.errors import to_refused_error
from grpc_rest_gateway.rpc import CallError
from grpc_status import rpc_status

SERVICES = (*PUBLIC_SERVICES, *OPERATOR_SERVICES)
RPCS = [method for service in SERVICES for method in service.methods]
DEPLOYED_ONLY = {
    ErrorCode.NOT_FOUND,
    ErrorCode.MISSING_IDEMPOTENCY_KEY,
    ErrorCode.SETTLEMENT_ASSET_CONFLICT,
    ErrorCode.VERSION_CONFLICT,
    ErrorCode.BAD_GATEWAY,
}

PROTOS = Path(__file__).resolve().parents[3] / "protos"
READS = access_pb2.AccessRule(
    family=access_pb2.CALLER_FAMILY_PAYMENTS,
    scope=access_pb2.KEY_SCOPE_READ,
    outage=access_pb2.OUTAGE_RULE_UNAVAILABLE,
)
OPERATES = access_pb2.AccessRule(family=access_pb2.CALLER_FAMILY_OPERATOR)


def rule_of(method) -> access_pb2.AccessRule:
    return method.GetOptions().Extensions[access_pb2.access]


def ruled(rule: access_pb2.AccessRule, **changes: int) -> access_pb2.AccessRule:
    """Return a rule with some fields changed."""
    changed = access_pb2.AccessRule.FromString(rule.SerializeToString())
    for name, value in changes.items():
        setattr(changed, name, value)
    return changed


def service_of(*rules: access_pb2.AccessRule | None, names=("Call", "Ask")):
    """Build a service with one RPC per rule."""
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
    descriptor_pb2.DESCRIPTOR.CopyToProto(
        file_descriptor_proto := descriptor_pb2.FileDescriptorProto()
    )
    pool.Add(file_descriptor_proto)
    access_pb2.DESCRIPTOR.CopyToProto(file_descriptor_proto := descriptor_pb2.FileDescriptorProto())
    pool.Add(file_descriptor_proto)
    pool.Add(file)
    return pool.FindServiceByName("one.Service")


def test_each_listener_has_services_of_its_own():
    names = [service.name for service in PUBLIC_SERVICES]
    assert names == ["GatewayService", "MerchantService", "AdminService", "WebhookService"]
    assert [service.name for service in OPERATOR_SERVICES] == ["OperatorService"]
    assert len(index_methods(SERVICES)) == len(RPCS)


@pytest.mark.parametrize("method", RPCS, ids=lambda method: method.full_name)
def test_every_rpc_has_an_access_rule(method):
    rule = rule_of(method)
    families = {
        "GatewayService": {access_pb2.CALLER_FAMILY_GATEWAY},
        "MerchantService": {access_pb2.CALLER_FAMILY_PAYMENTS, access_pb2.CALLER_FAMILY_ACCOUNT},
        "AdminService": {access_pb2.CALLER_FAMILY_ACCOUNT, access_pb2.CALLER_FAMILY_SANDBOX},
        "WebhookService": {access_pb2.CALLER_FAMILY_ACCOUNT},
        "OperatorService": {access_pb2.CALLER_FAMILY_OPERATOR},
    }
    assert rule.family in families[method.containing_service.name]
    # a caller's key needs a scope; the operator has all scopes, and a single profile
    is_operators = rule.family == access_pb2.CALLER_FAMILY_OPERATOR
    assert bool(rule.scope) is bool(rule.outage) is not is_operators


@pytest.mark.parametrize("rule", [None, access_pb2.AccessRule(scope=access_pb2.KEY_SCOPE_READ)])
def test_an_rpc_without_a_rule_fails_the_start(rule):
    with pytest.raises(ValueError, match="one.Service.Call has no access rule"):
        index_methods([service_of(rule)])


def test_service_for_operator_and_callers_fails_the_start():
    for rule in (READS, OPERATES):
        assert len(index_methods([service_of(rule, rule)])) == 2
    with pytest.raises(ValueError, match="one.Service mixes RPCs of the operator with others"):
        index_methods([service_of(READS, OPERATES)])


def test_an_rpc_that_leaves_outages_open_fails_the_start():
    with pytest.raises(ValueError, match="one.Service.Call has no outage rule"):
        index_methods([service_of(ruled(READS, outage=access_pb2.OUTAGE_RULE_UNSPECIFIED))])


@pytest.mark.parametrize("name", ["Call", "ListThings", "CreateRefund"])
@pytest.mark.parametrize("family", [access_pb2.CALLER_FAMILY_ACCOUNT, READS.family])
@pytest.mark.parametrize("outage", ["UNAVAILABLE", "BAD_GATEWAY"])
def test_outage_status_depends_only_on_its_rule(name, family, outage):
    rule = ruled(READS, family=family, outage=access_pb2.OutageRule.Value(f"OUTAGE_RULE_{outage}"))
    (method,) = index_methods([service_of(rule, names=(name,))]).values()
    assert method.is_relayed is (outage == "BAD_GATEWAY")


def image_of(*rules: access_pb2.AccessRule | None, path: str = "") -> bytes:
    service_of(*rules).file.CopyToProto(file := descriptor_pb2.FileDescriptorProto())
    if path:
        file.service[0].method[0].options.Extensions[annotations_pb2.http].get = path
    return descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()


@pytest.mark.parametrize(
    ("rule", "path", "fault"),
    [
        (None, "", "has no caller family"),
        (ruled(READS, scope=access_pb2.KEY_SCOPE_UNSPECIFIED), "/v1", "has no scope"),
        (ruled(READS, outage=access_pb2.OUTAGE_RULE_UNSPECIFIED), "", "has no outage rule"),
        (ruled(OPERATES, scope=access_pb2.KEY_SCOPE_READ), "", "operator's and sets more"),
        (OPERATES, "/v1/payouts", "operator's and has a route"),
    ],
)
def test_the_linter_names_rpcs_whose_rule_leaves_something_open(rule, path, fault):
    spec = importlib.util.spec_from_file_location("lint", PROTOS / "lint.py")
    lint = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(lint)
    (result,) = lint.unsaid(image_of(rule, READS, path=path))
    assert result.startswith("one.Service.Call ")
    assert fault in result
    assert lint.unsaid(image_of(READS, path="/v1")) == lint.unsaid(image_of(OPERATES)) == []


def test_no_rpc_of_the_operator_has_a_route():
    for service in OPERATOR_SERVICES:
        for method in service.methods:
            assert not method.GetOptions().HasExtension(annotations_pb2.http), method.full_name


def test_changing_rpc_requires_more_than_the_read_scope():
    for method in RPCS:
        changes = not method.name.startswith(("Get", "List", "Watch", "Fetch"))
        rule = rule_of(method)
        if rule.family != access_pb2.CALLER_FAMILY_OPERATOR:
            assert (rule.scope != access_pb2.KEY_SCOPE_READ) is changes, method.full_name


@pytest.mark.parametrize("code", ErrorCode)
def test_every_error_code_is_encoded_with_its_details(code):
    error = ApiError(
        code, issues=(FieldIssue("a.b", "is wrong"),), details={"reason": "why"}, retry_after_s=3
    )
    status = to_grpc_status(error)
    info, bad, retry = (
        error_details_pb2.ErrorInfo(),
        error_details_pb2.BadRequest(),
        error_details_pb2.RetryInfo(),
    )
    for result, packed in zip((info, bad, retry), status.details, strict=True):
        assert packed.Unpack(result)
    assert (info.reason, info.domain) == (code.upper(), "florin")
    assert dict(info.metadata) == {
        "code": code,
        "http_status": str(ERROR_SPECS[code].http_status),
        "reason": "why",
    }
    assert [(v.field, v.description) for v in bad.field_violations] == [("a.b", "is wrong")]
    assert retry.retry_delay.seconds == 3
    assert grpc.StatusCode[ERROR_SPECS[code].grpc_status].value[0] == status.code


@pytest.mark.parametrize("code", ErrorCode)
def test_the_gateway_reads_every_code_back(code):
    error = ApiError(code, issues=(FieldIssue("a", "b"),), details={"c": "d"}, retry_after_s=2)
    converted = rpc_status.to_status(to_grpc_status(error))
    failure = CallError(converted.code, converted.details, tuple(converted.trailing_metadata))
    refused = to_refused_error(failure)
    assert (refused.status, refused.code, refused.message) == (
        error.http_status,
        error.code,
        error.message,
    )
    assert [tuple(issue) for issue in refused.issues] == [("a", "b")]
    assert dict(refused.details) == {"c": "d"}
    assert refused.headers == ((b"retry-after", b"2"),)


def test_a_dependency_that_is_down():
    status = to_grpc_status(ApiError(ErrorCode.INTERNAL_ERROR, unavailable=True, retry_after_s=1))
    converted = rpc_status.to_status(status)
    assert converted.code is grpc.StatusCode.UNAVAILABLE
    failure = CallError(converted.code, converted.details, tuple(converted.trailing_metadata))
    assert (to_refused_error(failure).status, to_refused_error(failure).code) == (
        503,
        "internal_error",
    )


def test_no_fact_of_a_refusal_replaces_its_code():
    details = {"code": "x", "http_status": "200", "reason": "why"}
    status = to_grpc_status(ApiError(ErrorCode.INVALID_STATE, details=details))
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
    assert named == {str(code) for code in ErrorCode if code not in DEPLOYED_ONLY} | (
        named & {str(code) for code in DEPLOYED_ONLY}
    )
