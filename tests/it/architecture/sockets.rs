//! Who opens sockets: the crate `outbound` for everything that is asked of others, and the listener. Stores
//! and Lambda's runtime have connections of their own, within the crates that speak to them.

use std::collections::{BTreeMap, BTreeSet};

use super::{OUTBOUND, Workspace, code_of, service_sources, shown};

/// Ways to a socket, or to an address that one would be opened to.
const WAYS: [&str; 12] = [
    "TcpStream::connect",
    "TcpStream::from_std",
    "TcpSocket",
    "TcpListener::bind",
    "UdpSocket",
    "UnixStream",
    "UnixListener",
    "UnixDatagram",
    "lookup_host",
    "to_socket_addrs",
    "hyper::client",
    "hyper_util::client",
];

/// Where that is done, and why.
const LISTED: [(&str, &str); 5] = [
    ("outbound/src/connect.rs", "the way out"),
    ("outbound/src/resolve.rs", "what names mean, for the way out"),
    ("agent-host/src/cli/serve.rs", "the listener"),
    ("agent-host/src/serve/accept.rs", "the listener"),
    ("agent-host/src/cli/doctor/mod.rs", "whether the service could listen"),
];

#[test]
fn nobody_opens_a_socket_but_the_way_out_the_stores_and_the_listener() {
    let mut found = BTreeMap::new();
    for file in service_sources() {
        let lines = code_of(&file).into_iter().map(|(_, line)| line);
        let opening: Vec<_> = lines.filter(|line| WAYS.iter().any(|way| line.contains(way))).collect();
        if !opening.is_empty() {
            found.insert(shown(&file), opening);
        }
    }
    let listed: BTreeSet<_> = LISTED.iter().map(|(file, _reason)| format!("host/{file}")).collect();
    let unlisted: Vec<_> = found.iter().filter(|(file, _)| !listed.contains(*file)).collect();
    assert!(unlisted.is_empty(), "ask others by `outbound::Client`: {unlisted:#?}");
    let gone: Vec<_> = listed.iter().filter(|file| !found.contains_key(*file)).collect();
    assert!(gone.is_empty(), "these open no socket any more: {gone:#?}");
}

/// A library that connects by itself would not be seen above.
#[test]
fn only_outbound_has_a_library_that_makes_connections() {
    const MAKERS: [&str; 6] =
        ["hyper-rustls", "native-tls", "reqwest", "rustls-platform-verifier", "tokio-rustls", "ureq"];
    let workspace = Workspace::read();
    let dependents = workspace.dependents(|name| MAKERS.contains(&name));
    assert_eq!(dependents, BTreeSet::from(["acceptance", OUTBOUND]));
}
