// Every general op, whatever the shardings of its operands and results, computes what one rank computes.
#include "base/check.hpp"
#include "catch.hpp"
#include "ir/text.hpp"
#include "mpi/comm.hpp"
#include "op_cases.hpp"
#include "plan/collective_list.hpp"
#include "plan/graph_file.hpp"
#include "programs/compare.hpp"
#include "runs.hpp"

#include <map>
#include <random>

using namespace trivium;

namespace {

using Draw = std::mt19937_64;

std::size_t below(Draw& draw, std::size_t n) { return static_cast<std::size_t>(draw() % n); }

/// A sharding of a tensor of this type as text; empty now and then.
std::string drawn_sharding(Draw& draw, const std::string& type, const Mesh& mesh, bool open)
{
    const Value v = parse_graph("graph t\ninput %x : " + type + "\n", "t").values[0];
    const Shape& shape = v.type.shape;
    std::vector<MeshAxis> left = mesh.axes;
    std::shuffle(left.begin(), left.end(), draw);
    Sharding sharding;
    for (const i64 extent : shape) {
        DimSharding dim;
        i64 parts = 1;
        while (!left.empty() && below(draw, 2) == 0) {
            if (parts * left.back().size <= extent) {
                dim.axes.push_back(left.back().name);
                parts *= left.back().size;
            }
            left.pop_back();
        }
        dim.open = open && below(draw, 3) == 0;
        sharding.dims.push_back(dim);
    }
    std::shuffle(sharding.dims.begin(), sharding.dims.end(), draw);
    for (std::size_t d = 0; d < shape.size(); ++d) { // after the shuffle an extent may be too small
        i64 parts = 1;
        for (const std::string& axis : sharding.dims[d].axes)
            parts *= mesh.size(axis);
        if (parts > shape[d])
            sharding.dims[d].axes.clear();
    }
    return shape.empty() ? "" : " " + to_text(sharding);
}

std::string program(Draw& draw, const OpCase& op, const Mesh& mesh)
{
    std::string text = "graph t\nmesh";
    for (const MeshAxis& axis : mesh.axes)
        text += str(" ", axis.name, "=", axis.size);
    text += "\n";
    for (const std::string& input : op.inputs)
        text += "input " + input + drawn_sharding(draw, input.substr(input.find(':') + 2), mesh, true) + "\n";
    std::string body = op.body;
    if (below(draw, 2) == 0) { // also a sharding of the last result
        const std::size_t type = body.rfind(" : ");
        const std::string last = body.substr(type + 3, body.size() - type - 4);
        if (last.find("], ") == std::string::npos)
            body = body.substr(0, body.size() - 1) + drawn_sharding(draw, last, mesh, true) + "\n";
    }
    text += body;
    for (const std::string& output : op.outputs)
        text += "output %" + output + "\n";
    return text;
}

const std::vector<Mesh> meshes{
    {{{"x", 2}}}, {{{"x", 4}}},           {{{"x", 2}, {"y", 2}}},           {{{"x", 3}, {"y", 2}}},
    {{{"x", 6}}}, {{{"x", 2}, {"y", 4}}}, {{{"x", 2}, {"y", 2}, {"z", 2}}}, {{{"x", 8}}}};

} // namespace

TEST_CASE("every op, with any shardings of its operands, equals the op on one rank")
{
    runs::start_runtime();
    int run = 0;
    std::map<std::string, int> kinds;
    const char* only = std::getenv("TRIVIUM_CASE");
    for (const OpCase& op : op_cases()) {
        if (only && op.name != only)
            continue;
        for (std::size_t m = 0; m < meshes.size(); ++m) {
            const int times = m == 0 ? 6 : 4;
            for (int n = 0; n < times; ++n) {
                Draw draw(std::hash<std::string>{}(op.name) + 1000 * m + static_cast<u64>(n));
                const std::string text = program(draw, op, meshes[m]);
                INFO(op.name << ", mesh " << m << ", draw " << n << "\n" << text);
                const double difference = runs::difference_on_threads(text, 7);
                CHECK(difference <= 1e-12);
                ++run;
                for (const CollectiveEntry& entry :
                     collectives_of(local_graph(sharded_graph(read_graph(text, "t")), 0)))
                    ++kinds[entry.kind];
            }
        }
    }
    for (const char* kind : {"all_gather", "all_reduce", "reduce_scatter", "all_to_all", "permute", "halo"})
        CHECK((only || kinds[kind] >= 20));
    for (const auto& [kind, times] : kinds)
        WARN(kind << " " << times);
    WARN(run << " programs");
}
