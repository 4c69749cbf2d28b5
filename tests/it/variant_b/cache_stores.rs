//! The cache on Redis: what is there under which key and for how long, and what happens without Redis.

use acceptance::{Ended, Model, Redis, Service, Token, eventually, says};
use redis::AsyncCommands as _;
use redis::aio::MultiplexedConnection;
use serde_json::{Value, json};

async fn connect(redis: &Redis) -> MultiplexedConnection {
    let client = redis::Client::open(redis.url()).unwrap();
    client.get_multiplexed_async_connection().await.unwrap()
}

async fn keys(connection: &mut MultiplexedConnection) -> Vec<String> {
    connection.keys("agent:*").await.unwrap()
}

#[tokio::test]
async fn a_result_is_kept_for_an_hour_under_the_hash_of_its_question() {
    let (model, redis) = (Model::openai().await, Redis::start().await);
    model.says("hello");
    let service = Service::variant_b().model(&model).redis(&redis).start().await;
    let result = service.user(Token::of("u")).result_of("hi").await;
    let mut connection = connect(&redis).await;
    let keys = eventually("the result to be kept", async || {
        Some(keys(&mut connection).await).filter(|keys| !keys.is_empty())
    });
    let keys = keys.await;
    let [key] = keys.as_slice() else { panic!("one key: {keys:?}") };
    let hash = key.strip_prefix("agent:").unwrap();
    assert!(hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()), "{key}");
    let seconds: i64 = connection.ttl(key).await.unwrap();
    assert!((3500..=3600).contains(&seconds), "{seconds}");
    let kept: String = connection.get(key).await.unwrap();
    let kept: Value = serde_json::from_str(&kept).expect("the result is kept as JSON");
    assert_eq!((&kept["id"], &kept["output"]), (&result["id"], &json!("hello")));
}

#[tokio::test]
async fn processes_on_one_redis_share_their_results() {
    let (model, redis) = (Model::openai().await, Redis::start().await);
    model.says("hello");
    let start = || Service::variant_b().model(&model).redis(&redis).start();
    let (one, two) = tokio::join!(start(), start());
    let token = Token::of("u");
    let fresh = one.user(&token).result_of("hi").await;
    let kept = two.user(&token).result_of("hi").await;
    assert_eq!((&fresh["cached"], &kept["cached"]), (&json!(false), &json!(true)));
    assert_eq!(fresh["id"], kept["id"]);
}

#[tokio::test]
async fn what_cannot_be_read_is_a_miss() {
    let (model, redis) = (Model::openai().await, Redis::start().await);
    model.says("one").says("two").says("three");
    let service = Service::variant_b().model(&model).redis(&redis).start().await;
    let user = service.user(Token::of("u"));
    user.result_of("hi").await;
    let mut connection = connect(&redis).await;
    // The result is kept behind the answer.
    let key = eventually("the result to be kept", async || keys(&mut connection).await.pop()).await;
    for (garbage, output) in [("no JSON", "two"), (r#"{"another":"shape"}"#, "three")] {
        let _: () = connection.set(&key, garbage).await.unwrap();
        let result = user.result_of("hi").await;
        assert_eq!((&result["output"], &result["cached"]), (&json!(output), &json!(false)));
        // The result is kept behind the answer, and then stands in the place of the garbage.
        eventually("the result to be kept", async || {
            let kept: String = connection.get(&key).await.unwrap();
            kept.contains(output).then_some(())
        })
        .await;
    }
}

/// What stands beside the cache on the same server.
const OTHERS: [&str; 4] = ["agents", "bull:agent-tasks:x", "session:agent:1", "rl:ip:agent:"];

/// Puts some results into the cache and some keys beside it.
async fn fill(service: &Service, connection: &mut MultiplexedConnection) {
    for query in ["one", "two", "three"] {
        service.user(Token::of(query)).result_of(query).await;
    }
    // The results are kept behind the answers.
    eventually("three results to be kept", async || (keys(connection).await.len() == 3).then_some(())).await;
    for key in OTHERS {
        let _: () = connection.set(key, "somebody else's").await.unwrap();
    }
}

async fn check_that_others_are_there(connection: &mut MultiplexedConnection) {
    for key in OTHERS {
        assert!(connection.exists::<_, bool>(key).await.unwrap(), "{key} is gone");
    }
}

#[tokio::test]
async fn invalidation_deletes_what_matches_and_nothing_of_others() {
    let (model, redis) = (Model::openai().await, Redis::start().await);
    model.always(|_| says("hello"));
    let service = Service::variant_b().model(&model).redis(&redis).start().await;
    let mut connection = connect(&redis).await;
    fill(&service, &mut connection).await;
    let admin = service.user(Token::of("root").admin());
    let key = keys(&mut connection).await.remove(0);
    for (pattern, deleted) in [(key.as_str(), 1), ("*", 2), ("*", 0)] {
        let answer = admin.invalidate(pattern).await;
        assert_eq!(answer.json(), json!({ "deleted": deleted }), "{pattern}: {answer}");
    }
    assert_eq!(keys(&mut connection).await, [] as [&str; 0]);
    check_that_others_are_there(&mut connection).await;
}

#[tokio::test]
async fn the_command_line_empties_the_cache_as_well() {
    let (model, redis) = (Model::openai().await, Redis::start().await);
    model.always(|_| says("hello"));
    let service = Service::variant_b().model(&model).redis(&redis).start().await;
    let mut connection = connect(&redis).await;
    fill(&service, &mut connection).await;
    let command = || Service::command(&["cache", "invalidate", "agent:*"]).redis(&redis);
    let Ended { code, stdout, stderr } = command().run().await;
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.contains('3'), "it says how many they were: {stdout}");
    assert_eq!(keys(&mut connection).await, [] as [&str; 0]);
    check_that_others_are_there(&mut connection).await;
    let Ended { code, stdout, .. } = command().run().await;
    assert_eq!(code, Some(0));
    assert!(stdout.contains('0'), "{stdout}");
}

#[tokio::test]
async fn the_command_line_says_why_it_cannot_empty_the_cache() {
    let without = Service::command(&["cache", "invalidate", "agent:*"]).run().await;
    assert_eq!(without.code, Some(1));
    assert!(without.stderr.contains("REDIS_URL"), "{}", without.stderr);
    let nobody = acceptance::ReservedPort::take();
    let address = format!("redis://:hunter2@{}", nobody.address());
    let unreachable =
        Service::command(&["cache", "invalidate", "agent:*"]).env("REDIS_URL", address).run().await;
    assert_eq!(unreachable.code, Some(1), "{}", unreachable.stdout);
    assert!(
        !unreachable.stderr.is_empty() && !unreachable.stderr.contains("hunter2"),
        "{}",
        unreachable.stderr
    );
    assert_eq!(Service::command(&["cache", "invalidate"]).run().await.code, Some(2), "a pattern is missing");
}

#[tokio::test]
async fn without_redis_questions_are_answered_all_the_same() {
    let (model, mut redis) = (Model::openai().await, Redis::start().await);
    model.always(|_| says("hello"));
    let service = Service::variant_b().model(&model).redis(&redis).start().await;
    let user = service.user(Token::of("u"));
    assert_eq!(user.result_of("hi").await["cached"], false);
    redis.pause().await;
    // A result that is on its way to Redis is answered from memory, so each question is another one.
    for question in ["hi again", "and again"] {
        assert_eq!(user.result_of(question).await["cached"], false);
    }
    service.log().entry("a warning", |entry| entry["level"] == "WARN").await;
    redis.resume().await;
    eventually("the kept result to be found again", async || {
        // Each question is of another user, or one window would fill.
        let user = service.user(Token::of(acceptance::now().to_string()));
        let answer = user.agent("hi").await;
        (answer.status == 200 && answer.json()["cached"] == true).then_some(())
    })
    .await;
}
