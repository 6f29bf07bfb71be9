// Products on a device: cuBLASLt, with its own epilogues if available.
#include "kernels/gemm.hpp"

#include "base/check.hpp"
#include "kernels/device/fill.hpp"
#include "kernels/device/fp8.hpp"
#include "kernels/device/stream.hpp"
#include "kernels/epilogue.hpp"

#include <algorithm>
#include <array>
#include <cublasLt.h>

namespace trivium::kernels {

namespace {

/// Checks every call of cuBLASLt.
void check(cublasStatus_t status, const char* call)
{
    if (status != CUBLAS_STATUS_SUCCESS)
        throw InternalError(__FILE__, __LINE__, str(call, ": ", cublasLtGetStatusString(status)));
}

/// One handle per process, never destroyed: making one is slow, and the driver may be unloaded before static
/// objects.
cublasLtHandle_t handle()
{
    static const cublasLtHandle_t made = [] {
        cublasLtHandle_t fresh = nullptr;
        check(cublasLtCreate(&fresh), "cublasLtCreate");
        return fresh;
    }();
    return made;
}

/// A cuBLASLt descriptor, with the functions that make, set and destroy it.
template <class T, cublasStatus_t (*destroy)(T)>
class Described {
public:
    Described() = default;
    Described(const Described&) = delete;
    Described& operator=(const Described&) = delete;
    ~Described() { drop(); }

    void drop()
    {
        if (made)
            destroy(made);
        made = nullptr;
    }

    T made = nullptr;
};

using Layout = Described<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Operation = Described<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Preference = Described<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

template <class Value>
void set(const Layout& layout, cublasLtMatrixLayoutAttribute_t attribute, const Value& value)
{
    check(cublasLtMatrixLayoutSetAttribute(layout.made, attribute, &value, sizeof(value)),
          "cublasLtMatrixLayoutSetAttribute");
}

template <class Value>
void set(const Operation& operation, cublasLtMatmulDescAttributes_t attribute, const Value& value)
{
    check(cublasLtMatmulDescSetAttribute(operation.made, attribute, &value, sizeof(value)),
          "cublasLtMatmulDescSetAttribute");
}

template <class Value>
void set(const Preference& preference, cublasLtMatmulPreferenceAttributes_t attribute, const Value& value)
{
    check(cublasLtMatmulPreferenceSetAttribute(preference.made, attribute, &value, sizeof(value)),
          "cublasLtMatmulPreferenceSetAttribute");
}

cudaDataType_t type_of(DType type)
{
    return type == DType::f64 ? CUDA_R_64F : type == DType::f32 ? CUDA_R_32F : CUDA_R_16BF;
}

cudaDataType_t type_of(Fp8 format) { return format == Fp8::e4m3 ? CUDA_R_8F_E4M3 : CUDA_R_8F_E5M2; }

cublasLtEpilogue_t epilogue_of(Epilogue epilogue)
{
    switch (epilogue) {
    case Epilogue::none:
    case Epilogue::add: return CUBLASLT_EPILOGUE_DEFAULT; // D is the library's C
    case Epilogue::bias: return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::bias_gelu: return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case Epilogue::gelu_grad: return CUBLASLT_EPILOGUE_DGELU;
    }
    return CUBLASLT_EPILOGUE_DEFAULT;
}

/// Layout of `stored` rows of `width` numbers, `apart` from each other: for the column-major cuBLASLt, these
/// are columns.
void describe(Layout& layout, cudaDataType_t type, i64 stored, i64 width, i64 apart, i64 batch, i64 stride)
{
    layout.drop();
    check(cublasLtMatrixLayoutCreate(&layout.made, type, static_cast<u64>(width), static_cast<u64>(stored),
                                     apart),
          "cublasLtMatrixLayoutCreate");
    if (batch > 1) {
        set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(batch));
        set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, static_cast<std::int64_t>(stride));
    }
}

/// Alignment of every address that run() gets, like the arena's offsets.
constexpr std::uint32_t alignment = 256;
/// Of operands with a row stride: they begin at some column of a wider matrix.
constexpr std::uint32_t alignment_of_columns = 16;

std::uint32_t alignment_of(i64 row) { return row > 0 ? alignment_of_columns : alignment; }

void require_aligned(const void* address, std::uint32_t to)
{
    TRV_CHECK(reinterpret_cast<std::uintptr_t>(address) % to == 0, "an address that is not aligned to ", to,
              " bytes");
}

/// Rows of the pre-activation must be multiples of 8 numbers; only these two types have GELU epilogues.
bool fits_library(const ProductShape& shape)
{
    const bool activates = shape.epilogue == Epilogue::bias_gelu || shape.epilogue == Epilogue::gelu_grad;
    return shape.epilogue == Epilogue::none || shape.epilogue == Epilogue::add ||
           (shape.in != DType::f64 && (!activates || (shape.in == DType::bf16 && shape.n % 8 == 0)));
}

} // namespace

// Row-major C = op(A) op(B) is, in column-major order, C' = op(B)' op(A)': the library's A is our b.
//
// In FP8 both operands are first written as bytes, [m, k] and [n, k], the only layout that Hopper multiplies.
// If an extent is not a multiple of 16, they are rounded but stored as bf16, which gives the same products.
struct Product::Impl {
    ProductShape shape;
    Layout a, b, c;
    Operation operation;
    std::array<cublasLtMatmulHeuristicResult_t, 8>
        found{};   ///< algorithms that fit the scratch, best guess first
    int count = 0; ///< of these
    cublasLtMatmulAlgo_t algorithm{};
    Bytes scratch = 0;
    Bytes workspace = 0;      ///< of the library, at the end of the scratch
    Bytes in_a = 0, in_b = 0; ///< in scratch: the operands in FP8, after their scaling data
    bool as_bytes = false;    ///< FP8 operands are bytes, not bf16
    bool by_library = false;  ///< the library runs the epilogue; otherwise separate kernels

    bool fp8() const { return shape.fp8_a != Fp8::none; }

    void make(Bytes most_scratch)
    {
        as_bytes = fp8() && shape.m % 16 == 0 && shape.n % 16 == 0 && shape.k % 16 == 0;
        if (as_bytes && make_as(most_scratch))
            return;
        as_bytes = false;
        TRV_CHECK(make_as(most_scratch), "cuBLASLt has no product of m ", shape.m, ", n ", shape.n, ", k ",
                  shape.k, " for ", most_scratch, " B of scratch");
    }

    /// Plain operands, or FP8 according to `as_bytes`. Returns false if the library does not support the
    /// product.
    bool make_as(Bytes most_scratch)
    {
        const Bytes element = as_bytes ? 1 : size_of(shape.in);
        in_a = fp8() ? round_up(shape.m * shape.k * element, alignment) : 0;
        in_b = fp8() ? round_up(shape.k * shape.n * element, alignment) : 0;
        const Bytes operands = fp8() ? fp8_scratch + in_a + in_b : 0,
                    rest = std::max<Bytes>(0, most_scratch - operands);
        describe_all();
        if (shape.epilogue != Epilogue::none && fits_library(shape)) {
            follow_with(shape.epilogue);
            by_library = choose(rest);
            if (!by_library)
                describe_all(); // without the epilogue
        }
        if (!by_library && !choose(rest))
            return false;
        scratch = operands;
        return take(0);
    }

    void describe_all()
    {
        const bool turn_a = shape.transpose_a && !as_bytes, turn_b = shape.transpose_b || as_bytes;
        describe(a, as_bytes ? type_of(shape.fp8_a) : type_of(shape.in), turn_a ? shape.k : shape.m,
                 turn_a ? shape.m : shape.k, as_bytes ? shape.k : shape.row_of_a(), shape.batch,
                 shape.stride_a);
        describe(b, as_bytes ? type_of(shape.fp8_b) : type_of(shape.in), turn_b ? shape.n : shape.k,
                 turn_b ? shape.k : shape.n, as_bytes ? shape.k : shape.row_of_b(), shape.batch,
                 shape.stride_b);
        describe(c, type_of(shape.out), shape.m, shape.n, shape.n, shape.batch, shape.stride_c);
        // f32 is summed in full f32: no TF32.
        const bool wide = shape.in == DType::f64;
        operation.drop();
        check(cublasLtMatmulDescCreate(&operation.made, wide ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                                       wide ? CUDA_R_64F : CUDA_R_32F),
              "cublasLtMatmulDescCreate");
        set(operation, CUBLASLT_MATMUL_DESC_TRANSA, turn_b ? CUBLAS_OP_T : CUBLAS_OP_N);
        set(operation, CUBLASLT_MATMUL_DESC_TRANSB, turn_a ? CUBLAS_OP_T : CUBLAS_OP_N);
        if (as_bytes)
            scale_by(somewhere(), somewhere());
    }

    /// For choosing an algorithm: an address with the right alignment; run() has the real ones.
    static void* somewhere() { return reinterpret_cast<void*>(std::uintptr_t{alignment}); }

    void follow_with(Epilogue epilogue) const
    {
        if (epilogue == Epilogue::add)
            return;
        set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(epilogue));
        if (epilogue != Epilogue::bias)
            set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, static_cast<std::int64_t>(shape.n));
        point_to({somewhere(), somewhere()});
    }

    /// Sets the scale factors of a and b in FP8.
    void scale_by(const void* of_a, const void* of_b) const
    {
        set(operation, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, of_b);
        set(operation, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, of_a);
    }

    void point_to(const EpilogueOperands& operands) const
    {
        if (shape.epilogue == Epilogue::add)
            return;
        if (shape.epilogue != Epilogue::gelu_grad)
            set(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, operands.bias_n);
        if (shape.epilogue != Epilogue::bias)
            set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, operands.pre_mn);
    }

    bool take(int number)
    {
        if (number < 0 || number >= count)
            return number == 0; // an empty product
        const cublasLtMatmulHeuristicResult_t& taken = found[static_cast<std::size_t>(number)];
        scratch -= workspace;
        algorithm = taken.algo;
        workspace = static_cast<Bytes>(taken.workspaceSize);
        scratch += workspace;
        return true;
    }

    /// Finds the heuristic's algorithms that fit the scratch. Measures nothing.
    bool choose(Bytes most_scratch)
    {
        Preference preference;
        check(cublasLtMatmulPreferenceCreate(&preference.made), "cublasLtMatmulPreferenceCreate");
        set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(most_scratch));
        // The library's A is our b.
        set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(shape.row_b));
        set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(shape.row_a));
        set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment);
        set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment);
        // If the sum over k is split, its parts are added in f32, in a fixed order.
        set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
            static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
        count = 0;
        const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
            handle(), operation.made, b.made, a.made, c.made, c.made, preference.made,
            static_cast<int>(found.size()), found.data(), &count);
        if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE)
            return false;
        check(status, "cublasLtMatmulAlgoGetHeuristic");
        const auto end = std::remove_if(found.begin(), found.begin() + count,
                                        [&](const cublasLtMatmulHeuristicResult_t& result) {
                                            return result.state != CUBLAS_STATUS_SUCCESS ||
                                                   static_cast<Bytes>(result.workspaceSize) > most_scratch;
                                        });
        count = static_cast<int>(end - found.begin());
        return count > 0;
    }

    /// Writes both operands in FP8 to the start of the scratch.
    void quantise(const Exec& exec, const void*& from_a, const void*& from_b, Scratch lent) const
    {
        char* const at = static_cast<char*>(lent.data);
        auto* const found = reinterpret_cast<Fp8Found*>(at); // of a, of b
        void *const to_a = at + fp8_scratch, *const to_b = at + fp8_scratch + in_a;
        const auto *x_a = static_cast<const bf16*>(from_a), *x_b = static_cast<const bf16*>(from_b);
        if (as_bytes) {
            const bool ta = shape.transpose_a, tb = shape.transpose_b;
            fp8_bytes(exec, shape.fp8_a, ta ? shape.k : shape.m, ta ? shape.m : shape.k, x_a, ta,
                      static_cast<std::uint8_t*>(to_a), found);
            fp8_bytes(exec, shape.fp8_b, tb ? shape.n : shape.k, tb ? shape.k : shape.n, x_b, !tb,
                      static_cast<std::uint8_t*>(to_b), found + 1);
            scale_by(&found[0].back, &found[1].back);
        } else {
            fp8_round(exec, shape.fp8_a, shape.m * shape.k, x_a, static_cast<bf16*>(to_a), lent);
            fp8_round(exec, shape.fp8_b, shape.k * shape.n, x_b, static_cast<bf16*>(to_b), lent);
        }
        from_a = to_a;
        from_b = to_b;
    }

    /// to = op(A) op(B) + addend, if there is one.
    void multiply(cudaStream_t stream, const void* from_a, const void* from_b, const void* addend, void* to,
                  Scratch lent) const
    {
        const bool wide = shape.in == DType::f64;
        const double one = 1, zero = 0;
        const float one_f = 1, zero_f = 0;
        const void* alpha = wide ? static_cast<const void*>(&one) : &one_f;
        const void* beta = addend ? alpha : wide ? static_cast<const void*>(&zero) : &zero_f;
        check(cublasLtMatmul(handle(), operation.made, alpha, from_b, b.made, from_a, a.made, beta,
                             addend ? addend : to, c.made, to, c.made, &algorithm,
                             static_cast<char*>(lent.data) + (scratch - workspace),
                             static_cast<std::size_t>(workspace), stream),
              "cublasLtMatmul");
    }
};

Product::Product(const ProductShape& shape, int threads, Bytes most_scratch) : impl_(std::make_unique<Impl>())
{
    check_product(shape, threads);
    impl_->shape = shape;
    if (!shape.empty() && shape.k > 0)
        impl_->make(most_scratch);
}

Product::Product(Product&&) noexcept = default;
Product& Product::operator=(Product&&) noexcept = default;
Product::~Product() = default;

bool Product::take(int algorithm) { return impl_->take(algorithm); }

Bytes Product::scratch_bytes() const { return impl_->scratch; }

void Product::run(const Exec& exec, const void* a, const void* b, void* c, bool overwrite, Scratch scratch,
                  const EpilogueOperands& operands) const
{
    const Impl& p = *impl_;
    const ProductShape& shape = p.shape;
    TRV_CHECK(overwrite || shape.epilogue == Epilogue::none, "a product with an epilogue cannot accumulate");
    TRV_CHECK(scratch.size >= p.scratch, "a product of m ", shape.m, ", n ", shape.n, ", k ", shape.k,
              " needs ", p.scratch, " B of scratch and got ", scratch.size);
    if (shape.empty())
        return;
    require_aligned(a, alignment_of(shape.row_a));
    require_aligned(b, alignment_of(shape.row_b));
    for (const void* address :
         {static_cast<const void*>(c), operands.bias_n, static_cast<const void*>(operands.pre_mn),
          static_cast<const void*>(p.scratch > 0 ? scratch.data : nullptr)})
        require_aligned(address, alignment);
    void* const target = p.by_library ? c : product_target(shape, c, operands);
    if (shape.k == 0) {
        for (i64 i = 0; overwrite && i < shape.batch; ++i)
            fill(exec, static_cast<char*>(target) + i * shape.stride_c * size_of(shape.out), 0,
                 shape.m * shape.n * size_of(shape.out));
    } else {
        if (p.fp8())
            p.quantise(exec, a, b, scratch);
        if (p.by_library)
            p.point_to(operands);
        const void* const addend = p.by_library && shape.epilogue == Epilogue::add ? operands.pre_mn
                                   : overwrite                                     ? nullptr
                                                                                   : target;
        p.multiply(static_cast<cudaStream_t>(stream_of(exec)), a, b, addend, target, scratch);
    }
    if (!p.by_library)
        finish_product(exec, shape, c, operands);
}

} // namespace trivium::kernels
