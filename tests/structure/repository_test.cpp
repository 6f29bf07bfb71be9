// The checks, on this repository.
#include "catch.hpp"
#include "config/model_config.hpp"
#include "includes.hpp"
#include "ir/ops/op_table.hpp"
#include "layers.hpp"
#include "names.hpp"
#include "vendor_syntax.hpp"

#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <sstream>

using namespace trivium::structure;

namespace {

const std::string root = TRIVIUM_SOURCE_DIR;
const std::vector<std::string> cpp{".hpp", ".cpp", ".cu", ".h", ".hpp.in"};

std::vector<SourceFile> sources(const std::vector<std::string>& folders,
                                const std::vector<std::string>& endings = cpp)
{
    std::vector<SourceFile> all;
    for (const std::string& folder : folders)
        for (SourceFile& file : read_sources(root, folder, endings))
            all.push_back(std::move(file));
    return all;
}

Rooms rooms()
{
    std::ifstream in(TRIVIUM_ROOMS_FILE);
    std::ostringstream text;
    text << in.rdbuf();
    return parse_rooms(text.str());
}

void none(const Findings& findings)
{
    for (const std::string& finding : findings)
        UNSCOPED_INFO(finding);
    CHECK(findings.empty());
}

} // namespace

TEST_CASE("the rooms are those of the design")
{
    REQUIRE(rooms().contains("ir"));
    none(check_against_design(rooms(), designed_rooms()));
}

TEST_CASE("no two rooms depend on each other") { none(check_no_cycle(rooms())); }

TEST_CASE("every include is of the layers below")
{
    const Rooms all = completed(rooms(), designed_rooms());
    for (const auto& [name, room] : all) {
        const std::vector<SourceFile> files = sources({room.folder});
        INFO("room " << name);
        CHECK_FALSE(files.empty());
        none(check_includes(all, name, files));
    }
}

TEST_CASE("the planner's rooms include no MPI, Kokkos, HDF5 or CUDA")
{
    none(check_planner_includes(sources({"src/base", "src/config", "src/ir", "src/model", "src/passes",
                                         "src/schedule", "src/plan", "src/compile"})));
}

TEST_CASE("every file includes what it uses")
{
    none(check_self_contained(sources({"src", "mpi", "io"}),
                              {"src/", "", "src/kernels/host/", "src/kernels/host/openmp/",
                               "src/kernels/device/", "src/kernels/device/kokkos/",
                               "src/kernels/device/cuda/", "src/kernels/device/hip/",
                               "src/kernels/device/hip/blas/", "src/kernels/portable/", "mpi/nccl/cuda/"}));
}

TEST_CASE("no two headers define a type of the same name")
{
    std::vector<SourceFile> headers = sources({"src", "mpi", "io"}, {".hpp"});
    std::erase_if(headers, [](const SourceFile& file) { // instead of those of the host
        return file.path.starts_with("src/kernels/device/");
    });
    none(types_defined_twice(headers));
}

TEST_CASE("every source of a test is in a list")
{
    std::map<std::string, std::string> lists;
    for (SourceFile& list : sources({"tests"}, {"CMakeLists.txt"}))
        lists[list.path] = std::move(list.text);
    const auto is_listed = [&](const std::filesystem::path& source) { // by its path, or with a glob
        const std::string name = source.filename().string();
        const std::string glob = "*" + name.substr(std::min(name.rfind('_'), name.rfind('.')));
        for (auto folder = source.parent_path(); folder != ""; folder = folder.parent_path()) {
            const std::string& text = lists[(folder / "CMakeLists.txt").string()];
            const auto place = source.parent_path().lexically_relative(folder);
            for (const std::string& last : {name, glob})
                for (const char before : {' ', '"', '(', '\n'})
                    if (text.find(before + (place / last).lexically_normal().string()) != std::string::npos)
                        return true;
        }
        return false;
    };
    CHECK_FALSE(is_listed("tests/kernels/no_test.cpp"));
    for (const SourceFile& source : sources({"tests"}, {".cpp"})) {
        INFO(source.path);
        CHECK(is_listed(source.path));
    }
}

TEST_CASE("files are short")
{
    const std::vector<std::string> written{".hpp", ".cpp", ".inc",   ".cu", ".h",
                                           ".in",  ".txt", ".cmake", ".sh", ".py"};
    none(too_long(sources({"src", "mpi", "io", "tests", "perf", "cmake", "jobs"}, written), 500));
}

TEST_CASE("folders hold at most 40 files")
{
    std::map<std::string, int> files;
    for (const char* top : {"cmake", "docs", "io", "jobs", "mpi", "perf", "spack", "src", "tests"})
        for (const auto& entry : std::filesystem::recursive_directory_iterator(root + "/" + top))
            if (entry.is_regular_file())
                ++files[entry.path().parent_path().string()];
    CHECK(files.size() > 50);
    for (const auto& [folder, count] : files) {
        INFO(folder);
        CHECK(count <= 40);
    }
}

TEST_CASE("back-ends are files, not conditionals of the preprocessor")
{
    CHECK(conditionals_per_1000_lines(sources({"src", "mpi", "io"})) < 2);
}

TEST_CASE("syntax of CUDA, HIP and NCCL is in folders of these names")
{
    // Files elsewhere that need a few tokens. `src/base` includes nothing of Kokkos.
    const std::vector<VendorExemption> exemptions{
        {"src/base/bf16.hpp",
         {"__CUDACC__", "__HIP__", "__host__", "__device__"},
         "defines TRV_HOST_DEVICE, without Kokkos"},
        {"src/base/bf16.hpp", {"__CUDA_ARCH__", "asm"}, "rounds with one instruction, inline in each kernel"},
    };
    const std::vector<SourceFile> files =
        sources({"src", "mpi", "io", "tests", "perf"}, {".hpp", ".cpp", ".inc", ".cu", ".h", ".hpp.in"});
    REQUIRE(files.size() > 500);
    none(check_vendor_syntax(files, exemptions));
}

TEST_CASE("no pass names an op or a model")
{
    ForbiddenNames names;
    // Some passes create collectives, messages and slices (the inverse of a gather), so these ops may be
    // named. Passes must not depend on what other ops compute.
    for (const std::string& name : trivium::op_names())
        if (!trivium::find_op(name)->communicates && name != "slice")
            names.ops.push_back(name);
    names.common = {"add",       "sum",       "fill",     "cast",     "accumulate", "stack",   "abs",
                    "sign",      "exp",       "log",      "floor",    "ceil",       "sin",     "cos",
                    "divide",    "select",    "reduce",   "pad",      "constant",   "gather",  "scatter",
                    "sort",      "reverse",   "local",    "global",   "pool",       "compare", "power",
                    "remainder", "negate",    "multiply", "subtract", "maximum",    "minimum", "reshape",
                    "transpose", "broadcast", "sqrt",     "tanh",     "sigmoid",    "erf",     "iota",
                    "combine",   "balance"};
    names.models = trivium::preset_names();
    for (const std::string_view family :
         std::span(trivium::names_of_enum<trivium::Family>).first(trivium::transformer_families))
        names.models.emplace_back(family);
    for (const char* kin : {"gpt", "GPT", "Llama", "llama2", "llama3", "mistral", "qwen"})
        names.models.emplace_back(kin);
    const std::vector<SourceFile> passes = sources({"src/passes"});
    REQUIRE_FALSE(passes.empty());
    none(check_names(passes, names));
}

TEST_CASE("documents, messages and comments use the terms of the field")
{
    std::vector<SourceFile> files =
        sources({"src", "mpi", "io", "tests/io", "tests/crash"}, {".hpp", ".cpp", ".cu", ".inc", ".hpp.in"});
    for (SourceFile& file : sources({"docs"}, {".md"}))
        files.push_back(std::move(file));
    for (SourceFile& file : sources({"jobs"}, {"submit", ".sbatch", ".bash", "quickstart", ".cluster"}))
        files.push_back(std::move(file));
    for (const char* name : {"README.md", "CONTRIBUTING.md"}) {
        std::ostringstream text;
        text << std::ifstream(root + "/" + name).rdbuf();
        CHECK(text.str().size() > 1000);
        files.push_back({name, text.str()});
    }
    // Each of these has a usual English form: resumes, rank 0, depends on, error, "is not", otherwise,
    // forever, special token, occurs, circular, reads back, of n bytes, per step.
    const std::vector<std::string> phrases{"go on on",
                                           "went on from",
                                           "go on from",
                                           "chief",
                                           "more ado",
                                           "hangs on",
                                           "not hang on",
                                           "complaint",
                                           "says of",
                                           "nobody says",
                                           "nobody knows",
                                           "put back",
                                           "that is no",
                                           "which is no",
                                           "this is no",
                                           "is no JSON",
                                           "is no number",
                                           "is no file",
                                           "where there is none",
                                           "for ever",
                                           "let be",
                                           "no rate of",
                                           "says nothing",
                                           "lie alike",
                                           "one behind the other",
                                           "goes on",
                                           "comes back",
                                           "come back",
                                           "in vain",
                                           "gets on",
                                           "beside",
                                           "whoever",
                                           "control word",
                                           "added word",
                                           "what is said",
                                           "nobody reads",
                                           "where it is given",
                                           "stands in",
                                           "is of no",
                                           "has no place",
                                           "special word",
                                           "is no TOML",
                                           "is no text",
                                           "is no object",
                                           "is no UTF-8",
                                           "are no UTF-8",
                                           "stands there",
                                           "stands twice",
                                           "stand twice",
                                           "are no checkpoint",
                                           "leads round",
                                           "lead round",
                                           "of no matter",
                                           "goes out again",
                                           "of so many bytes",
                                           "a line a step"};
    none(containing(files, phrases));
}
