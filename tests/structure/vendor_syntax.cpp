#include "vendor_syntax.hpp"

#include <algorithm>
#include <regex>
#include <utility>

namespace trivium::structure {

namespace {

bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool in_identifier(char c) { return is_upper(c) || is_lower(c) || is_digit(c) || c == '_'; }

/// What must follow the beginning of a vendor's identifier.
enum class Then { nothing, anything, upper, lower };

struct Pattern {
    std::string_view begin;
    Then then;
};

constexpr Pattern vendor_patterns[] = {
    // the language of kernels
    {"threadIdx", Then::nothing},
    {"blockIdx", Then::nothing},
    {"blockDim", Then::nothing},
    {"gridDim", Then::nothing},
    {"warpSize", Then::nothing},
    {"dim3", Then::nothing},
    {"asm", Then::nothing},
    {"__asm", Then::anything},
    {"__global__", Then::nothing},
    {"__device__", Then::nothing},
    {"__host__", Then::nothing},
    {"__shared__", Then::nothing},
    {"__constant__", Then::nothing},
    {"__managed__", Then::nothing},
    {"__forceinline__", Then::nothing},
    {"__launch_bounds__", Then::nothing},
    {"__grid_constant__", Then::nothing},
    {"__CUDA", Then::anything},
    {"__HIP", Then::anything},
    {"__NVCC__", Then::nothing},
    // intrinsic functions
    {"__syncthreads", Then::anything},
    {"__syncwarp", Then::anything},
    {"__threadfence", Then::anything},
    {"__shfl", Then::anything},
    {"__ballot", Then::anything},
    {"__activemask", Then::anything},
    {"__reduce_", Then::anything},
    {"__popc", Then::anything},
    {"__cvta_", Then::anything},
    {"__uint_as_", Then::anything},
    {"__int_as_", Then::anything},
    {"__float_as_", Then::anything},
    {"__fdividef", Then::nothing},
    {"__fadd_", Then::anything},
    {"__dadd_", Then::anything},
    {"__fmul_", Then::anything},
    {"__dmul_", Then::anything},
    {"__ldg", Then::nothing},
    {"__stwb", Then::nothing},
    {"__vmax", Then::lower},
    {"__vmin", Then::lower},
    {"__nv_", Then::anything},
    {"__NV_", Then::anything},
    // libraries
    {"cuda", Then::upper},
    {"cublas", Then::upper},
    {"cudnn", Then::upper},
    {"cudnn_frontend", Then::nothing},
    {"hip", Then::upper},
    {"hipblas", Then::upper},
    {"hipblas_", Then::anything},
    {"rocblas", Then::upper},
    {"rocblas_", Then::anything},
    {"nccl", Then::upper},
    {"rccl", Then::upper},
    {"cu", Then::upper}, // the driver
    {"CU", Then::lower},
    {"CUDA", Then::upper}, // CUDAAPI
    {"CUDA_", Then::anything},
    {"CUBLAS_", Then::anything},
    {"CUBLASLT_", Then::anything},
    {"CUDNN_", Then::anything},
    {"HIP_", Then::anything},
    {"HIPBLAS_", Then::anything},
    {"NCCL_", Then::anything},
    {"RCCL_", Then::anything},
    // Kokkos, of one vendor
    {"cuda_stream", Then::nothing},
    {"hip_stream", Then::nothing},
};

bool is_vendor_identifier(std::string_view name)
{
    return std::any_of(std::begin(vendor_patterns), std::end(vendor_patterns), [&](const Pattern& pattern) {
        if (!name.starts_with(pattern.begin))
            return false;
        const char next = name.size() > pattern.begin.size() ? name[pattern.begin.size()] : '\0';
        switch (pattern.then) {
        case Then::nothing: return next == '\0';
        case Then::anything: return true;
        case Then::upper: return is_upper(next);
        case Then::lower: return is_lower(next);
        }
        return false;
    });
}

/// The launches and the vendor's identifiers of a line without comments and literals.
std::vector<std::string> vendor_tokens(std::string_view line)
{
    std::vector<std::string> tokens;
    const auto add = [&](std::string_view token) {
        if (std::find(tokens.begin(), tokens.end(), token) == tokens.end())
            tokens.emplace_back(token);
    };
    for (std::size_t i = 0; i < line.size();) {
        if (line.substr(i, 3) == "<<<") {
            add("<<<");
            i += 3;
            continue;
        }
        if (!in_identifier(line[i])) {
            ++i;
            continue;
        }
        const auto end = static_cast<std::size_t>(
            std::find_if_not(line.begin() + static_cast<std::ptrdiff_t>(i), line.end(), in_identifier) -
            line.begin());
        if (const std::string_view name = line.substr(i, end - i); is_vendor_identifier(name))
            add(name);
        i = end;
    }
    return tokens;
}

} // namespace

bool in_vendor_folder(std::string_view path)
{
    for (std::size_t slash = path.find('/'); slash != std::string_view::npos; slash = path.find('/')) {
        const std::string_view folder = path.substr(0, slash);
        if (folder == "cuda" || folder == "hip" || folder == "nccl")
            return true;
        path.remove_prefix(slash + 1);
    }
    return false;
}

std::vector<VendorToken> vendor_syntax(const SourceFile& file)
{
    static const std::regex directive(R"re(^\s*#\s*include\b.*)re");
    // In quotes only with .h: our own headers end in .hpp.
    static const std::regex vendor_header(
        R"re(<((?:cuda|cublas|cudnn|nccl|rccl|hip|rocblas)[^>]*)>|"((?:cu|nccl|rccl|hip|rocblas)[^"]*\.h)")re");
    std::vector<VendorToken> found;
    if (in_vendor_folder(file.path))
        return found;
    const std::vector<std::string> code = lines_of(without_literals(file.text));
    const std::vector<std::string> full = lines_of(without_comments(file.text));
    for (std::size_t i = 0; i < code.size(); ++i) {
        if (code[i].find('#') != std::string::npos && std::regex_match(code[i], directive)) {
            if (std::smatch match; std::regex_search(full[i], match, vendor_header))
                found.push_back({i + 1, "#include " + match[0].str()});
            continue;
        }
        for (const std::string& token : vendor_tokens(code[i]))
            found.push_back({i + 1, token});
    }
    return found;
}

Findings check_vendor_syntax(const std::vector<SourceFile>& files,
                             const std::vector<VendorExemption>& exemptions)
{
    Findings findings;
    std::set<std::pair<std::string, std::string>> used;
    for (const SourceFile& file : files)
        for (const VendorToken& at : vendor_syntax(file)) {
            const bool exempt =
                std::any_of(exemptions.begin(), exemptions.end(), [&](const VendorExemption& e) {
                    return e.path == file.path && e.tokens.contains(at.token);
                });
            if (exempt)
                used.emplace(file.path, at.token);
            else
                findings.push_back(file.path + ":" + std::to_string(at.line) + ": " + at.token +
                                   " belongs in a folder cuda, hip or nccl");
        }
    for (const VendorExemption& exemption : exemptions)
        for (const std::string& token : exemption.tokens)
            if (!used.contains({exemption.path, token}))
                findings.push_back(exemption.path + ": contains no " + token +
                                   ", so it needs no exemption (" + exemption.reason + ")");
    return findings;
}

} // namespace trivium::structure
