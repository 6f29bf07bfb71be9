#include "io/tokens/text/tokenize.hpp"

#include "base/check.hpp"
#include "base/counted.hpp"
#include "io/files/files.hpp"
#include "io/tokens/hold_out.hpp"
#include "io/tokens/text/join_stores.hpp"
#include "io/tokens/text/ordered_work.hpp"
#include "mpi/records.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <unistd.h>
#include <utility>

namespace trivium {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CorpusReport::Read, files, documents)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CorpusReport::Skipped, what, what_plural, remedy, example, count)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CorpusReport, forms, read, skipped, hints)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TextCorpus::Found, report, documents, record_files, answers,
                                   trained_answers, bytes)

namespace {

constexpr std::size_t long_document = std::size_t{4} << 20, segment_bytes = std::size_t{512} << 10;

/// A block after a thread has tokenized it.
struct TokenizedBlock {
    struct Document {
        std::size_t end = 0;              ///< of its ids
        Bytes bytes = 0;                  ///< of its text
        bool failed = false;              ///< it cannot be tokenized, or is left out
        bool whole = false;               ///< its ids have its end
        bool answer = false;              ///< as ChatDocument's
        bool printed = false;             ///< as ChatDocument's
        bool lacks_calls = false;         ///< as ChatDocument's
        std::vector<TokenSpan> trained{}; ///< if it is whole
        std::string text{};               ///< if it has no ids yet
        i64 line = 0;
    };
    TextBlock block; ///< without its content
    BlockOutcome outcome{};
    std::vector<i32> ids{};
    std::vector<Document> documents{};
};

/// Files of parts disappear with their owner.
class PartFile {
public:
    explicit PartFile(std::string path) : path_(std::move(path)) {}
    PartFile(PartFile&& other) noexcept : path_(std::exchange(other.path_, "")) {}
    PartFile& operator=(PartFile&&) = delete;
    ~PartFile()
    {
        if (!path_.empty())
            ::unlink(path_.c_str());
    }
    const std::string& path() const { return path_; }

private:
    std::string path_;
};

class TokenizeRun {
public:
    TokenizeRun(const TokenizeJob& job, Comm& comm)
        : job_(job), comm_(comm), corpus_(job.text), part_{comm.rank(), comm.size()},
          hold_out_(job.valid.empty() ? 0 : job.valid_fraction)
    {
        if (comm.size() > 1)
            corpus_.require_files("several ranks read the text");
        part_bytes_ = corpus_.bytes_total() / comm.size();
        outputs_ = {job.output};
        if (!job.valid.empty())
            outputs_.push_back(job.valid);
    }

    /// Chooses the held-out documents in one pass over the corpus. Collective.
    void survey()
    {
        if (job_.valid.empty())
            return;
        std::vector<Bytes> sizes;
        succeed_together(comm_, [&] {
            corpus_.require_files("documents to hold out are chosen in a first pass");
            TextBlocks blocks(corpus_.files(), corpus_.rule(), part_);
            TextCorpus::Found found;
            work_in_order<TextBlock, std::pair<std::vector<Bytes>, Bytes>>(
                job_.threads, [&] { return blocks.next(); },
                [&](TextBlock& block) {
                    std::vector<Bytes> own;
                    read_documents(block, corpus_.rule(),
                                   [&](const ReadDocument& each) { own.push_back(each.bytes); });
                    return std::pair(std::move(own), block.input_bytes);
                },
                [&](auto& result) {
                    sizes.insert(sizes.end(), result.first.begin(), result.first.end());
                    found.bytes += result.second;
                    progress(found.bytes);
                });
        });
        std::string text(sizes.size() * sizeof(Bytes), '\0');
        std::memcpy(text.data(), sizes.data(), text.size());
        const std::vector<std::string> all = gather_texts(comm_, text);
        i64 before = 0;
        for (std::size_t rank = 0; rank < all.size(); ++rank) {
            before += rank < static_cast<std::size_t>(comm_.rank())
                          ? static_cast<i64>(all[rank].size() / sizeof(Bytes))
                          : 0;
            for (std::size_t at = 0; at < all[rank].size(); at += sizeof(Bytes)) {
                Bytes size = 0;
                std::memcpy(&size, all[rank].data() + at, sizeof size);
                hold_out_.survey(size);
            }
        }
        if (hold_out_.documents() > 1) // the documents of the ranks before
            for (i64 d = 0; d < before; ++d)
                hold_out_.split({}, [](bool, std::string_view) {});
        if (comm_.rank() == 0 && job_.on_survey && hold_out_.documents() > 0)
            job_.on_survey(hold_out_.documents(), hold_out_.share());
    }

    /// Tokenizes this rank's part.
    void tokenize()
    {
        open_writers();
        TextBlocks blocks(corpus_.files(), corpus_.rule(), part_);
        work_in_order<TextBlock, TokenizedBlock>(
            job_.threads, [&] { return blocks.next(); }, [&](TextBlock& block) { return work(block); },
            [&](TokenizedBlock& done) { take(done); });
        if (comm_.rank() > 0)
            for (TokenStoreWriter& writer : writers_)
                if (writer.documents() > 0)
                    writer.finish();
    }

    /// Joins the parts. Collective; rank 0 writes the stores.
    TokenizedText join()
    {
        std::vector<i64> documents; // by store
        for (const TokenStoreWriter& writer : writers_)
            documents.push_back(writer.documents());
        const auto ranks = gather_records_to_first(comm_, std::pair(found_, documents));
        TokenizedText result;
        succeed_together(comm_, [&] {
            if (comm_.rank() > 0)
                return;
            for (std::size_t rank = 1; rank < ranks.size(); ++rank)
                found_ += ranks[rank].first;
            corpus_.check_end(found_);
            result.report = corpus_.report(found_);
            result.bytes = found_.bytes;
            for (std::size_t rank = 1; rank < ranks.size(); ++rank)
                for (std::size_t store = 0; store < writers_.size(); ++store)
                    if (ranks[rank].second[store] > 0)
                        append_store(writers_[store],
                                     TokenStore::open(part_path(store, static_cast<int>(rank))),
                                     *job_.tokenizer);
            require_trained();
            require_text(result.report);
            for (std::size_t store = 0; store < writers_.size(); ++store) {
                TokenStoreWriter& writer = writers_[store];
                writer.finish();
                result.stores.push_back({outputs_[store], writer.documents(), writer.tokens(),
                                         writer.trained_tokens(), writer.text_bytes()});
            }
        });
        return result;
    }

private:
    std::string part_path(std::size_t store, int rank) const { return str(outputs_[store], ".part-", rank); }

    void open_writers()
    {
        for (std::size_t store = 0; store < outputs_.size(); ++store) {
            if (comm_.rank() > 0) {
                parts_.emplace_back(part_path(store, comm_.rank()));
                writers_.emplace_back(parts_.back().path(), *job_.tokenizer);
                continue;
            }
            writers_.emplace_back(outputs_[store], *job_.tokenizer);
            std::error_code ignored;
            if (job_.append && std::filesystem::is_regular_file(outputs_[store], ignored))
                append_store(writers_.back(), TokenStore::open(outputs_[store]), *job_.tokenizer);
        }
    }

    /// On any thread.
    TokenizedBlock work(TextBlock& block) const
    {
        TokenizedBlock done;
        std::vector<std::pair<CorpusReport::Skipped, i64>> failed;
        done.outcome = read_documents(block, corpus_.rule(), [&](ReadDocument& read) {
            TokenizedBlock::Document document{0, read.bytes};
            document.line = read.line;
            const bool later = !read.chat && (hold_out_.documents() == 1 ||
                                              (job_.threads > 1 && read.text.size() > long_document));
            const std::size_t before = done.ids.size();
            if (read.chat && !job_.chats.chat_template)
                require_template(*read.chat, job_.chats, place_of(block, read.line));
            if (later)
                document.text = std::move(read.text);
            else
                try {
                    if (!read.chat)
                        job_.tokenizer->encode_part(read.text, true, done.ids);
                    else if (const auto why = add_chat(*read.chat, document, done.ids)) {
                        document.failed = true;
                        failed.emplace_back(*why, read.line);
                    }
                } catch (const UserError& error) {
                    if (!corpus_.rule().skip_bad)
                        refuse(block, read.line, error);
                    done.ids.resize(before);
                    document.failed = true;
                    failed.emplace_back(bad_record(), read.line);
                }
            document.end = done.ids.size();
            done.documents.push_back(std::move(document));
        });
        done.outcome.skipped.insert(done.outcome.skipped.end(), failed.begin(), failed.end());
        block.content = {};
        block.rows = {};
        done.block = std::move(block);
        return done;
    }

    /// Why it is left out, if so.
    std::optional<CorpusReport::Skipped>
    add_chat(const Conversation& chat, TokenizedBlock::Document& document, std::vector<i32>& ids) const
    {
        ChatDocument made = tokenize_chat(chat, job_.chats, *job_.tokenizer);
        document.answer = made.answer;
        document.printed = made.printed;
        document.lacks_calls = made.lacks_calls;
        if (made.dropped)
            return made.dropped;
        document.whole = true;
        document.trained = std::move(made.trained);
        document.bytes = made.text_bytes;
        ids.insert(ids.end(), made.ids.begin(), made.ids.end());
        return {};
    }

    [[noreturn]] static void refuse(const TextBlock& block, i64 line, const UserError& error)
    {
        const std::string problem = error.what();
        throw UserError({place_of(block, line), "cannot be tokenized", problem.substr(0, problem.find('\n')),
                         "leave it out, or skip and count such documents with --skip-bad"});
    }

    /// In the order of the corpus.
    void take(TokenizedBlock& done)
    {
        std::size_t begin = 0;
        for (TokenizedBlock::Document& document : done.documents) {
            const std::span<const i32> ids =
                std::span<const i32>(done.ids).subspan(begin, document.end - begin);
            begin = document.end;
            found_.answers += document.answer;
            found_.trained_answers += document.answer && document.printed;
            if (document.lacks_calls)
                found_.report.hints.insert(str(
                    job_.chats.chat_template ? job_.chats.chat_template->place() : "the form of these chats",
                    ": does not print the tool calls that chats have; what is trained lacks them"));
            hold_out_.split(document.text, [&](bool to_valid, std::string_view part) {
                if (document.failed)
                    return;
                TokenStoreWriter& writer = writers_[to_valid ? 1 : 0];
                if (document.whole)
                    return writer.add_whole(ids, document.trained, document.bytes);
                if (document.text.empty())
                    return writer.add(ids, document.bytes);
                try {
                    writer.add(encode_long(*job_.tokenizer, part, job_.threads),
                               static_cast<Bytes>(part.size()));
                } catch (const UserError& error) {
                    if (!corpus_.rule().skip_bad)
                        refuse(done.block, document.line, error);
                    done.outcome.skipped.emplace_back(bad_record(), document.line);
                }
            });
        }
        TextCorpus::add(found_, done.block, done.outcome, static_cast<i64>(done.documents.size()));
        progress(found_.bytes);
    }

    void progress(Bytes done) const
    {
        if (comm_.rank() > 0 || !job_.on_progress)
            return;
        i64 tokens = 0;
        for (const TokenStoreWriter& writer : writers_)
            tokens += writer.tokens();
        job_.on_progress(done, part_bytes_, tokens);
    }

    void require_text(const CorpusReport& report) const
    {
        std::string left_out;
        for (const std::string& line : describe_skipped(report))
            left_out += (left_out.empty() ? "left out: " : ". ") + line;
        const bool nothing =
            std::ranges::all_of(writers_, [](const TokenStoreWriter& each) { return each.documents() == 0; });
        if (nothing && !left_out.empty())
            throw UserError({job_.output, "no document is left", left_out,
                             "look at what was left out, and correct the input or these options"});
        const bool some_left_out = hold_out_.documents() != 1 && !left_out.empty();
        for (std::size_t store = 0; store < writers_.size(); ++store)
            if (some_left_out && writers_[store].documents() == 0)
                throw UserError({outputs_[store],
                                 str("no document is left for ", store == 0 ? "training" : "validation"),
                                 left_out,
                                 str("change --valid-fraction (it is ", job_.valid_fraction,
                                     "), or correct the input or the options that leave documents out")});
        if (writers_.size() > 1 && writers_[1].documents() == 0)
            throw UserError(
                {job_.valid, "no text is left for validation",
                 str("the corpus is one document of ", counted_in_groups(corpus_.bytes_total(), "byte"),
                     "; a fraction of ", job_.valid_fraction, " of it is less than a block"),
                 "use a larger --valid-fraction, or more text"});
        if (writers_[0].documents() == 0)
            throw UserError({job_.output, "no text is left for training",
                             job_.valid.empty() ? "" : str("--valid-fraction is ", job_.valid_fraction),
                             job_.valid.empty() ? "add text" : "use a smaller --valid-fraction"});
    }

    /// A template that prints no answer makes a store without them, however many chats there are.
    void require_trained() const
    {
        if (found_.answers == 0 || found_.trained_answers > 0)
            return;
        throw UserError({job_.chats.chat_template->place(),
                         "gives no trained token for any chat of the input",
                         str("it rendered ", counted_in_groups(found_.answers, "chat"),
                             " with answers to train, and prints none of these answers"),
                         "name the template of the model with --chat-template"});
    }

    const TokenizeJob& job_;
    Comm& comm_;
    TextCorpus corpus_;
    CorpusPart part_;
    HoldOut hold_out_;
    std::vector<std::string> outputs_;
    Bytes part_bytes_ = 0;
    std::vector<PartFile> parts_;
    std::vector<TokenStoreWriter> writers_; ///< of outputs_, or of this rank's parts
    TextCorpus::Found found_;
};

} // namespace

std::vector<i32> encode_long(const Tokenizer& tokenizer, std::string_view text, int threads)
{
    struct Segment {
        std::string_view text;
        bool first = true;
    };
    std::vector<i32> ids;
    std::size_t at = 0;
    work_in_order<Segment, std::vector<i32>>(
        text.size() > 2 * segment_bytes ? threads : 1,
        [&]() -> std::optional<Segment> {
            if (at == text.size())
                return {};
            const std::string_view rest = text.substr(at);
            const std::size_t end = threads > 1 && rest.size() > 2 * segment_bytes
                                        ? tokenizer.cut(rest, segment_bytes)
                                        : std::string_view::npos;
            const Segment segment{rest.substr(0, end), at == 0};
            at += segment.text.size();
            return segment;
        },
        [&](Segment& segment) {
            std::vector<i32> own;
            tokenizer.encode_part(segment.text, segment.first, own);
            return own;
        },
        [&](std::vector<i32>& own) { ids.insert(ids.end(), own.begin(), own.end()); });
    return ids;
}

TokenizedText tokenize_text(const TokenizeJob& job, Comm& comm)
{
    std::optional<TokenizeRun> run;
    succeed_together(comm, [&] { run.emplace(job, comm); });
    run->survey();
    succeed_together(comm, [&] { run->tokenize(); });
    return run->join();
}

} // namespace trivium
