"""What can be checked of the container and the deployment files without an engine that runs them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import dice_ce
from tests.archive.material import wait_until

ROOT = Path(__file__).parent.parent
CONTAINERFILE = ROOT / "Containerfile"
BIN = Path(sys.executable).parent


def instructions(text: str) -> list[tuple[str, str]]:
    """Instructions of a Containerfile with their arguments, comments left out and lines joined."""
    joined = re.sub(r"\\\n\s*", " ", re.sub(r"^\s*#.*\n", "", text, flags=re.M))
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in joined.splitlines() if line.strip())]


def last(name: str) -> str:
    return [rest for word, rest in instructions(CONTAINERFILE.read_text()) if word == name][-1]


def lint(program: str, *files: Path) -> None:
    if not (BIN / program).exists():
        pytest.skip(f"{program} is not installed; it comes with the extra 'dev'")
    done = subprocess.run([BIN / program, *files], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def confined(*command: object) -> list[str]:
    """The command without root's power to write what cannot be written, which the container's user does not have."""
    return [*(["setpriv", "--bounding-set=-all"] if os.geteuid() == 0 else []), *map(str, command)]


def protect(folder: Path) -> None:
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)


def test_the_containerfile_is_free_of_lint() -> None:
    lint("hadolint", CONTAINERFILE)


def test_the_container_does_not_run_as_root_and_reports_to_nobody() -> None:
    assert int(last("USER").split(":")[0]) > 0
    assert "RAY_USAGE_STATS_ENABLED=0" in last("ENV")
    assert json.loads(last("ENTRYPOINT")) == ["dice-ce"]


def test_every_file_that_the_container_copies_exists() -> None:
    for name, rest in instructions(CONTAINERFILE.read_text()):
        if name == "COPY" and not rest.startswith("--from"):
            assert all((ROOT / part).exists() for part in rest.split()[:-1]), rest


def test_the_containers_extras_exist() -> None:
    wanted = re.search(r"'\.\[(.*?)\]'", CONTAINERFILE.read_text())
    assert wanted is not None
    text = (ROOT / "pyproject.toml").read_text()
    assert all(re.search(rf"^{extra} = \[", text, re.M) for extra in wanted[1].split(","))


def test_the_containers_steps_work_in_a_clean_prefix_that_cannot_be_written(tmp_path: Path) -> None:
    """Build the wheel's content by the same files, then run the entry point read-only, with nothing but a tmp."""
    context, prefix, tmp = tmp_path / "source", tmp_path / "opt", tmp_path / "tmp"
    tmp.mkdir()
    for name, rest in instructions(CONTAINERFILE.read_text()):
        if name == "COPY" and not rest.startswith("--from"):
            *sources, target = rest.split()
            for source in sources:
                place = context / target / (Path(source).name if target.endswith("/") else "")
                place.parent.mkdir(parents=True, exist_ok=True)
                copy = shutil.copytree if (ROOT / source).is_dir() else shutil.copy
                copy(ROOT / source, place)  # type: ignore[operator]
    # Offline: the builder is installed already, and so are the dependencies, beside which the package is put.
    offline = {"PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    protect(context)
    built = subprocess.run(
        confined(*install, "--target", prefix, context),
        capture_output=True, text=True, check=False, env={**os.environ, **offline},
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    settings = dict(part.split("=", 1) for part in last("ENV").split())
    ours = {name: value.replace("/tmp", str(tmp)) for name, value in settings.items() if name != "PATH"}
    protect(prefix)
    before = sorted(prefix.rglob("*"))
    environment = {"PATH": os.environ["PATH"], **ours, "PYTHONPATH": str(prefix)}
    refused = subprocess.run(confined("touch", prefix / "dice_ce" / "new"), capture_output=True, check=False)
    assert refused.returncode != 0
    where = [sys.executable, "-c", "import dice_ce; print(dice_ce.__file__, dice_ce.__version__)"]
    done = subprocess.run(where, capture_output=True, text=True, check=True, env=environment, cwd=tmp)
    assert done.stdout.split() == [str(prefix / "dice_ce" / "__init__.py"), dice_ce.__version__]
    check = [ROOT / "tests" / "no_sockets.py", sys.executable, "-m", "dice_ce.cli", "bundle", "check"]
    done = subprocess.run(
        confined(sys.executable, *check), capture_output=True, text=True, check=False, env=environment, cwd=tmp
    )
    assert done.returncode == 0, done.stderr
    assert sorted(prefix.rglob("*")) == before
    for path in tmp_path.rglob("*"):
        if path.is_dir():
            path.chmod(0o755)


# --- Kubernetes and Slurm ---------------------------------------------------------------------------------------------


def ray_job() -> dict[str, Any]:
    yaml = pytest.importorskip("yaml")
    job = yaml.safe_load((ROOT / "deploy" / "kuberay.yaml").read_text())
    assert isinstance(job, dict)
    return job


def test_the_pods_of_the_kubernetes_file_are_valid_and_confined() -> None:
    validate = pytest.importorskip("kubernetes_validate")
    cluster = ray_job()["spec"]["rayClusterSpec"]
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": group["template"]["spec"]}
        validate.validate(pod, "1.31", strict=True)
        (container,) = pod["spec"]["containers"]
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert container["securityContext"]["runAsNonRoot"]
        assert {"name": "RAY_USAGE_STATS_ENABLED", "value": "0"} in container["env"]
        for probe in ("readinessProbe", "livenessProbe"):  # the operator's own need programs that the image lacks
            assert "httpGet" in container[probe]
        named = {volume["name"] for volume in pod["spec"]["volumes"]}
        assert {mount["name"] for mount in container["volumeMounts"]} <= named


def test_the_kubernetes_file_starts_a_command_that_exists() -> None:
    from dice_ce.cli import build_parser

    job = ray_job()
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    command, *words = job["spec"]["entrypoint"].split()
    assert command == "dice-ce"
    options = build_parser().parse_args(words)
    assert options.engine == "ray"
    pins = (ROOT / "constraints.txt").read_text()
    assert f"\nray=={job['spec']['rayClusterSpec']['rayVersion']}\n" in pins


def test_the_slurm_script_is_free_of_lint() -> None:
    lint("shellcheck", ROOT / "deploy" / "slurm.sh")


def test_the_slurm_script_starts_a_node_per_machine_and_the_driver_on_the_first(tmp_path: Path) -> None:
    """Run it with programs in the place of Slurm's and Ray's that only write down how they were called."""
    log = tmp_path / "log"
    for name, answer in (("scontrol", "echo one; echo two"), ("ray", "true"), ("dice-ce", "exit 3")):
        (tmp_path / name).write_text(f'#!/bin/sh\necho "{name} $*" >> {log}\n{answer}\n')
    (tmp_path / "srun").write_text(
        f'#!/bin/bash\necho "srun $*" >> {log}\nwhile [[ $1 == --* ]]; do shift; done\n'
        'if [ "$1" = hostname ]; then echo 10.0.0.1; else "$@"; fi\n'
    )
    for name in ("scontrol", "ray", "dice-ce", "srun"):
        (tmp_path / name).chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_JOB_NODELIST": "x", "SLURM_CPUS_PER_TASK": "16"}
    script = ["bash", ROOT / "deploy" / "slurm.sh", "/exams", "/archive", "--drop-features"]
    done = subprocess.run(script, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 3, done.stderr  # the driver's own
    calls = log.read_text()
    assert "ray start --head --port=6379 --include-dashboard=false --num-cpus=16" in calls
    assert "--nodelist=two" in calls
    driver = "dice-ce archive run /exams --out /archive --engine ray --ray-address 10.0.0.1:6379 --drop-features"
    assert driver in calls
    # Two minutes before the end Slurm tells the script, which has the driver stop and waits for it.
    answer = f"trap 'echo stopped >> {log}; exit 130' TERM; echo ready >> {log}; sleep 300 & wait; kill $!"
    (tmp_path / "dice-ce").write_text(f"#!/bin/bash\n{answer}\n")
    told = subprocess.Popen(script, env=environment)
    wait_until(lambda: "ready" in log.read_text(), "the driver")
    told.terminate()
    assert told.wait() == 130
    assert log.read_text().endswith("stopped\n")
    refused = subprocess.run(script[:3], env=environment, capture_output=True, text=True, check=False)
    assert refused.returncode == 2
