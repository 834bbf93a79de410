"""The form for data about a buyer, in the web view of a wallet or a browser.

Plain HTML that works without its script. The script tells the wallet how it ended, and takes the
address, in which a wallet may have put data, out of sight; no data ever goes to a wallet.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from string import Template

import orjson
from florin_gateway.plain import PlainAnswer

_STYLE = """
:root { color-scheme: light dark; font-family: system-ui, sans-serif; line-height: 1.5; }
:root[data-theme=light] { color-scheme: light; }
:root[data-theme=dark] { color-scheme: dark; }
body { margin: 0 auto; max-width: 28rem; padding: 1rem; }
h1 { font-size: 1.3rem; margin: 0 0 .5rem; }
fieldset { border: 1px solid; border-radius: .5rem; margin: 0 0 1rem; padding: 0 1rem; }
label { display: block; font-weight: 600; }
input { box-sizing: border-box; font: inherit; min-height: 2.75rem; padding: .4rem; width: 100%; }
input[type=checkbox] { margin: 0 .75rem 0 0; min-height: 1.5rem; min-width: 1.5rem; width: auto; }
.check { align-items: center; display: flex; }
.error { border-inline-start: .25rem solid; display: block; padding-inline-start: .5rem; }
button { border-radius: .5rem; font: inherit; min-height: 3rem; width: 100%; }
"""
_SCRIPT = """
(function () {
  history.replaceState(null, "", location.pathname);
  var text = document.body.dataset.message;
  if (!text) { return; }
  function attempt(send) { try { send(); } catch (error) { return; } }
  attempt(function () { window.ReactNativeWebView.postMessage(text); });
  attempt(function () { window.AndroidWallet.onDataCollectionComplete(text); });
  attempt(function () {
    window.webkit.messageHandlers.payDataCollectionComplete.postMessage(text);
  });
  attempt(function () { if (window.opener) { window.opener.postMessage(text, "*"); } });
  attempt(function () { if (window.parent !== window) { window.parent.postMessage(text, "*"); } });
})();
"""
_PAGE = Template("""<!doctype html>
<html lang="en"$theme>
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>$style</style>
</head>
<body$message>
<main>
$content
</main>
<script>$script</script>
</body>
</html>
""")
_FORM = Template("""<h1>About you</h1>
<p><bdi>$merchant</bdi> has to know who pays. Your wallet does not see what you write here.</p>
$mode$summary<form method="post" action="?" novalidate>
<input type="hidden" name="token" value="$token">
$fields<p><button type="submit">Continue</button></p>
</form>
""")
_INPUT = Template("""<p><label for="$id">$name</label>
$error<input id="$id" name="$id" type="$kind" value="$value"$more></p>
""")
_CHECKBOX = Template("""<div>$error<p class="check">
<input id="$id" name="$id" type="checkbox" value="true"$more>
<label for="$id">$name</label></p></div>
""")
_GROUP = Template("""<fieldset>
<legend>$legend</legend>
$fields</fieldset>
""")
_SUMMARY = Template("""<div role="alert"><p>Something is missing or wrong:</p>
<ul>
$lines</ul></div>
""")
# what browsers fill in by themselves, and what helps to type it
_HELP = {
    "fullName": ' autocomplete="name"',
    "dob": ' autocomplete="bday"',
    "pobCountry": ' maxlength="2" autocapitalize="characters" placeholder="DE"',
    "pobAddress": ' maxlength="200"',
    "porCountry": ' maxlength="2" autocapitalize="characters" autocomplete="country"'
    ' placeholder="DE"',
    "porAddress": ' maxlength="200" autocomplete="street-address"',
}


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


_POLICY = (
    f"default-src 'none'; style-src 'sha256-{_hash(_STYLE)}'; "
    f"script-src 'sha256-{_hash(_SCRIPT)}'; base-uri 'none'; form-action 'self'; frame-ancestors "
)


@dataclass(frozen=True, slots=True)
class Input:
    """One value of the form; `kind` is that of the input element."""

    id: str
    name: str
    kind: str
    required: bool


@dataclass(frozen=True, slots=True)
class Group:
    """Inputs that belong together, under a sentence that says how; alone if it is empty."""

    legend: str
    inputs: Sequence[Input]


@dataclass(frozen=True, slots=True)
class Look:
    """How a page is shown: `theme` is light, dark or empty, `frames` are the sites around it."""

    theme: str = ""
    frames: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Form:
    """What the form holds: `values` and `errors` by the ids of its inputs."""

    merchant: str
    token: str
    live: bool
    groups: Sequence[Group]
    values: Mapping[str, str] = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)


def form(told: Form, look: Look, status: int = 200) -> PlainAnswer:
    """The form, with what is wrong with it."""
    content = _FORM.substitute(
        merchant=escape(told.merchant),
        mode="" if told.live else "<p>Test payment: do not write real data.</p>\n",
        summary=_summary(told),
        token=escape(told.token),
        fields="".join(_group(group, told) for group in told.groups),
    )
    return _html("About you", content, look, status)


def done(look: Look) -> PlainAnswer:
    """The page after the form was handed in; it tells the wallet to go on."""
    content = '<h1>Thank you.</h1>\n<p role="status">You can go back to your wallet.</p>'
    return _html("Thank you", content, look, 200, {"type": "IC_COMPLETE", "success": True})


def failed(why: str, look: Look, status: int) -> PlainAnswer:
    """The page of a form that is of no use; it tells the wallet so."""
    content = f'<h1>This form cannot be used.</h1>\n<p role="alert">{escape(why)}.</p>'
    message = {"type": "IC_ERROR", "success": False, "error": why}
    return _html("Not possible", content, look, status, message)


def _group(group: Group, told: Form) -> str:
    fields = "".join(_input(one, told) for one in group.inputs)
    if not group.legend:
        return fields
    return _GROUP.substitute(legend=escape(group.legend), fields=fields)


def _input(one: Input, told: Form) -> str:
    error, value = told.errors.get(one.id), told.values.get(one.id, "")
    more = _HELP.get(one.id, "") + (" required" if one.required else "")
    shown = ""
    if error is not None:
        more += f' aria-invalid="true" aria-describedby="{one.id}-error"'
        shown = f'<span class="error" id="{one.id}-error">{escape(_sentence(error))}</span>\n'
    checkbox = one.kind == "checkbox"
    if checkbox and value == "true":
        more += " checked"
    template = _CHECKBOX if checkbox else _INPUT
    return template.substitute(
        id=one.id, name=escape(one.name), kind=one.kind, value=escape(value), more=more, error=shown
    )


def _summary(told: Form) -> str:
    if not told.errors:
        return ""
    names = {one.id: one.name for group in told.groups for one in group.inputs}
    lines = [
        f'<li><a href="#{escape(at)}">{escape(names[at])}</a>: {escape(_sentence(why))}</li>\n'
        if at in names
        else f"<li>{escape(_sentence(why))}</li>\n"
        for at, why in told.errors.items()
    ]
    return _SUMMARY.substitute(lines="".join(lines))


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."


def _html(
    title: str,
    content: str,
    look: Look,
    status: int,
    message: Mapping[str, object] | None = None,
) -> PlainAnswer:
    theme = look.theme if look.theme in {"light", "dark"} else ""
    told = "" if message is None else orjson.dumps(message).decode()
    text = _PAGE.substitute(
        title=escape(title),
        style=_STYLE,
        script=_SCRIPT,
        content=content,
        theme=f' data-theme="{theme}"' if theme else "",
        message=f' data-message="{escape(told)}"' if told else "",
    )
    frames = " ".join(look.frames) or "'none'"
    headers = (
        (b"content-security-policy", (_POLICY + frames).encode()),
        (b"referrer-policy", b"no-referrer"),
        (b"x-content-type-options", b"nosniff"),
    )
    return PlainAnswer(status, text.encode(), "text/html; charset=utf-8", headers)
