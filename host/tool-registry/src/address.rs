//! Which addresses belong to the internet.
//!
//! A registry that is on the internet has no business sending us to an address that is not: behind it may be a service that
//! trusts whoever is in the same network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether an address is one of the internet's. IPv6 that carries an IPv4 address is judged by that one.
pub(crate) fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// IANA's special-purpose registry of IPv4, and what is above 224.0.0.0.
fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_special = address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_documentation()
        || a == 0 // RFC 791, this network
        || a >= 224 // multicast, reserved, broadcast
        || (a == 100 && (64..128).contains(&b)) // RFC 6598, carrier-grade NAT
        || (a == 192 && b == 0 && c == 0) // RFC 6890
        || (a == 192 && b == 88 && c == 99) // RFC 7526, relays of 6to4
        || (a == 198 && (18..20).contains(&b)) // RFC 2544
        || address == Ipv4Addr::new(168, 63, 129, 16); // Azure's own services, of each machine
    !is_special
}

/// Only 2000::/3 is handed out for use on the internet.
fn is_public_v6(address: Ipv6Addr) -> bool {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let carried = |high: u16, low: u16| Ipv4Addr::from_bits((u32::from(high) << 16) | u32::from(low));
    if (a, b, c, d, e, f) == (0x64, 0xff9b, 0, 0, 0, 0) {
        return is_public_v4(carried(g, h)); // RFC 6052, NAT64
    }
    if a == 0x2002 {
        return is_public_v4(carried(b, c)); // RFC 3056, 6to4
    }
    // RFC 2928, Teredo among them; RFC 3849; RFC 9637.
    let is_special = match a {
        0x2001 => b < 0x200 || b == 0xdb8,
        0x3fff => b < 0x1000,
        _ => false,
    };
    (0x2000..0x4000).contains(&a) && !is_special
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_the_internet_does_not_route_are_not_public() {
        for address in [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "192.0.0.8",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "192.0.2.1",
            "168.63.129.16",
            "::",
            "::1",
            "fe80::1",
            "fc00::1",
            "ff02::1",
            "::ffff:10.0.0.1",
            "64:ff9b::7f00:1",
            "2002:a00:1::",
            "2001:db8::1",
            "2001::1",
            "fd00:ec2::254",
            "64:ff9b:1::1",
        ] {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
        for address in [
            "1.1.1.1",
            "172.32.0.1",
            "100.128.0.1",
            "2606:4700::1111",
            "::ffff:1.1.1.1",
            "64:ff9b::101:101",
            "2002:101:101::1",
        ] {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
    }
}
