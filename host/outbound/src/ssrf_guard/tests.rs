//! Every row of the tables: what is in it, and what is beside it.

use std::net::{IpAddr, Ipv4Addr};

use super::{Class, Reach, check, classify};

fn class(text: &str) -> Class {
    classify(text.parse().unwrap())
}

/// The first and the last address of each row, and the addresses around it.
#[test]
fn every_ipv4_row() {
    let rows: &[(&str, &str, Class)] = &[
        ("0.0.0.0", "0.255.255.255", Class::Unspecified),
        ("10.0.0.0", "10.255.255.255", Class::Private),
        ("100.64.0.0", "100.100.100.199", Class::SharedNat),
        ("100.100.100.200", "100.100.100.200", Class::Metadata),
        ("100.100.100.201", "100.127.255.255", Class::SharedNat),
        ("127.0.0.0", "127.255.255.255", Class::Loopback),
        ("168.63.129.16", "168.63.129.16", Class::Metadata),
        ("169.254.0.0", "169.254.169.253", Class::LinkLocal),
        ("169.254.169.254", "169.254.169.254", Class::Metadata),
        ("169.254.169.255", "169.254.169.255", Class::LinkLocal),
        ("169.254.170.0", "169.254.170.255", Class::Metadata),
        ("169.254.171.0", "169.254.255.255", Class::LinkLocal),
        ("172.16.0.0", "172.31.255.255", Class::Private),
        ("192.0.0.0", "192.0.0.191", Class::Reserved),
        ("192.0.0.192", "192.0.0.192", Class::Metadata),
        ("192.0.0.193", "192.0.0.255", Class::Reserved),
        ("192.0.2.0", "192.0.2.255", Class::Documentation),
        ("192.88.99.0", "192.88.99.255", Class::Reserved),
        ("192.168.0.0", "192.168.255.255", Class::Private),
        ("198.18.0.0", "198.19.255.255", Class::Benchmarking),
        ("198.51.100.0", "198.51.100.255", Class::Documentation),
        ("203.0.113.0", "203.0.113.255", Class::Documentation),
        ("224.0.0.0", "239.255.255.255", Class::Multicast),
        ("240.0.0.0", "255.255.255.254", Class::Reserved),
        ("255.255.255.255", "255.255.255.255", Class::Broadcast),
    ];
    let number = |text: &str| u32::from(text.parse::<Ipv4Addr>().unwrap());
    let is_in_a_row =
        |address: u32| rows.iter().any(|(first, last, _)| (number(first)..=number(last)).contains(&address));
    for (first, last, expected) in rows {
        assert_eq!(class(first), *expected, "{first}");
        assert_eq!(class(last), *expected, "{last}");
        let beside = [number(first).wrapping_sub(1), number(last).wrapping_add(1)];
        for address in beside.into_iter().filter(|address| !is_in_a_row(*address)).map(Ipv4Addr::from) {
            assert_eq!(classify(address.into()), Class::Public, "{address}");
        }
    }
}

#[test]
fn every_ipv6_row() {
    let rows: &[(&str, Class)] = &[
        ("::", Class::Unspecified),
        ("::1", Class::Loopback),
        ("::2", Class::Reserved),
        ("::8.8.8.8", Class::Reserved),        // IPv4-compatible, RFC 4291
        ("::ffff:0:8.8.8.8", Class::Reserved), // IPv4-translated, RFC 2765
        ("2001::1", Class::Reserved),          // Teredo, RFC 4380
        ("2001:0:808:808::f7f7:f7f7", Class::Reserved),
        ("64:ff9b:1::", Class::Reserved),
        ("64:ff9b:1:ffff:ffff:ffff:ffff:ffff", Class::Reserved),
        ("64:ff9b:2::", Class::Reserved),
        ("100::", Class::Reserved),
        ("100:0:0:1::1", Class::Reserved),
        ("2001:2::", Class::Benchmarking),
        ("2001:2:0:ffff::", Class::Benchmarking),
        ("2001:2:1::", Class::Reserved),
        ("2001:1::1", Class::Reserved),
        ("2001:1ff:ffff::", Class::Reserved),
        ("2001:200::", Class::Public),
        ("2001:db8::1", Class::Documentation),
        ("2001:db7::1", Class::Public),
        ("2001:db9::1", Class::Public),
        ("3fff::1", Class::Documentation),
        ("3fff:fff:ffff::1", Class::Documentation),
        ("3fff:1000::1", Class::Public),
        ("5f00::1", Class::Reserved),
        ("4000::1", Class::Reserved),
        ("1fff:ffff::", Class::Reserved),
        ("2606:4700:4700::1111", Class::Public),
        ("fc00::1", Class::UniqueLocal),
        ("fdff:ffff::1", Class::UniqueLocal),
        ("fd00:ec2::254", Class::Metadata),
        ("fd00:ec2::23", Class::Metadata),
        ("fd20:ce::254", Class::Metadata),
        ("fd20:ce::255", Class::UniqueLocal),
        ("fd00:c1::a9fe:a9fe", Class::Metadata),
        ("fd00:42::42", Class::Metadata),
        ("fd00:42::43", Class::UniqueLocal),
        ("fe00::1", Class::Reserved),
        ("fe80::1", Class::LinkLocal),
        ("febf::1", Class::LinkLocal),
        ("fe80::a9fe:a9fe", Class::LinkLocal),
        ("fec0::1", Class::SiteLocal),
        ("feff::1", Class::SiteLocal),
        ("ff02::1", Class::Multicast),
    ];
    for (text, expected) in rows {
        assert_eq!(class(text), *expected, "{text}");
    }
}

#[test]
fn ipv6_that_carries_ipv4_is_judged_by_it() {
    let inside: &[(&str, Class)] = &[
        ("8.8.8.8", Class::Public),
        ("127.0.0.1", Class::Loopback),
        ("10.1.2.3", Class::Private),
        ("169.254.169.254", Class::Metadata),
        ("169.254.1.1", Class::LinkLocal),
        ("100.64.0.1", Class::SharedNat),
        ("224.0.0.1", Class::Multicast),
    ];
    for (text, expected) in inside {
        let v4: Ipv4Addr = text.parse().unwrap();
        let [a, b, c, d] = v4.octets().map(u16::from);
        let (high, low) = (a << 8 | b, c << 8 | d);
        for carrier in
            [format!("::ffff:{text}"), format!("64:ff9b::{text}"), format!("2002:{high:x}:{low:x}::1")]
        {
            assert_eq!(class(&carrier), *expected, "{carrier}");
        }
    }
}

#[test]
fn private_reach_is_private_and_no_more() {
    let allowed = |text: &str, reach| check(&[text.parse().unwrap()], 80, reach).is_ok();
    for private in ["127.0.0.1", "10.0.0.1", "192.168.1.1", "172.16.0.1", "100.64.0.1", "fd12::1", "::1"] {
        assert!(!allowed(private, Reach::Public), "{private}");
        assert!(allowed(private, Reach::Private), "{private}");
    }
    for never in [
        "169.254.169.254",
        "169.254.1.1",
        "fe80::1",
        "fd00:ec2::254",
        "100.100.100.200",
        "::ffff:169.254.169.254",
        "224.0.0.1",
        "ff02::1",
        "0.0.0.0",
        "::",
        "255.255.255.255",
        "198.18.0.1",
        "192.0.2.1",
        "240.0.0.1",
        "fec0::1",
    ] {
        assert!(!allowed(never, Reach::Private), "{never}");
        assert!(!allowed(never, Reach::Public), "{never}");
        assert!(allowed(never, Reach::Any), "{never}");
    }
}

#[test]
fn only_what_passed_is_kept_once_and_in_its_order() {
    let addresses: Vec<IpAddr> =
        ["8.8.8.8", "10.0.0.1", "2606:4700::1", "8.8.8.8"].map(|text| text.parse().unwrap()).to_vec();
    let kept = check(&addresses, 443, Reach::Public).unwrap();
    let kept: Vec<String> = kept.iter().map(|kept| kept.socket_addr().to_string()).collect();
    assert_eq!(kept, ["8.8.8.8:443", "[2606:4700::1]:443"]);
}
