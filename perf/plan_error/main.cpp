// How long `trivium plan` expects measured steps to take, and the constants with which it is right.
//
//   perf_plan_error [ROWS.csv …]                    the rows of this folder by default; a run of your own is
//   a line more perf_plan_error --machine h100 --fit            constants of a machine that fit its rows best
//   perf_plan_error --leave-one-out                 also the error of each source with constants found
//   without it perf_plan_error --markdown                      the table of docs/planner.md
#include "base/check.hpp"
#include "base/log.hpp"
#include "cli/command_line.hpp"
#include "cli/machine_file.hpp"
#include "fit.hpp"
#include "report.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace trivium {

namespace {

struct Options {
    std::vector<std::string> files, machines, sets;
    std::vector<std::string> keys{"product_efficiency"};
    bool fit = false, together = false, leave_one_out = false, markdown = false, parts = false;
};

/// The values of --set.
Constants set_values(const Options& options)
{
    Constants constants;
    for (const std::string& set : options.sets) {
        const std::size_t equals = set.find('=');
        if (equals == std::string::npos)
            throw UserError({"--set", str("'", set, "' has no '='"), "", "write key=value"});
        constants.names.push_back(set.substr(0, equals));
        constants.values.push_back(std::stod(set.substr(equals + 1)));
    }
    return constants;
}

/// Fills Simulated::left_out, by row.
void leave_sources_out(std::vector<CompiledRow>& rows, const Constants& constants,
                       std::vector<Simulated>& simulated)
{
    std::vector<std::string> sources;
    for (const CompiledRow& row : rows)
        if (std::ranges::find(sources, row.row.source) == sources.end())
            sources.push_back(row.row.source);
    if (sources.size() < 2)
        return;
    for (const std::string& source : sources) {
        std::vector<bool> included;
        for (const CompiledRow& row : rows)
            included.push_back(row.row.source != source);
        Constants begin = constants;
        for (double& value : begin.values) // away from what the source has helped to find
            value *= 0.9;
        const Constants without = fitted(rows, included, begin);
        for (std::size_t i = 0; i < rows.size(); ++i)
            if (!included[i])
                simulated[i].left_out =
                    simulate_row(rows[i], with(rows[i].machine, without)) / rows[i].row.measured - 1;
    }
}

/// Rows that have their constants in common. Takes them from `rows`: those of a machine, whose programs are
/// large, or with --together all.
std::vector<CompiledRow> compile_next(std::vector<Row>& rows, const Options& options)
{
    const std::string name = rows.front().machine;
    const Constants set = set_values(options);
    std::vector<CompiledRow> compiled;
    for (const Row& row : rows)
        if (options.together || row.machine == name) {
            log_info(str("compiling ", row.id));
            compiled.push_back(compile_row(row, with(machine_at(row.machine), set)));
        }
    std::erase_if(rows, [&](const Row& row) { return options.together || row.machine == name; });
    return compiled;
}

int run(const Options& options)
{
    std::vector<Row> rows;
    for (const std::string& file : options.files)
        for (Row& row : read_rows(file))
            if (options.machines.empty() ||
                std::ranges::find(options.machines, row.machine) != options.machines.end())
                rows.push_back(std::move(row));
    std::vector<Simulated> all;
    while (!rows.empty()) {
        std::vector<CompiledRow> compiled = compile_next(rows, options);
        Constants constants; // none: those of each machine
        if (options.fit || options.leave_one_out)
            constants = constants_of(compiled.front().machine, options.keys);
        if (options.fit) {
            constants = fitted(compiled, std::vector<bool>(compiled.size(), true), constants);
            for (std::size_t i = 0; i < constants.names.size(); ++i)
                fmt::print("{} = {:.4g} # {}\n", constants.names[i], constants.values[i],
                           compiled.front().row.machine);
        }
        std::vector<Simulated> simulated;
        for (CompiledRow& row : compiled) {
            simulated.push_back({row.row, simulate_row(row, with(row.machine, constants))});
            if (options.parts)
                fmt::print("{}: {}\n", row.row.id, parts_of(row));
        }
        if (options.leave_one_out)
            leave_sources_out(compiled, constants, simulated);
        all.insert(all.end(), simulated.begin(), simulated.end());
    }
    fmt::print("{}", table_of(all, options.markdown));
    return 0;
}

int main_of(int argc, char* argv[])
{
    CommandLine line("perf_plan_error", "How long `trivium plan` expects measured steps to take.", "");
    Command program = line.root();
    Options options;
    program
        .option("files", options.files, "files of rows; by default published.csv and own.csv",
                {.type = "ROWS.csv"})
        .option("--machine", options.machines, "only rows of these machines",
                {.list = true, .type = "NAME,…"})
        .option("--set", options.sets, "other constants than the machine's",
                {.list = true, .type = "key=value,…"})
        .option("--keys", options.keys, "constants to find", {.list = true, .type = "KEY,…"})
        .flag("--fit", options.fit, "find constants with which the rows are right")
        .flag("--together", options.together, "find one value for all machines, not one for each")
        .flag("--leave-one-out", options.leave_one_out,
              "find constants without the rows of each source, and print these rows' errors")
        .flag("--parts", options.parts, "print what the busiest stage of each row does")
        .flag("--markdown", options.markdown, "print Markdown");
    program.action([&] {
        if (options.files.empty())
            options.files = {TRIVIUM_ROWS "/published.csv", TRIVIUM_ROWS "/own.csv"};
        return run(options);
    });
    return line.run(argc, argv);
}

} // namespace

} // namespace trivium

int main(int argc, char* argv[])
{
    try {
        return trivium::main_of(argc, argv);
    } catch (const trivium::Error& error) {
        fmt::print(stderr, "{}\n", error.what());
        return error.exit_status();
    }
}
