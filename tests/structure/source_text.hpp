#pragma once
// Source files as text, for checks by line.
#include <string>
#include <string_view>
#include <vector>

namespace trivium::structure {

struct SourceFile {
    std::string path; ///< relative to the repository
    std::string text;
};

/// A finding, in readable form: "file:line: what".
using Findings = std::vector<std::string>;

/// All files below root/folder whose names end in one of `endings`, sorted by path.
std::vector<SourceFile> read_sources(const std::string& root, const std::string& folder,
                                     const std::vector<std::string>& endings);

/// The lines without their ends.
std::vector<std::string> lines_of(std::string_view text);

/// The text with comments blanked (newlines stay). String and character literals stay, raw strings too.
std::string without_comments(std::string_view text);

/// The same, with the insides of literals blanked too; their quotes stay.
std::string without_literals(std::string_view text);

/// Whether `line` contains `word`, not adjacent to a letter, digit or underscore.
bool has_word(std::string_view line, std::string_view word);

/// Lines that contain one of `phrases` as whole words.
Findings containing(const std::vector<SourceFile>& files, const std::vector<std::string>& phrases);

/// Types that two of `files` define at the beginning of a line in one namespace: the linker would take one
/// for the other.
Findings types_defined_twice(const std::vector<SourceFile>& files);

/// Files with more than `most` lines.
Findings too_long(const std::vector<SourceFile>& files, std::size_t most);

/// Lines that open a conditional of the preprocessor (#if, #ifdef, #ifndef), per 1000 lines of all files.
double conditionals_per_1000_lines(const std::vector<SourceFile>& files);

} // namespace trivium::structure
