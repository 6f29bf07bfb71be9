#include "base/check.hpp"
#include "base/rng.hpp"
#include "io/text_source.hpp"
#include "io/tokenizer.hpp"

#include <algorithm>
#include <sentencepiece_trainer.h>
#include <unordered_map>

namespace trivium {

namespace {

constexpr i64 least_vocab = 3 + 256; // unknown, bos, eos, the bytes
constexpr std::size_t longest_sentence = 4000;

/// Sentences for the trainer: lines with the newlines that follow them, a random sample of them where the
/// corpus is larger than wanted. Errors of the source leave through `error`.
class Sentences final : public sentencepiece::SentenceIterator {
public:
    Sentences(TextSource& source, Bytes sample)
        : source_(source), keep_(static_cast<double>(sample) / static_cast<double>(std::max<Bytes>(source.bytes_total(), 1))),
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
                // The trainer's frames are no place for an exception of ours to pass through.
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
        while (end < text.size() && end > at_ && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80)
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

/// The last number in `text`, or -1.
i64 last_number(const std::string& text)
{
    const std::size_t end = text.find_last_of("0123456789");
    if (end == std::string::npos)
        return -1;
    std::size_t begin = end;
    while (begin > 0 && text[begin - 1] >= '0' && text[begin - 1] <= '9')
        --begin;
    return std::stoll(text.substr(begin, end + 1 - begin));
}

[[noreturn]] void throw_failed(const TokenizerTraining& training, const std::string& reason)
{
    const std::string place = str("vocabulary of ", training.vocab);
    if (reason.find("size too high") != std::string::npos || reason.find("size is too high") != std::string::npos) {
        const i64 most = last_number(reason);
        throw UserError({place, "the corpus is too small for so many words", str("it gives at most ", most),
                         str("give --vocab ", most, " or less, or more text")});
    }
    if (reason.find("smaller than required_chars") != std::string::npos)
        throw UserError({place, "is too small for the characters of the corpus", reason, "give a larger --vocab"});
    throw UserError({place, "the tokenizer could not be trained", reason, "try another --vocab, or more text"});
}

} // namespace

std::string train_tokenizer(const TokenizerTraining& training)
{
    if (training.vocab <= least_vocab || training.vocab > 1'000'000)
        throw UserError({str("vocabulary of ", training.vocab), "is out of range",
                         str(least_vocab, " words are the 256 bytes and the special ones"), "give --vocab between 300 and 1000000"});
    TextSource source(training.inputs, training.key);
    Sentences sentences(source, training.sample);

    const std::unordered_map<std::string, std::string> options{
        {"model_type", "bpe"},
        {"vocab_size", std::to_string(training.vocab)},
        {"byte_fallback", "true"},
        {"character_coverage", "0.9995"},
        // Text must come back as it was: no normalisation, no space in front, no space dropped.
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
    const auto status = sentences.error ? sentencepiece::util::Status()
                                        : sentencepiece::SentencePieceTrainer::Train(options, &sentences, &model);
    if (sentences.error)
        std::rethrow_exception(sentences.error);
    if (!status.ok())
        throw_failed(training, status.ToString());
    return model;
}

} // namespace trivium
