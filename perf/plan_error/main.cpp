// How long `trivium plan` expects measured steps to take, and the constants with which it is right.
//
//   perf_plan_error [ROWS.csv …]                    the rows of this folder by default; a run of your own is a line more
//   perf_plan_error --machine a100 --fit            constants of one machine that fit its rows best
//   perf_plan_error --leave-one-out                 also the error of each source with constants found without it
//   perf_plan_error --markdown                      the table of docs/planner.md
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
    std::vector<std::string> keys{"product_efficiency", "product_half", "tensor_overlap", "stragglers"};
    bool fit = false, leave_one_out = false, markdown = false, parts = false;
};

/// The machine of rows, with the values of --set.
Machine machine_of(const std::string& name, const Options& options)
{
    Machine machine = machine_at(name);
    for (const std::string& set : options.sets) {
        const std::size_t equals = set.find('=');
        if (equals == std::string::npos)
            throw UserError({"--set", str("'", set, "' has no '='"), "", "write key=value"});
        set_key(machine, set.substr(0, equals), std::stod(set.substr(equals + 1)));
    }
    return machine;
}

/// Fills Simulated::left_out, by row.
void leave_sources_out(std::vector<CompiledRow>& rows, const Machine& machine, const Options& options,
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
        const Machine without = fitted(rows, included, machine, options.keys);
        for (std::size_t i = 0; i < rows.size(); ++i)
            if (!included[i])
                simulated[i].left_out = simulate_row(rows[i], without) / rows[i].row.measured - 1;
    }
}

int run(const Options& options)
{
    std::vector<Row> rows;
    for (const std::string& file : options.files)
        for (Row& row : read_rows(file))
            if (options.machines.empty() || std::ranges::find(options.machines, row.machine) != options.machines.end())
                rows.push_back(std::move(row));
    std::vector<Simulated> all;
    while (!rows.empty()) { // a machine at a time: programs are large
        const std::string name = rows.front().machine;
        Machine machine = machine_of(name, options);
        std::vector<CompiledRow> compiled;
        for (const Row& row : rows)
            if (row.machine == name) {
                log_info(str("compiling ", row.id));
                compiled.push_back(compile_row(row, machine));
            }
        std::erase_if(rows, [&](const Row& row) { return row.machine == name; });
        if (options.fit) {
            machine = fitted(compiled, std::vector<bool>(compiled.size(), true), machine, options.keys);
            for (const std::string& key : options.keys)
                fmt::print("{} {} = {:.4g}\n", name, key, key_value(machine, key));
        }
        std::vector<Simulated> simulated;
        for (CompiledRow& row : compiled) {
            simulated.push_back({row.row, simulate_row(row, machine)});
            if (options.parts)
                fmt::print("{}: {}\n", row.row.id, parts_of(row));
        }
        if (options.leave_one_out)
            leave_sources_out(compiled, machine, options, simulated);
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
    program.option("files", options.files, "files of rows; by default published.csv and own.csv", {.type = "ROWS.csv"})
        .option("--machine", options.machines, "only rows of these machines", {.list = true, .type = "NAME,…"})
        .option("--set", options.sets, "other constants than the machine's", {.list = true, .type = "key=value,…"})
        .option("--keys", options.keys, "constants to find", {.list = true, .type = "KEY,…"})
        .flag("--fit", options.fit, "find constants with which the rows are right")
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
