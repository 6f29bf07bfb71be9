#include "explain_text.hpp"

#include "ir/text.hpp"
#include "ir/verify.hpp"
#include "plan/advice.hpp"
#include "plan/cost.hpp"
#include "plan/graph_file.hpp"
#include "plan/report.hpp"
#include "schedule/commands.hpp"

#include <cmath>
#include <stdexcept>
#include <vector>

namespace trivium {

namespace {

void require(bool holds, const char* promise)
{
    if (!holds)
        throw std::logic_error(promise);
}

void print_and_parse(const Graph& graph, Level level)
{
    const std::string printed = to_text(graph);
    const Graph again = parse_graph(printed, "printed.graph");
    require(to_text(again) == printed, "a graph prints as another one than it parses to");
    verify(again, level);
}

void report(const GraphProgram& program)
{
    const Graph& graph = program.graph;
    for (const std::string& text :
         {sharding_table(program.sharded), communication_table(graph), flops_table(graph),
          memory_table(program.memory), to_text(program.schedule, graph),
          to_text(lower(program.schedule), program.schedule, graph)})
        require(text.empty() || text.back() == '\n', "a report ends within a line");
    for (const CommunicationTotal& total : communication_totals(graph, 3))
        require(total.bytes >= 0 && total.collectives >= 0, "a sum of bytes is negative");
    totals_table(communication_totals(graph, 3));
    for (const Buffer& buffer : program.schedule.buffers)
        require(buffer.bytes >= 0 && buffer.offset >= 0 &&
                    buffer.offset <=
                        (buffer.space == Space::device ? program.memory.arena : program.memory.host_arena) -
                            buffer.bytes,
                "a buffer lies outside of the arena");
    require(program.memory.lower_bound >= 0 && program.memory.lower_bound <= program.memory.arena,
            "the arena is smaller than what lives in it");
    const Timeline timeline = simulate(graph, program.schedule, Machine{}, 1);
    require(std::isfinite(timeline.length()) && timeline.length() >= 0, "a step takes no finite time");
}

} // namespace

void explain_text(const std::string& text)
{
    const Machine machine;
    const GraphProgram program = compile_graph(text, "input.graph", machine, 0);
    const Graph whole = parse_graph(text, "input.graph");
    print_and_parse(whole, whole.at.empty() ? Level::global : Level::local);
    print_and_parse(program.graph,
                    whole.at.empty() && whole.mesh.ranks() == 1 ? Level::global : Level::local);
    report(program);
    if (whole.at.empty() && whole.mesh.ranks() > 1) {
        report(compile_graph(text, "input.graph", machine, whole.mesh.ranks() - 1));
        if (whole.mesh.size(pipeline_axis) == 1)
            for (const Advice& advice : advise(whole, 0.1, 2))
                require(advice.value.empty() == (advice.saved == 0), "advice that saves nothing");
    }
}

namespace {

struct Piece {
    std::size_t at, length;
};

/// Words, or lines with their ends.
std::vector<Piece> pieces_of(const std::string& text, const char* separators, bool with_end)
{
    std::vector<Piece> pieces;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = std::min(text.find_first_of(separators, at), text.size());
        const std::size_t length = end - at + (with_end && end < text.size() ? 1 : 0);
        if (length > 0)
            pieces.push_back({at, length});
        at = end + 1;
    }
    return pieces;
}

constexpr const char* numbers[] = {"0",
                                   "1",
                                   "2",
                                   "3",
                                   "-1",
                                   "64",
                                   "65536",
                                   "1048576",
                                   "4294967296",
                                   "281474976710656",
                                   "9223372036854775807",
                                   "-9223372036854775808",
                                   "1e999",
                                   "nan",
                                   "0.5"};

} // namespace

std::string mutate_graph(std::string text, std::mt19937_64& random)
{
    for (auto n = 1 + random() % 8 / 6; n > 0 && !text.empty(); --n) {
        const auto choice = random() % 8;
        const std::vector<Piece> pieces =
            choice < 3 ? pieces_of(text, "\n", true) : pieces_of(text, " \n,()[]{}<>=\"%:|+", false);
        if (pieces.empty())
            break;
        const Piece to = pieces[random() % pieces.size()], from = pieces[random() % pieces.size()];
        const std::string other = text.substr(from.at, from.length);
        switch (choice) {
        case 0: text.erase(to.at, to.length); break;
        case 1: text.insert(to.at, other); break;
        case 2: text.replace(to.at, to.length, other); break;
        case 3:
        case 4: text.replace(to.at, to.length, other); break;
        case 5:
        case 6: text.replace(to.at, to.length, numbers[random() % std::size(numbers)]); break;
        default: text[random() % text.size()] = static_cast<char>(random() % 256);
        }
    }
    return text;
}

} // namespace trivium
