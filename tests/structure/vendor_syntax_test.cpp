// The check of vendor syntax, on made-up files: it must be able to fail.
#include "catch.hpp"
#include "vendor_syntax.hpp"

using namespace trivium::structure;

namespace {

/// The tokens of a file outside the vendor folders, each followed by a space.
std::string vendor_tokens_of(const std::string& text)
{
    std::string all;
    for (const VendorToken& at : vendor_syntax({"src/kernels/device/x.cpp", text}))
        all += at.token + " ";
    return all;
}

} // namespace

TEST_CASE("the language of kernels is found outside vendor folders")
{
    CHECK(vendor_tokens_of("f<<<blocks, threads>>>(x);") == "<<< ");
    CHECK(vendor_tokens_of("f<A><<<blocks, threads>>>(x);") == "<<< ");
    CHECK(vendor_tokens_of("i = blockIdx.x * blockDim.x + threadIdx.x; i += gridDim.x") ==
          "blockIdx blockDim threadIdx gridDim ");
    for (const std::string name : {"__global__",
                                   "__device__",
                                   "__host__",
                                   "__shared__",
                                   "__launch_bounds__",
                                   "__grid_constant__",
                                   "__forceinline__",
                                   "__syncthreads",
                                   "__syncthreads_or",
                                   "__syncwarp",
                                   "__shfl_xor_sync",
                                   "__shfl",
                                   "__ballot_sync",
                                   "__popc",
                                   "__popcll",
                                   "__reduce_max_sync",
                                   "__fadd_rn",
                                   "__uint_as_float",
                                   "__nv_bfloat16",
                                   "__ldg",
                                   "__stwb",
                                   "__vmaxu2",
                                   "__CUDA_ARCH__",
                                   "__CUDACC__",
                                   "__CUDACC_VER_MAJOR__",
                                   "__HIP__",
                                   "__HIPCC__",
                                   "__HIP_DEVICE_COMPILE__",
                                   "asm",
                                   "__asm__"}) {
        INFO(name);
        CHECK(vendor_tokens_of("x;\n  " + name + "(y);\n") == name + " ");
    }
    CHECK(vendor_tokens_of("#ifdef __CUDA_ARCH__\n#endif\n") == "__CUDA_ARCH__ ");
    CHECK(vendor_tokens_of("asm volatile(\"cp.async.commit_group;\" ::: \"memory\");") == "asm ");
}

TEST_CASE("names of vendor libraries are found outside vendor folders")
{
    for (const std::string name : {"cudaMalloc",
                                   "cudaStream_t",
                                   "cublasLtMatmul",
                                   "cublasStatus_t",
                                   "cudnnCreate",
                                   "cudnn_frontend",
                                   "hipMalloc",
                                   "hipStream_t",
                                   "hipblasCreate",
                                   "hipblasLtMatmul",
                                   "hipblas_status",
                                   "rocblas_sgemm",
                                   "rocblas_handle",
                                   "ncclSend",
                                   "ncclComm_t",
                                   "rcclGetVersion",
                                   "cuCtxGetDevice",
                                   "CUresult",
                                   "CUdevice",
                                   "CUDAAPI",
                                   "CUDA_R_16BF",
                                   "CUBLAS_OP_T",
                                   "CUBLASLT_EPILOGUE_BIAS",
                                   "NCCL_CONFIG_INITIALIZER",
                                   "HIP_R_16BF",
                                   "cuda_stream"}) {
        INFO(name);
        CHECK(vendor_tokens_of("check(" + name + ", x);\n") == name + " ");
        CHECK(vendor_tokens_of("::" + name + "<A> y;\n") == name + " ");
    }
}

TEST_CASE("includes of vendor headers are found outside vendor folders")
{
    for (const std::string header :
         {"<cuda.h>", "<cuda_runtime_api.h>", "<cuda/std/array>", "<cublasLt.h>", "<cublas_v2.h>",
          "<cudnn_frontend.h>", "<hip/hip_runtime.h>", "<hipblas/hipblas.h>", "<nccl.h>", "<rccl/rccl.h>",
          "<rocblas/rocblas.h>", "\"cuda_runtime.h\"", "\"nccl.h\""}) {
        INFO(header);
        CHECK(vendor_tokens_of("#include " + header + "\n") == "#include " + header + " ");
        CHECK(vendor_tokens_of("  # include " + header + " // why\n") == "#include " + header + " ");
    }
    CHECK(vendor_tokens_of("#include <vector>\n#include <cuchar>\n#include <Kokkos_Core.hpp>\n").empty());
    CHECK(vendor_tokens_of("#include \"cuda/words.hpp\"\n#include \"mpi/nccl/moves.hpp\"\n").empty());
    CHECK(vendor_tokens_of("#include \"cudnn_attention.hpp\"\n#include \"hip_check.hpp\"\n").empty());
}

TEST_CASE("comments, literals and names of our own are no vendor syntax")
{
    CHECK(vendor_tokens_of("x; // cudaMalloc, f<<<1, 1>>>\n/* __global__\n blockIdx */ y;\n").empty());
    CHECK(vendor_tokens_of("f(\"cudaMalloc\", \"NCCL_DEBUG\", \"a \\\" <<<\");\n").empty());
    CHECK(vendor_tokens_of("R\"(\n#include <cuda.h>\n\" __shared__\n)\";\n").empty());
    CHECK(vendor_tokens_of("// #include <nccl.h>\n").empty());
    CHECK(vendor_tokens_of("1'000; // cudaFree\n'<'; x << 1; a<b<c>>(); s << \"<<<\";\n").empty());
    CHECK(vendor_tokens_of("nccl_description(); cudnn_attention; cuda_check; hip_check; cublas; nccl;\n")
              .empty());
    CHECK(vendor_tokens_of("cut; cursor; current; CUT; chip; ship(); hipster; Cuda; accumulate;\n").empty());
    CHECK(
        vendor_tokens_of("my_cudaMalloc; xthreadIdx; threadIdx2; asmA; TRIVIUM_CUDA; TRV_NCCL_X;\n").empty());
    CHECK(vendor_tokens_of("__builtin_popcount(x); __attribute__((noinline)); __clang__;\n").empty());
    CHECK(vendor_tokens_of("TRV_HOST_DEVICE KOKKOS_FUNCTION KOKKOS_LAMBDA\n").empty());
}

TEST_CASE("a vendor folder is one called cuda, hip or nccl")
{
    for (const std::string path : {"src/kernels/device/cuda/x.cpp", "src/kernels/device/hip/deep/x.hpp",
                                   "mpi/nccl/comm.cpp", "cuda/x.cpp"}) {
        INFO(path);
        CHECK(in_vendor_folder(path));
        CHECK(vendor_syntax({path, "#include <cuda.h>\nf<<<1, 1>>>(cudaMalloc);\n"}).empty());
    }
    for (const std::string path : {"src/kernels/device/x.cpp", "src/kernels/cuda.cpp", "src/cuda_x/x.cpp",
                                   "src/hipster/x.cpp", "nccl", "src/nccl"}) {
        INFO(path);
        CHECK_FALSE(in_vendor_folder(path));
        CHECK(vendor_syntax({path, "#include <cuda.h>\nf<<<1, 1>>>(cudaMalloc);\n"}).size() == 3);
    }
}

TEST_CASE("vendor syntax is found with its line, each token once per line")
{
    CHECK(vendor_syntax({"io/x.hpp", "a;\n/*\n*/ cudaFree(cudaFree);\n\ncudaFree(ncclSum);"}) ==
          std::vector<VendorToken>{{3, "cudaFree"}, {5, "cudaFree"}, {5, "ncclSum"}});
    CHECK(check_vendor_syntax({{"io/x.hpp", "\ncudaFree(x);\n"}}, {}) ==
          Findings{"io/x.hpp:2: cudaFree belongs in a folder cuda, hip or nccl"});
}

TEST_CASE("an exemption from the check of vendor syntax holds for its file and its tokens")
{
    const std::vector<SourceFile> files{{"src/a.hpp", "__host__ __device__\n"}, {"src/b.hpp", "__host__\n"}};
    CHECK(check_vendor_syntax(files, {{"src/a.hpp", {"__host__"}, "why"}}) ==
          Findings{"src/a.hpp:1: __device__ belongs in a folder cuda, hip or nccl",
                   "src/b.hpp:1: __host__ belongs in a folder cuda, hip or nccl"});
    const std::vector<SourceFile> first{files[0]};
    CHECK(check_vendor_syntax(first, {{"src/a.hpp", {"__host__", "__device__"}, "why"}}).empty());
    CHECK(check_vendor_syntax(first, {{"src/a.hpp", {"__host__", "__device__", "asm"}, "why"}}) ==
          Findings{"src/a.hpp: contains no asm, so it needs no exemption (why)"});
}
