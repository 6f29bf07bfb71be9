#include "io/tokens/text_source.hpp"

namespace trivium {

TextSource::TextSource(TextSelection selection)
    : corpus_(std::move(selection)), blocks_(corpus_.files(), corpus_.rule())
{
}

bool TextSource::next(Document& document)
{
    while (waiting_.empty()) {
        std::optional<TextBlock> block = blocks_.next();
        if (!block) {
            corpus_.check_end(found_);
            return false;
        }
        const BlockOutcome outcome = read_documents(*block, corpus_.rule(), [&](ReadDocument& each) {
            waiting_.push_back({std::move(each.text), place_of(*block, each.line)});
        });
        TextCorpus::add(found_, *block, outcome, static_cast<i64>(waiting_.size()));
    }
    document = std::move(waiting_.front());
    waiting_.pop_front();
    ++documents_;
    return true;
}

} // namespace trivium
