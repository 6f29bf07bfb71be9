#pragma once
// The steps of `trivium explain FILE.graph`, each checked.
#include <string>

namespace trivium {

/// Parses, verifies, prints, shards, partitions for several ranks, schedules, plans, reports and advises.
/// Throws UserError if the text is refused, and std::logic_error if a guarantee is violated: a graph that
/// prints as another one, an annotation that changes, a buffer outside the arena, ranks that do not fit
/// together.
void explain_text(const std::string& text);

} // namespace trivium
