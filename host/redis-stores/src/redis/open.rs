//! New connections to servers, and asking several servers at once. Every wait is bounded.

use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client};
use tokio::time::timeout;

use super::QueryError;

/// A new connection to the server of that client.
pub(super) async fn open(client: &Client, limit: Duration) -> Result<MultiplexedConnection, QueryError> {
    // The timeouts are ours: of connecting here, of answers with each query.
    let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
    let connecting = client.get_multiplexed_async_connection_with_config(&config);
    match timeout(limit, connecting).await {
        Ok(connected) => connected.map_err(QueryError::from),
        Err(_elapsed) => Err(QueryError::Timeout(limit)),
    }
}

/// Asks everybody at once and gives the answers that came within `limit`, or fewer when those are `enough`;
/// and why somebody did not answer.
pub(super) async fn ask_all<T, F>(
    asked: Vec<F>,
    limit: Duration,
    enough: impl Fn(&[T]) -> bool,
) -> (Vec<T>, Option<QueryError>)
where
    F: Future<Output = Result<T, QueryError>>,
{
    let mut asked: FuturesUnordered<_> = asked.into_iter().map(|ask| timeout(limit, ask)).collect();
    let (mut answers, mut failure) = (Vec::new(), None);
    while let Some(answer) = asked.next().await {
        match answer {
            Ok(Ok(answer)) => answers.push(answer),
            Ok(Err(error)) => failure = Some(error),
            Err(_elapsed) => {
                failure.get_or_insert(QueryError::Timeout(limit));
            }
        }
        if enough(&answers) {
            break;
        }
    }
    (answers, failure)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use futures::future::{pending, ready};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_does_not_answer_is_waited_for_only_while_there_is_not_enough() {
        let limit = Duration::from_millis(500);
        let began = tokio::time::Instant::now();
        let asked = || vec![ready(Ok(1)).boxed(), pending().boxed(), ready(Ok(1)).boxed()];
        let (answers, failure) = ask_all(asked(), limit, |answers| answers.len() > 1).await;
        assert_eq!((answers, failure, began.elapsed()), (vec![1, 1], None, Duration::ZERO));
        let (answers, failure) = ask_all(asked(), limit, |answers| answers.len() > 2).await;
        assert_eq!((answers, failure), (vec![1, 1], Some(QueryError::Timeout(limit))));
        assert_eq!(began.elapsed(), limit);
    }
}
