#pragma once
// Reads the files of a corpus in order, as blocks of whole documents.
#include "io/tokens/text/byte_stream.hpp"
#include "io/tokens/text_files.hpp"

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace trivium {

/// What the documents of files are.
struct RecordRule {
    std::string key = "text"; ///< the field of a JSON record, or column of a Parquet file, that has the text
    bool skip_bad = false;    ///< leaves out bad records, and named files that are not text
    bool chats = false;       ///< records of chats are documents, too
};
/// Whether a JSON record has text or a chat. UserError about `place` if it is not valid JSON.
bool has_document(std::string_view record, const RecordRule& rule, const std::string& place);

/// A part of a corpus for one reader: the documents that begin in part/parts of its bytes.
struct CorpusPart {
    int part = 0, parts = 1;
};

struct TextBlock {
    enum class Form {
        text,    ///< a whole file
        json,    ///< a whole file, of JSON records or text
        lines,   ///< whole lines, each a JSON record
        rows,    ///< of a Parquet file, each a text
        records, ///< likewise, each a JSON record
        none     ///< the file is not text: `why`
    } form = Form::text;
    const TextFile* file = nullptr;
    std::string content{};
    bool first = true;    ///< of its file and part
    bool at_begin = true; ///< of its file
    i64 line = 1;         ///< its first line, counted from the begin of the part; rows: from that of the file
    Bytes offset = 0;     ///< of its first byte in the text, likewise
    Bytes before_part = 0; ///< bytes of the file before the part
    Bytes input_bytes = 0; ///< of the file, compressed or not, that were read for it
    std::optional<NotText> why{};
    std::vector<std::optional<std::string>> rows{}; ///< of `rows` and `records`; nullopt: null
};

class RowBlocks;

/// Not thread-safe. Holds one block, or a whole file if it is neither one of lines nor Parquet.
class TextBlocks {
public:
    /// `files` and `rule` must outlive this object. With skip_bad, a Parquet file, or a row group of one,
    /// that cannot be read becomes a block of Form::none.
    TextBlocks(const std::vector<TextFile>& files, const RecordRule& rule, CorpusPart part = {});
    TextBlocks& operator=(TextBlocks&&) noexcept;
    ~TextBlocks();

    /// The next block; nullopt at the end. Errors as ByteStream and ParquetRows.
    std::optional<TextBlock> next();

private:
    bool open();
    bool begins_as_lines(bool regular);
    TextBlock take_lines();
    TextBlock take_whole();

    const std::vector<TextFile>* files_;
    const RecordRule* rule_;
    Bytes begin_ = 0, end_ = 0; ///< of this part, in the bytes of all files
    bool is_last_ = true;       ///< the last part, which has what begins at its end
    std::size_t file_ = 0;
    Bytes file_begin_ = 0; ///< of files_[file_], in the bytes of all files
    std::unique_ptr<ByteStream> stream_;
    std::unique_ptr<RowBlocks> rows_; ///< in place of stream_
    std::string held_;                ///< read, but not in a block yet
    bool as_lines_ = false, first_ = false;
    i64 line_ = 1;
    Bytes offset_ = 0, before_part_ = 0, reported_ = 0;
};

/// May be in front of UTF-8 text.
inline constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";

/// The place of a line or row of a block, counted from 1: "file:12", "file, row 12"; "file" for line 0.
std::string place_of(const TextBlock& block, i64 line);

} // namespace trivium
