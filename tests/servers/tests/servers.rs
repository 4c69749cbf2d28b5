//! The servers do what their guards tell them. Each is asked in its own protocol for the shortest answer it
//! has.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::ErrorKind;
use std::net::SocketAddr;

use test_servers::{Mongo, Postgres, Redis, Registry, within};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A test of every kind of server. `$first` opens a conversation, so that whoever serves it is there; it is
/// `$second` that nobody answers who is frozen. Only the beginnings of the answers are looked at.
macro_rules! test_each {
    ($($name:ident: $server:ident, $first:expr, $second:expr;)+) => { $(
        #[tokio::test]
        async fn $name() {
            let mut server = $server::start().await;
            let mut stream = asks(server.address(), $first).await;
            server.freeze();
            stream.write_all($second).await.unwrap();
            let nothing = stream.try_read(&mut [0]).unwrap_err();
            assert_eq!(nothing.kind(), ErrorKind::WouldBlock);
            server.thaw();
            is_answered(&mut stream).await;

            server.freeze();
            server.pause().await;
            let refused = TcpStream::connect(server.address()).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
            server.resume().await;
            asks(server.address(), $first).await;
        }
    )+ };
}

test_each! {
    postgres_freezes_goes_on_ends_and_comes_back: Postgres, REQUEST_FOR_TLS, START_UP;
    redis_freezes_goes_on_ends_and_comes_back: Redis, b"PING\r\n", b"PING\r\n";
    mongo_freezes_goes_on_ends_and_comes_back: Mongo, HELLO, HELLO;
    registry_freezes_goes_on_ends_and_comes_back: Registry, REQUEST, REQUEST;
}

/// PostgreSQL's, to be refused.
const REQUEST_FOR_TLS: &[u8] = b"\0\0\0\x08\x04\xd2\x16\x2f";

/// PostgreSQL's, in its version 3.0.
const START_UP: &[u8] = b"\0\0\0\x17\0\x03\0\0user\0postgres\0\0";

/// MongoDB's `OP_MSG` with the document `{ hello: 1, $db: "admin" }`.
const HELLO: &[u8] = b"\x34\0\0\0\x01\0\0\0\0\0\0\0\xdd\x07\0\0\0\0\0\0\0\
    \x1f\0\0\0\x10hello\0\x01\0\0\0\x02$db\0\x06\0\0\0admin\0\0";

/// HTTP's.
const REQUEST: &[u8] = b"GET /v2/ HTTP/1.1\r\nhost: localhost\r\n\r\n";

async fn asks(server: SocketAddr, question: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(server).await.unwrap();
    stream.write_all(question).await.unwrap();
    is_answered(&mut stream).await;
    stream
}

/// Waits for an answer and takes what there is of it.
async fn is_answered(stream: &mut TcpStream) {
    let length = within("the server's answer", stream.read(&mut [0; 4096])).await.unwrap();
    assert!(length > 0, "the server closed the connection");
}
