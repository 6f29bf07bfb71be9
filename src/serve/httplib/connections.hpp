#pragma once
// The connections of a server, which the library does not show: sockets of this process by their ports.
#include <string>

namespace trivium {

/// The socket of the connection to this local port from `address` (numeric) and `port` of a client; -1: there
/// is none. It is valid until the request is answered.
int connection_from(int local_port, const std::string& address, int port);

/// Whether the client has closed its side.
bool has_hung_up(int socket);

/// Ends all connections to this local port: what reads or writes them fails.
void hang_up(int local_port);

} // namespace trivium
