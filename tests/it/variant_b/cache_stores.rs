//! The cache on Redis is emptied by an administrator and from the command line, and what others keep there
//! stays. What makes two questions one, which results are kept, and that equal questions of one moment
//! run the agent once, is tested beside the cache in `host/run-service`.

use acceptance::{Ended, Model, Redis, Service, Token, eventually, says};
use redis::AsyncCommands as _;
use redis::aio::MultiplexedConnection;
use serde_json::json;

async fn connect(redis: &Redis) -> MultiplexedConnection {
    let client = redis::Client::open(redis.url()).unwrap();
    client.get_multiplexed_async_connection().await.unwrap()
}

async fn keys(connection: &mut MultiplexedConnection) -> Vec<String> {
    connection.keys("agent:*").await.unwrap()
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
async fn an_administrator_and_the_command_line_empty_the_cache() {
    let (model, redis) = (Model::openai().await, Redis::start().await);
    model.always(|_| says("hello"));
    let service = Service::variant_b().model(&model).redis(&redis).start().await;
    let mut connection = connect(&redis).await;
    fill(&service, &mut connection).await;
    let key = keys(&mut connection).await.remove(0);
    let admin = service.user(Token::of("root").admin());
    assert_eq!(admin.invalidate(&key).await.json(), json!({ "deleted": 1 }));
    let command = || Service::command(&["cache", "invalidate", "agent:*"]).redis(&redis);
    let Ended { code, stdout, stderr } = command().run().await;
    assert_eq!((code, stdout.as_str()), (Some(0), "2\n"), "it says how many they were: {stderr}");
    assert_eq!(keys(&mut connection).await, [] as [&str; 0]);
    check_that_others_are_there(&mut connection).await;
    let Ended { code, stdout, .. } = command().run().await;
    assert_eq!((code, stdout.as_str()), (Some(0), "0\n"));
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
