//! One connection through the proxy: two pumps and what ends them.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::Orders;

/// Carries one connection, which began under those orders, to its end. Whatever ends it but both sides' own
/// will is a reset for both.
pub(super) async fn carry(
    mut host: TcpStream,
    store: SocketAddr,
    begun: Orders,
    orders: watch::Receiver<Orders>,
) -> io::Result<()> {
    // Set before anything can go wrong: it is what makes a closed socket a reset one.
    host.set_zero_linger()?;
    host.set_nodelay(true)?;
    let mut cuts = orders.clone();
    tokio::select! {
        _ = cuts.wait_for(|orders| orders.cuts != begun.cuts) => Ok(()),
        carried = carry_both_ways(&mut host, store, begun, orders) => carried,
    }
}

async fn carry_both_ways(
    host: &mut TcpStream,
    store: SocketAddr,
    begun: Orders,
    orders: watch::Receiver<Orders>,
) -> io::Result<()> {
    let mut store = TcpStream::connect(store).await?;
    store.set_zero_linger()?;
    store.set_nodelay(true)?;
    let (from_host, mut to_host) = host.split();
    let (from_store, mut to_store) = store.split();
    let is_known = |orders: &Orders| orders.forgets == begun.forgets;
    let requests =
        pump(from_host, &mut to_store, orders.clone(), |orders| orders.requests_pass && is_known(orders));
    let answers = async {
        let mut half_closes = orders.clone();
        let pumped = pump(from_store, &mut to_host, orders, |orders| orders.answers_pass && is_known(orders));
        let closed = half_closes.wait_for(|orders| orders.half_closes != begun.half_closes);
        tokio::select! {
            pumped = pumped => return pumped,
            _ = closed => {}
        }
        to_host.shutdown().await
    };
    futures::try_join!(requests, answers)?;
    Ok(())
}

/// Hands on what it reads, while that may pass, and the end at last.
async fn pump(
    mut from: impl AsyncRead + Unpin,
    to: &mut (impl AsyncWrite + Unpin),
    mut orders: watch::Receiver<Orders>,
    may_pass: impl Fn(&Orders) -> bool,
) -> io::Result<()> {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        // Not read either while nothing passes, so that whoever says much feels that nobody listens.
        allowed(&mut orders, &may_pass).await;
        let length = from.read(&mut buffer).await?;
        // What was read may have come after the order to stall.
        allowed(&mut orders, &may_pass).await;
        match buffer.get(..length) {
            Some(read) if !read.is_empty() => to.write_all(read).await?,
            _ => return to.shutdown().await,
        }
    }
}

/// Waits until bytes may pass; for ever when nobody is left who could say so, because that ends everything.
async fn allowed(orders: &mut watch::Receiver<Orders>, may_pass: impl Fn(&Orders) -> bool) {
    if orders.wait_for(|orders| may_pass(orders)).await.is_err() {
        std::future::pending::<()>().await;
    }
}
