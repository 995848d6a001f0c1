"""Files for containers and clusters: what linters and schemas say, and that the commands in them exist."""

from __future__ import annotations

import os
import re
import shlex
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
    last = max(place for place, line in enumerate(lines) if line.startswith("FROM "))
    assert not [line for line in lines[last:] if line.startswith("USER ")][:-1], "and never as another"


def test_the_image_is_small() -> None:
    """Two stages, of which the second has no sources and no pip caches; builds of torch for CPUs."""
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    assert "slim" in text.split("FROM ")[-1].splitlines()[0]
    assert "COPY src" not in text.split("FROM ")[-1] and "rm -rf /var/lib/apt/lists" in text
    assert all("--no-cache-dir" in line for line in text.splitlines() if line.startswith("RUN pip install"))
    assert 'ARG TORCH_INDEX="https://download.pytorch.org/whl/cpu"' in text


def test_kuberay_finds_what_it_starts_in_the_image() -> None:
    """Its probes call wget, its shell reads the profile, its submitter needs Ray's dashboard."""
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    final = text.split("FROM ")[-1]
    assert "wget" in final and "/etc/profile.d/" in final
    assert 'ARG RAY="ray[default]' in text and "cluster" in text.split('ARG EXTRAS="')[1].split('"')[0].split(",")


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


@pytest.mark.parametrize("group", ["headGroupSpec", "workerGroupSpecs"])
def test_pods_of_the_ray_job_fit_the_schemas_of_kubernetes(group: str, tmp_path: Path) -> None:
    (job,) = documents("kuberay-recommend.yaml")
    given = job["spec"]["rayClusterSpec"][group]
    for number, each in enumerate(given if isinstance(given, list) else [given]):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"pod-{number}"}, **each["template"]}
        file = tmp_path / f"{number}.yaml"
        file.write_text(yaml.safe_dump(pod), encoding="utf-8")
        run = subprocess.run(
            [tool("kubernetes-validate"), "--strict", str(file)], capture_output=True, text=True, check=False
        )
        assert run.returncode == 0, run.stdout + run.stderr


def test_the_ray_job_has_fields_that_kuberay_knows() -> None:
    """A misspelt field of a custom resource is dropped without a word."""
    (job,) = documents("kuberay-recommend.yaml")
    assert set(job["spec"]) <= {
        *("entrypoint", "metadata", "runtimeEnvYAML", "shutdownAfterJobFinishes", "ttlSecondsAfterFinished"),
        *("activeDeadlineSeconds", "backoffLimit", "submissionMode", "submitterPodTemplate", "submitterConfig"),
        *("entrypointNumCpus", "entrypointNumGpus", "entrypointResources", "suspend", "rayClusterSpec"),
    }
    cluster = job["spec"]["rayClusterSpec"]
    assert set(cluster) <= {"rayVersion", "headGroupSpec", "workerGroupSpecs", "enableInTreeAutoscaling"}
    assert set(cluster["headGroupSpec"]) <= {"rayStartParams", "serviceType", "template"}
    known = {"groupName", "replicas", "minReplicas", "maxReplicas", "numOfHosts", "rayStartParams", "template"}
    assert all(set(group) <= known for group in cluster["workerGroupSpecs"])


def test_the_ray_job_and_its_image_have_one_version_of_ray() -> None:
    (job,) = documents("kuberay-recommend.yaml")
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    assert f'ARG RAY="ray[default]=={job["spec"]["rayClusterSpec"]["rayVersion"]}"' in text


def test_the_compose_file_is_accepted(tmp_path: Path) -> None:
    """By Docker's own reader, which needs no server."""
    file, root = str(DEPLOY / "compose.yaml"), str(DEPLOY.parent)
    for command in (["docker", "compose"], ["docker-compose"]):
        if shutil.which(command[0]) is None:
            continue
        there = subprocess.run([*command, "version"], capture_output=True, text=True, check=False)
        if there.returncode:
            continue
        asked = [*command, "-f", file, "--project-directory", root, "config"]
        environment = {**os.environ, "YINYAN_MODEL": "./some-model", "HOME": str(tmp_path)}
        run = subprocess.run(asked, capture_output=True, text=True, env=environment, check=False)
        assert run.returncode == 0, run.stderr
        read = yaml.safe_load(run.stdout)
        assert set(read["services"]) == {"log", "service"} and "some-model" in run.stdout
        return
    if os.environ.get("YINYAN_COMPOSE") == "required":
        pytest.fail("YINYAN_COMPOSE=required, but there is neither docker compose nor docker-compose")
    pytest.skip("there is neither docker compose nor docker-compose (Debian's package: docker-compose)")


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
    yield "compose.yaml", _words(compose["services"]["service"]["command"][0])
    yield "kuberay-recommend.yaml", ray["spec"]["entrypoint"].split()[1:]
    args = documents("torchrun-job.yaml")[1]["spec"]["template"]["spec"]["containers"][0]["args"]
    yield "torchrun-job.yaml", args[args.index("yinyan") + 1 :]
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    yield "Dockerfile", yaml.safe_load(text.split("\nCMD ")[-1])


def _words(command: str) -> list[str]:
    """What a shell makes of a command in the compose file, whose $$ stands for $."""
    return shlex.split(re.sub(r"\$\$\(.*?\)", "secret", command.removeprefix("exec ")))[1:]


@pytest.mark.parametrize(("file", "words"), list(commands()), ids=lambda value: value if isinstance(value, str) else "")
def test_the_command_line_reads_the_commands(file: str, words: list[str]) -> None:
    """As for a call, without running it: unknown options, missing arguments and wrong types are refused."""
    group: Any = typer.main.get_command(app)
    command = group.commands[words[0]]
    assert [word for word in words[1:] if word.startswith("-")], f"{file}: it has no options"
    with command.make_context(words[0], list(words[1:])) as context:
        assert context.params
    with pytest.raises(Exception, match="No such option"):
        command.make_context(words[0], [*words[1:], "--no-such-option"])


def test_torchrun_reads_its_options() -> None:
    from torch.distributed.run import get_args_parser

    args = documents("torchrun-job.yaml")[1]["spec"]["template"]["spec"]["containers"][0]["args"]
    read = get_args_parser().parse_args(args)
    assert read.module and read.training_script == "yinyan" and read.training_script_args[0] == "fit"
    assert (read.nnodes, read.rdzv_backend, read.max_restarts) == ("4", "c10d", 3)
