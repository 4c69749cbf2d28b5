//! What an address of Redis names: one server, a master that sentinels know, or a cluster. No I/O.

use redis::{Client, ConnectionAddr, ConnectionInfo, RedisConnectionInfo};

/// The port of a sentinel whose address names none.
const SENTINEL_PORT: u16 = 26_379;

/// The port of a node of a cluster whose address names none.
const NODE_PORT: u16 = 6379;

/// More hosts than anybody names.
const MOST_HOSTS: usize = 64;

/// An address that names no Redis server. It is not quoted: it may hold a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("REDIS_URL cannot be used: it is not an address of a Redis server, of sentinels or of a cluster")]
pub struct AddressError;

/// A host and its port.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Host {
    pub(super) name: String,
    pub(super) port: u16,
}

/// What an address names.
pub(super) enum Address {
    /// `redis://…` or `rediss://…`.
    Server(Client),
    /// `redis+sentinel://[user:password@]host:26379,…/name[/db]`.
    Sentinels(SentinelAddress),
    /// `redis+cluster://[user:password@]host:6379,…`: some of its nodes.
    Cluster(Vec<ConnectionInfo>),
}

/// Sentinels, and the master that they are asked for.
#[derive(Clone)]
pub(super) struct SentinelAddress {
    /// How the master is logged in to, under the address of each sentinel.
    pub(super) sentinels: Vec<ConnectionInfo>,
    /// The name under which the sentinels know the master.
    pub(super) name: String,
}

impl Address {
    pub(super) fn parse(url: &str) -> Result<Self, AddressError> {
        let (scheme, rest) = url.split_once("://").ok_or(AddressError)?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        match scheme.split_once('+') {
            Some((scheme @ ("redis" | "rediss"), "sentinel")) => {
                let (name, database) = path.split_once('/').unwrap_or((path, "0"));
                if !is_name(name) || database.parse::<u16>().is_err() {
                    return Err(AddressError);
                }
                let sentinels = parse_hosts(scheme, authority, SENTINEL_PORT, database)?;
                Ok(Self::Sentinels(SentinelAddress { sentinels, name: name.to_owned() }))
            }
            Some((scheme @ ("redis" | "rediss"), "cluster")) => {
                if !path.is_empty() {
                    return Err(AddressError);
                }
                parse_hosts(scheme, authority, NODE_PORT, "0").map(Self::Cluster)
            }
            _ => Client::open(url).map(Self::Server).map_err(|_quotes_it| AddressError),
        }
    }
}

/// Names that a sentinel's configuration may give a master.
fn is_name(name: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || ".-_".contains(letter);
    !name.is_empty() && name.len() <= 256 && name.chars().all(is_letter)
}

/// `[user:password@]host[:port],…`
fn parse_hosts(
    scheme: &str,
    authority: &str,
    port: u16,
    database: &str,
) -> Result<Vec<ConnectionInfo>, AddressError> {
    let (login, hosts) =
        authority.rsplit_once('@').map_or((None, authority), |(login, hosts)| (Some(login), hosts));
    let login = login.map(|login| format!("{login}@")).unwrap_or_default();
    let parse = |host: &str| {
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let usable = !host.is_empty() && !host.starts_with(':') && !host.contains(['/', '?', '#', '@']);
        let port = if has_port { String::new() } else { format!(":{port}") };
        let url = format!("{scheme}://{login}{host}{port}/{database}");
        let client = Client::open(url).ok().filter(|_| usable).ok_or(AddressError)?;
        Ok(client.get_connection_info().clone())
    };
    let hosts: Vec<_> = hosts.split(',').map(parse).collect::<Result<_, _>>()?;
    if hosts.len() > MOST_HOSTS { Err(AddressError) } else { Ok(hosts) }
}

/// The way to log in and to secure the connection of `info`, at another host.
pub(super) fn at_host(info: &ConnectionInfo, host: &Host) -> ConnectionInfo {
    let address = match info.addr() {
        ConnectionAddr::TcpTls { insecure, tls_params, .. } => ConnectionAddr::TcpTls {
            host: host.name.clone(),
            port: host.port,
            insecure: *insecure,
            tls_params: tls_params.clone(),
        },
        _ => ConnectionAddr::Tcp(host.name.clone(), host.port),
    };
    info.clone().set_addr(address)
}

/// Where a connection leads.
pub(super) fn host_of(info: &ConnectionInfo) -> Option<Host> {
    match info.addr() {
        ConnectionAddr::Tcp(name, port) | ConnectionAddr::TcpTls { host: name, port, .. } => {
            Some(Host { name: name.clone(), port: *port })
        }
        _ => None,
    }
}

/// Address of the host without logging in there.
pub(super) fn without_login(info: &ConnectionInfo) -> ConnectionInfo {
    info.clone().set_redis_settings(RedisConnectionInfo::default())
}

/// Host and login of `info`, with no database chosen: sentinels have none.
pub(super) fn without_database(info: &ConnectionInfo) -> ConnectionInfo {
    info.clone().set_redis_settings(info.redis_settings().clone().set_db(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What an address is taken for, as text without secrets.
    fn read(url: &str) -> String {
        let hosts = |infos: &[ConnectionInfo]| {
            let hosts: Vec<_> = infos.iter().map(|info| info.addr().to_string()).collect();
            hosts.join(" ")
        };
        match Address::parse(url) {
            Ok(Address::Server(_)) => "server".into(),
            Ok(Address::Sentinels(found)) => {
                let database = found.sentinels[0].redis_settings().db();
                format!("{} of {} db {database}", found.name, hosts(&found.sentinels))
            }
            Ok(Address::Cluster(nodes)) => format!("cluster {}", hosts(&nodes)),
            Err(AddressError) => "none".into(),
        }
    }

    #[test]
    fn each_kind_of_address_is_read() {
        for (url, expected) in [
            ("redis://h:6379/0", "server"),
            ("rediss://u:p@h", "server"),
            ("redis+sentinel://h1:26379,h2:26380/main", "main of h1:26379 h2:26380 db 0"),
            ("redis+sentinel://u:p@h1,h2:1/main/3", "main of h1:26379 h2:1 db 3"),
            ("rediss+sentinel://h1/main", "main of h1:26379 db 0"),
            ("redis+cluster://h1:7000,h2", "cluster h1:7000 h2:6379"),
            ("redis+cluster://:p@h1/", "cluster h1:6379"),
        ] {
            assert_eq!(read(url), expected, "{url}");
        }
        let Ok(Address::Sentinels(found)) = Address::parse("redis+sentinel://u:p%40@h1,h2/main/3") else {
            panic!("sentinels");
        };
        let login = found.sentinels[1].redis_settings();
        assert_eq!((login.username(), login.password()), (Some("u"), Some("p@")));
        let plain = without_login(&found.sentinels[1]);
        assert_eq!((plain.redis_settings().password(), plain.redis_settings().db()), (None, 0));
    }

    #[test]
    fn an_unusable_address_is_not_quoted() {
        for url in [
            "redis://:hunter2@host:99999",
            "http://hunter2",
            "hunter2",
            "redis+sentinel://:hunter2@h1:26379",
            "redis+sentinel://:hunter2@h1:26379/",
            "redis+sentinel://:hunter2@h1:26379/main/x",
            "redis+sentinel://:hunter2@/main",
            "redis+sentinel://:hunter2@h1,,h2/main",
            "redis+sentinel://:hunter2@h1/main?x=1",
            "redis+sentinel://:hunter2@h1:99999/main",
            "redis+cluster://:hunter2@h1:6379/1",
            "redis+cluster://",
            "http+sentinel://:hunter2@h1/main",
        ] {
            assert_eq!(read(url), "none", "{url}");
        }
        assert!(!AddressError.to_string().contains("hunter2"));
    }
}
