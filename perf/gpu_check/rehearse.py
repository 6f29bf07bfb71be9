"""perf/gpu_check/rehearse.py DIR [--root ROOT] [--tiny]: runs the archive in DIR as the machine with the GPU would.

Unpacks it, asks the loader whether each program finds its libraries, and runs everything: without a device each check
says that it is skipped. With --root, inside that folder: a clean system of another release, such as
`debootstrap --variant=minbase --include=python3 trixie ROOT`. NVIDIA's libraries are those of this machine's toolkit. With
--tiny the archive has CPU programs, which compute. Exit status 1 where something is missing.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys

import machine

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


def toolkit():
    """Folders of NVIDIA's libraries here."""
    return [os.path.realpath(folder) for folder in machine.nvidia_folders() if os.path.isdir(folder)]


def check_programs(prefix):
    """Every program and component finds its libraries, and the program tells its version. Returns the problems."""
    env, problems = machine.environment(prefix), []
    files = [os.path.join(folder, name) for folder, _, names in os.walk(prefix) for name in names]
    for file in sorted(file for file in files if "/programs/" in file or "/bin/" in file or ".so" in os.path.basename(file)):
        text = subprocess.run(["ldd", file], capture_output=True, text=True, check=False, env=env).stdout
        missing = re.findall(r"(\S+) => not found", text) + re.findall(r"version `\S+' not found.*", text)
        problems += [f"{os.path.relpath(file, prefix)}: {name} not found" for name in missing]
    program = os.path.join(prefix, "programs", "trivium")
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=False, env=env)
    print(version.stdout.strip() or version.stderr.strip())
    return problems + ([] if version.returncode == 0 else ["trivium --version: " + version.stderr.strip()])


def inside(root, arguments):
    """Runs this script again in `root`, with the repository's perf and tests/golden and NVIDIA's libraries in it."""
    work = os.path.join(root, "gpu-check")
    shutil.rmtree(work, ignore_errors=True)
    for part in ("perf", "tests/golden"):
        shutil.copytree(os.path.join(ROOT, part), os.path.join(work, part))
    os.makedirs(os.path.join(work, "carried"))
    shutil.copy2(machine.archive_in(arguments.folder), os.path.join(work, "carried"))
    bound = []
    try:
        for at in ("/proc", "/dev", *(os.path.dirname(folder) for folder in toolkit())):
            os.makedirs(root + at, exist_ok=True)
            subprocess.run(["mount", "--rbind", at, root + at], check=True)
            subprocess.run(["mount", "--make-rslave", root + at], check=True)
            bound.append(root + at)
        command = ["chroot", root, "python3", "-B", "/gpu-check/perf/gpu_check/rehearse.py", "/gpu-check/carried"]
        return subprocess.run(command + (["--tiny"] if arguments.tiny else []), check=False).returncode
    finally:
        for at in reversed(bound):
            subprocess.run(["umount", "--recursive", "--lazy", at], check=False)


def main():
    parser = argparse.ArgumentParser(prog="perf/gpu_check/rehearse.py")
    parser.add_argument("folder", metavar="DIR", help="folder with the archive that prepare made")
    parser.add_argument("--root", metavar="ROOT", help="folder of a clean system; needs the privilege to mount")
    parser.add_argument("--tiny", action="store_true", help="the archive has CPU programs")
    arguments = parser.parse_args()
    if arguments.root:
        return inside(os.path.abspath(arguments.root), arguments)
    build = os.path.join(os.path.abspath(arguments.folder), "rehearsal")
    shutil.rmtree(build, ignore_errors=True)
    machine.unpack(machine.archive_in(arguments.folder), os.path.join(build, "carried"))
    problems = check_programs(os.path.join(build, "carried"))
    print("\n".join(problems) or "every program and library finds what it needs", flush=True)
    command = [sys.executable, "-B", os.path.join(HERE, "run.py"), arguments.folder, "--build", build]
    command += ["--plan", "tiny"] if arguments.tiny else []
    status = subprocess.run(command, check=False).returncode
    return 1 if problems or status else 0


if __name__ == "__main__":
    sys.exit(main())
