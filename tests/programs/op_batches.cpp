#include "op_batches.hpp"

#include "base/check.hpp"
#include "ir/text/text.hpp"

namespace trivium {

namespace {

std::string head_of(const Mesh& mesh)
{
    std::string text = "graph batch\nmesh";
    for (const MeshAxis& axis : mesh.axes)
        text += str(" ", axis.name, "=", axis.size);
    return text + "\n";
}

std::string numbered(const std::string& text, std::size_t number)
{
    std::string made;
    for (const char c : text)
        made += c == '%' ? str("%p", number, "_") : std::string(1, c);
    return made;
}

/// The lines of the program, without the mesh.
std::string lines_of(const OpProgram& program, std::size_t number)
{
    const OpCase& op = *program.op;
    std::string text;
    for (std::size_t i = 0; i < op.inputs.size(); ++i)
        text += "input " + op.inputs[i] + " " + to_text(program.shardings[i]) + "\n";
    // The types of the last line are those of the outputs: a sharding goes after each.
    std::string body = op.body;
    std::size_t at = body.rfind(" : ");
    for (std::size_t r = 0; r < op.outputs.size(); ++r) {
        at = body.find(']', at) + 1;
        const std::string sharding = " " + to_text(program.shardings[op.inputs.size() + r]);
        body.insert(at, sharding);
        at += sharding.size();
    }
    text += body;
    for (const std::string& output : op.outputs)
        text += "output %" + output + "\n";
    return numbered(text, number);
}

} // namespace

std::vector<TensorType> types_of(const OpCase& op)
{
    OpProgram plain{&op, std::vector<Sharding>(op.inputs.size() + op.outputs.size())};
    const Graph graph = parse_graph("graph t\n" + lines_of(plain, 0), op.name);
    std::vector<TensorType> types;
    for (std::size_t i = 0; i < op.inputs.size(); ++i)
        types.push_back(graph.values[i].type);
    for (const ValueId v : graph.outputs)
        types.push_back(graph[v].type);
    return types;
}

std::string text_of(const OpProgram& program, const Mesh& mesh, std::size_t number)
{
    return head_of(mesh) + lines_of(program, number);
}

std::string text_of(const std::vector<OpProgram>& batch, const Mesh& mesh)
{
    std::string text = head_of(mesh);
    for (std::size_t i = 0; i < batch.size(); ++i)
        text += lines_of(batch[i], i);
    return text;
}

AllPairs::AllPairs(const OpCase& op, const Mesh& mesh) : op_(op)
{
    for (const TensorType& type : types_of(op)) {
        choices_.push_back(all_closed_shardings(type.shape, mesh));
        count_ *= choices_.back().size();
    }
}

OpProgram AllPairs::at(u64 number) const
{
    OpProgram program{&op_, {}};
    for (const std::vector<Sharding>& choices : choices_) {
        program.shardings.push_back(choices[number % choices.size()]);
        number /= choices.size();
    }
    return program;
}

OpProgram drawn_program(Draw& draw, const OpCase& op, const Mesh& mesh, const AxisPieces& pieces)
{
    OpProgram program{&op, {}};
    for (const TensorType& type : types_of(op)) {
        const bool input = program.shardings.size() < op.inputs.size();
        const bool states = below(draw, input ? 8 : 2) != 0;
        program.shardings.push_back(states ? drawn_sharding(draw, type, mesh, pieces, {.partial = input})
                                           : Sharding{});
    }
    return program;
}

} // namespace trivium
