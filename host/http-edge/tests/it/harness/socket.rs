//! The service under test behind a real socket, for promises that hyper has a part in.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::Service;

impl Service {
    /// Serves on a free port for as long as `client` runs.
    pub(crate) async fn on_a_socket<T>(&self, client: impl AsyncFnOnce(Connection) -> T) -> T {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = self.router().into_make_service_with_connect_info::<SocketAddr>();
        tokio::select! {
            result = axum::serve(listener, router) => panic!("the server ended: {result:?}"),
            result = async { client(Connection(TcpStream::connect(address).await.unwrap())).await } => result,
        }
    }
}

/// A client that writes and reads plain text.
pub(crate) struct Connection(TcpStream);

impl Connection {
    pub(crate) async fn send(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.unwrap();
    }

    /// Waits until exactly that has come.
    pub(crate) async fn expect(&mut self, text: &str) {
        let mut bytes = vec![0; text.len()];
        self.0.read_exact(&mut bytes).await.unwrap();
        assert_eq!(String::from_utf8(bytes).unwrap(), text);
    }

    /// Everything until the server closes the connection, without the date.
    pub(crate) async fn receive_all(&mut self) -> String {
        let mut text = String::new();
        self.0.read_to_string(&mut text).await.unwrap();
        text.lines().filter(|line| !line.starts_with("date: ")).collect::<Vec<_>>().join("\n")
    }
}
