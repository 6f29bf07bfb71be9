#pragma once
// Sets of code points, and Oniguruma's classes of characters.
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace trivium {

inline constexpr std::uint32_t last_code = 0x10ffff;

/// Sorted ranges of code points that neither touch nor overlap, both ends included.
using CodeSet = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

/// `set` may have ranges in any order.
CodeSet joined(CodeSet set);
CodeSet complement(const CodeSet& set);

enum class CodeClass { space, digit, word };
/// Oniguruma's table of a class, or of a Unicode property ("Lu", "Han"); nullopt if it has none. \pre
/// Oniguruma is initialised
std::optional<CodeSet> code_class(CodeClass kind);
std::optional<CodeSet> code_class(std::string_view property);

} // namespace trivium
