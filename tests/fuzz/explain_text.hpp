#pragma once
// The steps of `trivium explain FILE.graph`, each checked.
#include <random>
#include <string>

namespace trivium {

/// Parses, verifies, prints, shards, schedules, plans and reports. Throws UserError if the text is refused,
/// and std::logic_error if a guarantee is violated: a graph that prints as another one, a buffer outside the
/// arena.
void explain_text(const std::string& text);

/// `text` with one or two changes: of bytes, or words and lines replaced by others.
std::string mutate_graph(std::string text, std::mt19937_64& random);

} // namespace trivium
