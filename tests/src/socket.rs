//! A bare connection, for what no HTTP client would send; and ports that nobody answers on.

use std::net::{Ipv4Addr, SocketAddr};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use test_servers::within;

/// A connection to the service.
#[derive(Debug)]
pub struct Socket(TcpStream);

impl Socket {
    pub async fn connect(address: SocketAddr) -> Self {
        Self(TcpStream::connect(address).await.expect("the service accepts connections"))
    }

    /// Sends bytes. That the service has hung up meanwhile is its right.
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let _hung_up = self.0.write_all(bytes.as_ref()).await;
    }

    /// Says that nothing more is going to be sent.
    pub async fn finish(&mut self) {
        let _hung_up = self.0.shutdown().await;
    }

    /// Everything that comes until the service closes the connection, lossily as text.
    pub async fn read_to_end(&mut self) -> String {
        let mut bytes = Vec::new();
        // A reset ends it as well as a proper end does.
        let _reset = within("the service to close the connection", self.0.read_to_end(&mut bytes)).await;
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// A port of this machine that is taken, so that nobody else gets it, and refuses connections.
#[derive(Debug)]
pub struct ReservedPort {
    address: SocketAddr,
    _bound: TcpSocket,
}

impl ReservedPort {
    /// Takes any free port.
    pub fn take() -> Self {
        let bound = TcpSocket::new_v4().expect("a socket");
        bound.bind((Ipv4Addr::LOCALHOST, 0).into()).expect("any free port");
        // The socket is never told to listen: that is what makes connections to it be refused.
        Self { address: bound.local_addr().expect("a bound socket has an address"), _bound: bound }
    }

    /// Where connections are refused.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}
