#pragma once
// Many small programs as independent parts of one: ranks, communicators and passes start once for all.
#include "op_cases.hpp"
#include "shardings.hpp"

namespace trivium {

/// An op case with a sharding for each of its inputs, then for each of its outputs; one without dimensions
/// states nothing.
struct OpProgram {
    const OpCase* op = nullptr;
    std::vector<Sharding> shardings;
};

/// The types of a case's inputs, then of its outputs.
std::vector<TensorType> types_of(const OpCase& op);

/// The text of the program with its number in the batch, which is in all names: numbers are drawn by name.
std::string text_of(const OpProgram& program, const Mesh& mesh, std::size_t number);
std::string text_of(const std::vector<OpProgram>& batch, const Mesh& mesh);

/// The closed shardings of all tensors of a case: every combination has a number.
class AllPairs {
public:
    AllPairs(const OpCase& op, const Mesh& mesh);
    u64 count() const { return count_; }
    OpProgram at(u64 number) const;

private:
    const OpCase& op_;
    std::vector<std::vector<Sharding>> choices_;
    u64 count_ = 1;
};

/// Shardings of all forms, of any tensor of the case.
OpProgram drawn_program(Draw& draw, const OpCase& op, const Mesh& mesh, const AxisPieces& pieces);

} // namespace trivium
