// The planner build: the commands that need MPI, Kokkos, oneDNN and HDF5 report that they are missing.
#include "base/check.hpp"
#include "cli/commands.hpp"
#include "cli/config_arguments.hpp"
#include "cli/graph/run_graph.hpp"

#include <limits>

namespace trivium {

void add_runtime_commands(Command& program, const std::string&)
{
    for (const char* name : {"train", "check", "eval", "generate", "serve", "data", "checkpoint"})
        program.add(name, "not in this build (planner only)").accept_anything().action([=]() -> int {
            throw UserError({str("trivium ", name), "is not part of this build",
                             "it was built with the preset 'planner', without MPI, Kokkos, oneDNN and HDF5",
                             "build with the preset 'default'"});
        });
}

int run_graph(const GraphRunArguments&)
{
    throw UserError({"trivium explain --run", "is not part of this build",
                     "it was built with the preset 'planner', without MPI, Kokkos, oneDNN and HDF5",
                     "build with the preset 'default'"});
}

void write_contents(const std::string&, const std::vector<HloContents>&)
{
    throw UserError({"trivium graph import --constants", "is not part of this build",
                     "it was built with the preset 'planner', without MPI, Kokkos, oneDNN and HDF5",
                     "build with the preset 'default'"});
}

int thread_limit() { return std::numeric_limits<int>::max(); }

i64 vocabulary_of(const DataConfig& data)
{
    if (data.tokenizer.empty() || data.tokenizer == "bytes")
        return 258; // 256 bytes, bos, eos
    throw UserError({"model.vocab", "is not set",
                     "this build (planner only) cannot read the tokenizer " + data.tokenizer,
                     "set model.vocab"});
}

bool stores_have_masks(const DataConfig&) { return false; }

} // namespace trivium
