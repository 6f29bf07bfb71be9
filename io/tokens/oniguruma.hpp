#pragma once
// Patterns of tokenizer.json are written for Oniguruma, in its Ruby syntax. PCRE2 runs them here.
#include <string>
#include <string_view>

namespace trivium {

/// The same pattern for PCRE2 (with UTF, UCP, MULTILINE and LF as the newline): \s, \w and the like become
/// what Oniguruma takes them for, scripts are told from script extensions. UserError about `place` for what
/// the two read differently and no tokenizer is known to use: \b, \h, (?m), named groups, classes in classes,
/// {n}? and {n,m}+. Beyond the Unicode versions, one difference stays: (?i:ss) does not match U+00DF here.
/// Sources: Oniguruma's doc/RE, pcre2pattern(3).
std::string pcre2_pattern(std::string_view pattern, const std::string& place);

} // namespace trivium
