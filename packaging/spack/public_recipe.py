#!/usr/bin/env python3
"""Writes Spack's recipe in the form of the public repository of recipes (Spack 1), from the one in spack/packages.

    public_recipe.py --version 0.1.0 --url https://…/trivium-0.1.0.tar.gz --sha256 HASH --git https://….git
        --homepage https://… --maintainer ACCOUNT [--maintainer …] >…/repos/spack_repo/builtin/packages/trivium/package.py

What differs: imports, licence header, addresses, maintainers, and versions with checksums, the newest first, in place of the
branch of this clone (which stays as the version `main`). --version, --url and --sha256 may be repeated.
"""

import argparse
import pathlib
import re
import sys

HEADER = """\
# Copyright Spack Project Developers. See COPYRIGHT file for details.
#
# SPDX-License-Identifier: (Apache-2.0 OR MIT)

import json
import os

from spack_repo.builtin.build_systems.cmake import CMakePackage, generator
from spack_repo.builtin.build_systems.cuda import CudaPackage
from spack_repo.builtin.build_systems.rocm import ROCmPackage

from spack.package import *
"""


def replaced(pattern, by, text):
    text, count = re.subn(pattern, lambda _: by, text, flags=re.MULTILINE)
    if count != 1:
        sys.exit(f"public_recipe.py: the recipe has {count} places like {pattern!r}, not one")
    return text


def order(version):
    return [int(part) for part in version.split(".")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", action="append", required=True)
    parser.add_argument("--url", action="append", required=True, help="of the source of each version")
    parser.add_argument("--sha256", action="append", required=True)
    parser.add_argument("--git", required=True)
    parser.add_argument("--homepage", required=True)
    parser.add_argument("--maintainer", action="append", required=True, help="account that answers for the recipe")
    arguments = parser.parse_args()
    if not len(arguments.version) == len(arguments.url) == len(arguments.sha256):
        parser.error("--version, --url and --sha256 must be given equally often")
    for sha256 in arguments.sha256:
        if not re.fullmatch("[0-9a-f]{64}", sha256):
            parser.error(f"--sha256 {sha256}: 64 hexadecimal digits are expected")

    releases = sorted(zip(arguments.version, arguments.url, arguments.sha256), key=lambda r: order(r[0]), reverse=True)
    places = f'    homepage = "{arguments.homepage}"\n    url = "{releases[0][1]}"\n    git = "{arguments.git}"'
    names = ", ".join(f'"{name}"' for name in arguments.maintainer)
    versions = ['    version("main", branch="main")']
    versions += [f'    version("{version}", sha256="{sha256}")' for version, _, sha256 in releases]

    recipe = pathlib.Path(__file__).parents[2] / "spack" / "packages" / "trivium" / "package.py"
    text = recipe.read_text(encoding="utf-8")
    text = replaced(r"\A(?:.|\n)*?(?=\n\nclass )", HEADER, text)
    text = replaced(r"^    # The clone that contains .*\n    git = .*$", places, text)
    text = replaced(r"^    license\(", f"    maintainers({names})\n\n    license(", text)
    text = replaced(r'^    version\("main", branch="main"\)$', "\n".join(versions), text)
    sys.stdout.write(text)


main()
