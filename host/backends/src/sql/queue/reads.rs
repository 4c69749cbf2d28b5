//! Reads of single jobs in SQLite: those that wait at the same time are one statement.
//!
//! Who waits for jobs reads them when they end, and they end several at a time, with one commit. Each
//! statement by itself would wake a thread of SQLite's, which wakes the reader again, and that costs more
//! than what is read.
//!
//! Whoever comes first asks for all that wait then, and answers them; who comes meanwhile waits for the next
//! statement. So it begins after everybody whom it answers has come, and sees what was committed before.
//!
//! A read that was begun has to be polled until it ends or dropped, because its turn comes whether it is
//! polled or not.

use parking_lot::Mutex;
use std::collections::HashMap;

use agent_core::ports::QueueError;
use tokio::sync::oneshot;

use super::rows::JobRow;
use super::statements;
use crate::sql::error::describe;
use crate::sql::{Sqlite, answer};

/// Most jobs of one statement.
const MOST_AT_ONCE: usize = 256;

type Answer = Result<Option<JobRow>, QueueError>;

/// The reads of a process.
#[derive(Debug, Default)]
pub(super) struct JobReads {
    waiting: Mutex<Vec<Reader>>,
    /// Whoever has it asks.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct Reader {
    job_id: String,
    answer: oneshot::Sender<Answer>,
}

impl JobReads {
    /// The job's row, if there is one.
    pub(super) async fn read(&self, pools: &Sqlite, job_id: &str) -> Answer {
        loop {
            let (answer, mut answered) = oneshot::channel();
            self.waiting.lock().push(Reader { job_id: job_id.to_owned(), answer });
            loop {
                let turn = tokio::select! {
                    biased;
                    answer = &mut answered => match answer {
                        Ok(answer) => return answer,
                        Err(_) => break,
                    },
                    turn = self.turn.lock() => turn,
                };
                match answered.try_recv() {
                    Ok(answer) => return answer,
                    Err(oneshot::error::TryRecvError::Closed) => break,
                    Err(oneshot::error::TryRecvError::Empty) => {}
                }
                self.answer_next(pools).await;
                drop(turn);
            }
            // Whoever asked for us was dropped before there was an answer.
        }
    }

    /// Asks for those who wait longest.
    async fn answer_next(&self, pools: &Sqlite) {
        let mut readers = {
            let mut waiting = self.waiting.lock();
            let count = waiting.len().min(MOST_AT_ONCE);
            waiting.drain(..count).collect::<Vec<_>>()
        };
        readers.retain(|reader| !reader.answer.is_closed());
        let rows: sqlx::Result<Vec<JobRow>> = match &*readers {
            [] => return,
            [one] => {
                answer(sqlx::query_as(statements::READ).bind(&one.job_id).fetch_all(pools.readers())).await
            }
            several => {
                let ids: Vec<_> = several.iter().map(|reader| &reader.job_id).collect();
                // Writing the ids cannot fail: texts are JSON.
                let ids = serde_json::to_string(&ids).unwrap_or_default();
                answer(
                    sqlx::query_as(statements::READ_SEVERAL_IN_SQLITE).bind(ids).fetch_all(pools.readers()),
                )
                .await
            }
        };
        let rows: Result<HashMap<_, _>, _> = rows
            .map(|rows| rows.into_iter().map(|row| (row.id.clone(), row)).collect())
            .map_err(|error| QueueError::Store { detail: describe(&error) });
        for Reader { job_id, answer } in readers {
            let row = rows.as_ref().map(|rows: &HashMap<String, JobRow>| rows.get(&job_id).cloned());
            let _nobody_waits_any_more = answer.send(row.map_err(Clone::clone));
        }
    }
}
