//! Where requests may go, and with what.

use super::*;
use crate::session::client::{Limits, Options};

fn client(plain_http: bool) -> Client {
    Client::new(Options { plain_http, credentials: None, limits: Limits::of_component(1) }).unwrap()
}

async fn problem(registry: &str, plain_http: bool, url: &str) -> Option<RedirectProblem> {
    let client = client(plain_http);
    let reference = Reference::parse(&format!("oci://{registry}/x:1")).unwrap();
    let session = Session::new(&client, &reference, Access::Pull).unwrap();
    let url = Url::parse(url).unwrap();
    let found = match session.reach_at(&url).await {
        Ok(reach) => {
            let found = client.http.addresses(&url, reach).await;
            found.map_err(|error| session.unanswered(&url, &error))
        }
        Err(refused) => Err(refused),
    };
    match found {
        Ok(_addresses) => None,
        Err(Error::Redirect { why, .. }) => Some(why),
        Err(other) => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_registry_on_the_internet_cannot_send_us_into_a_private_network() {
    for target in [
        "https://127.0.0.1/",
        "https://10.0.0.1/",
        "https://169.254.169.254/latest",
        "https://[::1]/",
        "https://[::ffff:192.168.0.1]/",
        "https://localhost/",
        "https://0x7f000001/",
        "https://2130706433/",
    ] {
        assert_eq!(problem("1.1.1.1", false, target).await, Some(RedirectProblem::Private), "{target}");
    }
    assert_eq!(problem("1.1.1.1", false, "https://8.8.8.8/").await, None);
    // A registry of a private network may keep its blobs there, too.
    assert_eq!(problem("10.0.0.1", false, "https://10.0.0.2/").await, None);
}

#[test]
fn one_private_address_among_public_ones_makes_no_registry_private() {
    for (own, expected) in [
        (&["1.1.1.1"][..], Reach::Public),
        (&[], Reach::Public),
        (&["1.1.1.1", "127.0.0.1"], Reach::Public),
        (&["10.0.0.1", "2606:4700::1111"], Reach::Public),
        (&["10.0.0.1", "fd00::1"], Reach::Any),
    ] {
        let own: Vec<IpAddr> = own.iter().map(|address| address.parse().unwrap()).collect();
        assert_eq!(reach_of_redirects(&own), expected, "{own:?}");
    }
}

/// The registry's name led to the internet when it was asked, and leads into a private network now.
#[tokio::test]
async fn a_registry_that_has_answered_from_the_internet_stays_there() {
    let (client, elsewhere) = (client(false), Url::parse("https://10.0.0.2/").unwrap());
    let reference = Reference::parse("oci://10.0.0.1/x:1").unwrap();
    let mut session = Session::new(&client, &reference, Access::Pull).unwrap();
    for (address, expected) in
        [("10.0.0.1", Reach::Any), ("1.1.1.1", Reach::Public), ("10.0.0.1", Reach::Public)]
    {
        session.has_answered_from(address.parse().unwrap());
        assert_eq!(session.reach_at(&elsewhere).await.unwrap(), expected, "{address}");
    }
}

#[tokio::test]
async fn only_https_leads_elsewhere_and_never_with_credentials() {
    for (registry, plain_http, target, expected) in [
        ("1.1.1.1", false, "http://8.8.8.8/", Some(RedirectProblem::NotHttps)),
        ("1.1.1.1", false, "http://1.1.1.1/", Some(RedirectProblem::NotHttps)),
        ("1.1.1.1", true, "http://8.8.8.8/", Some(RedirectProblem::NotHttps)),
        ("127.0.0.1:5000", true, "http://10.0.0.1/", Some(RedirectProblem::NotHttps)),
        ("127.0.0.1:5000", true, "file:///etc/passwd", Some(RedirectProblem::NotHttps)),
        ("1.1.1.1", false, "https://user:secret@8.8.8.8/", Some(RedirectProblem::Credentials)),
        ("127.0.0.1:5000", true, "http://127.0.0.1:5000/other", None),
        ("127.0.0.1:5000", true, "http://localhost:5001/token", None),
    ] {
        assert_eq!(problem(registry, plain_http, target).await, expected, "{registry} {target}");
    }
}

#[test]
fn what_logs_us_in_is_for_the_registry_alone() {
    let client = client(false);
    let reference = Reference::parse("oci://registry.example.org/x:1").unwrap();
    let mut session = Session::new(&client, &reference, Access::Pull).unwrap();
    session.authorization = sensitive("Bearer token");
    let is_told = |url: &str| session.authorization_at(&Url::parse(url).unwrap()).is_some();
    assert!(is_told("https://registry.example.org/v2/x/blobs/sha256:0"));
    for other in [
        "http://registry.example.org/",
        "https://registry.example.org:8443/",
        "https://blobs.registry.example.org/",
        "https://example.org/",
    ] {
        assert!(!is_told(other), "{other}");
    }
}
