//! Which part of the service a sample of its processor time belongs to, by the names of functions.
//!
//! A sample is a chain of calls, innermost first. The first function that the table knows decides, so that a
//! spin lock or a piece of the standard library counts for whoever called it. Where several prefixes fit a
//! name, the longest one does.

/// A part of the service, or of the kernel on its behalf.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Area {
    Network,
    Scheduling,
    Files,
    Memory,
    OtherKernel,
    Allocator,
    Copies,
    Crypto,
    Tokio,
    Http,
    Json,
    Redis,
    Sql,
    Log,
    Ours,
    Rest,
}

/// One function of a chain.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    pub(crate) symbol: String,
    /// The file that its code is in.
    pub(crate) object: String,
}

/// All, in the order of the table.
pub(crate) const AREAS: [(Area, &str); 16] = [
    (Area::Network, "kernel: network"),
    (Area::Scheduling, "kernel: futexes, epoll, switches between threads"),
    (Area::Files, "kernel: files, flushes, pipes"),
    (Area::Memory, "kernel: page faults"),
    (Area::OtherKernel, "kernel: rest, entry and exit"),
    (Area::Allocator, "allocator"),
    (Area::Copies, "memmove, memset, memcmp"),
    (Area::Crypto, "TLS, crypto, hashes, random numbers"),
    (Area::Tokio, "tokio, futures"),
    (Area::Http, "hyper, axum, HTTP"),
    (Area::Json, "JSON"),
    (Area::Redis, "Redis client"),
    (Area::Sql, "SQL clients, SQLite"),
    (Area::Log, "log lines, spans, metrics"),
    (Area::Ours, "agent-core and the rest of ours"),
    (Area::Rest, "rest"),
];

/// Beginnings of the names of functions in the kernel, with spaces between them.
const KERNEL: &[(Area, &str)] = &[
    (
        Area::Network,
        "tcp_ __tcp ip_ __ip_ ip4_ ipv4_ inet sock_ __sock sk_ __sk_ skb_ __skb __alloc_skb \
         alloc_skb kfree_skb consume_skb __kfree_skb net_ __net netif_ dev_ __dev_ napi_ __napi \
         process_backlog loopback_ nf_ ipt_ validate_xmit eth_ sch_ qdisc neigh release_sock \
         lock_sock unix_ bpf_ __sys_send __sys_recv __x64_sys_send __x64_sys_recv \
         __arm64_sys_send __arm64_sys_recv __copy_skb simple_copy_to_iter __check_object_size",
    ),
    (
        Area::Scheduling,
        "finish_task_switch __schedule schedule preempt_ try_to_wake_up ttwu wake_up __wake_up \
         default_wake autoremove_wake futex do_futex __futex get_futex __x64_sys_futex \
         __arm64_sys_futex ep_ __ep_ do_epoll __x64_sys_epoll __arm64_sys_epoll eventfd \
         enqueue_task dequeue_task enqueue_entity dequeue_entity pick_next select_task_rq \
         select_idle update_curr update_load __update_load update_rq resched set_next put_prev \
         check_preempt hrtimer __hrtimer do_nanosleep __x64_sys_clock_nanosleep do_sched_yield \
         __x64_sys_sched_yield sched_ switch_ __switch native_smp_send __x64_sys_poll do_sys_poll \
         ktime_get timerqueue tick_ scheduler_tick update_process_times wait_for_completion",
    ),
    (
        Area::Files,
        "ext4 __ext4 jbd2 __jbd2 xfs_ btrfs_ overlayfs ovl_ shmem_ vfs_fsync do_fsync \
         __x64_sys_fsync __x64_sys_fdatasync __arm64_sys_f blk_ __blk blkdev submit_bio \
         __submit_bio bio_ virtio virtblk virtqueue vp_notify iowrite nvme_ scsi_ \
         generic_perform_write generic_file filemap __filemap folio_ __folio mark_buffer __block \
         block_ iomap writeback __writeback do_writepages balance_dirty fcntl_ posix_lock \
         do_fcntl __x64_sys_fcntl __x64_sys_pwrite64 __x64_sys_pread64 pipe_ anon_pipe \
         copy_folio_from file_update_time inode_ fault_in balloc crc32c",
    ),
    (
        Area::Memory,
        "exc_page_fault do_user_addr_fault handle_mm_fault __handle_mm do_anonymous do_madvise \
         madvise unmap_ zap_ clear_page do_mmap __x64_sys_mm __x64_sys_madvise __x64_sys_munmap \
         do_fault do_wp tlb_ flush_tlb mmap_",
    ),
    (Area::Crypto, "crng get_random __x64_sys_getrandom __arm64_sys_getrandom chacha blake2"),
];

/// Beginnings of the names of functions of the process.
const PROCESS: &[(Area, &str)] = &[
    (
        Area::Allocator,
        "mi_ _mi_ malloc calloc realloc cfree __libc_malloc __libc_free __GI___libc_malloc \
         __GI___libc_free free@ _int_malloc _int_free unlink_chunk sysmalloc __rust_alloc __rust_dealloc __rust_realloc \
         __rustc::__rust mimalloc alloc::raw_vec alloc::alloc",
    ),
    (Area::Copies, "__memmove __memcpy __memset __memcmp memmove memcpy memset memcmp bcmp"),
    (
        Area::Crypto,
        "ring:: ring_core sha2:: sha1:: hmac:: rustls tokio_rustls webpki jsonwebtoken std::hash core::hash \
         ahash foldhash siphasher twox_hash blake3 gcm_ sha256_ sha512_ ChaCha20 chacha getrandom \
         rand:: rand_core rand_chacha uuid:: base64 fastrand aes_ x25519 p256",
    ),
    (
        Area::Tokio,
        "tokio:: tokio_util tokio_stream mio:: futures parking_lot async_stream std::sync::mpmc \
         crossbeam std::sys::sync std::sync::poison pthread_ __pthread ___pthread syscall \
         epoll_wait __sched_yield",
    ),
    (
        Area::Http,
        "hyper axum http:: http_body tower httparse h2:: reqwest url:: matchit bytes:: mime \
         headers percent_encoding form_urlencoded httpdate idna writev __writev __libc_recv recv \
         __libc_send send socket2",
    ),
    (Area::Json, "serde itoa ryu zmij simd_json simdutf8 core::str::converts"),
    (Area::Redis, "redis:: combine:: bullmq"),
    (Area::Sql, "sqlx libsqlite3 flume sqlite3 walChecksum pager __libc_pwrite fsync fcntl"),
    (
        Area::Log,
        "tracing agent_host::telemetry agent_host::metrics sharded_slab \
         thread_local prometheus log:: http_edge::middleware::request_log \
         http_edge::middleware::server_span nu_ansi agent_core::ports::observer agent_core::trace",
    ),
    (
        Area::Ours,
        "agent_core agent_host http_edge openai_edge mcp_server backends redis_stores mcp_client model_client \
         run_service tool_egress tool_grants tool_host tool_kit tool_policy tool_registry tool_versions tool_build",
    ),
];

/// Of a chain of calls, innermost first. An empty one is of nobody's.
pub(crate) fn area_of(chain: &[Frame]) -> Area {
    let Some(innermost) = chain.first() else { return Area::Rest };
    let in_kernel = innermost.is_kernel();
    let table = if in_kernel { KERNEL } else { PROCESS };
    let known = chain.iter().take_while(|frame| frame.is_kernel() == in_kernel);
    let mut known = known.filter_map(|frame| find(table, bare_name(&frame.symbol)));
    // In the binary only C has names without modules: beside the allocator, which is known, that is SQLite.
    let is_c = || innermost.is_ours() && !innermost.symbol.contains("::") && innermost.symbol != "[unknown]";
    match known.next() {
        Some(area) => area,
        None if in_kernel => Area::OtherKernel,
        None if is_c() => Area::Sql,
        None => Area::Rest,
    }
}

/// The area with the longest prefix of that name.
fn find(table: &[(Area, &str)], name: &str) -> Option<Area> {
    let fitting =
        table.iter().flat_map(|(area, prefixes)| prefixes.split(' ').map(move |prefix| (*area, prefix)));
    let fitting = fitting.filter(|(_, prefix)| name.starts_with(prefix));
    fitting.max_by_key(|(_, prefix)| prefix.len()).map(|(area, _)| area)
}

/// The first path in a name: `<&tokio::net::TcpStream as …>::poll_read` is of tokio, and so is
/// `core::ptr::drop_in_place<alloc::boxed::Box<tokio::…>>`.
fn bare_name(symbol: &str) -> &str {
    const WRAPPERS: &[&str] = &[
        "<",
        "&",
        "mut ",
        "dyn ",
        "core::ptr::drop_in_place<",
        "alloc::boxed::Box<",
        "alloc::sync::Arc<",
        "alloc::vec::Vec<",
        "core::option::Option<",
        "core::result::Result<",
        "core::pin::Pin<",
    ];
    let mut name = symbol;
    while let Some(rest) = WRAPPERS.iter().find_map(|wrapper| name.strip_prefix(wrapper)) {
        name = rest;
    }
    // Of a type without a path, such as a parameter, the trait says more.
    match name.split_once(" as ") {
        Some((of_type, of_trait)) if !of_type.contains("::") => of_trait,
        _ => name,
    }
}

impl Frame {
    fn is_kernel(&self) -> bool {
        const OF_PROCESS: [&str; 6] = ["[unknown]", "[vdso]", "[vsyscall]", "[stack]", "[heap]", "[anon]"];
        // The kernel and its modules stand in brackets.
        self.object.starts_with('[') && !OF_PROCESS.contains(&self.object.as_str())
    }

    fn is_ours(&self) -> bool {
        self.object.ends_with("/agent-host")
    }
}

#[cfg(test)]
#[allow(dead_code, unused_imports, reason = "a bench runs no tests; `it/evidence.rs` does")]
mod tests {
    use super::*;

    /// Frames written as `symbol` in the binary, `symbol@kernel`, `symbol@libc`.
    fn area(chain: &str) -> Area {
        let frames: Vec<_> = chain
            .split(" < ")
            .map(|frame| {
                let (symbol, object) = frame.split_once('@').unwrap_or((frame, ""));
                let object = match object {
                    "kernel" => "[kernel.kallsyms]",
                    "libc" => "/usr/lib/x86_64-linux-gnu/libc.so.6",
                    _ => "/somewhere/target/release/agent-host",
                };
                Frame { symbol: symbol.to_owned(), object: object.to_owned() }
            })
            .collect();
        area_of(&frames)
    }

    #[test]
    fn the_innermost_function_that_is_known_decides() {
        for (chain, expected) in [
            (
                "_raw_spin_unlock_irqrestore@kernel < try_to_wake_up@kernel < futex_wake@kernel",
                Area::Scheduling,
            ),
            (
                "_raw_spin_unlock_irq@kernel < eventfd_write@kernel < mio::sys::unix::waker::Waker::wake",
                Area::Scheduling,
            ),
            ("kmem_cache_free@kernel < tcp_ack@kernel < sock_write_iter@kernel", Area::Network),
            ("iowrite16@kernel < vp_notify@kernel < submit_bio_wait@kernel", Area::Files),
            ("clear_page_erms@kernel < do_anonymous_page@kernel", Area::Memory),
            ("do_syscall_64@kernel < entry_SYSCALL_64_after_hwframe@kernel < tokio::park", Area::OtherKernel),
            ("crng_make_state@kernel < __x64_sys_getrandom@kernel < getrandom@libc", Area::Crypto),
            ("mi_free < run_service::layers::cached::Cached", Area::Allocator),
            ("__memmove_avx512_unaligned_erms@libc < serde_json::ser::to_vec", Area::Copies),
            ("alloc::fmt::format::format_inner < http_edge::answer::Answer::json", Area::Ours),
            ("alloc::fmt::format::format_inner < [unknown]", Area::Rest),
            ("sqlite3VdbeExec", Area::Sql),
            ("yy_reduce < sqlite3RunParser", Area::Sql),
            ("moveToRoot", Area::Sql),
            ("[unknown]", Area::Rest),
            ("getenv@libc", Area::Rest),
        ] {
            assert_eq!(area(chain), expected, "{chain}");
        }
        assert_eq!(area_of(&[]), Area::Rest);
    }

    #[test]
    fn wrappers_do_not_hide_whose_code_it_is() {
        for (symbol, expected) in [
            ("<tokio::time::timeout::Timeout<T> as core::future::future::Future>::poll", Area::Tokio),
            (
                "core::ptr::drop_in_place<alloc::boxed::Box<redis::aio::multiplexed_connection::Response>>",
                Area::Redis,
            ),
            ("<&mut serde_json::ser::Serializer<W> as serde::ser::Serializer>::serialize_str", Area::Json),
            ("hyper_util::client::legacy::client::Client<C,B>::request::{{closure}}", Area::Http),
            ("http::header::map::HeaderMap<T>::insert", Area::Http),
            ("http_edge::router::router", Area::Ours),
            ("agent_host::telemetry::json_lines::JsonLines<W>::write", Area::Log),
            ("agent_host::serve::connection::serve", Area::Ours),
            ("<T as run_service::layers::Invoke>::invoke", Area::Ours),
            ("<alloc::sync::Arc<I> as run_service::layers::Invoke>::invoke::{{closure}}", Area::Ours),
            ("<u32 as itoa::Unsigned>::fmt", Area::Json),
            ("sqlx_sqlite::connection::worker::ConnectionWorker", Area::Sql),
        ] {
            assert_eq!(area(symbol), expected, "{symbol}");
        }
    }

    #[test]
    fn each_area_has_a_row_and_no_prefix_stands_in_two() {
        for table in [KERNEL, PROCESS] {
            let prefixes: Vec<&str> = table.iter().flat_map(|(_, prefixes)| prefixes.split(' ')).collect();
            for (index, prefix) in prefixes.iter().enumerate() {
                assert!(!prefixes[index + 1..].contains(prefix), "{prefix}");
            }
            for (area, _) in table {
                assert!(AREAS.iter().any(|(shown, _)| shown == area), "{area:?}");
            }
        }
        for (number, (area, _)) in AREAS.iter().enumerate() {
            assert_eq!(*area as usize, number, "in the order of the table");
        }
    }
}
