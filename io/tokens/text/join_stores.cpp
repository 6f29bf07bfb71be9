#include "io/tokens/text/join_stores.hpp"

#include "base/check.hpp"

#include <span>
#include <utility>
#include <vector>

namespace trivium {

void append_store(TokenStoreWriter& writer, const TokenStore& store, const Tokenizer& tokenizer)
{
    if (store.fingerprint() != tokenizer.fingerprint() || store.eos() != tokenizer.eos())
        throw UserError(
            {store.path(), "was made by another tokenizer",
             str("its ids are of ", store.fingerprint().empty() ? "an unknown one" : store.fingerprint(),
                 " with the end-of-text token ", store.eos(), ", not of ", tokenizer.fingerprint(), " with ",
                 tokenizer.eos()),
             "join stores of one tokenizer only; tokenize its text again"});
    // Several documents are read at once: each read checks whole blocks.
    constexpr i64 read_at_once = i64{1} << 20;
    std::vector<i32> ids;
    Bytes text_bytes = store.text_bytes(); // only the sum of all documents is known
    for (i64 first = 0; first < store.documents();) {
        const i64 begin = store.document_begin(first);
        i64 last = first + 1;
        while (last < store.documents() && store.document_begin(last + 1) - begin <= read_at_once)
            ++last;
        ids.resize(static_cast<std::size_t>(store.document_begin(last) - begin));
        store.read(begin, static_cast<i64>(ids.size()), ids.data());
        for (; first < last; ++first) {
            const auto at = static_cast<std::size_t>(store.document_begin(first) - begin);
            auto size = static_cast<std::size_t>(store.document_begin(first + 1) - begin) - at;
            const std::span<const i32> document = std::span<const i32>(ids).subspan(at, size);
            if (store.is_own()) { // its documents have their ends
                const i64 from = store.document_begin(first);
                std::vector<TokenSpan> trained = store.trained(from, static_cast<i64>(size));
                for (TokenSpan& span : trained)
                    span = {span.begin - from, span.end - from};
                writer.add_whole(document, trained, std::exchange(text_bytes, 0));
                continue;
            }
            if (size > 0 && ids[at + size - 1] == store.eos())
                --size;
            writer.add(document.first(size), std::exchange(text_bytes, 0));
        }
    }
}

} // namespace trivium
