"""Files for containers and clusters: what linters and schemas say, and that the commands in them exist."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from yinyan.cli.commands import app

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed (extra dev)")

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
BIN = Path(sys.executable).parent


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DEPLOY / name).read_text(encoding="utf-8")))


def tool(name: str) -> str:
    found = shutil.which(name, path=str(BIN)) or shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed (extra dev)")
    return found


def test_the_dockerfile_has_no_findings() -> None:
    run = subprocess.run([tool("hadolint"), str(DEPLOY / "Dockerfile")], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout


def test_the_image_runs_as_a_user_without_rights() -> None:
    lines = (DEPLOY / "Dockerfile").read_text(encoding="utf-8").splitlines()
    users = [line.split()[1] for line in lines if line.startswith("USER ")]
    assert users and users[-1] not in ("root", "0")


def test_the_training_job_fits_the_schemas_of_kubernetes() -> None:
    run = subprocess.run(
        [tool("kubernetes-validate"), "--strict", str(DEPLOY / "torchrun-job.yaml")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_as_many_pods_as_ranks_meet_at_the_first() -> None:
    service, job = documents("torchrun-job.yaml")
    args = job["spec"]["template"]["spec"]["containers"][0]["args"]
    given = dict(arg.lstrip("-").split("=", 1) for arg in args if "=" in arg)
    assert int(given["nnodes"]) == job["spec"]["completions"] == job["spec"]["parallelism"]
    host, port = given["rdzv-endpoint"].split(":")
    assert host == f"{job['metadata']['name']}-0.{service['metadata']['name']}"
    assert int(port) == service["spec"]["ports"][0]["port"]
    assert job["spec"]["template"]["spec"]["subdomain"] == service["metadata"]["name"]


def test_the_ray_job_has_the_parts_that_kuberay_asks_for() -> None:
    (job,) = documents("kuberay-recommend.yaml")
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    cluster = job["spec"]["rayClusterSpec"]
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    for group in groups:
        container = group["template"]["spec"]["containers"][0]
        volumes = {volume["name"] for volume in group["template"]["spec"]["volumes"]}
        assert {mount["name"] for mount in container["volumeMounts"]} <= volumes
        assert "rayStartParams" in group


def test_services_of_the_compose_file_find_what_they_name() -> None:
    (compose,) = documents("compose.yaml")
    assert set(compose["services"]) == {"log", "service"}
    for service in compose["services"].values():
        assert set(service.get("secrets", ())) <= set(compose["secrets"])
        assert set(service.get("depends_on", ())) <= set(compose["services"])
    root = DEPLOY.parent
    assert (root / compose["services"]["service"]["build"]["dockerfile"]).is_file()


def commands() -> Iterator[tuple[str, list[str]]]:
    """Each command line of yinyan in the manifests, by its file."""
    (compose,), (ray,) = documents("compose.yaml"), documents("kuberay-recommend.yaml")
    yield "compose.yaml", compose["services"]["service"]["command"][0].removeprefix("exec ").split()[1:]
    yield "kuberay-recommend.yaml", ray["spec"]["entrypoint"].split()[1:]
    args = documents("torchrun-job.yaml")[1]["spec"]["template"]["spec"]["containers"][0]["args"]
    yield "torchrun-job.yaml", args[args.index("yinyan") + 1 :]
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    yield "Dockerfile", yaml.safe_load(text.split("\nCMD ")[-1])


@pytest.mark.parametrize(("file", "words"), list(commands()), ids=lambda value: value if isinstance(value, str) else "")
def test_commands_and_their_options_exist(file: str, words: list[str]) -> None:
    group: Any = typer.main.get_command(app)
    command = group.commands[words[0]]
    known = {name for parameter in command.params for name in parameter.opts}
    given = [word for word in words[1:] if word.startswith("-")]
    assert given and set(given) <= known, f"{file}: {sorted(set(given) - known)}"
