# Copyright the Trivium authors. SPDX-License-Identifier: Apache-2.0
# flake8: noqa: F403,F405

from spack.package import *


class Tomlplusplus(CMakePackage):
    """A header-only TOML library. Spack 0.23 has no recipe for it."""

    homepage = "https://marzer.github.io/tomlplusplus/"
    git = "https://github.com/marzer/tomlplusplus.git"

    license("MIT")

    version("3.4.0", tag="v3.4.0", commit="30172438cee64926dc41fdd9c11fb3ba5b2ba9de")

    depends_on("cxx", type="build")
    depends_on("cmake@3.14:", type="build")
