#include "base/check.hpp"
#include "base/rng.hpp"
#include "io/files/utf8.hpp"
#include "io/tokens/plain_status.hpp"
#include "io/tokens/text_source.hpp"
#include "io/tokens/tokenizer.hpp"

#include <algorithm>
#include <exception>
#include <sentencepiece_trainer.h>
#include <unordered_map>

namespace trivium {

namespace {

constexpr i64 min_vocab = 300; // 259 for unknown, bos, eos and the bytes; the rest for characters of the text
constexpr i64 max_vocab = 1'000'000;
constexpr std::size_t longest_sentence = 4000;

/// Sentences for the trainer: lines with the newlines that follow them; a random sample of them if the corpus
/// is larger than the sample size. Stores an exception of the source in `error`.
class Sentences final : public sentencepiece::SentenceIterator {
public:
    Sentences(TextSource& source, Bytes sample)
        : source_(source),
          keep_(static_cast<double>(sample) / static_cast<double>(std::max<Bytes>(source.bytes_total(), 1))),
          draw_(0, "sample for a tokenizer")
    {
        Next();
    }

    bool done() const override { return done_; }
    const std::string& value() const override { return sentence_; }
    sentencepiece::util::Status status() const override { return {}; }

    void Next() override
    {
        do {
            if (at_ >= document_.text.size()) {
                at_ = 0;
                // An exception must not propagate through the trainer's frames.
                try {
                    done_ = !source_.next(document_);
                } catch (...) {
                    error = std::current_exception();
                    done_ = true;
                }
                if (done_)
                    return;
            }
            take();
        } while (keep_ < 1 && draw_.uniform_at(count_++) >= keep_);
    }

    std::exception_ptr error;

private:
    void take()
    {
        const std::string& text = document_.text;
        std::size_t end = text.find('\n', at_);
        if (end != std::string::npos)
            end = text.find_first_not_of('\n', end);
        end = std::min({end, text.size(), at_ + longest_sentence});
        while (end < text.size() && end > at_ && continues_character(text[end]))
            --end; // not inside a character
        sentence_.assign(text, at_, end - at_);
        at_ = end;
    }

    TextSource& source_;
    double keep_;
    RandomStream draw_;
    u64 count_ = 0;
    Document document_;
    std::size_t at_ = 0;
    std::string sentence_;
    bool done_ = false;
};

/// The number after `mark`, or -1.
i64 number_after(const std::string& text, const std::string& mark)
{
    const std::size_t at = text.find(mark);
    return at == std::string::npos ? -1 : std::atoll(text.c_str() + at + mark.size());
}

/// `status`: SentencePiece's error message.
[[noreturn]] void throw_failed(const TokenizerTraining& training, const std::string& status)
{
    const std::string place = str("--vocab ", training.vocab);
    if (const i64 max_tokens = number_after(status, "value <= "); max_tokens > 0) {
        const std::string reason = str("it yields at most ", max_tokens);
        if (max_tokens < min_vocab)
            throw UserError({place, "the corpus is too small for a tokenizer",
                             str(reason, " tokens, and a tokenizer has ", min_vocab, " or more"),
                             "use more text, or tokenize with --tokenizer bytes, which needs no training"});
        throw UserError({place, "the corpus is too small for so many tokens", reason,
                         str("set --vocab to at most ", max_tokens, ", or use more text")});
    }
    if (const i64 min_tokens = number_after(status, " vs ");
        status.find("required_chars") != std::string::npos && min_tokens > 0)
        throw UserError({place, "is too small for the characters of the corpus",
                         str("they, the bytes and the special tokens are ", min_tokens),
                         str("set --vocab to at least ", min_tokens)});
    throw UserError({place, "the tokenizer could not be trained", plain_status(status),
                     "try another --vocab, or more text"});
}

} // namespace

std::string train_tokenizer(const TokenizerTraining& training)
{
    if (training.vocab < min_vocab || training.vocab > max_vocab)
        throw UserError({str("--vocab ", training.vocab), "is out of range",
                         "259 tokens are the 256 bytes and the special ones",
                         str("set it to a number from ", min_vocab, " to ", max_vocab)});
    TextSource source(training.text);
    Sentences sentences(source, training.sample);

    const std::unordered_map<std::string, std::string> options{
        {"model_type", "bpe"},
        {"vocab_size", std::to_string(training.vocab)},
        {"byte_fallback", "true"},
        {"character_coverage", "0.9995"},
        // decode(encode(text)) must equal the text: no normalisation, no space added or dropped.
        {"normalization_rule_name", "identity"},
        {"add_dummy_prefix", "false"},
        {"remove_extra_whitespaces", "false"},
        {"allow_whitespace_only_pieces", "true"},
        {"split_digits", "true"},
        {"max_sentence_length", std::to_string(2 * longest_sentence)},
        {"num_threads", "1"},
        {"unk_id", "0"},
        {"bos_id", "1"},
        {"eos_id", "2"},
        {"pad_id", "-1"},
        {"minloglevel", "4"},
    };
    std::string model;
    const auto status = sentences.error
                            ? sentencepiece::util::Status()
                            : sentencepiece::SentencePieceTrainer::Train(options, &sentences, &model);
    if (sentences.error)
        std::rethrow_exception(sentences.error);
    if (training.report != nullptr)
        *training.report = source.report();
    if (!status.ok())
        throw_failed(training, status.ToString());
    return model;
}

} // namespace trivium
