"""Path templates and the router, as a table of what the rules of google.api.http make of paths."""

from __future__ import annotations

import pytest
from florin_gateway.httprule import PathError, Router, TemplateError, Wildcard, parse_template


def router(*templates: str) -> Router[str]:
    made: Router[str] = Router()
    for template in templates:
        made.add("GET", parse_template(template), template)
    return made


def test_a_template_is_read_into_its_parts():
    template = parse_template("/v1/{a.b=x/*/**}:go")
    assert template.segments == ("v1", "x", Wildcard.ONE, Wildcard.REST)
    assert template.verb == "go"
    variable = template.variables[0]
    assert variable.field_path == ("a", "b")
    assert (variable.start, variable.end, variable.several) == (1, None, True)


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
    found = router(template).find("GET", path)
    assert (found and found[1]) == values


@pytest.mark.parametrize(
    "path", ["/v1/%", "/v1/%2", "/v1/%zz", "/v1/%ff", "/v1/x/%C3%28", "/%u0041"]
)
def test_a_path_that_cannot_be_decoded_is_an_error(path):
    with pytest.raises(PathError):
        router("/v1/{a=**}", "/{b}").find("GET", path)


@pytest.mark.parametrize(
    ("templates", "path", "winner"),
    [
        (["/v1/{a}", "/v1/x"], "/v1/x", "/v1/x"),
        (["/v1/x", "/v1/{a}"], "/v1/x", "/v1/x"),
        (["/v1/{a}", "/v1/x"], "/v1/y", "/v1/{a}"),
        (["/v1/**", "/v1/{a}"], "/v1/x", "/v1/{a}"),
        (["/v1/**", "/v1/{a}"], "/v1/x/y", "/v1/**"),
        (["/v1/**", "/v1/{a}"], "/v1", "/v1/**"),
        # a literal that leads nowhere does not hide the variable beside it
        (["/v1/x/y", "/v1/{a}/z"], "/v1/x/z", "/v1/{a}/z"),
        (["/v1/x/y", "/v1/{a=**}"], "/v1/x/z", "/v1/{a=**}"),
        (["/v1/m/{id}/payments", "/v1/m/payments"], "/v1/m/payments", "/v1/m/payments"),
        (["/v1/{a}", "/v1/{a}:go"], "/v1/x:go", "/v1/{a}:go"),
        (["/v1/{a}", "/v1/{a}:go"], "/v1/x:stop", "/v1/{a}"),
        (["/v1/x:go", "/v1/{a}"], "/v1/y:go", "/v1/{a}"),
    ],
)
def test_the_most_literal_route_wins(templates, path, winner):
    found = router(*templates).find("GET", path)
    assert found is not None
    assert found[0] == winner


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("/v1/{a}", "/v1/{b}"),
        ("/v1/{a}", "/v1/*"),
        ("/v1/{a=**}", "/v1/**"),
        ("/v1/x", "/v1/%78"),
        ("/v1/{a=x/*}", "/v1/x/{b}"),
        ("/v1/{a}:go", "/v1/{b}:go"),
    ],
)
def test_two_routes_of_equal_shape_are_refused(one, other):
    with pytest.raises(TemplateError):
        router(one, other)


def test_the_methods_of_a_path_are_known():
    made: Router[int] = Router()
    for number, method in enumerate(("POST", "GET", "DELETE")):
        made.add(method, parse_template("/v1/{a}"), number)
    made.add("PUT", parse_template("/v1/{a}/x"), 3)
    assert made.methods("/v1/y") == ["DELETE", "GET", "POST"]
    assert made.find("PUT", "/v1/y") is None
    assert made.find("PATCH", "/v1/y") is None
    assert made.methods("/v2") == []


def test_a_method_that_the_most_literal_route_has_not_leads_nowhere():
    made: Router[str] = Router()
    made.add("DELETE", parse_template("/m/{id}"), "delete")
    made.add("PATCH", parse_template("/m/{id}"), "patch")
    made.add("PUT", parse_template("/m/{id=**}"), "put")
    made.add("GET", parse_template("/m/payments"), "list")
    assert made.find("DELETE", "/m/mrch_1") == ("delete", ("mrch_1",))
    for method in ("DELETE", "PATCH", "PUT"):
        assert made.find(method, "/m/payments") is None
        assert made.find(method, "/m/%70ayments") is None
    assert made.methods("/m/payments") == ["GET"]
    assert made.methods("/m/x") == ["DELETE", "PATCH"]
    assert made.methods("/m/x/y") == ["PUT"]


def test_a_reserved_beginning_is_never_a_variable():
    made: Router[str] = Router()
    made.add("GET", parse_template("/{link}"), "page")
    made.add("GET", parse_template("/{link=**}"), "any")
    made.reserve("v1")
    made.reserve("docs")
    made.add("GET", parse_template("/v1/x"), "x")
    made.add("PUT", parse_template("/{link}"), "put")
    assert made.find("GET", "/pay_1") == ("page", ("pay_1",))
    assert made.find("GET", "/v1/x") == ("x", ())
    for path in ("/v1", "/v1/", "/v1/y", "/docs", "/docs/a/b", "/%76%31", "/v1/x/y"):
        assert made.methods(path) == [], path
    assert made.find("GET", "/v10") == ("page", ("v10",))
    assert made.methods("/v2") == ["GET", "PUT"]


def test_a_verb_counts_for_its_method_only():
    made: Router[str] = Router()
    made.add("GET", parse_template("/v1/{a}"), "get")
    made.add("POST", parse_template("/v1/{a}:go"), "go")
    assert made.find("GET", "/v1/x:go") == ("get", ("x:go",))
    assert made.find("POST", "/v1/x:go") == ("go", ("x",))
