#include "cli/text/chat_prompt.hpp"

#include "base/check.hpp"
#include "io/files/strict_json.hpp"
#include "io/hugging_face/chat_files.hpp"

namespace trivium {

namespace {

Conversation conversation_of(const Prompt& prompt)
{
    const std::string place = prompt.place.empty() ? "the prompt" : prompt.place;
    if (!prompt.record.is_null())
        return conversation_of_json(prompt.record, place);
    if (!prompt.given.is_string())
        throw UserError({place, "is a list of ids", "--chat renders what a user says",
                         "write a text or a list of messages, or leave out --chat"});
    const auto chat = prompt.given.get<std::string>();
    const std::size_t begin = chat.find_first_not_of(" \t\r\n");
    if (begin == std::string::npos)
        throw UserError({prompt.place.empty() ? "--prompt" : place, "is empty",
                         "--chat answers what a user says", "say something"});
    if (chat[begin] != '[' && chat[begin] != '{')
        return conversation_of_json({{"messages", {{{"role", "user"}, {"content", chat}}}}}, place);
    const ChatJson json = parse_ordered_json(chat, place, 64, "correct it");
    return conversation_of_json(json.is_array() ? ChatJson{{"messages", json}} : json, place);
}

} // namespace

ChatPrompt chat_prompt(const Prompt& chat, const RunConfig& config, const RunState& state,
                       const Tokenizer& tokenizer)
{
    const std::optional<ChatTemplate> found = chat_template_of(config.data, state.imported, tokenizer);
    if (!found)
        throw UserError({"--chat", "needs a chat template",
                         "the checkpoint has none, and none is next to data.tokenizer",
                         "name its file with data.chat_template"});
    const Conversation conversation = conversation_of(chat);
    ChatPrompt prompt;
    prompt.text = found->render(conversation.messages, {.tools = conversation.tools,
                                                        .add_generation_prompt = true,
                                                        .variables = conversation.variables,
                                                        .now = {}});
    std::vector<bool> none;
    tokenizer.encode_chat(prompt.text, {}, prompt.ids, none);
    prompt.ends = {tokenizer.eos()};
    for (const i32 id : turn_ends(*found, tokenizer))
        prompt.ends.insert(id);
    return prompt;
}

} // namespace trivium
