//! A port that is ours, listened at or not.

use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::{TcpListener, TcpSocket};

/// How many connections may wait to be accepted.
const BACKLOG: u32 = 128;

/// A port of the loopback device. Who connects while nobody listens is refused, and nobody else can take it.
#[derive(Debug)]
pub(super) struct Port {
    /// Bound and never listened at: it only keeps the port.
    _keeper: TcpSocket,
    address: SocketAddr,
}

impl Port {
    /// Any free one.
    pub(super) fn take() -> Self {
        let keeper = bind((Ipv4Addr::LOCALHOST, 0).into());
        let address = keeper.local_addr().expect("a bound socket has an address");
        Self { _keeper: keeper, address }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn listen(&self) -> TcpListener {
        bind(self.address).listen(BACKLOG).expect("a port of our own")
    }
}

/// Two sockets may have an address that is to be reused, as long as only one of them listens.
fn bind(address: SocketAddr) -> TcpSocket {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_reuseaddr(true).expect("a new socket takes options");
    socket.bind(address).expect("an address of the loopback device");
    socket
}
