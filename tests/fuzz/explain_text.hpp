#pragma once
// What `trivium explain FILE.graph` does with a text, checked step by step.
#include <random>
#include <string>

namespace trivium {

/// Parses, verifies, prints, shards, schedules, plans and reports. Throws UserError where the text is
/// refused, and std::logic_error where a promise is broken: a graph that prints as another one, a buffer
/// outside of the arena.
void explain_text(const std::string& text);

/// `text` with one or two damages: to bytes, or words and lines put in the place of others.
std::string mutate_graph(std::string text, std::mt19937_64& random);

} // namespace trivium
