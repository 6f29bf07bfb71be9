#include "io/tokens/text/text_blocks.hpp"

#include "base/check.hpp"
#include "io/files/files.hpp"
#include "io/tokens/json_records.hpp"
#include "io/tokens/text/row_blocks.hpp"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

namespace trivium {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t read_at_once = std::size_t{1} << 20;
constexpr std::string_view blanks = " \t\r\n";

bool is_lines(const std::string& suffix) { return suffix == ".jsonl" || suffix == ".ndjson"; }

i64 count_lines(std::string_view text)
{
    i64 lines = 0;
    for (std::size_t at = text.find('\n'); at != std::string_view::npos; at = text.find('\n', at + 1))
        ++lines;
    return lines;
}

/// The number of lines that end before byte `end` of a file.
i64 lines_before(const std::string& path, Bytes end)
{
    ByteStream stream(path);
    i64 lines = 0;
    for (std::string text; end > 0 && !stream.at_end(); text.clear()) {
        stream.read(text, static_cast<std::size_t>(std::min<Bytes>(end, Bytes{read_at_once})));
        lines += count_lines(text);
        end -= static_cast<Bytes>(text.size());
    }
    return lines;
}

} // namespace

std::string place_of(const TextBlock& block, i64 line)
{
    if (line == 0)
        return block.file->path;
    if (block.form == TextBlock::Form::rows || block.form == TextBlock::Form::records)
        return str(block.file->path, ", row ", block.line + line - 1);
    const i64 before = block.before_part == 0 ? 0 : lines_before(block.file->path, block.before_part);
    return str(block.file->path, ":", before + block.line + line - 1);
}

bool has_document(std::string_view record, const RecordRule& rule, const std::string& place)
{
    return has_text(record, rule.key, place) || (rule.chats && has_chat(record, rule.key));
}

TextBlocks::TextBlocks(const std::vector<TextFile>& files, const RecordRule& rule, CorpusPart part)
    : files_(&files), rule_(&rule), is_last_(part.part + 1 == part.parts)
{
    Bytes total = 0;
    for (const TextFile& file : files)
        total += file.bytes;
    begin_ = total / part.parts * part.part + total % part.parts * part.part / part.parts;
    end_ = total / part.parts * (part.part + 1) + total % part.parts * (part.part + 1) / part.parts;
}

TextBlocks& TextBlocks::operator=(TextBlocks&&) noexcept = default;
TextBlocks::~TextBlocks() = default;

std::optional<TextBlock> TextBlocks::next()
{
    for (; file_ < files_->size(); ++file_, stream_.reset(), rows_.reset()) {
        const TextFile& file = (*files_)[file_];
        if (!stream_ && !rows_) {
            file_begin_ = file_ == 0 ? 0 : file_begin_ + (*files_)[file_ - 1].bytes;
            if (!open())
                continue;
            const auto why = rows_ || before_part_ > 0 // open() has judged the file by its begin
                                 ? std::optional<NotText>()
                                 : not_text(file.path, std::string_view(held_).substr(0, head_bytes));
            if (why) {
                TextBlock block{TextBlock::Form::none, &file};
                block.input_bytes = file.bytes;
                block.why = why;
                ++file_;
                stream_.reset();
                return block;
            }
        }
        if (rows_) {
            if (std::optional<TextBlock> block = rows_->next())
                return block;
            continue;
        }
        if (!as_lines_) {
            TextBlock block = take_whole();
            ++file_;
            stream_.reset();
            return block;
        }
        if (TextBlock block = take_lines(); !block.content.empty())
            return block;
    }
    return {};
}

/// Opens the current file; false if no document of this part begins in it.
bool TextBlocks::open()
{
    const TextFile& file = (*files_)[file_];
    const Bytes from = begin_ - file_begin_, to = end_ - file_begin_; // this part, in the file
    const bool begins_here = from <= 0 && (to > 0 || (to == 0 && is_last_));
    if (!begins_here && (from >= file.bytes || to <= 0))
        return false;
    if (is_parquet(file.path)) {
        rows_ = std::make_unique<RowBlocks>(file, *rule_, from, is_last_ ? no_limit : to);
        return true;
    }
    stream_ = std::make_unique<ByteStream>(file.path);
    held_.clear();
    stream_->read(held_, read_at_once);
    std::error_code ignored;
    const bool regular = fs::is_regular_file(file.path, ignored);
    as_lines_ = begins_as_lines(regular);
    first_ = true;
    line_ = 1;
    offset_ = before_part_ = reported_ = 0;
    if (begins_here)
        return true;
    if (!as_lines_ || stream_->is_compressed() ||
        not_text(file.path, std::string_view(held_).substr(0, head_bytes)))
        return false;
    // The first line that begins in this part.
    stream_ = std::make_unique<ByteStream>(file.path, from - 1);
    held_.clear();
    Bytes skipped = from - 1;
    for (std::size_t end = std::string::npos;;) {
        stream_->read(held_, read_at_once);
        end = held_.find('\n');
        skipped += static_cast<Bytes>(end == std::string::npos ? held_.size() : end + 1);
        held_.erase(0, end == std::string::npos ? end : end + 1);
        if (end != std::string::npos || stream_->at_end())
            break;
    }
    before_part_ = skipped;
    return skipped < to || is_last_;
}

/// Whether to read the current file line by line: .jsonl and .ndjson unless they are a list; .json if its
/// first two lines are objects and the first one has text. Reads as much as it needs.
bool TextBlocks::begins_as_lines(bool regular)
{
    const std::string& path = (*files_)[file_].path;
    const std::string suffix = text_suffix(path);
    if (!is_lines(suffix) && (suffix != ".json" || !regular))
        return false;
    // The next line that is not blank; grows held_ until it has all of it, or its first character.
    std::size_t at = held_.starts_with(byte_order_mark) ? byte_order_mark.size() : 0;
    const auto line = [&](bool whole) {
        for (;;) {
            const std::size_t begin = held_.find_first_not_of(blanks, at);
            const std::size_t end = begin == std::string::npos ? begin : held_.find('\n', begin);
            if (stream_->at_end() || (begin != std::string::npos && (end != std::string::npos || !whole))) {
                const std::string_view found = begin == std::string::npos
                                                   ? std::string_view()
                                                   : std::string_view(held_).substr(begin, end - begin);
                at = std::min(end, held_.size());
                return found;
            }
            stream_->read(held_, read_at_once);
        }
    };
    if (is_lines(suffix)) {
        const std::string_view first = line(false);
        return !first.empty() && first[0] != '[';
    }
    const std::string first(line(true));
    const std::string_view second = line(false);
    return first.starts_with("{") && second.starts_with("{") && nlohmann::json::accept(first) &&
           has_document(first, *rule_, path);
}

TextBlock TextBlocks::take_whole()
{
    const TextFile& file = (*files_)[file_];
    while (!stream_->at_end())
        stream_->read(held_, std::max(read_at_once, held_.size()));
    const std::string suffix = text_suffix(file.path);
    TextBlock block{is_lines(suffix) || suffix == ".json" ? TextBlock::Form::json : TextBlock::Form::text,
                    &file};
    block.content = std::move(held_);
    held_ = {};
    block.input_bytes = file.bytes;
    return block;
}

/// Whole lines that begin in this part; none at its end.
TextBlock TextBlocks::take_lines()
{
    const TextFile& file = (*files_)[file_];
    const Bytes limit = is_last_ || stream_->is_compressed() ? no_limit : end_ - file_begin_ - before_part_;
    TextBlock block{TextBlock::Form::lines, &file};
    if (offset_ >= limit)
        return block;
    std::size_t size = std::string::npos;
    while ((size = held_.rfind('\n')) == std::string::npos && !stream_->at_end())
        stream_->read(held_, read_at_once);
    size = size == std::string::npos ? held_.size() : size + 1;
    if (offset_ + static_cast<Bytes>(size) >
        limit) { // the line that has the last byte of this part is the last
        const std::size_t last = held_.find('\n', static_cast<std::size_t>(limit - offset_ - 1));
        size = last == std::string::npos ? size : last + 1;
    }
    block.content = std::move(held_);
    held_ = block.content.substr(size);
    block.content.resize(size);
    if (!stream_->at_end())
        stream_->read(held_, read_at_once);
    block.first = first_;
    block.at_begin = first_ && before_part_ == 0;
    block.line = line_;
    block.offset = offset_;
    block.before_part = before_part_;
    block.input_bytes = stream_->is_compressed() ? stream_->taken() - reported_ : static_cast<Bytes>(size);
    reported_ += block.input_bytes;
    line_ += count_lines(block.content);
    offset_ += static_cast<Bytes>(size);
    first_ = false;
    return block;
}

} // namespace trivium
