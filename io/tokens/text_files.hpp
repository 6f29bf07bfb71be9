#pragma once
// Which files a text corpus is made of.
#include "io/tokens/corpus_report.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trivium {

struct TextSelection {
    std::vector<std::string> inputs; ///< files, and folders, which are walked
    std::string key{};               ///< field of a JSON record that holds the text; empty: "text"
    std::vector<std::string> include{},
        exclude{};                  ///< patterns ("*.md") for files in folders: only these, and not those
    std::vector<std::string> own{}; ///< files that the command itself reads or writes: not read from folders
};

struct TextFile {
    std::string path;
    bool named = false; ///< as an input; otherwise it was found in a folder
    Bytes bytes = 0;
};

/// The files in order: inputs as they are given, those of a folder and its sub-folders sorted by path. Left
/// out of folders, and told to `report`: hidden files and folders (".NAME"), what the patterns leave out,
/// links to folders, and what is no file. A pattern is the shell's; it is matched with the file's name, or
/// where it has a '/' with the path below the folder. UserError if an input is missing or patterns can
/// apply to nothing; IoError if a folder cannot be listed.
std::vector<TextFile> list_text_files(const TextSelection& selection, CorpusReport& report);

/// ".txt", "" where there is none.
std::string suffix_of(const std::string& path);

/// A kind of file that is not text, and what to do about it.
struct NotText {
    CorpusReport::Skipped kind;
    std::string problem, reason, remedy; ///< of one file
};
/// What a name and the first bytes tell; nothing where it may be text.
std::optional<NotText> not_text(const std::string& path, std::string_view head);
inline constexpr std::size_t head_bytes = 8192;

} // namespace trivium
