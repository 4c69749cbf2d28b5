//! Addresses for servers that want to bind them themselves.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

/// The port is free at this moment, which is all that can be had.
pub(crate) fn free_address() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("any free port");
    listener.local_addr().expect("a bound socket has an address")
}
