"""The files that GitHub and editors read name targets, versions and folders that exist."""

import re
import subprocess
import tomllib

import pytest
import yaml

from tests.support.documents import ROOT

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
FORMS = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def read_project(folder):
    with (ROOT / folder / "pyproject.toml").open("rb") as file:
        return tomllib.load(file)["project"]


def list_steps(workflow):
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_workflows_call_targets_of_the_makefile(file):
    runs = [step["run"] for step in list_steps(yaml.safe_load(file.read_text())) if "run" in step]
    called = [run.split()[1] for run in runs if run.startswith("make ")]
    assert set(called) <= TARGETS


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_workflows_get_no_rights_that_they_do_not_name(file):
    workflow = yaml.safe_load(file.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    checkouts = [
        step for step in list_steps(workflow) if step.get("uses", "").startswith("actions/checkout")
    ]
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)
    assert all(job["timeout-minutes"] <= 90 for job in workflow["jobs"].values())
    # the trigger that gives forks the rights of this repository (`on` is a boolean in YAML 1.1)
    assert "pull_request_target" not in workflow[True]


def test_each_python_version_is_tested_and_installable():
    workflow = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text())
    tested = workflow["jobs"]["quick"]["strategy"]["matrix"]["python"]
    classified = [
        name.rpartition(" ")[2]
        for name in read_project(".")["classifiers"]
        if name.startswith("Programming Language :: Python :: 3.")
    ]
    assert tested == classified
    next_version = f"3.{int(tested[-1].partition('.')[2]) + 1}"
    for folder in (".", "sandbox"):
        assert read_project(folder)["requires-python"] == f">={tested[0]},<{next_version}"


def test_folders_with_updates_have_files_to_update():
    updates = yaml.safe_load((ROOT / ".github/dependabot.yml").read_text())["updates"]
    expected = {
        "uv": "uv.lock",
        "npm": "package.json",
        "github-actions": ".github/workflows",
    }
    for update in updates:
        folder = ROOT / update["directory"].strip("/")
        assert (folder / expected[update["package-ecosystem"]]).exists(), update


@pytest.mark.parametrize("file", FORMS, ids=lambda file: file.name)
def test_issue_forms_have_what_github_requires(file):
    form = yaml.safe_load(file.read_text())
    if file.name == "config.yml":
        assert form == {"blank_issues_enabled": True}
        return
    assert {"name", "description", "body"} <= form.keys()
    ids = [item["id"] for item in form["body"] if item["type"] != "markdown"]
    assert len(ids) == len(set(ids)) > 0


def test_make_help_lists_each_target():
    listed = subprocess.run(
        ["make", "--no-print-directory", "help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert {target for target in TARGETS if not re.search(rf"\b{target}\b", listed)} == set()


def test_image_and_checkout_install_with_the_same_uv():
    (version,) = re.findall(r"^UV_VERSION := (\S+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    image = (ROOT / "deploy/container/Containerfile").read_text()
    assert re.findall(r"uv==(\S+)", image) == [version]
    lock = tomllib.loads((ROOT / "uv.lock").read_text())
    assert [each["version"] for each in lock["package"] if each["name"] == "uv"] == [version]


def test_the_lock_names_public_registries_only():
    lock = (ROOT / "uv.lock").read_text()
    assert set(re.findall(r"https://([^/\"]+)", lock)) == {"pypi.org", "files.pythonhosted.org"}
