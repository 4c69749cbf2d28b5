//! Who is calling: the socket's address, or what the proxies that we trust say of it.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use axum::extract::ConnectInfo;
use http::{HeaderMap, HeaderName, Request};

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The caller's address, an extension of the request. Absent when the service is not behind a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientAddress(pub(crate) IpAddr);

impl ClientAddress {
    /// As whom a caller of that address is counted. IPv6 callers own whole networks, so a /56 counts as one
    /// caller (host/docs/interface/decisions-http.md#callers). Callers without an address, who do not come
    /// through a socket, are one caller.
    pub(crate) fn key(address: Option<Self>) -> String {
        match address.map(|Self(address)| address.to_canonical()) {
            Some(IpAddr::V4(address)) => format!("ip:{address}"),
            Some(IpAddr::V6(address)) => {
                format!("ip:{}/56", Ipv6Addr::from_bits(address.to_bits() >> 72 << 72))
            }
            None => "ip:unknown".into(),
        }
    }
}

/// Finds the address and notes it on the request.
pub(crate) fn note<B>(mut request: Request<B>, trusted_proxies: usize) -> Request<B> {
    let socket = request.extensions().get().map(|ConnectInfo::<SocketAddr>(address)| address.ip());
    let client = find_forwarded(request.headers(), trusted_proxies).or(socket);
    if let Some(address) = client {
        // A listener on `::` sees IPv4 callers as mapped addresses; they are the same callers.
        request.extensions_mut().insert(ClientAddress(address.to_canonical()));
    }
    request
}

/// The entry that the outermost trusted proxy wrote: each proxy appends the address it was called from, so
/// with `n` of them it is the `n`-th from the right. What stands left of it is the caller's own invention.
/// With fewer entries than proxies it is the leftmost, as in Express.
fn find_forwarded(headers: &HeaderMap, trusted_proxies: usize) -> Option<IpAddr> {
    let from_the_right = headers
        .get_all(FORWARDED_FOR)
        .into_iter()
        .rev()
        .flat_map(|line| line.as_bytes().rsplit(|byte| *byte == b','));
    let entry = from_the_right.take(trusted_proxies).last()?;
    parse_address(str::from_utf8(entry).ok()?.trim())
}

/// Some proxies append the port, or put an IPv6 address into the brackets that it has beside one.
fn parse_address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    bare.parse().ok().or_else(|| text.parse().ok().map(|socket: SocketAddr| socket.ip()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(forwarded: &[&str], trusted_proxies: usize) -> String {
        let socket: SocketAddr = "[::ffff:10.0.0.1]:4711".parse().unwrap();
        let mut request = Request::new(());
        request.extensions_mut().insert(ConnectInfo(socket));
        for line in forwarded {
            request.headers_mut().append(FORWARDED_FOR, line.parse().unwrap());
        }
        let request = note(request, trusted_proxies);
        request.extensions().get::<ClientAddress>().unwrap().0.to_string()
    }

    #[test]
    fn callers_are_told_apart_by_address_or_by_network() {
        let key = |text: &str| ClientAddress::key(Some(ClientAddress(text.parse().unwrap())));
        assert_eq!(key("192.0.2.1"), "ip:192.0.2.1");
        assert_eq!(key("::ffff:192.0.2.1"), "ip:192.0.2.1");
        assert_eq!(key("2001:db8:0:100::1"), "ip:2001:db8:0:100::/56");
        assert_eq!(key("2001:db8:0:1ff::9"), "ip:2001:db8:0:100::/56");
        assert_eq!(key("2001:db8:0:200::1"), "ip:2001:db8:0:200::/56");
        assert_eq!(key("::1"), "ip:::/56");
        assert_eq!(ClientAddress::key(None), "ip:unknown");
    }

    #[test]
    fn without_trusted_proxies_the_socket_counts() {
        assert_eq!(client(&[], 0), "10.0.0.1");
        assert_eq!(client(&["1.1.1.1"], 0), "10.0.0.1");
    }

    #[test]
    fn each_trusted_proxy_vouches_for_one_entry_from_the_right() {
        assert_eq!(client(&["3.3.3.3, 1.1.1.1"], 1), "1.1.1.1");
        assert_eq!(client(&["3.3.3.3,  1.1.1.1"], 2), "3.3.3.3");
        assert_eq!(client(&["4.4.4.4, 3.3.3.3", "1.1.1.1"], 2), "3.3.3.3");
        assert_eq!(client(&["1.1.1.1"], 3), "1.1.1.1");
        assert_eq!(client(&["2001:db8::1"], 1), "2001:db8::1");
        assert_eq!(client(&["[2001:db8::1]:443"], 1), "2001:db8::1");
        assert_eq!(client(&["[2001:db8::1]"], 1), "2001:db8::1");
        assert_eq!(client(&["1.1.1.1:443"], 1), "1.1.1.1");
    }

    #[test]
    fn an_entry_that_is_no_address_leaves_the_socket() {
        for line in ["", "unknown", "1.1.1.1, ", "1.1.1.1, _hidden", "[]", "[2001:db8::1"] {
            assert_eq!(client(&[line], 1), "10.0.0.1", "{line}");
        }
    }
}
