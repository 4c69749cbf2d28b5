//! Names and addresses: what they are when they are checked is what is connected to.

use super::server::ok;
use super::*;

fn public_call(world: &World) -> Call {
    let grant = grant(false, vec![], RequestLimits::default());
    world.egress.call(grant, Instant::now() + Duration::from_secs(60))
}

#[tokio::test]
async fn an_allowed_name_with_a_private_address_is_refused() {
    let server = Server::answering(|_| ok("inside")).await;
    let world = World::with(FakeResolver::new(&[&["127.0.0.1", "10.0.0.7"]]), EgressBounds::default());
    let call = public_call(&world);
    let refused = fetch(&call, get(server.url("/"))).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::DestinationIpProhibited);
    // The model learns nothing of the network; the operator learns what to do.
    assert_eq!(
        refused.to_string(),
        "example.test cannot be reached: it has no address that tools may reach; check the name"
    );
    assert!(
        refused.log_text().contains("127.0.0.1 (loopback), 10.0.0.7 (private)"),
        "{}",
        refused.log_text()
    );
    assert!(refused.log_text().contains("`private = true`"));
    assert_eq!(server.connections(), 0);
    assert_eq!(call.receipt().refusals.len(), 1);
}

#[tokio::test]
async fn metadata_addresses_are_refused_even_with_private() {
    let world = World::with(FakeResolver::new(&[&["169.254.169.254"]]), EgressBounds::default());
    for url in [
        "http://example.test/latest/meta-data/",
        "http://169.254.169.254/latest/meta-data/",
        "http://[::ffff:169.254.169.254]/",
        "http://[fd00:ec2::254]/",
        "http://[fe80::1]/",
        "http://0.0.0.0/",
    ] {
        let refused = fetch(&world.call(), get(url)).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::DestinationIpProhibited, "{url}");
        assert!(refused.log_text().contains("no line of the policy allows"), "{}", refused.log_text());
    }
}

#[tokio::test]
async fn an_address_in_the_url_is_checked_without_the_resolver() {
    let mut server = Server::answering(|_| ok("inside")).await;
    let world = World::new();
    for host in ["127.0.0.1", "[::ffff:127.0.0.1]"] {
        let url = format!("http://{host}:{}/", server.port());
        let refused = fetch(&public_call(&world), get(&url)).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::DestinationIpProhibited, "{host}");
        let (_, body) = fetch(&world.call(), get(&url)).await.unwrap();
        assert_eq!(body, "inside");
        assert_eq!(server.next().await.header("host"), Some(format!("{host}:{}", server.port()).as_str()));
    }
    assert!(world.resolver.asked().is_empty());
}

/// Public when it is checked, private when it is connected to: there is no second time.
#[tokio::test]
async fn a_name_that_changes_its_address_is_resolved_once() {
    let server = Server::answering(|_| ok("inside")).await;
    let answers: &[&[&str]] = &[&["127.0.0.2", "10.255.255.1"], &["169.254.169.254"]];
    let world = World::with(FakeResolver::new(answers), EgressBounds::default());
    // First answer: an address on which nobody listens, checked under `private = true`. What is connected to
    // is that address, and not what the name has become.
    let call = world.call_with(
        vec![],
        RequestLimits {
            times: Times { connect: Duration::from_millis(200), ..Times::default() },
            ..RequestLimits::default()
        },
    );
    let failed = fetch(&call, get(server.url("/"))).await.unwrap_err();
    assert!(
        matches!(
            failed.kind(),
            ErrorKind::ConnectionRefused | ErrorKind::ConnectionTimeout | ErrorKind::DestinationUnavailable
        ),
        "{failed:?}"
    );
    assert_eq!(world.resolver.asked(), ["example.test"]);
    // The next request resolves anew and is judged anew.
    let refused = fetch(&call, get(server.url("/"))).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::DestinationIpProhibited);
    assert_eq!(world.resolver.asked().len(), 2);
}

/// A private address among public ones is not tried, and does not spoil them.
#[tokio::test]
async fn forbidden_addresses_of_a_name_are_left_out() {
    let server = Server::answering(|_| ok("reached")).await;
    let answers: &[&[&str]] = &[&["169.254.169.254", "0.0.0.0", "127.0.0.1"]];
    let world = World::with(FakeResolver::new(answers), EgressBounds::default());
    let call = world.call();
    let (_, body) = fetch(&call, get(server.url("/"))).await.unwrap();
    assert_eq!(body, "reached");
    assert_eq!(call.receipt().hosts[0].address, Some("127.0.0.1".parse().unwrap()));
}

#[tokio::test]
async fn the_next_address_is_tried_when_one_refuses() {
    let server = Server::answering(|_| ok("second")).await;
    // Nobody listens at 127.0.0.2: the server has 127.0.0.1 only.
    let world = World::with(FakeResolver::new(&[&["127.0.0.2", "127.0.0.1"]]), EgressBounds::default());
    let (_, body) = fetch(&world.call(), get(server.url("/"))).await.unwrap();
    assert_eq!(body, "second");
}

#[tokio::test]
async fn redirects_are_answers_and_are_not_followed() {
    let target = Server::answering(|_| ok("inside")).await;
    let to = format!("http://127.0.0.1:{}/admin", target.port());
    let location = to.clone();
    let server = Server::answering(move |_| {
        format!("HTTP/1.1 302 Found\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n")
    })
    .await;
    let (head, _) = fetch(&World::new().call(), get(server.url("/"))).await.unwrap();
    assert_eq!((head.status.as_u16(), head.headers["location"].to_str().unwrap()), (302, to.as_str()));
    assert_eq!(target.connections(), 0);
    // Whoever follows it is checked like anybody.
    let refused = fetch(&public_call(&World::new()), get(&to)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::DestinationIpProhibited);
    assert_eq!(target.connections(), 0);
}

#[tokio::test]
async fn the_system_resolver_knows_this_machine() {
    let server = Server::answering(|_| ok("local")).await;
    let tls = Tls::with_roots(RootCertStore::empty()).unwrap();
    let resolver = Arc::new(SystemResolver);
    let egress = Egress::new(Handle::current(), resolver, tls, EgressBounds::default(), HttpMode::default());
    let grant = grant(true, vec![], RequestLimits::default());
    let call = egress.call(grant, Instant::now() + Duration::from_secs(60));
    let url = format!("http://localhost:{}/", server.port());
    assert_eq!(fetch(&call, get(url)).await.unwrap().1, "local");
}

/// Never answers, and keeps the slots as a thread in `getaddrinfo` would.
#[derive(Debug, Default)]
struct HangingResolver {
    slots: Mutex<Vec<LookupSlot>>,
}

impl Resolve for HangingResolver {
    fn resolve(&self, host: String, slot: LookupSlot) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        if host == "answers.test" {
            return Box::pin(async { Ok(vec!["127.0.0.1".parse().unwrap()]) });
        }
        self.slots.lock().push(slot);
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn lookups_that_hang_cost_their_grant_its_slots_and_nobody_else() {
    let server = Server::answering(|_| ok("served")).await;
    let resolver = Arc::new(HangingResolver::default());
    let tls = Tls::with_roots(RootCertStore::empty()).unwrap();
    let bounds =
        EgressBounds { lookups: LookupBounds { in_all: 3, per_owner: 2 }, ..EgressBounds::default() };
    let egress = Egress::new(Handle::current(), resolver.clone(), tls, bounds, HttpMode::default());
    let call = |digest: &str| {
        let grant = grant_called(digest, true, vec![], RequestLimits::default());
        egress.call(grant, Instant::now() + Duration::from_secs(600))
    };
    let (hanging, other) = (call("sha256:hanging"), call("sha256:other"));
    for _ in 0..4 {
        let failed = fetch(&hanging, get("http://hangs.test/")).await.unwrap_err();
        assert_eq!(failed.kind(), ErrorKind::DnsTimeout);
    }
    assert_eq!(resolver.slots.lock().len(), 2, "the grant has no more slots than its own");
    let url = format!("http://answers.test:{}/", server.port());
    assert_eq!(fetch(&hanging, get(&url)).await.unwrap_err().kind(), ErrorKind::DnsTimeout);
    assert_eq!(fetch(&other, get(&url)).await.unwrap().1, "served");
    // The threads end at last.
    resolver.slots.lock().clear();
    assert_eq!(fetch(&hanging, get(&url)).await.unwrap().1, "served");
}

#[tokio::test]
async fn a_guest_cannot_tell_a_name_that_there_is_not_from_one_of_the_private_network() {
    let world = World::with(FakeResolver::new(&[&[], &["10.0.0.7"]]), EgressBounds::default());
    let call = public_call(&world);
    let nowhere = fetch(&call, get("http://example.test/")).await.unwrap_err();
    let inside = fetch(&call, get("http://example.test/")).await.unwrap_err();
    assert!(
        matches!(nowhere, EgressError::Unreachable { why: ConnectError::NoSuchName(_), .. }),
        "{nowhere:?}"
    );
    assert!(matches!(inside, EgressError::Unreachable { why: ConnectError::Forbidden(_), .. }), "{inside:?}");
    assert_eq!((nowhere.to_string(), nowhere.kind()), (inside.to_string(), inside.kind()));
    // The operator can.
    assert!(nowhere.log_text().contains("the name has no address"), "{}", nowhere.log_text());
    assert!(inside.log_text().contains("10.0.0.7 (private)"), "{}", inside.log_text());
}

#[derive(Debug)]
struct BrokenResolver(fn() -> io::Error);

impl Resolve for BrokenResolver {
    fn resolve(&self, _host: String, _slot: LookupSlot) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let error = (self.0)();
        Box::pin(async move { Err(error) })
    }
}

#[tokio::test]
async fn a_resolver_that_fails_for_now_is_worth_another_try() {
    let failures: [fn() -> io::Error; 2] = [
        || io::Error::other("failed to lookup address information: Temporary failure in name resolution"),
        // No more files may be open.
        || io::Error::from_raw_os_error(24),
    ];
    for failure in failures {
        let tls = Tls::with_roots(RootCertStore::empty()).unwrap();
        let resolver = Arc::new(BrokenResolver(failure));
        let bounds = EgressBounds::default();
        let egress = Egress::new(Handle::current(), resolver, tls, bounds, HttpMode::default());
        let grant = grant(false, vec![], RequestLimits::default());
        let call = egress.call(grant, Instant::now() + Duration::from_secs(60));
        let failed = fetch(&call, get("http://example.test/")).await.unwrap_err();
        assert_eq!(failed.kind(), ErrorKind::DnsError);
        assert!(failed.to_string().contains("cannot be resolved now"), "{failed}");
        let problem = failure().to_string();
        assert!(failed.log_text().ends_with(&problem), "{}", failed.log_text());
    }
}
