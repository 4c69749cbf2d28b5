//! The network between the host and a store, in the hands of a test. It hands bytes on until it is told to
//! fail, and then it fails in the way that was asked for: a stall, a cut, or a connection half closed.

mod connection;
mod port;

use std::net::SocketAddr;

use futures::FutureExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use connection::carry;
use port::Port;

use crate::waiting::{Task, within};

/// Stands before a store. Dropping it resets every connection.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    orders: watch::Sender<Orders>,
    state: watch::Receiver<State>,
    _running: Task<()>,
}

/// What the proxy is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Orders {
    accepts: bool,
    requests_pass: bool,
    answers_pass: bool,
    /// How often connections were cut; each ends when it sees another number than it began with.
    cuts: u64,
    /// How often connections were half closed; the same.
    half_closes: u64,
    /// How often connections were forgotten; the same, but none ends.
    forgets: u64,
}

const PASS: Orders =
    Orders { accepts: true, requests_pass: true, answers_pass: true, cuts: 0, half_closes: 0, forgets: 0 };

/// What the proxy does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct State {
    accepts: bool,
    accepted: usize,
    open: usize,
}

impl Proxy {
    /// Stands before the store at that address, and lets everything pass.
    pub async fn before(store: SocketAddr) -> Self {
        let port = Port::take();
        let address = port.address();
        let (orders, received) = watch::channel(PASS);
        let (reports, state) = watch::channel(State::default());
        let running = Task::begin(serve(port, store, received, reports));
        let mut this = Self { address, orders, state, _running: running };
        this.reaches("the proxy to listen", |state| state.accepts).await;
        this
    }

    /// Where it listens, whatever it was told.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many connections it has accepted since it began.
    pub fn connections(&self) -> usize {
        self.state.borrow().accepted
    }

    /// How many connections it holds now.
    pub fn open(&self) -> usize {
        self.state.borrow().open
    }

    /// Lets everything pass, what a stall held back first.
    pub async fn pass(&mut self) {
        self.orders.send_modify(|orders| {
            let Orders { cuts, half_closes, forgets, .. } = *orders;
            *orders = Orders { cuts, half_closes, forgets, ..PASS };
        });
        self.reaches("the proxy to listen", |state| state.accepts).await;
    }

    /// Accepts connections and holds every byte, as a network does that loses all packets.
    pub fn stall(&self) {
        self.orders.send_modify(|orders| {
            orders.requests_pass = false;
            orders.answers_pass = false;
        });
    }

    /// Holds what the host says; the store's words pass.
    pub fn stall_requests(&self) {
        self.orders.send_modify(|orders| orders.requests_pass = false);
    }

    /// Holds what the store says; it hears the host, and does what that asks for.
    pub fn stall_answers(&self) {
        self.orders.send_modify(|orders| orders.answers_pass = false);
    }

    /// Resets every connection and refuses new ones, until [`Self::pass`].
    pub async fn cut(&mut self) {
        self.orders.send_modify(|orders| {
            orders.accepts = false;
            orders.cuts += 1;
        });
        self.reaches("the proxy to be gone", |state| !state.accepts && state.open == 0).await;
    }

    /// Resets every connection there is; new ones pass.
    pub async fn reset(&mut self) {
        self.cut().await;
        self.pass().await;
    }

    /// Ends what the store says on every connection there is: the host reads the end, and what it says itself
    /// still passes. New connections are whole.
    pub fn half_close(&self) {
        self.orders.send_modify(|orders| orders.half_closes += 1);
    }

    /// Holds every byte of the connections there are, for ever and without a word, as a firewall does that
    /// has forgotten them. New ones pass.
    pub fn forget(&self) {
        self.orders.send_modify(|orders| orders.forgets += 1);
    }

    async fn reaches(&mut self, what: &str, condition: impl Fn(&State) -> bool) {
        let reached = within(what, self.state.wait_for(|state| condition(state))).await;
        drop(reached.expect("the proxy runs as long as its guard"));
    }
}

/// Accepts when it may, and carries what it accepted.
async fn serve(
    port: Port,
    store: SocketAddr,
    mut orders: watch::Receiver<Orders>,
    reports: watch::Sender<State>,
) {
    let mut listener = None;
    let mut connections = JoinSet::new();
    loop {
        let known = *orders.borrow_and_update();
        let accepts = known.accepts;
        match (accepts, &listener) {
            (true, None) => listener = Some(port.listen()),
            (false, Some(_)) => listener = None,
            (true, Some(_)) | (false, None) => {}
        }
        reports.send_modify(|state| {
            state.accepts = accepts;
            state.open = connections.len();
        });
        tokio::select! {
            changed = orders.changed() => if changed.is_err() { return },
            Some(_ended) = connections.join_next() => {}
            host = accept(listener.as_ref()) => {
                // With the orders as they are known here: a cut that came meanwhile is to hit this one too.
                connections.spawn(carry(host, store, known, orders.clone()).map(drop));
                reports.send_modify(|state| state.accepted += 1);
            }
        }
    }
}

async fn accept(listener: Option<&TcpListener>) -> TcpStream {
    let Some(listener) = listener else { return std::future::pending().await };
    listener.accept().await.expect("a socket that listens").0
}
