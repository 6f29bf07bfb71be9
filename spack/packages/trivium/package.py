# Copyright the Trivium authors. SPDX-License-Identifier: Apache-2.0
# flake8: noqa: F403,F405

import json
import os

from spack.package import *


class Trivium(CMakePackage, CudaPackage, ROCmPackage):
    """Trivium trains transformer language models on MPI clusters: one C++ program with data,
    tensor and pipeline parallelism, whose checkpoints resume on any grid of ranks."""

    # The clone that contains this recipe, so that recipe and sources have the same commit.
    git = "file://" + ancestor(__file__, 4)

    license("Apache-2.0")

    version("main", branch="main")

    sanity_check_is_file = [
        join_path("bin", "trivium"),
        join_path("include", "trivium", "ir", "graph.hpp"),
        join_path("lib", "cmake", "Trivium", "TriviumConfig.cmake"),
        join_path("share", "trivium", "jobs", "train.sbatch"),
    ]

    variant("openmp", default=True, description="Support several threads per rank on the host")
    variant("parquet", default=False, description="Read texts in Parquet files, with Apache Arrow")
    variant("serve", default=False, description="Answer requests over HTTP (trivium serve)")
    variant("nccl", default=True, when="+cuda", description="Communicate between GPUs with NCCL")
    # As in Kokkos: one architecture per build.
    variant(
        "cuda_arch",
        default="none",
        values=("none",) + CudaPackage.cuda_arch_values,
        multi=False,
        sticky=True,
        when="+cuda",
        description="CUDA architecture",
    )
    variant(
        "amdgpu_target",
        default="none",
        values=("none",) + ROCmPackage.amdgpu_targets,
        multi=False,
        sticky=True,
        when="+rocm",
        description="AMD GPU architecture",
    )

    generator("ninja")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("cmake@3.26:", type="build", when="^cuda@13:")
    depends_on("pkgconfig", type="build")

    depends_on("cli11")
    depends_on("curl@7.60:")
    depends_on("fmt")
    depends_on("hdf5@1.10.8:+mpi")
    depends_on("jemalloc")
    depends_on("kokkos@3.4:")
    depends_on("mpi@3.1:")
    depends_on("nlohmann-json@3.9:")
    depends_on("oniguruma@6.9.8:")
    depends_on("sentencepiece@0.1.96:")
    depends_on("tomlplusplus@3:")
    depends_on("utf8proc@2.1:")
    depends_on("xxhash@0.8:")
    depends_on("zlib-api")
    depends_on("zstd@1.4:")
    depends_on("arrow@13:+parquet+brotli+lz4+snappy+zlib+zstd", when="+parquet")

    depends_on("cpp-httplib@0.11:", when="+serve")

    depends_on("catch2@2.13:", type="test")

    # A Kokkos with another back-end would compile the sources for that back-end.
    depends_on("kokkos~sycl")
    depends_on("kokkos~cuda", when="~cuda")
    depends_on("kokkos~rocm", when="~rocm")
    depends_on("kokkos~openmp", when="~openmp")
    depends_on("onednn@2.6: cpu_runtime=omp", when="~cuda~rocm+openmp")
    depends_on("onednn@2.6: cpu_runtime=seq", when="~cuda~rocm~openmp")
    conflicts("+cuda", when="+rocm", msg="a build is for one kind of GPU: +cuda or +rocm")

    with when("+cuda"):
        depends_on("cuda@12:")
        depends_on("kokkos@4:+cuda+wrapper cxxstd=20")
        requires("^kokkos@5:", "^kokkos+cuda_lambda", policy="any_of", msg="kernels are lambdas")
        depends_on("kokkos@4.7.01:", when="^cuda@13:")
        depends_on("nccl@2.18:")
        for arch in CudaPackage.cuda_arch_values:
            depends_on(f"kokkos cuda_arch={arch}", when=f"cuda_arch={arch}")
            depends_on(f"nccl cuda_arch={arch}", when=f"cuda_arch={arch}")
            if int(arch.rstrip("af")) < 80:
                conflicts(f"cuda_arch={arch}", msg="Trivium's kernels need sm_80 or later")
        conflicts("cuda_arch=none", msg="name the GPU: cuda_arch=90 for H100 and H200")
        conflicts("~nccl", msg="GPUs communicate through NCCL, so a GPU build requires it")

    with when("+rocm"):
        depends_on("hip@6:")
        depends_on("kokkos@4:+rocm cxxstd=20")
        depends_on("rocblas@6:")
        depends_on("rccl@6:")  # ROCm 6.0 has RCCL 2.18
        # hipcc's OpenMP, until its compiler brought it.
        depends_on("rocm-openmp-extras@6:", when="+openmp ^hip@:7.0")
        for target in ROCmPackage.amdgpu_targets:
            for library in ("kokkos", "rocblas", "rccl"):
                depends_on(f"{library} amdgpu_target={target}", when=f"amdgpu_target={target}")
        conflicts("amdgpu_target=none", msg="name the GPU: amdgpu_target=gfx90a for MI250X")

    conflicts("%gcc@:11", msg="Trivium is C++20: GCC 12 or later")
    conflicts("%clang@:13", msg="Trivium is C++20: Clang 14 or later")
    requires("platform=linux", msg="Trivium runs on Linux")

    def cmake_args(self):
        device = ""
        if self.spec.satisfies("+cuda"):
            device = "cuda"
        elif self.spec.satisfies("+rocm"):
            device = "hip"
        args = [
            self.define("TRIVIUM_DEVICE", device),
            self.define("TRIVIUM_JEMALLOC", True),
            self.define_from_variant("TRIVIUM_OPENMP", "openmp"),
            self.define_from_variant("TRIVIUM_PARQUET", "parquet"),
            self.define_from_variant("TRIVIUM_SERVE", "serve"),
            self.define("TRIVIUM_TESTS", self.run_tests),
            self.define("TRIVIUM_PERF", False),
            self.define("TRIVIUM_NATIVE", False),  # Spack's compiler wrapper sets the target
            self.define("CMAKE_INSTALL_LIBDIR", "lib"),
        ]
        if self.spec.satisfies("+cuda"):
            # Spack lacks the headers of cuDNN's frontend: ignore any that are installed.
            args.append(self.define("TRIVIUM_CUDNN", False))
        if self.spec.satisfies("+rocm"):
            args.append(self.define("CMAKE_CXX_COMPILER", self.spec["hip"].hipcc))
        return args

    def setup_run_environment(self, env):
        env.set("TRIVIUM_JOBS", self.prefix.share.trivium.jobs)

    # Tests of the installed program (`spack test run trivium`): some steps of a tiny model.

    def test_version(self):
        """the program starts and prints the libraries of its build"""
        text = self.trivium("--version")
        assert "MPI" in text
        assert ("CUDA" in text) == self.spec.satisfies("+cuda")
        assert ("HIP" in text) == self.spec.satisfies("+rocm")
        assert ("no OpenMP" in text) == self.spec.satisfies("~openmp")
        assert ("Parquet" in text) == self.spec.satisfies("+parquet")
        assert ("cpp-httplib" in text) == self.spec.satisfies("+serve")

    def test_train(self):
        """a stopped and resumed run has the losses of one without a stop, and good checkpoints"""
        whole = self.train("whole")
        self.train("parts", "train.stop_after=3")
        assert self.train("parts") == whole
        assert whole[-1] < whole[0]
        verified = self.trivium("checkpoint", "verify", join_path("parts", "checkpoints"))
        assert verified.count("good") == 2, "two checkpoints were written"

    def test_train_mpi(self):
        """two ranks under the MPI launcher have the losses of one rank"""
        mpirun = join_path(self.spec["mpi"].prefix.bin, "mpirun")
        if not os.path.exists(mpirun):
            raise SkipTest("this MPI has no mpirun")
        one = self.train("one")
        two = self.train("two", "parallel.tensor=2", launcher=[mpirun, "-n", "2"])
        assert all(abs(a - b) < 1e-3 * a for a, b in zip(one, two)), f"{one} and {two}"

    def train(self, folder, *overrides, launcher=()):
        """Trains in the folder, by default to step 6; returns the losses so far."""
        if self.spec.satisfies("+cuda") and not os.path.exists("/dev/nvidiactl"):
            raise SkipTest("this machine has no NVIDIA GPU")
        if self.spec.satisfies("+rocm") and not os.path.exists("/dev/kfd"):
            raise SkipTest("this machine has no AMD GPU")
        with working_dir(folder, create=True):
            if not os.path.exists("run.toml"):
                text = join_path(self.prefix.share.doc.Trivium, "LICENSE")
                self.trivium("data", "tokenize", text, "--tokenizer", "bytes", "-o", "train.h5")
                with open("run.toml", "w", encoding="utf-8") as config:
                    config.write(
                        'model = { preset = "toy" }\n'
                        'data = { train = "train.h5", tokenizer = "bytes" }\n'
                        "train = { steps = 6, global_batch = 4, warmup = 2 }\n"
                        "parallel = { threads = 1 }\n"
                    )
            self.trivium("train", "run.toml", *overrides, launcher=launcher)
            with open(join_path("logs", "metrics.jsonl"), encoding="utf-8") as lines:
                metrics = [json.loads(line) for line in lines]
        steps = [m["step"] for m in metrics]
        assert steps == list(range(1, len(steps) + 1)), f"steps are missing or repeated: {steps}"
        return [m["loss"] for m in metrics]

    def trivium(self, *arguments, launcher=()):
        """Runs the program, under the launcher if there is one; returns its output."""
        command = [*launcher, self.prefix.bin.trivium, *arguments]
        # Allow more ranks than cores, and root in containers. Other MPIs require neither.
        environment = {
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_rmaps_base_oversubscribe": "1",
            "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
        }
        run = Executable(command[0])
        return run(*command[1:], extra_env=environment, output=str.split, error=str.split)
