#pragma once
// `trivium data tokenizer | tokenize | show`.
namespace CLI {
class App;
}

namespace trivium {

/// Adds the sub-command `data` with its own sub-commands; their callbacks do the work and throw
/// UserError, IoError.
void add_data_command(CLI::App& app);

} // namespace trivium
