#include "io/tokens/text/row_blocks.hpp"

#include "base/check.hpp"

#include <filesystem>
#include <numeric>
#include <utility>

namespace trivium {

namespace {

constexpr std::size_t row_block_bytes = std::size_t{1} << 20;
constexpr const char* with_arrow =
    "build with Apache Arrow (Spack: trivium+parquet; otherwise its libparquet), or convert to .jsonl";

NotText no_arrow()
{
    return {{"Parquet file", "Parquet files", with_arrow},
            "is a Parquet file",
            "this program was built without Apache Arrow",
            with_arrow};
}

NotText unreadable(const std::string& what, const std::string& what_plural)
{
    return {{what, what_plural, "the message without --skip-bad says why"}, "", "", ""};
}

} // namespace

bool is_parquet(const std::string& path) { return std::filesystem::path(path).extension() == ".parquet"; }

RowBlocks::RowBlocks(const TextFile& file, const RecordRule& rule, Bytes begin, Bytes end)
    : file_(&file), rule_(&rule), begin_(begin), end_(end)
{
}

/// Where a group begins in the file, for the division into parts; the number of groups stands for the end.
Bytes RowBlocks::begin_of(std::size_t group) const
{
    const auto groups = static_cast<Bytes>(rows_->group_rows().size()), number = static_cast<Bytes>(group);
    return file_->bytes / groups * number + file_->bytes % groups * number / groups;
}

/// Opens the file. A block if there is nothing to read: of the part that has the file's begin.
std::optional<TextBlock> RowBlocks::open()
{
    opened_ = true;
    TextBlock block{TextBlock::Form::none, file_};
    block.input_bytes = file_->bytes;
    try {
        rows_ = open_parquet(file_->path, *rule_);
        if (!rows_)
            block.why = no_arrow();
        else if (const std::vector<i64>& rows = rows_->group_rows();
                 std::accumulate(rows.begin(), rows.end(), i64{0}) == 0)
            block.form = TextBlock::Form::text; // without text: an empty file
        else {
            while (end_group_ < rows.size() && begin_of(end_group_) < end_) {
                if (begin_of(end_group_) < begin_) {
                    rows_before_ += rows[group_];
                    ++group_;
                }
                ++end_group_;
            }
            before_part_ = rows_before_ == 0 ? 0 : begin_of(group_);
            return {};
        }
    } catch (const UserError&) {
        if (!rule_->skip_bad)
            throw;
        block.why = unreadable("Parquet file that cannot be read", "Parquet files that cannot be read");
    }
    group_ = end_group_ = 0;
    if (begin_ > 0)
        return {};
    return block;
}

/// A block that ends before row `rows_until` of the group.
TextBlock RowBlocks::make(TextBlock::Form form, i64 rows_until)
{
    const Bytes group_bytes = begin_of(group_ + 1) - begin_of(group_);
    const i64 rows = rows_->group_rows()[group_];
    const Bytes done = rows_until == rows
                           ? group_bytes
                           : static_cast<Bytes>(static_cast<double>(group_bytes) *
                                                static_cast<double>(rows_until) / static_cast<double>(rows));
    TextBlock block{form, file_};
    block.first = first_;
    block.line = rows_before_ + row_ + 1;
    block.before_part = before_part_;
    block.input_bytes = done - std::exchange(reported_, done);
    row_ = rows_until;
    return block;
}

void RowBlocks::next_group()
{
    rows_before_ += rows_->group_rows()[group_++];
    row_ = 0;
    reported_ = 0;
    in_group_ = false;
}

std::optional<TextBlock> RowBlocks::next()
{
    if (!opened_)
        if (std::optional<TextBlock> instead = open())
            return instead;
    for (; group_ < end_group_; next_group()) {
        try {
            if (!std::exchange(in_group_, true))
                rows_->begin_group(group_);
            std::vector<std::optional<std::string>> texts = rows_->next(row_block_bytes);
            if (texts.empty())
                continue;
            TextBlock block = make(rows_->are_records() ? TextBlock::Form::records : TextBlock::Form::rows,
                                   row_ + static_cast<i64>(texts.size()));
            block.rows = std::move(texts);
            first_ = false;
            return block;
        } catch (const UserError&) {
            if (!rule_->skip_bad)
                throw;
            TextBlock block = make(TextBlock::Form::none, rows_->group_rows()[group_]);
            block.why = unreadable("damaged row group", "damaged row groups");
            next_group();
            return block;
        }
    }
    return {};
}

} // namespace trivium
