#pragma once
// Selects the files of a text corpus.
#include "io/tokens/corpus_report.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trivium {

struct TextSelection {
    std::vector<std::string> inputs; ///< files and folders; folders are searched recursively
    std::string key{}; ///< field of a JSON record, or column of a Parquet file, with the text; empty: "text"
    std::vector<std::string> include{}, exclude{}; ///< patterns ("*.md") for files in folders
    /// Skip and count what would be an error: bad records, named files that are not text.
    bool skip_bad = false;
    std::vector<std::string> own{}; ///< files that the command itself reads or writes: skipped in folders
    /// Records of chats (io/chat/conversation.hpp) are documents, unless a `key` is set.
    bool chats = false;
};

struct TextFile {
    std::string path;
    bool named = false; ///< named as an input; otherwise found in a folder
    Bytes bytes = 0;
};

/// The files in order: inputs as named; the files of a folder, recursively, sorted by path. In folders it
/// skips, and adds to `report`: hidden files and folders (".NAME"), files that the patterns exclude, links to
/// folders, and anything that is not a file. Shell patterns match the file's name, or if they contain '/' the
/// path below the folder. UserError if there is no input, an input is missing, or patterns are set although
/// no input is a folder; IoError if a folder cannot be listed.
std::vector<TextFile> list_text_files(const TextSelection& selection, CorpusReport& report);

/// A kind of file that is not text, and what to do about it.
struct NotText {
    CorpusReport::Skipped kind;
    std::string problem, reason, remedy; ///< of one file
};
/// Detects files that are not text by name and first bytes; nullopt if the file may be text.
std::optional<NotText> not_text(const std::string& path, std::string_view head);
inline constexpr std::size_t head_bytes = 8192;

} // namespace trivium
