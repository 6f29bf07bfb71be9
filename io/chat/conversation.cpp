#include "io/chat/conversation.hpp"

#include "base/check.hpp"
#include "io/files/strict_json.hpp"

namespace trivium {

const char* name_of(ChatForm) { return "messages"; }

Conversation conversation_of_json(const ChatJson&, const std::string& place)
{
    throw UserError({place, "records of chats cannot be read yet", "", ""});
}

Conversation conversation_of_record(std::string_view record, const std::string& place)
{
    return conversation_of_json(parse_ordered_json(record, place, 64), place);
}

ChatText plain_text(const Conversation& conversation, const std::string& end)
{
    ChatText text{conversation.prompt + conversation.completion + end, {}};
    if (text.text.size() > conversation.prompt.size())
        text.trained.push_back({conversation.prompt.size(), text.text.size()});
    return text;
}

} // namespace trivium
