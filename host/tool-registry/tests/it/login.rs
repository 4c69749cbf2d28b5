//! Logging in: with a token service, with user and password, and who is told what.

use agent_core::secret::Secret;
use tool_registry::{Credentials, Error, Pulled, Reference};

use crate::artifacts::{client, component, manifest};
use crate::fake::{Fake, Reply, Request};

const PASSWORD: &str = "hunter2-in-full";

/// `publisher:hunter2-in-full`.
const BASIC: &str = "Basic cHVibGlzaGVyOmh1bnRlcjItaW4tZnVsbA==";

fn credentials(registry: &str) -> Credentials {
    Credentials {
        registry: registry.to_owned(),
        user: "publisher".to_owned(),
        password: Secret::new(PASSWORD),
    }
}

async fn pull_as(fake: &Fake, credentials: Option<Credentials>) -> Result<Pulled, Error> {
    let reference = Reference::parse(&fake.reference()).unwrap();
    tool_registry::pull(&client(credentials), &reference, &mut |_, _| {}).await
}

/// A registry that wants that authorization, and sends others to that token service.
async fn guarded(authorization: &'static str, challenge: String) -> Fake {
    let good = component("good");
    let manifest = manifest(&good);
    Fake::start(move |request: &Request| {
        if request.header("authorization") != Some(authorization) {
            let said = format!(
                r#"{{"errors":[{{"code":"UNAUTHORIZED","message":"not {}"}}]}}"#,
                request.header("authorization").unwrap_or_default()
            );
            return Reply::new(401, &[("www-authenticate", &challenge)], said);
        }
        if request.is_for("/manifests/") { Reply::ok(&manifest) } else { Reply::ok(&good) }
    })
    .await
}

async fn token_service(answer: Reply) -> (Fake, String) {
    let service = Fake::start(move |_| answer.clone()).await;
    let challenge = format!(
        r#"Bearer realm="http://{}/token",service="tests",scope="registry:catalog:*""#,
        service.name()
    );
    (service, challenge)
}

#[tokio::test]
async fn a_token_is_fetched_as_nobody_for_this_repository_and_no_more() {
    let (service, challenge) = token_service(Reply::ok(r#"{"token":"T1","expires_in":300}"#)).await;
    let fake = guarded("Bearer T1", challenge).await;
    assert_eq!(pull_as(&fake, None).await.unwrap().component, component("good"));
    let asked = service.requests();
    assert_eq!(asked.len(), 1, "one token is enough");
    assert!(asked[0].is_for("/token?service=tests&scope=repository%3Aadder%3Apull "), "{asked:?}");
    assert_eq!(asked[0].header("authorization"), None);
}

#[tokio::test]
async fn credentials_are_for_the_registry_they_are_for() {
    let (service, challenge) = token_service(Reply::ok(r#"{"token":"","access_token":"T2"}"#)).await;
    let fake = guarded("Bearer T2", challenge).await;
    pull_as(&fake, Some(credentials(&fake.name()))).await.unwrap();
    pull_as(&fake, Some(credentials("registry.example.org"))).await.unwrap();
    let told: Vec<_> =
        service.requests().iter().map(|request| request.header("authorization").map(str::to_owned)).collect();
    assert_eq!(told, [Some(BASIC.to_owned()), None]);
}

#[tokio::test]
async fn a_registry_may_want_user_and_password_itself() {
    let fake = guarded(BASIC, r#"Basic realm="tests""#.to_owned()).await;
    pull_as(&fake, Some(credentials(&fake.name()))).await.unwrap();
    let first = &fake.requests()[0];
    assert_eq!(first.header("authorization"), None, "nobody asked yet");
    let others = pull_as(&fake, Some(credentials("registry.example.org"))).await;
    assert!(matches!(others, Err(Error::CredentialsNeeded { .. })), "{others:?}");
}

#[tokio::test]
async fn whoever_is_not_let_in_is_told_what_to_set_and_the_password_is_in_no_error() {
    let mut texts = Vec::new();
    let mut add = |fake: &Fake, service: &str, error: Error| {
        let text = fake.anonymous(&error).replace(service, "SERVICE");
        assert!(!format!("{text} {error:?}").contains("hunter2"), "{error:?}");
        assert!(!text.contains("cHVibGlz"), "{text}");
        texts.push(text);
    };
    for answer in [
        Reply::ok(r#"{"token":"of another"}"#),
        Reply::new(401, &[], PASSWORD),
        Reply::ok("{}"),
        Reply::ok(r#"{"token":"a\nb"}"#),
        Reply::ok(format!(r#"{{"token":"{}"}}"#, "x".repeat(100_000))),
        Reply::new(500, &[], PASSWORD),
        Reply::new(302, &[("location", "https://example.org/")], ""),
    ] {
        let (service, challenge) = token_service(answer).await;
        let fake = guarded("Bearer T", challenge).await;
        add(&fake, &service.name(), pull_as(&fake, Some(credentials(&fake.name()))).await.unwrap_err());
    }
    for challenge in [
        r#"Basic realm="x""#,
        "Negotiate",
        r#"Bearer realm="not an address""#,
        r#"Bearer realm="http://10.0.0.1/token""#,
    ] {
        let fake = guarded("Bearer T", challenge.to_owned()).await;
        add(&fake, "-", pull_as(&fake, Some(credentials(&fake.name()))).await.unwrap_err());
        add(&fake, "-", pull_as(&fake, None).await.unwrap_err());
    }
    insta::assert_snapshot!(texts.join("\n"));
}

#[tokio::test]
async fn an_error_that_repeats_the_password_is_not_repeated() {
    let fake = Fake::start(|request| match request.header("authorization") {
        None => Reply::new(401, &[("www-authenticate", "Basic")], ""),
        Some(header) => Reply::new(
            403,
            &[],
            format!(r#"{{"errors":[{{"code":"DENIED","message":"{PASSWORD} {header}"}}]}}"#),
        ),
    })
    .await;
    let error = pull_as(&fake, Some(credentials(&fake.name()))).await.unwrap_err();
    assert!(matches!(&error, Error::Refused { detail, .. } if detail.is_empty()), "{error:?}");
}
