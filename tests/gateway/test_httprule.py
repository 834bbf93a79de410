"""Test path templates and the router with a table of paths for google.api.http rules."""

from __future__ import annotations

import pytest
from grpc_rest_gateway.httprule import (
    PathError,
    PathRouter,
    PathWildcard,
    TemplateError,
    parse_template,
)


def router(*templates: str) -> PathRouter[str]:
    created_router: PathRouter[str] = PathRouter()
    for template in templates:
        created_router.add("GET", parse_template(template), template)
    return created_router


def test_a_template_is_read_into_its_parts():
    template = parse_template("/v1/{a.b=x/*/**}:go")
    assert template.segments == ("v1", "x", PathWildcard.ONE, PathWildcard.REST)
    assert template.verb == "go"
    variable = template.variables[0]
    assert variable.field_path == ("a", "b")
    assert (variable.start, variable.end, variable.is_multi_segment) == (1, None, True)


@pytest.mark.parametrize(
    "template",
    [
        "v1/x",
        "",
        "/",
        "/v1//x",
        "/v1/",
        "/v1/{a",
        "/v1/a}",
        "/v1/{a=x/{b}}",
        "/v1/{}",
        "/v1/{a=}",
        "/v1/{=x}",
        "/v1/{1a}",
        "/v1/{a.}",
        "/v1/{a-b}",
        "/v1/{a..b}",
        "/v1/x*",
        "/v1/*x",
        "/v1/***",
        "/v1/{a}x",
        "/v1/x{a}",
        "/v1/**/x",
        "/v1/{a=**}/x",
        "/v1/{a=**/x}",
        "/v1/x:",
        "/v1/x:go/y",
        "/v1/x:go:on",
        "/v1/x:{a}",
        "/v1/{a}/{a}",
        "/v1/{a.b}/{a.b}",
        "/v1/a b",
        "/v1/a?b=c",
        "/v1/a#b",
        "/v1/ü",
        "/v1/%zz",
        "/v1/%ff",
    ],
)
def test_a_template_against_the_rules_is_refused(template):
    with pytest.raises(TemplateError):
        parse_template(template)


@pytest.mark.parametrize(
    ("template", "path", "values"),
    [
        # literals
        ("/v1/x", "/v1/x", ()),
        ("/v1/x", "/v1/X", None),
        ("/v1/x", "/v1/x/", None),
        ("/v1/x", "//v1/x", None),
        ("/v1/x", "/v1//x", None),
        ("/v1/x", "/v1/%78", ()),
        ("/v1/a%20b", "/v1/a%20b", ()),
        ("/v1/a+b", "/v1/a+b", ()),
        ("/v1/.well-known", "/v1/.well-known", ()),
        ("/v1/x", "/v1/./x", None),
        ("/v1/x", "/v1/y/../x", None),
        # one segment
        ("/v1/{a}", "/v1/x", ("x",)),
        ("/v1/{a}", "/v1/", None),
        ("/v1/{a}", "/v1", None),
        ("/v1/{a}", "/v1/x/y", None),
        ("/v1/{a}", "/v1/x%2Fy", ("x/y",)),
        ("/v1/{a}", "/v1/%2e%2e", ("..",)),
        ("/v1/{a}", "/v1/..", ("..",)),
        ("/v1/{a}", "/v1/%252F", ("%2F",)),
        ("/v1/{a}", "/v1/%C3%BC", ("ü",)),
        ("/v1/{a}", "/v1/a+b", ("a+b",)),
        ("/v1/{a}", "/v1/a%3Fb", ("a?b",)),
        ("/v1/{a}", "/v1/a;b=c", ("a;b=c",)),
        ("/v1/{a=*}/y", "/v1/x/y", ("x",)),
        ("/v1/{a}/y", "/v1//y", None),
        ("/v1/*/y", "/v1/x/y", ()),
        ("/{a}/{b}", "/x/y", ("x", "y")),
        ("/v1/{a=x}", "/v1/x", ("x",)),
        ("/v1/{a=x}", "/v1/y", None),
        # several segments
        ("/v1/{a=x/*}", "/v1/x/y", ("x/y",)),
        ("/v1/{a=x/*}", "/v1/x/y%2Fz", ("x/y%2Fz",)),
        ("/v1/{a=x/*}", "/v1/x/y%2fz", ("x/y%2fz",)),
        ("/v1/{a=x/*}", "/v1/x/%C3%BC%20", ("x/ü ",)),
        ("/v1/{a=x/*}", "/v1/x/%252F", ("x/%2F",)),
        ("/v1/{a=x/*/y/*}", "/v1/x/1/y/2", ("x/1/y/2",)),
        ("/v1/{a=x/*}/z", "/v1/x/y/z", ("x/y",)),
        # the rest
        ("/v1/**", "/v1", ()),
        ("/v1/**", "/v1/a/b", ()),
        ("/v1/{a=**}", "/v1", ("",)),
        ("/v1/{a=**}", "/v1/", ("",)),
        ("/v1/{a=**}", "/v1/x", ("x",)),
        ("/v1/{a=**}", "/v1/x/y", ("x/y",)),
        ("/v1/{a=**}", "/v1/x//y", ("x//y",)),
        ("/v1/{a=**}", "/v1/x/y/", ("x/y/",)),
        ("/v1/{a=**}", "/v1/x%2Fy/%20", ("x%2Fy/ ",)),
        ("/v1/{a=x/**}", "/v1/x", ("x",)),
        ("/v1/{a=x/**}", "/v1/x/y/z", ("x/y/z",)),
        ("/v1/{a=x/**}", "/v1/y", None),
        ("/{a=**}", "/", ("",)),
        # verbs
        ("/v1/{a}:go", "/v1/x:go", ("x",)),
        ("/v1/{a}:go", "/v1/x", None),
        ("/v1/{a}:go", "/v1/x:stop", None),
        ("/v1/{a}:go", "/v1/x:y:go", ("x:y",)),
        ("/v1/{a}:go", "/v1/x%3Ago", None),
        ("/v1/{a}:go", "/v1/:go", None),
        ("/v1/{a}:go", "/v1/x:go/", None),
        ("/v1/{a}:go", "/v1/x:GO", None),
        ("/v1/x:go", "/v1/x:go", ()),
        ("/v1/{a=**}:go", "/v1/x/y:go", ("x/y",)),
        ("/v1/{a=**}:go", "/v1:go", ("",)),
        ("/v1/{a=**}:go", "/v1/:go", ("",)),
        ("/v1/{a}", "/v1/x:go", ("x:go",)),
        ("/v1/{a}", "/v1/:", (":",)),
        # not a path
        ("/v1/{a}", "v1/x", None),
        ("/v1/{a}", "*", None),
    ],
)
def test_a_path_matches_or_does_not(template, path, values):
    result = router(template).find_route("GET", path)
    assert (result and result[1]) == values


@pytest.mark.parametrize(
    "path", ["/v1/%", "/v1/%2", "/v1/%zz", "/v1/%ff", "/v1/x/%C3%28", "/%u0041"]
)
def test_a_path_that_cannot_be_decoded_is_an_error(path):
    with pytest.raises(PathError):
        router("/v1/{a=**}", "/{b}").find_route("GET", path)


@pytest.mark.parametrize(
    ("templates", "path", "winner"),
    [
        (["/v1/{a}", "/v1/x"], "/v1/x", "/v1/x"),
        (["/v1/x", "/v1/{a}"], "/v1/x", "/v1/x"),
        (["/v1/{a}", "/v1/x"], "/v1/y", "/v1/{a}"),
        (["/v1/**", "/v1/{a}"], "/v1/x", "/v1/{a}"),
        (["/v1/**", "/v1/{a}"], "/v1/x/y", "/v1/**"),
        (["/v1/**", "/v1/{a}"], "/v1", "/v1/**"),
        # a literal without a route does not hide the variable next to it
        (["/v1/x/y", "/v1/{a}/z"], "/v1/x/z", "/v1/{a}/z"),
        (["/v1/x/y", "/v1/{a=**}"], "/v1/x/z", "/v1/{a=**}"),
        (["/v1/m/{id}/payments", "/v1/m/payments"], "/v1/m/payments", "/v1/m/payments"),
        (["/v1/{a}", "/v1/{a}:go"], "/v1/x:go", "/v1/{a}:go"),
        (["/v1/{a}", "/v1/{a}:go"], "/v1/x:stop", "/v1/{a}"),
        (["/v1/x:go", "/v1/{a}"], "/v1/y:go", "/v1/{a}"),
    ],
)
def test_the_most_literal_route_wins(templates, path, winner):
    result = router(*templates).find_route("GET", path)
    assert result is not None
    assert result[0] == winner


@pytest.mark.parametrize(
    ("template", "other_template"),
    [
        ("/v1/{a}", "/v1/{b}"),
        ("/v1/{a}", "/v1/*"),
        ("/v1/{a=**}", "/v1/**"),
        ("/v1/x", "/v1/%78"),
        ("/v1/{a=x/*}", "/v1/x/{b}"),
        ("/v1/{a}:go", "/v1/{b}:go"),
    ],
)
def test_two_routes_of_equal_shape_are_refused(template, other_template):
    with pytest.raises(TemplateError):
        router(template, other_template)


def test_methods_of_a_path_are_listed():
    created_router: PathRouter[int] = PathRouter()
    for number, method in enumerate(("POST", "GET", "DELETE")):
        created_router.add(method, parse_template("/v1/{a}"), number)
    created_router.add("PUT", parse_template("/v1/{a}/x"), 3)
    assert created_router.list_methods("/v1/y") == ["DELETE", "GET", "POST"]
    assert created_router.find_route("PUT", "/v1/y") is None
    assert created_router.find_route("PATCH", "/v1/y") is None
    assert created_router.list_methods("/v2") == []


def test_a_method_that_the_most_literal_route_has_not_leads_nowhere():
    created_router: PathRouter[str] = PathRouter()
    created_router.add("DELETE", parse_template("/m/{id}"), "delete")
    created_router.add("PATCH", parse_template("/m/{id}"), "patch")
    created_router.add("PUT", parse_template("/m/{id=**}"), "put")
    created_router.add("GET", parse_template("/m/payments"), "list")
    assert created_router.find_route("DELETE", "/m/mrch_1") == ("delete", ("mrch_1",))
    for method in ("DELETE", "PATCH", "PUT"):
        assert created_router.find_route(method, "/m/payments") is None
        assert created_router.find_route(method, "/m/%70ayments") is None
    assert created_router.list_methods("/m/payments") == ["GET"]
    assert created_router.list_methods("/m/x") == ["DELETE", "PATCH"]
    assert created_router.list_methods("/m/x/y") == ["PUT"]


def test_a_reserved_beginning_is_never_a_variable():
    created_router: PathRouter[str] = PathRouter()
    created_router.add("GET", parse_template("/{link}"), "page")
    created_router.add("GET", parse_template("/{link=**}"), "any")
    created_router.reserve("v1")
    created_router.reserve("docs")
    created_router.add("GET", parse_template("/v1/x"), "x")
    created_router.add("PUT", parse_template("/{link}"), "put")
    assert created_router.find_route("GET", "/pay_1") == ("page", ("pay_1",))
    assert created_router.find_route("GET", "/v1/x") == ("x", ())
    for path in ("/v1", "/v1/", "/v1/y", "/docs", "/docs/a/b", "/%76%31", "/v1/x/y"):
        assert created_router.list_methods(path) == [], path
    assert created_router.find_route("GET", "/v10") == ("page", ("v10",))
    assert created_router.list_methods("/v2") == ["GET", "PUT"]


def test_a_verb_counts_for_its_method_only():
    created_router: PathRouter[str] = PathRouter()
    created_router.add("GET", parse_template("/v1/{a}"), "get")
    created_router.add("POST", parse_template("/v1/{a}:go"), "go")
    assert created_router.find_route("GET", "/v1/x:go") == ("get", ("x:go",))
    assert created_router.find_route("POST", "/v1/x:go") == ("go", ("x",))
