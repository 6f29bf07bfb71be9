#pragma once
// The op table as a page of documentation (docs/ops.md).
#include <string>

namespace trivium {

/// Markdown: one row per op, generated from the table.
std::string op_reference();

} // namespace trivium
