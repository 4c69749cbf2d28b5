//! Which node of a cluster has which hash slot, and in which slot a key lies. No I/O.

use std::collections::HashMap;

use redis::Value;

use crate::redis::address::Host;

/// How many slots there are.
const SLOTS: u16 = 16_384;

/// The slot of a key: of what stands between the first `{` and the next `}`, unless that is nothing.
pub(crate) fn slot_of(key: &str) -> u16 {
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
    checksum(tag.filter(|tag| !tag.is_empty()).unwrap_or(key).as_bytes()) % SLOTS
}

/// CRC-16 as Redis has it (XMODEM).
fn checksum(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |sum: u16, byte| {
        (0..8).fold(sum ^ (u16::from(*byte) << 8), |sum, _| {
            if sum & 0x8000 == 0 { sum << 1 } else { (sum << 1) ^ 0x1021 }
        })
    })
}

/// Who has which slots, as a node told it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Topology {
    /// Rises with every failover and with every slot that moves.
    pub(super) epoch: u64,
    ranges: Vec<Range>,
    /// What nodes said since: slots that moved.
    moved: HashMap<u16, Host>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Range {
    first: u16,
    last: u16,
    /// The master, then its replicas.
    nodes: Vec<Host>,
}

impl Topology {
    /// Reads `CLUSTER SLOTS`, as the node `asked` answers it.
    pub(super) fn read(slots: &Value, epoch: u64, asked: &Host) -> Self {
        let ranges = match slots {
            Value::Array(ranges) => ranges.iter().filter_map(|range| read_range(range, asked)).collect(),
            _ => vec![],
        };
        Self { epoch, ranges, moved: HashMap::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The master that has the slot; any, if it does not matter which.
    pub(super) fn owner(&self, slot: Option<u16>) -> Option<&Host> {
        let Some(slot) = slot else { return self.ranges.first()?.nodes.first() };
        let range = || self.ranges.iter().find(|range| (range.first..=range.last).contains(&slot));
        self.moved.get(&slot).or_else(|| range()?.nodes.first())
    }

    /// Notes what a node said: the slot is another's.
    pub(super) fn note_moved(&mut self, slot: u16, to: Host) {
        self.moved.insert(slot, to);
    }

    /// Each master once.
    pub(super) fn masters(&self) -> Vec<Host> {
        self.nodes(1)
    }

    /// Each node once.
    pub(super) fn all(&self) -> Vec<Host> {
        self.nodes(usize::MAX)
    }

    /// The first so many nodes of each range, and where slots moved to.
    fn nodes(&self, most: usize) -> Vec<Host> {
        let mut nodes: Vec<Host> = Vec::new();
        for node in
            self.ranges.iter().flat_map(|range| range.nodes.iter().take(most)).chain(self.moved.values())
        {
            if !nodes.contains(node) {
                nodes.push(node.clone());
            }
        }
        nodes
    }
}

/// `first, last, [host, port, …]…`
fn read_range(range: &Value, asked: &Host) -> Option<Range> {
    let Value::Array(words) = range else { return None };
    let [Value::Int(first), Value::Int(last), nodes @ ..] = &words[..] else { return None };
    let nodes: Vec<_> = nodes.iter().filter_map(|node| read_node(node, asked)).collect();
    let (first, last) = (u16::try_from(*first).ok()?, u16::try_from(*last).ok()?);
    (!nodes.is_empty() && last < SLOTS).then_some(Range { first, last, nodes })
}

/// A node that does not know its own address is at the host that was asked.
fn read_node(node: &Value, asked: &Host) -> Option<Host> {
    let Value::Array(words) = node else { return None };
    let [name, Value::Int(port), ..] = &words[..] else { return None };
    let name = match name {
        Value::BulkString(name) => String::from_utf8(name.clone()).ok()?,
        _ => String::new(),
    };
    let name = if name.is_empty() || name == "?" { asked.name.clone() } else { name };
    Some(Host { name, port: u16::try_from(*port).ok()? })
}

/// `host:port` as a node writes where a slot is; without a host it is at the node that says so.
pub(super) fn read_moved(to: &str, asked: &Host) -> Option<Host> {
    let (name, port) = to.rsplit_once(':')?;
    let name = if name.is_empty() || name == "?" { &asked.name } else { name };
    Some(Host { name: name.to_owned(), port: port.parse().ok()? })
}

/// The epoch that `CLUSTER INFO` tells, if the node believes that the cluster works.
pub(super) fn read_epoch(info: &str) -> u64 {
    let field = |wanted: &str| {
        info.lines().find_map(|line| line.trim().split_once(':').filter(|(name, _)| *name == wanted))
    };
    let is_up = field("cluster_state").is_some_and(|(_, state)| state == "ok");
    let epoch = field("cluster_current_epoch").and_then(|(_, epoch)| epoch.parse().ok()).unwrap_or(0);
    if is_up { epoch } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str, port: u16) -> Host {
        Host { name: name.into(), port }
    }

    fn node(name: &str, port: i64) -> Value {
        Value::Array(vec![Value::BulkString(name.into()), Value::Int(port), Value::BulkString("id".into())])
    }

    /// The slots are those that `CLUSTER KEYSLOT` gives.
    #[test]
    fn a_key_lies_where_redis_has_it() {
        for (key, slot) in [
            ("123456789", 12_739),
            ("foo", 12_182),
            ("{foo}bar", 12_182),
            ("foo{}{bar}", 8_363),
            ("foo{{bar}}zap", 4_015),
            ("foo{bar}{zap}", 5_061),
            ("", 0),
        ] {
            assert_eq!(slot_of(key), slot, "{key}");
        }
    }

    #[test]
    fn slots_are_found_where_the_nodes_say() {
        let range = |first, last, nodes: &[Value]| {
            Value::Array(
                [Value::Int(first), Value::Int(last)].into_iter().chain(nodes.iter().cloned()).collect(),
            )
        };
        let slots = Value::Array(vec![
            range(0, 8191, &[node("a", 1), node("b", 2)]),
            range(8192, 16_383, &[node("", 3)]),
            range(0, 70_000, &[node("x", 9)]),
            Value::Nil,
        ]);
        let asked = host("here", 7);
        let mut topology = Topology::read(&slots, 4, &asked);
        assert_eq!(topology.owner(Some(8191)), Some(&host("a", 1)));
        assert_eq!(topology.owner(Some(8192)), Some(&host("here", 3)));
        assert_eq!(topology.owner(None), Some(&host("a", 1)));
        assert_eq!(topology.masters(), [host("a", 1), host("here", 3)]);
        assert_eq!(topology.all(), [host("a", 1), host("b", 2), host("here", 3)]);
        topology.note_moved(5, read_moved("c:4", &asked).unwrap());
        topology.note_moved(6, read_moved(":8", &asked).unwrap());
        assert_eq!(
            (topology.owner(Some(5)), topology.owner(Some(6))),
            (Some(&host("c", 4)), Some(&host("here", 8)))
        );
        assert!(topology.masters().contains(&host("c", 4)));
        assert_eq!(Topology::read(&Value::Nil, 0, &asked).owner(Some(0)), None);
    }

    #[test]
    fn a_node_that_believes_the_cluster_is_down_is_believed_last() {
        assert_eq!(read_epoch("cluster_state:ok\r\ncluster_current_epoch:6\r\n"), 6);
        assert_eq!(read_epoch("cluster_state:fail\r\ncluster_current_epoch:9\r\n"), 0);
        assert_eq!(read_epoch(""), 0);
    }
}
