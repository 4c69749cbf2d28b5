//! More than one address.

use std::time::Instant;

use http_body_util::Empty;
use tokio::net::TcpListener;

use super::*;
use crate::origin::Host;
use crate::ssrf_guard::{Reach, check};

/// A listener whose queue of connections is full: the system answers no further one with as much as a
/// refusal.
fn full_listener(address: SocketAddr) -> impl Sized {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.bind(address).unwrap();
    let listener = socket.listen(1).unwrap();
    let connect = || std::net::TcpStream::connect_timeout(&address, Duration::from_millis(200)).ok();
    let waiting: Vec<_> = std::iter::from_fn(connect).take(100).collect();
    assert!(waiting.len() < 100, "the system takes connections beyond the queue's length");
    (listener, waiting)
}

#[tokio::test]
async fn an_address_that_is_silent_keeps_nobody_from_the_next_one() {
    let answering = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = answering.local_addr().unwrap().port();
    let _silent = full_listener(SocketAddr::from(([127, 0, 0, 2], port)));
    let addresses = ["127.0.0.2", "127.0.0.1"].map(|address| address.parse().unwrap());
    let addresses = check(&addresses, port, Reach::Private).unwrap();
    let origin = Origin { scheme: Scheme::Http, host: Host::Name("example.test".into()), port };
    let begun = Instant::now();
    let connected = connect::<Empty<Bytes>>(None, &origin, &addresses, Duration::from_secs(5)).await;
    assert_eq!(connected.unwrap().address, answering.local_addr().unwrap());
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    let silent = addresses.get(..1).unwrap();
    let failed = connect::<Empty<Bytes>>(None, &origin, silent, Duration::from_millis(50)).await;
    assert_eq!(failed.unwrap_err(), ConnectError::Timeout(Duration::from_millis(50)));
}
