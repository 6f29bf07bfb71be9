#pragma once
// Reads the files of a corpus in order, as blocks of whole documents.
#include "io/tokens/text/byte_stream.hpp"
#include "io/tokens/text_files.hpp"

#include <memory>
#include <optional>
#include <string_view>

namespace trivium {

/// A part of a corpus for one reader: the documents that begin in part/parts of its bytes.
struct CorpusPart {
    int part = 0, parts = 1;
};

struct TextBlock {
    enum class Form {
        text,  ///< a whole file
        json,  ///< a whole file, of JSON records or text
        lines, ///< whole lines, each a JSON record
        none   ///< the file is not text: `why`
    } form = Form::text;
    const TextFile* file = nullptr;
    std::string content{};
    bool first = true;     ///< of its file and part
    bool at_begin = true;  ///< of its file
    i64 line = 1;          ///< its first line, counted from the begin of the part
    Bytes offset = 0;      ///< of its first byte in the text, likewise
    Bytes before_part = 0; ///< bytes of the file before the part
    Bytes input_bytes = 0; ///< of the file, compressed or not, that were read for it
    std::optional<NotText> why{};
};

/// Not thread-safe. Holds one block, or a whole file if it is not one of lines.
class TextBlocks {
public:
    /// `files` and `key`, the field of the text in a JSON record, must outlive this object.
    TextBlocks(const std::vector<TextFile>& files, const std::string& key, CorpusPart part = {});
    TextBlocks& operator=(TextBlocks&&) noexcept;
    ~TextBlocks();

    /// The next block; nullopt at the end. Errors as ByteStream.
    std::optional<TextBlock> next();

private:
    bool open();
    bool begins_as_lines(bool regular);
    TextBlock take_lines();
    TextBlock take_whole();

    const std::vector<TextFile>* files_;
    const std::string* key_;
    Bytes begin_ = 0, end_ = 0; ///< of this part, in the bytes of all files
    bool is_last_ = true;       ///< the last part, which has what begins at its end
    std::size_t file_ = 0;
    Bytes file_begin_ = 0; ///< of files_[file_], in the bytes of all files
    std::unique_ptr<ByteStream> stream_;
    std::string held_; ///< read, but not in a block yet
    bool as_lines_ = false, first_ = false;
    i64 line_ = 1;
    Bytes offset_ = 0, before_part_ = 0, reported_ = 0;
};

/// May be in front of UTF-8 text.
inline constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";

/// The place of a line of a block, counted from 1: "file:12"; "file" for line 0.
std::string place_of(const TextBlock& block, i64 line);

} // namespace trivium
