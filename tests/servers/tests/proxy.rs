//! The proxy fails in the ways it promises.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::ErrorKind;

use test_servers::{Proxy, Task, eventually, within};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// A store that says back what it hears, with a proxy before it.
struct Echo {
    proxy: Proxy,
    /// What it has heard, on whichever connection.
    heard: mpsc::UnboundedReceiver<u8>,
    _store: Task<()>,
}

impl Echo {
    async fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let proxy = Proxy::before(listener.local_addr().unwrap()).await;
        let (hears, heard) = mpsc::unbounded_channel();
        let store = Task::begin(async move {
            let mut connections = Vec::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.push(Task::begin(echo(stream, hears.clone())));
            }
        });
        Self { proxy, heard, _store: store }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.proxy.address()).await.unwrap()
    }

    async fn hears(&mut self) -> u8 {
        within("the store to hear something", self.heard.recv()).await.unwrap()
    }
}

async fn echo(mut stream: TcpStream, hears: mpsc::UnboundedSender<u8>) {
    while let Ok(byte) = stream.read_u8().await {
        let _test_is_over = hears.send(byte);
        if stream.write_u8(byte).await.is_err() {
            return;
        }
    }
}

async fn says(stream: &mut TcpStream, byte: u8) {
    stream.write_u8(byte).await.unwrap();
}

async fn is_told(stream: &mut TcpStream) -> Result<u8, ErrorKind> {
    within("the host to be told something", stream.read_u8()).await.map_err(|error| error.kind())
}

#[tokio::test]
async fn everything_passes_and_connections_are_counted() {
    let echo = Echo::start().await;
    let (mut one, mut two) = (echo.connect().await, echo.connect().await);
    for byte in 1..=3 {
        for stream in [&mut one, &mut two] {
            says(stream, byte).await;
            assert_eq!(is_told(stream).await, Ok(byte));
        }
    }
    assert_eq!((echo.proxy.connections(), echo.proxy.open()), (2, 2));
    drop(two);
    eventually("the proxy to notice", async || (echo.proxy.open() == 1).then_some(())).await;
    assert_eq!(echo.proxy.connections(), 2);
}

#[tokio::test]
async fn a_stall_holds_every_byte_and_loses_none() {
    let mut echo = Echo::start().await;
    let mut early = echo.connect().await;
    says(&mut early, 1).await;
    assert_eq!(is_told(&mut early).await, Ok(1));
    echo.proxy.stall();
    let mut late = echo.connect().await;
    says(&mut early, 2).await;
    says(&mut late, 3).await;
    assert_eq!(echo.hears().await, 1);
    eventually("both connections", async || (echo.proxy.connections() == 2).then_some(())).await;
    assert!(echo.heard.try_recv().is_err());
    echo.proxy.pass().await;
    assert_eq!((is_told(&mut early).await, is_told(&mut late).await), (Ok(2), Ok(3)));
}

#[tokio::test]
async fn stalled_answers_leave_the_store_to_do_what_it_is_asked_for() {
    let mut echo = Echo::start().await;
    let mut stream = echo.connect().await;
    echo.proxy.stall_answers();
    says(&mut stream, 1).await;
    assert_eq!(echo.hears().await, 1);
    assert!(stream.try_read(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock));
    echo.proxy.pass().await;
    assert_eq!(is_told(&mut stream).await, Ok(1));
}

#[tokio::test]
async fn stalled_requests_never_reach_a_store_that_is_cut_off_then() {
    let mut echo = Echo::start().await;
    let mut stream = echo.connect().await;
    echo.proxy.stall_requests();
    says(&mut stream, 1).await;
    echo.proxy.cut().await;
    echo.proxy.pass().await;
    let mut next = echo.connect().await;
    says(&mut next, 2).await;
    assert_eq!(echo.hears().await, 2);
}

#[tokio::test]
async fn a_cut_resets_what_is_open_and_refuses_what_comes_until_it_passes_again() {
    let mut echo = Echo::start().await;
    let mut stream = echo.connect().await;
    says(&mut stream, 1).await;
    assert_eq!(is_told(&mut stream).await, Ok(1));
    echo.proxy.cut().await;
    assert_eq!(is_told(&mut stream).await, Err(ErrorKind::ConnectionReset));
    let refused = TcpStream::connect(echo.proxy.address()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    echo.proxy.pass().await;
    let mut stream = echo.connect().await;
    says(&mut stream, 2).await;
    assert_eq!(is_told(&mut stream).await, Ok(2));
}

#[tokio::test]
async fn a_half_closed_connection_is_at_its_end_for_the_host_and_goes_on_for_the_store() {
    let mut echo = Echo::start().await;
    let mut stream = echo.connect().await;
    says(&mut stream, 1).await;
    assert_eq!((is_told(&mut stream).await, echo.hears().await), (Ok(1), 1));
    echo.proxy.half_close();
    assert_eq!(is_told(&mut stream).await, Err(ErrorKind::UnexpectedEof));
    says(&mut stream, 2).await;
    assert_eq!(echo.hears().await, 2);
}

#[tokio::test]
async fn a_store_that_is_not_there_is_a_reset_connection() {
    let gone = TcpListener::bind(("127.0.0.1", 0)).await.unwrap().local_addr().unwrap();
    let proxy = Proxy::before(gone).await;
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(is_told(&mut stream).await, Err(ErrorKind::ConnectionReset));
}
