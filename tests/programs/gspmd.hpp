#pragma once
// The programs of docs/examples, as training steps, and what they communicate.
#include "ir/graph.hpp"

#include <map>
#include <string>

namespace trivium::gspmd {

/// The text of docs/examples/NAME.graph with its line `mesh` replaced.
std::string example(const std::string& name, const std::string& mesh);
/// With each occurrence of `from` replaced. \pre there is one
std::string replaced(std::string text, const std::string& from, const std::string& to);

/// The program with the gradients of its parameters, and their update with momentum: outputs `new.P` and
/// `new.momentum.P` for each parameter P. The only values that this adds to the inputs are the states
/// `momentum.P`. No value gets an annotation.
std::string training_step(const std::string& text);

/// The values of a text that carry an annotation.
int annotations(const std::string& text);

struct Sent {
    int count = 0;    ///< collectives
    double bytes = 0; ///< that a rank sends, on average over all ranks
};
/// By kind and axes: "all_gather(y)", "halo(x,y)".
using Traffic = std::map<std::string, Sent>;

/// What the ranks send, by the graph of each.
Traffic traffic(const std::string& text);
double total(const Traffic& traffic);
std::string text_of(const Traffic& traffic);

/// Bytes that the first rank computes in the forward pass and keeps for the backward pass.
double activations(const std::string& text);

/// The sharding that propagation gives to a value, as text.
std::string sharding_of(const std::string& text, const std::string& value);

} // namespace trivium::gspmd
