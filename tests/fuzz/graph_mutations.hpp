#pragma once
// Damage to the text of a graph that knows its grammar: most random bytes fail in the parser, these reach the
// passes.
#include <random>
#include <string>

namespace trivium {

/// `text` with one to three changes: lines, words, numbers (one or all that are equal), operands, ops,
/// attributes, shardings and mesh axes replaced, removed, doubled or exchanged; seldom a byte. Half of the
/// results then have their declared types corrected (with_inferred_types).
std::string mutate_graph(std::string text, std::mt19937_64& random);

/// Corrects the declared types of results, one after the other, as the messages of verify() say.
std::string with_inferred_types(std::string text);

} // namespace trivium
