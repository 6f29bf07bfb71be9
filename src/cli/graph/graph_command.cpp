// `trivium graph import` and `trivium graph export`.
#include "base/check.hpp"
#include "cli/commands.hpp"
#include "cli/graph/run_graph.hpp"
#include "io/files/files.hpp"
#include "ir/builder.hpp"
#include "ir/limits.hpp"
#include "ir/names.hpp"
#include "ir/text/text.hpp"
#include "plan/graph_file.hpp"
#include "stablehlo/import.hpp"

#include <iostream>
#include <memory>

namespace trivium {

namespace {

struct GraphArguments {
    std::string file, output, constants;
    HloImport how;
};

/// To the file, or to standard output without one.
void write(const std::string& output, const std::string& text)
{
    if (output.empty())
        std::cout << text;
    else
        write_file(output, text);
}

std::string read_text(const std::string& file, const char* what)
{
    return read_file(file, what, static_cast<Bytes>(max_text_bytes));
}

/// The loss of a function is a mean over its samples, so a training divides the sum over microbatches by
/// their number.
void add_count(Graph& graph)
{
    if (graph.find("count"))
        return;
    Builder b(graph);
    b.where.block = graph[graph[graph.find(value_name::loss)].producer].block;
    Attributes one;
    one.dtype = DType::f32;
    one.value = 1;
    one.lists.set(Attr::shape, {});
    graph.outputs.push_back(b.op1(OpKind::constant, {}, one, "count"));
}

int import_graph(const GraphArguments& a)
{
    HloGraph made = import_hlo(read_text(a.file, "StableHLO file"), a.file, a.how);
    if (a.how.loss)
        add_count(made.graph);
    if (!made.contents.empty() && a.constants.empty())
        throw UserError({a.file,
                         str("has a constant of type ", made.contents[0].type,
                             " with more different elements than a graph can state"),
                         "", "--constants FILE.safetensors writes such constants, which become inputs"});
    if (!a.constants.empty())
        write_contents(a.constants, made.contents);
    write(a.output, to_text(made.graph));
    return 0;
}

int export_graph(const GraphArguments& a)
{
    write(a.output, export_hlo(read_graph(read_text(a.file, "graph file"), a.file)));
    return 0;
}

} // namespace

void add_graph_command(Command& program)
{
    Command graph =
        program.add("graph", "translate graphs from and to StableHLO, which JAX and PyTorch/XLA write");
    const auto arguments = std::make_shared<GraphArguments>();
    Command from_hlo = graph.add("import", "StableHLO text, as jax.export writes it, as a FILE.graph");
    from_hlo.option("file", arguments->file, "StableHLO text", {.required = true, .type = "FILE.mlir"})
        .option("--output", arguments->output, "file for the graph (default: standard output)",
                {.type = "FILE.graph"})
        .option("--parameters", arguments->how.parameters,
                "arguments whose names match become parameters, the others are inputs", {.type = "REGEX"})
        .flag("--loss", arguments->how.loss,
              "call the first result, a scalar, `loss`: the mean over samples that a training lowers")
        .option("--constants", arguments->constants,
                "safetensors file for constants that a graph cannot state; they become inputs",
                {.type = "FILE"});
    from_hlo.action([=] { return import_graph(*arguments); });
    Command to_hlo = graph.add("export", "a FILE.graph as StableHLO text with shardings of the dialect sdy");
    to_hlo.option("file", arguments->file, "graph of all ranks", {.required = true, .type = "FILE.graph"})
        .option("--output", arguments->output, "file for the text (default: standard output)",
                {.type = "FILE.mlir"});
    to_hlo.action([=] { return export_graph(*arguments); });
}

} // namespace trivium
