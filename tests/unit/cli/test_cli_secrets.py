"""Test that secret options come from files, stdin or the environment; other ways get a hint."""

from __future__ import annotations

import io

import pytest
from florin_server.cli.console import use_json
from florin_server.cli.secret_options import has_secret, read_secret, read_urls

KEY = "sk_test_0123456789abcdef0123456789"
NODE = f"https://base.node.example/v2/{KEY}"


@pytest.fixture(autouse=True)
def for_people():
    use_json(as_json=False)


def test_secret_is_read_from_a_file_or_stdin_without_a_hint(tmp_path, monkeypatch, capsys):
    file = tmp_path / "key"
    file.write_text(f"{KEY}\n")
    assert read_secret(f"@{file}", "--api-key", "FLORIN_PARTNER_KEY") == KEY
    monkeypatch.setattr("sys.stdin", io.StringIO(f" {KEY} \n"))
    assert read_secret("-", "--api-key", "FLORIN_PARTNER_KEY") == KEY
    assert capsys.readouterr().err == ""


def test_secret_on_the_command_line_works_with_a_hint_that_does_not_hold_it(capsys):
    assert read_secret(KEY, "--api-key", "FLORIN_PARTNER_KEY") == KEY
    err = capsys.readouterr().err
    assert "--api-key @FILE" in err
    assert "FLORIN_PARTNER_KEY" in err
    assert KEY not in err


@pytest.mark.parametrize("content", [None, "", " \n", b"\xff\xfe"])
def test_file_that_holds_no_secret_ends_the_command(tmp_path, content, capsys):
    file = tmp_path / "key"
    if content is not None:
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(SystemExit) as end:
        read_secret(f"@{file}", "--api-key", "FLORIN_PARTNER_KEY")
    assert end.value.code == 2
    assert str(file) in capsys.readouterr().err.replace("\n", "")


def test_urls_come_from_options_files_and_the_environment(tmp_path, monkeypatch, capsys):
    file = tmp_path / "nodes"
    file.write_text(f"eip155:1={NODE}\neip155:10=https://b.example\n")
    item = tmp_path / "node"
    item.write_text(NODE)
    value = (f"@{file}", f"eip155:8453=@{item}", "http://127.0.0.1:8545/")
    assert read_urls(value, "--rpc-url", "FLORIN_RPC_URL") == (
        *(f"eip155:1={NODE}", "eip155:10=https://b.example", f"eip155:8453={NODE}"),
        "http://127.0.0.1:8545/",
    )
    monkeypatch.setenv("FLORIN_RPC_URL", f"{NODE} https://c.example")
    assert read_urls((), "--rpc-url", "FLORIN_RPC_URL") == (NODE, "https://c.example")
    monkeypatch.delenv("FLORIN_RPC_URL")
    assert read_urls((), "--rpc-url", "FLORIN_RPC_URL") == ()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("text", [NODE, f"eip155:8453={NODE}", "https://a.example/?apikey=x"])
def test_url_with_a_key_on_the_command_line_is_hinted_at(text, capsys):
    assert read_urls((text,), "--rpc-url", "FLORIN_RPC_URL") == (text,)
    err = capsys.readouterr().err
    assert "--rpc-url @FILE" in err
    assert KEY not in err


@pytest.mark.parametrize(
    ("url", "holds"),
    [
        (NODE, True),
        ("https://user:word@node.example", True),
        ("https://node.example/?key=1", True),
        ("https://mainnet.infura.example/v3/9aa3d95b3bc440fa88ea12eaa4456161", True),
        ("http://127.0.0.1:8545", False),
        ("https://mainnet.base.example/", False),
        ("https://arbitrum-one-rpc.publicnode.example/rpc", False),
        ("https://[", False),
    ],
)
def test_key_in_a_url_is_recognized(url, holds):
    assert has_secret(url) is holds
