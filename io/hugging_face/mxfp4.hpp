#pragma once
// Experts in blocks of 4-bit numbers, as gpt-oss is published: MXFP4 of the OCP Microscaling Formats
// Specification 1.0. 32 neighbouring inputs of an output are 16 bytes, the lower half of a byte first, and an
// exponent that they share.
#include "io/hugging_face/hugging_face.hpp"

namespace trivium {

/// The tensors that stand for `name` in the files, of U8: blocks [experts, out, in / 32, 16] and scales
/// [experts, out, in / 32].
struct Mxfp4Names {
    explicit Mxfp4Names(const std::string& name) : blocks(name + "_blocks"), scales(name + "_scales") {}
    std::string blocks, scales;
};

/// Whether the files have them. UserError about `place` if their types or shapes are not those of `tensor`,
/// of all experts together.
bool has_mxfp4(const HuggingFaceTensor& tensor, const SafetensorsReader& files, const std::string& place);

/// As imported_values, which it is for such a tensor. Keeps the values of one expert. \pre has_mxfp4()
ValueSource mxfp4_values(const HuggingFaceTensor& tensor, std::size_t part, const SafetensorsReader& from);

} // namespace trivium
