#include "io/chat/chat_template.hpp"

#include "base/check.hpp"

namespace trivium {

struct ChatTemplate::Parts {
    std::map<std::string, std::string> sources;
    ChatJson variables;
    std::string place;
};

ChatTemplate::ChatTemplate(const std::string& source, const std::string& place, ChatJson variables)
    : parts_(std::make_shared<Parts>(Parts{{{"default", source}}, std::move(variables), place}))
{
}
ChatTemplate::ChatTemplate(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}

ChatTemplate ChatTemplate::load(const std::string& path)
{
    throw UserError({path, "chat templates cannot be read yet", "", ""});
}
std::optional<ChatTemplate> ChatTemplate::find(const std::string&) { return std::nullopt; }
std::string ChatTemplate::render(const ChatJson&, const ChatOptions&) const
{
    throw UserError({place(), "chat templates cannot be rendered yet", "", ""});
}
ChatText ChatTemplate::render(const Conversation&, const ChatOptions&) const
{
    throw UserError({place(), "chat templates cannot be rendered yet", "", ""});
}
bool ChatTemplate::has_generation(bool) const { return false; }
const std::string& ChatTemplate::source() const { return parts_->sources.begin()->second; }
const std::map<std::string, std::string>& ChatTemplate::sources() const { return parts_->sources; }
const ChatJson& ChatTemplate::variables() const { return parts_->variables; }
const std::string& ChatTemplate::place() const { return parts_->place; }

} // namespace trivium
