"""Templates show every value as text, whoever it is from, and are all there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from florin_server.domain.payments.payment import Status
from florin_server.web import render
from florin_server.web.capture import page as capture
from florin_server.web.capture.page import Form, Group, Input, Look
from florin_server.web.payments import page as payments
from florin_server.web.payments.page import Checkout
from jinja2 import UndefinedError

from tests.support.markup import HOSTILE, Seen

FOLDER = Path(render.__file__).with_name("templates")
HTML = sorted(str(file.relative_to(FOLDER)) for file in FOLDER.rglob("*.html"))
INLINE = sorted(str(file.relative_to(FOLDER)) for file in FOLDER.rglob("*.*s"))


def groups(word: str) -> tuple[Group, ...]:
    return (
        Group("", (Input("fullName", f"Name {word}", "text", required=True),)),
        Group(f"Legend {word}", (Input("dob", f"Date {word}", "date", required=False),)),
        Group("", (Input("tosConfirmed", f"Terms {word}", "checkbox", required=True),)),
    )


def forms(word: str) -> Form:
    return Form(
        merchant=word,
        token=word,
        live=False,
        groups=groups(word),
        values={"fullName": word, "dob": word, "tosConfirmed": "true"},
        errors={"dob": f"must {word}", "tosConfirmed": f"is {word}", "elsewhere": f"is {word}"},
    )


def checkout(word: str, status: str) -> Checkout:
    return Checkout(
        merchant=word,
        amount=word,
        status=status,
        link=f"https://pay.example/{word}",
        live=False,
        back=f"https://shop.example/{word}",
    )


def pages(word: str) -> dict[str, bytes]:
    """Every page that shows a value, with a word in place of each."""
    look = Look(theme="dark")
    shown = {f"checkout {s}": payments.page(checkout(word, s)) for s in Status}
    shown |= {
        "form": capture.form(forms(word), look),
        "failed": capture.failed(word, look, 400),
    }
    return {name: answer.body for name, answer in shown.items()}


@pytest.mark.parametrize("name", pages("x"))
def test_every_value_is_text_and_nothing_else(name):
    usual, hostile = Seen(pages("Zephyr")[name]), Seen(pages(HOSTILE)[name])
    # nothing that was given became a tag or an attribute
    assert hostile.tags == usual.tags
    # and nothing was lost
    assert hostile.times(HOSTILE) == usual.times("Zephyr") > 0


def test_a_theme_is_one_of_two():
    for theme, told in (("dark", ' data-theme="dark"'), (HOSTILE, ""), ("", "")):
        page = capture.done(Look(theme)).body.decode()
        assert f'<html lang="en"{told}>' in page
    unthemed = capture.form(replace(forms("x"), errors={}), Look('dark" x="'))
    assert b"data-theme=" not in unthemed.body.partition(b"<style>")[0]


@pytest.mark.parametrize("name", HTML)
def test_no_template_turns_escaping_off(name):
    text = (FOLDER / name).read_text()
    assert not any(word in text for word in ("safe", "autoescape", "Markup"))
    # texts in a script are not what browsers unescape
    assert "{{" not in text.partition("<script")[2].partition(">")[2].partition("</script>")[0]


@pytest.mark.parametrize("name", INLINE)
def test_what_is_put_into_pages_is_what_its_hash_says(name):
    # nothing in it is taken for a tag of the template language
    assert render.html(name, 200, ()).body == (FOLDER / name).read_bytes()


def test_a_value_that_nobody_gave_is_an_error():
    with pytest.raises(UndefinedError, match="'title' is undefined"):
        render.html("payments/notice.html", 404, (), text="x")
    with pytest.raises(UndefinedError, match="has no attribute .amount"):
        render.html("payments/checkout.html", 200, (), told={})
