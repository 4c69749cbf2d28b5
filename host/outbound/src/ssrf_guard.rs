//! The table of public addresses, and which addresses a request may reach.
//!
//! [`check`] is the only way to an [`AllowedAddr`], and `connect` takes nothing else: what was not checked
//! cannot be connected to, and nothing is resolved again in between. An address is judged by what it reaches:
//! IPv6 that stands for an IPv4 address in use today (mapped, NAT64, 6to4) is judged by that one. Forms that
//! nothing routes any more (IPv4-compatible, IPv4-translated, Teredo) are reserved, whatever they carry.
//!
//! The ranges are those of IANA's special-purpose registries (iana-ipv4-special-registry and
//! iana-ipv6-special-registry), which [`V4`] and [`V6`] repeat with the RFC of each row, and the metadata
//! services of the clouds. `Ipv4Addr::is_global` would say most of it and is unstable. Which host a name
//! means is `resolve`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ipnet::{Ipv4Net, Ipv6Net};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Reached over the internet.
    Public,
    /// Loopback: this machine.
    Loopback,
    /// RFC 1918.
    Private,
    /// Carrier-grade NAT, RFC 6598. Overlay networks use it too.
    SharedNat,
    /// RFC 4193, IPv6's private addresses.
    UniqueLocal,
    LinkLocal,
    /// A cloud's metadata service, which hands out credentials.
    Metadata,
    /// RFC 5737, RFC 3849, RFC 9637.
    Documentation,
    /// RFC 2544, RFC 5180.
    Benchmarking,
    /// More than one host.
    Multicast,
    /// Every host of the link.
    Broadcast,
    /// No host: systems take it for this machine.
    Unspecified,
    /// RFC 3879, deprecated.
    SiteLocal,
    /// Assigned to a protocol, or to nobody.
    Reserved,
}

/// How far a request may reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reach {
    /// Public addresses: a stranger named the host.
    Public,
    /// Private and loopback ones, too: the operator allows them for this host.
    Private,
    /// Every address: the operator named the host.
    Any,
}

/// An address that was checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AllowedAddr(SocketAddr);

/// An address that may not be reached, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForbiddenAddr {
    pub address: IpAddr,
    pub class: Class,
}

/// Keeps those that may be reached, in their order, without repetitions. If there are none, says what all of
/// them are.
pub(crate) fn check(
    addresses: &[IpAddr],
    port: u16,
    reach: Reach,
) -> Result<Vec<AllowedAddr>, Vec<ForbiddenAddr>> {
    let (mut allowed, mut forbidden) = (vec![], vec![]);
    for address in addresses {
        let (class, socket) = (classify(*address), SocketAddr::new(*address, port));
        if !class.is_within(reach) {
            forbidden.push(ForbiddenAddr { address: *address, class });
        } else if !allowed.contains(&AllowedAddr(socket)) {
            allowed.push(AllowedAddr(socket));
        }
    }
    if allowed.is_empty() { Err(forbidden) } else { Ok(allowed) }
}

fn classify(address: IpAddr) -> Class {
    match address {
        IpAddr::V4(address) => classify_v4(address),
        IpAddr::V6(address) => classify_v6(address),
    }
}

impl Reach {
    /// Whether a request that reaches so far may be made to that address.
    pub fn allows(self, address: IpAddr) -> bool {
        classify(address).is_within(self)
    }
}

impl AllowedAddr {
    pub(crate) fn socket_addr(self) -> SocketAddr {
        self.0
    }
}

impl Class {
    /// Link-local and metadata addresses, and what no single host answers at, are within reach of operators
    /// only.
    pub fn is_within(self, reach: Reach) -> bool {
        match self {
            Self::Public => true,
            Self::Loopback | Self::Private | Self::SharedNat | Self::UniqueLocal => reach >= Reach::Private,
            Self::LinkLocal
            | Self::Metadata
            | Self::Documentation
            | Self::Benchmarking
            | Self::Multicast
            | Self::Broadcast
            | Self::Unspecified
            | Self::SiteLocal
            | Self::Reserved => reach == Reach::Any,
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Public => "public",
            Self::Loopback => "loopback",
            Self::Private => "private",
            Self::SharedNat => "shared (carrier-grade NAT)",
            Self::UniqueLocal => "unique local",
            Self::LinkLocal => "link-local",
            Self::Metadata => "cloud metadata",
            Self::Documentation => "documentation",
            Self::Benchmarking => "benchmarking",
            Self::Multicast => "multicast",
            Self::Broadcast => "broadcast",
            Self::Unspecified => "unspecified",
            Self::SiteLocal => "site-local",
            Self::Reserved => "reserved",
        })
    }
}

impl fmt::Display for ForbiddenAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.address, self.class)
    }
}

fn classify_v4(address: Ipv4Addr) -> Class {
    V4.iter().find(|(net, _)| net.contains(&address)).map_or(Class::Public, |(_, class)| *class)
}

fn classify_v6(address: Ipv6Addr) -> Class {
    let Some((_, rule)) = V6.iter().find(|(net, _)| net.contains(&address)) else {
        // Global unicast is assigned from 2000::/3 only (RFC 4291, RFC 3587).
        let assigned = address.segments()[0] & 0xe000 == 0x2000;
        return if assigned { Class::Public } else { Class::Reserved };
    };
    match rule {
        Rule::Is(class) => *class,
        Rule::CarriesInLast32Bits => classify_v4(v4_at(address, 96)),
        Rule::CarriesInSecond16Bits => classify_v4(v4_at(address, 16)),
    }
}

/// The IPv4 address whose first bit is the given one.
fn v4_at(address: Ipv6Addr, bit: u32) -> Ipv4Addr {
    let bits = (address.to_bits() >> (96 - bit)) & u128::from(u32::MAX);
    Ipv4Addr::from_bits(u32::try_from(bits).unwrap_or_default())
}

/// How an IPv6 range is judged.
#[derive(Debug, Clone, Copy)]
enum Rule {
    Is(Class),
    /// By the IPv4 address at its end.
    CarriesInLast32Bits,
    /// By the IPv4 address after its first 16 bits.
    CarriesInSecond16Bits,
}

/// The first row that contains an address decides; in none: public.
const V4: &[(Ipv4Net, Class)] = &[
    // The clouds' own, of which some lie in public or in shared ranges.
    (v4([169, 254, 169, 254], 32), Class::Metadata), // AWS, Azure, Google, Oracle, DigitalOcean, OpenStack
    (v4([169, 254, 170, 0], 24), Class::Metadata),   // AWS: credentials of containers
    (v4([100, 100, 100, 200], 32), Class::Metadata), // Alibaba
    (v4([168, 63, 129, 16], 32), Class::Metadata),   // Azure: WireServer
    (v4([192, 0, 0, 192], 32), Class::Metadata),     // Oracle Cloud Classic
    // IANA's registry, in its order.
    (v4([0, 0, 0, 0], 8), Class::Unspecified),         // RFC 791
    (v4([10, 0, 0, 0], 8), Class::Private),            // RFC 1918
    (v4([100, 64, 0, 0], 10), Class::SharedNat),       // RFC 6598
    (v4([127, 0, 0, 0], 8), Class::Loopback),          // RFC 1122
    (v4([169, 254, 0, 0], 16), Class::LinkLocal),      // RFC 3927
    (v4([172, 16, 0, 0], 12), Class::Private),         // RFC 1918
    (v4([192, 0, 0, 0], 24), Class::Reserved),         // RFC 6890
    (v4([192, 0, 2, 0], 24), Class::Documentation),    // RFC 5737
    (v4([192, 88, 99, 0], 24), Class::Reserved),       // RFC 7526
    (v4([192, 168, 0, 0], 16), Class::Private),        // RFC 1918
    (v4([198, 18, 0, 0], 15), Class::Benchmarking),    // RFC 2544
    (v4([198, 51, 100, 0], 24), Class::Documentation), // RFC 5737
    (v4([203, 0, 113, 0], 24), Class::Documentation),  // RFC 5737
    (v4([224, 0, 0, 0], 4), Class::Multicast),         // RFC 5771
    (v4([255, 255, 255, 255], 32), Class::Broadcast),  // RFC 919
    (v4([240, 0, 0, 0], 4), Class::Reserved),          // RFC 1112
];

/// The first row that contains an address decides; in none: public within 2000::/3, else reserved.
const V6: &[(Ipv6Net, Rule)] = &[
    // The clouds' own, all in the range of unique local addresses.
    (v6([0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0], 32), Rule::Is(Class::Metadata)), // AWS
    (v6([0xfd20, 0x00ce, 0, 0, 0, 0, 0, 0x0254], 128), Rule::Is(Class::Metadata)), // Google
    (v6([0xfd00, 0x00c1, 0, 0, 0, 0, 0xa9fe, 0xa9fe], 128), Rule::Is(Class::Metadata)), // Oracle
    (v6([0xfd00, 0x0042, 0, 0, 0, 0, 0, 0x0042], 128), Rule::Is(Class::Metadata)), // Scaleway
    // IANA's registry, and the ranges that carry IPv4.
    (v6([0, 0, 0, 0, 0, 0, 0, 1], 128), Rule::Is(Class::Loopback)), // RFC 4291
    (v6([0, 0, 0, 0, 0, 0, 0, 0], 128), Rule::Is(Class::Unspecified)), // RFC 4291
    (v6([0, 0, 0, 0, 0, 0xffff, 0, 0], 96), Rule::CarriesInLast32Bits), // RFC 4291: IPv4-mapped
    (v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96), Rule::CarriesInLast32Bits), // RFC 6052: NAT64
    // NAT64 of a local network. Where the IPv4 address stands depends on that network's choice.
    (v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48), Rule::Is(Class::Reserved)), // RFC 8215
    (v6([0x100, 0, 0, 0, 0, 0, 0, 0], 64), Rule::Is(Class::Reserved)),     // RFC 6666
    (v6([0x100, 0, 0, 1, 0, 0, 0, 0], 64), Rule::Is(Class::Reserved)),     // RFC 9780
    (v6([0x2001, 2, 0, 0, 0, 0, 0, 0], 48), Rule::Is(Class::Benchmarking)), // RFC 5180
    (v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23), Rule::Is(Class::Reserved)),    // RFC 2928: Teredo is in it
    (v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32), Rule::Is(Class::Documentation)), // RFC 3849
    (v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16), Rule::CarriesInSecond16Bits),  // RFC 3056: 6to4
    (v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20), Rule::Is(Class::Documentation)), // RFC 9637
    (v6([0x5f00, 0, 0, 0, 0, 0, 0, 0], 16), Rule::Is(Class::Reserved)),    // RFC 9602
    (v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7), Rule::Is(Class::UniqueLocal)),  // RFC 4193
    (v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10), Rule::Is(Class::LinkLocal)),   // RFC 4291
    (v6([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10), Rule::Is(Class::SiteLocal)),   // RFC 3879
    (v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8), Rule::Is(Class::Multicast)),    // RFC 4291
];

/// A length that does not fit is a compile error: the tables are constants.
const fn v4(octets: [u8; 4], prefix: u8) -> Ipv4Net {
    let [a, b, c, d] = octets;
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix)
}

const fn v6(segments: [u16; 8], prefix: u8) -> Ipv6Net {
    let [a, b, c, d, e, f, g, h] = segments;
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, d, e, f, g, h), prefix)
}

#[cfg(test)]
mod tests;
