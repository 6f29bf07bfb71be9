# Copyright the Trivium authors. SPDX-License-Identifier: Apache-2.0
# flake8: noqa: F403,F405

from spack.package import *


class Sentencepiece(CMakePackage):
    """A subword tokenizer and its training. Spack 0.23 has only versions that are
    too old for Trivium."""

    homepage = "https://github.com/google/sentencepiece"
    git = "https://github.com/google/sentencepiece.git"

    license("Apache-2.0")

    version("0.2.0", tag="v0.2.0", commit="17d7580d6407802f85855d2cc9190634e2c95624")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.1:3", type="build")

    def cmake_args(self):
        return [self.define("SPM_ENABLE_TCMALLOC", False)]
